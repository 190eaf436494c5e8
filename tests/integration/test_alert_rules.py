"""Prometheus's own tool on the alert rules: they are well-formed, fire, and stay silent, as they should."""

import subprocess
from pathlib import Path

from tests.external_programs import program

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"
RULES = FOLDER / "alerts.yaml"
CASES = sorted(FOLDER.glob("*_test.yaml"))


def promtool(*arguments: str | Path) -> None:
    tool = program("promtool", "prometheus")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_well_formed() -> None:
    promtool("check", "rules", "--lint-fatal", RULES)


def test_each_alert_fires_and_stays_silent_as_it_should() -> None:
    promtool("test", "rules", *CASES)
