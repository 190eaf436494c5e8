"""`migrate` says what it made, what it applied, or that nothing was to be done."""

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.acceptance.other_version import ADDS, NAME, OtherVersion
from tests.servers.database import own_server
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage.connection import create_pool
from webhook_dispatcher.storage.schema import SCHEMA_VERSION
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m', 'charge.created', '{}')"
COUNT_PARTITIONS = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'webhook.delivery_log'::regclass"
FEED = """
SELECT coalesce(array_agg(indexname), '{}') FROM pg_indexes
WHERE indexdef LIKE '%(merchant_id, xid, seq)%'
"""


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    """Serve without the schema and its roles."""
    with own_server({}) as started:
        yield started


def migrate(
    server: EmbeddedPostgres, capsys: pytest.CaptureFixture[str], *options: str, user: str = "postgres"
) -> list[str]:
    """Migrate as the command line does, and return its lines."""
    environ = {"WEBHOOK_DATABASE_URL": server.dsn(user), "WEBHOOK_INSTALLATION": "prod-eu1"}
    assert main(["migrate", *options], CliContext(environ)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


def test_a_user_who_makes_roles_and_a_schema_migrates_and_daemons_make_days(
    server: EmbeddedPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    """No superuser: what docs/operate/managed-postgres.md says of managed servers."""
    dsn = server.dsn("postgres")
    asyncio.run(execute(dsn, "CREATE ROLE managed LOGIN CREATEROLE"))
    asyncio.run(execute(dsn, "GRANT CREATE ON DATABASE postgres TO managed"))
    migrate(server, capsys, "--feed-index", user="managed")
    partitions = asyncio.run(fetchval(dsn, COUNT_PARTITIONS))
    asyncio.run(make_partitions(server))
    assert asyncio.run(fetchval(dsn, COUNT_PARTITIONS)) > partitions
    done = migrate(server, capsys, user="managed")
    assert done == ["nothing was to be done", "the schema is up to date"]


COUNTED = (
    r"made: the schema webhook, version (\d+), with \d+ tables, \d+ views, \d+ partitions and (\d) roles"
)


def test_first_migration_counts_what_it_made_and_the_next_says_that_nothing_was_to_be_done(
    server: EmbeddedPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    _, made, after, *orders, done = migrate(server, capsys)
    assert re.findall(COUNTED, made) == [(str(SCHEMA_VERSION), "7")]
    assert (after, done) == ("next, as this user:", "the schema is up to date")
    assert [line.split()[0] for line in orders] == ["ALTER"] * 4 + ["GRANT"]
    assert migrate(server, capsys) == ["nothing was to be done", "the schema is up to date"]


def test_second_database_of_a_server_has_its_roles_already(
    server: EmbeddedPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    migrate(server, capsys)
    asyncio.run(execute(server.dsn("postgres"), "CREATE DATABASE second"))
    environ = {"WEBHOOK_DATABASE_URL": server.dsn("postgres", "second"), "WEBHOOK_INSTALLATION": "prod-eu2"}
    assert main(["migrate"], CliContext(environ)) == 0
    out = capsys.readouterr().out
    assert re.findall(COUNTED, out) == [(str(SCHEMA_VERSION), "0")]
    assert "PASSWORD" not in out, "they have passwords"


@pytest.mark.parametrize("database", ["postgres", "second"])
def test_who_may_not_migrate_is_told_who_may_and_nothing_else(
    server: EmbeddedPostgres, capsys: pytest.CaptureFixture[str], database: str
) -> None:
    migrate(server, capsys)
    asyncio.run(execute(server.dsn("postgres"), "CREATE DATABASE second"))
    environ = {"WEBHOOK_DATABASE_URL": server.dsn("webhook_admin", database)}
    assert main(["migrate"], CliContext(environ)) == 1
    said = capsys.readouterr().err
    assert said.endswith(
        ": connect as a superuser, or as a user with CREATEROLE who may create schemas "
        "(WEBHOOK_MIGRATION_DATABASE_URL)\n"
    )
    assert said.count("connect as") == said.count("\n") == 1


def test_later_migration_names_what_it_applied(
    server: EmbeddedPostgres, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    migrate(server, capsys)
    done = OtherVersion.next(tmp_path / "next", ADDS).run("migrate", DATABASE_URL=server.dsn("postgres"))
    assert done.stdout.splitlines() == [f"applied {NAME}", "the schema is up to date"]


def test_a_new_schema_has_no_index_of_the_feed_in_days_to_come_either(
    server: EmbeddedPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    migrate(server, capsys)
    dsn = server.dsn("postgres")
    partitions = asyncio.run(fetchval(dsn, COUNT_PARTITIONS))
    asyncio.run(execute(server.dsn("webhook_producer"), INSERT))
    asyncio.run(make_partitions(server))
    assert asyncio.run(fetchval(dsn, COUNT_PARTITIONS)) > partitions
    assert asyncio.run(fetchval(dsn, FEED)) == []
    assert migrate(server, capsys) == ["nothing was to be done", "the schema is up to date"]
    assert asyncio.run(fetchval(dsn, FEED)) == []


async def make_partitions(server: EmbeddedPostgres) -> None:
    """Make those of the next days, as a daemon does."""
    name, patience = "upkeep", timedelta(seconds=5)
    async with create_pool(
        server.dsn("webhook_dispatcher"), application_name=name, command_timeout=patience, size=1
    ) as pool:
        await PostgresUpkeep(pool).make_partitions(30)


async def fetchval(dsn: str, statement: str) -> Any:
    connection = await asyncpg.connect(dsn)
    value = await connection.fetchval(statement)
    await connection.close()
    return value


async def execute(dsn: str, statements: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(statements)
    await connection.close()
