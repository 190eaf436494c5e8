"""Runs a request's statements: each on whatever connection is free, or all on one within a transaction."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Protocol, cast

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.domain.errors import DispatcherError, StatementRefused
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import Statement, load

MAX_WAIT_SECONDS = 5.0
"""How long a request waits for a connection: behind one that hangs, others do not wait without end."""
MAX_WAITING = 200
"""Requests that wait for one share's connections; one more is refused at once."""

TOKEN_ENDED = "WH401"
"""The SQLSTATE that the database's functions raise where they find nobody by the token."""
_FIND_BEARER = load("api_tokens")["find_bearer"]


class TokenEnded(DispatcherError):
    """A token has expired, or its key was revoked, since its request was admitted. Reaction: say so."""

    def __init__(self) -> None:
        super().__init__("the token is unknown, expired or revoked")


class Source(Protocol):
    """What a share is of: all connections of a process to a database, or another share."""

    async def take(self, until: float) -> PoolConnectionProxy:
        """Take a connection; until: by the loop's clock; TimeoutError where there was none by then."""
        ...

    async def release(self, connection: PoolConnectionProxy, *, is_sound: bool) -> None:
        """Give it back; is_sound: nothing went wrong, and no statement and no transaction is left."""
        ...


class Share:
    """A share of the connections: at most so many at once, for which requests wait within a bound.

    Shares of one share take turns: each has no more requests in its queue than its own `most`.
    """

    def __init__(self, source: Source, most: int, *, bounds_waiting: bool = True) -> None:
        """Share out a source; bounds_waiting: False where requests are refused for their time alone."""
        self._source = source
        self._free = asyncio.Semaphore(most)
        self._bounds_waiting = bounds_waiting
        self._waiting = 0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[PoolConnectionProxy]:
        """Take a connection while entered; TimeoutError where none was free in time, or too many wait."""
        connection, is_sound = await self.take(_deadline()), False
        try:
            yield connection
            is_sound = True
        finally:
            await self.release(connection, is_sound=is_sound)

    async def take(self, until: float) -> PoolConnectionProxy:
        """Take a connection; until: by the loop's clock; TimeoutError too where too many wait."""
        if self._free.locked():
            await self._wait(until)
        else:
            await self._free.acquire()  # at once
        try:
            return await self._source.take(until)
        except BaseException:
            self._free.release()
            raise

    async def _wait(self, until: float) -> None:
        if self._bounds_waiting and self._waiting >= MAX_WAITING:
            raise TimeoutError
        self._waiting += 1
        try:
            async with asyncio.timeout_at(until):
                await self._free.acquire()
        finally:
            self._waiting -= 1

    async def release(self, connection: PoolConnectionProxy, *, is_sound: bool) -> None:
        """Give it back, for the next that waits."""
        try:
            await self._source.release(connection, is_sound=is_sound)
        finally:
            self._free.release()

    async def fetch(self, text: str, *arguments: object) -> Sequence[Any]:
        """Return all rows. Every request calls this: it does without `acquire`, which costs as much again."""
        connection, is_sound = await self.take(_deadline()), False
        try:
            rows = cast(Sequence[Any], await connection.fetch(text, *arguments))
            is_sound = True
        finally:
            await self.release(connection, is_sound=is_sound)
        return rows

    async def fetchrow(self, text: str, *arguments: object) -> asyncpg.Record | None:
        """Return the first row."""
        async with self.acquire() as connection:
            return await connection.fetchrow(text, *arguments)

    async def fetchval(self, text: str, *arguments: object) -> Any:
        """Return the first value of the first row."""
        async with self.acquire() as connection:
            return await connection.fetchval(text, *arguments)


def _deadline() -> float:
    return asyncio.get_running_loop().time() + MAX_WAIT_SECONDS


Database = asyncpg.Connection | asyncpg.Pool | PoolConnectionProxy | Share


@asynccontextmanager
async def transaction(database: Database) -> AsyncIterator[Database]:
    """Let statements run in one transaction, or in a savepoint of the one that they are in.

    Errors: StorageUnavailable, also where no connection was free for MAX_WAIT_SECONDS.
    """
    async with AsyncExitStack() as stack:
        with translated():
            if isinstance(database, asyncpg.Pool | Share):
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
    """Return a statement's rows; errors are ours (`storage.connection.translated`).

    TokenEnded where a function says so; nothing was done.
    """
    try:
        rows: Sequence[Any] = await database.fetch(statement.text, *arguments)
    except Exception:
        with _token_ended(), translated():
            raise
    return rows


@contextmanager
def _token_ended() -> Iterator[None]:
    try:
        yield
    except StatementRefused as error:
        if error.sqlstate == TOKEN_ENDED:
            raise TokenEnded from error
        raise


async def ask_own(
    database: Database, statement: Statement, token: bytes, *arguments: object
) -> Sequence[Any]:
    """Return the rows of a statement that finds whose they are by a token's hash, its first parameter.

    Where it returns none, the token may have ended, so that is looked up. A token that is live now was live
    for the statement too: there is nothing. Errors: TokenEnded.
    """
    rows = await ask(database, statement, token, *arguments)
    if not rows and not await ask(database, _FIND_BEARER, token):
        raise TokenEnded
    return rows
