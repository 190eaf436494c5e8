"""How tests wait for conditions, how long, and how slow the machine was meanwhile.

A wait is for a condition, and MAX_WAIT only ends a test that hangs. Where a deadline is the very thing under
test, a Yardstick beside it tells a slow machine from a daemon that is late.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from tests.spent import spending

T = TypeVar("T")
MIN_PAUSE, MAX_PAUSE = 0.005, 0.05
"""Seconds between two looks: a tenth of the time that was waited already, within these."""
MAX_WAIT = 60.0
"""Seconds after which waiting for a condition is given up."""
_BURSTS = """
import select, sys, time
PAUSE, BURST = 0.045, 0.005
print(flush=True)
count, stretched, worst, rested_at = 0, 0.0, 0.0, time.monotonic()
is_over = False
while not is_over:
    is_over = bool(select.select([sys.stdin], [], [], PAUSE)[0])
    began_at, used = time.monotonic(), time.process_time()
    while time.process_time() - used < BURST:
        pass
    now = time.monotonic()
    count, stretched = count + 1, stretched + now - began_at
    worst, rested_at = max(worst, now - rested_at - PAUSE - BURST), now
print(stretched / (count * BURST), worst)
"""


class Yardstick:
    """A process that works for 5 ms every 50 ms while entered, which takes longer where others work, too."""

    slowdown = 1.0
    """How many times as long its work took as on a processor of its own."""
    worst = 0.0
    """Seconds by which it came late once."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BURSTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        said, _ = self._process.communicate("", timeout=MAX_WAIT)
        self.slowdown, self.worst = map(float, said.split())

    def allows(self, seconds: float) -> float:
        """Return what takes so many seconds at most, on this machine as it was while we were entered."""
        return seconds * max(1.0, self.slowdown) + self.worst


async def until(condition: Callable[[], T | None], deadline: float = MAX_WAIT) -> T:
    """Wait for a condition to give something true, and return that; TimeoutError when it does not in time."""

    async def looked() -> T | None:
        return condition()

    return await until_found(looked, deadline)


async def until_found(look: Callable[[], Awaitable[T | None]], deadline: float = MAX_WAIT) -> T:
    """Wait like `until`, where looking means asking somebody."""
    began = time.monotonic()
    with spending("waiting"):
        while True:
            found = await look()
            if found:
                return found
            waited = time.monotonic() - began
            if waited > deadline:
                raise TimeoutError(f"not within {deadline} s, last seen: {found!r}")
            await asyncio.sleep(min(max(MIN_PAUSE, waited / 10), MAX_PAUSE))


async def until_equal(
    ask: Callable[[], Awaitable[object]], wanted: object, deadline: float = MAX_WAIT
) -> None:
    """Wait like `until`, where somebody is to say just this."""
    said: object = None

    async def is_said() -> bool:
        nonlocal said
        said = await ask()
        return said == wanted

    try:
        await until_found(is_said, deadline)
    except TimeoutError:
        raise AssertionError(f"wanted {wanted!r}, last seen: {said!r}") from None
