"""Waiting: for an event, at most so long; ever longer after failures; and for others, after an absence."""

import asyncio

FIRST_WAIT = 0.05
LONGEST_WAIT = 2.0
RECORD_WAIT = 0.5
"""The longest wait of whoever writes outcomes: shorter than HEAD_START."""
HEAD_START = 1.0
"""Seconds for which nothing is claimed when the database is back."""
SHORT_ABSENCE = 0.5
"""Seconds; what failed for no longer than this outlasts no lease that matters."""


async def pause(seconds: float | None, wake: asyncio.Event | None = None) -> None:
    """Wait until `wake` is set, or for so many seconds; None waits for `wake` alone."""
    waiting = wake or asyncio.Event()
    try:
        async with asyncio.timeout(seconds):
            await waiting.wait()
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


class Absence:
    """The database's absence, and a head start for the recorders of all daemons when it is back.

    Leases may have lapsed meanwhile. Who claims such a lane before its holder has written the last outcome
    sends that event again; so nobody claims until everybody has had the time to write.

    trouble: what was last said about it; empty while it answers.
    """

    def __init__(self) -> None:
        self.trouble = ""
        self._since: float | None = None
        self._felt_until = 0.0

    def failed(self, now: float, error: Exception) -> None:
        """Learn that the database did not do what it was asked."""
        self.trouble = str(error)
        if self._since is None:
            self._since = now

    def ended(self, now: float) -> None:
        """Learn that it did."""
        if self._since is not None and now - self._since > SHORT_ABSENCE:
            self._felt_until = now + HEAD_START
        self._since = None
        self.trouble = ""

    def is_felt(self, now: float) -> bool:
        """Tell whether claiming must wait: from the absence on, until the head start is over."""
        is_away = self._since is not None and now - self._since > SHORT_ABSENCE
        return is_away or now < self._felt_until
