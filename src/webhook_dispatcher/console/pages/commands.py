"""The commands that people gave and the changes that they made; one command with its progress."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from webhook_dispatcher.console.calls import Answer, Asked, Moved, Refused, Shown
from webhook_dispatcher.console.pages import acting
from webhook_dispatcher.console.pages.filters import said
from webhook_dispatcher.console.rendering import with_query
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.storage.console.actions import Actions
from webhook_dispatcher.storage.console.commands import AuditRow, CommandRow, Commands
from webhook_dispatcher.storage.console.filters import FilterRefused

SETTLING = timedelta(minutes=10)
"""For so long after a command has ended, its page goes on asking what became of its events."""
_SAID = {
    "withdrawn": ("good", "commands.withdrawn"),
    "not_withdrawn": ("warn", "commands.not_withdrawn"),
    "stopped": ("good", "commands.stopped"),
    "not_stopped": ("warn", "commands.not_stopped"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """A command in the list."""

    row: CommandRow
    came_of_it: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change in the list. subject: an account, where it is about one."""

    row: AuditRow
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class Said:
    """What came of a form, said above the page."""

    tone: str
    key: str
    facts: dict[str, object]


@dataclass(frozen=True, slots=True)
class CommandPages:
    """Lists commands and changes; shows one, withdraws and stops it."""

    commands: Commands
    actions: Actions
    clock: Clock

    async def show(self, asked: Asked) -> Answer:
        """Show the list: commands, or what was changed."""
        is_changes = asked.given("view") == "changes"
        after = asked.given("after") or None
        try:
            rows, further = await (self._changes if is_changes else self._given)(asked, after)
        except FilterRefused as error:
            return _list(asked, [], None, refused=said(asked, error))
        return _list(asked, rows, further)

    async def _given(self, asked: Asked, after: str | None) -> tuple[list[Line] | list[Change], str | None]:
        page = await self.commands.list(asked.key, after=after)
        return [Line(row, acting.came_of(row, asked.reader)) for row in page.commands], page.next

    async def _changes(self, asked: Asked, after: str | None) -> tuple[list[Line] | list[Change], str | None]:
        page = await self.commands.audit(asked.key, after=after)
        return [_change(row) for row in page.entries], page.next

    async def show_one(self, asked: Asked) -> Answer:
        """Show one command, and which deliveries it sent again."""
        number = acting.wanted_number(asked.parameters["command"])
        if (command := await self.commands.get(asked.key, number)) is None:
            raise Refused(404, "no_command")
        only_failed = asked.given("only") == "failed"
        events = None
        if command.has_events:
            try:
                after = asked.given("after") or None
                events = await self.commands.events(asked.key, command.id, only_failed, after)
            except FilterRefused:
                events = await self.commands.events(asked.key, command.id, only_failed)
        path = f"/commands/{command.id}"
        only = {"only": "failed"} if only_failed else {}
        facts = {
            "said": _said(asked.given("said")),
            "command": command,
            "is_final": acting.is_final(command),
            "is_stoppable": command.command in acting.MASS_COMMANDS and not acting.is_final(command),
            "came_of_it": acting.came_of(command, asked.reader),
            "is_moving": not acting.is_final(command) or self._may_settle(command),
            "progress": acting.progress_of(command),
            "args": acting.written_json(command.args),
            "result": acting.written_json(command.result),
            "events": events,
            "only_failed": only_failed,
            "here": with_query(path, {**only, "after": asked.given("after")}),
            "all_path": path,
            "failed_path": with_query(path, {"only": "failed"}),
            "next_page": with_query(path, {**only, "after": events.next}) if events and events.next else None,
        }
        return Shown("command.html", facts)

    def _may_settle(self, command: CommandRow) -> bool:
        """Tell whether events of a command that has ended may still be under way."""
        if not command.has_events or command.handled_at is None:
            return False
        return datetime.fromtimestamp(self.clock.unix(), UTC) - command.handled_at < SETTLING

    async def withdraw(self, asked: Asked) -> Answer:
        """Take back a command that nobody has taken up."""
        number = acting.wanted_number(asked.parameters["command"])
        is_done = await self.actions.withdraw_command(asked.key, number)
        return Moved(f"/commands/{number}?said={'withdrawn' if is_done else 'not_withdrawn'}")

    async def stop(self, asked: Asked) -> Answer:
        """End a mass command after its chunk."""
        number = acting.wanted_number(asked.parameters["command"])
        is_done = await self.actions.stop_command(asked.key, number)
        return Moved(f"/commands/{number}?said={'stopped' if is_done else 'not_stopped'}")


def _list(asked: Asked, rows: list[Line] | list[Change], further: str | None, refused: str = "") -> Shown:
    view = "changes" if asked.given("view") == "changes" else "commands"
    given = asked.given("given")
    is_number = given.isascii() and given.isdecimal() and len(given) < 6
    kept = {"view": "changes"} if view == "changes" else {}
    facts = {
        "view": view,
        "rows": rows,
        "refused": refused,
        "is_live": not asked.given("after"),
        "here": with_query("/commands", kept),
        "is_later_page": bool(asked.given("after")),
        "first_page": with_query("/commands", kept),
        "next_page": with_query("/commands", {**kept, "after": further}) if further else None,
        "said": Said("good", "act.given", {"count": int(given)}) if is_number else None,
    }
    return Shown("commands.html", facts, 422 if refused else 200)


def _change(row: AuditRow) -> Change:
    """Say of what was changed whom it is about; both sides are what the database wrote itself."""
    after = row.after or {}
    subject = str((row.after or row.before or {}).get("account") or "")
    before = acting.written_json(row.before)
    detail = (
        f"{before} → {acting.written_json(after)}"
        if before and after
        else before or acting.written_json(after)
    )
    return Change(row, subject, detail)


def _said(name: str) -> Said | None:
    return Said(*_SAID[name], {}) if name in _SAID else None
