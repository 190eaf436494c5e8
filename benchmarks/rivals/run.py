"""One measured run of a rival: from a line on standard input until the last event is finished.

Says `{"ready": true}` when everything is connected; the end of standard input ends it, whether done or not,
so that it never outlives who started it.
"""

import asyncio
import gc
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

PATIENCE = 15.0
"""Seconds after the end of standard input within which what is in flight may end."""


class Run:
    """Counts what is finished; times are this process's own.

    events: how many there are to be; None: go on until standard input ends.
    tunes_collector: set the garbage collector as webhook-dispatcher sets its own once it is connected.
    """

    def __init__(self, events: int | None, *, tunes_collector: bool = True) -> None:
        self._events = events
        self._tunes_collector = tunes_collector
        self._finished = 0
        self._seconds = self._cpu_seconds = 0.0
        self.over = asyncio.Event()

    async def start(self) -> None:
        """Say that all is ready, wait to be let go, and start the clocks."""
        loop = asyncio.get_running_loop()
        let_go: asyncio.Future[None] = loop.create_future()
        # A thread: a poller does not take every kind of file that may stand at standard input.
        threading.Thread(target=self._read_input, args=(loop, let_go), daemon=True).start()
        if self._tunes_collector:
            gc.collect()
            gc.freeze()
            gc.set_threshold(10_000, 20, 100)
        say({"ready": True})
        await let_go
        self._started_at = time.monotonic()
        self._cpu_before = _cpu_seconds()

    def _read_input(self, loop: asyncio.AbstractEventLoop, let_go: asyncio.Future[None]) -> None:
        """Read what comes, in a thread of its own; until the first line nothing is started."""
        is_waiting = True
        # Not sys.stdin, whose lock a thread that still reads holds when the interpreter ends.
        while text := os.read(0, 4096):
            if is_waiting and b"\n" in text:
                is_waiting = False
                loop.call_soon_threadsafe(let_go.set_result, None)
        if is_waiting:
            os._exit(1)
        with suppress(RuntimeError):  # the loop is closed: the run has ended by itself
            loop.call_soon_threadsafe(self.over.set)
        # Whoever started us may be gone, and a hanging receiver could hold us for minutes.
        time.sleep(PATIENCE)
        os._exit(1)

    def finished(self, number: int = 1) -> None:
        """Count events that have been posted and whose end the database knows."""
        self._finished += number
        if self._finished == self._events:
            self._seconds = time.monotonic() - self._started_at
            self._cpu_seconds = _cpu_seconds() - self._cpu_before
            self.over.set()

    async def until_over(
        self, working: Sequence[asyncio.Task[None]], stop: Callable[[], object] | None = None
    ) -> None:
        """Let tasks work until the run is over or one of them fails, then stop them and wait for them.

        stop: asks them to end; without, they are cancelled. Raises what one of them raised.
        """
        ended = asyncio.create_task(asyncio.wait(working, return_when=asyncio.FIRST_EXCEPTION))
        over = asyncio.create_task(self.over.wait())
        await asyncio.wait({ended, over}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        over.cancel()
        if stop is not None:
            stop()
        else:
            for task in working:
                task.cancel()
        for result in await asyncio.gather(*working, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def report(self) -> None:
        """Print what was measured. Raises SystemExit if the run was broken off or counted too many."""
        if self._events is None:
            return
        if self._finished != self._events:
            raise SystemExit(f"{self._finished} of {self._events} events were finished")
        say({"seconds": self._seconds, "cpu_seconds": self._cpu_seconds, "events": self._events})


def say(line: dict[str, object]) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
