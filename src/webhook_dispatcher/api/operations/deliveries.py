"""The merchant's deliveries: listed, looked at one by one, sent again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from uuid import UUID

import structlog
from pydantic import Field

from webhook_dispatcher.api import validation
from webhook_dispatcher.api.calls import ApiError, Caller, CommandAccepted, Request, Response
from webhook_dispatcher.api.catalogue import DELIVERY_NOT_FOUND, NOT_CONFIGURED, UNAVAILABLE
from webhook_dispatcher.api.operations.commands import unless_refused
from webhook_dispatcher.api.operations.cursors import CursorRefused, Cursors, Listing
from webhook_dispatcher.api.operations.models import (
    EXAMPLE_ID,
    EXAMPLE_SINCE,
    EXAMPLE_UNTIL,
    EventType,
    Instant,
    Moment,
    public_reason,
    uuid_of,
    write,
    write_list,
)
from webhook_dispatcher.api.validation import Model, Nothing
from webhook_dispatcher.domain.command import CommandName, CommandView
from webhook_dispatcher.domain.event import KNOWN_TYPES, Event
from webhook_dispatcher.storage.api.charges import ChargesNotIndexed
from webhook_dispatcher.storage.api.deliveries import (
    MAX_LIMIT,
    NEWEST,
    Deliveries,
    Filter,
)
from webhook_dispatcher.storage.api.endpoints import Endpoints
from webhook_dispatcher.storage.api.event_types import all_types

State = Literal["pending", "pending_retry", "delivered", "failed"]
LISTING = "deliveries"

_log = structlog.get_logger()


class DeliveriesQuery(Model):
    """Which deliveries: those that match all that is given, the newest first. Times are of `createdAt`."""

    limit: int = Field(20, ge=1, le=MAX_LIMIT)
    cursor: str | None = Field(None, min_length=1, max_length=1000)
    state: State | None = Field(None, examples=["failed"])
    type: EventType | None = Field(None, examples=["charge.succeeded"])
    charge: str | None = Field(None, min_length=1, max_length=255, examples=["ch_1"])
    since: Moment | None = Field(None, examples=[EXAMPLE_SINCE])
    until: Moment | None = Field(None, examples=[EXAMPLE_UNTIL])
    endpoint: UUID | None = Field(None, examples=[EXAMPLE_ID])
    event: UUID | None = Field(None, examples=[EXAMPLE_ID])


class DeliveryAnswer(Model):
    """One delivery. failedReason: of a failed one; lastOutcome: how its latest attempt ended.

    deliveryId: the event's of its first or only delivery. endpointId: null of the only endpoint, of one that
    was removed, and while it is not known yet to whom it goes.
    """

    event_id: UUID
    delivery_id: UUID
    endpoint_id: UUID | None
    type: str
    created_at: Instant
    state: State
    failed_reason: str | None
    attempts: int
    next_attempt_at: Instant | None
    last_status: int | None
    last_outcome: str | None
    finished_at: Instant | None


class AttemptAnswer(Model):
    """One attempt. durationMs: milliseconds; reason: why it failed, in words that may change."""

    attempt: int
    trigger: str
    started_at: Instant
    duration_ms: int
    status: int | None
    outcome: str
    reason: str | None


class WholeDeliveryAnswer(DeliveryAnswer):
    """The same with its attempts, the first of them first, and the event as it is sent."""

    attempt_log: list[AttemptAnswer]
    payload: dict[str, Any]


class Retried(Model):
    """What is being attempted again. eventId: as it was asked for.

    inFlight: an attempt was under way, and is the one.
    """

    event_id: UUID
    in_flight: bool


class RetryWindow(Model):
    """Which failed deliveries: those that were given up in since ≤ finishedAt < until.

    endpoint: to this one alone.
    """

    since: Moment = Field(examples=[EXAMPLE_SINCE])
    until: Moment = Field(examples=[EXAMPLE_UNTIL])
    endpoint: UUID | None = Field(None, examples=[EXAMPLE_ID])


class OwnCursors:
    """Makes and reads cursors by the key of each database, which is read once: it never changes."""

    def __init__(self) -> None:
        self._known: dict[str | None, Cursors] = {}

    async def of(self, caller: Caller) -> Cursors:
        """Return the cursors of a merchant's database."""
        if caller.shard not in self._known:
            self._known[caller.shard] = Cursors(await Deliveries(caller.database).cursor_key())
        return self._known[caller.shard]


