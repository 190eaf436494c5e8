"""Kept connections: which is taken, how long and how many are kept, and that all are closed at the end."""

import asyncio

import pytest

from tests.unit.fakes import quiet
from tests.unit.wires import FakeLoop, FakeTransport, connected
from webhook_dispatcher.transport.pool import Pool
from webhook_dispatcher.transport.wire import Wire

HERE, THERE = "https://here.example.org:443", "https://there.example.org:443"


class Connections:
    """A pool, and connections that it watches."""

    def __init__(self, most: int = 10) -> None:
        self.loop = FakeLoop()
        self.pool = Pool(self.loop.real, most)

    def make(self, origin: str = HERE) -> tuple[Wire, FakeTransport]:
        wire, transport = connected(self.loop, origin, self.pool.forget)
        self.pool.add(wire)
        return wire, transport

    def keep(self, origin: str = HERE) -> tuple[Wire, FakeTransport]:
        wire, transport = self.make(origin)
        self.pool.put(wire)
        return wire, transport


def test_the_newest_of_an_origin_is_taken_and_only_once() -> None:
    connections = Connections()
    older, newer, other = connections.keep()[0], connections.keep()[0], connections.keep(THERE)[0]
    taken = [connections.pool.take(HERE) for _ in range(3)]
    assert taken == [newer, older, None]
    assert connections.pool.take(THERE) is other
    assert connections.pool.idle == []


def test_an_idle_connection_is_given_up_after_15_seconds() -> None:
    connections = Connections()
    _, transport = connections.keep()
    was_aborted = []
    for seconds in (14.9, 0.2):
        connections.loop.advance(seconds)
        was_aborted.append(transport.is_aborted)
    assert was_aborted == [False, True]
    assert connections.pool.take(HERE) is None


def test_each_connection_has_its_own_15_seconds() -> None:
    connections = Connections()
    wire, first = connections.keep()
    connections.loop.advance(10)
    _, second = connections.keep(THERE)
    connections.loop.advance(6)
    assert (first.is_aborted, second.is_aborted) == (True, False)
    wire.connection_lost(None)
    connections.loop.advance(10)
    assert second.is_aborted


def test_what_has_been_idle_too_long_is_not_taken_even_if_no_timer_rang() -> None:
    connections = Connections()
    _, transport = connections.keep()
    connections.loop.now += 15
    assert connections.pool.take(HERE) is None
    assert transport.is_aborted


def test_being_used_begins_the_time_anew() -> None:
    connections = Connections()
    wire, transport = connections.keep()
    for _ in range(5):
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


def test_a_connection_that_closed_is_neither_kept_nor_taken() -> None:
    connections = Connections()
    wire, transport = connections.make()
    transport.abort()
    connections.pool.put(wire)
    assert connections.pool.idle == []
    _, closing = connections.keep()
    closing.abort()
    assert connections.pool.take(HERE) is None


def test_a_connection_that_has_something_to_read_is_not_taken() -> None:
    connections = Connections()
    quiet_one, _ = connections.keep()
    _, transport = connections.keep()
    transport.buffers.is_unread = True
    assert connections.pool.take(HERE) is quiet_one
    assert transport.is_aborted


def test_origins_that_are_not_used_any_more_are_forgotten() -> None:
    connections = Connections()
    for number in range(100):
        wire, _ = connections.keep(f"https://{number}.example.org:443")
        assert connections.pool.take(wire.origin) is wire
    connections.keep()
    connections.loop.advance(15)
    assert len(connections.pool._by_origin) <= 1


async def test_closing_ends_all_connections_and_waits_for_them() -> None:
    connections = Connections()
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
async def test_nothing_is_kept_by_a_closed_pool(is_new: bool) -> None:
    connections = Connections()
    wire, transport = connected(connections.loop, HERE, connections.pool.forget)
    await connections.pool.close()
    if is_new:
        connections.pool.add(wire)
    else:
        connections.pool.put(wire)
    assert transport.is_aborted
