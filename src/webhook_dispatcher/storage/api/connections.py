"""A pool's connections, kept open when they are released, and handed straight to who has waited the longest.

asyncpg's pool makes a task of each release, and the event loop turns once more before the next has the
connection: a tenth of what a request costs. The pool still opens connections, and takes those back with which
something went wrong: it waits until a cancelled statement is over, and replaces what was closed.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from asyncpg.pool import PoolConnectionProxy

Waiter = asyncio.Future[PoolConnectionProxy | None]


class Connections:
    """As many as the pool may have; None stands for one that is not open yet, and is opened when taken."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._idle: deque[PoolConnectionProxy | None] = deque([None] * pool.get_max_size())
        self._waiting: deque[Waiter] = deque()
        self._is_closing = False

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[PoolConnectionProxy]:
        """Take one while entered, and wait for it without a bound; requests wait within one (`Share`)."""
        connection, is_sound = await self.take(), False
        try:
            yield connection
            is_sound = True
        finally:
            await self.release(connection, is_sound=is_sound)

    async def take(self, until: float | None = None) -> PoolConnectionProxy:
        """Take one, when there is one, and open it where it is not open any more.

        until: by the loop's clock; TimeoutError where there was none by then.
        """
        connection = self._idle.pop() if self._idle else await self._handed(until)
        if connection is not None and is_open(connection):
            return connection
        try:
            async with asyncio.timeout_at(until):
                if connection is not None:
                    await self._pool.release(connection)
                return await self._pool.acquire()
        except BaseException:
            self._put(None)
            raise

    async def release(self, connection: PoolConnectionProxy, *, is_sound: bool) -> None:
        """Hand it to the next that waits.

        is_sound: nothing went wrong, and no statement and no transaction is left.
        """
        if is_sound and not self._is_closing:
            self._put(connection)
            return
        try:
            await self._pool.release(connection)
        finally:
            self._put(None)

    async def close(self) -> None:
        """Leave all that are idle to the pool, and from now on those that are released."""
        self._is_closing = True
        idle, self._idle = self._idle, deque([None] * len(self._idle))
        for connection in idle:
            if connection is not None:
                await self._pool.release(connection)

    async def _handed(self, until: float | None) -> PoolConnectionProxy | None:
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._waiting.append(waiter)
        # asyncio's own time-out costs as much as all the rest of handing over.
        bound = None if until is None else loop.call_at(until, _end, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            # It may have been handed to us just before we were cancelled: then the next that waits gets it.
            if not waiter.cancelled() and waiter.exception() is None:
                self._put(waiter.result())
            raise
        finally:
            if bound is not None:
                bound.cancel()

    def _put(self, connection: PoolConnectionProxy | None) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        # Those that are open are taken first.
        if connection is None:
            self._idle.appendleft(None)
        else:
            self._idle.append(connection)


def _end(waiter: Waiter) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())


def is_open(connection: PoolConnectionProxy) -> bool:
    """Tell whether it can be asked: the server may have closed it, and the pool taken it back since."""
    try:
        return not connection.is_closed()
    except asyncpg.InterfaceError:
        return False


@asynccontextmanager
async def kept(pool: asyncpg.Pool) -> AsyncIterator[Connections]:
    """Keep a pool's connections while entered; nobody else may ask the pool for any."""
    connections = Connections(pool)
    try:
        yield connections
    finally:
        await connections.close()
