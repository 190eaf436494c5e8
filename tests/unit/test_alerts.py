"""Each alert has a test that makes it fire, one that keeps it silent, and a section that says what to do."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from webhook_dispatcher.cli.failures import NAME
from webhook_dispatcher.cli.late import LateCommand
from webhook_dispatcher.cli.program import program
from webhook_dispatcher.settings import Settings

ROOT = Path(__file__).parents[2]
RULES = (ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text(encoding="utf-8")
CASES = "".join(
    file.read_text(encoding="utf-8") for file in sorted((ROOT / "deploy" / "prometheus").glob("*_test.yaml"))
)
PAGES = {
    page.name: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "runbooks").iterdir())
}
RUNBOOKS = "".join(PAGES.values())
ALERTS = re.findall(r"^ +- alert: (\w+)$", RULES, re.MULTILINE)
DASHBOARD = (ROOT / "deploy" / "grafana" / "webhook-dispatcher.json").read_text(encoding="utf-8")
NOT_SHOWN = {"webhook_start_time_seconds"}
"""Conditions alone: since when a process may be judged."""
SITE = "https://OWNER.github.io/REPO"
"""Where `make docs` has its pages, once they are served: a placeholder (docs/releasing.md)."""
FIRES, SILENT = "fires", "stays silent"


def cases() -> list[tuple[str, str]]:
    """Return the alert of each case and what it does there, as its name says and its expectation confirms."""
    found = []
    for case in CASES.split("\n  - name: ")[1:]:
        match = re.match(rf"(\w+) ({FIRES}|{SILENT})", case)
        assert match, case.partition("\n")[0]
        assert f'ALERTS{{alertname="{match[1]}", alertstate="firing"}}' in case
        assert ("exp_samples: []" in case) == (match[2] == SILENT), case.partition("\n")[0]
        found.append((match[1], match[2]))
    return found


def command_lines() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```$", RUNBOOKS, re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return list(dict.fromkeys(line.partition(" #")[0].strip() for line in lines if NAME in line))


def test_every_alert_is_seen_to_fire_and_to_stay_silent() -> None:
    assert len(ALERTS) > 20
    assert set(cases()) == {(alert, does) for alert in ALERTS for does in (FIRES, SILENT)}


def test_every_alert_has_a_runbook_and_no_runbook_lacks_its_alert() -> None:
    assert sorted(re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE)) == sorted(ALERTS)


def test_every_metric_of_an_alert_is_on_the_dashboard() -> None:
    judged = set(
        re.findall(r"\bwebhook_\w+", "\n".join(re.findall(r"^ +expr: .+(?:\n {10}.+)*", RULES, re.MULTILINE)))
    )
    shown = set(re.findall(r"\bwebhook_\w+", DASHBOARD))
    families = {re.sub("_(bucket|count|sum)$", "", name) for name in judged - NOT_SHOWN}
    assert families - {re.sub("_(bucket|count|sum)$", "", name) for name in shown} == set()


def test_every_alert_leads_to_its_runbook_and_says_how_bad_it_is() -> None:
    for alert in ALERTS:
        rule = RULES.partition(f"- alert: {alert}\n")[2].partition("- alert: ")[0]
        [page] = [name for name, text in PAGES.items() if f"\n## {alert}\n" in text]
        address = f"{SITE}/runbooks/{page.removesuffix('.md')}.html#{alert.lower()}"
        assert f"runbook_url: {address}\n" in f"{rule}\n"
        assert re.search(r"labels: \{ severity: (critical|warning)\b", rule), alert
        assert "summary: " in rule
        assert "description: " in rule


def test_settings_and_log_lines_that_the_runbooks_name_exist() -> None:
    named = set(re.findall(r"`WEBHOOK_(\w+)`", RUNBOOKS))
    assert named
    assert named <= {name.upper() for name in Settings.model_fields}
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    events = set(re.findall(r"`([a-z_]+\.[a-z_]+)`", RUNBOOKS)) - {"cpu.max"}
    assert events
    # Those of loops are handed over: loop(…, "measure.failed").
    assert [event for event in sorted(events) if f'"{event}"' not in sources] == []


@pytest.mark.parametrize("line", command_lines())
def test_commands_of_the_runbooks_are_commands(line: str) -> None:
    command: typer.core.TyperCommand | TyperGroup = program()
    words = shlex.split(line)[1:]
    while isinstance(command, TyperGroup):
        found = command.commands[words.pop(0)]
        command = found.load() if isinstance(found, LateCommand) else found  # type: ignore[assignment]
    command.make_context(NAME, words)
