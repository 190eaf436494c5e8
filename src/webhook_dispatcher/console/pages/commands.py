"""The commands that people gave and the changes that they made; one command with its progress."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import HttpError, Page, Redirect, Request, Response
from webhook_dispatcher.console.pages import acting
from webhook_dispatcher.console.pages.filters import MAX_FIELD, said
from webhook_dispatcher.console.reader import Reader
from webhook_dispatcher.console.rendering import label, with_query
from webhook_dispatcher.diagnosis.vocabulary import choices
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.storage.console.actions import Actions
from webhook_dispatcher.storage.console.commands import AuditRow, CommandFilter, CommandRow, Commands
from webhook_dispatcher.storage.console.filters import FilterRefused

SETTLING = timedelta(minutes=10)
"""How long after a command's end its page still refreshes itself: its events may be under way."""
LABELS: Mapping[str, str] = {
    "command": "commands.command",
    "status": "deliveries.state",
    "merchant_id": "deliveries.merchant",
    "requested_by": "commands.by",
    "after": "filter.after",
}
SHOWN_BESIDE = frozenset({"merchant_id", "account"})
"""Facts of a change that have a column of their own."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command in the list."""

    row: CommandRow
    status: acting.StatusBadge
    came_of_it: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change in the list. action: in the reader's words. subject: an account, where it is about one."""

    row: AuditRow
    action: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class ListPage:
    """Some of a list; next, looked_back_to: as of `storage.console.commands.CommandPage`."""

    rows: Sequence[CommandLine] | Sequence[Change]
    next: str | None = None
    looked_back_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class Fields:
    """What the URL asks for, as it was written; empty: not asked for. view: `changes`, or commands."""

    view: str = ""
    command: str = ""
    status: str = ""
    merchant: str = ""
    by: str = ""

    @classmethod
    def from_query(cls, request: Request) -> "Fields":
        """Read them from a query; of changes only the merchant can be asked for."""
        merchant = request.query_value("merchant")[:MAX_FIELD]
        if request.query_value("view") == "changes":
            return cls(view="changes", merchant=merchant)
        named = {name: request.query_value(name)[:MAX_FIELD] for name in ("command", "status", "by")}
        return cls(merchant=merchant, **named)

    @property
    def pairs(self) -> dict[str, str]:
        """Those that are filled in, by their names."""
        return {each.name: text for each in fields(self) if (text := getattr(self, each.name))}


@dataclass(frozen=True, slots=True)
class Said:
    """What came of a form, said above the page."""

    tone: str
    key: str
    facts: dict[str, object] = field(default_factory=dict)


_SAID = {
    "withdrawn": Said("good", "commands.withdrawn"),
    "not_withdrawn": Said("warn", "commands.not_withdrawn"),
    "stopped": Said("good", "commands.stopped"),
    "not_stopped": Said("warn", "commands.not_stopped"),
}


