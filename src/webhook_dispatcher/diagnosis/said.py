"""What is said, as data: a key of the vocabulary, and the facts that belong in its sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from types import MappingProxyType
from typing import Union
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Word:
    """A value of one of our closed lists, such as an outcome; kind: which list (`label` of its texts' keys).

    is_code: English says it as it stands in the database, as `explain` always has.
    """

    kind: str
    value: str
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class Capped:
    """A number that was counted up to a limit; above it, it is called more."""

    count: int
    most: int


@dataclass(frozen=True, slots=True)
class Series:
    """Items with commas between them; those of a tuple are written as in a sentence, with an "and"."""

    items: tuple["Fact", ...]
    between: str = ", "


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence, or a part of one. key: of the vocabulary. facts: what its placeholders stand for.

    Counts are numbers; a number that names something (a command, a row) is text: its digits are not grouped.
    """

    key: str
    facts: Mapping[str, "Fact"] = field(default_factory=lambda: MappingProxyType({}))


Plain = str | int | float | datetime | date | timedelta | UUID | Word | Capped
Fact = Union[Plain, Said, Series, tuple["Fact", ...]]  # noqa: UP007 (it names itself)
"""Text may be anybody's (ids, a receiver's reason): it is shown, and never read as a template."""


def said(key: str, /, **facts: Fact) -> Said:
    """Make a sentence."""
    return Said(key, MappingProxyType(facts))


def who(merchant_id: str, endpoint: int | None) -> Fact:
    """Name a merchant or, by its number, one of its several endpoints."""
    return (
        merchant_id if endpoint is None else said("endpoint_of", merchant=merchant_id, number=str(endpoint))
    )


NOTHING = Series(())
"""Says nothing: for the place in a sentence of something that is not the case."""
