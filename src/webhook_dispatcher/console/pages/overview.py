"""The first page: what goes on just now, each number with the list behind it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import Answer, Asked, Shown
from webhook_dispatcher.console.plots import plot_of
from webhook_dispatcher.console.reader import Reader
from webhook_dispatcher.console.rendering import counted, delivery_path, with_query
from webhook_dispatcher.diagnosis import amounts
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.console.merchants import MerchantOrder
from webhook_dispatcher.storage.console.overview import DispatcherRow, Overview, Overviews

OLD = timedelta(minutes=1)
"""An event that waits longer for its first attempt is worth a colour."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, what it is of, and where it leads."""

    key: str
    value: str
    path: str
    tone: str = ""
    note: str = ""
    note_path: str = ""


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What keeps deliveries from going on."""

    tone: str
    key: str
    facts: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """A dispatcher, and how it is in a word."""

    row: DispatcherRow
    key: str
    tone: str


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """Shows what goes on."""

    overviews: Overviews

    async def show(self, asked: Asked) -> Answer:
        """Show everything at once; the page asks for itself again every few seconds."""
        overview = await self.overviews.get(asked.key)
        facts = {
            "figures": _figures(overview, asked.reader),
            "warnings": _warnings(overview),
            "hour": plot_of(overview.hour),
            "day": plot_of(overview.day),
            "dispatchers": [dispatcher_of(row) for row in overview.dispatchers],
        }
        return Shown("overview.html", facts)


def _figures(overview: Overview, reader: Reader) -> Sequence[Figure]:
    language = reader.language
    hour = overview.attempts_in_hour()
    delivered = hour.get(Outcome.DELIVERED, 0)
    bad = sum(hour.values()) - delivered
    oldest = overview.oldest
    age = None if oldest is None else overview.now - oldest.created_at
    waited = f"{texts.say('overview.oldest', language)} {amounts.span(age, language)}" if age else ""
    day_ago = (overview.now - timedelta(days=1)).isoformat(timespec="seconds")
    held = [
        texts.say(key, language, count=count)
        for key, count in (
            ("overview.suspended", overview.suspended),
            ("overview.paused_merchants", overview.paused),
        )
        if count
    ]
    return (
        Figure("overview.delivered", amounts.number(delivered, language), _list(state=State.DELIVERED)),
        Figure(
            "overview.attempts_failed",
            amounts.number(bad, language),
            _list(state=State.PENDING_RETRY),
            "warn" if bad else "",
        ),
        Figure(
            "overview.waiting",
            counted(reader, overview.waiting),
            delivery_path(oldest.event_id) if oldest else _list(state=State.PENDING),
            "warn" if age and age > OLD else "",
            waited,
        ),
        Figure(
            "overview.retrying", counted(reader, overview.waiting_for_retry), _list(state=State.PENDING_RETRY)
        ),
        Figure(
            "overview.failed",
            counted(reader, overview.failed),
            _list(state=State.FAILED, since=day_ago),
            "bad" if overview.failed else "",
        ),
        Figure(
            "overview.failing",
            counted(reader, overview.failing),
            with_query("/merchants", {"order": MerchantOrder.FAILING}),
            "bad" if overview.failing else "",
            ", ".join(held),
        ),
        Figure("overview.lag", *_lag(overview, reader)),
        Figure(
            "overview.alive",
            amounts.number(overview.alive, language),
            "/health",
            "" if overview.alive else "bad",
        ),
    )


def _lag(overview: Overview, reader: Reader) -> tuple[str, str, str, str]:
    """Return what is said of the time from an event's creation to its first attempt, and where it leads."""
    behind = with_query("/merchants", {"order": MerchantOrder.BEHIND})
    if overview.lag.median is None:
        return "\N{EN DASH}", behind, "", ""
    median = amounts.span(timedelta(seconds=overview.lag.median), reader.language)
    high = amounts.span(timedelta(seconds=overview.lag.high or 0), reader.language)
    return median, behind, "", texts.say("overview.lag_note", reader.language, p95=high)


def _warnings(overview: Overview) -> Sequence[Hindrance]:
    found = []
    if overview.everything_is_paused:
        by = overview.pause
        found.append(
            Hindrance("warn", "overview.everything_paused_by", {"who": by.requested_by})
            if by is not None
            else Hindrance("warn", "overview.everything_paused")
        )
    if not overview.alive:
        found.append(Hindrance("bad", "overview.nobody_alive"))
    found += [
        Hindrance("bad", "overview.own_fault", {"host": row.host, "fault": fault})
        for row in overview.dispatchers
        if row.is_alive
        for fault in row.faults
    ]
    return found


def dispatcher_of(row: DispatcherRow) -> Dispatcher:
    """Say in a word how a dispatcher is."""
    if not row.is_alive:
        return Dispatcher(row, "overview.away", "")
    return (
        Dispatcher(row, "overview.ready", "good")
        if row.is_ready
        else Dispatcher(row, "overview.not_ready", "bad")
    )


def _list(**fields: object) -> str:
    return with_query("/deliveries", fields)
