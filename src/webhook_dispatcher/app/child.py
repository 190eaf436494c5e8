"""A process of the supervisor at its place: how it is started, heard, told to end and found to have ended.

It is a fresh interpreter that runs `child`, with the environment of the supervisor but for one database. It
has a process group of its own, so that a terminal's Ctrl-C reaches the supervisor alone, and asks the kernel
for SIGTERM when the supervisor dies. SIGTERM, however often, lets it end; SIGINT cuts that short.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from webhook_dispatcher.app.report import Report, listen, make_line
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.telemetry.metrics import ProcessState

MAX_SILENCE = 5.0
"""Seconds without a report after which a process counts as not ready."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process belongs. number: from 1, over all databases; the same after a restart."""

    number: int
    shard: str | None

    def __str__(self) -> str:
        return f"process {self.number}" + (f" ({self.shard})" if self.shard else "")

    @property
    def log_fields(self) -> dict[str, object]:
        """Return what log lines about it carry."""
        return {"process": self.number} | ({"shard": self.shard} if self.shard else {})


def said_of(code: int) -> str:
    """Say how a process ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


class Child:
    """The process at one place, one after the other."""

    def __init__(self, place: Place, environment: Mapping[str, str], clock: Clock) -> None:
        self.place = place
        self._environment = dict(environment)
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._line: socket.socket | None = None
        self._report: Report | None = None
        self._started_at = 0.0
        self._why_away = "is not started yet"
        self._is_ending = False
        self.was_told = False  # a signal of ours found the process alive

    @property
    def pid(self) -> int | None:
        """The process's number, while there is one."""
        return self._process.pid if self._process else None

    async def live(self) -> int:
        """Start the process and wait for its end; return the exit code, negative for a signal.

        Errors: OSError, it cannot be started.
        """
        ours, theirs = make_line()
        with ours:
            with theirs:
                self._process = await self._start(theirs.fileno())
            self._line, self._report, self.was_told = ours, None, False
            self._started_at = self._clock.elapsed()
            _log.info("process.started", **self.place.log_fields, pid=self._process.pid)
            asyncio.get_running_loop().add_reader(ours, self._hear)
            try:
                if self._is_ending:
                    self.signal(signal.SIGTERM)
                return await self._process.wait()
            finally:
                self._finish(self._process)

    async def _start(self, line: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the supervisor's modules are its own too, whatever lies in the working folder
            "-m",
            "webhook_dispatcher",
            "child",
            str(self.place.number),
            str(line),
            str(os.getpid()),
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(line,),
            process_group=0,
        )

    def _finish(self, process: asyncio.subprocess.Process) -> None:
        """Read what the process reported last, and release its line; one that still runs is killed."""
        if process.returncode is None:
            process.kill()
        self._hear()
        if self._line is not None:
            asyncio.get_running_loop().remove_reader(self._line)
        self._process = self._line = None

    def _hear(self) -> None:
        if self._line is None:
            return
        report, may_come = listen(self._line)
        self._report = report or self._report
        if not may_come:
            asyncio.get_running_loop().remove_reader(self._line)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal that ends it; one that is only about to start ends as soon as it has."""
        self._is_ending = True
        if self._process is not None and self._process.returncode is None:
            pid = self._process.pid
            # Process.send_signal would reap one that has ended, and asyncio report 255 for its exit code.
            with suppress(ChildProcessError, ProcessLookupError):
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    self.was_told = True
                    os.kill(pid, number)

    def explain(self, why_away: str) -> None:
        """Say why there is no process, until there is one; its last reasons are kept beside."""
        last = "; ".join(self._report.reasons) if self._report else ""
        self._why_away = f"{why_away}: {last}" if last else why_away

    def reasons(self) -> Sequence[str]:
        """Name what stands in the way of delivering here."""
        return [f"{self.place}: {reason}" for reason in self._reasons()]

    def notes(self) -> Sequence[str]:
        """Name what was last worth a note here."""
        report = self._report if self._process is not None else None
        return [f"{self.place}: {note}" for note in report.notes] if report is not None else []

    def _reasons(self) -> Sequence[str]:
        if self._process is None:
            return [self._why_away]
        self._hear()
        if self._report is None:
            return [f"has been starting for {self._clock.elapsed() - self._started_at:.0f} s"]
        silence = self._clock.elapsed() - self._report.at
        if silence > MAX_SILENCE:
            return [f"has said nothing for {silence:.0f} s"]
        return self._report.reasons

    @property
    def state(self) -> ProcessState:
        """How it is."""
        if self._process is None:
            return ProcessState.AWAY
        return ProcessState.NOT_READY if self._reasons() else ProcessState.READY
