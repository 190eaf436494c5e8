"""Kept connections: which is taken, how long and how many are kept, and that all are closed at the end."""

import asyncio
from collections.abc import Callable

import pytest

from tests.unit.fakes.network import FakeLoop, FakeTransport, connected
from tests.unit.loop_turns import quiet
from webhook_dispatcher.transport.connection import HttpConnection
from webhook_dispatcher.transport.pool import _MAX_APART, Pool

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
HERE, THERE = "https://here.example.org:443", "https://there.example.org:443"


class Connections:
    """A pool, and connections that it watches."""

    def __init__(self, most: int = 10) -> None:
        self.loop = FakeLoop()
        self.pool = Pool(self.loop.real, most)

    def make(self, origin: str = HERE) -> tuple[HttpConnection, FakeTransport]:
        wire, transport = connected(self.loop, origin, self.pool.forget)
        self.pool.add(wire)
        return wire, transport

    def keep(self, origin: str = HERE) -> tuple[HttpConnection, FakeTransport]:
        wire, transport = self.make(origin)
        self.pool.put(wire)
        return wire, transport


@pytest.fixture
def connections() -> Connections:
    return Connections()


def test_the_newest_of_an_origin_is_taken_and_only_once(connections: Connections) -> None:
    older, newer, other = connections.keep()[0], connections.keep()[0], connections.keep(THERE)[0]
    taken = [connections.pool.take(HERE) for _ in range(3)]
    assert taken == [newer, older, None]
    assert connections.pool.take(THERE) is other
    assert connections.pool.idle == []


def test_each_idle_connection_is_given_up_after_15_seconds(connections: Connections) -> None:
    wire, first = connections.keep()
    connections.loop.advance(10)
    _, second = connections.keep(THERE)
    were_aborted = []
    for seconds in (4.9, 0.2, 9.8, 0.2):
        connections.loop.advance(seconds)
        were_aborted.append((first.is_aborted, second.is_aborted))
        if first.is_aborted:
            wire.connection_lost(None)
    assert were_aborted == [(False, False), (True, False), (True, False), (True, True)]
    assert (connections.pool.take(HERE), connections.pool.take(THERE)) == (None, None)


def test_what_has_been_idle_too_long_is_not_taken_even_if_no_timer_rang(connections: Connections) -> None:
    _, transport = connections.keep()
    connections.loop.now += 15
    assert connections.pool.take(HERE) is None
    assert transport.is_aborted


def test_being_used_begins_the_time_anew(connections: Connections) -> None:
    wire, transport = connections.keep()
    for _ in range(4):
        connections.loop.advance(10)
        assert connections.pool.take(HERE) is wire
        connections.pool.put(wire)
    assert not transport.is_aborted


def test_no_more_are_kept_than_allowed_and_a_lost_one_makes_room() -> None:
    connections = Connections(most=2)
    wires = [connections.keep() for _ in range(3)]
    assert [transport.is_aborted for _, transport in wires] == [False, False, True]
    wires[0][0].connection_lost(None)
    assert connections.pool.idle == [wires[1][0]]
    last, transport = connections.keep()
    assert not transport.is_aborted
    assert [connections.pool.take(HERE) for _ in range(3)] == [last, wires[1][0], None]


def test_a_connection_that_closed_is_neither_kept_nor_taken(connections: Connections) -> None:
    wire, transport = connections.make()
    transport.abort()
    connections.pool.put(wire)
    assert connections.pool.idle == []
    _, closing = connections.keep()
    closing.abort()
    assert connections.pool.take(HERE) is None


def test_a_connection_that_has_something_to_read_is_not_taken(connections: Connections) -> None:
    quiet_one, _ = connections.keep()
    _, transport = connections.keep()
    transport.buffers.is_unread = True
    assert connections.pool.take(HERE) is quiet_one
    assert transport.is_aborted


def test_origins_that_are_not_used_any_more_are_forgotten(connections: Connections) -> None:
    for number in range(100):
        wire, _ = connections.keep(f"https://{number}.example.org:443")
        assert connections.pool.take(wire.origin) is wire
    connections.keep()
    connections.loop.advance(15)
    assert len(connections.pool._by_origin) <= 1


async def test_closing_ends_all_connections_and_waits_for_them(connections: Connections) -> None:
    idle, first = connections.keep()
    busy, second = connections.make()
    closing = asyncio.create_task(connections.pool.close())
    await quiet()
    assert (first.is_aborted, second.is_aborted) == (True, True)
    idle.connection_lost(None)
    await quiet()
    assert not closing.done()
    busy.connection_lost(None)
    await quiet()
    assert closing.done()


@pytest.mark.parametrize("is_new", [True, False])
async def test_nothing_is_kept_by_a_closed_pool(connections: Connections, is_new: bool) -> None:
    wire, transport = connected(connections.loop, HERE, connections.pool.forget)
    await connections.pool.close()
    if is_new:
        connections.pool.add(wire)
    else:
        connections.pool.put(wire)
    assert transport.is_aborted


BEHIND = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"


def speaks(data: bytes) -> Callable[[HttpConnection, FakeLoop], None]:
    return lambda wire, _: wire.data_received(data)


def long_answer(wire: HttpConnection, loop: FakeLoop) -> None:
    """Its rest is not waited for, and may be given to the connection that was closed just then."""
    answers(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nx")(wire, loop)
    wire.data_received(b"x")


def answers(data: bytes) -> Callable[[HttpConnection, FakeLoop], None]:
    def answer(wire: HttpConnection, loop: FakeLoop) -> None:
        waiter = wire.send(b"POST / HTTP/1.1\r\n\r\n", b"", loop.now + 10)
        waiter.add_done_callback(asyncio.Future.exception)
        wire.data_received(data)

    return answer


@pytest.mark.parametrize(
    ("behave", "is_apart"),
    [
        (speaks(OK), True),
        (speaks(b"HTTP/1.1 408 Request Timeout\r\n\r\n"), False),
        (answers(BEHIND), True),
        (answers(OK + b"\r\n"), True),
        (answers(OK + b"<html>"), True),
        (answers(b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n"), True),
        (answers(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), False),
        (answers(b"HTTP/1.1 503 No\r\nContent-Length: 5\r\n\r\nno"), False),
        (answers(b"gibberish"), False),
        (long_answer, False),
    ],
)
async def test_where_more_is_sent_than_answers_no_connection_is_kept_for_ten_minutes(
    connections: Connections, behave: Callable[[HttpConnection, FakeLoop], None], is_apart: bool
) -> None:
    beside, elsewhere, (wire, _) = connections.keep()[1], connections.keep(THERE)[1], connections.make()
    behave(wire, connections.loop)
    wire.connection_lost(None)
    assert (beside.is_aborted, elsewhere.is_aborted) == (is_apart, False)
    was_kept = []
    for seconds in (0, 599, 2):
        connections.loop.advance(seconds)
        was_kept.append(not connections.keep()[1].is_aborted)
    assert was_kept == [not is_apart, not is_apart, True]


def test_only_so_many_origins_are_remembered_to_be_set_apart(connections: Connections) -> None:
    for number in range(_MAX_APART + 1):
        wire, _ = connections.make(f"https://a{number}.example.org:443")
        wire.data_received(OK)
        wire.connection_lost(None)
    kept = [not connections.keep(f"https://a{number}.example.org:443")[1].is_aborted for number in (0, 1)]
    assert kept == [True, False]
