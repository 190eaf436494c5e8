"""What is done to many deliveries at once: what it will do and to how many, and then, by a form, the command.

Ticked deliveries get a command each. All that match get one mass command, which ends at the instant of the
preview: what comes afterwards is not part of it. A preview counts what the command would find, up to a bound.
Where a filter has a field that the command does not know, the page says so and does not leave it out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import Page, Redirect, Request, Response
from webhook_dispatcher.console.pages import acting
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
from webhook_dispatcher.domain.command import (
    LONG_AGO,
    MAX_RETRIED,
    RECOVERABLE,
    RECOVERED_BY_DEFAULT,
    SENT_AGAIN,
    CommandName,
    LeaveOut,
    Recover,
    Skip,
)
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.mass_command import Preview
from webhook_dispatcher.storage.console.actions import Actions
from webhook_dispatcher.storage.console.filters import FilterRefused
from webhook_dispatcher.storage.console.previews import Previews
from webhook_dispatcher.storage.console.reading import MAX_COUNTED

MAX_TICKED = 100
PREFIX = "only_"
"""Stands before the names of a filter's fields in forms that have fields of their own, too."""
NEW, SHOWN = "new_", "shown_"
"""Stand before the fields in which a preview's window is chosen anew, and before what was in these."""
CHOICES = ("states", "included")
"""The fields in which people choose which states are meant, and what is not left out."""
TICKED: Mapping[str, CommandName] = {"retry": CommandName.RETRY, "cancel": CommandName.CANCEL}
POSSIBLE: Mapping[str, frozenset[str]] = {
    "retry": frozenset({State.FAILED, State.PENDING_RETRY}),
    "cancel": frozenset({State.PENDING, State.PENDING_RETRY}),
}
"""The states in which a delivery can be ticked for an act."""
RECENT = timedelta(hours=6)
"""What is offered where neither a merchant nor a beginning in time is named."""
PRESETS = (timedelta(hours=1), RECENT, timedelta(hours=24))


@dataclass(frozen=True, slots=True)
class Scope:
    """What a mass command is about, as its args say it. since: None where it has no beginning.

    leave_out: of LeaveOut.
    """

    fields: FilterFields
    since: datetime | None
    until: datetime
    states: tuple[str, ...]
    leave_out: tuple[str, ...] = ()
    endpoint: int | None = None

    @property
    def merchant(self) -> str | None:
        """The merchant that it is about; None for all."""
        return self.fields.merchant or None

    @property
    def types(self) -> tuple[str, ...] | None:
        """The types of events that it is about; None for all."""
        return (self.fields.type,) if self.fields.type else None

    @property
    def charge(self) -> str | None:
        """The charge that it is about; None for all."""
        return self.fields.charge or None

    def retry_args(self) -> dict[str, Any]:
        """Return the args of `retry_failed`."""
        return {**self._since_args(), "until": self.until.isoformat(), **self._endpoint_args()}

    def recover_args(self) -> dict[str, Any]:
        """Return the args of `recover`."""
        return {
            **self.retry_args(),
            **({"states": list(self.states)} if self.states != RECOVERED_BY_DEFAULT else {}),
            **({"leave_out": list(self.leave_out)} if self.leave_out else {}),
            **self._which_args(),
        }

    def skip_args(self) -> dict[str, Any]:
        """Return the args of `skip`."""
        of_one, of_all = self._endpoint_args(), {} if self.merchant else {"all": True}
        return {
            **self._since_args(),
            "before": self.until.isoformat(),
            **self._which_args(),
            **of_one,
            **of_all,
        }

    def _since_args(self) -> dict[str, Any]:
        return {} if self.since is None else {"since": self.since.isoformat()}

    def _endpoint_args(self) -> dict[str, Any]:
        return {} if self.endpoint is None else {"endpoint": self.endpoint}

    def _which_args(self) -> dict[str, Any]:
        return {
            **({"types": list(self.types)} if self.types else {}),
            **({"charge": self.charge} if self.charge else {}),
        }


