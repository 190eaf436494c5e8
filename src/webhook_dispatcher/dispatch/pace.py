"""Waiting: for an event, at most so long; ever longer after failures; and between two looks for work."""

import asyncio

from webhook_dispatcher.domain.clock import Clock

FIRST_WAIT = 0.05
LONGEST_WAIT = 2.0
SOON = 0.001
"""The shortest time between two looks, in seconds: what comes meanwhile is found together."""
LOOKS_PER_FIND = 8
"""Looks between one that found something and the next, as far as SOON and the poll interval allow."""
LATE = 0.01
"""Seconds; an event loop that turns to what was due later than that has as much to do as it can."""


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

    def set(self) -> None:
        """Ask every loop to end."""
        self._event.set()

    def is_set(self) -> bool:
        """Tell whether loops should end."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until asked to end."""
        await self._event.wait()

    async def wait_at_most(self, seconds: float) -> None:
        """Wait, unless asked to end."""
        await pause(seconds, self._event)


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

    is_behind: the event loop came late to the end of the last rest.
    """

    def __init__(self, clock: Clock, longest: float) -> None:
        self._clock = clock
        self._longest = longest
        self._soon = min(SOON, longest)
        self._usual_gap = LOOKS_PER_FIND * longest
        self._found_at = clock.elapsed() - self._usual_gap
        self.lateness = 0.0
        self.is_behind = False

    def found(self, at: float) -> None:
        """Learn that something was found: the usual gap follows the gaps, by half of the difference each."""
        gap = min(at - self._found_at, LOOKS_PER_FIND * self._longest)
        self._usual_gap = (self._usual_gap + gap) / 2
        self._found_at = at

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
        self.is_behind = self.lateness > LATE
        await pause(seconds - self._soon, wake)
