"""What commands print: tables for people, one JSON document for programs."""

import dataclasses
import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from webhook_dispatcher.diagnosis.amounts import printable
from webhook_dispatcher.domain.event import render_instant
from webhook_dispatcher.storage.administration import PauseOfEverything

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 80
"""What is no table is kept to so many columns."""
WIDTH_WITHOUT_TERMINAL = 240


def print_json(document: object) -> None:
    """Print one JSON document; instants are ISO 8601 in UTC with a Z."""
    typer.echo(json.dumps(_jsonable(document), indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their columns; piped output is not cut to a terminal's width."""
    # Late, as below: programs ask for JSON.
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(value)) for value in row))
    _print(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print one thing's facts, a line each."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in facts:
        grid.add_row(Text(name), Text(shown(value)))
    _print(grid)


def said_of_pause(pause: PauseOfEverything) -> str:
    """Say who has paused everything, and since when."""
    # Late, as below: few commands say it.
    from webhook_dispatcher.diagnosis import findings, vocabulary

    since = None if pause.since is None else shown(pause.since)
    return vocabulary.say(findings.of_pause(since, pause.requested_by).said, "en", UTC)


def shown(value: object) -> str:
    """Write a value for people. Control characters, which could drive a terminal, are replaced."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return render_instant(value)
        case dict():
            return f"({', '.join(f'{shown(count)} {shown(name)}' for name, count in value.items())})"
        case list() | tuple():
            return ", ".join(shown(each) for each in value)
        case _:
            return printable(str(value))


def endpoint_named(merchant: str, number: int | None) -> str:
    """Write a merchant or, by its number, one of its several endpoints."""
    return shown(merchant) if number is None else f"{shown(merchant)}, endpoint {number}"


def as_arguments(merchant: str, number: int | None) -> str:
    """Write a merchant or, by its number, one of its several endpoints, as commands take it."""
    quoted = shlex.quote(shown(merchant))
    return quoted if number is None else f"{quoted} --endpoint {number}"


def _print(table: "Table") -> None:
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
    Console(file=sys.stdout, width=width, highlight=False).print(table)


def _jsonable(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    match value:
        case dict():
            return {str(key): _jsonable(item) for key, item in value.items()}
        case list() | tuple():
            return [_jsonable(item) for item in value]
        case datetime():
            return render_instant(value)
        case date() | UUID():
            return str(value)
        case _:
            return value
