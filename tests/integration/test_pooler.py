"""Storage through a real PgBouncer in transaction mode, whose two server connections everybody shares."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from tests.integration.storage_harness import LEASE, Daemon, StorageHarness, answered, seqs
from tests.servers import programs, settings_of_tests
from tests.servers.database import Database
from tests.servers.pooler import Pooler, find_pgbouncer
from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.record import LaneTurn
from webhook_dispatcher.local.binaries import major_version
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import session
from webhook_dispatcher.storage.claims import PostgresClaims
from webhook_dispatcher.storage.connection import create_pool, translated
from webhook_dispatcher.storage.pooler import opened_with
from webhook_dispatcher.storage.records import PostgresRecords

pytestmark = pytest.mark.needs(
    find_pgbouncer() is not None, "pgbouncer is missing: apt-get install pgbouncer"
)

PATIENCE = timedelta(seconds=10)
SHARED = 2
SINCE_17 = dict(session.SINCE_17) if major_version(programs()) >= 17 else {}
OURS = {
    "transaction_isolation": "read committed",
    "TimeZone": "UTC",
    "statement_timeout": "9s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "10s",
    "search_path": "pg_catalog",
    "standard_conforming_strings": "on",
    "jit": "off",
    "plan_cache_mode": "auto",
    "max_parallel_workers_per_gather": "0",
    "exit_on_error": "off",
    **SINCE_17,
}
THEIRS = {
    "transaction_isolation": "serializable",
    "TimeZone": "Asia/Tokyo",
    "statement_timeout": "77s",
    "lock_timeout": "78s",
    "idle_in_transaction_session_timeout": "79s",
    "search_path": "elsewhere",
    "standard_conforming_strings": "off",
    "jit": "on",
    "plan_cache_mode": "force_generic_plan",
    "max_parallel_workers_per_gather": "8",
    "exit_on_error": "on",
    **dict.fromkeys(SINCE_17, "80s"),
}
READ_SETTINGS = "SELECT name, current_setting(name) FROM unnest($1::text[]) AS name"
BROKEN_OFF = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
)


def settings(rows: list[asyncpg.Record]) -> dict[str, str]:
    """Read what READ_SETTINGS gives; where all identifiers are quoted, a schema's name is."""
    return {str(row[0]): str(row[1]).strip('"') for row in rows}


@pytest.fixture(scope="module")
def through(postgres: EmbeddedPostgres) -> Iterator[Pooler]:
    with Pooler(postgres.dsn(), pool_size=SHARED) as pooler:
        yield pooler


@asynccontextmanager
async def pool_through(pooler: Pooler, database: Database, size: int = 4) -> AsyncIterator[asyncpg.Pool]:
    url = pooler.dsn("webhook_dispatcher", database.name)
    async with create_pool(
        url, application_name="pooled", command_timeout=PATIENCE, size=size, pooled=True
    ) as pool:
        yield pool


@pytest.fixture
async def pool(through: Pooler, storage: StorageHarness) -> AsyncIterator[asyncpg.Pool]:
    """Give a database with defaults that would be wrong for us, and a pool that leads there."""
    ours_there = f"ALTER ROLE webhook_dispatcher IN DATABASE {storage.database.name}"
    for name, value in THEIRS.items():
        default = name.replace("transaction_isolation", "default_transaction_isolation")
        await storage.db.execute(f"{ours_there} SET {default} = '{value}'")
    async with pool_through(through, storage.database) as pool:
        yield pool


async def test_every_statement_has_our_settings_whatever_the_defaults_are(pool: asyncpg.Pool) -> None:
    assert settings(await pool.fetch(READ_SETTINGS, list(OURS))) == OURS
    for name, value in OURS.items():
        assert str(await pool.fetchval("SELECT current_setting($1)", name)).strip('"') == value
        row = await pool.fetchrow("SELECT current_setting($1) AS found", name)
        assert row is not None
        assert row["found"].strip('"') == value
    async with pool.acquire() as connection, connection.transaction():
        assert settings(await connection.fetch(READ_SETTINGS, list(OURS))) == OURS


async def test_what_is_executed_has_our_settings_too(pool: asyncpg.Pool, storage: StorageHarness) -> None:
    await storage.db.execute("CREATE TABLE seen (name text, value text)")
    await storage.db.execute("GRANT INSERT ON seen TO webhook_dispatcher")
    await pool.execute(f"INSERT INTO public.seen {READ_SETTINGS}", list(OURS))
    assert settings(await storage.db.fetch("SELECT name, value FROM seen")) == OURS


async def test_nothing_is_left_on_the_server_connection(
    pool: asyncpg.Pool, through: Pooler, storage: StorageHarness
) -> None:
    used = await pool.fetchval("SELECT pg_backend_pid()")
    other = await asyncpg.connect(
        through.dsn("webhook_dispatcher", storage.database.name), statement_cache_size=0
    )
    async with other.transaction():
        assert await other.fetchval("SELECT pg_backend_pid()") == used
        assert settings(await other.fetch(READ_SETTINGS, list(THEIRS))) == THEIRS
        assert await other.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''") == 0
        assert await other.fetchval("SELECT current_user") == "webhook_dispatcher"
    await other.close()


