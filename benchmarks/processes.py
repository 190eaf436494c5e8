"""Processes of the benchmarks, and what they use of the processor and of memory. Linux only."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

LOOK_EVERY = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return what a process, its ended children and its living descendants have used of the processor."""
    total = 0.0
    for number, own in _family(pid):
        fields = own.rpartition(")")[2].split()
        ticks = fields[11:15] if number == pid else fields[11:13]
        total += sum(map(int, ticks)) / _TICKS
    return total


def peak_memory(pid: int) -> int:
    """Return the most memory a process has had resident, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _family(pid: int) -> Iterator[tuple[int, str]]:
    waiting = [pid]
    while waiting:
        number = waiting.pop()
        try:
            yield number, Path(f"/proc/{number}/stat").read_text()
            children = Path(f"/proc/{number}/task/{number}/children").read_text()
        except OSError:
            continue  # it has ended meanwhile
        waiting += map(int, children.split())


class Child:
    """A process of ours that speaks JSON lines; a line on its standard input lets it go on."""

    def __init__(
        self, *command: str, log: Path, environ: Mapping[str, str] | None = None, within: Sequence[str] = ()
    ) -> None:
        """Start it.

        within: the beginning of the command, which says where it runs (naming.py).
        """
        with log.open("ab") as err:
            self._process = subprocess.Popen(
                [*within, sys.executable, "-m", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                env={**os.environ, **(environ or {})},
            )
        self._log = log

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def read(self) -> dict[str, Any]:
        """Return the next line it writes."""
        out = _pipe(self._process.stdout)
        if not (line := out.readline()):
            raise SystemExit(f"{self._process.args!r} ended; its log ends:\n{self._log.read_text()[-3000:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def has_spoken(self, patience: float) -> bool:
        """Wait so many seconds for its next line."""
        return bool(select.select([_pipe(self._process.stdout)], [], [], patience)[0])

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def finish(self) -> None:
        """Wait until it has done what it was started for."""
        _pipe(self._process.stdin).close()
        _pipe(self._process.stdout).read()
        if self._process.wait():
            raise SystemExit(f"{self._process.args!r} failed; its log ends:\n{self._log.read_text()[-3000:]}")
        _pipe(self._process.stdout).close()

    def go(self) -> None:
        """Let it go on."""
        to = _pipe(self._process.stdin)
        to.write(b"go\n")
        to.flush()

    def end(self) -> None:
        """Stop it, by force if it takes longer than ten seconds."""
        end(self._process)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, then make it."""
    for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                continue
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def find_ops_port(log: Path) -> int | None:
    """Find a daemon's port for metrics in what it has logged; None: not all its processes have started."""
    port: int | None = None
    missing = 1
    for line in log.read_text().splitlines(keepends=True):
        entry: dict[str, Any] = json.loads(line) if line.endswith("}\n") else {"event": None}
        if entry["event"] == "supervisor.started":
            port, missing = entry["ops_port"], entry["processes"]
        elif entry["event"] == "daemon.started":
            missing -= 1
            if port is None:
                port = entry["ops_port"]
    return port if missing <= 0 else None


def find_api_port(log: Path) -> int | None:
    """Find where the Partner API serves in what it has logged; None: it does not yet."""
    return _find_port(log, "api.started")


def find_console_port(log: Path) -> int | None:
    """Find where the console serves in what it has logged; None: it does not yet."""
    return _find_port(log, "console.started")


def _find_port(log: Path, started: str) -> int | None:
    lines = [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("}\n")]
    return next((line["port"] for line in lines if line["event"] == started), None)


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor seconds of one run."""

    worker: float
    postgres: float
    receiver: float

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(
            self.worker - other.worker, self.postgres - other.postgres, self.receiver - other.receiver
        )

    def each(self, events: int) -> "Usage":
        """Return microseconds per event."""
        return Usage(*(1e6 * used / events for used in (self.worker, self.postgres, self.receiver)))


def until(look: Callable[[], Any], patience: float, every: float = LOOK_EVERY) -> Any:
    """Look again and again until something is found."""
    ends = time.monotonic() + patience
    while not (found := look()):
        if time.monotonic() > ends:
            raise SystemExit(f"nothing after {patience:.0f} s")
        time.sleep(every)
    return found
