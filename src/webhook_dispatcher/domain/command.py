"""The control table's commands, read into what they ask for.

Source: contract 3, `webhook.control`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, NoReturn
from uuid import UUID

from webhook_dispatcher.domain.errors import DispatcherError

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
MOST_RETRIED = 10_000_000


class Code(IntEnum):
    """Why a command was rejected."""

    INVALID_URL = -14001
    NOT_CONFIGURED = -14002
    NOT_FOUND = -14003
    WRONG_STATE = -14004
    MALFORMED = -14005


class CommandRejected(DispatcherError):
    """A command cannot be carried out. Reaction: write code and message beside it."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Command:
    """A row of the control table.

    args: None when they are not a JSON object that we can read.
    result: how far an earlier worker has come, if one began it and went away; None like args.
    """

    id: int
    command: str
    merchant_id: str | None
    event_id: UUID | None
    args: Mapping[str, Any] | None
    result: Mapping[str, Any] | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Retry:
    """One attempt now."""

    event_id: UUID
    force: bool


@dataclass(frozen=True, slots=True)
class RetryFailed:
    """The same for every failed delivery that finished within [since, until)."""

    merchant_id: str | None
    since: datetime
    until: datetime
    limit: int


@dataclass(frozen=True, slots=True)
class TestEvent:
    """A sample event, at once."""

    __test__ = False
    merchant_id: str


@dataclass(frozen=True, slots=True)
class SetUrl:
    """Change an endpoint's URL."""

    merchant_id: str
    url: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause or resume a merchant, or everything."""

    merchant_id: str | None
    is_paused: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    """Give up a delivery that is owed."""

    event_id: UUID


Wish = Retry | RetryFailed | TestEvent | SetUrl | Pause | Cancel

COMMANDS = ("retry", "retry_failed", "test_event", "set_url", "pause", "resume", "cancel")


def understand(command: Command) -> Wish:
    """Read a command; CommandRejected (MALFORMED) says what is missing or wrong."""
    if command.args is None:
        _malformed("args must be a JSON object of reasonable size")
    if command.result is None:
        malformed_progress()
    match command.command:
        case "retry":
            return Retry(_event_id(command), _flag(command, "force"))
        case "retry_failed":
            return _retry_failed(command)
        case "test_event":
            return TestEvent(_merchant_id(command))
        case "set_url":
            url = _argument(command, "url")
            if not isinstance(url, str):
                _malformed("set_url needs args.url, a string")
            return SetUrl(_merchant_id(command), url)
        case "pause" | "resume":
            return Pause(command.merchant_id, command.command == "pause")
        case "cancel":
            return Cancel(_event_id(command))
        case _:
            _malformed(f"unknown command; known are {', '.join(COMMANDS)}")


def _retry_failed(command: Command) -> RetryFailed:
    since = _instant(command, "since")
    if command.merchant_id is None and since is None:
        _malformed("retry_failed needs merchant_id or args.since")
    limit = _argument(command, "limit", MOST_RETRIED)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_RETRIED:
        _malformed(f"args.limit is a whole number from 1 to {MOST_RETRIED}")
    # What fails again after the command was given is not its business, or it would never end.
    until = min(_instant(command, "until") or command.created_at, command.created_at)
    return RetryFailed(command.merchant_id, since or LONG_AGO, until, limit)


def _argument(command: Command, name: str, default: object = None) -> Any:
    return (command.args or {}).get(name, default)


def _instant(command: Command, name: str) -> datetime | None:
    text = _argument(command, name)
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is not None:
            return instant.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        _malformed(f"args.{name} is an instant such as 2026-11-20T08:15:30Z")
    _malformed(f"args.{name} needs an offset, such as Z or +00:00")


def _flag(command: Command, name: str) -> bool:
    flag = _argument(command, name, False)
    if not isinstance(flag, bool):
        _malformed(f"args.{name} is true or false")
    return flag


def _event_id(command: Command) -> UUID:
    if command.event_id is None:
        _malformed(f"{command.command} needs event_id")
    return command.event_id


def _merchant_id(command: Command) -> str:
    if command.merchant_id is None:
        _malformed(f"{command.command} needs merchant_id")
    return command.merchant_id


def malformed_progress() -> NoReturn:
    """Reject a command whose result, as it stands, no worker of ours can have written."""
    _malformed("result is not what a worker wrote: ask anew")


def _malformed(message: str) -> NoReturn:
    raise CommandRejected(Code.MALFORMED, message)
