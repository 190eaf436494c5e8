"""A database's tables in memory."""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from tests.unit.builders import NOW, make_endpoint
from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.domain.claim import Lease
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StatementRefused, StorageError
from webhook_dispatcher.domain.event import Event, State
from webhook_dispatcher.domain.record import Record


@dataclass(slots=True)
class Lane:
    """A row of the lane table."""

    epoch: int = 0
    from_seq: int = 0
    is_leased: bool = False
    is_recalled: bool = False
    is_locked: bool = False
    wait_until: datetime | None = None
    endpoint_removed_at: datetime | None = None
    is_suspended: bool = False
    is_routed: bool = False


@dataclass(slots=True)
class Owed:
    """A row of the outbox: in order, or claimed or due outside it."""

    event: Event
    is_in_order: bool = True
    claim: int | None = None
    is_locked: bool = False


@dataclass(slots=True)
class FakeDatabase:
    """What is owed, whose lanes are whose, and what has been logged.

    faults: what the next calls of a method meet: None, or an error to raise.
    damaged: events whose object cannot be read; unread: those whose object is of values that cannot be read.
    unclaimable: events that break a rule whenever they are changed. unnamed: merchants of whose due rows
        nothing can be read. unchangeable: due events that can be read, and not be claimed for damage.
    """

    clock: FakeClock = field(default_factory=FakeClock)
    owed: dict[int, Owed] = field(default_factory=dict)
    lanes: defaultdict[str, Lane] = field(default_factory=lambda: defaultdict(Lane))
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    faults: defaultdict[str, deque[StorageError | None]] = field(default_factory=lambda: defaultdict(deque))
    last_seq: int = 0
    server_started_at: datetime = NOW
    finished: dict[int, Record] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    unread: set[int] = field(default_factory=set)
    unclaimable: set[int] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)
    unchangeable: set[int] = field(default_factory=set)
    unreadable_endpoints: set[str] = field(default_factory=set)
    unchangeable_lanes: set[str] = field(default_factory=set)

    def insert(self, *events: Event) -> None:
        """Let producers commit events."""
        for event in events:
            self.owed[event.seq] = Owed(event)
            self.last_seq = max(self.last_seq, event.seq)

    def configure(self, *merchants: str) -> None:
        """Give merchants endpoints."""
        self.endpoints |= {merchant_id: make_endpoint(merchant_id) for merchant_id in merchants}

    def lease(self, lane: str) -> Lease:
        """Take a lane, whoever holds it."""
        row = self.lanes[lane]
        row.epoch += 1
        row.is_leased, row.is_recalled = True, False
        return Lease(
            lane,
            row.epoch,
            row.from_seq,
            row.endpoint_removed_at,
            row.is_suspended,
            self.server_started_at,
            is_routed=row.is_routed,
        )

    def read(self, seqs: Iterable[int]) -> None:
        """Refuse to read objects when one of them cannot be read."""
        seqs = list(seqs)
        if not self.unread.isdisjoint(seqs):
            raise StatementRefused("22021", "invalid byte sequence")
        if not self.damaged.isdisjoint(seqs):
            raise StatementRefused("XX001", "missing chunk number 0")

    def fail(self, method: str) -> None:
        """Raise what the next call of a method is to meet, if anything."""
        if self.faults[method] and (fault := self.faults[method].popleft()) is not None:
            raise fault


def seqs_of(records: Iterable[Record]) -> list[int]:
    """Return which events records are of."""
    return [record.event.seq for record in records]


def is_delivered(database: FakeDatabase, seq: int) -> bool:
    """Tell whether an event has been logged as delivered."""
    return seq in database.finished and database.finished[seq].state is State.DELIVERED
