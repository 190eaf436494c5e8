"""The first page: what goes on just now, each number with the list behind it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from markupsafe import Markup

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import Page, Request, Response
from webhook_dispatcher.console.pages.filters import ENDED
from webhook_dispatcher.console.plots import Plot, draw, plot_of
from webhook_dispatcher.console.reader import Reader
from webhook_dispatcher.console.rendering import clock, counted, delivery_path, reason, with_query
from webhook_dispatcher.diagnosis import amounts
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.language import Language
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.console.merchants import MerchantOrder
from webhook_dispatcher.storage.console.overview import Attempts as Rows
from webhook_dispatcher.storage.console.overview import DispatcherRow, Overview, Overviews, by_outcome

OLD = timedelta(minutes=1)
"""Where an event has waited longer for its first attempt, the number of waiting events is coloured."""


@dataclass(frozen=True, slots=True)
class Note:
    """What is said below a number, and where it leads."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, what it is of, and where the list behind it is."""

    key: str
    value: str
    path: str
    tone: str = ""
    notes: Sequence[Note] = ()


@dataclass(frozen=True, slots=True)
class Hindrance:
    """A warning: what keeps deliveries from going on."""

    tone: str
    key: str
    facts: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DispatcherLine:
    """A dispatcher, how it is in a word, and why it is not ready, in the reader's words."""

    row: DispatcherRow
    key: str
    tone: str
    reasons: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Attempted:
    """How many attempts ended so, and the deliveries whose latest one did."""

    outcome: str
    attempts: int
    path: str


@dataclass(frozen=True, slots=True)
class Attempts:
    """A plot of attempts, its bars drawn, and each outcome of them. name: of its time, `hour` or `day`."""

    name: str
    plot: Plot
    bars: Markup
    outcomes: Sequence[Attempted]


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """Shows what goes on."""

    overviews: Overviews

    async def show(self, request: Request) -> Response:
        """Show everything at once; the page asks for itself again every few seconds."""
        overview = await self.overviews.get(request.key)
        facts = {
            "figures": _figures(overview, request.reader),
            "warnings": _warnings(overview, request.reader),
            "attempts": [
                _attempts(name, rows, request.reader)
                for name, rows in (("hour", overview.hour), ("day", overview.day))
            ],
            "dispatchers": [dispatcher_of(row, request.reader) for row in overview.dispatchers],
        }
        return Page("overview.html", facts)


def _figures(overview: Overview, reader: Reader) -> Sequence[Figure]:
    language = reader.language
    hour = by_outcome(overview.hour)
    delivered = hour[Outcome.DELIVERED]
    bad = sum(hour.values()) - delivered
    waits = _wait(overview, reader)
    return (
        Figure(
            "overview.delivered",
            amounts.number(delivered, language),
            _list(state=State.DELIVERED, since=_instant(overview.hour[0].at, reader), time=ENDED),
        ),
        Figure(
            "overview.attempts_failed",
            amounts.number(bad, language),
            "#attempts_hour",
            "warn" if bad else "",
        ),
        Figure(
            "overview.waiting",
            counted(reader, overview.waiting),
            _list(state=State.PENDING),
            "warn" if overview.oldest and overview.now - overview.oldest.created_at > OLD else "",
            waits,
        ),
        Figure(
            "overview.retrying", counted(reader, overview.waiting_for_retry), _list(state=State.PENDING_RETRY)
        ),
        Figure(
            "overview.failed",
            counted(reader, overview.failed),
            _list(state=State.FAILED, since=_instant(overview.now - timedelta(days=1), reader), time=ENDED),
            "bad" if overview.failed else "",
        ),
        Figure(
            "overview.failing",
            amounts.number(overview.failing, language) + ("+" if overview.failing_is_cut else ""),
            _merchants(MerchantOrder.FAILING),
            "bad" if overview.failing else "",
            _held(overview, language),
        ),
        _lag(overview, reader),
        Figure(
            "overview.alive",
            amounts.number(overview.alive, language),
            "/health",
            "" if overview.alive else "bad",
        ),
    )


def _wait(overview: Overview, reader: Reader) -> Sequence[Note]:
    if (oldest := overview.oldest) is None:
        return ()
    age = amounts.span(overview.now - oldest.created_at, reader.language)
    return (Note(f"{texts.say('overview.oldest', reader.language)} {age}", delivery_path(oldest.event_id)),)


def _held(overview: Overview, language: Language) -> Sequence[Note]:
    """Say how many merchants are sent nothing; the list of failing merchants holds the suspended ones too."""
    return [
        Note(texts.say(key, language, count=count), _merchants(order))
        for key, count, order in (
            ("overview.suspended", overview.suspended, MerchantOrder.FAILING),
            ("overview.paused_merchants", overview.paused, MerchantOrder.PAUSED),
        )
        if count
    ]


def _lag(overview: Overview, reader: Reader) -> Figure:
    """Say how long it is from an event's creation to its first attempt."""
    behind = _merchants(MerchantOrder.BEHIND)
    if overview.lag.median is None:
        return Figure("overview.lag", "\N{EN DASH}", behind)
    median = amounts.span(timedelta(seconds=overview.lag.median), reader.language)
    high = amounts.span(timedelta(seconds=overview.lag.high or 0), reader.language)
    note = Note(texts.say("overview.lag_note", reader.language, p95=high), behind)
    return Figure("overview.lag", median, behind, notes=(note,))


def _attempts(name: str, rows: Sequence[Rows], reader: Reader) -> Attempts:
    """Plot attempts; each outcome leads to the deliveries since then whose latest attempt had it."""
    plot, since = plot_of(rows), _instant(rows[0].at, reader)
    outcomes = [
        Attempted(outcome, attempts, _list(outcome=outcome, since=since))
        for outcome, attempts in plot.outcomes
    ]
    words = {each: texts.say(f"overview.class_{each}", reader.language) for each, _ in plot.sums}
    number = partial(amounts.number, language=reader.language)
    return Attempts(name, plot, draw(plot.bars, words, partial(clock, reader), number), outcomes)


def _warnings(overview: Overview, reader: Reader) -> Sequence[Hindrance]:
    found = []
    if overview.everything_is_paused:
        by = overview.pause
        found.append(
            Hindrance("warn", "overview.everything_paused_by", {"who": by.requested_by})
            if by is not None
            else Hindrance("warn", "overview.everything_paused")
        )
    found += [
        Hindrance("bad", "overview.own_fault", {"host": row.host, "fault": reason(reader, fault)})
        for row in overview.dispatchers
        if row.is_alive
        for fault in row.faults
    ]
    return found


def dispatcher_of(row: DispatcherRow, reader: Reader) -> DispatcherLine:
    """Say in a word how a dispatcher is."""
    if not row.is_alive:
        return DispatcherLine(row, "overview.away", "")
    if row.is_ready:
        return DispatcherLine(row, "overview.ready", "good")
    return DispatcherLine(row, "overview.not_ready", "bad", [reason(reader, text) for text in row.reasons])


def _list(**fields: object) -> str:
    return with_query("/deliveries", fields)


def _merchants(order: MerchantOrder) -> str:
    return with_query("/merchants", {"order": order})


def _instant(instant: datetime, reader: Reader) -> str:
    """Write an instant as links have it: in the reader's zone, with its offset."""
    return instant.astimezone(reader.zone).isoformat(timespec="minutes")