async def test_a_statement_costs_one_transaction_and_nothing_outside_of_it(
    pool: asyncpg.Pool, through: Pooler, storage: StorageHarness
) -> None:
    await pool.fetchval("SELECT $1::int", 0)
    before = through.counts(storage.database.name)
    for number in range(10):
        await pool.fetchval("SELECT $1::int", number)
    after = through.counts(storage.database.name)
    # BEGIN with its settings, the statement, COMMIT; nothing when the connection goes back to the pool.
    assert (after[0] - before[0], after[1] - before[1]) == (10, 30)


async def test_many_connections_share_few_of_the_server(pool: asyncpg.Pool) -> None:
    statement = "SELECT pg_backend_pid() FROM pg_sleep($1)"
    pids = await asyncio.gather(*[pool.fetchval(statement, 0.01) for _ in range(40)])
    assert len(set(pids)) == SHARED


async def test_a_transaction_stays_on_one_server_connection_while_others_work(pool: asyncpg.Pool) -> None:
    async with pool.acquire() as connection, connection.transaction():
        pids = set()
        for _ in range(10):
            pids.add(await connection.fetchval("SELECT pg_backend_pid()"))
            await pool.fetchval("SELECT pg_backend_pid()")
    assert len(pids) == 1


async def test_a_statement_that_fails_or_is_broken_off_leaves_no_transaction_behind(
    pool: asyncpg.Pool, storage: StorageHarness
) -> None:
    for _ in range(SHARED + 1):
        with pytest.raises(asyncpg.DivisionByZeroError):
            await pool.fetchval("SELECT 1 / $1::int", 0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await pool.fetchval("SELECT pg_sleep($1)", 5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), pool.acquire() as connection, connection.transaction():
                await connection.fetchval("SELECT pg_sleep($1)", 5)
    assert await asyncio.gather(*[pool.fetchval("SELECT 1") for _ in range(10)]) == [1] * 10
    assert await storage.db.fetchval(BROKEN_OFF) == 0


async def test_who_gave_up_waiting_for_a_server_connection_leaves_no_transaction_behind(
    pool: asyncpg.Pool, through: Pooler, storage: StorageHarness
) -> None:
    async with pool_through(through, storage.database, size=SHARED) as greedy, AsyncExitStack() as held:
        for _ in range(SHARED):
            connection = await held.enter_async_context(greedy.acquire())
            await held.enter_async_context(connection.transaction())
        # The pool's own time-out is for the connection; what is waited for here is the server's behind it.
        waiting = [asyncio.ensure_future(pool.fetchval("SELECT 1")) for _ in range(3)]
        await storage.db.execute("SELECT pg_sleep(0.2)")
        for statement in waiting:
            statement.cancel()
    broken_off = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(end) for end in broken_off] == [asyncio.CancelledError] * 3
    assert await asyncio.gather(*[pool.fetchval("SELECT 1") for _ in range(10)]) == [1] * 10
    assert await storage.db.fetchval(BROKEN_OFF) == 0


async def test_a_connection_whose_transaction_did_not_open_is_given_back(schema_only: Database) -> None:
    unheard_of = opened_with({"default_transaction_isolation": "unheard of"})
    connection = await asyncpg.connect(
        schema_only.dsn(),
        connection_class=unheard_of,
        statement_cache_size=0,
        server_settings=settings_of_tests(),
    )
    with pytest.raises(asyncpg.PostgresSyntaxError):
        await connection.fetchval("SELECT 1")
    assert not connection.is_in_transaction()
    await connection.close()


@pytest.mark.usefixtures("pool")
async def test_a_statement_that_takes_too_long_is_ended_by_the_server(
    through: Pooler, storage: StorageHarness
) -> None:
    url = through.dsn("webhook_dispatcher", storage.database.name)
    patience = timedelta(seconds=1)
    async with create_pool(
        url, application_name="pooled", command_timeout=patience, size=1, pooled=True
    ) as pool:
        with pytest.raises(StorageUnavailable, match="due to statement timeout"), translated():
            await pool.fetchval("SELECT pg_sleep(5)")


async def test_daemons_claim_and_record_beside_each_other(
    pool: asyncpg.Pool, through: Pooler, storage: StorageHarness
) -> None:
    merchants = [f"m{number}" for number in range(12)]
    for merchant in merchants:
        await storage.insert(merchant, *["{}"] * 5)

    async def deliver(name: str) -> list[int]:
        """Deliver whatever can be leased until nothing is owed; return what was written."""
        done: list[int] = []
        async with pool_through(through, storage.database) as own:
            daemon = Daemon(name, PostgresClaims(own, name), PostgresRecords(own), own)
            while await own.fetchval("SELECT EXISTS (SELECT FROM webhook.outbox)"):
                for lease in await daemon.lease(*merchants, head=1):
                    events = await daemon.read(lease.lane, run=2)
                    at = datetime.now(UTC)
                    records = [answered(event, lease.epoch, at, 200) for event in events]
                    turn = LaneTurn(lease, True, max(seqs(events), default=0))
                    done += (await daemon.records.write(records, [turn], LEASE)).seqs
        return done

    async with asyncio.timeout(MAX_WAIT):
        written = await asyncio.gather(*[deliver(f"d{number}") for number in range(3)])
    assert sorted(seq for part in written for seq in part) == list(range(1, 61))
    assert await storage.db.fetchval("SELECT count(*) FROM webhook.delivery_log") == 60
