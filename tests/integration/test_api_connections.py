"""A connection that is released goes to who has waited the longest, whatever happens meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.integration.api_harness import api_pool
from tests.servers.database import Database
from tests.waiting import until, until_found
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.storage.api import database as api_database
from webhook_dispatcher.storage.api.connections import Connections, is_open, kept
from webhook_dispatcher.storage.api.database import Share

PATIENCE = 30
ASLEEP = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND query ~ 'pg_sleep' AND state = 'active' AND pid <> pg_backend_pid()
"""
END_ALL = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND usename = 'webhook_api'
"""


@pytest.fixture
async def one(database: Database) -> AsyncIterator[Connections]:
    """A single connection."""
    async with api_pool(database, 1) as pool, kept(pool) as connections:
        yield connections


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_database, "MAX_WAIT_SECONDS", PATIENCE * 10)


async def pid_of(share: Share) -> Any:
    return await share.fetchval("SELECT pg_backend_pid()")


async def waiting(connections: Connections, share: Share, number: int) -> list["asyncio.Task[Any]"]:
    """Let so many ask that do not get a connection yet, one after the other."""
    tasks = []
    for count in range(1, number + 1):
        tasks.append(asyncio.create_task(pid_of(share)))
        await until(lambda count=count: len(connections._waiting) == count)  # type: ignore[misc]
    return tasks


async def test_whoever_has_waited_longest_is_next(one: Connections) -> None:
    share, ended = Share(one, 9), list[str]()
    async with share.acquire() as connection:
        pid = connection.get_server_pid()
        tasks = await waiting(one, share, 3)
        for name, task in zip("abc", tasks, strict=True):
            task.add_done_callback(lambda _, name=name: ended.append(name))  # type: ignore[misc]
    async with asyncio.timeout(PATIENCE):
        assert await asyncio.gather(*tasks) == [pid] * 3, "the same connection for all"
    assert ended == [*"abc"]


async def test_who_gives_up_waiting_leaves_the_connection_to_the_next(one: Connections) -> None:
    share = Share(one, 9)
    async with share.acquire():
        first, second, third = await waiting(one, share, 3)
        first.cancel()
    # The connection is in the second's hands already, who has not run yet.
    second.cancel()
    async with asyncio.timeout(PATIENCE):
        assert await third
        assert await pid_of(share)
    assert first.cancelled()
    assert second.cancelled()


async def test_a_connection_that_others_hold_is_waited_for_within_bounds(
    one: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = Share(one, 9)
    async with share.acquire():
        [patient] = await waiting(one, share, 1)
        monkeypatch.setattr(api_database, "MAX_WAIT_SECONDS", 0.05)
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(TimeoutError):
                await pid_of(share)
    async with asyncio.timeout(PATIENCE):
        assert await patient == await pid_of(share)


async def test_a_statement_that_is_cancelled_is_over_before_anybody_is_next(
    one: Connections, db: asyncpg.Connection
) -> None:
    share = Share(one, 9)
    slow = asyncio.create_task(share.fetch("SELECT pg_sleep(60)"))
    await until_found(lambda: db.fetchval(ASLEEP))
    [pid] = [row["pid"] for row in await db.fetch(ASLEEP)]
    tasks = await waiting(one, share, 1)
    slow.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([slow])
        assert not await db.fetch(ASLEEP)
        assert await asyncio.gather(*tasks) == [pid]
    assert slow.cancelled()


async def test_what_the_server_closed_meanwhile_is_replaced(one: Connections, db: asyncpg.Connection) -> None:
    share = Share(one, 9)
    async with share.acquire() as connection:
        pid = connection.get_server_pid()
    await db.execute(END_ALL)
    await until(lambda: not is_open(connection))
    assert await pid_of(share) not in (None, pid)


async def test_what_closes_in_use_is_replaced_for_who_waits(one: Connections, db: asyncpg.Connection) -> None:
    share = Share(one, 9)
    async with share.acquire() as connection:
        pid = connection.get_server_pid()
        [task] = await waiting(one, share, 1)
        await db.execute(END_ALL)
        await until(lambda: not is_open(connection))
    async with asyncio.timeout(PATIENCE):
        assert await task not in (None, pid)


async def test_where_none_can_be_opened_all_are_told_who_wait(
    one: Connections, db: asyncpg.Connection, database: Database
) -> None:
    share = Share(one, 9)
    async with share.acquire() as connection:
        tasks = await waiting(one, share, 2)
        await db.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 0")
        await db.execute(END_ALL)
        await until(lambda: not is_open(connection))
    async with asyncio.timeout(PATIENCE):
        told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in told] == [StorageUnavailable] * 2
    await db.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
    assert await pid_of(share)


async def test_the_end_waits_for_what_is_in_use_and_lets_nobody_wait_on(database: Database) -> None:
    async with api_pool(database, 2) as pool:
        connections = Connections(pool)
        share = Share(connections, 9)
        async with share.acquire(), share.acquire():
            pass
        async with share.acquire(), share.acquire():
            [task] = await waiting(connections, share, 1)
            await connections.close()
            closing = asyncio.create_task(pool.close())
            await until(pool.is_closing)
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(asyncpg.InterfaceError, match="pool is closing"):
                await task
            await closing


async def test_the_end_closes_what_is_idle(database: Database) -> None:
    async with api_pool(database, 2) as pool:
        async with kept(pool) as connections, Share(connections, 9).acquire() as connection:
            pass
        async with asyncio.timeout(PATIENCE):
            await pool.close()
    assert not is_open(connection)
