"""What operators ask about a system at work: insight.sql, fares.sql and delivery.sql, bound.

It only reads, by the views that webhook_admin may read, and all of one answer from one snapshot.
"""

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from webhook_dispatcher.domain.command import CommandFacts
from webhook_dispatcher.domain.delivery import MAX_AHEAD, DeliveryFacts, EventFacts
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.lane import merchant_of
from webhook_dispatcher.domain.merchant import MerchantFacts
from webhook_dispatcher.domain.signing import SealedSecret
from webhook_dispatcher.domain.status import (
    MAX_COUNTED,
    MAX_OWING,
    Commands,
    DispatcherFacts,
    Lag,
    LostEvent,
    Owing,
    Pace,
    Size,
    StatusFacts,
    Stranded,
)
from webhook_dispatcher.storage import lost
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.delivery import DeliveryReader, questions
from webhook_dispatcher.storage.fares import fails, find_whoever_failed, read_fares
from webhook_dispatcher.storage.statements import COMMAND_LINE, Ask, load

MAX_EVENTS = 200
MAX_LANES = 10_000_000
MAX_LAGS = 500
MAX_ARRIVALS = 10_000
LATELY = (timedelta(seconds=5), timedelta(seconds=30))
"""The latest first attempts are looked for within so long, then within the window: all of it is sorted."""
T = TypeVar("T")
_STATEMENTS = {**load("insight"), **load("fares", COMMAND_LINE), **questions(COMMAND_LINE)}
_ONE_SNAPSHOT = """
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL enable_seqscan = off;
SET LOCAL plan_cache_mode = force_custom_plan
"""


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
        self._delivery = DeliveryReader(self._shared)

    async def find_event(self, event_id: UUID) -> list[DeliveryFacts]:
        """Return the deliveries of an event, in order of seq."""
        return await self._delivery.find([event_id], MAX_EVENTS)

    async def find_charge(self, charge_id: str, merchant_id: str | None) -> list[DeliveryFacts]:
        """Return the deliveries of a charge, of one merchant where it is given, in order of seq."""
        events = [
            row["event_id"] for row in await self._rows("find_charge", charge_id, merchant_id, MAX_EVENTS)
        ]
        return [
            found
            for found in await self._delivery.find(events, MAX_EVENTS)
            if found.charge_id == charge_id and merchant_id in (None, found.merchant_id)
        ]

    async def gather(self, delivery: DeliveryFacts) -> EventFacts:
        """Return everything that is known of one delivery; a part that is refused costs no other."""
        return await _InParts(self._connection, self._shared).gather(delivery)

    async def find_secret(self, merchant_id: str, number: int) -> SealedSecret | None:
        """Return an endpoint's sealed secret; None where there is no such endpoint."""
        rows = await self._rows("read_secret", merchant_id, number)
        return SealedSecret(rows[0]["key_id"], rows[0]["secret"]) if rows else None

    async def commands_about(self, event_id: UUID) -> list[CommandFacts]:
        """Return the commands about one event, in order."""
        return await self._delivery.commands_about(event_id)

    async def kept(self) -> tuple[date | None, bool]:
        """Say since which day finished deliveries are kept, and whether charges are indexed."""
        return await self._delivery.kept()

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
            general_pause=(await self._delivery.pauses()).get(""),
            owing=[Owing(**row) for row in await self._rows("read_owing", MAX_OWING)],
            **lanes,
            failing=len(set(map(merchant_of, failing))),
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
        """Return the lanes of endpoints that fail, the longest first."""
        rows = await find_whoever_failed(self._shared, MAX_LANES, MAX_COUNTED)
        return [row["lane"] for row in rows if fails(row)]

    async def _merchants(self, lanes: Sequence[str] | None, wanted: MerchantFilter) -> list[MerchantFacts]:
        conditions = lanes, wanted.behind_since, wanted.only_paused
        rows = await self._rows("find_merchants", *conditions, wanted.limit)
        found = [row["merchant_id"] for row in rows]
        return [MerchantFacts(**row) for row in await read_fares(self._shared, found, MAX_AHEAD + 1)]

    async def _rows(self, name: str, *arguments: object) -> Sequence[Any]:
        rows: Sequence[Any] = await self._connection.fetch(_STATEMENTS[name].text, *arguments)
        return rows

    async def _shared(self, name: str, *arguments: object) -> Sequence[Any]:
        return await self._rows(name, None, *arguments)


class _InParts(DeliveryReader):
    """Reads each part in a savepoint."""

    def __init__(self, connection: asyncpg.Connection, ask: Ask) -> None:
        super().__init__(ask)
        self._connection = connection

    async def part(self, name: str, read: Awaitable[T], nothing: T) -> T:
        """Read a part; where that is refused, say why."""
        try:
            with translated():
                async with self._connection.transaction():
                    return await read
        except StatementRefused as error:
            self.unread[name] = error.detail
            return nothing


@asynccontextmanager
async def insight(connection: asyncpg.Connection) -> AsyncIterator[Insight]:
    """Read inside one transaction, by indexes; errors are ours (`storage.connection.translated`)."""
    with translated():
        async with connection.transaction():
            await connection.execute(_ONE_SNAPSHOT)
            yield Insight(connection)
