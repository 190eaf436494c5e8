"""Whose last connection was costly takes turns with others like it."""

import asyncio

from tests.unit.fakes.network import FakeLoop
from tests.unit.loop_turns import quiet
from webhook_dispatcher.transport.costly import Cost, Turns

CHEAP, COSTLY = 0.001, 0.1


class Connecting:
    """Connections that are made until the test ends them; `begun` names their origins in order."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.turns = Turns(self.loop.real)
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, origin: str, seconds: float = COSTLY) -> "asyncio.Task[None]":
        self._ends.setdefault(origin, asyncio.Event())
        self._tasks.append(asyncio.create_task(self._connect(origin, seconds)))
        return self._tasks[-1]

    async def _connect(self, origin: str, seconds: float) -> None:
        cost = Cost()
        async with self.turns.turn(origin, cost):
            self.begun.append(origin)
            await self._ends[origin].wait()
            cost.seconds += seconds

    async def end(self, origin: str) -> None:
        self._ends.pop(origin).set()
        await quiet()

    async def once(self, origin: str, seconds: float) -> None:
        """Make one connection from beginning to end."""
        self.begin(origin, seconds)
        await quiet()
        await self.end(origin)
        self.begun.clear()


async def test_cheap_ones_wait_for_nobody() -> None:
    world = Connecting()
    for number in range(10):
        world.begin(f"new{number}")
    await quiet()
    assert len(world.begun) == 10


async def test_two_costly_ones_connect_at_a_time_and_rest_for_long() -> None:
    world = Connecting()
    for name in "abc":
        await world.once(name, COSTLY)
    for name in "abc":
        world.begin(name)
    await quiet()
    assert world.begun == ["a", "b"]
    await world.end("a")
    assert world.begun == ["a", "b"], "the slot rests"
    world.loop.advance(19 * COSTLY)
    await quiet()
    assert world.begun == ["a", "b"]
    world.loop.advance(2 * COSTLY)
    await quiet()
    assert world.begun == ["a", "b", "c"]
    for name in "bc":
        await world.end(name)


async def test_who_has_become_cheap_takes_no_more_turns() -> None:
    world = Connecting()
    for name in "abc":
        await world.once(name, COSTLY)
    await world.once("c", CHEAP)
    world.loop.advance(COSTLY)
    for name in "abc":
        world.begin(name)
    await quiet()
    assert world.begun == ["a", "b", "c"]
    for name in "abc":
        await world.end(name)


async def test_who_gives_up_waiting_takes_no_slot() -> None:
    world = Connecting()
    for name in "abcd":
        await world.once(name, COSTLY)
    waiting = [world.begin(name) for name in "abcd"]
    await quiet()
    waiting[2].cancel()
    await quiet()
    await world.end("a")
    world.loop.advance(21 * COSTLY)
    await quiet()
    assert world.begun == ["a", "b", "d"]
    for name in "bd":
        await world.end(name)


async def test_no_more_than_a_thousand_are_known() -> None:
    world = Connecting()
    for number in range(1001):
        await world.once(f"{number}", COSTLY)
        world.loop.advance(21 * COSTLY)
    for name in ("1", "2", "0"):
        world.begin(name)
    await quiet()
    assert world.begun == ["1", "2", "0"]
    for name in "012":
        await world.end(name)