@dataclass(frozen=True, slots=True)
class CommandPages:
    """Lists commands and changes; shows one, withdraws and stops it."""

    commands: Commands
    actions: Actions
    clock: Clock

    async def show(self, request: Request) -> Response:
        """Show the list: commands, or what was changed."""
        wanted = Fields.from_query(request)
        try:
            page = await (self._list_changes if wanted.view else self._list_commands)(request, wanted)
        except FilterRefused as error:
            return _list(request, wanted, ListPage([]), refused=said(request, error, LABELS))
        return _list(request, wanted, page)

    async def _list_commands(self, request: Request, filled: Fields) -> ListPage:
        wanted = CommandFilter(
            command=filled.command or None,
            status=filled.status or None,
            merchant_id=filled.merchant or None,
            requested_by=filled.by or None,
        )
        page = await self.commands.list(request.key, wanted, request.query_value("after") or None)
        lines = [
            CommandLine(row, acting.status_badge(row, request.reader), acting.came_of(row, request.reader))
            for row in page.commands
        ]
        return ListPage(lines, page.next, page.looked_back_to)

    async def _list_changes(self, request: Request, filled: Fields) -> ListPage:
        page = await self.commands.audit(
            request.key, filled.merchant or None, request.query_value("after") or None
        )
        return ListPage([_change(row, request.reader) for row in page.entries], page.next)

    async def show_one(self, request: Request) -> Response:
        """Show one command, and which deliveries it sent again."""
        number = acting.wanted_number(request.parameters["command"])
        if (command := await self.commands.get(request.key, number)) is None:
            raise HttpError(404, "no_command")
        only_failed = request.query_value("only") == "failed"
        events = None
        if command.has_events:
            try:
                after = request.query_value("after") or None
                events = await self.commands.events(request.key, command.id, only_failed, after)
            except FilterRefused:
                events = await self.commands.events(request.key, command.id, only_failed)
        path = f"/commands/{command.id}"
        only = {"only": "failed"} if only_failed else {}
        facts = {
            "said": _SAID.get(request.query_value("said")),
            "command": command,
            "status_badge": acting.status_badge(command, request.reader),
            "is_final": command.is_final,
            "is_stoppable": acting.is_mass(command) and not command.is_final,
            "came_of_it": acting.came_of(command, request.reader),
            "is_moving": not command.is_final or self._may_settle(command),
            "progress": acting.progress_of(command),
            "args": acting.worded(command.args, request.reader),
            "result": acting.worded(command.result, request.reader),
            "events": events,
            "only_failed": only_failed,
            "here": with_query(path, {**only, "after": request.query_value("after")}),
            "all_path": path,
            "failed_path": with_query(path, {"only": "failed"}),
            "next_page": with_query(path, {**only, "after": events.next}) if events and events.next else None,
        }
        return Page("command.html", facts)

    def _may_settle(self, command: CommandRow) -> bool:
        """Tell whether events of a command that has ended may still be under way."""
        if not command.has_events or command.handled_at is None:
            return False
        return datetime.fromtimestamp(self.clock.unix(), UTC) - command.handled_at < SETTLING

    async def withdraw(self, request: Request) -> Response:
        """Take back a command that nobody has taken up."""
        number = acting.wanted_number(request.parameters["command"])
        is_done = await self.actions.withdraw_command(request.key, number)
        return Redirect(f"/commands/{number}?said={'withdrawn' if is_done else 'not_withdrawn'}")

    async def stop(self, request: Request) -> Response:
        """End a mass command after its chunk."""
        number = acting.wanted_number(request.parameters["command"])
        is_done = await self.actions.stop_command(request.key, number)
        return Redirect(f"/commands/{number}?said={'stopped' if is_done else 'not_stopped'}")


def _list(request: Request, filled: Fields, page: ListPage, refused: str = "") -> Page:
    count = request.query_value("given")
    is_number = count.isascii() and count.isdecimal() and len(count) < 6
    kept, of_merchant = filled.pairs, {"merchant": filled.merchant}
    facts = {
        "view": filled.view or "commands",
        "filter": filled,
        "is_filtered": bool(kept.keys() - {"view"}),
        "rows": page.rows,
        "looked_back_to": page.looked_back_to,
        "refused": refused,
        "is_live": not request.query_value("after"),
        "here": with_query("/commands", kept),
        "commands_path": with_query("/commands", of_merchant),
        "changes_path": with_query("/commands", {"view": "changes", **of_merchant}),
        "is_later_page": bool(request.query_value("after")),
        "first_page": with_query("/commands", kept),
        "next_page": with_query("/commands", {**kept, "after": page.next}) if page.next else None,
        "said": Said("good", "act.given", {"count": int(count)}) if is_number else None,
    }
    return Page("commands.html", facts, 422 if refused else 200)


def _change(row: AuditRow, reader: Reader) -> Change:
    """Write a change in the reader's words: what was done, and what each value was and became."""
    before, after = row.before or {}, row.after or {}
    name, _, command = row.action.partition(" ")
    action = (
        f"{texts.say('commands.command', reader.language)}: {label(reader, 'command', command)}"
        if name == "command" and command in choices("command")
        else label(reader, "change", row.action)
    )
    changed = [each for each in {**before, **after} if before.get(each) != after.get(each)]
    detail = "; ".join(
        f"{label(reader, 'fact', each)}: {_sides(each, before.get(each), after.get(each), reader)}"
        for each in changed
        if each not in SHOWN_BESIDE and (before.get(each) or after.get(each)) not in ({}, None)
    )
    return Change(row, action, str({**before, **after}.get("account") or ""), detail)


def _sides(name: str, before: object, after: object, reader: Reader) -> str:
    """Write what a value was and what it became."""
    return " → ".join(_side(name, each, reader) for each in (before, after) if each is not None)


def _side(name: str, value: object, reader: Reader) -> str:
    if name == "args" and isinstance(value, dict):
        args = acting.worded(value, reader)
        return ", ".join(
            [*(f"{fact} {text}" for fact, text in args.facts), *([args.rest] if args.rest else [])]
        )
    return acting.in_words(name, value, reader) or json.dumps(value, ensure_ascii=False)