@dataclass(frozen=True, slots=True)
class MassAct:
    """A command for all that match. fields: of the filter, which it understands. states: that it can be of.

    args: of the command. needs_since: of all merchants it has a beginning in time. chosen_first: the states
    that are ticked at first, where people choose; they choose then, too, what is left out. None: it is about
    all of them.
    """

    command: CommandName
    fields: frozenset[str]
    states: tuple[str, ...]
    args: Callable[[Scope], dict[str, Any]]
    is_destructive: bool = False
    needs_since: bool = True
    chosen_first: tuple[str, ...] | None = None

    @property
    def chooses_states(self) -> bool:
        """Tell whether people choose states, and what is left out."""
        return self.chosen_first is not None


MASS: Mapping[str, MassAct] = {
    "recover_all": MassAct(
        CommandName.RECOVER,
        frozenset({"merchant", "endpoint", "state", "type", "charge", "since", "until", "time"}),
        tuple(map(str, RECOVERED_BY_DEFAULT)),
        Scope.recover_args,
        chosen_first=tuple(map(str, SENT_AGAIN)),
    ),
    "retry_all": MassAct(
        CommandName.RETRY_FAILED,
        frozenset({"merchant", "endpoint", "state", "since", "until", "time"}),
        (State.FAILED,),
        Scope.retry_args,
    ),
    "skip_all": MassAct(
        CommandName.SKIP,
        frozenset({"merchant", "endpoint", "type", "charge", "since", "until", "time"}),
        (State.PENDING, State.PENDING_RETRY),
        Scope.skip_args,
        is_destructive=True,
        needs_since=False,
    ),
}


@dataclass(frozen=True, slots=True)
class Offer:
    """What is asked for apart from the states. field: in the form; empty where it is only said."""

    field: str
    value: str
    text: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class WindowForm:
    """The form that changes a window in time and its states.

    local: the filter with the reader's times. times: the text about which times are meant; empty: none.
    presets: texts and paths. states: each with its text, and whether it is chosen.
    """

    local: FilterFields
    is_chosen_anew: bool
    times: str
    presets: Sequence[tuple[str, str]]
    states: Sequence[tuple[str, str, bool]]


@dataclass(frozen=True, slots=True)
class ActView:
    """What act.html shows: an act that is refused, or what it will do.

    key: of its texts. refused: why it is. fields: hidden ones of the form that gives the commands.
    count: of deliveries; total: the same as a text.
    Of ticked deliveries: events, as ids and paths; left_out: how many an act is not possible for.
    Of all that match: since, until: what is previewed. scope: the fields of the filter that are only shown.
    counts, types, merchants: names, and numbers as texts.
    """

    key: str
    back: str
    refused: str = ""
    fields: Sequence[tuple[str, str]] = ()
    count: int = 0
    is_destructive: bool = False
    events: Sequence[tuple[str, str]] = ()
    left_out: int = 0
    since: datetime | None = None
    until: datetime | None = None
    scope: Sequence[tuple[str, str]] = ()
    window: WindowForm | None = None
    offers: Sequence[Offer] = ()
    counts: Sequence[tuple[str, str]] = ()
    types: Sequence[tuple[str, str]] = ()
    merchants: Sequence[tuple[str, str]] = ()
    more_merchants: int = 0
    total: str = ""
    is_none: bool = False
    is_about_all: bool = False


