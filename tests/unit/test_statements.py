"""Named statements and their headers."""

import importlib.util
from dataclasses import replace

import pytest

from webhook_dispatcher.storage import statements
from webhook_dispatcher.storage.statements import (
    COMMAND_LINE,
    CONSOLE,
    PARTNER_API,
    Role,
    Statement,
    load,
    parse_statements,
)

SOURCE = """-- A file's own remark.

-- name: first
-- Does one thing,
-- in two lines.
-- $1 merchants text[]
-- $2 most numeric(10, 2)
-- row: merchant_id text, price numeric(10, 2),
--   seen_at timestamptz; ordered by merchant_id
-- none: there is nothing
SELECT 1
-- kept: a remark for the planner
WHERE ';' <> $1;

-- name: second
-- Does another.
DELETE FROM x
"""


def test_a_file_is_split_into_statements() -> None:
    statements = parse_statements(SOURCE)
    assert list(statements) == ["first", "second"]
    assert statements["second"] == Statement("second", "DELETE FROM x", (), (), (), "Does another.")


def test_the_header_says_parameters_and_row() -> None:
    first = parse_statements(SOURCE)["first"]
    assert first.parameters == (("merchants", "text[]"), ("most", "numeric(10, 2)"))
    assert first.columns == ("merchant_id", "price", "seen_at")
    assert first.column_types == ("text", "numeric(10, 2)", "timestamptz")
    assert first.text == "SELECT 1\n-- kept: a remark for the planner\nWHERE ';' <> $1"
    assert "none: there is nothing" in first.header


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("-- name: a\nSELECT 1;\n-- name: a\nSELECT 1;", "defined twice"),
        ("-- name: a\n-- nothing else\n", "is empty"),
        ("-- name: a\n-- $2 x text\nSELECT $2", "not numbered"),
        ("-- name: a\n-- $1 x text\n-- $2 x text\nSELECT $1, $2", "two parameters have one name"),
        ("-- name: a\n-- row: x\nSELECT 1", "lacks name or type"),
    ],
)
def test_a_malformed_header_is_refused(source: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_statements(source)


def test_values_are_bound_by_the_names_in_the_header() -> None:
    assert parse_statements(SOURCE)["first"].arguments({"most": 2, "merchants": ["m"]}) == [["m"], 2]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"merchants": []}, r"'first': missing or not in its header: most$"),
        ({"merchants": [], "most": 1, "least": 0}, r"'first': missing or not in its header: least$"),
        ({"merchant": [], "most": 1}, r"'first': missing or not in its header: merchant, merchants$"),
    ],
    ids=["missing", "extra", "misspelt"],
)
def test_a_name_that_is_not_in_the_header_is_an_error(values: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_statements(SOURCE)["first"].arguments(values)


@pytest.mark.parametrize("name", ["record", "read_unwritten"])
def test_what_the_recorder_binds_is_compared_with_the_header_at_the_start(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = {**load("recording")}
    renamed[name] = replace(
        renamed[name], parameters=(("numbers", "bigint[]"), *renamed[name].parameters[1:])
    )
    monkeypatch.setattr(statements, "load", lambda subject: renamed if subject == "recording" else {})
    spec = importlib.util.find_spec("webhook_dispatcher.storage.records")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ValueError, match="numbers, seqs"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_shipped_statements_declare_every_parameter_they_use() -> None:
    for statement in load("administration").values():
        for number in range(1, 30):
            assert (f"${number}" in statement.text) is (number <= len(statement.parameters)), statement.name


SHARED = """-- name: find
-- Find it.
-- $1 reader bytea
-- row: seq bigint
-- none: it is not there
SELECT page.seq
FROM role.reader AS me
CROSS JOIN LATERAL (SELECT seq FROM role.owed WHERE role.may_read OR audit.role = 'role' LIMIT 1) AS page
"""


@pytest.mark.parametrize(
    ("role", "name", "reader", "condition"),
    [
        (COMMAND_LINE, "find", "(SELECT $1::bytea AS nobody) AS me", "FROM webhook.owed WHERE true OR"),
        (
            CONSOLE,
            "console_find",
            "webhook.console_reader($1) AS me",
            "FROM webhook.console_owed WHERE me.name IS NOT NULL OR",
        ),
        (
            PARTNER_API,
            "own_find",
            "webhook.bearer($1) AS me",
            "FROM webhook.own_owed WHERE merchant_id = me.merchant_id OR",
        ),
    ],
)
def test_a_shared_text_differs_in_who_asks_and_in_whose_views_are_read(
    role: Role, name: str, reader: str, condition: str
) -> None:
    shared = parse_statements(SHARED)["find"]
    found = role.statement(shared)
    assert (found.name, found.header, found.columns) == (name, shared.header, shared.columns)
    assert reader in found.text
    assert f"{condition} audit.role = 'role'" in found.text
