"""A delivery as it is read: it, its attempts, and what it waits for; each front end shows some of that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from webhook_dispatcher.domain.command import CommandFacts
from webhook_dispatcher.domain.endpoint import EndpointChange
from webhook_dispatcher.domain.event import State, Trigger

MAX_AHEAD = 10_000
"""Up to here it is counted how many events come before another."""


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """A delivery as shown to people, without its payload.

    event_id: the event's own, of the first copy too; of another endpoint's the delivery's. copy_of: of a copy
    for one of several endpoints, the event's id. endpoint: its number; None: of the only one, or not routed.
    charge_id: None where its object names none, and in lists that leave it out.
    """

    event_id: UUID
    seq: int
    merchant_id: str
    type: str
    created_at: datetime
    state: str
    failed_reason: str | None
    attempts: int
    next_attempt_at: datetime | None
    last_status: int | None
    last_outcome: str | None
    finished_at: datetime | None
    charge_id: str | None
    endpoint: int | None = field(default=None, kw_only=True)
    copy_of: UUID | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class DeliveryFacts(DeliveryView):
    """One delivery; due_at and what follows are of the outbox, and empty once it is finished.

    attempts_by_hand: those that stood beside the schedule. scheduled_at: while one is asked for, when the
        schedule's next is due.
    """

    due_at: datetime | None
    is_claimed: bool
    trigger: str | None
    on_failure: str | None
    attempts_by_hand: int = 0
    scheduled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt as shown to people. What the merchant answered may be anything.

    response_excerpt: None for who may not read it, too.
    """

    attempt: int
    trigger: str
    started_at: datetime
    duration_ms: int
    status: int | None
    outcome: str
    reason: str | None
    response_excerpt: str | None = None

    @property
    def ended_at(self) -> datetime:
        """Return when it ended."""
        return self.started_at + timedelta(milliseconds=self.duration_ms)


def was_sent_in_order(delivery: DeliveryFacts, attempts: Sequence[AttemptView]) -> bool:
    """Tell whether its first attempt was made, or is to be made, in order: not by hand, and not never."""
    if attempts:
        return attempts[0].attempt == 1 and attempts[0].trigger == Trigger.SCHEDULE
    return delivery.state == State.PENDING and delivery.trigger == Trigger.SCHEDULE


@dataclass(frozen=True, slots=True)
class Pause:
    """By which command a merchant, or everything, was paused."""

    command_id: int
    requested_by: str
    handled_at: datetime


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another event of the same merchant, with its first attempt."""

    event_id: UUID
    seq: int
    started_at: datetime
    ended_at: datetime
    charge_id: str | None = None


def overtaking(delivery: DeliveryView, neighbours: Sequence[Neighbour]) -> Neighbour | None:
    """Find who overtook a delivery: a later event whose first attempt came sooner; the first of them."""
    sooner = [
        other for other in neighbours if other.seq > delivery.seq and other.started_at >= delivery.created_at
    ]
    return min(sooner, key=lambda other: other.started_at, default=None)


def predecessor(delivery: DeliveryView, neighbours: Sequence[Neighbour]) -> Neighbour | None:
    """Find what a delivery waited behind: the earlier event whose first attempt ended last before its own."""
    earlier = [
        other for other in neighbours if other.seq < delivery.seq and other.ended_at >= delivery.created_at
    ]
    return max(earlier, key=lambda other: other.ended_at, default=None)


@dataclass(frozen=True, slots=True)
class Route:
    """Where an event was routed. to: endpoints, by number. unwanted_by: those that were there, and are."""

    to: Sequence[int]
    unwanted_by: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else concerned a delivery, from when it was written until it was finished, or until now.

    commands: not about its event alone, but about its merchant or everybody: pause, resume, retry_failed,
    recover, skip. changes: of its merchant's endpoint, as the audit has them: for operators alone.
    """

    commands: Sequence[CommandFacts] = ()
    changes: Sequence[EndpointChange] = ()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What an event's merchant has, and what its events may wait for, at one moment.

    url: None without an endpoint. ahead: how many come before the event in order, up to MAX_AHEAD.
    head_…: the first that waits in order. at_once: how many are attempted at once, in the order of each
    charge; None: one, in the order of the merchant. lane: of which all this is told. is_routed: it is a lane
    of a merchant with several endpoints, and what waits in it is routed to these.
    """

    now: datetime
    everything_is_paused: bool
    url: str | None
    secret_created_at: datetime | None
    is_paused: bool
    is_held: bool
    owner: str | None
    leased_at: datetime | None
    wait_until: datetime | None
    endpoint_removed_at: datetime | None
    last_success_at: datetime | None
    failing_since: datetime | None
    suspended_at: datetime | None
    head_event_id: UUID | None
    head_seq: int | None
    head_created_at: datetime | None
    ahead: int
    at_once: int | None = None
    lane: str = ""
    is_routed: bool = False


@dataclass(frozen=True, slots=True)
class EventFacts:
    """Everything that is known of one delivery.

    latest: attempts at its endpoint, the latest first. route: of an event that was routed.
    predecessor: None where it waited behind none, or nobody knows.
    unread: parts that the database refused to read, each with why; they are empty here.
    """

    delivery: DeliveryFacts
    attempts: Sequence[AttemptView]
    commands: Sequence[CommandFacts]
    circumstances: Circumstances
    merchant_pause: Pause | None
    general_pause: Pause | None
    overtaken_by: Neighbour | None
    latest: Sequence[AttemptView]
    predecessor: Neighbour | None = None
    route: Route | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