class ActRefused(Exception):
    """An act is not possible as it was asked for. text: why, in the reader's language."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True, slots=True)
class ActPages:
    """Previews what is done to many deliveries, and gives the commands. retries: of the schedule."""

    previews: Previews
    actions: Actions
    clock: Clock
    retries: int

    async def preview(self, request: Request) -> Response:
        """Say what an act will do, and to how many."""
        name = request.query_value("act")
        back = with_query("/deliveries", dict(FilterFields.from_query(request, PREFIX).pairs))
        try:
            if name in TICKED:
                return await self._of_ticked(request, name, list(request.query.get("event", ())), back)
            return await self._of_all(request, name, FilterFields.from_query(request, PREFIX), back)
        except ActRefused as error:
            return _refused(name, error.text, back)
        except (FieldRefused, FilterRefused) as error:
            return _refused(name, said(request, error), back)

    async def _of_ticked(self, request: Request, name: str, ticked: Sequence[str], back: str) -> Page:
        all_ticked = _ticked_ids(request, ticked)
        states = await self.previews.states(request.key, all_ticked)
        chosen = [event for event in all_ticked if event in states and states[event][0] in POSSIBLE[name]]
        if not chosen:
            raise ActRefused(texts.say("act.none_possible", request.reader.language))
        return _page(
            ActView(
                f"act.{name}",
                back,
                fields=[("act", name), *(("event", str(event)) for event in chosen)],
                count=len(chosen),
                is_destructive=name == "cancel",
                events=[(str(event), delivery_path(event)) for event in chosen],
                left_out=len(all_ticked) - len(chosen),
            )
        )

    async def _of_all(self, request: Request, name: str, fields: FilterFields, back: str) -> Page:
        act = _mass_act(request, name, fields)
        now = self._now()
        if act.needs_since and not fields.merchant and not fields.since:
            fields = replace(fields, since=(now - RECENT).isoformat())
        scope = _scope(request, act, fields, request.query, now)
        preview = await self._count(request, act, scope)

        def numbers(counts: Mapping[str, int]) -> list[tuple[str, str]]:
            return [(each, _number(request, count, preview.has_more)) for each, count in counts.items()]

        hidden = _hidden_fields(name, act, scope)
        return _page(
            ActView(
                f"act.{name}",
                back,
                fields=hidden if preview.has_more else [*hidden, (acting.COUNTED, str(preview.total))],
                count=preview.total,
                is_destructive=act.is_destructive,
                since=scope.since,
                until=scope.until,
                scope=_shown_fields(request, act, fields),
                window=_window_form(request, name, act, scope, now),
                offers=_offers(request, act, scope, preview),
                counts=[(_kind_label(request, kind), number) for kind, number in numbers(preview.kinds)],
                types=numbers(preview.types or {}),
                merchants=numbers(preview.merchants),
                more_merchants=preview.more_merchants,
                total=_number(request, preview.total, preview.has_more),
                is_none=not preview.total and not preview.has_more,
                is_about_all=scope.merchant is None,
            )
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.unix(), UTC)

    async def _count(self, request: Request, act: MassAct, scope: Scope) -> Preview:
        """Count what the command would find."""
        since = scope.since or LONG_AGO
        if act.command is CommandName.SKIP:
            skip = Skip(scope.merchant, scope.until, since, scope.types, scope.charge, scope.endpoint)
            return await self.previews.skip(request.key, skip)
        period = since, scope.until, MAX_RETRIED
        kinds = scope.states, scope.types, scope.charge
        wanted = Recover(
            scope.merchant,
            *period,
            *kinds,
            leave_out=scope.leave_out,
            retries=self.retries,
            endpoint=scope.endpoint,
        )
        is_retry = act.command is CommandName.RETRY_FAILED
        return await self.previews.recovery(request.key, wanted, is_retry)

    async def act(self, request: Request) -> Response:
        """Give the commands that were previewed."""
        name = request.form_value("act")
        fields = FilterFields.from_form(request, PREFIX)
        back = with_query("/deliveries", dict(fields.pairs))
        try:
            if name in TICKED:
                return await self._give_each(request, TICKED[name])
            return await self._give_one(request, name, fields)
        except ActRefused as error:
            return _refused(name, error.text, back)
        except (FieldRefused, FilterRefused) as error:
            return _refused(name, said(request, error), back)

    async def _give_each(self, request: Request, command: CommandName) -> Response:
        chosen = _ticked_ids(request, list(request.form.get("event", ())))
        states = await self.previews.states(request.key, chosen)
        for event in chosen:
            # The event's id would mean its deliveries to all endpoints.
            _, endpoint = states.get(event, ("", None))
            args = {"endpoint": endpoint} if endpoint else {}
            number = await self.actions.give_command(request.key, command, event_id=event, args=args)
        if len(chosen) == 1:
            return Redirect(with_query(delivery_path(chosen[0]), {"command": number}))
        return Redirect(with_query("/commands", {"given": len(chosen)}))

    async def _give_one(self, request: Request, name: str, fields: FilterFields) -> Response:
        act = _mass_act(request, name, fields)
        language = request.reader.language
        if request.form_value("again") or _is_chosen_anew(request):
            return Redirect(_recount_path(request, name, act, fields))
        if act.needs_since and not fields.merchant and not fields.since:
            raise ActRefused(texts.say("act.needs_scope", language))
        if not fields.merchant and request.form_value("everybody") != "yes":
            raise ActRefused(texts.say("act.everybody_missing", language))
        scope = _scope(request, act, fields, request.form, self._now())
        args = {**act.args(scope), **_counted_before(request)}
        number = await self.actions.give_command(
            request.key, act.command, merchant_id=scope.merchant, args=args
        )
        return Redirect(f"/commands/{number}")


def _counted_before(request: Request) -> dict[str, int]:
    """Return what the preview counted, for the command's progress, where it counted all."""
    text = request.form_value(acting.COUNTED)
    is_count = text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_COUNTED))
    return {acting.COUNTED: int(text)} if is_count else {}


