"""The charge service: writes events through every fault, and knows of each whether it was committed.

Each merchant's events come from one writer, one transaction after the other, so they have an order; late
transactions overlap with them. Each event is entered in a ledger by its own transaction, so that one whose
COMMIT got no answer is known all the same.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from random import Random
from uuid import UUID, uuid4

import asyncpg

from lab.chaos.evidence import Event

LEDGER = """
CREATE TABLE public.ledger (event_id uuid PRIMARY KEY, seq bigint NOT NULL);
GRANT INSERT ON public.ledger TO webhook_producer;
"""
_INSERT = "INSERT INTO webhook.outbox (id, merchant_id, type, object) VALUES ($1, $2, $3, $4) RETURNING seq"
_ENTER = "INSERT INTO public.ledger (event_id, seq) VALUES ($1, $2)"
_INSERT_ALL = """
INSERT INTO webhook.outbox (id, merchant_id, type, object)
SELECT id, merchant_id, type, object::json
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS new (id, merchant_id, type, object)
RETURNING seq
"""
_ENTER_ALL = "INSERT INTO public.ledger (event_id, seq) SELECT * FROM unnest($1::uuid[], $2::bigint[])"
_TYPES = ("charge.created", "charge.succeeded", "charge.split_completed", "charge.fiscal_registered")
AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What a session may raise when it is cut off: TimeoutError is an OSError."""
CHARGES = 4
LARGE = 0.01
"""The share of events with a large object."""


class Writers:
    """Several writers, each with merchants of its own.

    merchants: how many shares of the events each gets. rate: events a second, all together. by_charge: whose
    events are of CHARGES charges, since their order is kept by them; of others each has a charge of its own.
    """

    def __init__(
        self, dsn: str, merchants: Mapping[str, float], rate: float, random: Random, by_charge: Set[str]
    ) -> None:
        self._dsn = dsn
        self._merchants = merchants
        self._rate = rate
        self._by_charge = by_charge
        self._random = random
        self._events: list[Event] = []
        self._late: set[asyncio.Task[None]] = set()

    async def run(self, writers: int, stopped: asyncio.Event) -> None:
        """Write until stopped."""
        names = list(self._merchants)
        async with asyncio.TaskGroup() as group:
            for number in range(writers):
                group.create_task(self._write(names[number::writers], stopped, Random(self._random.random())))

    async def _write(self, merchants: Sequence[str], stopped: asyncio.Event, random: Random) -> None:
        shares = [self._merchants[name] for name in merchants]
        rate = self._rate * sum(shares) / sum(self._merchants.values())
        connection: asyncpg.Connection | None = None
        due = time.monotonic()
        while not stopped.is_set():
            due = max(due + random.expovariate(rate), time.monotonic() - 1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            [merchant_id] = random.choices(merchants, shares)
            try:
                if connection is None or connection.is_closed():
                    connection = await self._connect()
                await self._commit(connection, merchant_id, random, random.choice((1, 1, 1, 2)))
            except AWAY:
                if connection is not None:
                    connection.terminate()
                connection = None
                await asyncio.sleep(0.1)
        if connection is not None:
            connection.terminate()  # the server may be away

    async def _connect(self) -> asyncpg.Connection:
        return await asyncpg.connect(self._dsn, timeout=2, command_timeout=5)

    async def _commit(
        self, connection: asyncpg.Connection, merchant_id: str, random: Random, count: int
    ) -> None:
        """Commit so many events of one merchant together."""
        begun = time.monotonic()
        written: list[Event] = []
        try:
            async with connection.transaction():
                for _ in range(count):
                    written.append(await self._insert(connection, merchant_id, begun, random))
        except BaseException:
            self._events += written  # committed or not: the ledger knows
            raise
        committed = time.monotonic()
        self._events += [replace(event, committed_at=committed) for event in written]

    async def _insert(
        self, connection: asyncpg.Connection, merchant_id: str, begun: float, random: Random
    ) -> Event:
        event = self._make(merchant_id, begun, random)
        seq = await connection.fetchval(_INSERT, event.id, merchant_id, event.type, event.object)
        await connection.execute(_ENTER, event.id, seq)
        return replace(event, seq=seq)

    def _make(self, merchant_id: str, begun: float, random: Random) -> Event:
        """Make an event that is not written yet."""
        event_id = UUID(int=random.getrandbits(128), version=4)
        charge = f"ch_{random.randrange(CHARGES)}" if merchant_id in self._by_charge else None
        text = _object(charge or f"ch_{event_id.hex}", random)
        return Event(str(event_id), 0, merchant_id, random.choice(_TYPES), text, begun, None, charge)

    async def write_burst(self, merchants: Sequence[str], each: int) -> None:
        """Commit so many events of each merchant, all in one transaction; raises what is AWAY."""
        begun, random = time.monotonic(), Random(uuid4().int)
        events = [self._make(merchant_id, begun, random) for _ in range(each) for merchant_id in merchants]
        ids = [event.id for event in events]
        connection = await self._connect()
        try:
            async with connection.transaction():
                columns = zip(
                    *((event.merchant_id, event.type, event.object) for event in events), strict=True
                )
                rows = await connection.fetch(_INSERT_ALL, ids, *columns)
                events = [replace(event, seq=row["seq"]) for event, row in zip(events, rows, strict=True)]
                await connection.execute(_ENTER_ALL, ids, [event.seq for event in events])
            committed = time.monotonic()
            events = [replace(event, committed_at=committed) for event in events]
        finally:
            self._events += events  # committed or not: the ledger knows
            connection.terminate()

    async def write_late(self, merchant_id: str, hold: float, commits: bool) -> None:
        """Take a number, stay open for so many seconds, then commit or roll back."""
        begun = time.monotonic()
        event: Event | None = None
        try:
            connection = await self._connect()
        except AWAY:
            return
        try:
            transaction = connection.transaction()
            await transaction.start()
            event = await self._insert(connection, merchant_id, begun, Random(uuid4().int))
            await asyncio.sleep(hold)
            if not commits:
                await transaction.rollback()
                return
            await transaction.commit()
            self._events.append(replace(event, committed_at=time.monotonic()))
        except AWAY:
            if event is not None:
                self._events.append(event)
        finally:
            connection.terminate()

    async def committed(self, superuser: asyncpg.Connection) -> tuple[list[Event], list[Event]]:
        """Return the events that the ledger knows, in order of seq, and those that it does not know."""
        known = {str(row["event_id"]) for row in await superuser.fetch("SELECT event_id FROM public.ledger")}
        unheard = known - {event.id for event in self._events}
        assert not unheard, f"the ledger knows events that no writer does: {unheard}"
        events = sorted((event for event in self._events if event.id in known), key=lambda event: event.seq)
        return events, [event for event in self._events if event.id not in known]


def _object(charge: str, random: Random) -> str:
    """Make a charge's text; a number is spelled as only the original text has it."""
    size = random.randrange(20_000, 80_000) if random.random() < LARGE else random.randrange(50, 400)
    filling = random.randbytes(size // 2).hex()
    amount = f"{random.randrange(1, 10**6)}.50"
    return f'{{"id": "{charge}", "amount": {amount}, "note": "{filling}"}}'
