"""How often to look for arrivals, and when the event loop has enough to do without more lanes."""

import asyncio

import pytest

from tests.unit.builders import make_event
from tests.unit.fakes.clock import FakeClock
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.loop_turns import quiet
from tests.waiting import MAX_WAIT
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.dispatch.dispatcher import MAX_ACTIVE_LANES
from webhook_dispatcher.dispatch.pace import MAX_LATENESS, MIN_REST, POLLS_PER_FIND, AdaptivePoller
from webhook_dispatcher.domain.verdict import Outcome

LONGEST = 0.025


def found_every(poller: AdaptivePoller, clock: FakeClock, seconds: float) -> None:
    """Find something so often that this becomes usual."""
    for _ in range(20):
        clock.advance(seconds)
        poller.found(clock.elapsed())


@pytest.mark.parametrize("gap", [0.01, 0.05, 0.1])
def test_in_a_stream_there_are_several_looks_for_each_find(clock: FakeClock, gap: float) -> None:
    poller = AdaptivePoller(clock, LONGEST)
    found_every(poller, clock, gap)
    assert poller.next(took=0.0) == pytest.approx(gap / POLLS_PER_FIND, rel=0.001)


def test_a_dense_stream_is_found_in_pieces_and_a_thin_one_by_the_poll_interval(clock: FakeClock) -> None:
    poller = AdaptivePoller(clock, LONGEST)
    found_every(poller, clock, MIN_REST)
    assert poller.next(took=0.0) == MIN_REST
    found_every(poller, clock, 2 * POLLS_PER_FIND * LONGEST)
    assert poller.next(took=0.0) == pytest.approx(LONGEST)


def test_a_stream_that_ends_is_forgotten_as_time_passes(clock: FakeClock) -> None:
    poller = AdaptivePoller(clock, LONGEST)
    found_every(poller, clock, MIN_REST)
    clock.advance(POLLS_PER_FIND * 4 * MIN_REST)
    assert poller.next(took=0.0) == pytest.approx(4 * MIN_REST)
    clock.advance(POLLS_PER_FIND * LONGEST)
    assert poller.next(took=0.0) == LONGEST


def test_a_stream_after_a_quiet_hour_is_followed_from_its_first_events_on(clock: FakeClock) -> None:
    poller = AdaptivePoller(clock, LONGEST)
    clock.advance(3600)
    poller.found(clock.elapsed())
    for _ in range(6):
        clock.advance(0.01)
        poller.found(clock.elapsed())
    assert poller.next(took=0.0) < 0.005


def test_whoever_takes_long_to_answer_is_left_alone_for_half_as_long(clock: FakeClock) -> None:
    poller = AdaptivePoller(clock, LONGEST)
    found_every(poller, clock, MIN_REST)
    assert (poller.next(took=6 * MIN_REST), poller.next(took=4 * LONGEST)) == (3 * MIN_REST, LONGEST)


def test_a_poll_interval_below_the_shortest_wait_is_kept_to(clock: FakeClock) -> None:
    poller = AdaptivePoller(clock, MIN_REST / 2)
    found_every(poller, clock, MIN_REST)
    assert poller.next(took=0.0) == MIN_REST / 2


@pytest.mark.parametrize("is_committed", [True, False], ids=["events", "numbers of open transactions"])
async def test_what_arrives_hastens_the_next_look(is_committed: bool) -> None:
    harness = DispatcherHarness()
    async with harness.open("m") as group:
        for number in (1, 2):
            harness.clock.advance(MIN_REST)
            harness.database.last_seq = number
            harness.database.insert(*[make_event(number)] * is_committed)
            await harness.dispatcher.step(group)
            harness.dispatcher._tell_poller()
        assert harness.dispatcher._poller.next(took=0.0) < LONGEST


async def test_whatever_wakes_a_rest_ends_it_only_after_a_moment() -> None:
    clock, wake = SystemClock(), asyncio.Event()
    poller = AdaptivePoller(clock, 60.0)
    wake.set()
    began = clock.elapsed()
    async with asyncio.timeout(MAX_WAIT):
        await poller.rest(60.0, wake)
    assert clock.elapsed() - began >= MIN_REST / 2  # the loop's timers are of whole milliseconds


async def test_a_loop_that_was_kept_from_turning_is_overloaded(clock: FakeClock) -> None:
    poller = AdaptivePoller(clock, LONGEST)
    asyncio.get_running_loop().call_soon(clock.advance, 3 * MAX_LATENESS)
    await poller.rest(0.0, asyncio.Event())
    assert poller.is_overloaded


async def test_one_quick_turn_after_a_slow_one_says_little() -> None:
    poller = AdaptivePoller(FakeClock(), LONGEST)
    poller.lateness = 3 * MAX_LATENESS
    await poller.rest(0.0, asyncio.Event())
    assert poller.is_overloaded
    await poller.rest(0.0, asyncio.Event())
    assert not poller.is_overloaded


async def test_no_lanes_are_claimed_while_the_loop_is_overloaded_and_enough_are_under_way() -> None:
    harness = DispatcherHarness(max_lanes=2 * MAX_ACTIVE_LANES)
    harness.sender.gate = asyncio.Event()
    merchants = [f"m{number:03}" for number in range(MAX_ACTIVE_LANES + 1)]
    async with harness.open(*merchants, "slow", "slower") as group:
        for merchant in ("slow", "slower"):
            harness.instruments.health.learn(merchant, Outcome.TIMEOUT, 10.0)
        harness.database.insert(make_event(1001, "slow"), make_event(1002, "slower"))
        await harness.dispatcher.step(group)
        harness.database.insert(
            *(make_event(1100 + n, merchant) for n, merchant in enumerate(merchants[:-2]))
        )
        await harness.dispatcher.step(group)
        harness.dispatcher._poller.is_overloaded = True
        harness.database.insert(make_event(1201, merchants[-2]))
        await harness.dispatcher.step(group)
        assert harness.dispatcher.lanes_leased == 2 + MAX_ACTIVE_LANES, (
            "one fewer than enough, without those that hang"
        )
        harness.database.insert(make_event(1202, merchants[-1]))
        await harness.dispatcher.step(group)
        assert harness.dispatcher.lanes_leased == 2 + MAX_ACTIVE_LANES
        harness.sender.gate.set()
        await quiet()
        await harness.dispatcher.step(group)
        assert harness.dispatcher.lanes_leased == 2 + MAX_ACTIVE_LANES + 1, (
            "lanes that wait for records do not count"
        )
