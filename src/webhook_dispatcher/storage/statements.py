"""Named SQL statements, kept in `sql/<subject>.sql`.

Each statement opens with a header of comments, which tests compare with what the server says of it:

    -- name: claim_lanes
    -- What it is for, in one or more lines.
    -- $1 merchants text[]
    -- row: merchant_id text, epoch bigint
    -- none: what it means when no row comes back

A `row:` line that ends in a comma goes on in the next; what follows a semicolon there (order) is prose.

A question that several roles ask has one text, and `Role` puts in it what is theirs. Its first parameter says
who asks: a session, a token, or null at the command line.
"""

import functools
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from types import MappingProxyType
from typing import Any

_NAME = re.compile(r"-- name: ([a-z][a-z0-9_]*)")
_PARAMETER = re.compile(r"\$(\d+) ([a-z][a-z0-9_]*) ((?:[^;,(]|\([^)]*\))+)(?:[;,].*)?")
_COMMA_OUTSIDE_BRACKETS = re.compile(r",\s*(?![^()]*\))")
_OF_ROLE = re.compile(r"\brole\.([a-z_]+)")


Ask = Callable[..., Awaitable[Sequence[Any]]]
"""Asks a shared statement as somebody: by its name, and with what comes behind its first parameter."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its text without header, and what the header promises.

    parameters: (name, SQL type) in the order of $1, $2, …
    columns, column_types: the row's shape; empty where no row is returned.
    header: the whole header, for people.
    """

    name: str
    text: str
    parameters: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    column_types: tuple[str, ...]
    header: str

    def arguments(self, values: Mapping[str, object]) -> list[object]:
        """Put values in the order of $1, $2, …, each by the name that the header gives it.

        Errors: ValueError where a name is missing or is none of the header's; it says which.
        """
        names = [name for name, _ in self.parameters]
        if wrong := sorted(values.keys() ^ set(names)):
            raise ValueError(f"statement {self.name!r}: missing or not in its header: {', '.join(wrong)}")
        return [values[name] for name in names]


@dataclass(frozen=True, eq=False)
class Role:
    """Whose views a shared text reads, and how it finds who asks: nothing else differs between roles.

    The text says `role.reader AS me` for what finds who asks, `role.may_read` for the condition by which rows
    wait for that, and `role.attempts`, for example, for the role's view of attempts.
    prefix: of its views, and of its statements' names. names: what is put in place of other names.
    """

    prefix: str
    names: Mapping[str, str]

    def statement(self, shared: Statement) -> Statement:
        """Put in a text what is the role's."""
        text = _OF_ROLE.sub(
            lambda found: self.names.get(found[1], f"webhook.{self.prefix}{found[1]}"), shared.text
        )
        return replace(shared, name=self.prefix + shared.name, text=text)


COMMAND_LINE = Role(
    "",
    {
        "reader": "(SELECT $1::bytea AS nobody)",
        "may_read": "true",
        "attempts": "webhook.attempted",
        "commands": "webhook.control",
        "endpoints": "webhook.endpoint",
        "is_held": "lane.is_held",
    },
)
CONSOLE = Role(
    "console_",
    {
        "reader": "webhook.console_reader($1)",
        "may_read": "me.name IS NOT NULL",
        "responses": "webhook.console_attempts",
        "is_held": "lane.lease_until > clock_timestamp()",
    },
)
PARTNER_API = Role("own_", {"reader": "webhook.bearer($1)", "may_read": "merchant_id = me.merchant_id"})


@functools.cache
def load(subject: str, role: Role | None = None) -> Mapping[str, Statement]:
    """Read the statements of one subject, by name: of a role, where several ask them."""
    source = resources.files(__package__).joinpath("sql", f"{subject}.sql").read_text(encoding="utf-8")
    found = parse_statements(source)
    return found if role is None else {name: role.statement(each) for name, each in found.items()}


def parse_statements(source: str) -> Mapping[str, Statement]:
    """Split a file into statements; ValueError when a header is malformed."""
    statements: dict[str, Statement] = {}
    for name, lines in _sections(source):
        if name in statements:
            raise ValueError(f"statement {name!r} is defined twice")
        statements[name] = _statement(name, lines)
    return MappingProxyType(statements)


def _sections(source: str) -> Iterator[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in source.splitlines():
        if match := _NAME.fullmatch(line.rstrip()):
            if name:
                yield name, lines
            name, lines = match[1], []
        elif name:
            lines.append(line)
    if name:
        yield name, lines


def _statement(name: str, lines: list[str]) -> Statement:
    height = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
    header = [line.removeprefix("--").strip() for line in lines[:height]]
    text = "\n".join(lines[height:]).strip().removesuffix(";").rstrip()
    if not text:
        raise ValueError(f"statement {name!r} is empty")
    row = _row(name, header)
    return Statement(
        name=name,
        text=text,
        parameters=_parameters(name, header),
        columns=tuple(column for column, _ in row),
        column_types=tuple(sqltype for _, sqltype in row),
        header="\n".join(header),
    )


def _parameters(name: str, header: list[str]) -> tuple[tuple[str, str], ...]:
    found = [match for line in header if (match := _PARAMETER.fullmatch(line))]
    if [int(match[1]) for match in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"statement {name!r}: parameters are not numbered $1, $2, …")
    if len({match[2] for match in found}) < len(found):
        raise ValueError(f"statement {name!r}: two parameters have one name")
    return tuple((match[2], match[3].strip()) for match in found)


def _row(name: str, header: list[str]) -> tuple[tuple[str, str], ...]:
    parts: list[str] = []
    for line in header:
        if line.startswith("row:"):
            parts = [line.removeprefix("row:")]
        elif parts and parts[-1].rstrip().endswith(","):
            parts.append(line)
    shape = " ".join(parts).partition(";")[0].strip()
    columns = [tuple(column.split(maxsplit=1)) for column in _COMMA_OUTSIDE_BRACKETS.split(shape) if column]
    if any(len(column) != 2 for column in columns):
        raise ValueError(f"statement {name!r}: a column of its row lacks name or type: {shape!r}")
    return tuple((column, sqltype) for column, sqltype in columns)
