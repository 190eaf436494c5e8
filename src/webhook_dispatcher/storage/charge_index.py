"""The index by which deliveries are found by their charge: made, and dropped, beside a system that runs.

A migration makes it where tables are empty. What has rows is indexed here, concurrently, one partition after
the other: days of log take a while, and whoever interrupts it goes on with the next `migrate`.
"""

from collections.abc import Callable
from datetime import timedelta

import asyncpg

from webhook_dispatcher.storage.connection import connect, translated
from webhook_dispatcher.storage.statements import load

PATIENCE = timedelta(days=1)
_INDEXED = "(webhook.charge_key(object))"
_STATEMENTS = load("charge_index")


async def settle(dsn: str, wanted: bool | None, tell: Callable[[str], None]) -> None:
    """Make the index where it is missing, or drop it; None: as was chosen before.

    tell: is given a line for each table before it is indexed.
    """
    with translated():
        connection = await connect(
            dsn, application_name="webhook-dispatcher migrate", command_timeout=PATIENCE
        )
        try:
            await connection.execute(
                "SET ROLE webhook_owner; SET search_path = pg_catalog, pg_temp; SET statement_timeout = 0"
            )
            if await connection.fetchval(_STATEMENTS["choose"].text, wanted):
                await _make(connection, tell)
            else:
                await _drop(connection, tell)
        finally:
            await connection.close()


async def _make(connection: asyncpg.Connection, tell: Callable[[str], None]) -> None:
    await connection.execute(
        "SET lock_timeout = '5s';"
        f"CREATE INDEX IF NOT EXISTS delivery_log_charge ON ONLY webhook.delivery_log {_INDEXED}"
    )
    for table in await connection.fetch(_STATEMENTS["read_unindexed"].text):
        tell(f"indexing the charges of webhook.{table['relation']}")
        # Concurrently: it waits for transactions that are open, however long that takes, and blocks nobody.
        await connection.execute("SET lock_timeout = 0")
        if table["is_broken"]:
            await connection.execute(f'DROP INDEX CONCURRENTLY webhook."{table["index"]}"')
        await connection.execute(
            f'CREATE INDEX CONCURRENTLY IF NOT EXISTS "{table["index"]}" '
            f'ON webhook."{table["relation"]}" {_INDEXED}'
        )
        await connection.execute("SET lock_timeout = '5s'")
        if table["is_partition"]:
            await connection.execute(
                f'ALTER INDEX webhook.delivery_log_charge ATTACH PARTITION webhook."{table["index"]}"'
            )


async def _drop(connection: asyncpg.Connection, tell: Callable[[str], None]) -> None:
    if not await connection.fetchval(_STATEMENTS["is_there"].text):
        return
    tell("dropping the index of charges")
    await connection.execute(
        "SET lock_timeout = '5s'; DROP INDEX IF EXISTS webhook.delivery_log_charge, webhook.outbox_charge"
    )
