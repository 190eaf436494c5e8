"""The daemons: real processes that die, freeze and come back, each with a way of its own to the database."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.chaos.gauge import Gauge
from lab.chaos.link import Link
from tests.acceptance.processes import environment
from tests.waiting import until
from webhook_dispatcher.local.confinement import death_signal

START_DEADLINE = 40.0
"""Seconds for a daemon to start; the database may be away meanwhile."""


class Victim:
    """One place in the fleet; its process is replaced when it has died.

    durations: settings in seconds, for those of which the environment allows minutes at least.
    States: dead, alive (perhaps frozen).
    """

    def __init__(
        self, slot: int, link: Link, settings: Mapping[str, str], durations: Mapping[str, float], folder: Path
    ) -> None:
        self.slot = slot
        self.link = link
        self.gauge: Gauge
        self.may_die = False
        self._settings = settings
        self._durations = json.dumps(dict(durations))
        self._folder = folder
        self._generation = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """Return how this process calls itself in its User-Agent."""
        return f"d{self.slot}.{self._generation}"

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Tell whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Return how the process ended."""
        return None if self._process is None else self._process.poll()

    @property
    def log_file(self) -> Path:
        """Return this process's log."""
        return self._folder / f"{self.name}.log"

    async def start(self) -> None:
        """Start a process anew, and wait until it works."""
        self._generation += 1
        self.may_die = False
        file = self._folder / f"{self.name}.gauge"
        self.gauge = Gauge(file)
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lab.chaos.victim", self.name, str(file), self._durations],
                env=environment(self._settings),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                preexec_fn=death_signal(os.getpid(), signal.SIGKILL),  # a frozen one, too
            )
        await self._started()

    async def _started(self) -> None:
        ends = time.monotonic() + START_DEADLINE
        while b'"daemon.started"' not in self.log_file.read_bytes():
            if not self.alive or time.monotonic() > ends:
                raise RuntimeError(f"{self.name} did not start:\n{self.log_file.read_text()[-2000:]}")
            await asyncio.sleep(0.05)

    def order(self, text: str) -> None:
        """Tell the process what is to happen at which point."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # it has just died

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        if self.alive:
            os.kill(self.pid, number)

    def is_frozen(self) -> bool:
        """Tell whether the process is stopped."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text()
        except FileNotFoundError:
            return False
        return text.rpartition(")")[2].split()[0] == "T"

    async def died(self, seconds: float) -> bool:
        """Wait for the process's end; tell whether it came in time."""
        return await _in_time(lambda: not self.alive, seconds)

    async def froze(self, seconds: float) -> bool:
        """Wait until the process has stopped itself; tell whether it did in time."""
        return await _in_time(self.is_frozen, seconds)

    def end(self) -> None:
        """Kill the process, whatever it does."""
        self.may_die = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()


async def _in_time(condition: Callable[[], bool], seconds: float) -> bool:
    try:
        return await until(condition, seconds)
    except TimeoutError:
        return False


class Fleet:
    """All places, and a watch over those that die without having been hit."""

    def __init__(self, victims: Sequence[Victim]) -> None:
        self.victims = list(victims)
        self.deaths: list[str] = []

    def living(self) -> list[Victim]:
        """Return those that run and are not about to be killed."""
        return [victim for victim in self.victims if victim.alive and not victim.may_die]

    async def watch(self) -> None:
        """Note deaths that no fault explains, and start such a daemon again."""
        while True:
            await asyncio.sleep(0.2)
            for victim in self.victims:
                if victim.exit_code is not None and not victim.may_die:
                    tail = victim.log_file.read_text(errors="replace")[-1500:]
                    self.deaths.append(f"{victim.name} ended by itself with {victim.exit_code}: {tail}")
                    await victim.start()

    def end(self) -> None:
        """Kill what is left."""
        for victim in self.victims:
            victim.end()
