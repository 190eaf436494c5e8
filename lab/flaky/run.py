"""One run of the suite: pytest in a process group of its own, ended with us, and what it took."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.flaky.outcomes import Outcomes, read

GRACE_SECONDS = 30.0
"""How long pytest may take to stop what it has started."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a run came to. cpu: of all its processes that were waited for, in seconds, as wall."""

    number: int
    exit_code: int
    wall: float
    cpu: float
    outcomes: Outcomes
    output: Path
    clock: str

    def row(self) -> str:
        """Return its row of the table."""
        counts = Counter(outcome.state for outcome in self.outcomes.values())
        tally = "".join(f"{counts[state]:8}" for state in ("passed", "failed", "error", "skipped"))
        return (
            f"{self.number:3}{self.exit_code:6}{self.wall:9.1f}{self.cpu:9.1f}{tally}  {self.clock}".rstrip()
        )


HEADING = "run  exit     wall      CPU  passed  failed   error skipped"


def run_suite(
    number: int, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], clock: str = ""
) -> Run:
    """Run pytest once, its output and results into the folder."""
    output, junit = folder / f"run-{number}.txt", folder / f"run-{number}.xml"
    junit.unlink(missing_ok=True)
    # This family of JUnit XML names each test's file.
    command = [sys.executable, "-m", "pytest", *arguments, f"--junitxml={junit}", "-o", "junit_family=xunit1"]
    began, used = time.monotonic(), _cpu_of_children()
    with output.open("wb") as written:
        exit_code = _run(command, written.fileno(), {**os.environ, **environment})
    wall, cpu = time.monotonic() - began, _cpu_of_children() - used
    return Run(number, exit_code, wall, cpu, read(junit), output, clock)


def _run(command: Sequence[str], output: int, environment: Mapping[str, str]) -> int:
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    try:
        return process.wait()
    finally:
        if process.returncode is None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Do what Ctrl-C in a terminal does, and then make sure."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _cpu_of_children() -> float:
    """Return the processor time of all children that were waited for; busy loops are not until the end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
