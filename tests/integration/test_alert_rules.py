"""Prometheus's own tool on the alert rules: they are well-formed, fire, and stay silent, as they should."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.external_programs import program

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"
RULES = FOLDER / "alerts.yaml"
FILES = sorted(FOLDER.glob("*_test.yaml"))
OF_DAYS = "eval_time: 73h"
CASE = "\n  - name: "


def promtool(*arguments: str | Path) -> None:
    tool = program("promtool", "prometheus")
    # Each case fills a database of its own, which is thrown away: collecting garbage takes a third of it all.
    environment = {**os.environ, "GOGC": "400"}
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_well_formed() -> None:
    promtool("check", "rules", "--lint-fatal", RULES)
    promtool("check", "config", "--lint-fatal", FOLDER / "prometheus.yaml")


@pytest.mark.parametrize(
    "is_of_days",
    [
        pytest.param(False, id="within a day"),
        pytest.param(
            True,
            id="in days",
            marks=pytest.mark.slow(
                "integration/test_alert_rules.py::test_each_alert_fires_and_stays_silent_as_it_should"
            ),
        ),
    ],
)
def test_each_alert_fires_and_stays_silent_as_it_should(tmp_path: Path, is_of_days: bool) -> None:
    (tmp_path / RULES.name).symlink_to(RULES)
    chosen = []
    for file in FILES:
        head, *cases = file.read_text().split(CASE)
        if taken := [case for case in cases if (OF_DAYS in case) is is_of_days]:
            (tmp_path / file.name).write_text(CASE.join([head, *taken]))
            chosen.append(tmp_path / file.name)
    assert chosen
    promtool("test", "rules", *chosen)