class Lists:
    """Lists deliveries, page by page."""

    def __init__(self, cursors: OwnCursors) -> None:
        self._cursors = cursors

    async def list(self, request: Request, query: DeliveriesQuery) -> Response:
        """List deliveries; a page may be short, and even empty, and have a cursor all the same."""
        caller, language = request.caller, request.head.language
        if query.since is not None and query.until is not None and query.since >= query.until:
            raise validation.refuse_field("until", "empty_window", language)
        if query.type is not None and query.type not in KNOWN_TYPES:
            # A misspelt one would list nothing, and look as if nothing had been sent.
            known = await all_types(caller.database)
            if query.type not in known:
                raise validation.refuse_field("type", "choice", language, expected=", ".join(known))
        fields = query.model_dump(mode="json", exclude={"limit", "cursor"})
        filters = {name: None if value is None else str(value) for name, value in fields.items()}
        listing = Listing(LISTING, caller.bearer.merchant_id, filters)
        cursors = await self._cursors.of(caller)
        position = NEWEST
        if query.cursor is not None:
            try:
                position = cursors.position(listing, query.cursor)
            except CursorRefused:
                raise validation.refuse_field("cursor", "cursor", language) from None
        number = None
        if query.endpoint is not None:
            endpoint = await Endpoints(caller.database).read(caller.token, query.endpoint)
            if endpoint is None:
                raise ApiError(NOT_CONFIGURED)
            number = endpoint.number
        wanted = Filter(query.state, query.type, query.charge, query.since, query.until, number, query.event)
        with charges_refused():
            page = await Deliveries(caller.database).list(caller.token, wanted, position, query.limit)
        following = None if page.position is None else cursors.make(listing, page.position)
        return Response(write_list(DeliveryAnswer, page.deliveries), next_cursor=following)


async def show(request: Request, _: Nothing) -> Response:
    """Show one delivery with its attempts and its payload, byte for byte as it is sent."""
    caller = request.caller
    found = await Deliveries(caller.database).get(caller.token, uuid_of(request.head, "eventId"))
    if found is None:
        raise ApiError(DELIVERY_NOT_FOUND)
    delivery = found.delivery
    event = Event(delivery.seq, delivery.event_id, "", delivery.type, delivery.created_at, found.object)
    attempts = b",".join(
        write(AttemptAnswer, attempt, reason=public_reason(attempt.outcome, attempt.reason))
        for attempt in found.attempts
    )
    fields = write(DeliveryAnswer, delivery)[:-1]
    return Response(b'%b,"attemptLog":[%b],"payload":%b}' % (fields, attempts, event.body()))


async def retry(request: Request, _: Nothing) -> CommandAccepted:
    """Attempt a delivery, or all of an event, again: a failed one now, a waiting one beside its schedule."""
    caller, event_id = request.caller, uuid_of(request.head, "eventId")
    return unless_refused(await Endpoints(caller.database).ask(caller.token, CommandName.RETRY, event_id))


async def retry_failed(request: Request, window: RetryWindow) -> CommandAccepted:
    """Attempt all deliveries again that were given up in a span of time."""
    if window.since >= window.until:
        raise validation.refuse_field("until", "empty_window", request.head.language)
    command = await Endpoints(request.caller.database).ask(
        request.caller.token,
        CommandName.RETRY_FAILED,
        since=window.since,
        until=window.until,
        endpoint=window.endpoint,
    )
    return unless_refused(command, NOT_CONFIGURED)


def retried(command: CommandView) -> bytes:
    """Say that a delivery is being attempted again."""
    in_flight = bool((command.result or {}).get("in_flight"))
    return write(Retried, event_id=command.event_id, in_flight=in_flight)


@contextmanager
def charges_refused() -> Iterator[None]:
    """Refuse the request where charges cannot be looked up: an operator chose to do without their index."""
    try:
        yield
    except ChargesNotIndexed as error:
        _log.error("charges.not_indexed", error=str(error), once_in=60.0)
        raise ApiError(UNAVAILABLE) from None
