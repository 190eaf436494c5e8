"""The client of the charge service over real sockets: what arrives there, and what broken answers become."""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import h11
import pytest
import trustme
from aiohttp import AsyncResolver
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.network.name_server import SERVFAIL, addresses, serving
from tests.network.name_server import Reply as NameReply
from tests.network.raw_receiver import OK, Behaviour, Conversation, RawReceiver, Request, answering, status
from tests.servers.database import free_port
from tests.unit.builders import PUBLISHED
from tests.waiting import MAX_WAIT, until
from webhook_dispatcher.api.charge_service import upstream as module
from webhook_dispatcher.api.charge_service.upstream import (
    Unaddressable,
    Upstream,
    UpstreamRequest,
    derived_key,
)
from webhook_dispatcher.api.charge_service.upstream_answers import (
    Forwarded,
    Reply,
    UpstreamAway,
    UpstreamBroken,
    UpstreamTooSlow,
)
from webhook_dispatcher.transport import renewal

SOON = timedelta(seconds=0.3)
MAX_BYTES = 100_000
FINE = status("201 Created", body=b'{"id": 1}')
HEADERS = {
    *("host", "service-merchant-id", "x-request-id", "accept", "accept-encoding", "accept-language"),
    *("user-agent", "content-type", "idempotency-key", "content-length"),
}
NASTY = st.text(
    st.sampled_from("a/.%\\?#&=;:@ \r\n\t\0\x7f\x85é\N{HOT BEVERAGE}2fF") | st.characters(), max_size=30
)

NASTY_IDS = NASTY.filter(lambda text: not re.search("[\ud800-\udfff]", text))
"""As they reach us: from the database, and checked."""


def charge(**changes: object) -> UpstreamRequest:
    """Ask for a charge, unless told otherwise."""
    facts: dict[str, Any] = {"method": "POST", "template": "/v1/charges", "parameters": {}}
    facts |= {"merchant_id": "merchant-1", "request_id": "r1", "language": "uz"}
    facts |= {"body": b'{"amount": 1}', "idempotency_key": "k1"}
    return UpstreamRequest(**(facts | changes))


@asynccontextmanager
async def forwarding(url: str, timeout: timedelta = timedelta(seconds=MAX_WAIT)) -> AsyncIterator[Upstream]:
    async with Upstream(url, PUBLISHED, "test/1", timeout=timeout, max_answer_bytes=MAX_BYTES) as upstream:
        yield upstream


async def reply_to(
    behave: Callable[[Request], Awaitable[None]], timeout: timedelta = timedelta(seconds=MAX_WAIT)
) -> Reply:
    """Forward one request to who behaves so."""
    async with RawReceiver(behave) as receiver, forwarding(receiver.url(""), timeout) as upstream:
        return await upstream.forward(charge())


async def test_the_request_is_the_clients_body_and_headers_of_ours() -> None:
    async with RawReceiver(answering(FINE)) as receiver, forwarding(receiver.url("/partner")) as upstream:
        body = b'{"amount": 1.10, "amount": 2}'
        assert await upstream.forward(charge(body=body)) == Forwarded(201, b'{"id": 1}')
        [request] = receiver.requests
        assert request.line == b"POST /partner/v1/charges HTTP/1.1"
        assert request.body == body
        assert request.headers == {
            "host": f"127.0.0.1:{receiver.port}",
            "service-merchant-id": "merchant-1",
            "x-request-id": "r1",
            "accept": "application/json",
            "accept-encoding": "identity",
            "accept-language": "uz",
            "user-agent": "test/1",
            "content-type": "application/json; charset=utf-8",
            "idempotency-key": "k1",
            "content-length": str(len(body)),
        }


async def test_a_mebibyte_is_sent_whole_and_in_one_piece() -> None:
    body = b'"' + b"x" * ((1 << 20) - 2) + b'"'
    async with RawReceiver(answering(FINE)) as receiver, forwarding(receiver.url("")) as upstream:
        assert isinstance(await upstream.forward(charge(body=body)), Forwarded)
        assert receiver.requests[0].body == body


