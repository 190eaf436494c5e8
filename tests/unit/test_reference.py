"""docs/reference.md says what the code says, and `make check` notices when it does not."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from docs import reference, tree
from webhook_dispatcher.domain.command import COMMANDS, Code, CommandRejected, CommandRow, parse_command
from webhook_dispatcher.settings import Settings

NEEDED = {"merchant_id": "m1", "event_id": UUID(int=1)}
ARGUMENTS = {
    "force": True,
    "since": "2026-11-20T06:00:00Z",
    "until": "2026-11-20T09:00:00Z",
    "limit": 5,
    "states": ["delivered"],
    "types": ["charge.created"],
    "charge": "ch_1",
    "leave_out": ["failing"],
    "all": True,
    "before": "2026-11-20T09:00:00Z",
    "url": "https://merchant.com/webhooks",
    "type": "charge.failed",
    "endpoint": 2,
}


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]


def test_file_is_what_the_code_says() -> None:
    assert reference.main(["--check"]) == 0, "run make reference"


def test_a_tree_that_lacks_a_folder_is_out_of_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "architecture.md"
    lines = tree.FILE.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(line for line in lines if " control/ " not in line), encoding="utf-8")
    assert (tree.main(["--check"], file), tree.main([], file)) == (1, 0)
    assert file.read_text(encoding="utf-8") == "".join(lines), "the page that is there is what is made"
    assert (
        capsys.readouterr().err
        == "The tree in docs/internals/architecture.md is out of date: run make reference\n"
    )


def test_every_file_is_drawn_where_a_page_asks_for_it() -> None:
    drawn = tree.on_page_markdown(f"a\n{tree.DRAWN_HERE}\nb")
    assert tree.tree(with_files=True) in drawn
    assert re.search(r"^ {4}recorder\.py +Writes outcomes", drawn, re.MULTILINE)
    page = tree.FILE.with_name("files.md").read_text(encoding="utf-8")
    assert tree.DRAWN_HERE in page


def test_a_file_that_differs_is_out_of_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "reference.md"
    assert (reference.main(["--check"], file), reference.main([], file)) == (1, 0)
    assert reference.main(["--check"], file) == 0
    file.write_text(file.read_text(encoding="utf-8").replace("PT30S", "PT31S"), encoding="utf-8")
    assert reference.main(["--check"], file) == 1
    assert capsys.readouterr().err == "docs/reference.md is out of date: run make reference\n" * 2


def test_every_setting_is_there_once_with_type_default_and_meaning() -> None:
    rows = cells(reference.settings_table())
    assert [row[0] for row in rows] == [f"`WEBHOOK_{name.upper()}`" for name in Settings.model_fields]
    assert all(len(row) == 4 and all(row) and "None" not in "".join(row) for row in rows)
    defaults = {row[0]: row[2] for row in rows}
    assert defaults["`WEBHOOK_RETRY_SCHEDULE`"] == "`PT1M,PT5M,PT15M,PT1H,PT3H,PT6H,PT12H`"
    assert defaults["`WEBHOOK_EGRESS_ALLOW_HTTP`"] == "`false`"


def test_labels_have_the_values_that_are_exported_from_the_start() -> None:
    rows = [[re.findall("`([^`]+)`", cell) for cell in row] for row in cells(reference.labels_table())]
    assert [["status"], ["webhook_control_commands_total"], ["done", "rejected"]] in rows
    assert [["kind"], ["webhook_own_fault"], ["local", "signer", "fleet", "clock"]] in rows
    assert all(label and metrics and values for label, metrics, values in rows)


def test_every_command_that_is_shown_is_explained_with_its_options() -> None:
    named = dict(reference.commands())
    text = reference.FILE.read_text(encoding="utf-8")
    assert "endpoint rotate-secret" in named
    assert "child" not in named
    for name, command in named.items():
        section = text.partition(f"\n### {name}\n")[2].partition("\n#")[0]
        for parameter in (each for each in command.params if not getattr(each, "hidden", False)):
            assert f"{parameter.opts[0]}" in section.lower(), (name, parameter.opts)
        assert f"Example: `webhook-dispatcher {name}" in section


def test_every_control_command_and_code_is_explained() -> None:
    assert [row[0].strip("`") for row in cells(reference.control_table())] == [*COMMANDS]
    assert {*reference.CODES} == {*Code}


class Asked(dict[str, Any]):
    """Arguments that remember which of them were asked for."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


def read_with(name: str, given: set[str]) -> set[str]:
    """Let a command be read with what is given; return which arguments it looked for."""
    arguments = Asked({arg: value for arg, value in ARGUMENTS.items() if f"args.{arg}" in given})
    columns: Any = {column: value if column in given else None for column, value in NEEDED.items()}
    parse_command(
        CommandRow(
            id=1,
            name=name,
            args=arguments,
            result={},
            created_at=datetime(2026, 11, 21, tzinfo=UTC),
            requested_by="a",
            **columns,
        )
    )
    return {f"args.{arg}" for arg in arguments.names}


def alternatives(needs: str) -> Iterator[set[str]]:
    """Return the sets of columns and arguments with each of which a command has all it needs."""
    for choice in needs.split(" or "):
        yield {*re.findall("`([^`]+)`", choice)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_control_command_needs_what_the_reference_says_and_reads_nothing_else(name: str) -> None:
    spec = COMMANDS[name]
    together = dict(re.findall(r"`([^`]+)` \(with `([^`]+)`\)", spec.takes))
    optional = {*re.findall("`([^`]+)`", spec.takes)} - {*together.values()}
    arguments = {*re.findall(r"`args\.(\w+)`", spec.needs + spec.takes)}
    assert arguments <= ARGUMENTS.keys(), "give ARGUMENTS above a value that each may have"
    for needed in alternatives(spec.needs):
        given = needed | {each for each in optional if together.get(each) in {None, *needed}}
        asked = read_with(name, given)
        assert asked <= {*re.findall("`([^`]+)`", spec.needs)} | optional
        read_with(name, needed)
        for missing in needed:
            with pytest.raises(CommandRejected):
                read_with(name, given - {missing})
