"""The index by which deliveries are found by their charge: made, and dropped, beside a system that runs.

A migration makes it in a new schema. What may have rows is indexed here, concurrently, one table after the
other, the newest partition first: days of log take a while, and whoever interrupts it goes on with the next
`migrate`. Two at once would wait for each other: the second waits until the first has ended.

So is the index by which merchants' lists find what waits for a retry, where the outbox may have rows.
"""

import itertools
from collections.abc import Callable
from datetime import timedelta

import asyncpg

from webhook_dispatcher.storage.connection import as_owner, translated
from webhook_dispatcher.storage.statements import load

PATIENCE = timedelta(days=1)
SILENT_TRIES = 12
"""After so many (about five seconds) whoever waits for a lock says so."""
_MOMENT = "SELECT pg_sleep(0.2)"
_INDEXED = '((webhook.charge_key(object) COLLATE "C"))'
_STATEMENTS = load("charge_index")


async def settle(dsn: str, wanted: bool | None, tell: Callable[[str], None]) -> None:
    """Make the index where it is missing, or drop it; None: as was chosen before.

    tell: is given a line for each table before it is indexed, and one where a lock is long in coming.
    """
    async with as_owner(dsn, PATIENCE) as connection:
        with translated():
            await connection.execute("SET statement_timeout = 0")
            # Asked again and again: a session that waited for the lock would be waited for by the index.
            while not await connection.fetchval(_STATEMENTS["lock_charge_index"].text):
                await connection.execute(_MOMENT)
            await _make_outbox_order(connection, tell)
            if await connection.fetchval(_STATEMENTS["choose_charge_index"].text, wanted):
                await _make(connection, tell)
            else:
                await _drop(connection, tell)


async def _make_outbox_order(connection: asyncpg.Connection, tell: Callable[[str], None]) -> None:
    """Index what waits out of order, if the migration could not; one that was interrupted is made anew."""
    is_valid = await connection.fetchval(_STATEMENTS["has_outbox_order"].text)
    if is_valid:
        return
    tell("indexing what waits for a retry in webhook.outbox")
    await connection.execute("SET lock_timeout = 0")
    if is_valid is False:
        await connection.execute("DROP INDEX CONCURRENTLY webhook.outbox_out_of_order")
    await connection.execute(
        "CREATE INDEX CONCURRENTLY outbox_out_of_order ON webhook.outbox (merchant_id, seq) "
        "WHERE due_at IS NOT NULL"
    )


async def _make(connection: asyncpg.Connection, tell: Callable[[str], None]) -> None:
    if not await connection.fetchval(_STATEMENTS["has_charge_index"].text):
        await _briefly(
            connection, f"CREATE INDEX delivery_log_charge ON ONLY webhook.delivery_log {_INDEXED}", tell
        )
    for table in await connection.fetch(_STATEMENTS["read_unindexed"].text):
        tell(f"indexing the charges of webhook.{table['relation']}")
        await _index(connection, table, tell)


async def _index(connection: asyncpg.Connection, table: asyncpg.Record, tell: Callable[[str], None]) -> None:
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
            f'CREATE INDEX CONCURRENTLY "{table["index"]}" ON webhook."{table["relation"]}" {_INDEXED}'
        )
    if table["is_partition"]:
        attaching = f'ALTER INDEX webhook.delivery_log_charge ATTACH PARTITION webhook."{table["index"]}"'
        await _briefly(connection, attaching, tell)
    await connection.execute(f'ANALYZE webhook."{table["relation"]}"')


async def _drop(connection: asyncpg.Connection, tell: Callable[[str], None]) -> None:
    if not await connection.fetchval(_STATEMENTS["has_charge_index"].text):
        return
    tell("dropping the index of charges")
    await connection.execute("SET lock_timeout = 0")
    await connection.execute("DROP INDEX CONCURRENTLY IF EXISTS webhook.outbox_charge")
    await _briefly(connection, "DROP INDEX webhook.delivery_log_charge", tell)


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
