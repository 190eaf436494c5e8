"""Storage on a test's database: what it owes, several connections to it, and doors to hold statements at.

A door is an advisory lock in a row policy: a session named GATED reads the table it guards under the
snapshot its statement has taken, then waits before it locks a row, until the door is opened.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from tests.servers.database import Database
from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.claim import Lease, RunAsk
from webhook_dispatcher.domain.event import Event, FailedReason, State
from webhook_dispatcher.domain.ports import CommandTransaction, FoundDelivery
from webhook_dispatcher.domain.record import Attempt, Record
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.claims import PostgresClaims
from webhook_dispatcher.storage.connection import connect
from webhook_dispatcher.storage.records import PostgresRecords

LEASE = timedelta(seconds=30)
LAPSED = timedelta(0)
"""A lease that is over as soon as it is given."""
PATIENCE = timedelta(seconds=20)
GATED = "gated"
FIRST_LANE = """
SELECT CASE WHEN to_regproc('webhook.add_second') IS NULL THEN $1 ELSE webhook.lane_of($1, 1::smallint) END
"""
"""The lane that is asked for: where everybody is given a second endpoint, that of number 1."""

_DOOR = """
CREATE FUNCTION webhook.passes_door() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF current_setting('application_name') = 'gated' THEN
        PERFORM pg_advisory_lock_shared(1);
        PERFORM pg_advisory_unlock_shared(1);
    END IF;
    RETURN true;
END
$$;
"""
_HANG_DOOR = """
ALTER TABLE webhook.{table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY door ON webhook.{table} USING (webhook.passes_door()) WITH CHECK (true);
"""


_FINISH = """
WITH moved AS (DELETE FROM webhook.outbox WHERE seq = ANY($1::bigint[]) RETURNING *)
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, last_outcome,
    last_status, finished_at, endpoint, copy_of
)
SELECT
    seq, id, webhook.merchant_of(merchant_id), type, created_at, object, $2,
    CASE WHEN $2 = 'failed' THEN 'exhausted' END, 1,
    CASE WHEN $2 = 'failed' THEN 'status' ELSE 'delivered' END, CASE WHEN $2 = 'failed' THEN 500 ELSE 200 END,
    clock_timestamp() - $3::interval, webhook.endpoint_of(merchant_id), copy_of
