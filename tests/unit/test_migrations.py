"""The migrations' files: one of SQL and one for Alembic for each number, and what they must say."""

import re
from pathlib import Path

import pytest

from webhook_dispatcher.domain.event import CHARGE_TYPES, NOTICE_TYPES, TEST_EVENT_TYPE
from webhook_dispatcher.storage.schema import SCHEMA_VERSION

FOLDER = Path(__file__).parents[2] / "migrations"
VERSIONS = sorted((FOLDER / "versions").glob("0*.py"))
NAMES = [file.stem for file in VERSIONS]


def names_in(version: Path) -> tuple[str, ...]:
    """Return a version's own name and that of the one before."""
    text = version.read_text(encoding="utf-8")
    return tuple(re.findall(r'^(?:down_)?revision = (?:"(\w+)"|None)$', text, re.MULTILINE))


def test_the_last_migration_is_the_version_of_the_program() -> None:
    assert [int(name[:4]) for name in NAMES] == list(range(1, SCHEMA_VERSION + 1))


def test_every_sql_file_has_a_version_of_the_same_name_that_follows_the_one_before() -> None:
    files = [file.stem for file in sorted((FOLDER / "sql").glob("*.sql"))]
    assert files == ["0000_roles_and_schema", *NAMES]
    assert [names_in(file) for file in VERSIONS] == list(zip(NAMES, ["", *NAMES], strict=False))


@pytest.mark.parametrize("name", NAMES)
def test_a_migration_says_why_and_what_it_locks_and_sets_its_own_number(name: str) -> None:
    sql = (FOLDER / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    for due in ("-- Why:   ", "-- Locks: ", "\nSET lock_timeout = ", "\nSET ROLE webhook_owner;\n"):
        assert due in sql, due
    number = int(name[:4])
    assert f"schema_version = {number};\n" in sql or number == 1


def test_the_latest_rule_of_events_allows_the_types_that_the_program_knows() -> None:
    files = [file.read_text(encoding="utf-8") for file in sorted((FOLDER / "sql").glob("*.sql"))]
    latest = [sql for sql in files if "FUNCTION webhook.event_can_be_sent" in sql][-1]
    rule = latest.partition("type OPERATOR(pg_catalog.<>) ALL (CASE")[2].partition("END)")[0]
    notices, others = [re.findall(r"'(\w+\.\w+)'", types) for types in rule.split("ELSE")]
    assert notices == [*NOTICE_TYPES, TEST_EVENT_TYPE], "an event type takes a migration"
    assert others == [*CHARGE_TYPES, TEST_EVENT_TYPE], "an event type takes a migration"
