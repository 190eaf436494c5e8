"""The link that the chaos run puts before the database: each of its breaks does what it says."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from lab.chaos.link import Link
from tests.servers.database import Database
from tests.waiting import MAX_WAIT, until_equal, until_found

TABLE = "CREATE TABLE public.noted (number integer PRIMARY KEY)"
NOTE = "INSERT INTO public.noted (number) VALUES ($1)"
PATIENCE = MAX_WAIT
SHORT = 0.2
"""Seconds after which what hangs is taken to hang."""

Connect = Callable[[], Awaitable[asyncpg.Connection]]


def server_socket(database: Database) -> Path:
    [folder] = parse_qs(urlsplit(database.dsn()).query)["host"]
    [port] = parse_qs(urlsplit(database.dsn()).query)["port"]
    return Path(folder) / f".s.PGSQL.{port}"


@pytest.fixture
async def owner(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Connect past the link, and make a table to write to."""
    connection = await database.connect()
    await connection.execute(TABLE)
    yield connection
    await connection.close()


@pytest.fixture
async def link(database: Database) -> AsyncIterator[Link]:
    async with Link(server_socket(database)) as link:
        yield link


@pytest.fixture
async def connect(database: Database, link: Link) -> AsyncIterator[Connect]:
    """Open connections through the link; they are dropped in the end."""
    opened: list[asyncpg.Connection] = []

    async def open_one() -> asyncpg.Connection:
        connection = await asyncpg.connect(link.dsn("postgres", database.name), timeout=PATIENCE)
        opened.append(connection)
        return connection

    yield open_one
    for connection in opened:
        connection.terminate()


async def noted(owner: asyncpg.Connection) -> list[int]:
    return [row["number"] for row in await owner.fetch("SELECT number FROM public.noted ORDER BY number")]


async def sessions(owner: asyncpg.Connection) -> int:
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return int(await owner.fetchval(others))


async def until_sessions(owner: asyncpg.Connection, count: int) -> None:
    await until_equal(lambda: sessions(owner), count, PATIENCE)


async def test_sound_link_passes_everything_on(owner: asyncpg.Connection, connect: Connect) -> None:
    connection = await connect()
    text = "x" * 1_000_000
    assert await connection.fetchval("SELECT $1::text", text) == text
    await connection.close()
    await until_sessions(owner, 0)


async def test_cut_resets_every_connection(owner: asyncpg.Connection, link: Link, connect: Connect) -> None:
    connections = [await connect(), await connect()]
    link.cut()
    for connection in connections:
        with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
            await connection.execute("SELECT 1")
    await until_sessions(owner, 0)
    assert await (await connect()).fetchval("SELECT 1") == 1


async def test_blackhole_swallows_everything_and_nobody_talks_nonsense_after_it(
    owner: asyncpg.Connection, link: Link, connect: Connect
) -> None:
    idle, asking = await connect(), await connect()
    link.blackhole()
    with pytest.raises(TimeoutError):
        await asking.execute(NOTE, 1, timeout=SHORT)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(connect(), SHORT)
    assert await sessions(owner) == 2
    link.restore()
    assert await idle.fetchval("SELECT 1") == 1
    assert asking.is_closed()
    await until_sessions(owner, 1)
    assert await noted(owner) == []


async def test_blackhole_hides_that_the_server_ended_a_session(
    owner: asyncpg.Connection, link: Link, connect: Connect
) -> None:
    connection = await connect()
    link.blackhole()
    await owner.execute("SELECT pg_terminate_backend($1)", connection.get_server_pid())
    await until_sessions(owner, 0)
    with pytest.raises(TimeoutError):
        await connection.execute("SELECT 1", timeout=SHORT)
    link.restore()
    await until_found(_true_if(lambda: link.connections == 0), PATIENCE)


async def test_link_with_another_authority_is_trusted_once_its_root_is_known(
    database: Database, tmp_path: Path
) -> None:
    async with Link(server_socket(database), tmp_path / "root.pem") as link:

        async def connect() -> asyncpg.Connection:
            return await asyncpg.connect(link.dsn("postgres", database.name), timeout=PATIENCE)

        standing = await connect()
        link.exchange_certificate()
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect()
        assert await standing.fetchval("SELECT repeat('x', 1000000)") == "x" * 1_000_000
        link.publish_root()
        new = await connect()
        link.cut()
        for connection in (standing, new):
            with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
                await connection.execute("SELECT 1")