def hindrance(request: Request, name: str, fields: FilterFields) -> str:
    """Say what keeps all that match a filter from an act; empty where nothing does."""
    act, language = MASS[name], request.reader.language
    beyond = [field for field, _ in fields.pairs if field not in act.fields]
    if fields.state and fields.state not in act.states and "state" not in beyond:
        beyond.append("state")
    if not beyond:
        return ""
    named = ", ".join(texts.say(LABELS[field], language) for field in beyond)
    return texts.say("act.cannot_filter", language, fields=named)


def _mass_act(request: Request, name: str, fields: FilterFields) -> MassAct:
    """Return an act that understands the filter, or say what keeps it from that."""
    if name not in MASS:
        raise ActRefused(texts.say("act.unknown", request.reader.language))
    if found := hindrance(request, name, fields):
        raise ActRefused(found)
    return MASS[name]


def _scope(
    request: Request, act: MassAct, fields: FilterFields, form: Mapping[str, Sequence[str]], now: datetime
) -> Scope:
    """Return what is asked for, never beyond the preview. form: has the fields in which states are chosen."""
    wanted = fields.wanted(request.reader.zone)
    wanted.check()
    until = now if wanted.until is None else min(wanted.until, now)
    chosen = [state for state in RECOVERABLE if state in form.get("states", ())]
    if act.chosen_first is None:
        states = (fields.state,) if fields.state else act.states
        return Scope(fields, wanted.since, until, states, endpoint=wanted.endpoint)
    states = tuple(chosen) or ((fields.state,) if fields.state else act.chosen_first)
    leave_out = tuple(str(what) for what in LeaveOut if what not in form.get("included", ()))
    return Scope(fields, wanted.since, until, states, leave_out, wanted.endpoint)


def _shown_fields(request: Request, act: MassAct, fields: FilterFields) -> list[tuple[str, str]]:
    """Name the fields of the filter that the page shows as text."""
    return [
        (LABELS[field], label(request.reader, "state", text) if field == "state" else text)
        for field, text in _fixed_fields(act, fields)
    ]


def _fixed_fields(act: MassAct, fields: FilterFields) -> list[tuple[str, str]]:
    """Return the fields of a filter that cannot be changed in the form for window and states."""
    own = ("since", "until", "time", *(("state",) if act.chooses_states else ()))
    return [(field, text) for field, text in fields.pairs if field not in own]


def _choice_fields(act: MassAct, scope: Scope) -> list[tuple[str, str]]:
    """Return the fields that say which states are chosen, and what is not left out."""
    if not act.chooses_states:
        return []
    included = [str(what) for what in LeaveOut if what not in scope.leave_out]
    return [*(("states", state) for state in scope.states), *(("included", what) for what in included)]


