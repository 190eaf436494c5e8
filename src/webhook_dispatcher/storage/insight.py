"""What operators ask about a system at work: insight.sql, bound.

It only reads, by the views that webhook_admin may read, and all of one answer from one snapshot.
"""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.event import State, Trigger
from webhook_dispatcher.domain.signing import SealedSecret
from webhook_dispatcher.domain.thresholds import FAILING_OUT_OF, FAILING_WITHIN, is_failing
from webhook_dispatcher.storage import lost
from webhook_dispatcher.storage.administration import (
    AttemptView,
    DeliveryView,
    DispatcherFacts,
    EndpointChange,
    Stranded,
)
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.lost import Lost, LostEvent
from webhook_dispatcher.storage.statements import load

MAX_COUNTED = 100_000
"""Up to here what is owed, and what was attempted, is counted; above, it is called more."""
MAX_AHEAD = 10_000
MAX_OWING = 10_000
MAX_ATTEMPTS = 100
MAX_EVENTS = 200
MAX_OVERTAKING = 50
MAX_LAGS = 500
MAX_ARRIVALS = 10_000
LATELY = (timedelta(seconds=5), timedelta(seconds=30))
"""The latest first attempts are looked for within so long, then within the window: all of it is sorted."""
LATEST = 5
T = TypeVar("T")
_STATEMENTS = load("insight")
_ONE_SNAPSHOT = """
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL enable_seqscan = off;
SET LOCAL plan_cache_mode = force_custom_plan
"""


@dataclass(frozen=True, slots=True)
class DeliveryFacts(DeliveryView):
    """One delivery; due_at and what follows are of the outbox, and empty once it is finished.

    attempts_by_hand: those that stood beside the schedule. scheduled_at: while one is asked for, when the
        schedule's next is due.
    """

    charge_id: str | None
    due_at: datetime | None
    is_claimed: bool
    trigger: str | None
    on_failure: str | None
    attempts_by_hand: int = 0
    scheduled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CommandFacts:
    """A command about one event."""

    id: int
    command: str
    requested_by: str
    status: str
    created_at: datetime
    handled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Pause:
    """By which command a merchant, or everything, was paused."""

    command_id: int
    requested_by: str
    handled_at: datetime