async def test_refusing_link_keeps_what_stands(link: Link, connect: Connect) -> None:
    standing = await connect()
    link.refuse()
    with pytest.raises(ConnectionError):
        await connect()
    assert await standing.fetchval("SELECT 1") == 1
    link.restore()
    assert await (await connect()).fetchval("SELECT 1") == 1


async def test_half_open_link_leaves_the_session_with_its_locks_at_the_server(
    owner: asyncpg.Connection, link: Link, connect: Connect
) -> None:
    connection = await connect()
    await connection.execute("BEGIN; INSERT INTO public.noted VALUES (1)")
    link.half_open()
    link.cut()
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
        await connection.execute("SELECT 1")
    successor = await connect()
    assert await successor.fetchval("SELECT 1") == 1
    await owner.execute("SET lock_timeout = '100ms'")
    with pytest.raises(asyncpg.LockNotAvailableError):  # of the transaction that nobody leads any more
        await owner.execute(NOTE, 1)
    link.restore()
    await until_sessions(owner, 1)
    await owner.execute(NOTE, 1)
    assert await successor.fetchval("SELECT 1") == 1


async def test_slow_link_delays_both_ways(link: Link, connect: Connect) -> None:
    connection = await connect()
    await connection.execute("SELECT 1")
    link.slow(0.2)
    begun = time.monotonic()
    await connection.execute("SELECT 1")
    assert time.monotonic() - begun >= 0.4
    link.restore()
    await asyncio.wait_for(connection.execute("SELECT 1"), PATIENCE)


async def test_lost_reply_leaves_the_statement_committed(
    owner: asyncpg.Connection, link: Link, connect: Connect
) -> None:
    connection, other = await connect(), await connect()
    await connection.execute(NOTE, 1)  # prepared before: its text is not sent again
    lost = link.lose_next_reply(NOTE)
    assert await other.fetchval("SELECT 1") == 1
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await connection.execute(NOTE, 2)
    assert await asyncio.wait_for(lost, PATIENCE)
    assert await noted(owner) == [1, 2]
    await other.execute(NOTE, 3)
    assert await noted(owner) == [1, 2, 3]


async def test_lost_reply_of_a_transaction_is_that_of_its_commit(
    owner: asyncpg.Connection, link: Link, connect: Connect
) -> None:
    connection = await connect()
    lost = link.lose_next_reply(NOTE)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(NOTE, 1)
    assert await connection.fetchval("SELECT count(*) FROM public.noted") == 1
    assert not lost.done()
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await transaction.commit()
    assert await asyncio.wait_for(lost, PATIENCE)
    assert await noted(owner) == [1]


async def test_reply_is_lost_only_where_something_was_committed(
    owner: asyncpg.Connection, link: Link, connect: Connect
) -> None:
    connection, other = await connect(), await connect()
    await owner.execute(NOTE, 1)
    lost = link.lose_next_reply(NOTE)
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute(NOTE, 1)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(NOTE, 2)
    await transaction.rollback()
    assert not lost.done()
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await other.execute(NOTE, 3)
    assert await asyncio.wait_for(lost, PATIENCE)
    assert await noted(owner) == [1, 3]


async def test_reply_is_lost_once_though_two_transactions_run_the_statement(
    owner: asyncpg.Connection, link: Link, connect: Connect
) -> None:
    first, second = await connect(), await connect()
    lost = link.lose_next_reply(NOTE)
    transactions = [first.transaction(), second.transaction()]
    for number, (connection, transaction) in enumerate(zip((first, second), transactions, strict=True)):
        await transaction.start()
        await connection.execute(NOTE, number)
    await transactions[1].commit()
    assert not lost.done()
    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await transactions[0].commit()
    assert await asyncio.wait_for(lost, PATIENCE)
    assert await noted(owner) == [0, 1]


async def test_loss_that_never_came_about_is_called_off(link: Link, connect: Connect) -> None:
    lost = link.lose_next_reply("SELECT 'never'")
    link.restore()
    assert not await lost
    assert await (await connect()).fetchval("SELECT 'never'") == "never"


def _true_if(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return condition()

    return look
