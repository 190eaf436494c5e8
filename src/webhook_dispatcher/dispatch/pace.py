"""Waiting: for an event, at most so long; and ever longer after failures."""

import asyncio

FIRST_WAIT = 0.05
LONGEST_WAIT = 2.0


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
    """Waits that double after each failure, up to two seconds."""

    def __init__(self) -> None:
        self._wait = FIRST_WAIT

    def next(self) -> float:
        """Return the next wait in seconds."""
        wait = self._wait
        self._wait = min(self._wait * 2, LONGEST_WAIT)
        return wait

    def reset(self) -> None:
        """Begin anew after a success."""
        self._wait = FIRST_WAIT
