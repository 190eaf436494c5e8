"""Where a request's statements run: on a pool, each by itself, or on one connection within a transaction."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg
from asyncpg.pool import PoolAcquireContext, PoolConnectionProxy

from webhook_dispatcher.storage.connection import translated

MAX_WAIT_SECONDS = 5.0
"""How long a request waits for a connection: one that hangs holds up no more than so many others so long."""


class Connections:
    """A pool for whose connections nobody waits longer than MAX_WAIT_SECONDS."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    def acquire(self) -> PoolAcquireContext:
        """Take a connection while entered; TimeoutError where none was free in time."""
        return self._pool.acquire(timeout=MAX_WAIT_SECONDS)

    async def fetch(self, text: str, *arguments: object) -> Sequence[Any]:
        """Return all rows."""
        async with self.acquire() as connection:
            return cast(Sequence[Any], await connection.fetch(text, *arguments))

    async def fetchrow(self, text: str, *arguments: object) -> asyncpg.Record | None:
        """Return the first row."""
        async with self.acquire() as connection:
            return await connection.fetchrow(text, *arguments)

    async def fetchval(self, text: str, *arguments: object) -> Any:
        """Return the first value of the first row."""
        async with self.acquire() as connection:
            return await connection.fetchval(text, *arguments)


Database = asyncpg.Connection | asyncpg.Pool | PoolConnectionProxy | Connections


@asynccontextmanager
async def transaction(database: Database) -> AsyncIterator[Database]:
    """Let statements run in one transaction, or in a savepoint of the one that they are in.

    Errors: StorageUnavailable, also where no connection was free for MAX_WAIT_SECONDS.
    """
    with translated():
        if isinstance(database, asyncpg.Pool):
            database = Connections(database)
        if isinstance(database, Connections):
            async with database.acquire() as connection, connection.transaction():
                yield connection
        else:
            async with database.transaction():
                yield database
