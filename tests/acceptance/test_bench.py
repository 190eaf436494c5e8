"""`bench` on a server of somebody's own: what it says, and that it leaves that server as it was."""

import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from typing import Any

import asyncpg
import pytest

from tests.acceptance.processes import command, environment
from tests.servers.database import own_server
from tests.waiting import until_found
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema

BESIDES = """
SELECT
    (SELECT array_agg(datname ORDER BY datname) FROM pg_database) AS databases,
    (SELECT array_agg(pg_authid::text ORDER BY rolname) FROM pg_authid) AS roles,
    (
        SELECT array_agg(roleid::regrole || ' to ' || member::regrole ORDER BY roleid::text, member::text)
        FROM pg_auth_members
    ) AS memberships,
    (SELECT array_agg(nspname ORDER BY nspname) FROM pg_namespace) AS schemas
"""


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """A server on which nothing of ours has ever been."""
    with own_server({}) as server:
        yield server


@pytest.fixture
async def asking(server: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(server.dsn())
    yield connection
    await connection.close()


def benching(dsn: str, *options: str) -> AbstractContextManager[subprocess.Popen[str]]:
    words = ("bench", "--json", "--database-url", dsn, *options)
    return command(*words, environ=environment({}), stderr=subprocess.PIPE)


def bench(dsn: str, code: int = 0) -> tuple[Any, str]:
    """Run it for as short as can be; return its figures and what it said besides."""
    with benching(dsn, "--seconds", "1") as process:
        out, err = process.communicate()
    assert process.returncode == code, err
    return json.loads(out or "null"), err


async def inserting(server: EmbeddedPostgres) -> bool:
    """Tell whether a run is in the middle: events of it are in its database."""
    try:
        connection = await asyncpg.connect(server.dsn(database="webhook_bench"))
    except asyncpg.PostgresError:
        return False
    try:
        return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM webhook.outbox)"))
    except asyncpg.PostgresError:
        return False
    finally:
        await connection.close()


async def interrupted(server: EmbeddedPostgres, number: signal.Signals, code: int) -> str:
    """Stop a run in the middle; return what it said."""
    with benching(server.dsn(), "--seconds", "60") as process:
        await until_found(lambda: inserting(server))
        process.send_signal(number)
        _, said = process.communicate()
    assert process.returncode == code, said
    return said


async def test_the_server_is_as_it_was_and_all_was_delivered(
    server: EmbeddedPostgres, asking: asyncpg.Connection
) -> None:
    before = await asking.fetchrow(BESIDES)
    figures, said = bench(server.dsn())
    assert await asking.fetchrow(BESIDES) == before
    assert said == "measuring in webhook_bench, for some 3 s; Ctrl-C ends it, and nothing is left\n"
    assert figures.pop("server").startswith("PostgreSQL ")
    assert figures["inserts"] == figures["deliveries"]
    assert all(figure > 0 for figure in figures.values()), figures
    assert figures["lag_p50_ms_at_100_per_second"] <= figures["lag_p99_ms_at_100_per_second"]


async def test_what_is_stopped_in_the_middle_leaves_nothing(
    server: EmbeddedPostgres, asking: asyncpg.Connection
) -> None:
    before = await asking.fetchrow(BESIDES)
    assert "stopped before the end; nothing is left of it" in await interrupted(server, signal.SIGINT, 1)
    assert await asking.fetchrow(BESIDES) == before


@pytest.mark.slow("acceptance/test_bench.py::test_what_is_stopped_in_the_middle_leaves_nothing")
async def test_what_a_killed_run_leaves_is_removed_by_the_next(
    server: EmbeddedPostgres, asking: asyncpg.Connection
) -> None:
    before = await asking.fetchrow(BESIDES)
    await interrupted(server, signal.SIGKILL, -signal.SIGKILL)
    _, said = bench(server.dsn())
    assert "removing what a killed run left: the database webhook_bench and the roles that it made" in said
    assert await asking.fetchrow(BESIDES) == before


@pytest.mark.slow("acceptance/test_bench.py::test_the_server_is_as_it_was_and_all_was_delivered")
@pytest.mark.parametrize("may", ["NOCREATEDB", "CREATEDB"])
async def test_whom_the_server_refuses_is_told_what_it_takes(
    server: EmbeddedPostgres, asking: asyncpg.Connection, may: str
) -> None:
    await asking.execute(f"CREATE ROLE {may}_user LOGIN {may}")
    before = await asking.fetchrow(BESIDES)
    _, said = bench(server.dsn(f"{may}_user".lower()), code=1)
    assert "connect as a superuser, or with CREATEDB, and CREATEROLE where roles are missing" in said
    assert await asking.fetchrow(BESIDES) == before


@pytest.mark.slow("acceptance/test_bench.py::test_what_is_stopped_in_the_middle_leaves_nothing")
async def test_roles_that_another_database_came_to_use_stay(
    server: EmbeddedPostgres, asking: asyncpg.Connection
) -> None:
    before = await asking.fetchrow(BESIDES)
    await asking.execute("CREATE DATABASE charges")
    with benching(server.dsn(), "--seconds", "60") as process:
        await until_found(lambda: inserting(server))
        await schema.migrate(server.dsn(database="charges"))
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
    assert "another database has come to use these roles, which stay: webhook_admin, webhook_api" in said
    await schema.migrate(server.dsn(database="charges"))
    await asking.execute("DROP DATABASE charges")
    await asking.execute(
        "DROP ROLE webhook_admin, webhook_api, webhook_console, webhook_dispatcher, webhook_observer, "
        "webhook_owner, webhook_producer"
    )
    assert await asking.fetchrow(BESIDES) == before


async def test_a_database_of_that_name_that_is_somebody_elses_stays(
    server: EmbeddedPostgres, asking: asyncpg.Connection
) -> None:
    await asking.execute("CREATE DATABASE webhook_bench")
    try:
        _, said = bench(server.dsn(), code=1)
        assert "there is a database webhook_bench already: drop it, if it is nobody's" in said
        assert await asking.fetchval(
            "SELECT EXISTS (SELECT FROM pg_database WHERE datname = 'webhook_bench')"
        )
    finally:
        await asking.execute("DROP DATABASE webhook_bench")


@pytest.mark.slow("acceptance/test_bench.py::test_the_server_is_as_it_was_and_all_was_delivered")
async def test_roles_that_are_there_keep_their_members(
    server: EmbeddedPostgres, asking: asyncpg.Connection
) -> None:
    """As who is a member of webhook_owner by a group: migrating makes it one by itself as well."""
    await schema.migrate(server.dsn())
    await asking.execute("CREATE ROLE a_group; GRANT webhook_owner TO a_group WITH ADMIN OPTION")
    await asking.execute('CREATE ROLE "an O\'Brien" LOGIN CREATEDB CREATEROLE IN ROLE a_group')
    before = await asking.fetchrow(BESIDES)
    bench(server.dsn("an O'Brien"))
    assert await asking.fetchrow(BESIDES) == before
