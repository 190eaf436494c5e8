"""What people asked for, what came of it, and who changed what: console_commands.sql, bound.

All lists have the newest first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from webhook_dispatcher.domain.command import CommandName, CommandStatus, ListedCommand
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.command import parsed
from webhook_dispatcher.storage.console import positions
from webhook_dispatcher.storage.console.filters import check_choice, check_text
from webhook_dispatcher.storage.console.reading import ask_as
from webhook_dispatcher.storage.statements import load

MAX_LIMIT = 100
LOOK = 5_000
"""Commands, entries of the audit, or events of a command that one page looks at, at most."""
NEWEST = positions.MAX_NUMBER
_NAMES = frozenset(map(str, CommandName))
_STATUSES = frozenset(map(str, CommandStatus))
_STATEMENTS = load("console_commands")


@dataclass(frozen=True, slots=True)
class CommandFilter:
    """Which commands are wanted: those that match all. merchant_id: as the command names it."""

    command: str | None = None
    status: str | None = None
    merchant_id: str | None = None
    requested_by: str | None = None

    def check(self) -> None:
        """Raise FilterRefused where something in it cannot be."""
        check_choice("command", self.command, _NAMES)
        check_choice("status", self.status, _STATUSES)
        check_text("merchant_id", self.merchant_id)
        check_text("requested_by", self.requested_by)


@dataclass(frozen=True, slots=True)
class CommandRow(ListedCommand):
    """A command with what was asked for. args, result: None where they are too long to be shown.

    has_events: it went through many deliveries, and `Commands.events` tells which.
    """

    args: Mapping[str, Any] | None
    running_until: datetime | None
    is_stopping: bool
    has_events: bool


@dataclass(frozen=True, slots=True)
class CommandPage:
    """Some commands. next, looked_back_to: as of `storage.console.deliveries.DeliveryPage`."""

    commands: Sequence[CommandRow]
    next: str | None = None
    looked_back_to: datetime | None = None


class Became(StrEnum):
    """What became of an event that a command sent again. GONE: its day's log was dropped."""

    DELIVERED = "delivered"
    FAILED = "failed"
    WAITING = "waiting"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class CommandEvent:
    """An event that a command sent again, and what became of it since. None: it is gone."""

    seq: int
    event_id: UUID | None
    merchant_id: str | None
    type: str | None
    charge_id: str | None
    state: str | None
    became: Became
    last_outcome: str | None
    last_status: int | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class CommandEventPage:
    """Some events of a command, in the order in which it sent them.

    next: as of DeliveryPage. looked_at: how many of its events this page went through.
    """

    events: Sequence[CommandEvent]
    next: str | None = None
    looked_at: int = 0


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Something that was changed. person: None where nobody was named; role: of the database."""

    id: int
    at: datetime
    role: str
    person: str | None
    action: str
    merchant_id: str | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some of what was changed; empty for viewers. next: as of `storage.console.deliveries.DeliveryPage`."""

    entries: Sequence[AuditRow]
    next: str | None = None


class Commands:
    """Reads as `storage.console.deliveries` does; SessionOver where the session does not hold any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self,
        session: bytes,
        wanted: CommandFilter = CommandFilter(),
        after: str | None = None,
        limit: int = 50,
    ) -> CommandPage:
        """Return at most `limit` commands, from a page's `next` on. Errors: FilterRefused."""
        wanted.check()
        conditions = wanted.command, wanted.status, wanted.merchant_id, wanted.requested_by
        rows = await self._ask(
            "show_commands", session, _below(after), *conditions, LOOK, _bounded(limit) + 1
        )
        found, last = _split(rows)
        commands = [_command(row) for row in found[:limit]]
        if len(found) > limit:
            return CommandPage(commands, positions.write(commands[-1].id))
        if last is None:
            return CommandPage(commands)
        return CommandPage(commands, positions.write(last["id"]), last["created_at"])

    async def get(self, session: bytes, command_id: int) -> CommandRow | None:
        """Return one command, as for its progress."""
        if not 0 <= command_id <= NEWEST:
            return None
        rows = await self._ask("show_command", session, command_id)
        return _command(rows[0]) if rows else None

    async def events(
        self,
        session: bytes,
        command_id: int,
        only_failed: bool = False,
        after: str | None = None,
        limit: int = 50,
    ) -> CommandEventPage:
        """Return events that a command sent again, and what became of each."""
        place = int(positions.read(after, int)[0]) if after is not None else 0
        rows = await self._ask(
            "show_command_events", session, command_id, place, only_failed, LOOK, _bounded(limit) + 1
        )
        found, last = _split(rows)
        events = [_event(row) for row in found[:limit]]
        if len(found) > limit:
            end = found[limit - 1]["place"]
            return CommandEventPage(events, positions.write(end), end - place)
        end = last["place"] if last is not None else None
        return CommandEventPage(
            events, positions.write(end) if end else None, rows[-1]["place"] - place if rows else 0
        )

    async def audit(
        self, session: bytes, merchant_id: str | None = None, after: str | None = None, limit: int = 50
    ) -> AuditPage:
        """Return at most `limit` entries of the audit, of one merchant where it is given."""
        check_text("merchant_id", merchant_id)
        name = "show_audit" if merchant_id is None else "show_audit_of_merchant"
        of_merchant = () if merchant_id is None else (merchant_id,)
        rows = await self._ask(name, session, *of_merchant, _below(after), _bounded(limit) + 1)
        entries = [_audit(row) for row in rows[:limit]]
        return AuditPage(entries, positions.write(entries[-1].id) if len(rows) > limit else None)

    async def _ask(self, name: str, session: bytes, *arguments: object) -> Sequence[dict[str, Any]]:
        return await ask_as(self._database, _STATEMENTS[name], session, *arguments)


def _below(after: str | None) -> int:
    return NEWEST if after is None else int(positions.read(after, int)[0])


def _bounded(limit: int) -> int:
    if not 1 <= limit <= MAX_LIMIT:
        raise ValueError(f"limit: must be 1 to {MAX_LIMIT}, not {limit}")
    return limit


def _split(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Part what matches from the last that was looked at, which may be there to go on behind it."""
    last = next((row for row in rows if row["is_last_looked_at"]), None)
    found = [row for row in rows if row["is_match"]]
    for row in rows:
        del row["is_match"], row["is_last_looked_at"]
    return found, last


def _command(row: dict[str, Any]) -> CommandRow:
    return CommandRow(**parsed(row, "args", "result"))


def _audit(row: dict[str, Any]) -> AuditRow:
    return AuditRow(**parsed(row, "before", "after"))


def _event(row: dict[str, Any]) -> CommandEvent:
    shown = {name: value for name, value in row.items() if name not in ("place", "is_owed")}
    return CommandEvent(**shown, became=_became(row))


def _became(row: Mapping[str, Any]) -> Became:
    if row["state"] is None:
        return Became.GONE
    if row["is_owed"]:
        return Became.WAITING
    return Became.DELIVERED if row["last_outcome"] == "delivered" else Became.FAILED
