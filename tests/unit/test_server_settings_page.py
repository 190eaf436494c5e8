"""docs/operate/server-settings.md lists what our sessions set and what the tests try, no more and no less."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from tests.servers.awkward_settings import AWKWARD
from webhook_dispatcher.storage.session import PLANNED_ONCE, SINCE_17, session_settings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operate" / "server-settings.md").read_text(encoding="utf-8")
EVERY = {*session_settings("", timedelta(0)), *SINCE_17} - {"application_name"}
_ROW = re.compile(r"^\| (`.*)\|$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of one section's table."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in row.split("|")] for row in _ROW.findall(section)]


def tried(heading: str, column: int) -> dict[str, tuple[str, ...]]:
    """Return the settings of one section, and the values they are tried with."""
    return {
        name: tuple(_QUOTED.findall(cells[column]))
        for cells in rows(heading)
        for name in _QUOTED.findall(cells[0])
    }


def test_the_page_lists_what_every_session_sets() -> None:
    assert {name.lower() for name in tried("Set by every session", 2)} == EVERY


def test_the_page_lists_what_sessions_that_claim_and_record_set() -> None:
    listed = {
        name: _QUOTED.findall(cells[1])[0]
        for cells in rows("Set by the sessions that claim and record")
        for name in _QUOTED.findall(cells[0])
    }
    assert listed == PLANNED_ONCE


def test_the_page_lists_what_the_tests_try() -> None:
    listed = {
        **tried("Set by every session", 2),
        **tried("Set by the sessions that claim and record", 2),
        **tried("Left as they are", 1),
    }
    assert listed == AWKWARD


@pytest.mark.parametrize("name", re.findall(r"`(test_\w+)`", PAGE))
def test_the_tests_it_names_are_there(name: str) -> None:
    assert any(f"def {name}(" in file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
