"""What surrounds the daemons of the claim model: a database whose clock stands, producers, an operator.

Time passes for the database, too: its clock is replaced by one that the model sets. A door is an advisory
lock in a row policy: a session named gated waits there, under the snapshot that its statement has taken.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Any

import asyncpg

from tests.integration.claim_model.daemon import KEYRING, SLOTS, Moment
from tests.integration.claim_model.facts import Committed, Facts, Tables
from tests.servers.database import Database
from webhook_dispatcher.domain.signing import Secret

BY_CHARGE = "b"
MERCHANTS = ("a", BY_CHARGE)
WANTED, SPECIAL = "charge.created", "charge.failed"
"""What filters name, and what they leave out."""
PATIENCE = timedelta(seconds=6)

_PREPARE = """
CREATE SCHEMA model;
CREATE TABLE model.moment (at timestamptz);
INSERT INTO model.moment VALUES (clock_timestamp());
-- In the catalogue itself: our sessions look nowhere else for functions.
SET allow_system_table_mods = on;
ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO clock_of_the_server;
CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz
LANGUAGE sql AS 'SELECT at FROM model.moment';
CREATE FUNCTION model.passes(door integer) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF current_setting('application_name') = 'gated' THEN
        PERFORM pg_advisory_lock_shared(door);
        PERFORM pg_advisory_unlock_shared(door);
    END IF;
    RETURN true;
END
$$;
GRANT USAGE ON SCHEMA model TO public;
GRANT SELECT ON model.moment TO public;
ALTER TABLE webhook.lane ENABLE ROW LEVEL SECURITY;
CREATE POLICY door ON webhook.lane USING (model.passes(1)) WITH CHECK (true);
ALTER TABLE webhook.outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY door ON webhook.outbox USING (model.passes(2)) WITH CHECK (true);
"""
_CLEAR = """
DELETE FROM webhook.outbox; DELETE FROM webhook.delivery_log; DELETE FROM webhook.attempt_log;
DELETE FROM webhook.control; UPDATE webhook.endpoint SET types = NULL;
DELETE FROM webhook.lane; UPDATE webhook.state SET paused = false;
SELECT setval('webhook.outbox_seq_seq', 1, false);
"""
_INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, $2, $3) RETURNING seq, id"
_LAPSES = """
SELECT EXISTS (SELECT FROM webhook.lane WHERE lease_until > $1 AND lease_until <= $2)
    OR EXISTS (SELECT FROM webhook.outbox WHERE claim IS NOT NULL AND due_at > $1 AND due_at <= $2)
