"""What a claim brings from storage. `lane` is a lane's name: the id of its merchant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from webhook_dispatcher.domain.event import Event


class Arrival(NamedTuple):
    """A new event, by its number and lane alone."""

    seq: int
    lane: str


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One poll of the end of the outbox.

    visible: the new events, in order of seq. is_cut: there were more than were asked for.
    last_seq: the last number given to any producer.
    oldest_open: all transactions with lower ids have ended.
    next_transaction: no transaction with this id or a higher one has begun to write.
    server_started_at: another one than before: a server that was behind may have taken over.
    """

    last_seq: int
    oldest_open: int
    next_transaction: int
    database_now: datetime
    server_started_at: datetime
    visible: tuple[Arrival, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class SweptLane:
    """A lane that is owed something in order, as the sweep found it."""

    lane: str
    head_seq: int
    is_free: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """A leased lane. Everything in order up to `from_seq` has been recorded.

    is_suspended: its merchant is, so this is a trial: one event is attempted, once.
    server_started_at: it holds while this server runs. The next one may not have what was read under it.
    free_since: when its merchant's latest attempt ended, where that succeeded; when it was leased, where the
        merchant fails: nobody else kept its events until then. None: nothing was attempted yet.
    is_routed: its merchant has several endpoints: what waits here is copied into their lanes, and not sent.
    """

    lane: str
    epoch: int
    from_seq: int
    endpoint_removed_at: datetime | None
    is_suspended: bool
    server_started_at: datetime
    free_since: datetime | None = None
    is_routed: bool = False


@dataclass(frozen=True, slots=True)
class Leased:
    """What came of asking for lanes; those in none of these are held by others, waiting or paused.

    missing: lanes that must be made first. locked: lanes that are free, but locked for the moment.
    """

    leases: tuple[Lease, ...]
    missing: tuple[str, ...]
    locked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Released:
    """What a dead process held: lanes, by what they owe first (0: nothing), and how many retries."""

    lanes: Sequence[SweptLane]
    retries: int


@dataclass(frozen=True, slots=True)
class RunAsk:
    """How much is to be read of one leased lane: what is behind `after_seq`, within both limits."""

    lane: str
    after_seq: int
    max_events: int
    max_bytes: int
    server_started_at: datetime


@dataclass(frozen=True, slots=True)
class RouteAsk:
    """How much of a routed lane is to be routed: what is behind `after_seq`, within both limits.

    stable: nothing could appear at or below it any more when this was asked.
    max_rows, max_bytes: of events and copies together; the first event is routed whatever its size.
    at: when it was asked, in database time.
    """

    lease: Lease
    after_seq: int
    stable: int
    max_rows: int
    max_bytes: int
    at: datetime


class RouteFate(StrEnum):
    """What became of a lane whose holder asked for events to be routed.

    KEPT: it goes on, with its lease renewed. RELEASED: nothing is left. ALONE: it is released too, since
    number 1 alone, or nobody, is left. LOCKED: somebody else had it locked for the moment.
    """

    KEPT = "kept"
    RELEASED = "released"
    ALONE = "alone"
    RECALLED = "recalled"
    LOST = "lost"
    LOCKED = "locked"


@dataclass(frozen=True, slots=True)
class Routed:
    """What was routed, in order of seq.

    reached: the last event's seq. is_cut: more is owed than was routed. unwanted: events that nobody wanted.
    failed: types of events that nobody was there for. heads: by lane that got copies, the first one's seq.
    """

    fate: RouteFate
    events: int = 0
    unwanted: int = 0
    failed: Sequence[str] = ()
    reached: int | None = None
    is_cut: bool = False
    heads: Mapping[str, int] = field(default_factory=dict)


class Stray(NamedTuple):
    """A retry in a lane that has no endpoint; claim: ours, or None where nobody has claimed it."""

    lane: str
    seq: int
    id: UUID
    claim: int | None = None


class HandedOn(StrEnum):
    """What became of a stray.

    MOVED: it waits where its merchant's number 1 is. WAITS: it could not be moved just now. NOBODY: there is
    no endpoint for it.
    """

    MOVED = "moved"
    WAITS = "waits"
    NOBODY = "nobody"


class DueCursor(NamedTuple):
    """A lane with something due: a place in their order. `retry_at` is the database's text for it."""

    retry_at: str
    lane: str


START = DueCursor("-infinity", "")
"""Before everything that is due."""


@dataclass(frozen=True, slots=True)
class ClaimedRetry:
    """A row claimed outside the order; `claim` fences its record."""

    event: Event
    claim: int
    endpoint_removed_at: datetime | None

    @property
    def as_stray(self) -> Stray:
        """Name it, where its lane has no endpoint."""
        return Stray(self.event.lane, self.event.seq, self.event.id, self.claim)


class DueRow(NamedTuple):
    """A due row that was named and not read."""

    lane: str
    seq: int
    id: UUID


@dataclass(frozen=True, slots=True)
class Recalls:
    """Which lanes must be released, and whether everything is paused."""

    everything_is_paused: bool
    lanes: frozenset[str]
