"""The command that shows the way of one event shows all of it, in order."""

import re
import subprocess
import sys

STEPS = [
    "the charge service's INSERT",
    "lease_lanes",
    "read_runs",
    "POST, answered 200",
    "recording.sql record",
]


def test_each_step_of_an_event_is_shown_with_its_values() -> None:
    command = [sys.executable, "-m", "lab.one_event"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [
        step for line in shown.splitlines() for step in STEPS if line.endswith(step) or f"{step} (" in line
    ] == STEPS
    assert re.search(r"service-signature: t=\d+,v1=[0-9a-f]{64}\n", shown)
    assert "merchants = '{bakery}'" in shown
    assert "outcomes = '{delivered}'" in shown
