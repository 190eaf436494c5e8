"""Whatever an administrator has set by server or role: a daemon, its commands and a migration work.

docs/operate/server-settings.md has a line for each of these settings.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.installation import Installation
from tests.integration.every_operation import SHADOW, Bearable, do_everything
from tests.servers import programs
from tests.servers.awkward_settings import BEARABLE, known, literal, set_by_us
from tests.servers.database import Database, own_server
from tests.waiting import until
from webhook_dispatcher.local.binaries import major_version
from webhook_dispatcher.storage import schema

VERSION = major_version(programs())
KNOWN = known(VERSION)
OURS = set_by_us(VERSION)
LEFT = [(name, value) for name, values in KNOWN.items() if name not in OURS for value in values]
REFUSED = "no server there accepts writes"
ENDED = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = 'webhook_dispatcher'
"""
ROLES = ("webhook_dispatcher", "webhook_admin", "webhook_producer")


@pytest.fixture
async def installation(database: Database, tmp_path: Path) -> AsyncIterator[Installation]:
    """Put an installation together; the daemon is the test's to run."""
    async with Installation(Bearable(database.server, database.name), tmp_path) as installation:
        await installation.owner.execute(SHADOW)
        yield installation


async def set_by_role(installation: Installation, name: str, value: str) -> None:
    for role in ROLES:
        await installation.owner.execute(
            f"ALTER ROLE {role} IN DATABASE {installation.database.name} SET {name} = {literal(name, value)}"
        )


@pytest.mark.slow("integration/test_server_settings.py::test_everything_works_whatever_the_roles_have")
@pytest.mark.parametrize(("name", "value"), LEFT, ids=map("=".join, LEFT))
async def test_what_we_leave_as_it_is_does_no_harm(installation: Installation, name: str, value: str) -> None:
    await set_by_role(installation, name, value)
    await do_everything(installation)


async def test_everything_works_whatever_the_roles_have(installation: Installation) -> None:
    for name, values in KNOWN.items():
        await set_by_role(installation, name, values[0])
    await do_everything(installation)


async def set_by_server(dsn: str) -> None:
    """Set everything at once; sessions that are open get it too, so this one does its work first."""
    connection = await asyncpg.connect(dsn, server_settings=dict(BEARABLE))
    for name, values in KNOWN.items():
        await connection.execute(f"ALTER SYSTEM SET {name} = {literal(name, values[0])}")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()


def at_start() -> dict[str, str]:
    """Return what takes effect when a server starts, as far as this one has it."""
    libraries = programs().parent / "lib"
    present = [name for name in ("auto_explain", "pg_stat_statements") if any(libraries.rglob(f"{name}.so"))]
    watching = {
        "shared_preload_libraries": ",".join(present),
        "auto_explain.log_min_duration": "0",
        "auto_explain.log_analyze": "on",
        "auto_explain.log_nested_statements": "on",
        "pg_stat_statements.track": "all",
    }
    return watching | ({"old_snapshot_threshold": "0"} if VERSION < 17 else {})


@pytest.mark.slow("integration/test_server_settings.py::test_everything_works_whatever_the_roles_have")
async def test_everything_works_whatever_the_server_has(tmp_path: Path) -> None:
    with own_server(at_start()) as server:
        await set_by_server(server.dsn())
        await schema.migrate(server.dsn())
        async with Installation(Bearable(server, "postgres"), tmp_path) as installation:
            await installation.owner.execute(SHADOW)
            await do_everything(installation)


async def test_a_database_that_was_made_read_only_is_waited_for(database: Database, tmp_path: Path) -> None:
    role = f"ROLE webhook_dispatcher IN DATABASE {database.name}"
    async with Installation(database, tmp_path) as installation:
        await installation.configure("m")
        await installation.owner.execute(f"ALTER {role} SET default_transaction_read_only = on")
        daemon = installation.spawn()
        awaited = await daemon.logged("database.awaited", 60)
        assert REFUSED in awaited["error"]
        event = await installation.emit("m")
        await installation.owner.execute(f"ALTER {role} RESET default_transaction_read_only")
        await installation.settled(event.id, "delivered", 1, 60)
        # Once more, while it is running: its sessions end, and new ones may not write.
        await installation.owner.execute(f"ALTER {role} SET default_transaction_read_only = on")
        await installation.owner.execute(ENDED, database.name)
        event = await installation.emit("m")
        await until(lambda: [entry for entry in daemon.log("claim.failed") if REFUSED in entry["error"]], 60)
        assert len(installation.receiver.arrivals) == 1
        await installation.owner.execute(f"ALTER {role} RESET default_transaction_read_only")
        await installation.settled(event.id, "delivered", 1, 60)
