"""The schema's file and the migrations behind it: that they follow each other, and what they must say."""

import re
from pathlib import Path

from webhook_dispatcher.domain.event import CHARGE_TYPES, EVENT_TYPES, NOTICE_TYPES, TEST_EVENT_TYPE
from webhook_dispatcher.storage.schema import SCHEMA_VERSION

FOLDER = Path(__file__).parents[2] / "migrations"
VERSIONS = sorted((FOLDER / "versions").glob("0*.py"))
NAMES = [file.stem for file in VERSIONS]
SCHEMA = (FOLDER / "schema.sql").read_text(encoding="utf-8")
APART = ("outbox ADD CONSTRAINT", "control ADD CONSTRAINT", "api_usage ALTER COLUMN subject SET STORAGE")
"""What CREATE TABLE cannot say."""


def names_in(version: Path) -> tuple[str, ...]:
    """Return a version's own name and that of the one before."""
    text = version.read_text(encoding="utf-8")
    return tuple(re.findall(r'^(?:down_)?revision = (?:"(\w+)"|None)$', text, re.MULTILINE))


def test_every_version_follows_the_one_before_and_the_last_is_the_programs() -> None:
    assert [names_in(file) for file in VERSIONS] == list(zip(NAMES, ["", *NAMES], strict=False))
    first = int(NAMES[0][:4])
    assert [int(name[:4]) for name in NAMES] == list(range(first, SCHEMA_VERSION + 1))


def test_the_first_version_applies_a_copy_of_its_own_once_there_is_a_second() -> None:
    is_shared = 'run_sql_file("schema.sql")' in VERSIONS[0].read_text(encoding="utf-8")
    assert is_shared == (len(VERSIONS) == 1), "schema.sql is of the last version"


def test_a_migration_says_why_and_what_it_locks_and_sets_its_own_number() -> None:
    for name in NAMES[1:]:
        sql = (FOLDER / "versions" / f"{name}.sql").read_text(encoding="utf-8")
        for due in ("-- Why:   ", "-- Locks: ", "\nSET lock_timeout = ", "\nSET ROLE webhook_owner;\n"):
            assert due in sql, due
        assert f"schema_version = {int(name[:4])};\n" in sql


def test_the_schemas_file_says_its_version_and_everything_once() -> None:
    assert f"(schema_version, compatible_from) VALUES ({SCHEMA_VERSION}, " in SCHEMA
    assert re.findall(r"^(?:DROP|CREATE OR REPLACE)\b.*", SCHEMA, re.MULTILINE) == []
    altered = re.findall(r"^ALTER TABLE webhook\.(.*)", SCHEMA, re.MULTILINE)
    assert [line.startswith(allowed) for line, allowed in zip(altered, APART, strict=True)] == [True] * 3


def test_the_rule_of_events_allows_the_types_that_the_program_knows() -> None:
    rule = SCHEMA.partition("type OPERATOR(pg_catalog.<>) ALL (CASE")[2].partition("END)")[0]
    notices, others = [re.findall(r"'(\w+\.\w+)'", types) for types in rule.split("ELSE")]
    assert notices == [*NOTICE_TYPES, TEST_EVENT_TYPE], "an event type takes a migration"
    assert others == [*CHARGE_TYPES, TEST_EVENT_TYPE], "an event type takes a migration"
    not_own = SCHEMA.partition("CONSTRAINT name_is_none_of_ours CHECK (")[2].partition("]")[0]
    assert set(re.findall(r"'(\w+\.\w+)'", not_own)) == set(EVENT_TYPES)
    dispatchers = SCHEMA.partition("regclass, 'DELETE')")[2].partition("ALL (ARRAY[")[2].partition("]")[0]
    assert re.findall(r"'(\w+\.\w+)'", dispatchers) == [*NOTICE_TYPES]
