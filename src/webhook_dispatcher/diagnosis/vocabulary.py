"""The vocabulary: says in a person's language and time zone what is given as data.

Its texts are data too (`words`). They alone are templates: `{name}` stands for a fact. What others wrote is a
fact's value, and is never read as a template.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, tzinfo
from functools import cache
from string import Formatter
from typing import NamedTuple

from webhook_dispatcher import words
from webhook_dispatcher.diagnosis import amounts
from webhook_dispatcher.diagnosis.said import Capped, Fact, Plain, Said, Series, Word
from webhook_dispatcher.domain.command import CommandName, CommandStatus
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.language import DEFAULT, Language
from webhook_dispatcher.domain.verdict import Outcome

CHOICES: Mapping[str, Iterable[str]] = {
    "state": State,
    "outcome": Outcome,
    "command": CommandName,
    "command_status": CommandStatus,
}
"""Closed lists that filters offer, in their order."""
COUNT = "count"
"""The fact that decides which form of a plural is taken."""


class Part(NamedTuple):
    """A stretch of what is said.

    fact: the value that it shows, for a page that links an id or has an instant's UTC beside it; None for
    our own words. name: what the text calls that fact.
    """

    text: str
    name: str = ""
    fact: Fact | None = None


def say(said: Said, language: Language, zone: tzinfo) -> str:
    """Say something as plain text. zone: in which instants are shown."""
    return "".join(part.text for part in parts(said, language, zone))


def parts(said: Said, language: Language, zone: tzinfo) -> Iterator[Part]:
    """Say the same part by part."""
    for words_before, name in _read(_template(said, language)):
        if words_before:
            yield Part(words_before)
        if name is not None:
            yield from _shown(said.facts[name], name, language, zone)


def label(word: Word, language: Language) -> str:
    """Write a value of a closed list as it stands in a table; a value that we do not know, as it is."""
    return words.find(f"label.{word.kind}.{word.value}", language) or amounts.printable(word.value)


def is_known(word: Word) -> bool:
    """Tell whether there is a label for a value."""
    return words.find(f"label.{word.kind}.{word.value}", DEFAULT) is not None


def choices(kind: str) -> tuple[str, ...]:
    """Return the values of a closed list, in the order in which a filter offers them."""
    return tuple(CHOICES[kind])


def _template(said: Said, language: Language) -> str:
    count = said.facts.get(COUNT)
    return words.template(f"said.{said.key}", language, count if isinstance(count, int) else None)


@cache
def _read(template: str) -> tuple[tuple[str, str | None], ...]:
    """Split a text into words and the name of the fact that follows them; there are only as many as texts."""
    return tuple((words_before, name) for words_before, name, _, _ in Formatter().parse(template))


def _shown(fact: Fact, name: str, language: Language, zone: tzinfo) -> Iterator[Part]:
    match fact:
        case Said():
            yield from parts(fact, language, zone)
        case tuple():
            yield from _in_turn(
                zip(amounts.joined(len(fact), language), fact, strict=True), name, language, zone
            )
        case Series():
            between = ["", *[fact.between] * (len(fact.items) - 1)]
            yield from _in_turn(zip(between, fact.items, strict=False), name, language, zone)
        case _:
            yield Part(_written(fact, language, zone), name, fact)


def _in_turn(
    items: Iterable[tuple[str, Fact]], name: str, language: Language, zone: tzinfo
) -> Iterator[Part]:
    for before, each in items:
        if before:
            yield Part(before)
        yield from _shown(each, name, language, zone)


def _written(fact: Plain, language: Language, zone: tzinfo) -> str:
    match fact:
        case Word():
            return _within(fact, language)
        case datetime():
            return amounts.at(fact, zone)
        case timedelta():
            return amounts.span(fact, language)
        case int():
            return amounts.number(fact, language)
        case float():
            return amounts.tenths(fact, language)
        case Capped():
            return amounts.many(fact.count, fact.most, language)
        case _:
            return amounts.printable(str(fact))


def _within(word: Word, language: Language) -> str:
    """Write a value of a closed list within a sentence: with a small letter, but for an abbreviation."""
    if not is_known(word) or (word.is_code and language == "en"):
        return amounts.printable(word.value)
    written = label(word, language)
    return written if written[1:2].isupper() else written[:1].lower() + written[1:]
