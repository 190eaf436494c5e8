"""One thing done again and again: when it rests, what it says when the database fails, and how it ends."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from tests.unit.fakes.clock import FakeClock
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.pace import REST_FACTOR, Interval, Stop, every
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.telemetry.metrics import Metrics

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Noted(Interval):
    """Notes after what a loop rests, and has it rest for no time."""

    rests: list[tuple[float, bool]] = field(default_factory=list)

    def rest(self, took: float, has_failed: bool) -> float:
        self.rests.append((took, has_failed))
        return 0.0


class Loop:
    """A loop whose ticks do, one after the other, what is asked for; it is stopped in the last one."""

    def __init__(self, *ticks: Callable[[], bool | None]) -> None:
        self.clock, self.metrics, self.stop, self.wake = FakeClock(), Metrics("test"), Stop(), asyncio.Event()
        self._ticks = list(ticks)
        self.count = 0

    async def tick(self) -> bool | None:
        self.count += 1
        if self.count == len(self._ticks):
            self.stop.set()
        return self._ticks[self.count - 1]()

    async def run(self, interval: Interval) -> None:
        async with asyncio.timeout(MAX_WAIT):
            await every(interval, self.tick, "sweep.failed", self.clock, self.metrics, self.stop, self.wake)

    def counted(self) -> float | None:
        return self.metrics.registry.get_sample_value("webhook_database_errors_total", {"operation": "sweep"})


def nothing() -> None:
    return None


def fail() -> None:
    raise StorageUnavailable("away")


async def test_a_loop_rests_after_each_tick() -> None:
    loop, interval = Loop(nothing, lambda: False, nothing), Noted(1.0)
    await loop.run(interval)
    assert (loop.count, interval.rests) == (3, [(0.0, False)] * 3)


async def test_a_rest_goes_by_how_long_the_tick_took() -> None:
    loop, interval = Loop(nothing), Noted(1.0)
    loop._ticks = [lambda: loop.clock.advance(3.0)]
    await loop.run(interval)
    assert interval.rests == [(3.0, False)]


async def test_a_tick_that_left_something_to_do_is_followed_by_the_next_without_a_rest() -> None:
    loop, interval = Loop(lambda: True, lambda: True, nothing), Noted(1.0)
    await loop.run(interval)
    assert (loop.count, len(interval.rests)) == (3, 1)


async def test_a_database_that_fails_is_logged_and_counted_and_asked_again() -> None:
    loop, interval = Loop(fail, nothing), Noted(1.0)
    with capture_logs() as logs:
        await loop.run(interval)
    assert logs == [{"event": "sweep.failed", "error": "away", "log_level": "warning"}]
    assert (loop.counted(), interval.rests) == (1, [(0.0, True), (0.0, False)])


async def test_any_other_error_ends_the_loop() -> None:
    loop = Loop(lambda: bool(1 // 0), nothing)
    with pytest.raises(ZeroDivisionError):
        await loop.run(Noted(1.0))
    assert (loop.count, loop.counted()) == (1, None)


@pytest.mark.parametrize(
    ("before", "first_tick", "while_resting", "count"),
    [
        pytest.param([], None, ["stop"], 1, id="a stop ends a rest at once"),
        pytest.param([], "stop", [], 1, id="a stop during a tick ends the loop without a rest"),
        pytest.param(["stop"], None, [], 0, id="a loop that is stopped before it begins does nothing"),
        pytest.param([], None, ["wake"], 2, id="whoever wakes a loop ends its rest"),
        pytest.param([], "wake", [], 2, id="a wake-up during a tick is not lost"),
        pytest.param(["wake"], None, ["stop"], 1, id="what was asked for before the tick, the tick has done"),
    ],
)
async def test_what_ends_a_rest(
    before: list[str], first_tick: str | None, while_resting: list[str], count: int
) -> None:
    loop = Loop(nothing, nothing)
    tell: dict[str | None, Callable[[], None]] = {None: nothing, "stop": loop.stop.set, "wake": loop.wake.set}
    for name in before:
        tell[name]()
    loop._ticks[0] = tell[first_tick]
    for name in while_resting:
        asyncio.get_running_loop().call_soon(tell[name])
    await loop.run(Interval(HOUR))
    assert loop.count == count


async def test_a_loop_without_anybody_to_wake_it_ends_when_stopped() -> None:
    loop = Loop(nothing, nothing)
    asyncio.get_running_loop().call_soon(loop.stop.set)
    async with asyncio.timeout(MAX_WAIT):
        await every(Interval(HOUR), loop.tick, "sweep.failed", loop.clock, loop.metrics, loop.stop)
    assert loop.count == 1


def test_a_stop_that_came_first_wakes_whoever_waits() -> None:
    stop, wake = Stop(), asyncio.Event()
    stop.set()
    stop.sets(wake)
    assert wake.is_set()


@pytest.mark.parametrize(
    ("interval", "took", "has_failed", "rest"),
    [
        (Interval(2.0), 100.0, False, 2.0),
        (Interval(2.0), 100.0, True, 2.0),
        (Interval(60.0, seconds_after_failure=1.0), 0.0, False, 60.0),
        (Interval(60.0, seconds_after_failure=1.0), 0.0, True, 1.0),
        (Interval(2.0, limits_load=True), 0.01, False, 2.0),
        (Interval(2.0, limits_load=True), 1.0, False, REST_FACTOR),
        (Interval(2.0, limits_load=True), 1.0, True, REST_FACTOR),
    ],
)
def test_how_long_a_loop_rests(interval: Interval, took: float, has_failed: bool, rest: float) -> None:
    assert interval.rest(took, has_failed) == rest