FROM moved
"""


@dataclass(frozen=True, slots=True)
class Daemon:
    """The storage side of one daemon: its claims and its records, each on a connection of its own."""

    name: str
    claims: PostgresClaims
    records: PostgresRecords
    pool: asyncpg.Pool

    async def lease(self, *merchants: str, head: int = 1, lease: timedelta = LEASE) -> list[Lease]:
        """Lease those lanes that can be had, the missing ones made first."""
        heads = dict.fromkeys([await self.lane_of(merchant) for merchant in merchants], head)
        leased = await self.claims.lease(heads, lease)
        leases = leased.leases
        if leased.missing:
            await self.claims.create_lanes(leased.missing)
            missing = dict.fromkeys(leased.missing, head)
            leases += (await self.claims.lease(missing, lease)).leases
        return sorted(leases, key=lambda lease: lease.lane)

    async def claim(self, merchant: str, *, lease: timedelta = LEASE) -> tuple[Lease, list[Event]]:
        """Lease one lane and read it from its beginning."""
        (leased,) = await self.lease(merchant, lease=lease)
        return leased, (await self.read(merchant))

    async def lane_of(self, merchant: str) -> str:
        """Name the lane in which its events are sent: its own, or that of number 1 of its endpoints."""
        lane: str = await self.pool.fetchval(FIRST_LANE, merchant)
        return lane

    async def read(self, merchant: str, *, after: int = 0, run: int = 1000) -> list[Event]:
        lane = await self.lane_of(merchant)
        return (await self.runs((lane, after, run, 1 << 20))).get(lane, [])

    async def runs(self, *asks: tuple[str, int, int, int]) -> dict[str, list[Event]]:
        """Read what is behind a number for each merchant, within both limits, on this server."""
        started_at = await self.pool.fetchval("SELECT pg_postmaster_start_time()")
        return await self.claims.read_runs([RunAsk(*ask, started_at) for ask in asks])


class StorageHarness:
    """A database under test, seen by its superuser, and everybody else who works on it."""

    def __init__(self, database: Database, superuser: asyncpg.Connection, stack: AsyncExitStack) -> None:
        self.database = database
        self.db = superuser
        self._stack = stack

    async def now(self) -> datetime:
        now: datetime = await self.db.fetchval("SELECT clock_timestamp()")
        return now

    async def daemon(self, name: str, *, application_name: str = "daemon") -> Daemon:
        """Let another daemon work here; named GATED it is held at the door."""
        pool = await self._stack.enter_async_context(self.database.pool(application_name, 2, PATIENCE))
        return Daemon(name, PostgresClaims(pool, name), PostgresRecords(pool), pool)

    async def session(
        self, *, application_name: str = "session", user: str = "webhook_dispatcher"
    ) -> asyncpg.Connection:
        """Open a connection with the dispatcher's rights, or another role's."""
        connection = await connect(
            self.database.dsn(user), application_name=application_name, command_timeout=PATIENCE
        )
        self._stack.push_async_callback(connection.close)
        return connection

    async def configure(self, *merchants: str) -> None:
        """Give each an endpoint whose secret nobody can open."""
        await self.db.execute(
            "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) "
            "SELECT merchant, 'https://example.com/', '\\x00', 'k1' FROM unnest($1::text[]) AS merchant",
            merchants,
        )

    async def insert(self, merchant: str, *objects: str) -> list[int]:
        """Commit events, one for each JSON text, in order."""
        return [
            await self.db.fetchval(
                "INSERT INTO webhook.outbox (merchant_id, type, object) "
                "VALUES ($1, 'charge.created', $2) RETURNING seq",
                merchant,
                text,
            )
            for text in objects or ("{}",)
        ]

    async def insert_due(self, merchant: str, *seconds: float) -> list[int]:
        """Commit events that are due outside the order, so many seconds from now (one attempt made)."""
        seqs = [
            await self.db.fetchval(
                "INSERT INTO webhook.outbox (merchant_id, type, object, attempts, due_at) "
                "VALUES ($1, 'charge.created', '{}', 1, clock_timestamp() + $2) RETURNING seq",
                merchant,
                timedelta(seconds=delay),
            )
            for delay in seconds
        ]
        await self.db.execute(
            "INSERT INTO webhook.lane (merchant_id, retry_at) "
            "VALUES ($1, (SELECT min(due_at) FROM webhook.outbox WHERE merchant_id = $1)) "
            "ON CONFLICT (merchant_id) DO UPDATE SET retry_at = least(lane.retry_at, excluded.retry_at)",
            await self.db.fetchval(FIRST_LANE, merchant),
        )
        return seqs

    async def finish(self, *seqs: int, state: str = "delivered", ago: timedelta = timedelta(0)) -> None:
        """Let deliveries have ended so long ago, by their first attempt."""
        await self.db.execute(_FINISH, seqs, state, ago)

    async def id_of(self, seq: int) -> UUID:
        found: UUID = await self.db.fetchval("SELECT event_id FROM webhook.deliveries WHERE seq = $1", seq)
        return found

    async def lane(self, merchant: str) -> asyncpg.Record:
        row = await self.db.fetchrow(
            "SELECT *, lease_until > clock_timestamp() AS is_leased FROM webhook.lane WHERE merchant_id = $1",
            await self.db.fetchval(FIRST_LANE, merchant),
        )
        assert row is not None
        return row

    async def owed(self, seq: int) -> asyncpg.Record | None:
        return await self.db.fetchrow("SELECT * FROM webhook.outbox WHERE seq = $1", seq)

    async def logged(self, seq: int) -> asyncpg.Record | None:
        return await self.db.fetchrow("SELECT * FROM webhook.delivery_log WHERE seq = $1", seq)

    async def attempts(self, event: Event) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = await self.db.fetch(
            "SELECT * FROM webhook.attempt_log WHERE event_id = $1 ORDER BY started_at", event.id
        )
        return rows

    async def everything(self) -> list[list[asyncpg.Record]]:
        """Read all that records may change (a lane's renewal apart)."""
        return [
            await self.db.fetch("SELECT * FROM webhook.outbox ORDER BY seq"),
            await self.db.fetch("SELECT * FROM webhook.delivery_log ORDER BY seq"),
            await self.db.fetch("SELECT * FROM webhook.attempt_log ORDER BY event_id, started_at"),
            await self.db.fetch(
                "SELECT merchant_id, epoch, from_seq, wait_until, retry_at, recalled "
                "FROM webhook.lane ORDER BY merchant_id"
            ),
        ]

    async def hang_door(self, *tables: str) -> None:
        await self.db.execute(_DOOR + "".join(_HANG_DOOR.format(table=table) for table in tables))

    @asynccontextmanager
    async def held_at_the_door(self, statement: Awaitable[Any]) -> AsyncIterator["asyncio.Future[Any]"]:
        """Run a gated session's statement up to the door; leaving opens it."""
        await self.db.execute("SELECT pg_advisory_lock(1)")
        running = asyncio.ensure_future(statement)
        try:
            await self.until_waiting(GATED, running)
            yield running
        finally:
            await self.db.execute("SELECT pg_advisory_unlock(1)")

    async def until_waiting(self, application_name: str, running: "asyncio.Future[Any]") -> int:
        """Wait until a session waits for a lock; its statement failing meanwhile is the test's failure."""
        async with asyncio.timeout(MAX_WAIT):
            while not running.done():
                pid: int | None = await self.db.fetchval(
                    "SELECT pid FROM pg_stat_activity WHERE application_name = $1 "
                    "AND datname = current_database() AND wait_event_type = 'Lock'",
                    application_name,
                )
                if pid is not None:
                    return pid
                await self.db.execute("SELECT pg_sleep(0.002)")
        raise AssertionError(f"it did not wait: {running.result()!r}")


@asynccontextmanager
async def open_storage(database: Database) -> AsyncIterator[StorageHarness]:
    """Open a superuser's connection; leaving closes it and all that was opened from here."""
    async with AsyncExitStack() as stack:
        superuser = await database.connect()
        stack.push_async_callback(superuser.close)
        yield StorageHarness(database, superuser, stack)


async def cancel(transaction: CommandTransaction, event_id: UUID) -> bool:
    """Cancel an event's delivery; False when it is not owed any more."""
    found = await transaction.find_deliveries([event_id])
    return bool(await transaction.cancel(found.get(event_id, ())))


async def find_delivery(transaction: CommandTransaction, event_id: UUID) -> FoundDelivery:
    """Find the only delivery of an event."""
    (delivery,) = (await transaction.find_deliveries([event_id]))[event_id]
    return delivery


def answered(event: Event, fence: int, at: datetime, status: int | None, *, is_retry: bool = False) -> Record:
    """Make the record of one more attempt: delivered by a 2xx, else to be retried a minute later."""
    is_delivered = status is not None and 200 <= status < 300
    outcome = Outcome.TIMEOUT if status is None else Outcome.DELIVERED if is_delivered else Outcome.STATUS
    started_at = at - timedelta(milliseconds=120)
    return Record(
        event=event,
        fence=fence,
        is_retry=is_retry,
        attempt=Attempt(event.attempts + 1, started_at, at, 120, status, outcome),
        state=State.DELIVERED if is_delivered else None,
        reason=None,
        due_at=None if is_delivered else at + timedelta(minutes=1),
        at=at,
    )


def exhausted(record: Record) -> Record:
    """Turn a retried record into a final failure."""
    return record._replace(state=State.FAILED, reason=FailedReason.EXHAUSTED, due_at=None)


def unsent(
    event: Event, fence: int, at: datetime, reason: FailedReason | None, *, is_retry: bool = False
) -> Record:
    """Make the record of a row that was not sent: failed for a reason, or handed back, due at once."""
    state = None if reason is None else State.FAILED
    due_at = at if reason is None else None
    return Record(event, fence, is_retry, None, state, reason, due_at, at)


def seqs(events: Sequence[Event]) -> list[int]:
    return [event.seq for event in events]
