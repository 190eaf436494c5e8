"""How often to look for arrivals, and when the event loop has enough to do without more lanes."""

import asyncio

from tests.unit.dispatching import Office
from tests.unit.fakes import FakeClock, make_event, quiet
from tests.waiting import MAX_WAIT
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.dispatch.dispatcher import ENOUGH
from webhook_dispatcher.dispatch.pace import BUSY_FOR, LATE, SOON, Rhythm
from webhook_dispatcher.domain.verdict import Outcome

LONGEST = 0.025


def waits(rhythm: Rhythm, count: int) -> list[float]:
    return [rhythm.next(took=0.0) for _ in range(count)]


def test_where_nothing_is_found_the_waits_grow_to_the_poll_interval() -> None:
    clock = FakeClock()
    rhythm = Rhythm(clock, LONGEST)
    assert waits(rhythm, 2) == [LONGEST, LONGEST]
    rhythm.found()
    clock.advance(BUSY_FOR)
    assert waits(rhythm, 7) == [SOON, 2 * SOON, 4 * SOON, 8 * SOON, 16 * SOON, LONGEST, LONGEST]


def test_for_a_while_after_something_was_found_every_look_comes_soon() -> None:
    clock = FakeClock()
    rhythm = Rhythm(clock, LONGEST)
    rhythm.found()
    assert waits(rhythm, 5) == [SOON] * 5
    clock.advance(BUSY_FOR - SOON)
    assert waits(rhythm, 5) == [SOON] * 5


def test_while_something_is_found_the_next_look_comes_soon() -> None:
    rhythm = Rhythm(FakeClock(), LONGEST)
    for _ in range(3):
        rhythm.found()
        assert waits(rhythm, 1) == [SOON]


def test_whoever_takes_long_to_answer_is_left_alone_for_half_as_long() -> None:
    rhythm = Rhythm(FakeClock(), LONGEST)
    rhythm.found()
    assert rhythm.next(took=6 * SOON) == 3 * SOON
    rhythm.found()
    assert rhythm.next(took=4 * LONGEST) == LONGEST


def test_a_poll_interval_below_the_shortest_wait_is_kept_to() -> None:
    rhythm = Rhythm(FakeClock(), SOON / 2)
    rhythm.found()
    assert waits(rhythm, 2) == [SOON / 2, SOON / 2]


async def test_an_arrival_hastens_the_next_look() -> None:
    office = Office()
    async with office.open("m") as group:
        assert waits(office.dispatcher._rhythm, 1) == [LONGEST]
        office.database.insert(make_event(1))
        await office.dispatcher.step(group)
        assert waits(office.dispatcher._rhythm, 1) == [SOON]


async def test_a_number_taken_by_an_open_transaction_hastens_the_next_look() -> None:
    office = Office()
    async with office.open("m") as group:
        office.database.last_seq += 1
        await office.dispatcher.step(group)
        assert waits(office.dispatcher._rhythm, 1) == [SOON]


async def test_whatever_wakes_a_rest_ends_it_only_after_a_moment() -> None:
    clock, wake = SystemClock(), asyncio.Event()
    rhythm = Rhythm(clock, 60.0)
    wake.set()
    began = clock.elapsed()
    async with asyncio.timeout(MAX_WAIT):
        await rhythm.rest(60.0, wake)
    assert clock.elapsed() - began >= SOON / 2  # the loop's timers are of whole milliseconds


async def test_a_loop_that_was_kept_from_turning_is_behind() -> None:
    clock = FakeClock()
    rhythm = Rhythm(clock, LONGEST)
    asyncio.get_running_loop().call_soon(clock.advance, 3 * LATE)
    await rhythm.rest(0.0, asyncio.Event())
    assert rhythm.is_behind


async def test_one_quick_turn_after_a_slow_one_says_little() -> None:
    rhythm = Rhythm(FakeClock(), LONGEST)
    rhythm.lateness = 3 * LATE
    await rhythm.rest(0.0, asyncio.Event())
    assert rhythm.is_behind
    await rhythm.rest(0.0, asyncio.Event())
    assert not rhythm.is_behind


async def test_no_lanes_are_claimed_while_the_loop_is_behind_and_enough_are_under_way() -> None:
    office = Office(max_lanes=2 * ENOUGH)
    office.sender.gate = asyncio.Event()
    merchants = [f"m{number:03}" for number in range(ENOUGH + 1)]
    async with office.open(*merchants, "slow", "slower") as group:
        for merchant in ("slow", "slower"):
            office.instruments.standings.learn(merchant, Outcome.TIMEOUT, 10.0)
        office.database.insert(make_event(1001, "slow"), make_event(1002, "slower"))
        await office.dispatcher.step(group)
        office.database.insert(*(make_event(1100 + n, merchant) for n, merchant in enumerate(merchants[:-2])))
        await office.dispatcher.step(group)
        office.dispatcher._rhythm.lateness = 2 * LATE
        office.database.insert(make_event(1201, merchants[-2]))
        await office.dispatcher.step(group)
        assert office.dispatcher.lanes_leased == 2 + ENOUGH, "one fewer than enough, without those that hang"
        office.database.insert(make_event(1202, merchants[-1]))
        await office.dispatcher.step(group)
        assert office.dispatcher.lanes_leased == 2 + ENOUGH
        office.sender.gate.set()
        await quiet()
        await office.dispatcher.step(group)
        assert office.dispatcher.lanes_leased == 2 + ENOUGH + 1, "lanes that wait for records do not count"
