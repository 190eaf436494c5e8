"""Where a request's statements run: on a pool, each by itself, or on one connection within a transaction."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import asyncpg
from asyncpg.pool import PoolAcquireContext, PoolConnectionProxy

from webhook_dispatcher.domain.errors import DispatcherError
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import Statement, load

MAX_WAIT_SECONDS = 5.0
"""How long a request waits for a connection: one that hangs holds up no more than so many others so long."""

_FIND_BEARER = load("api_tokens")["find_bearer"]


class TokenEnded(DispatcherError):
    """A token has expired, or its key was revoked, since its request was admitted. Reaction: say so."""

    def __init__(self) -> None:
        super().__init__("the token is unknown, expired or revoked")


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
    async with AsyncExitStack() as stack:
        with translated():
            if isinstance(database, asyncpg.Pool):
                database = Connections(database)
            if isinstance(database, Connections):
                database = await stack.enter_async_context(database.acquire())
            under_way = database.transaction()
            await under_way.start()
        try:
            yield database
        except BaseException:
            with translated():
                await under_way.rollback()
            raise
        with translated():
            await under_way.commit()


async def ask(database: Database, statement: Statement, *arguments: object) -> Sequence[Any]:
    """Return a statement's rows; errors are ours (`storage.connection.translated`)."""
    with translated():
        rows: Sequence[Any] = await database.fetch(statement.text, *arguments)
    return rows


async def ask_own(
    database: Database, statement: Statement, token: bytes, *arguments: object
) -> Sequence[Any]:
    """Return the rows of a statement that finds whose they are by a token's hash, its first parameter.

    Errors: TokenEnded where it found nobody. A token that is live afterwards was so before: there is nothing.
    """
    rows = await ask(database, statement, token, *arguments)
    if not rows and not await ask(database, _FIND_BEARER, token):
        raise TokenEnded
    return rows