def read_requests(raw: bytes) -> list[tuple[h11.Request, bytes]]:
    """Read what arrived as a strict server does; what is left over or cut short is an error."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(raw)
    found: list[tuple[h11.Request, bytes]] = []
    body = b""
    while True:
        match connection.next_event():
            case h11.Request() as request:
                found.append((request, b""))
            case h11.Data(data=data):
                body += data
            case h11.EndOfMessage():
                found[-1] = (found[-1][0], body)
                assert connection.trailing_data[0] == b"", "a second request was smuggled in"
                return found
            case event:
                raise AssertionError(f"{event} after {raw!r}")


class Recorder:
    """An upstream that keeps every byte, and answers when nothing more comes."""

    def __init__(self) -> None:
        self.raw = b""

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.raw += data
            # Whatever came is answered, so that what is sent behind it would come too.
            if b"\r\n\r\n" in self.raw:
                writer.write(FINE)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    card=NASTY,
    query=st.lists(st.tuples(NASTY, NASTY), max_size=3),
    merchant=NASTY_IDS.filter(bool),
    request_id=NASTY_IDS,
    key=NASTY,
    body=st.binary(max_size=200)
    | st.just(b"\r\n\r\nPOST /v1/charges HTTP/1.1\r\nHost: a\r\n\r\n")
    | st.none(),
    method=st.sampled_from(("POST", "GET", "PUT", "PATCH", "DELETE")),
)
def test_whatever_a_client_sends_exactly_one_request_arrives(
    card: str,
    query: list[tuple[str, str]],
    merchant: str,
    request_id: str,
    key: str,
    body: bytes | None,
    method: str,
) -> None:
    asked = UpstreamRequest(
        method=method,
        template="/v1/cards/{id}/confirm",
        merchant_id=merchant,
        request_id=request_id,
        language="en",
        parameters={"id": card},
        query=query,
        body=body,
        idempotency_key=derived_key("c1", method, card, key),
    )
    raw = asyncio.run(recorded(asked))
    if raw is None:
        return
    [(request, arrived)] = read_requests(raw)
    path, _, _ = request.target.decode().partition("?")
    assert unquote(path) == f"/v1/cards/{card}/confirm"
    assert path.count("/") == 4
    assert arrived == (body or b"")
    names = [name.decode().lower() for name, _ in request.headers]
    assert len(names) == len(set(names))
    assert set(names) <= HEADERS
    assert unquote(dict(request.headers)[b"service-merchant-id"].decode()) == merchant


async def recorded(asked: UpstreamRequest) -> bytes | None:
    """Return every byte that one request made arrive, until the connection's end; None if none was made."""
    recorder = Recorder()
    async with RawReceiver(converse=recorder.converse) as receiver:
        try:
            async with forwarding(receiver.url("")) as upstream:
                assert isinstance(await upstream.forward(asked), Forwarded)
        except Unaddressable:
            assert recorder.raw == b""
            return None
        await until(lambda: not receiver._tasks or None)
    return recorder.raw


async def test_connections_are_kept_and_not_more_than_allowed() -> None:
    """Twenty at once over two connections."""
    async with (
        RawReceiver(answering(FINE)) as receiver,
        Upstream(receiver.url(""), PUBLISHED, "test/1", max_connections=2) as upstream,
    ):
        replies = await asyncio.gather(*(upstream.forward(charge()) for _ in range(20)))
        assert {type(reply) for reply in replies} == {Forwarded}
        assert len(receiver.requests) == 20
        assert receiver.connections == 2


async def test_a_redirect_is_not_followed() -> None:
    async with RawReceiver(answering(OK)) as elsewhere:
        reply = await reply_to(answering(status("307 Moved", f"Location: {elsewhere.url('')}")))
        assert isinstance(reply, UpstreamBroken)
        assert elsewhere.connections == 0


async def test_neither_proxies_nor_passwords_of_the_environment_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with RawReceiver(answering(FINE)) as receiver, RawReceiver(answering(OK)) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url(""))
        async with forwarding(receiver.url("")) as upstream:
            assert isinstance(await upstream.forward(charge()), Forwarded)
        assert (receiver.connections, proxy.connections) == (1, 0)


async def test_cookies_are_not_kept() -> None:
    told = status("200 OK", "Set-Cookie: session=1; Path=/", body=b"{}")
    # By name: cookies of addresses are not kept in any case.
    async with (
        RawReceiver(answering(told)) as receiver,
        forwarding(receiver.url("", host="localhost")) as upstream,
    ):
        for _ in range(2):
            await upstream.forward(charge())
        assert ["cookie" in request.headers for request in receiver.requests] == [False, False]


async def test_nobody_there_cannot_have_acted() -> None:
    async with forwarding(f"http://127.0.0.1:{free_port()}") as upstream:
        reply = await upstream.forward(charge())
    assert reply == UpstreamAway("ClientConnectorError", may_have_acted=False)


async def test_who_does_not_take_connections_cannot_have_acted() -> None:
    with socket.socket() as full, ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        # The queue of connections that nobody accepts has one place, so the second is not answered.
        for _ in range(2):
            other = waiting.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        async with forwarding(f"http://127.0.0.1:{full.getsockname()[1]}", SOON) as upstream:
            reply = await upstream.forward(charge())
    assert isinstance(reply, UpstreamAway)
    assert not reply.may_have_acted


async def closes(request: Request) -> None:
    request.close()


async def resets(request: Request) -> None:
    request.reset()


