"""One connection: what answers are taken, when an exchange ends, and whether another one may follow."""

import asyncio
import ssl

import pytest

from tests.unit.wires import FakeLoop, FakeTransport, connected
from webhook_dispatcher.transport.reading import Disconnected, Expired, Malformed, Phase
from webhook_dispatcher.transport.wire import Wire

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TIMEOUT = 10.0


def sent(loop: FakeLoop, body: bytes = b"{}") -> tuple[Wire, FakeTransport, "asyncio.Future[int]"]:
    wire, transport = connected(loop)
    return wire, transport, wire.send(b"POST / HTTP/1.1\r\n\r\n", body, loop.now + TIMEOUT)


def ok(*lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", *lines, b"", b"")) + body


@pytest.mark.parametrize(
    ("answer", "status", "is_kept"),
    [
        (OK, 200, True),
        (EMPTY, 200, True),
        (
            CONTINUE + b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9999\r\n\r\n" + OK,
            200,
            True,
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, True),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", 200, True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, True),
        (CHUNKED + b"2\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n", 200, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, False),
        (ok(b"Connection: close", b"Content-Length: 0"), 200, False),
        (ok(), 200, False),
        (ok(b"Content-Length: 4097"), 200, False),
        (ok(b"Content-Length: " + b"0" * 40 + b"1"), 200, False),
        (b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, False),
        (b"HTTP/1.1 101 Now\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n\x81", 101, False),
        (b"HTTP/1.1 101 Now\r\nContent-Length: 0\r\n\r\n", 101, False),
        # What is wrong behind the headers changes no verdict.
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" + OK, 500, False),
        (b"HTTP/1.1 204 No Content\r\n\r\nsurprise", 204, False),
        (OK + b"H", 200, False),
        (CHUNKED + b"zz\r\nx\r\n", 200, False),
    ],
    ids=lambda value: repr(value[:60]) if isinstance(value, bytes) else "",
)
async def test_an_answer_means_the_same_however_it_is_cut(answer: bytes, status: int, is_kept: bool) -> None:
    for at in range(len(answer) + 1):
        loop = FakeLoop()
        wire, transport, waiter = sent(loop)
        for piece in (answer[:at], answer[at:]):
            if piece and not transport.is_aborted:
                wire.data_received(piece)
        assert (await waiter, wire.is_idle) == (status, is_kept), at
        assert transport.is_aborted is not is_kept


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"HTTP/1.1 1000 No\r\n\r\n",
        b"HTTP/1.1 20 No\r\n\r\n",
        ok(b"X: a\0b"),
        ok(b"X: a\rb"),
        ok(b"X : a"),
        ok(b"X\xff: a"),
        ok(b"no colon"),
        ok(b"Content-Length: 2", b"Content-Length: 2"),
        ok(b"Content-Length: 2", b"Transfer-Encoding: chunked"),
        ok(b"Content-Length: -1"),
        ok(b"X: " + b"x" * 65537),
        ok(b"X" * 65537 + b": x"),
        ok(*[b"X: y"] * 1001),
        b"HTTP/1.1 200 " + b"x" * 65537 + b"\r\n\r\n",
        CONTINUE * 65 + OK,
    ],
    ids=lambda answer: repr(answer[:40]),
)
async def test_a_malformed_head_is_refused_and_ends_the_connection(answer: bytes) -> None:
    wire, transport, waiter = sent(FakeLoop())
    wire.data_received(answer)
    assert transport.is_aborted
    with pytest.raises(Malformed):
        await waiter


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"Content-Length: 0", *[b"X: y"] * 999),
        ok(b"Content-Length: 0", b"X: " + b"x" * 65536),
        CONTINUE * 64 + EMPTY,
        # Counted for each head anew.
        (b"HTTP/1.1 103 Early\r\n" + b"X: y\r\n" * 900 + b"\r\n") * 2 + EMPTY,
    ],
    ids=lambda answer: repr(answer[:40]),
)
async def test_what_is_just_within_the_limits_is_taken(answer: bytes) -> None:
    wire, _, waiter = sent(FakeLoop())
    wire.data_received(answer)
    assert await waiter == 200
    assert wire.is_idle


@pytest.mark.parametrize(
    "piece", [b"x" * 8192, b"X: y\r\n" * 1000, b"\r\nHTTP/1.1 102 P\r\nX: " + b"y" * 60_000]
)
async def test_a_head_that_does_not_end_is_given_up_after_256_kib(piece: bytes) -> None:
    wire, transport, waiter = sent(FakeLoop())
    wire.data_received(b"HTTP/1.1 102 Processing\r\nX: ")
    taken = 0
    while not transport.is_aborted:
        wire.data_received(piece)
        taken += len(piece)
        assert taken <= 256 * 1024 + len(piece)
    with pytest.raises(Malformed):
        await waiter


async def test_bytes_that_nobody_asked_for_end_an_idle_connection() -> None:
    wire, transport, waiter = sent(FakeLoop())
    wire.data_received(OK)
    assert await waiter == 200
    wire.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert transport.is_aborted
    assert not wire.is_idle


@pytest.mark.parametrize(("late", "status"), [(-0.001, 200), (0.0, None), (5.0, None)])
async def test_an_answer_counts_only_before_the_deadline(late: float, status: int | None) -> None:
    """Even if the loop stood still, so that nothing rang at the deadline."""
    loop = FakeLoop()
    wire, transport, waiter = sent(loop)
    loop.now += TIMEOUT + late
    wire.data_received(OK)
    if status is None:
        assert transport.is_aborted
        with pytest.raises(Expired):
            await waiter
    else:
        assert await waiter == status


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: "])
async def test_an_exchange_ends_at_its_deadline(said: bytes) -> None:
    loop = FakeLoop()
    wire, transport, waiter = sent(loop)
    if said:
        wire.data_received(said)
    loop.advance(TIMEOUT - 0.001)
    assert not waiter.done()
    loop.advance(0.001)
    assert transport.is_aborted
    assert wire.phase is (Phase.READING if said else Phase.WAITING)
    with pytest.raises(Expired):
        await waiter


