"""What changes have in common: the database refuses who may not; a command's id says where to follow it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import Refused
from webhook_dispatcher.console.reader import Reader
from webhook_dispatcher.console.rendering import label
from webhook_dispatcher.domain.command import CommandName, CommandStatus
from webhook_dispatcher.storage.console.commands import CommandRow

MAX_NUMBER = 2**63 - 1
MASS_COMMANDS = frozenset({CommandName.RETRY_FAILED, CommandName.RECOVER, CommandName.SKIP})
TONES: Mapping[str, str] = {
    CommandStatus.PENDING: "info",
    CommandStatus.RUNNING: "info",
    CommandStatus.DONE: "good",
    CommandStatus.REJECTED: "bad",
    CommandStatus.WITHDRAWN: "info",
}
_DONE = {CommandName.RETRY_FAILED: "retried", CommandName.RECOVER: "recovered", CommandName.SKIP: "skipped"}


def command_number(text: str) -> int | None:
    """Read a command's number; None where it is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 20
    return int(text) if is_number and int(text) <= MAX_NUMBER else None


def wanted_number(text: str) -> int:
    """Read a command's number in a path; Refused where it is none."""
    if (number := command_number(text)) is None:
        raise Refused(404, "no_command")
    return number


def is_final(command: CommandRow) -> bool:
    """Tell whether nothing more comes of a command; a state that we do not know is one of a newer version."""
    return command.status not in (CommandStatus.PENDING, CommandStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a mass command has come. total: None where nobody knows how many there will be."""

    done: int
    total: int | None


def progress_of(command: CommandRow) -> Progress | None:
    """Return how far a mass command has come; None where there is nothing to say of that.

    What `recover` and `skip` find grows as they go: of them alone what is done so far can be told.
    """
    done = done_of(command)
    if done is None:
        return None
    if command.command == CommandName.RETRY_FAILED:
        return Progress(done, matched_of(command))
    return None if is_final(command) else Progress(done, None)


def matched_of(command: CommandRow) -> int | None:
    """Count what a mass command has found so far: in all, or added up by state."""
    found = (command.result or {}).get("matched")
    if isinstance(found, Mapping):
        return sum(each for each in found.values() if isinstance(each, int))
    return found if isinstance(found, int) else None


def done_of(command: CommandRow) -> int | None:
    """Count what a mass command has done so far."""
    found = (command.result or {}).get(_DONE.get(command.command, ""))  # type: ignore[call-overload]
    return found if isinstance(found, int) else None


def came_of(command: CommandRow, reader: Reader) -> str:
    """Say in a line what came of a command so far."""
    language = reader.language
    if command.error_code is not None:
        return f"{label(reader, 'rejection', str(command.error_code))}: {command.error_message or ''}"
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


def written_json(found: Mapping[str, Any] | None) -> str:
    """Write what a command or the audit holds as a line of text."""
    return json.dumps(found, ensure_ascii=False, default=str) if found else ""