"""


class Surroundings:
    """One database, used by one run after another."""

    moment: Moment
    facts: Facts

    def __init__(self, database: Database, stack: AsyncExitStack) -> None:
        self._database = database
        self._stack = stack
        self._open: list[tuple[asyncpg.Connection, Any, list[Committed]]] = []
        self._locks: list[tuple[asyncpg.Connection, Any]] = []

    async def prepare(self) -> None:
        """Make the clock, the doors, the merchants' endpoints, and everybody's connections."""
        first = await self._database.connect()
        await first.execute(_PREPARE)
        for merchant in MERCHANTS:
            sealed = KEYRING.seal(merchant, Secret("whsec_" + "a" * 43))
            await first.execute(
                "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id, at_once) "
                "VALUES ($1, $2, $3, $4, $5)",
                merchant,
                f"https://{merchant}.example/",
                sealed.sealed,
                sealed.key_id,
                2 if merchant == BY_CHARGE else None,
            )
        await first.close()
        self.db = await self._session()
        self._doorkeeper = await self._session()
        self._idle = [await self._session() for _ in range(4)]
        self._gated = await self._pool("gated")
        self._pools = [await self._pool("daemon") for _ in range(SLOTS)]

    async def _session(self) -> asyncpg.Connection:
        session = await self._database.connect()
        self._stack.push_async_callback(session.close)
        return session

    async def _pool(self, name: str) -> asyncpg.Pool:
        return await self._stack.enter_async_context(self._database.pool(name, 3, PATIENCE))

    async def _clear(self) -> None:
        """Let go of everything, and owe nothing."""
        await self.unlock()
        while self._open:
            await self.end_insert(0, is_committed=False)
        await self.db.execute(_CLEAR)
        await self.db.execute("INSERT INTO webhook.lane (merchant_id) SELECT unnest($1::text[])", MERCHANTS)

    async def _set_clock(self) -> None:
        await self.db.execute("UPDATE model.moment SET at = $1", self.moment.now)

    async def tables(self) -> Tables:
        return await Tables.read(self.db)

    # Producers

    async def insert(self, merchant: str, count: int) -> None:
        for _ in range(count):
            self.facts.commit(await self._insert(self.db, merchant))

    async def _insert(self, session: asyncpg.Connection, merchant: str) -> Committed:
        """Insert an event; every third is of a type that filters leave out.

        Where order is kept by charge, it is of one of two.
        """
        is_special = len(self.facts.events) % 3 == 1
        charge = f"ch_{self.facts.count % 2}" if merchant == BY_CHARGE else None
        text = "{}" if charge is None else f'{{"id":"{charge}"}}'
        row = await session.fetchrow(_INSERT, merchant, SPECIAL if is_special else WANTED, text)
        assert row is not None
        return self.facts.insert(row["seq"], row["id"], merchant, charge, is_special)

    async def begin_insert(self, merchant: str) -> None:
        if self._idle:
            session = self._idle.pop()
            transaction = session.transaction()
            await transaction.start()
            self._open.append((session, transaction, [await self._insert(session, merchant)]))

    async def end_insert(self, number: int, is_committed: bool) -> bool:
        """End one of the open transactions; False when there is none."""
        if not self._open:
            return False
        session, transaction, events = self._open.pop(number % len(self._open))
        await (transaction.commit() if is_committed else transaction.rollback())
        for event in events if is_committed else ():
            self.facts.commit(event)
            if (await self.tables()).lanes[event.merchant]["from_seq"] >= event.seq:
                self.facts.seen.notes.add("a commit came below from_seq")
        self._idle.append(session)
        return True

    # Operators

    async def lock(self, table: str, number: int) -> None:
        """Lock a row or a lane from another session until it lets go."""
        key = "seq" if table == "outbox" else "merchant_id"
        keys = [row[0] for row in await self.db.fetch(f"SELECT {key} FROM webhook.{table} ORDER BY 1")]
        if keys and self._idle:
            session = self._idle.pop()
            transaction = session.transaction()
            await transaction.start()
            statement = f"SELECT FROM webhook.{table} WHERE {key} = $1 FOR UPDATE SKIP LOCKED"
            await session.execute(statement, keys[number % len(keys)])
            self._locks.append((session, transaction))

    async def unlock(self) -> bool:
        """Let go of all locks; False when there are none."""
        has_any = bool(self._locks)
        for session, transaction in self._locks:
            await transaction.rollback()
            self._idle.append(session)
        self._locks.clear()
        return has_any

    async def change_url(self, merchant: str) -> None:
        order = "CASE WHEN at_once < 3 THEN at_once + 1 WHEN at_once IS NULL THEN 2 END"
        change = f"updated_at = clock_timestamp(), at_once = {order}" if merchant == BY_CHARGE else ""
        await self._change_endpoint(change or "updated_at = clock_timestamp()", merchant)

    async def change_filter(self, merchant: str) -> None:
        """Let a merchant want one type alone, or all again; whoever claims its lane after that goes by it."""
        is_filtered = merchant not in self.facts.filtered_since
        types = f"'{{{WANTED}}}'" if is_filtered else "NULL"
        if await self._change_endpoint(f"types = {types}", merchant):
            self.facts.filtered_since.pop(merchant, None)
            if is_filtered:
                self.facts.filtered_since[merchant] = (await self.tables()).lanes[merchant]["epoch"]

    async def _change_endpoint(self, change: str, merchant: str) -> bool:
        """Change an endpoint; False where somebody else holds its lane."""
        await self.db.execute("SET lock_timeout = '50ms'")
        is_changed = False
        with suppress(asyncpg.LockNotAvailableError):  # the operator who holds the lane is as patient
            await self.db.execute(f"UPDATE webhook.endpoint SET {change} WHERE merchant_id = $1", merchant)
            is_changed = True
        await self.db.execute("RESET lock_timeout")
        return is_changed

    async def delete(self, number: int) -> None:
        events = self._settled()
        if events:
            event = events[number % len(events)]
            row = await self.db.fetchrow(
                "DELETE FROM webhook.outbox WHERE seq = "
                "(SELECT seq FROM webhook.outbox WHERE seq = $1 FOR UPDATE SKIP LOCKED) "
                "RETURNING claim, due_at",
                event.seq,
            )
            if row is not None:
                event.is_by_hand = event.is_deleted = True
                event.claimed_until = row["due_at"] if row["claim"] is not None else None

    def _settled(self) -> Sequence[Committed]:
        return [event for event in self.facts.events.values() if event.committed and not event.is_deleted]

    async def _lapses(self, seconds: float) -> bool:
        """Tell whether a lease or a claim ends within so many seconds."""
        after = self.moment.now + timedelta(seconds=seconds)
        lapses: bool = await self.db.fetchval(_LAPSES, self.moment.now, after)
        return lapses
