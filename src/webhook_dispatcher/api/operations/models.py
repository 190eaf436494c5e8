"""How answers are written: by the models that the OpenAPI document is made from, so that both are alike."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any
from uuid import UUID

import orjson
from pydantic import AwareDatetime, Field, PlainSerializer, WithJsonSchema

from webhook_dispatcher.api.calls import Head
from webhook_dispatcher.api.validation import Model, refuse_field
from webhook_dispatcher.domain.event import CHARGE_TYPES, EVENT_TYPES, render_instant
from webhook_dispatcher.domain.verdict import Outcome

INSTANT = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$",
}
Instant = Annotated[
    datetime, PlainSerializer(render_instant, return_type=str), WithJsonSchema(INSTANT, mode="serialization")
]
"""ISO 8601, UTC, milliseconds, Z."""

Moment = Annotated[
    AwareDatetime, Field(ge=datetime(2000, 1, 1, tzinfo=UTC), lt=datetime(2100, 1, 1, tzinfo=UTC))
]
"""What a client gives: with its offset from UTC, and within the years that events may have."""

TYPE = {"type": "string", "pattern": "^[a-z0-9_.]{1,64}$"}
EventType = Annotated[str, WithJsonSchema({**TYPE, "examples": [*EVENT_TYPES]})]
"""Ours, which the document names, or one of the installation's own."""
WantedType = Annotated[str, WithJsonSchema({**TYPE, "examples": [*CHARGE_TYPES]})]
"""What a merchant's filter may name of these."""

BLOCKED_REASON = "events cannot be sent to this URL, or to an address that its name leads to"
"""What a merchant is told of a refusal: which address it was, and why, would map our network by names."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

EXAMPLE_ID = "0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11"
EXAMPLE_SINCE, EXAMPLE_UNTIL = "2026-11-20T14:00:00Z", "2026-11-20T19:00:00+02:00"


def write(model: type[Model], source: object = None, **values: Any) -> bytes:
    """Write an answer by its model: `values`, and else the source's attributes of the fields' names.

    Not by an object of the model, which costs five times as much and checks nothing either.
    """
    fields = {
        alias: values[name] if name in values else getattr(source, name) for name, alias in _aliases(model)
    }
    return orjson.dumps(fields, default=_as_text, option=orjson.OPT_PASSTHROUGH_DATETIME)


def write_list(model: type[Model], sources: Iterable[object]) -> bytes:
    """Write a list of answers by their model, all at once: half of what `write` costs for each."""
    values, aliases = _attributes(model)
    rows = [dict(zip(aliases, values(source), strict=True)) for source in sources]
    return orjson.dumps(rows, default=_as_text, option=orjson.OPT_PASSTHROUGH_DATETIME)


def uuid_of(head: Head, parameter: str) -> UUID:
    """Read an id in the path; what is no UUID is a field that is not valid."""
    text = head.parameters[parameter]
    # UUID() takes braces, prefixes and the digits of other scripts, too.
    if not _UUID.fullmatch(text):
        raise refuse_field(parameter, "uuid", head.language)
    return UUID(text)


def public_reason(outcome: str | None, reason: str | None) -> str | None:
    """Return why an attempt failed, as merchants are told; operators read the reason itself."""
    return BLOCKED_REASON if outcome == Outcome.BLOCKED else reason


def _as_text(value: object) -> str:
    """Write instants as the models do, and ids as asyncpg reads them, a type of its own."""
    match value:
        case datetime():
            return render_instant(value)
        case UUID():
            return str(value)
        case _:
            raise TypeError(f"no answer holds a {type(value).__name__}")


@cache
def _attributes(model: type[Model]) -> tuple[Callable[[object], tuple[Any, ...]], tuple[str, ...]]:
    """Return what reads the attributes of an object that a model names, and how they are named outside."""
    names, aliases = zip(*_aliases(model), strict=True)
    return attrgetter(*names), aliases


@cache
def _aliases(model: type[Model]) -> tuple[tuple[str, str], ...]:
    """Return the names of a model's fields, inside and outside."""
    return tuple((name, field.alias or name) for name, field in model.model_fields.items())
