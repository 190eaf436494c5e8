"""A pooler that nobody told us of, or of the wrong kind: one line that says what to do."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.acceptance.processes import environment
from tests.servers.database import Database, execute
from tests.servers.pooler import Pooler, find_pgbouncer
from tests.waiting import MAX_WAIT
from webhook_dispatcher.cli.check import CheckResult, examine
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.errors import ConfigurationError, StorageUnavailable
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.local.scratch import scratch_dir
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.connection import connect, create_pool
from webhook_dispatcher.storage.pooler import PoolerInBetween
from webhook_dispatcher.storage.session import session_settings

pytestmark = pytest.mark.needs(
    find_pgbouncer() is not None, "pgbouncer is missing: apt-get install pgbouncer"
)

PATIENCE = timedelta(seconds=5)
KEY = "k1:" + "A" * 43 + "="
NAMES_THE_SETTING = "set WEBHOOK_DATABASE_POOLER=transaction"
EVERYTHING = ",".join(session_settings("", PATIENCE))


@pytest.fixture(scope="module", autouse=True)
def time_to_open(schema_only: Database) -> Iterator[None]:
    """What opens a transaction through a pooler has the role's time-out (docs/operate/server-settings.md)."""
    role = f"ALTER ROLE webhook_dispatcher IN DATABASE {schema_only.name}"
    asyncio.run(execute(schema_only.server, f"{role} SET statement_timeout = '60s'"))
    yield
    asyncio.run(execute(schema_only.server, f"{role} RESET statement_timeout"))


@pytest.fixture(scope="module", params=["", EVERYTHING], ids=["refusing", "ignoring"])
def pooler(request: pytest.FixtureRequest, postgres: EmbeddedPostgres) -> Iterator[Pooler]:
    """Start a pooler that refuses our session's settings, and one that passes over them."""
    with Pooler(postgres.dsn(), ignored=request.param) as started:
        yield started


@pytest.fixture(scope="module")
def by_statement(postgres: EmbeddedPostgres) -> Iterator[Pooler]:
    with Pooler(postgres.dsn(), mode="statement") as started:
        yield started


async def straight(dsn: str) -> None:
    await (await connect(dsn, application_name="test", command_timeout=PATIENCE)).close()


async def test_a_connection_says_which_setting_is_missing(pooler: Pooler, schema_only: Database) -> None:
    dsn = pooler.dsn("webhook_dispatcher", schema_only.name)
    # More than once: whether statements happen to meet the same server connection is a matter of luck.
    for _ in range(5):
        with pytest.raises(PoolerInBetween, match=NAMES_THE_SETTING) as caught:
            await straight(dsn)
        assert "\n" not in str(caught.value)


async def test_a_pool_says_which_setting_is_missing(pooler: Pooler, schema_only: Database) -> None:
    dsn = pooler.dsn("webhook_dispatcher", schema_only.name)
    async with create_pool(dsn, application_name="test", command_timeout=PATIENCE, size=2) as pool:
        for _ in range(5):
            with pytest.raises(PoolerInBetween, match=NAMES_THE_SETTING):
                await schema.check(pool)


async def test_a_pool_straight_to_the_server_finds_none(schema_only: Database) -> None:
    async with create_pool(
        schema_only.dsn(), application_name="test", command_timeout=PATIENCE, size=2
    ) as pool:
        await schema.check(pool)


@pytest.mark.parametrize(
    ("command", "setting"),
    [("run", NAMES_THE_SETTING), ("migrate", "WEBHOOK_MIGRATION_DATABASE_URL must lead")],
)
def test_a_program_ends_with_one_line(
    pooler: Pooler, schema_only: Database, tmp_path: Path, command: str, setting: str
) -> None:
    dsn = pooler.dsn("webhook_dispatcher", schema_only.name)
    settings = {"DATABASE_URL": dsn, "SECRET_KEYS": KEY, "OPS_ADDRESS": "127.0.0.1:0"}
    ended = subprocess.run(
        [sys.executable, "-m", "webhook_dispatcher", command],
        env=environment(settings),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=MAX_WAIT,
    )
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert setting in line


async def test_an_option_of_the_url_that_the_pooler_refuses_is_named(
    postgres: EmbeddedPostgres, schema_only: Database
) -> None:
    with Pooler(postgres.dsn()) as refusing:
        dsn = refusing.dsn("webhook_dispatcher", schema_only.name) + "&search_path=webhook"
        with pytest.raises(ConfigurationError, match=r"the database's URL: .* refuses .*search_path"):
            await connect(dsn, application_name="test", command_timeout=PATIENCE, pooled=True)


async def test_a_pooler_by_statements_is_refused(by_statement: Pooler, schema_only: Database) -> None:
    dsn = by_statement.dsn("webhook_dispatcher", schema_only.name)
    with pytest.raises(ConfigurationError, match="must have pool_mode = transaction"):
        await connect(dsn, application_name="test", command_timeout=PATIENCE, pooled=True)


async def test_a_database_that_the_pooler_cannot_reach_is_unavailable(by_statement: Pooler) -> None:
    dsn = by_statement.dsn("webhook_dispatcher", "webhook_absent")
    with pytest.raises(StorageUnavailable, match="cannot reach database 'webhook_absent'"):
        await connect(dsn, application_name="test", command_timeout=PATIENCE, pooled=True)


async def found(dsn: str, **settings: str) -> CheckResult:
    environ = {"DATABASE_URL": dsn, "SECRET_KEYS": KEY, **settings}
    results = await examine(CliContext({f"WEBHOOK_{name}": value for name, value in environ.items()}))
    [result] = [result for result in results if result.check == "database"]
    return result


async def test_check_says_what_stands_in_between(pooler: Pooler, schema_only: Database) -> None:
    through, straight = pooler.dsn("webhook_admin", schema_only.name), schema_only.dsn("webhook_admin")
    missing = await found(through)
    assert missing.problem is not None
    assert "a connection pooler stands before the database" in missing.problem
    assert missing.mend is not None
    assert NAMES_THE_SETTING in missing.mend
    assert missing.code == 2
    assert (
        await found(through, DATABASE_POOLER="transaction")
    ).note == "ok; through a pooler, by transactions"
    assert (await found(straight)).note == "ok; straight to Postgres"
    needless = await found(straight, DATABASE_POOLER="transaction")
    assert needless.problem is None
    assert needless.note == "ok; straight to Postgres: WEBHOOK_DATABASE_POOLER=transaction only costs time"


async def test_the_setting_works_without_a_pooler_too(schema_only: Database) -> None:
    async with create_pool(
        schema_only.dsn(), application_name="test", command_timeout=PATIENCE, size=1, pooled=True
    ) as pool:
        await schema.check(pool)
        assert await pool.fetchval("SHOW statement_timeout") == "4500ms"


def test_a_server_that_only_reads_is_not_worked_with() -> None:
    with scratch_dir("webhook-standby-") as data_dir:
        with EmbeddedPostgres(data_dir, durable=False):
            pass
        (data_dir / "postgres" / "standby.signal").touch()
        with EmbeddedPostgres(data_dir, durable=False) as standby, Pooler(standby.dsn()) as pooler:
            for dsn in (standby.dsn(), pooler.dsn("postgres")):
                with pytest.raises(StorageUnavailable, match="no server there accepts writes"):
                    asyncio.run(through(dsn))
                asyncio.run(through(f"{dsn}&target_session_attrs=any"))


async def through(dsn: str) -> None:
    connection = await connect(dsn, application_name="test", command_timeout=PATIENCE, pooled=True)
    await connection.close()
