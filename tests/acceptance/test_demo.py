"""The demo as a process of its own, as `make demo` starts it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import MAX_WAIT

DEADLINE = MAX_WAIT
START = "metrics at "


@contextmanager
def demo(folder: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith(("WEBHOOK_", "DEMO_"))
    }
    with subprocess.Popen(
        [sys.executable, "-m", "webhook_dispatcher", "demo"],
        env={**environment, "TMPDIR": str(folder), **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def processes_in(folder: Path) -> list[str]:
    """Name the processes that have the folder in their command line or work in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            place = (process / "cwd").readlink()
        except OSError:
            continue
        if place.is_relative_to(folder) or any(os.fsencode(folder) in word for word in words):
            found.append(f"{process.name}: {words}")
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own: its parents are private, and the user nobody could not pass.
    made = Path(tempfile.mkdtemp(prefix="webhook-test-")).resolve()
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


def test_a_short_demo_finds_that_everything_agrees(folder: Path) -> None:
    with demo(folder, DEMO_EVENTS="30") as process:
        output, _ = process.communicate(timeout=4 * MAX_WAIT)
    assert process.returncode == 0, output
    assert re.search(r"32 events, \d+ requests, \d+ of them signed right, \d+ s: everything agrees", output)
    for command in ("retry", "retry_failed", "test_event", "set_url", "pause", "resume", "cancel"):
        assert re.search(rf"^{command} \S+: done ", output, re.MULTILINE), command
    assert processes_in(folder) == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_nothing_runs_on_after_a_demo_was_stopped(folder: Path, number: signal.Signals, status: int) -> None:
    with demo(folder) as process:
        assert process.stdout is not None
        assert any(line.startswith(START) for line in process.stdout)
        assert processes_in(folder)
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(DEADLINE) == status
    deadline = time.monotonic() + DEADLINE
    while left := processes_in(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def test_a_demo_that_is_stopped_too_early_fails(folder: Path) -> None:
    with demo(folder, DEMO_EVENTS="500") as process:
        assert process.stdout is not None
        assert any(line.startswith(START) for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert "stopped before the end" in process.stdout.read()
        assert process.wait(DEADLINE) == 1
