"""Indexes that an installation may do without: made, and dropped, beside a system that runs.

By one deliveries are found by their charge: a new schema has it. By the other merchants read
their events in order: who runs the Partner API asks for it. What may have rows is indexed here, concurrently,
one table after the other, the newest partition first: days of log take a while, and whoever interrupts it
goes on with the next `migrate`. Two at once would wait for each other: the second waits until the first has
ended.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import asyncpg

from webhook_dispatcher.storage.connection import as_owner, translated
from webhook_dispatcher.storage.statements import load

PATIENCE = timedelta(days=1)
SILENT_TRIES = 12
"""After so many (about five seconds) whoever waits for a lock says so."""
_MOMENT = "SELECT pg_sleep(0.2)"
_STATEMENTS = load("chosen_indexes")


@dataclass(frozen=True, slots=True)
class ChosenIndexes:
    """Which of the indexes an installation wants; None: as was chosen before.

    charge: deliveries are found by their charge; at first yes. feed: merchants read their events in order; at
    first no, since each event pays for it whether anybody reads or not.
    """

    charge: bool | None = None
    feed: bool | None = None


AS_BEFORE = ChosenIndexes()


@dataclass(frozen=True, slots=True)
class _Index:
    """One of them. suffix: what its names end in, on the outbox, the log and each partition."""

    suffix: str
    indexed: str
    what: str

    @property
    def parent(self) -> str:
        return f"delivery_log_{self.suffix}"


_CHARGE = _Index("charge", '((webhook.charge_key(object) COLLATE "C"))', "charges")
_FEED = _Index("feed", "(merchant_id, xid, seq) WHERE xid >= '0'", "the feed of events")


async def settle(dsn: str, wanted: ChosenIndexes, tell: Callable[[str], None]) -> None:
    """Make the indexes that are wanted where they are missing, and drop those that are not.

    tell: is given a line for each table before it is indexed, and one where a lock is long in coming.
    """
    async with as_owner(dsn, PATIENCE) as connection:
        with translated():
            await connection.execute("SET statement_timeout = 0")
            # Asked again and again: a session that waited for the lock would be waited for by the index.
            while not await connection.fetchval(_STATEMENTS["lock_chosen_indexes"].text):
                await connection.execute(_MOMENT)
            chosen = await connection.fetchrow(_STATEMENTS["choose_indexes"].text, wanted.charge, wanted.feed)
            assert chosen is not None
            for index, is_wanted in (
                (_CHARGE, chosen["has_charge_index"]),
                (_FEED, chosen["has_feed_index"]),
            ):
                await (_make if is_wanted else _drop)(connection, index, tell)


async def _make(connection: asyncpg.Connection, index: _Index, tell: Callable[[str], None]) -> None:
    if not await connection.fetchval(_STATEMENTS["has_log_index"].text, index.suffix):
        await _briefly(
            connection,
            f"CREATE INDEX {index.parent} ON ONLY webhook.delivery_log {index.indexed}",
            tell,
        )
    for table in await connection.fetch(_STATEMENTS["read_unindexed"].text, index.suffix):
        tell(f"indexing {index.what} in webhook.{table['relation']}")
        await _index(connection, index, table, tell)


async def _index(
    connection: asyncpg.Connection, index: _Index, table: asyncpg.Record, tell: Callable[[str], None]
) -> None:
    """Index one table: this waits for open transactions, however long that takes, and blocks nobody."""
    await connection.execute("SET lock_timeout = 0")
    if table["is_attached"]:
        # One that was attached before it was whole: it cannot be dropped any more, only made anew.
        await connection.execute(f'REINDEX INDEX CONCURRENTLY webhook."{table["index"]}"')
        return
    if table["is_broken"]:
        await connection.execute(f'DROP INDEX CONCURRENTLY webhook."{table["index"]}"')
    if table["is_broken"] is not False:
        await connection.execute(
            f'CREATE INDEX CONCURRENTLY "{table["index"]}" ON webhook."{table["relation"]}" {index.indexed}'
        )
    if table["is_partition"]:
        attaching = f'ALTER INDEX webhook.{index.parent} ATTACH PARTITION webhook."{table["index"]}"'
        await _briefly(connection, attaching, tell)
    # Not what is empty: the planner would count on no rows at all, and read all of a table that fills.
    if await connection.fetchval(f'SELECT EXISTS (SELECT FROM webhook."{table["relation"]}")'):
        await connection.execute(f'ANALYZE webhook."{table["relation"]}"')


async def _drop(connection: asyncpg.Connection, index: _Index, tell: Callable[[str], None]) -> None:
    if not await connection.fetchval(_STATEMENTS["has_log_index"].text, index.suffix):
        return
    tell(f"dropping the index of {index.what}")
    await connection.execute("SET lock_timeout = 0")
    await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS webhook.outbox_{index.suffix}")
    await _briefly(connection, f"DROP INDEX webhook.{index.parent}", tell)


async def _briefly(connection: asyncpg.Connection, statement: str, tell: Callable[[str], None]) -> None:
    """Execute what locks others out. It waits for a moment at a time: they would queue up behind it."""
    await connection.execute("SET lock_timeout = '200ms'")
    for tries in itertools.count(1):
        try:
            await connection.execute(statement)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            if tries == SILENT_TRIES:
                tell("waiting until nobody uses webhook.delivery_log for a moment (pg_locks says who does)")
            await connection.execute(_MOMENT)
        else:
            return