@dataclass(frozen=True, slots=True)
class Overtaking:
    """A later event of the same merchant whose first attempt came sooner."""

    event_id: UUID
    seq: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The event that it waited behind.

    Of the same merchant, with a lower number: the one whose first attempt ended last before its own.
    """

    event_id: UUID
    seq: int
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else concerned a delivery, from when it was written until it was finished, or until now.

    predecessor: None where it waited behind none, or nobody knows.
    commands: not about its event alone, but about its merchant or everybody: pause, resume, retry_failed,
    recover, skip. changes: of its merchant's endpoint, as the audit has them: for operators alone.
    """

    predecessor: Predecessor | None = None
    commands: Sequence[CommandFacts] = ()
    changes: Sequence[EndpointChange] = ()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What an event's merchant has, and what its events may wait for, at one moment.

    secret: None without an endpoint. ahead: how many come before the event in order, up to MAX_AHEAD.
    head_…: the first that waits in order.
    """

    now: datetime
    everything_is_paused: bool
    url: str | None
    secret: SealedSecret | None
    is_paused: bool
    is_held: bool
    owner: str | None
    leased_at: datetime | None
    wait_until: datetime | None
    endpoint_removed_at: datetime | None
    last_success_at: datetime | None
    failing_since: datetime | None
    failures_in_a_row: int
    suspended_at: datetime | None
    head_event_id: UUID | None
    head_seq: int | None
    head_created_at: datetime | None
    ahead: int
    secret_created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EventFacts:
    """Everything that is known of one delivery. latest: attempts at its merchant, the latest first.

    unread: parts that the database refused to read, each with why; they are empty here.
    """

    delivery: DeliveryFacts
    attempts: Sequence[AttemptView]
    commands: Sequence[CommandFacts]
    circumstances: Circumstances
    merchant_pause: Pause | None
    general_pause: Pause | None
    overtaken_by: Overtaking | None
    latest: Sequence[AttemptView]
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Owing:
    """A merchant that is owed something, and the first of it: in order, or (with due_at) as a retry."""

    merchant_id: str
    is_in_order: bool
    event_id: UUID
    seq: int
    created_at: datetime
    due_at: datetime | None
    is_paused: bool
    has_endpoint: bool


@dataclass(frozen=True, slots=True)
class Lag:
    """From created_at to the first attempt in seconds, of the latest so many; None where there are none."""

    events: int
    median: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Pace:
    """How many events come, and how many are first attempted, each second."""

    arriving: float
    starting: float


@dataclass(frozen=True, slots=True)
class Size:
    """What a table takes with its indexes. days: its partitions, the first of which is of kept_since."""

    name: str
    bytes: int
    days: int
    kept_since: date | None


@dataclass(frozen=True, slots=True)
class Commands:
    """How many commands are not finished."""

    pending: int
    running: int
    pending_since: datetime | None


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """What `status` shows. Counts go up to MAX_COUNTED, merchants that are owed something up to MAX_OWING.

    next_try_at: of a suspended merchant. recent: attempts by outcome since `recent_since`.
    holders: lanes by dispatcher. stranded: what waits although only a dispatcher is wanting.
    dispatchers: as they noted themselves.
    """

    now: datetime
    everything_is_paused: bool
    general_pause: Pause | None
    pending: int
    pending_retry: int
    owing: Sequence[Owing]
    paused: int
    failing: int
    suspended: int
    next_try_at: datetime | None
    most_failing: Sequence["MerchantFacts"]
    recent_since: datetime
    recent: dict[str, int]
    lag: Lag
    holders: dict[str, int]
    commands: Commands
    missing_partitions: Sequence[tuple[str, date]]
    stranded: Stranded | None
    dispatchers: Sequence[DispatcherFacts]
    lost: Lost | None = None
    pace: Pace = Pace(0, 0)
    sizes: Sequence[Size] = ()


@dataclass(frozen=True, slots=True)
class MerchantFacts:
    """How one merchant fares. waiting: events in order, as far as they were counted, as waiting_for_retry.

    attempted, attempts_failed: as domain.thresholds.is_failing has them. paused_…: of the command that paused
    it. failed_…: of the latest failed attempt, where one failed lately.
    """

    merchant_id: str
    has_endpoint: bool
    is_paused: bool
    failing_since: datetime | None
    failures_in_a_row: int
    last_success_at: datetime | None
    suspended_at: datetime | None
    next_try_at: datetime | None
    oldest_waiting_at: datetime | None
    waiting: int
    waiting_for_retry: int = 0
    attempted: int = 0
    attempts_failed: int = 0
    paused_at: datetime | None = None
    paused_by: str | None = None
    failed_at: datetime | None = None
    failed_outcome: str | None = None
    failed_status: int | None = None
    failed_reason: str | None = None


@dataclass(frozen=True, slots=True)
class MerchantFilter:
    """Which merchants to list: those that match all. behind_since: some event waits since before that."""

    only_failing: bool = False
    behind_since: datetime | None = None
    only_paused: bool = False
    limit: int = 50


class Insight:
    """Statements of `sql/insight.sql`, inside one transaction."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def find_event(self, event_id: UUID) -> list[DeliveryFacts]:
        """Return the deliveries of an event, in order of seq."""
        return [DeliveryFacts(**row) for row in await self._rows("read_event", event_id, MAX_EVENTS)]

    async def find_charge(self, charge_id: str, merchant_id: str | None) -> list[DeliveryFacts]:
        """Return the deliveries of a charge, of one merchant where it is given, in order of seq."""
        rows = await self._rows("read_charge", charge_id, merchant_id, MAX_EVENTS)
        return [DeliveryFacts(**row) for row in rows]

    async def gather(self, delivery: DeliveryFacts) -> EventFacts:
        """Return everything that is known of one delivery; a part that is refused costs no other."""
        merchant = delivery.merchant_id
        circumstances = await self._circumstances(merchant, delivery.seq)
        now = circumstances.now
        unread: dict[str, str] = {}

        async def part(name: str, read: Awaitable[T], nothing: T) -> T:
            try:
                with translated():
                    async with self._connection.transaction():
                        return await read
            except StatementRefused as error:
                unread[name] = error.detail
                return nothing

        attempts = await part(
            "attempts", self._attempts("read_attempts", delivery.event_id, MAX_ATTEMPTS), []
        )
        pauses = await part("pauses", self.pauses(merchant), {})
        return EventFacts(
            delivery=delivery,
            attempts=attempts,
            commands=await part("commands", self.commands_about(delivery.event_id), []),
            circumstances=circumstances,
            merchant_pause=pauses.get(merchant),
            general_pause=pauses.get(""),
            overtaken_by=None
            if unread
            else await part("order", self._overtaking(delivery, attempts, now), None),
            latest=await part(
                "latest attempts", self._attempts("read_latest_attempts", merchant, now, LATEST), []
            ),
            unread=unread,
        )

    async def _attempts(self, name: str, *arguments: object) -> list[AttemptView]:
        return [AttemptView(**row) for row in await self._rows(name, *arguments)]

    async def _circumstances(self, merchant_id: str, seq: int) -> Circumstances:
        row = dict((await self._rows("read_circumstances", merchant_id, seq, MAX_AHEAD))[0])
        key_id, sealed = row.pop("key_id"), row.pop("secret")
        return Circumstances(**row, secret=SealedSecret(key_id, sealed) if sealed is not None else None)

    async def _overtaking(
        self, delivery: DeliveryFacts, attempts: Sequence[AttemptView], now: datetime
    ) -> Overtaking | None:
        if not was_sent_in_order(delivery, attempts):
            return None
        first = attempts[0].started_at if attempts else now
        rows = await self._rows(
            "read_overtaking", delivery.merchant_id, delivery.seq, delivery.created_at, first, MAX_OVERTAKING
        )
        return Overtaking(**rows[0]) if rows else None

    async def pauses(self, merchant_id: str = "") -> dict[str, Pause]:
        """Say which commands paused a merchant and (under an empty name) everything."""
        rows = [dict(row) for row in await self._rows("read_pauses", merchant_id)]
        return {row.pop("scope"): Pause(**row) for row in rows}

    async def commands_about(self, event_id: UUID) -> list[CommandFacts]:
        """Return the commands about one event, in order."""
        rows = await self._rows("read_commands_about", event_id, MAX_ATTEMPTS)
        return [CommandFacts(**row) for row in rows]

    async def kept(self) -> tuple[date | None, bool]:
        """Say since which day finished deliveries are kept, and whether charges are indexed."""
        row = (await self._rows("read_kept"))[0]
        return row["kept_since"], row["has_charge_index"]

    async def status(
        self,
        window: timedelta,
        missing: Sequence[tuple[str, date]],
        stranded: Stranded | None,
        dispatchers: Sequence[DispatcherFacts],
    ) -> StatusFacts:
        """Measure everything at once; attempts within the window that ends now."""
        backlog = (await self._rows("read_backlog", MAX_COUNTED + 1))[0]
        lanes = (await self._rows("count_lanes"))[0]
        failing = await self._failing()
        since = backlog["now"] - window
        recent = await self._rows("count_recent", since, MAX_COUNTED + 1)
        started = sum(row["first_attempts"] for row in recent)
        return StatusFacts(
            **backlog,
            general_pause=(await self.pauses()).get(""),
            owing=[Owing(**row) for row in await self._rows("read_owing", MAX_OWING)],
            **lanes,
            failing=len(failing),
            most_failing=await self._merchants(failing, MerchantFilter(limit=3)) if failing else [],
            recent_since=since,
            recent={row["outcome"]: row["attempts"] for row in recent},
            lag=await self._lag(backlog["now"], window),
            holders=dict(await self._rows("read_holders", 100)),
            commands=Commands(**(await self._rows("count_commands"))[0]),
            missing_partitions=missing,
            stranded=stranded,
            dispatchers=dispatchers,
            lost=await lost.read(self._connection),
            pace=Pace(await self._arriving(backlog["now"], since), started / window.total_seconds()),
            sizes=[Size(**row) for row in await self._rows("read_sizes")],
        )

    async def _lag(self, now: datetime, window: timedelta) -> Lag:
        for span in (*(span for span in LATELY if span < window), window):
            lag = Lag(**(await self._rows("measure_lag", now - span, MAX_LAGS))[0])
            if lag.events == MAX_LAGS:
                break
        return lag

    async def _arriving(self, now: datetime, since: datetime) -> float:
        """Return how many events come each second: of the newest, where more came than are counted."""
        row = (await self._rows("count_arrivals", since, MAX_ARRIVALS))[0]
        seconds = (now - (row["first_at"] if row["events"] == MAX_ARRIVALS else since)).total_seconds()
        return float(row["events"] / max(seconds, 0.001))

    async def find_lost(self, event_id: UUID) -> LostEvent | None:
        """Return what was noted of an event that was sent and is not here since another server took over."""
        return await lost.find(self._connection, event_id)

    async def merchants(self, wanted: MerchantFilter) -> list[MerchantFacts]:
        """Return matching merchants: those that fail first, then those whose events wait the longest."""
        return await self._merchants(await self._failing() if wanted.only_failing else None, wanted)

    async def _failing(self) -> Sequence[str]:
        """Return the merchants that fail, the longest first."""
        rows = await self._rows("list_whoever_failed", FAILING_WITHIN, FAILING_OUT_OF, MAX_COUNTED)
        return [
            row["merchant_id"]
            for row in rows
            if is_failing(row["attempted"], row["failed"], row["failing_since"], row["failures_in_a_row"])
        ]

    async def _merchants(
        self, merchants: Sequence[str] | None, wanted: MerchantFilter
    ) -> list[MerchantFacts]:
        rows = await self._rows(
            "list_merchants",
            merchants,
            wanted.behind_since,
            wanted.only_paused,
            MAX_AHEAD + 1,
            wanted.limit,
            FAILING_WITHIN,
            FAILING_OUT_OF,
        )
        return [MerchantFacts(**row) for row in rows]

    async def _rows(self, name: str, *arguments: object) -> Sequence[Any]:
        rows: Sequence[Any] = await self._connection.fetch(_STATEMENTS[name].text, *arguments)
        return rows


def was_sent_in_order(delivery: DeliveryFacts, attempts: Sequence[AttemptView]) -> bool:
    """Tell whether its first attempt was made, or is to be made, in order: not by hand, and not never."""
    if attempts:
        return attempts[0].attempt == 1 and attempts[0].trigger == Trigger.SCHEDULE
    return delivery.state == State.PENDING and delivery.trigger == Trigger.SCHEDULE


@asynccontextmanager
async def insight(connection: asyncpg.Connection) -> AsyncIterator[Insight]:
    """Read inside one transaction, by indexes; errors are ours (`storage.connection.translated`)."""
    with translated():
        async with connection.transaction():
            await connection.execute(_ONE_SNAPSHOT)
            yield Insight(connection)
