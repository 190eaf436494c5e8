"""Kept connections: that they are kept, when they are not, and what happens when one proves stale."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.integration.senders import kept_connection, watch
from tests.network.raw_receiver import OK, RawReceiver, Request, answering, status
from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

LOOPBACK = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True))
HEADERS = {"Content-Type": "application/json; charset=utf-8"}
BODY = b"{}"


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    async with Sender(LOOPBACK, timedelta(seconds=5), "test") as sender:
        yield sender


@pytest.mark.parametrize(
    "behave",
    [
        answering(OK),
        answering(status("204 No Content")),
        answering(status("500 No", body=b"x" * 3000)),
        # Unpacked, this would be too much to read.
        answering(status("200 OK", "Content-Encoding: gzip", body=gzip.compress(bytes(1_000_000)))),
    ],
)
async def test_connection_is_reused(sender: Sender, behave: object) -> None:
    assert callable(behave)
    async with RawReceiver(behave) as receiver:
        for _ in range(5):
            assert isinstance(await sender.post(receiver.url(), HEADERS, BODY), Answer)
        assert receiver.connections == 1
        assert len(receiver.requests) == 5


async def long_body_later(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    await asyncio.Event().wait()


async def test_long_body_is_not_even_begun(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook_dispatcher.transport.connection._DRAIN_SECONDS", 60)
    async with RawReceiver(long_body_later) as receiver:
        seen = await asyncio.wait_for(sender.post(receiver.url(), HEADERS, BODY), 4)
        assert seen == Answer(200)


async def test_only_one_resend(sender: Sender) -> None:
    async def behave(request: Request) -> None:
        if len(receiver.requests) == 1:
            await request.answer(OK)
        else:
            request.close()

    async with RawReceiver(behave) as receiver:
        assert await sender.post(receiver.url(), HEADERS, BODY) == Answer(200)
        assert (await sender.post(receiver.url(), HEADERS, BODY)).outcome is Outcome.DISCONNECTED
        assert len(receiver.requests) == 3


async def test_resend_takes_a_fresh_connection_not_another_kept_one(sender: Sender) -> None:
    """Three connections are kept; all of them die when used again."""
    together = asyncio.Barrier(3)

    async def behave(request: Request) -> None:
        if request.connection > 3:
            await request.answer(OK)
        elif len(receiver.requests) <= 3:
            await together.wait()
            await request.answer(OK)
        else:
            request.close()

    async with RawReceiver(behave) as receiver:
        posts = (sender.post(receiver.url(), HEADERS, BODY) for _ in range(3))
        assert await asyncio.gather(*posts) == [Answer(200)] * 3
        assert receiver.connections == 3
        assert await sender.post(receiver.url(), HEADERS, BODY) == Answer(200)
        assert [request.connection for request in receiver.requests[3:]] == [
            receiver.requests[3].connection,
            4,
        ]


@pytest.mark.parametrize("half", [b"H", b"HTTP/1.1 200 OK\r\nX-", b"HTTP/1.1 103 Early Hints\r\n\r\n"])
@pytest.mark.parametrize("ending", [Request.close, Request.reset])
async def test_half_an_answer_on_a_kept_connection_is_not_resent(
    sender: Sender, half: bytes, ending: object
) -> None:
    async def behave(request: Request) -> None:
        if len(receiver.requests) == 1:
            await request.answer(OK)
            return
        await request.answer(half)
        # Only once the bytes are there: a reset discards what the other side has not read yet.
        await asyncio.wait_for(has_arrived.wait(), MAX_WAIT)
        assert callable(ending)
        ending(request)

    async with RawReceiver(behave) as receiver:
        assert await sender.post(receiver.url(), HEADERS, BODY) == Answer(200)
        has_arrived = watch(kept_connection(sender))
        assert (await sender.post(receiver.url(), HEADERS, BODY)).outcome is Outcome.DISCONNECTED
        assert len(receiver.requests) == 2


async def test_resend_stays_within_the_deadline() -> None:
    async def behave(request: Request) -> None:
        if len(receiver.requests) == 1:
            await request.answer(OK)
        elif len(receiver.requests) == 2:
            await asyncio.sleep(0.2)
            request.close()
        else:
            await asyncio.Event().wait()

    async with RawReceiver(behave) as receiver, Sender(LOOPBACK, timedelta(seconds=0.4), "test") as sender:
        assert await sender.post(receiver.url(), HEADERS, BODY) == Answer(200)
        start = asyncio.get_running_loop().time()
        assert (await sender.post(receiver.url(), HEADERS, BODY)).outcome is Outcome.TIMEOUT
        assert asyncio.get_running_loop().time() - start < 0.55
        assert len(receiver.requests) == 3


async def test_connection_that_spoke_while_idle_is_not_used(sender: Sender) -> None:
    """HAProxy and Apache say 408 on an idle connection: that is no answer to the next request."""
    is_kept = asyncio.Event()

    async def behave(request: Request) -> None:
        await request.answer(OK)
        if len(receiver.requests) == 1:
            await asyncio.wait_for(is_kept.wait(), MAX_WAIT)
            await request.answer(status("408 Request Timeout"))

    async with RawReceiver(behave) as receiver:
        assert await sender.post(receiver.url(), HEADERS, BODY) == Answer(200)
        has_spoken = watch(kept_connection(sender))
        is_kept.set()
        await asyncio.wait_for(has_spoken.wait(), MAX_WAIT)
        assert await sender.post(receiver.url(), HEADERS, BODY) == Answer(200)
        assert receiver.connections == 2


async def test_no_more_connections_are_kept_than_allowed() -> None:
    together = asyncio.Barrier(5)

    async def behave(request: Request) -> None:
        await together.wait()
        await request.answer(OK)

    async with (
        RawReceiver(behave) as receiver,
        Sender(LOOPBACK, timedelta(seconds=5), "test", kept_connections=2) as sender,
    ):
        for _ in range(2):
            posts = (sender.post(receiver.url(), HEADERS, BODY) for _ in range(5))
            assert await asyncio.gather(*posts) == [Answer(200)] * 5
        assert receiver.connections == 8


async def test_closed_connection_makes_room_for_another_to_be_kept() -> None:
    async def behave(request: Request) -> None:
        await request.answer(status("200 OK", "Connection: close") if request.connection <= 2 else OK)

    async with (
        RawReceiver(behave) as receiver,
        Sender(LOOPBACK, timedelta(seconds=5), "test", kept_connections=1) as sender,
    ):
        for _ in range(5):
            assert await sender.post(receiver.url(), HEADERS, BODY) == Answer(200)
        assert receiver.connections == 3


async def test_attempt_in_flight_when_the_sender_closes_ends_as_our_own_fault() -> None:
    arrived = asyncio.Event()

    async def behave(request: Request) -> None:
        arrived.set()
        await asyncio.Event().wait()

    async with RawReceiver(behave) as receiver:
        async with Sender(LOOPBACK, timedelta(seconds=5), "test") as sender:
            attempt = asyncio.create_task(sender.post(receiver.url(), HEADERS, BODY))
            await asyncio.wait_for(arrived.wait(), MAX_WAIT)
        seen = await attempt
        assert isinstance(seen, Failure)
        assert seen.is_ours


async def test_cancelled_attempt_closes_its_connection() -> None:
    arrived, closed = asyncio.Event(), asyncio.Event()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        with contextlib.suppress(OSError):
            await reader.read()
        closed.set()

    async with (
        RawReceiver(converse=converse) as receiver,
        Sender(LOOPBACK, timedelta(seconds=60), "test") as patient,
    ):
        attempt = asyncio.create_task(patient.post(receiver.url(), HEADERS, BODY))
        await asyncio.wait_for(arrived.wait(), MAX_WAIT)
        attempt.cancel()
        await asyncio.wait_for(closed.wait(), MAX_WAIT)
