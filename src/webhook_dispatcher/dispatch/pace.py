"""How loops wait: a loop that repeats a tick until stopped, waits that grow, and how often to poll."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import StorageError
from webhook_dispatcher.telemetry.metrics import Metrics

REST_FACTOR = 20
"""A loop that limits its load rests at least so many times as long as its last tick took."""
MIN_WAIT = 0.05
MAX_WAIT = 2.0
"""Seconds between which a Backoff waits, unless it is told otherwise."""
MIN_REST = 0.001
"""Seconds between two polls, at least: events that are committed meanwhile are found in one poll."""
POLLS_PER_FIND = 8
"""How many polls there should be from one find to the next, within MIN_REST and the poll interval."""
MAX_LATENESS = 0.01
"""Seconds; an event loop whose timers run later than that is overloaded."""

_log = structlog.get_logger()

Tick = Callable[[], Awaitable[bool | None]]
"""Does one thing once. True: there is more to do, so the next tick follows without a rest."""


async def sleep(seconds: float | None, wake: asyncio.Event | None = None) -> None:
    """Wait until `wake` is set, or for so many seconds; None waits for `wake` alone."""
    if wake is None and seconds is not None:
        # A time-out around an event that nobody sets costs twice as much, at each poll.
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
        """Set this event, too, when loops are asked to end: it may be what a loop waits for."""
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
        """Wait until asked to end, but no longer than so many seconds."""
        await sleep(seconds, self._event)


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
            await sleep(interval.rest(clock.elapsed() - started, has_failed), wake)


class Backoff:
    """Waits that double, as after each failure, from `min_wait` up to `max_wait` seconds."""

    def __init__(self, max_wait: float = MAX_WAIT, min_wait: float = MIN_WAIT) -> None:
        self._max_wait = max_wait
        self._min_wait = self._wait = min_wait

    def next(self) -> float:
        """Return the next wait in seconds."""
        wait = self._wait
        self._wait = min(self._wait * 2, self._max_wait)
        return wait

    def reset(self) -> None:
        """Begin anew after a success."""
        self._wait = self._min_wait


class AdaptivePoller:
    """Chooses how long to rest before the next poll: an eighth of the usual time from one find to the next.

    It rests at least half as long as the last poll took, so that a busy database or processor is polled less.

    max_rest: the poll interval, in seconds.
    lateness: by how many seconds the event loop was late at the end of the last rest's first part.
    is_overloaded: the event loop's lateness exceeds MAX_LATENESS.
    """

    def __init__(self, clock: Clock, max_rest: float) -> None:
        self._clock = clock
        self._max_rest = max_rest
        self._min_rest = min(MIN_REST, max_rest)
        self._usual_gap = POLLS_PER_FIND * max_rest
        self._found_at = clock.elapsed() - self._usual_gap
        self.lateness = 0.0
        self.is_overloaded = False

    def found(self, at: float) -> None:
        """Learn that something was found: the usual gap becomes the mean of itself and the last gap."""
        gap = min(at - self._found_at, POLLS_PER_FIND * self._max_rest)
        self._usual_gap = (self._usual_gap + gap) / 2
        self._found_at = at

    def next(self, took: float) -> float:
        """Return how many seconds to rest after a poll that took so many."""
        # If nothing has been found for longer than the usual gap, this time is the better estimate.
        gap = max(self._usual_gap, self._clock.elapsed() - self._found_at)
        return max(self._min_rest, min(max(gap / POLLS_PER_FIND, took / 2), self._max_rest))

    async def rest(self, seconds: float, wake: asyncio.Event) -> None:
        """Rest so many seconds or until `wake` is set, but MIN_REST in any case."""
        started = self._clock.elapsed()
        await sleep(self._min_rest)
        # A single rest that ended in time does not prove that the overload is over: the lateness halves.
        self.lateness = max(self._clock.elapsed() - started - self._min_rest, self.lateness / 2)
        self.is_overloaded = self.lateness > MAX_LATENESS
        await sleep(seconds - self._min_rest, wake)