async def test_the_deadline_of_one_exchange_does_not_end_the_next() -> None:
    loop = FakeLoop()
    wire, transport, waiter = sent(loop)
    wire.data_received(OK)
    assert await waiter == 200
    loop.advance(TIMEOUT / 2)
    second = wire.send(b"POST / HTTP/1.1\r\n\r\n", b"", loop.now + TIMEOUT)
    loop.advance(TIMEOUT - 0.001)
    assert not second.done()
    loop.advance(0.001)
    with pytest.raises(Expired):
        await second
    assert transport.is_aborted


async def test_a_shorter_deadline_rings_first() -> None:
    loop = FakeLoop()
    wire, _, waiter = sent(loop)
    wire.data_received(OK)
    assert await waiter == 200
    second = wire.send(b"", b"", loop.now + 1)
    loop.advance(1)
    with pytest.raises(Expired):
        await second


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n", CHUNKED], ids=["length", "chunks"]
)
async def test_the_rest_of_a_small_body_is_waited_for_only_a_moment(head: bytes) -> None:
    loop = FakeLoop()
    wire, transport, waiter = sent(loop)
    wire.data_received(head)
    loop.advance(0.049)
    assert not waiter.done()
    loop.advance(0.001)
    assert await waiter == 200
    assert transport.is_aborted


async def test_no_more_than_4_kib_of_a_body_are_waited_for() -> None:
    wire, transport, waiter = sent(FakeLoop())
    wire.data_received(CHUNKED)
    wire.data_received(b"2000\r\n" + b"x" * 4090)
    assert not waiter.done()
    wire.data_received(b"x")
    assert await waiter == 200
    assert transport.is_aborted


async def test_a_body_is_not_waited_for_beyond_the_deadline() -> None:
    loop = FakeLoop()
    wire, _, waiter = sent(loop)
    loop.advance(TIMEOUT - 0.01)
    wire.data_received(CHUNKED)
    loop.advance(0.01)
    assert await waiter == 200


@pytest.mark.parametrize("error", [None, ConnectionResetError(), ssl.SSLError()])
async def test_a_connection_lost_behind_the_final_head_is_an_answer(error: Exception | None) -> None:
    wire, _, waiter = sent(FakeLoop())
    wire.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
    wire.connection_lost(error)
    assert await waiter == 200


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 102 Processing\r\n\r\n", b"HTTP/1.1 200 OK\r\nX"])
@pytest.mark.parametrize("error", [None, ConnectionResetError(), ssl.SSLError()])
async def test_a_connection_lost_before_it_is_none(said: bytes, error: Exception | None) -> None:
    lost: list[Wire] = []
    loop = FakeLoop()
    wire, _ = connected(loop, on_lost=lost.append)
    waiter = wire.send(b"", b"", loop.now + TIMEOUT)
    if said:
        wire.data_received(said)
    wire.connection_lost(error)
    with pytest.raises(type(error) if error else Disconnected):
        await waiter
    assert lost == [wire]
    assert not wire.is_stale, "the first request of a connection"
    loop.advance(TIMEOUT)


async def test_an_end_without_an_answer_is_not_held_up_by_what_is_unwritten() -> None:
    wire, transport, waiter = sent(FakeLoop())
    transport.unwritten = 1
    wire.eof_received()
    assert transport.is_aborted
    with pytest.raises(Disconnected):
        await waiter


@pytest.mark.parametrize(("said", "is_stale"), [(b"", True), (b"H", False)])
async def test_a_reused_connection_is_stale_if_it_ends_without_a_byte(said: bytes, is_stale: bool) -> None:
    loop = FakeLoop()
    wire, _, waiter = sent(loop)
    wire.data_received(OK)
    assert await waiter == 200
    second = wire.send(b"", b"", loop.now + TIMEOUT)
    if said:
        wire.data_received(said)
    wire.eof_received()
    with pytest.raises(Disconnected):
        await second
    assert wire.is_stale is is_stale


async def test_a_request_on_a_closed_connection_fails_at_once() -> None:
    loop = FakeLoop()
    wire, transport = connected(loop)
    transport.abort()
    with pytest.raises(Disconnected):
        await wire.send(b"", b"", loop.now + TIMEOUT)
    assert transport.written == []


async def test_a_connection_whose_request_is_not_written_is_not_used_again() -> None:
    """The receiver answered without reading it; what is left would stand before the next request."""
    wire, transport, waiter = sent(FakeLoop())
    transport.unwritten = 1
    wire.data_received(OK)
    assert await waiter == 200
    assert transport.is_aborted


async def test_what_comes_after_a_cancelled_exchange_harms_nobody() -> None:
    loop = FakeLoop()
    wire, transport, waiter = sent(loop)
    waiter.cancel()
    wire.abort()
    wire.data_received(OK)
    wire.connection_lost(None)
    loop.advance(TIMEOUT)
    assert transport.is_aborted


@pytest.mark.parametrize(("size", "writes"), [(0, 1), (16384, 1), (16385, 2)])
async def test_a_request_is_one_write_unless_its_body_is_large(size: int, writes: int) -> None:
    body = bytes(size)
    _, transport, _ = sent(FakeLoop(), body)
    assert len(transport.written) == writes
    assert b"".join(transport.written) == b"POST / HTTP/1.1\r\n\r\n" + body
