"""Where a request's statements run: on a pool, each by itself, or on one connection within a transaction."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.storage.connection import translated

MAX_WAIT_SECONDS = 5.0
"""How long a request waits for a connection."""

Database = asyncpg.Connection | asyncpg.Pool | PoolConnectionProxy


@asynccontextmanager
async def transaction(database: Database) -> AsyncIterator[Database]:
    """Let statements run in one transaction, or in a savepoint of the one that they are in.

    Errors: StorageUnavailable, also where no connection was free for MAX_WAIT_SECONDS.
    """
    with translated():
        if isinstance(database, asyncpg.Pool):
            async with database.acquire(timeout=MAX_WAIT_SECONDS) as connection, connection.transaction():
                yield connection
        else:
            async with database.transaction():
                yield database
