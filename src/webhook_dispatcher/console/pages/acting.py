"""What pages have in common that show commands: their numbers, how far they have come, facts put in words."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import HttpError
from webhook_dispatcher.console.reader import Reader
from webhook_dispatcher.console.rendering import label, reason
from webhook_dispatcher.diagnosis import amounts
from webhook_dispatcher.diagnosis.said import Word
from webhook_dispatcher.diagnosis.vocabulary import is_known
from webhook_dispatcher.domain.command import COMMANDS, CommandName, CommandStatus
from webhook_dispatcher.domain.event import FailedReason
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.console.commands import CommandRow

MAX_NUMBER = 2**63 - 1
ASKING = frozenset({CommandName.RETRY, CommandName.RETRY_FAILED, CommandName.RECOVER})
"""Commands that ask for attempts."""
COUNTED = "counted"
"""The argument in which a command keeps what its preview counted; dispatchers do not heed it."""
TONES: Mapping[str, str] = {
    CommandStatus.PENDING: "info",
    CommandStatus.RUNNING: "info",
    CommandStatus.REJECTED: "bad",
    CommandStatus.WITHDRAWN: "info",
}
"""Of commands that are not done."""
INSTANTS = frozenset({"since", "until", "before", "secret_created_at", "previous_until", "began_at"})
NUMBERS = frozenset({"status", "id"})
"""Numbers that name something: their digits are not grouped."""
WORDS: Mapping[str, str] = {
    "states": "state",
    "matched": "state",
    "outcome": "outcome",
    "leave_out": "left_out",
}
"""Which closed list the values of a fact are of."""


def command_number(text: str) -> int | None:
    """Read a command's number; None where it is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 20
    return int(text) if is_number and int(text) <= MAX_NUMBER else None


def wanted_number(text: str) -> int:
    """Read a command's number in a path; HttpError where it is none."""
    if (number := command_number(text)) is None:
        raise HttpError(404, "no_command")
    return number


def is_mass(command: CommandRow) -> bool:
    """Tell whether a command is for many deliveries, as far as this version knows it."""
    return command.command in COMMANDS and COMMANDS[command.command].is_mass


@dataclass(frozen=True, slots=True)
class StatusBadge:
    """The status of a command, in a word of the reader's, and its colour."""

    text: str
    tone: str


def status_badge(command: CommandRow, reader: Reader, outcome: str | None = None) -> StatusBadge:
    """Say how a command stands. outcome: of the attempt that it asked for, where that is known.

    A command that asks for attempts is done once these are asked for, whatever comes of them.
    """
    result = command.result or {}
    found = outcome or result.get("outcome")
    if command.status != CommandStatus.DONE:
        return StatusBadge(label(reader, "command_status", command.status), TONES.get(command.status, "info"))
    if result.get("stopped") is True:
        return StatusBadge(label(reader, "fact", "stopped"), "warn")
    if found is not None:
        return StatusBadge(
            label(reader, "outcome", str(found)), "good" if found == Outcome.DELIVERED else "bad"
        )
    if command.command in ASKING:
        return StatusBadge(texts.say("commands.asked_for", reader.language), "info")
    return StatusBadge(label(reader, "command_status", command.status), "good")


@dataclass(frozen=True, slots=True)
class MassProgress:
    """How far a mass command has come. total: None where nobody knows how many there will be."""

    done: int
    total: int | None


def progress_of(command: CommandRow) -> MassProgress | None:
    """Return how far a mass command has come; None where there is nothing to say of that.

    What `recover` and `skip` find grows as they go: their total is what was counted before they were given.
    """
    done = done_of(command)
    if done is None:
        return None
    if command.command == CommandName.RETRY_FAILED:
        return MassProgress(done, matched_of(command))
    counted = (command.args or {}).get(COUNTED)
    total = max(done, counted) if isinstance(counted, int) and not isinstance(counted, bool) else None
    return None if command.is_final else MassProgress(done, total)


def matched_of(command: CommandRow) -> int | None:
    """Count what a mass command has found so far: in all, or added up by state."""
    found = (command.result or {}).get("matched")
    if isinstance(found, Mapping):
        return sum(each for each in found.values() if isinstance(each, int))
    return found if isinstance(found, int) else None


def done_of(command: CommandRow) -> int | None:
    """Count what a mass command has done so far."""
    spec = COMMANDS.get(command.command)
    found = (command.result or {}).get(spec.counted_as) if spec and spec.counted_as else None
    return found if isinstance(found, int) else None


def came_of(command: CommandRow, reader: Reader) -> str:
    """Say in a line what came of a command so far."""
    language = reader.language
    if command.error_code is not None:
        why = reason(reader, command.error_message or "")
        return f"{label(reader, 'rejection', str(command.error_code))}: {why}"
    parts = []
    if (matched := matched_of(command)) is not None:
        parts.append(texts.say("commands.matched", language, count=matched))
    if (done := done_of(command)) is not None:
        parts.append(texts.say("commands.done", language, count=done))
    if (outcome := (command.result or {}).get("outcome")) is not None:
        parts.append(label(reader, "outcome", str(outcome)))
    if (command.result or {}).get("in_flight") is True:
        parts.append(texts.say("commands.in_flight", language))
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Worded:
    """What a command was given, or what came of it. facts: names and values in the reader's words.

    rest: JSON of what there are no words for; empty where there is nothing else.
    """

    facts: Sequence[tuple[str, str]]
    rest: str


def worded(found: Mapping[str, Any] | None, reader: Reader) -> Worded:
    """Put each fact in the reader's words, where there are any for it."""
    facts, rest = [], {}
    for name, value in (found or {}).items():
        text = in_words(name, value, reader) if is_known(Word("fact", name)) else None
        if text is None:
            rest[name] = value
        else:
            # What a recovery matched is counted by the states before it, not by what came of it.
            fact = "states_before" if name == "matched" and isinstance(value, dict) else name
            facts.append((label(reader, "fact", fact), text))
    return Worded(facts, written_json(rest))


def in_words(name: str, value: Any, reader: Reader) -> str | None:
    """Write the value of a fact; None where its kind has no form in words."""
    match value:
        case bool():
            return texts.say("common.yes" if value else "common.no", reader.language)
        case int():
            return str(value) if name in NUMBERS else amounts.number(value, reader.language)
        case str():
            return _text(name, value, reader)
        case list() if all(isinstance(each, str) for each in value):
            return ", ".join(_text(name, each, reader) for each in value)
        case dict() if all(isinstance(each, int) for each in value.values()):
            counts = value.items()
            return ", ".join(
                f"{_text(name, each, reader)}: {amounts.number(count, reader.language)}"
                for each, count in counts
            )
        case _:
            return None


def _text(name: str, text: str, reader: Reader) -> str:
    if name in INSTANTS:
        try:
            return amounts.at(datetime.fromisoformat(text), reader.zone)
        except (ValueError, OverflowError):
            return text
    if name == "reason":
        return reason(reader, text)
    if text == FailedReason.SKIPPED:
        return label(reader, "failed_reason", text)
    return label(reader, WORDS[name], text) if name in WORDS else text


def written_json(found: Mapping[str, Any] | None) -> str:
    """Write what a command or the audit holds as a line of text."""
    return json.dumps(found, ensure_ascii=False, default=str) if found else ""
