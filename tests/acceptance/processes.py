"""Daemons and receivers as processes of their own, watched from outside: exit code, log, readiness."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.acceptance import forked
from tests.acceptance.lanes_names import names_lane
from tests.spent import spending
from tests.waiting import MAX_WAIT, until

RUN = ("webhook_dispatcher", "run")
MAX_SAVING_SECONDS = 2.0
"""For which a program may save its coverage, twice: then it is told again, or killed."""


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with these WEBHOOK_ settings and no others."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("WEBHOOK_")}
    return own | {f"WEBHOOK_{name}": text for name, text in settings.items()}


@contextmanager
def command(*words: str, environ: Mapping[str, str], **how: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a command of ours until the end of the block; what it writes is read as text."""
    with subprocess.Popen(
        [sys.executable, "-m", "webhook_dispatcher", *words],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        **how,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass
class Daemon:
    """`webhook-dispatcher run` in a process of its own."""

    process: forked.Process
    log_file: Path
    _entries: list[dict[str, Any]] = field(default_factory=list, repr=False)
    _read_up_to: int = 0

    @classmethod
    def spawn(
        cls, settings: Mapping[str, str], log_file: Path, cwd: Path, program: Sequence[str] = RUN
    ) -> "Daemon":
        """Start a daemon; whoever does so sees to it that it is killed."""
        with log_file.open("wb") as log, spending("starting programs"):
            process = forked.start(program, environment(settings), cwd, None, None, log)
        return cls(process, log_file)

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return the log's complete lines, or those of one event."""
        with self.log_file.open("rb") as file:
            file.seek(self._read_up_to)
            added, newline, _ = file.read().rpartition(b"\n")
        self._read_up_to += len(added) + len(newline)
        lines = added.split(b"\n")
        self._entries += [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]
        return [entry for entry in self._entries if event in (None, entry["event"])]

    async def logged(self, event: str, deadline: float = MAX_WAIT) -> dict[str, Any]:
        """Wait for a log event and return its first occurrence."""
        with spending("starting programs" if event.endswith(".started") else "waiting"):
            entries = await until(lambda: self.log(event) or self._fails_if_ended(event), deadline)
        return entries[0]

    def _fails_if_ended(self, event: str) -> list[dict[str, Any]]:
        if self.process.poll() is not None and not self.log(event):
            raise AssertionError(
                f"the daemon ended with {self.process.returncode}: {self.log_file.read_text()}"
            )
        return []

    def terminate(self) -> None:
        """Ask it to stop."""
        self.process.terminate()

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """End it after its test; where coverage is recorded, let it save that."""
        if "COVERAGE_PROCESS_START" in os.environ:
            with spending("saving coverage"):
                self._end_in_peace()
        self.kill()

    def _end_in_peace(self) -> None:
        for _ in range(2):  # asked a second time, it waits for nothing more
            self.terminate()
            with suppress(subprocess.TimeoutExpired, TimeoutError):
                self.process.wait(MAX_SAVING_SECONDS)
                return

    async def ended(self, deadline: float = MAX_WAIT) -> int:
        """Wait for its end and return the exit code."""
        await until(lambda: self.process.poll() is not None, deadline)
        return self.process.wait()

    async def asked(self, path: str) -> tuple[int, str]:
        """Ask the ops server for a path; return status and text."""
        port = self.log("daemon.started")[0]["ops_port"]
        return await http_get(port, path)

    def problems(self) -> list[str]:
        """Return what no run should leave in its log: tracebacks, lines that are no events, lanes' names."""
        lines = self.log_file.read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        return [line for line in whole if not _is_event(line) or names_lane(line)]


def _is_event(line: str) -> bool:
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return "event" in entry and "exception" not in entry


async def http_get(port: int, path: str) -> tuple[int, str]:
    """GET from a local server; return status and text."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body


class ReceiverProcess:
    """A receiver beside the test's own process, where the test must not slow it down; `log` is its log file.

    Its arrivals are timed with the machine's monotonic clock, which is ours too.
    """

    def __init__(self, log: Path, secrets: Path) -> None:
        self.log = log
        with spending("starting programs"):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "webhook_dispatcher.local.receiver"]
                + ["--log", str(log), "--secrets", str(secrets)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self._process.stdout is not None
            self.root = self._process.stdout.readline().strip()

    def stop(self) -> None:
        """Stop it; the log is complete then."""
        assert self._process.stdout is not None
        self._process.terminate()
        self._process.wait(MAX_WAIT)
        self._process.stdout.close()

    def kill(self) -> None:
        """End it at once."""
        if process_exists(self._process.pid):
            self._process.kill()
        self._process.wait()


def process_exists(pid: int) -> bool:
    """Tell whether a process is there and not a zombie."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")