def _prefixed(name: str, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Name an act and the fields of its filter as forms and paths of previews do."""
    return [("act", name), *((PREFIX + field, text) for field, text in pairs)]


def _hidden_fields(name: str, act: MassAct, scope: Scope) -> list[tuple[str, str]]:
    """Return the fields of the form that gives the command: what was previewed, and nothing after it."""
    previewed = replace(scope.fields, until=scope.until.isoformat())
    return [*_prefixed(name, previewed.pairs), *_choice_fields(act, scope)]


def _window_form(request: Request, name: str, act: MassAct, scope: Scope, now: datetime) -> WindowForm:
    fixed = _prefixed(name, _fixed_fields(act, scope.fields))
    choices = _choice_fields(act, scope)
    return WindowForm(
        scope.fields.local(request.reader.zone),
        bool(request.query_value("changed")),
        "act.times_created" if act.command is CommandName.SKIP else "act.times" if act.chooses_states else "",
        [
            (
                texts.say("act.last", request.reader.language, count=span // timedelta(hours=1)),
                _preview_path([*fixed, (PREFIX + "since", (now - span).isoformat()), *choices]),
            )
            for span in PRESETS
        ],
        [
            (state, _kind_label(request, state), state in scope.states)
            for state in (RECOVERABLE if act.chooses_states else ())
            if state != State.DELIVERED
        ],
    )


def _offers(request: Request, act: MassAct, scope: Scope, preview: Preview) -> list[Offer]:
    """Return what may be sent again as well; of a command without that choice, what it includes."""
    language = request.reader.language
    last, failing = (
        _number(request, each, preview.has_more) for each in (preview.last_attempts, preview.failing)
    )
    merchants = preview.failing_merchants
    if not act.chooses_states:
        note = texts.say("act.failing_included", language, found=failing, count=merchants)
        return [Offer("", "", note, is_chosen=True)] if merchants else []
    offered = [
        ("states", str(State.DELIVERED), texts.say("act.delivered_too", language), True),
        (
            "included",
            str(LeaveOut.LAST_ATTEMPTS),
            texts.say("act.last_attempts_too", language, found=last),
            preview.last_attempts > 0,
        ),
        (
            "included",
            str(LeaveOut.FAILING),
            texts.say("act.failing_too", language, found=failing, count=merchants),
            merchants > 0,
        ),
    ]
    chosen = _choice_fields(act, scope)
    return [
        Offer(NEW + field, value, text, (field, value) in chosen)
        for field, value, text, is_there in offered
        if is_there or (field, value) in chosen
    ]


def _is_chosen_anew(request: Request) -> bool:
    """Tell whether the form's times or states are others than those that were counted."""
    if NEW + "since" not in request.form:
        return False  # it was not given by the preview's form
    zone = request.reader.zone
    times_differ = any(
        instant(field, request.form_value(NEW + field), zone)
        != instant(field, request.form_value(SHOWN + field), zone)
        for field in ("since", "until")
    )
    return times_differ or any(
        set(request.form.get(NEW + field, ())) != set(request.form.get(field, ())) for field in CHOICES
    )


def _recount_path(request: Request, name: str, act: MassAct, fields: FilterFields) -> str:
    """Return the path of the preview of what is chosen anew: nothing is done that was not counted before."""
    times = ((PREFIX + field, request.form_value(NEW + field)) for field in ("since", "until"))
    choices = [(field, value) for field in CHOICES for value in request.form.get(NEW + field, ())]
    changed = [] if request.form_value("again") else [("changed", "yes")]
    fixed = _prefixed(name, _fixed_fields(act, fields))
    return _preview_path([*fixed, *(pair for pair in times if pair[1]), *choices, *changed])


def _ticked_ids(request: Request, ticked: Sequence[str]) -> list[UUID]:
    language = request.reader.language
    chosen = list(dict.fromkeys(event_ids(ticked)))
    if not chosen:
        raise ActRefused(texts.say("act.none_ticked", language))
    if len(chosen) > MAX_TICKED:
        raise ActRefused(texts.say("act.too_many", language, count=MAX_TICKED))
    return chosen


def _preview_path(pairs: Sequence[tuple[str, str]]) -> str:
    return f"/deliveries/act?{urlencode(pairs)}"


def _kind_label(request: Request, kind: str) -> str:
    """Write a state that a command knows; `skipped` is one of them there."""
    return label(request.reader, "failed_reason" if kind == FailedReason.SKIPPED else "state", kind)


def _number(request: Request, count: int, has_more: bool) -> str:
    """Write a number that was counted; with a plus where there may be more."""
    text = counted(request.reader, count, MAX_COUNTED)
    return f"{text}+" if has_more and count <= MAX_COUNTED else text


def _refused(name: str, text: str, back: str) -> Page:
    key = f"act.{name}" if name in TICKED or name in MASS else "act.unknown"
    return _page(ActView(key, back, text), 422)


def _page(view: ActView, status: int = 200) -> Page:
    return Page("act.html", {"act": view}, status)