async def breaks_off(request: Request) -> None:
    await request.answer(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"id"')
    request.close()


async def breaks_off_a_chunk(request: Request) -> None:
    await request.answer(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{"id"')
    request.close()


@pytest.mark.parametrize("behave", [closes, resets, breaks_off, breaks_off_a_chunk])
async def test_who_goes_away_after_the_request_may_have_acted(
    behave: Callable[[Request], Awaitable[None]],
) -> None:
    reply = await reply_to(behave)
    assert isinstance(reply, UpstreamAway)
    assert reply.may_have_acted


async def hangs(request: Request) -> None:
    await asyncio.Event().wait()


async def hangs_after_its_head(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
    await hangs(request)


async def continues_for_ever(request: Request) -> None:
    while True:
        await request.answer(b"HTTP/1.1 100 Continue\r\n\r\n")
        await asyncio.sleep(0.01)


async def dribbles(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        await request.answer(b" ")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("behave", [hangs, hangs_after_its_head, continues_for_ever, dribbles])
async def test_all_of_it_has_one_deadline(behave: Callable[[Request], Awaitable[None]]) -> None:
    reply = await reply_to(behave, SOON)
    assert reply == UpstreamTooSlow("it gave no complete answer in time")


async def test_who_waits_for_a_connection_in_vain_has_sent_nothing() -> None:
    async with (
        RawReceiver(hangs) as receiver,
        Upstream(receiver.url(""), PUBLISHED, "test/1", max_connections=1) as upstream,
    ):
        holder = asyncio.ensure_future(upstream.forward(charge()))
        await until(lambda: receiver.requests)
        upstream._timeout = SOON.total_seconds()
        assert await upstream.forward(charge()) == UpstreamAway("TimeoutError", may_have_acted=False)
        assert len(receiver.requests) == 1
        holder.cancel()
        await asyncio.gather(holder, return_exceptions=True)


async def announces_too_much(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n")


async def endless(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await request.answer(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")


async def endless_headers(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\n")
    while True:
        await request.answer(b"X-Filler: " + b"x" * 1000 + b"\r\n")


HUGE = status("200 OK", body=b'"' + b"x" * 20 * MAX_BYTES + b'"')


@pytest.mark.parametrize("behave", [answering(HUGE), announces_too_much, endless, endless_headers])
async def test_what_is_too_large_is_not_read_to_its_end(
    behave: Callable[[Request], Awaitable[None]],
) -> None:
    async with RawReceiver(behave) as receiver, forwarding(receiver.url("")) as upstream:
        assert isinstance(await upstream.forward(charge()), UpstreamBroken)
        # The connection is not used again, since the rest is still on its way.
        await until(lambda: not receiver._tasks or None)


async def test_what_is_just_not_too_large_is_passed() -> None:
    body = b'"' + b"x" * (MAX_BYTES - 2) + b'"'
    assert await reply_to(answering(status("200 OK", body=body))) == Forwarded(200, body)


@pytest.mark.parametrize(
    "octets",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"220 mail.example ESMTP\r\n\r\n",
        b"HTTP/1.1 2OO OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"0" * 5000 + b"2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nA: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
async def test_what_is_no_proper_answer_is_broken(octets: bytes) -> None:
    async def behave(request: Request) -> None:
        await request.answer(octets)
        request.close()

    assert isinstance(await reply_to(behave), UpstreamBroken)


async def test_an_answer_that_came_uninvited_is_nobodys() -> None:
    """A second answer behind the first must not be taken for that to the next request of another."""
    stray = status("200 OK", body=b'{"secret of": "another"}')

    async def behave(request: Request) -> None:
        await request.answer(FINE + (stray if len(receiver.requests) == 1 else b""))

    async with RawReceiver(behave) as receiver, forwarding(receiver.url("")) as upstream:
        for merchant in ("merchant-1", "merchant-2"):
            reply = await upstream.forward(charge(merchant_id=merchant))
            assert reply == Forwarded(201, b'{"id": 1}')


def closing_kept_connections(receiver: list[int]) -> Conversation:
    """Answer the first request of the first connection, and close that when the second request comes."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver.append(0)
        is_first = len(receiver) == 1
        while await reader.readuntil(b"\r\n\r\n"):
            receiver[-1] += 1
            if is_first and receiver[-1] == 2:
                return
            writer.write(FINE)

    return converse


@pytest.mark.parametrize(("method", "requests"), [("GET", [2, 1]), ("POST", [2])])
async def test_on_a_kept_connection_that_breaks_only_what_is_idempotent_is_sent_again(
    method: str, requests: list[int]
) -> None:
    arrived: list[int] = []
    async with (
        RawReceiver(converse=closing_kept_connections(arrived)) as receiver,
        forwarding(receiver.url("")) as upstream,
    ):
        replies = [await upstream.forward(charge(method=method, body=None)) for _ in range(2)]
        assert isinstance(replies[0], Forwarded)
        again = Forwarded(201, b'{"id": 1}')
        assert replies[1] == (again if method == "GET" else UpstreamAway("ServerDisconnectedError", True))
        assert arrived == requests


async def test_a_client_that_leaves_takes_its_connection_with_it() -> None:
    async with RawReceiver(hangs) as receiver, forwarding(receiver.url("")) as upstream:
        asking = asyncio.ensure_future(upstream.forward(charge()))
        await until(lambda: receiver.requests)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not upstream._session.connector._acquired  # type: ignore[union-attr]


async def test_authorities_that_are_exchanged_on_disk_count_for_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca_file, authority, stranger = tmp_path / "ca.pem", trustme.CA(), trustme.CA()
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    authority.cert_pem.write_to_path(ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    async with RawReceiver(answering(FINE), context) as receiver, forwarding(receiver.url("")) as upstream:
        replies = []
        for content in (authority.cert_pem.bytes(), b"half of a", stranger.cert_pem.bytes()):
            ca_file.write_bytes(content)
            replies.append(await upstream.forward(charge()))
        fine = Forwarded(201, b'{"id": 1}')
        assert replies == [fine, fine, UpstreamAway("ClientConnectorCertificateError", False)]
        assert len(receiver.requests) == 2


HOST, OLD, NEW = "charges.honest.dev", "127.0.0.1", "127.0.0.2"
AT_ONCE, NEVER = 0.0, 3600.0
AWAY = status("503 Service Unavailable")


@asynccontextmanager
async def moving(
    monkeypatch: pytest.MonkeyPatch, behave: Behaviour, then: NameReply
) -> AsyncIterator[tuple[Upstream, RawReceiver, RawReceiver]]:
    """Give a client, where the charge service is at the first look-up, and where it may be afterwards."""
    monkeypatch.setattr(module, "NAME_SECONDS", AT_ONCE)
    async with (
        RawReceiver(behave, address=OLD) as old,
        RawReceiver(answering(FINE), address=NEW, wanted_port=old.port) as new,
        serving({HOST: [addresses(OLD), then]}) as (_, server),
    ):
        monkeypatch.setattr(module, "ThreadedResolver", lambda: AsyncResolver(nameservers=[server]))
        async with forwarding(old.url("", host=HOST)) as upstream:
            yield upstream, old, new


def let_age(monkeypatch: pytest.MonkeyPatch, seconds: float, refused: float) -> None:
    monkeypatch.setattr(renewal, "_MAX_AGE_SECONDS", seconds)
    monkeypatch.setattr(renewal, "_MAX_AGE_OF_REFUSED_SECONDS", refused)


@pytest.mark.parametrize(("answer", "ages"), [(FINE, (AT_ONCE, NEVER)), (AWAY, (NEVER, AT_ONCE))])
async def test_a_charge_service_that_moves_is_followed(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, ages: tuple[float, float]
) -> None:
    let_age(monkeypatch, *ages)
    async with moving(monkeypatch, answering(answer), addresses(NEW)) as (upstream, old, new):
        for _ in range(3):
            await upstream.forward(charge())
        assert (len(old.requests), new.connections > 0) == (1, True)


async def test_a_connection_that_is_young_is_kept_whatever_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with moving(monkeypatch, answering(AWAY), addresses(NEW)) as (upstream, old, _):
        for _ in range(20):
            await upstream.forward(charge())
        assert old.connections == 1


async def test_a_connection_that_works_is_kept_while_no_other_can_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = asyncio.Event()

    async def behave(request: Request) -> None:
        if len(old.requests) == 2:
            await released.wait()
        await request.answer(FINE)

    async with moving(monkeypatch, behave, SERVFAIL) as (upstream, old, _):
        fine = await upstream.forward(charge())
        held = asyncio.create_task(upstream.forward(charge()))
        await until(lambda: len(old.requests) == 2)
        assert isinstance(await upstream.forward(charge()), UpstreamAway)
        let_age(monkeypatch, AT_ONCE, AT_ONCE)
        released.set()
        assert [await held] + [await upstream.forward(charge()) for _ in range(10)] == [fine] * 11
        assert old.connections == 1


async def test_a_name_that_was_not_found_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up, errors = socket.getaddrinfo, [socket.gaierror(socket.EAI_NONAME, "Name or service not known")]

    def ask(_host: str, *how: Any, **more: Any) -> Any:
        if errors:
            raise errors.pop()
        return look_up("127.0.0.1", *how, **more)

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    async with (
        RawReceiver(answering(FINE)) as receiver,
        forwarding(receiver.url("", host=HOST)) as upstream,
    ):
        replies = [await upstream.forward(charge()) for _ in range(2)]
        assert replies == [UpstreamAway("ClientConnectorDNSError", False), Forwarded(201, b'{"id": 1}')]
