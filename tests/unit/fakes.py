"""Clocks, a network and a database's tables in memory."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from webhook_dispatcher.domain.claim import Lease
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StatementRefused, StorageError
from webhook_dispatcher.domain.event import Event, State
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.domain.signing import Keyring, SealedSecret, Secret
from webhook_dispatcher.domain.verdict import Answer, Failure

T = TypeVar("T")

NOW = datetime(2026, 11, 20, 8, 15, 30, 123456, tzinfo=UTC)
LEASE = timedelta(seconds=30)
KEYRING = Keyring({"k1": b"k" * 32})
SECRET = Secret("whsec_" + "a" * 43)


class FakeClock:
    """Stands still until told otherwise; its database is at the same instant."""

    def __init__(self) -> None:
        self.moment = 1000.0
        self.wall = NOW.timestamp()

    def elapsed(self) -> float:
        return self.moment

    def unix(self) -> float:
        return self.wall

    def advance(self, seconds: float) -> None:
        self.moment += seconds
        self.wall += seconds

    @property
    def now(self) -> datetime:
        """Return the database's time."""
        return datetime.fromtimestamp(self.wall, UTC)


def make_event(seq: int, merchant_id: str = "m", **changes: Any) -> Event:
    """Make an event as the outbox would show it."""
    facts: dict[str, Any] = {
        "seq": seq,
        "id": UUID(int=seq),
        "merchant_id": merchant_id,
        "type": "charge.created",
        "created_at": NOW,
        "object": b'{"id":"ch_%d"}' % seq,
    }
    return Event(**(facts | changes))


def make_endpoint(merchant_id: str = "m", key_id: str = "k1") -> Endpoint:
    """Make an endpoint whose secret opens with KEYRING, unless another key's id is given."""
    sealed = KEYRING.seal(merchant_id, SECRET)
    return Endpoint(merchant_id, f"https://{merchant_id}.example/", (SealedSecret(key_id, sealed.sealed),))


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
        nothing can be read.
    """

    clock: FakeClock = field(default_factory=FakeClock)
    owed: dict[int, Owed] = field(default_factory=dict)
    lanes: defaultdict[str, Lane] = field(default_factory=lambda: defaultdict(Lane))
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    faults: defaultdict[str, deque[StorageError | None]] = field(default_factory=lambda: defaultdict(deque))
    last_seq: int = 0
    finished: dict[int, Record] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    unread: set[int] = field(default_factory=set)
    unclaimable: set[int] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)
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

    def lease(self, merchant_id: str) -> Lease:
        """Take a lane, whoever holds it."""
        lane = self.lanes[merchant_id]
        lane.epoch += 1
        lane.is_leased, lane.is_recalled = True, False
        return Lease(merchant_id, lane.epoch, lane.from_seq, lane.endpoint_removed_at)

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


class FakeSender:
    """Answers what it is told to; `gate` keeps requests on the wire until it is set."""

    def __init__(self, *answers: Answer | Failure) -> None:
        self.answers = deque(answers)
        self.sent: list[tuple[str, Mapping[str, str], bytes]] = []
        self.gate: asyncio.Event | None = None
        self.on_post: Callable[[], None] = lambda: None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer | Failure:
        self.sent.append((url, headers, body))
        self.on_post()
        if self.gate is not None:
            await self.gate.wait()
        return self.answers.popleft() if self.answers else Answer(200)

    @property
    def event_ids(self) -> list[int]:
        """Return the events sent, by the number that make_event made their ids from."""
        return [UUID(headers["Service-Event-Id"]).int for _, headers, _ in self.sent]


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise AssertionError("it waits for something")


async def until(is_so: Callable[[], object], turns: int = 1000) -> None:
    """Let other tasks run until something is so; fail when it is not after many turns of the loop."""
    for _ in range(turns):
        if is_so():
            return
        await one_turn()
    raise AssertionError("it never became so")


async def one_turn() -> None:
    """Let every task that is ready run once."""
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


async def quiet(turns: int = 20) -> None:
    """Let other tasks run as far as they get."""
    for _ in range(turns):
        await one_turn()


def seqs_of(records: Iterable[Record]) -> list[int]:
    """Return which events records are of."""
    return [record.event.seq for record in records]


def is_delivered(database: FakeDatabase, seq: int) -> bool:
    """Tell whether an event has been logged as delivered."""
    return seq in database.finished and database.finished[seq].state is State.DELIVERED
