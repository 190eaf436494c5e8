"""A short run under every kind of fault, judged from outside; `make chaos` is the long one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 6
COMMANDS = ("a range of time recovered", "what is old skipped", "commands given and withdrawn")
"""Kinds of fault that so short a run must have."""


@pytest.mark.of_the_server
@pytest.mark.timeout(600)
def test_a_short_run_under_faults_breaks_no_promise(tmp_path: Path) -> None:
    seed = os.environ["CHAOS_SEED"]
    report = tmp_path / "report"
    command = [sys.executable, "-m", "lab.chaos", "--seed", seed, "--report", str(report)]
    ended = subprocess.run(
        # So short a run has no time for faults that have it for themselves, or for notices.
        [*command, "--minutes", str(SECONDS / 60), "--merchants", "20", "--rate", "40", "--alone", "0"]
        + ["--no-notices", *(f"--first={name}" for name in COMMANDS)],
        capture_output=True,
        text=True,
        timeout=540,
    )
    said = f"{ended.stdout[-8000:]}\n{ended.stderr[-4000:]}"
    assert ended.returncode == 0, f"{said}\n{_read(report / 'report.md')}"
    assert ended.stdout.count(" s: ") >= 5, said  # faults; otherwise nothing was shown
    assert [name for name in COMMANDS if f"{name}, " not in ended.stdout] == [], said


def _read(file: Path) -> str:
    return file.read_text()[-20_000:] if file.exists() else "(no report was written)"
