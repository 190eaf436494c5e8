"""What is done to many deliveries at once: what it will do and to how many, and then, by a form, the command.

Ticked deliveries get a command each. All that match get one mass command, whose limit in time is the instant
of the preview: what comes afterwards is not part of it. A filter that no command knows is said, not ignored.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import Answer, Asked, Moved, Shown
from webhook_dispatcher.console.pages.filters import (
    LABELS,
    FieldRefused,
    FilterFields,
    event_ids,
    instant,
    said,
)
from webhook_dispatcher.console.rendering import counted, delivery_path, label, with_query
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.command import RECOVERED_BY_DEFAULT, CommandName
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.storage.console.actions import Actions
from webhook_dispatcher.storage.console.deliveries import MAX_LIMIT, Deliveries, DeliveryFilter
from webhook_dispatcher.storage.console.filters import FilterRefused

MAX_TICKED = 100
MAX_COUNTED = 1_000
"""Up to here a preview counts what matches; the command counts the rest as it goes."""
PREFIX = "only_"
"""Before the names of a filter's fields, beside the names of what is ticked."""
TICKED: Mapping[str, CommandName] = {"retry": CommandName.RETRY, "cancel": CommandName.CANCEL}

Args = Callable[[FilterFields, datetime | None, datetime], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class MassAct:
    """A command for all that match. fields: of the filter, which it understands. states: that it is about.

    needs_scope: a merchant, or a beginning in time, has to be named.
    """

    command: CommandName
    fields: frozenset[str]
    states: tuple[str, ...]
    args: Args
    is_destructive: bool = False
    needs_scope: bool = True


def _retry_args(fields: FilterFields, since: datetime | None, until: datetime) -> dict[str, Any]:
    begins = {} if since is None else {"since": since.isoformat()}
    return {**begins, "until": until.isoformat()}


def _recover_args(fields: FilterFields, since: datetime | None, until: datetime) -> dict[str, Any]:
    return {
        **_retry_args(fields, since, until),
        **({"states": [fields.state]} if fields.state else {}),
        **({"types": [fields.type]} if fields.type else {}),
        **({"charge": fields.charge} if fields.charge else {}),
    }


def _skip_args(fields: FilterFields, since: datetime | None, until: datetime) -> dict[str, Any]:
    return {"before": until.isoformat(), **({} if fields.merchant else {"all": True})}


MASS: Mapping[str, MassAct] = {
    "retry_all": MassAct(
        CommandName.RETRY_FAILED,
        frozenset({"merchant", "state", "since", "until"}),
        (State.FAILED,),
        _retry_args,
    ),
    "recover_all": MassAct(
        CommandName.RECOVER,
        frozenset({"merchant", "state", "type", "charge", "since", "until"}),
        tuple(map(str, RECOVERED_BY_DEFAULT)),
        _recover_args,
    ),
    "skip_all": MassAct(
        CommandName.SKIP,
        frozenset({"merchant", "until"}),
        (State.PENDING, State.PENDING_RETRY),
        _skip_args,
        is_destructive=True,
        needs_scope=False,
    ),
}


class ActRefused(Exception):
    """An act is not possible as it was asked for. text: why, in the reader's language."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True, slots=True)
class ActPages:
    """Previews what is done to many deliveries, and gives the commands."""

    deliveries: Deliveries
    actions: Actions
    clock: Clock

    async def preview(self, asked: Asked) -> Answer:
        """Say what an act will do, and to how many."""
        name = asked.given("act")
        back = with_query("/deliveries", dict(FilterFields.of(asked, PREFIX).pairs))
        try:
            if name in TICKED:
                return self._of_ticked(asked, name, list(asked.query.get("event", ())), back)
            return await self._of_all(asked, name, FilterFields.of(asked, PREFIX), back)
        except ActRefused as error:
            return _refused(name, error.text, back)
        except (FieldRefused, FilterRefused) as error:
            return _refused(name, said(asked, error), back)

    def _of_ticked(self, asked: Asked, name: str, ticked: Sequence[str], back: str) -> Shown:
        chosen = _chosen(asked, ticked)
        facts = {
            "key": f"act.{name}",
            "refused": "",
            "back": back,
            "scope": [],
            "events": [(str(event), delivery_path(event)) for event in chosen],
            "counts": [],
            "fields": [("act", name), *(("event", str(event)) for event in chosen)],
            "count": len(chosen),
            "is_about_all": False,
            "is_destructive": name == "cancel",
            "frozen_at": None,
        }
        return Shown("act.html", facts)

    async def _of_all(self, asked: Asked, name: str, fields: FilterFields, back: str) -> Shown:
        act = _mass_act(asked, name, fields)
        now = datetime.fromtimestamp(self.clock.unix(), UTC)
        until = _until(asked, fields, now)
        wanted = fields.wanted(asked.reader.zone)
        states = (fields.state,) if fields.state else act.states
        counts = [(state, await self._count(asked, replace(wanted, state=state))) for state in states]
        kept = replace(fields, until=until.isoformat())
        facts = {
            "key": f"act.{name}",
            "refused": "",
            "back": back,
            "scope": [
                (LABELS[field], text) for field, text in fields.pairs if field not in ("since", "until")
            ],
            "since": wanted.since,
            "events": [],
            "counts": [
                (label(asked.reader, "state", state), _shown(asked, count)) for state, count in counts
            ],
            "fields": [("act", name), *((PREFIX + field, text) for field, text in kept.pairs)],
            "count": sum(count for _, count in counts),
            "is_about_all": not fields.merchant,
            "is_destructive": act.is_destructive,
            "frozen_at": until,
        }
        return Shown("act.html", facts)

    async def _count(self, asked: Asked, wanted: DeliveryFilter) -> int:
        """Count the deliveries in a list, page by page, up to a little more than MAX_COUNTED."""
        wanted.check()
        found, after = 0, None
        for _ in range(MAX_COUNTED // MAX_LIMIT + 1):
            page = await self.deliveries.list(asked.key, wanted, after, MAX_LIMIT)
            found += len(page.deliveries)
            if (after := page.next) is None:
                return found
        return max(found, MAX_COUNTED + 1)

    async def act(self, asked: Asked) -> Answer:
        """Give the commands that were previewed."""
        name = asked.entered("act")
        fields = FilterFields.entered(asked, PREFIX)
        back = with_query("/deliveries", dict(fields.pairs))
        try:
            if name in TICKED:
                return await self._give_each(asked, TICKED[name])
            return await self._give_one(asked, name, fields)
        except ActRefused as error:
            return _refused(name, error.text, back)
        except (FieldRefused, FilterRefused) as error:
            return _refused(name, said(asked, error), back)

    async def _give_each(self, asked: Asked, command: CommandName) -> Answer:
        chosen = _chosen(asked, list(asked.form.get("event", ())))
        for event in chosen:
            number = await self.actions.give_command(asked.key, command, event_id=event)
        if len(chosen) == 1:
            return Moved(with_query(delivery_path(chosen[0]), {"command": number}))
        return Moved(with_query("/commands", {"given": len(chosen)}))

    async def _give_one(self, asked: Asked, name: str, fields: FilterFields) -> Answer:
        act = _mass_act(asked, name, fields)
        if not fields.merchant and asked.entered("everybody") != "yes":
            raise ActRefused(texts.say("act.everybody_missing", asked.reader.language))
        wanted = fields.wanted(asked.reader.zone)
        wanted.check()
        now = datetime.fromtimestamp(self.clock.unix(), UTC)
        args = act.args(fields, wanted.since, _until(asked, fields, now))
        number = await self.actions.give_command(
            asked.key, act.command, merchant_id=wanted.merchant_id, args=args
        )
        return Moved(f"/commands/{number}")


def _mass_act(asked: Asked, name: str, fields: FilterFields) -> MassAct:
    """Return an act that understands the filter, or say what keeps it from that."""
    language = asked.reader.language
    if (act := MASS.get(name)) is None:
        raise ActRefused(texts.say("act.unknown", language))
    beyond = [field for field, _ in fields.pairs if field not in act.fields]
    if fields.state and fields.state not in act.states and "state" not in beyond:
        beyond.append("state")
    if beyond:
        named = ", ".join(texts.say(LABELS[field], language) for field in beyond)
        raise ActRefused(texts.say("act.cannot_filter", language, fields=named))
    if act.needs_scope and not fields.merchant and not fields.since:
        raise ActRefused(texts.say("act.needs_scope", language))
    return act


def _until(asked: Asked, fields: FilterFields, now: datetime) -> datetime:
    """Return up to when it goes: as asked for, and never beyond the preview."""
    asked_for = instant("until", fields.until, asked.reader.zone)
    return now if asked_for is None else min(asked_for, now)


def _chosen(asked: Asked, ticked: Sequence[str]) -> list[UUID]:
    language = asked.reader.language
    chosen = list(dict.fromkeys(event_ids(ticked)))
    if not chosen:
        raise ActRefused(texts.say("act.none_ticked", language))
    if len(chosen) > MAX_TICKED:
        raise ActRefused(texts.say("act.too_many", language, count=MAX_TICKED))
    return chosen


def _shown(asked: Asked, count: int) -> str:
    return counted(asked.reader, count, MAX_COUNTED)


def _refused(name: str, text: str, back: str) -> Shown:
    key = f"act.{name}" if name in TICKED or name in MASS else "act.unknown"
    return Shown("act.html", {"key": key, "refused": text, "back": back}, 422)
