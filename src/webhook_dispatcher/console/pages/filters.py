"""The filter of the delivery log, as a form and a URL have it; what it means for lists and for commands."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from webhook_dispatcher.console import texts
from webhook_dispatcher.console.calls import Request
from webhook_dispatcher.storage.console.deliveries import DeliveryFilter
from webhook_dispatcher.storage.console.filters import FilterRefused, Refusal

MAX_FIELD = 300
ENDED = "ended"
LABELS: Mapping[str, str] = {
    "merchant": "deliveries.merchant",
    "merchant_id": "deliveries.merchant",
    "endpoint": "deliveries.endpoint",
    "state": "deliveries.state",
    "type": "deliveries.type",
    "outcome": "deliveries.outcome",
    "status": "deliveries.status",
    "charge": "deliveries.charge",
    "charge_id": "deliveries.charge",
    "id": "deliveries.event_id",
    "event_id": "deliveries.event_id",
    "since": "deliveries.since",
    "until": "deliveries.until",
    "time": "deliveries.time",
    "prefix": "merchants.prefix",
    "after": "filter.after",
    "text": "nav.search",
}


class FieldRefused(Exception):
    """A field holds what it cannot. field: its name; problem: what is wrong, of the texts `filter.…`."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field)
        self.field = field
        self.problem = problem


@dataclass(frozen=True, slots=True)
class FilterFields:
    """The fields as they were written; empty: not asked for. Times are the reader's, or have an offset.

    time: which one since and until are of: ENDED, or when the event was created.
    """

    merchant: str = ""
    endpoint: str = ""
    state: str = ""
    type: str = ""
    outcome: str = ""
    status: str = ""
    charge: str = ""
    id: str = ""
    since: str = ""
    until: str = ""
    time: str = ""

    @classmethod
    def from_query(cls, request: Request, prefix: str = "") -> "FilterFields":
        """Read them from a query."""
        return cls(**{each.name: request.query_value(prefix + each.name)[:MAX_FIELD] for each in fields(cls)})

    @classmethod
    def from_form(cls, request: Request, prefix: str) -> "FilterFields":
        """Read them from a form."""
        return cls(**{each.name: request.form_value(prefix + each.name)[:MAX_FIELD] for each in fields(cls)})

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Those that are filled in, with their names."""
        filled = [(each.name, text) for each in fields(self) if (text := getattr(self, each.name))]
        return filled if self.since or self.until else [pair for pair in filled if pair[0] != "time"]

    def with_offsets(self, zone: ZoneInfo) -> "FilterFields":
        """Return them with times that mean the same to readers in other zones."""
        return replace(self, since=_with_offset(self.since, zone), until=_with_offset(self.until, zone))

    def local(self, zone: ZoneInfo) -> "FilterFields":
        """Return them with times as forms show them: the reader's, to the second, without an offset."""
        return replace(self, since=_local(self.since, zone), until=_local(self.until, zone))

    def wanted(self, zone: ZoneInfo) -> DeliveryFilter:
        """Return what they mean. Errors: FieldRefused; FilterRefused when it is asked for."""
        return DeliveryFilter(
            merchant_id=self.merchant or None,
            state=self.state or None,
            type=self.type or None,
            outcome=self.outcome or None,
            status=_number("status", self.status),
            charge_id=self.charge or None,
            event_id=_event_id(self.id),
            since=instant("since", self.since, zone),
            until=instant("until", self.until, zone),
            of_end=self.time == ENDED,
            endpoint=_number("endpoint", self.endpoint),
        )


def instant(field: str, text: str, zone: ZoneInfo) -> datetime | None:
    """Read a time of a form: in the reader's zone, unless it says another."""
    if not text:
        return None
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo is not None else read.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise FieldRefused(field, Refusal.INSTANT_BEYOND) from None


def _with_offset(text: str, zone: ZoneInfo) -> str:
    try:
        read = datetime.fromisoformat(text)
        return text if read.tzinfo is not None else read.replace(tzinfo=zone).isoformat()
    except ValueError:
        return text


def _local(text: str, zone: ZoneInfo) -> str:
    try:
        read = instant("", text, zone)
    except FieldRefused:
        return text
    return "" if read is None else f"{read.astimezone(zone):%Y-%m-%dT%H:%M:%S}"


def _number(field: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 3):
        raise FieldRefused(field, Refusal.UNKNOWN)
    return int(text)


def _event_id(text: str) -> UUID | None:
    if not text:
        return None
    if (found := event_id(text)) is None:
        raise FieldRefused("id", "not_an_event")
    return found


def event_id(text: str) -> UUID | None:
    """Read an event's id; None where it is none."""
    try:
        return UUID(text)
    except ValueError:
        return None


def event_ids(texts_of_ids: Sequence[str]) -> Iterator[UUID]:
    """Read those that are ids."""
    for text in texts_of_ids:
        if (found := event_id(text)) is not None:
            yield found


def said(request: Request, error: FieldRefused | FilterRefused, labels: Mapping[str, str] = LABELS) -> str:
    """Say what is wrong with a field. labels: what fields are called."""
    language = request.reader.language
    problem = error.problem if isinstance(error, FieldRefused) else error.refusal
    name = texts.say(labels.get(error.field, "common.details"), language)
    return texts.say("filter.said", language, field=name, problem=texts.say(f"filter.{problem}", language))
