"""Merchants behind one host share its connections: what one is answered must never count for another."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.integration.senders import SENDERS, kept_connection
from tests.network.misbehaviour import answers_the_head, authority, good_context
from tests.network.raw_receiver import OK, RawReceiver, Request, go_deaf, status
from webhook_dispatcher.domain.verdict import Answer
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

GUARD = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True))
REFUSAL = status("503 Service Unavailable")
LATE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def nothing() -> None:
    return None


@pytest.fixture(params=[nothing, good_context], ids=["plain", "tls"])
def context(request: pytest.FixtureRequest) -> ssl.SSLContext | None:
    make: Callable[[], ssl.SSLContext | None] = request.param
    return make()


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[Sender]:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with Sender(GUARD, timedelta(seconds=20), "test", tmp_path / "ca.pem") as sender:
        yield sender


def test_each_sender_has_its_turn(sender_class: str) -> None:
    assert Sender is SENDERS[sender_class]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 204 No Content\r\nContent-Length: %d\r\n\r\n" % len(LATE),
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: %d\r\n\r\n" % len(LATE),
        b"HTTP/1.1 103 Early Hints\r\nContent-Length: %d\r\n\r\n" % len(LATE) + OK,
        b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
        OK + b"\r\n",
    ],
    ids=["204-length", "204-chunked", "304-length", "103-length", "408", "line-end"],
)
async def test_bytes_behind_an_answer_are_no_answer_to_another_merchant(
    sender: Sender, context: ssl.SSLContext | None, head: bytes
) -> None:
    """They come 30 ms later: on a connection that was kept, while the other one's answer is waited for."""

    async def behave(request: Request) -> None:
        if request.line.startswith(b"POST /careless"):
            await request.answer(head)
            await asyncio.sleep(0.03)
            await request.answer(LATE)
        else:
            await asyncio.sleep(0.1)
            await request.answer(REFUSAL)

    async with RawReceiver(behave, context) as receiver:
        await sender.post(receiver.url("/careless"), {}, b"{}")
        assert await sender.post(receiver.url("/careful"), {}, b"{}") == Answer(503)


class StillReceiver:
    """A receiver that does nothing by itself: what it writes has arrived before our loop looks again."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}/"

    async def accept(self) -> socket.socket:
        connection, _ = await asyncio.to_thread(self._listener.accept)
        if self._context is not None:
            connection = await asyncio.to_thread(self._context.wrap_socket, connection, server_side=True)
        await asyncio.to_thread(connection.recv, 65536)
        return connection

    async def refuse(self) -> None:
        with await self.accept() as connection:
            await asyncio.to_thread(connection.sendall, REFUSAL)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def still(context: ssl.SSLContext | None) -> Iterator[StillReceiver]:
    receiver = StillReceiver(context)
    yield receiver
    receiver.close()


@pytest.mark.parametrize("is_end", [False, True], ids=["bytes", "end"])
async def test_what_the_loop_has_not_read_yet_keeps_a_connection_from_being_used(
    sender: Sender, still: StillReceiver, is_end: bool
) -> None:
    first = asyncio.ensure_future(sender.post(still.url, {}, b"{}"))
    with await still.accept() as kept:
        await asyncio.to_thread(kept.sendall, OK)
        assert await first == Answer(200)
        assert kept_connection(sender) is not None
        refusing = asyncio.ensure_future(still.refuse())
        await asyncio.sleep(0)
        # From here to the first byte of the next request the loop has no turn.
        if is_end:
            kept.shutdown(socket.SHUT_WR)
        else:
            kept.sendall(LATE)
        assert await sender.post(still.url, {}, b"{}") == Answer(503)
        await refusing
        assert await asyncio.to_thread(rest, kept) == b"", "not a byte of the second request"


def rest(connection: socket.socket) -> bytes:
    connection.settimeout(10)
    try:
        return connection.recv(65536)
    except (ConnectionError, ssl.SSLError):
        return b""


async def test_what_was_sent_before_the_request_arrived_is_no_answer_to_it(
    sender: Sender, still: StillReceiver
) -> None:
    first = asyncio.ensure_future(sender.post(still.url, {}, b"{}"))
    with await still.accept() as kept:
        await asyncio.to_thread(kept.sendall, OK)
        assert await first == Answer(200)
        assert kept_connection(sender) is not None
        go_deaf(kept)
        refusing = asyncio.ensure_future(still.refuse())
        asyncio.get_running_loop().call_later(0.03, kept.sendall, LATE)
        assert await sender.post(still.url, {}, b"{}") == Answer(503)
        await refusing


async def test_a_receiver_that_answers_early_and_reads_no_further_delays_nobody(
    sender: Sender, context: ssl.SSLContext | None
) -> None:
    converse = answers_the_head(OK, then_closes=False)
    async with RawReceiver(None, context, converse=converse) as receiver:
        for body in (bytes(4 << 20), b"{}"):
            assert await asyncio.wait_for(sender.post(receiver.url(), {}, body), 10) == Answer(200)
        assert receiver.connections == 2


@pytest.mark.parametrize("says_it_again", [False, True])
async def test_a_408_that_crosses_the_request_is_sent_again_once(
    sender: Sender, context: ssl.SSLContext | None, says_it_again: bool
) -> None:
    """The receiver gives up an idle connection just as it is used: RFC 9110, 15.5.9."""
    timeout = status("408 Request Timeout", "Connection: close")

    async def behave(request: Request) -> None:
        if len(receiver.requests) == 1:
            await request.answer(OK)
        else:
            await request.answer(timeout if len(receiver.requests) == 2 or says_it_again else OK)

    async with RawReceiver(behave, context) as receiver:
        assert await sender.post(receiver.url(), {}, b"{}") == Answer(200)
        assert await sender.post(receiver.url(), {}, b"{}") == Answer(408 if says_it_again else 200)
        assert [request.connection for request in receiver.requests] == [1, 1, 2]


async def test_a_408_that_comes_late_is_the_answer(sender: Sender) -> None:
    """A receiver that has waited for the rest of a request has not given up an idle connection."""

    async def behave(request: Request) -> None:
        if len(receiver.requests) == 1:
            await request.answer(OK)
        else:
            await asyncio.sleep(1.1)
            await request.answer(status("408 Request Timeout", "Connection: close"))

    async with RawReceiver(behave) as receiver:
        assert await sender.post(receiver.url(), {}, b"{}") == Answer(200)
        assert await sender.post(receiver.url(), {}, b"{}") == Answer(408)
        assert len(receiver.requests) == 2


async def test_a_long_body_is_not_too_much(sender: Sender, context: ssl.SSLContext | None) -> None:
    async def behave(request: Request) -> None:
        await request.answer(status("200 OK", body=bytes(200_000)) if len(receiver.requests) == 1 else OK)

    async with RawReceiver(behave, context) as receiver:
        for _ in range(4):
            assert await sender.post(receiver.url(), {}, b"{}") == Answer(200)
        assert receiver.connections == 2
