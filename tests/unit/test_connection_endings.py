"""One connection: when an exchange ends, how, and whether another one may follow."""

import ssl

import pytest

from tests.unit.fakes.network import ORIGIN, TIMEOUT, FakeLoop, FakeTransport, connected, sent
from webhook_dispatcher.transport.connection import HttpConnection
from webhook_dispatcher.transport.failures import Disconnected, Expired, HandshakeFailed, Phase

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


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


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: "])
async def test_an_exchange_ends_at_its_deadline(loop: FakeLoop, said: bytes) -> None:
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


@pytest.mark.parametrize("seconds", [TIMEOUT, 1])
async def test_each_exchange_has_a_deadline_of_its_own(loop: FakeLoop, seconds: float) -> None:
    wire, transport, waiter = sent(loop)
    wire.data_received(OK)
    assert await waiter == 200
    loop.advance(TIMEOUT / 2)
    second = wire.send(b"POST / HTTP/1.1\r\n\r\n", b"", loop.now + seconds)
    loop.advance(seconds - 0.001)
    assert not second.done()
    loop.advance(0.001)
    with pytest.raises(Expired):
        await second
    assert transport.is_aborted


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n", CHUNKED], ids=["length", "chunks"]
)
async def test_the_rest_of_a_small_body_is_waited_for_only_a_moment(loop: FakeLoop, head: bytes) -> None:
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


async def test_a_body_is_not_waited_for_beyond_the_deadline(loop: FakeLoop) -> None:
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
    lost: list[HttpConnection] = []
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


async def test_an_idle_connection_that_the_receiver_closes_is_closed() -> None:
    wire, transport = connected(FakeLoop())
    wire.eof_received()
    assert transport.is_aborted


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


async def test_a_request_on_a_closed_connection_fails_at_once(loop: FakeLoop) -> None:
    wire, transport = connected(loop)
    transport.abort()
    with pytest.raises(Disconnected):
        await wire.send(b"", b"", loop.now + TIMEOUT)
    assert transport.written == []


async def test_a_write_that_fails_ends_the_exchange() -> None:
    class Broken(FakeTransport):
        def write(self, data: object) -> None:
            raise RuntimeError("the handler is closed")

    loop, transport = FakeLoop(), Broken()
    wire = HttpConnection(loop.real, ORIGIN, transport.buffers, lambda _: None)
    wire.connection_made(transport)
    with pytest.raises(RuntimeError):
        await wire.send(b"", b"", loop.now + TIMEOUT)
    assert transport.is_aborted
    loop.advance(TIMEOUT)


@pytest.mark.parametrize("where", ["transport", "buffers"])
async def test_a_connection_whose_request_was_not_received_is_not_used_again(where: str) -> None:
    """What is left in the transport's buffer, or in TLS's and the kernel's, would stand before the next."""
    wire, transport, waiter = sent(FakeLoop())
    if where == "transport":
        transport.unwritten = 1
    else:
        transport.buffers.bytes_unreceived = 1
    wire.data_received(OK[:-1])
    transport.buffers.bytes_unreceived = 0
    wire.data_received(OK[-1:])
    assert await waiter == 200
    assert transport.is_aborted


@pytest.mark.parametrize(("requests", "unreceived", "counts"), [(2, 20, False), (2, 19, True), (1, 20, True)])
async def test_what_was_sent_before_the_request_was_received_is_no_answer_to_it(
    loop: FakeLoop, requests: int, unreceived: int, counts: bool
) -> None:
    """It may be to the one before; on a fresh connection there was none."""
    wire, transport = connected(loop)
    for _ in range(requests):
        waiter = wire.send(b"POST / HTTP/1.1\r\n\r\n", b"1", loop.now + TIMEOUT)
        if wire.requests == requests:
            transport.buffers.bytes_unreceived = unreceived
        wire.data_received(OK)
    assert transport.is_aborted
    assert wire.is_stale is not counts
    if counts:
        assert await waiter == 200
    else:
        with pytest.raises(Disconnected):
            await waiter


@pytest.mark.parametrize(
    ("requests", "status", "after", "is_stale"),
    [(2, 408, 1.0, True), (2, 408, 1.1, False), (1, 408, 0, False), (2, 503, 0, False)],
)
async def test_a_408_on_a_reused_connection_crossed_the_request(
    loop: FakeLoop, requests: int, status: int, after: float, is_stale: bool
) -> None:
    wire, transport = connected(loop)
    for _ in range(requests - 1):
        waiter = wire.send(b"", b"", loop.now + TIMEOUT)
        wire.data_received(OK)
        assert await waiter == 200
        assert not wire.is_stale
    waiter = wire.send(b"", b"", loop.now + TIMEOUT)
    loop.advance(after)
    wire.data_received(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status)
    assert (await waiter, wire.is_stale) == (status, is_stale)
    assert transport.is_aborted is (status == 408)


class FakeTls:
    """What TLS says of a connection."""

    def __init__(self, version: str, has_ticket: bool) -> None:
        self._version = version
        self.session = self
        self.has_ticket = has_ticket

    def version(self) -> str:
        return self._version


@pytest.mark.parametrize(
    ("tls", "error", "expected"),
    [
        (FakeTls("TLSv1.3", False), None, HandshakeFailed),
        (FakeTls("TLSv1.3", False), ConnectionResetError(), HandshakeFailed),
        (FakeTls("TLSv1.3", False), ssl.SSLError(), ssl.SSLError),
        (FakeTls("TLSv1.3", True), None, Disconnected),
        (FakeTls("TLSv1.3", True), ConnectionResetError(), ConnectionResetError),
        (FakeTls("TLSv1.2", False), None, Disconnected),
        (None, None, Disconnected),
    ],
)
async def test_a_handshake_that_the_receiver_never_confirmed_is_what_failed(
    loop: FakeLoop, tls: FakeTls | None, error: Exception | None, expected: type[Exception]
) -> None:
    wire, _ = connected(loop, tls=tls)
    waiter = wire.send(b"", b"", loop.now + TIMEOUT)
    wire.connection_lost(error)
    with pytest.raises(expected) as raised:
        await waiter
    assert error is None or error in (raised.value, raised.value.__cause__)


async def test_a_handshake_is_confirmed_by_an_answer(loop: FakeLoop) -> None:
    wire, _ = connected(loop, tls=FakeTls("TLSv1.3", False))
    waiter = wire.send(b"", b"", loop.now + TIMEOUT)
    wire.data_received(OK)
    assert await waiter == 200
    waiter = wire.send(b"", b"", loop.now + TIMEOUT)
    wire.connection_lost(None)
    with pytest.raises(Disconnected):
        await waiter


async def test_what_comes_after_a_cancelled_exchange_harms_nobody(loop: FakeLoop) -> None:
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
