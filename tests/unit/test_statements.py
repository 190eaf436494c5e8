"""Named statements and their headers."""

import pytest

from webhook_dispatcher.storage.statements import Statement, load, parse

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
    statements = parse(SOURCE)
    assert list(statements) == ["first", "second"]
    assert statements["second"] == Statement("second", "DELETE FROM x", (), (), (), "Does another.")


def test_the_header_says_parameters_and_row() -> None:
    first = parse(SOURCE)["first"]
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
        ("-- name: a\n-- row: x\nSELECT 1", "lacks name or type"),
    ],
)
def test_a_malformed_header_is_refused(source: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(source)


def test_shipped_statements_declare_every_parameter_they_use() -> None:
    for statement in load("administration").values():
        for number in range(1, 30):
            assert (f"${number}" in statement.text) is (number <= len(statement.parameters)), statement.name
