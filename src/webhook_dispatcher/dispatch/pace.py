"""Loops and waiting: one thing done again and again until stopped; waits that grow; how often to poll."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import StorageError
from webhook_dispatcher.telemetry.metrics import Metrics

REST_FACTOR = 20
"""A tick of a loop that limits its load is followed by a rest that is at least so many times as long."""
FIRST_WAIT = 0.05
LONGEST_WAIT = 2.0
SOON = 0.001
"""The shortest time between two looks, in seconds: what comes meanwhile is found together."""
LOOKS_PER_FIND = 8
"""Looks between one that found something and the next, as far as SOON and the poll interval allow."""
LATE = 0.01
"""Seconds; an event loop that turns to what was due later than that has as much to do as it can."""

_log = structlog.get_logger()

Tick = Callable[[], Awaitable[bool | None]]
"""Does one thing once. True: there is more to do, so the next tick follows without a rest."""


async def pause(seconds: float | None, wake: asyncio.Event | None = None) -> None:
    """Wait until `wake` is set, or for so many seconds; None waits for `wake` alone."""
    if wake is None and seconds is not None:
        # A time-out around an event that nobody sets costs twice as much, at each look for work.
        await asyncio.sleep(seconds)  # noqa: TID251
        return
    try:
        async with asyncio.timeout(seconds):
            await (wake or asyncio.Event()).wait()
    except TimeoutError:
        return


class Stop:
    """Tells loops to end, and cuts their waits short."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._wakes: list[asyncio.Event] = []

    def set(self) -> None:
        """Ask every loop to end."""
        self._event.set()
        for wake in self._wakes:
            wake.set()

    def sets(self, wake: asyncio.Event) -> None:
        """Set this event as well: whoever waits for it is not kept from ending."""
        self._wakes.append(wake)
        if self.is_set():
            wake.set()

    def is_set(self) -> bool:
        """Tell whether loops should end."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until asked to end."""
        await self._event.wait()

    async def wait_at_most(self, seconds: float) -> None:
        """Wait, unless asked to end."""
        await pause(seconds, self._event)


@dataclass(frozen=True, slots=True)
class Interval:
    """How long a loop rests after a tick.

    seconds_after_failure: after one that the database refused; None: as after any other.
    limits_load: the slower a tick, the longer the rest: ticks take a twentieth of the time at most.
    """

    seconds: float
    seconds_after_failure: float | None = None
    limits_load: bool = False

    def rest(self, took: float, has_failed: bool) -> float:
        """Return the seconds to rest after a tick that took so many."""
        seconds = self.seconds
        if has_failed and self.seconds_after_failure is not None:
            seconds = self.seconds_after_failure
        return max(seconds, REST_FACTOR * took) if self.limits_load else seconds


async def every(
    interval: Interval,
    tick: Tick,
    failure: str,
    clock: Clock,
    metrics: Metrics,
    stop: Stop,
    wake: asyncio.Event | None = None,
) -> None:
    """Call `tick` until stopped, with a rest between two calls.

    failure: the name under which a StorageError is logged before the loop goes on, as in "sweep.failed". What
        stands before its dot is the label under which it is counted.
    wake: ends a rest; set during a tick, it ends the rest that follows. This function clears it.

    Errors: whatever else `tick` raises.
    """
    wake = wake or asyncio.Event()
    stop.sets(wake)
    while not stop.is_set():
        wake.clear()  # before the tick: a wake-up during it must survive
        started = clock.elapsed()
        has_more, has_failed = False, False
        try:
            has_more = bool(await tick())
        except StorageError as error:
            metrics.database_errors.labels(failure.partition(".")[0]).inc()
            _log.warning(failure, error=str(error))
            has_failed = True
        if not has_more:
            await pause(interval.rest(clock.elapsed() - started, has_failed), wake)


class Backoff:
    """Waits that double after each failure, up to `longest` seconds."""

    def __init__(self, longest: float = LONGEST_WAIT) -> None:
        self._longest = longest
        self._wait = FIRST_WAIT

    def next(self) -> float:
        """Return the next wait in seconds."""
        wait = self._wait
        self._wait = min(self._wait * 2, self._longest)
        return wait

    def reset(self) -> None:
        """Begin anew after a success."""
        self._wait = FIRST_WAIT


class AdaptivePoller:
    """How long to wait before looking again: a small part of the time in which something is found usually.

    At least half as long as the last look took: a database or a processor that is busy is asked less often.
    """

    def __init__(self, clock: Clock, longest: float) -> None:
        self._clock = clock
        self._longest = longest
        self._soon = min(SOON, longest)
        self._usual_gap = LOOKS_PER_FIND * longest
        self._found_at = clock.elapsed() - self._usual_gap
        self.lateness = 0.0

    @property
    def is_behind(self) -> bool:
        """Tell whether the event loop came late to the end of the last rest."""
        return self.lateness > LATE

    def found(self) -> None:
        """Learn that something was found: the usual gap follows the gaps, by half of the difference each."""
        now = self._clock.elapsed()
        gap = min(now - self._found_at, LOOKS_PER_FIND * self._longest)
        self._usual_gap = (self._usual_gap + gap) / 2
        self._found_at = now

    def next(self, took: float) -> float:
        """Return the next wait in seconds, after a look that took so long."""
        # Where nothing was found for longer than usual, what was usual is over.
        gap = max(self._usual_gap, self._clock.elapsed() - self._found_at)
        return max(self._soon, min(max(gap / LOOKS_PER_FIND, took / 2), self._longest))

    async def rest(self, seconds: float, wake: asyncio.Event) -> None:
        """Wait a moment, so that what comes is dealt with together; then for the rest, or until `wake`."""
        asked = self._clock.elapsed()
        await pause(self._soon)
        # Turns differ: one that was quick says little after one that was slow.
        self.lateness = max(self._clock.elapsed() - asked - self._soon, self.lateness / 2)
        await pause(seconds - self._soon, wake)
