"""What a session of ours sets wins over whatever role, database or server have."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.servers import programs
from tests.servers.awkward_settings import BEARABLE, known, literal
from tests.servers.database import Database
from webhook_dispatcher.local.binaries import major_version
from webhook_dispatcher.storage.connection import connect, create_pool
from webhook_dispatcher.storage.session import PLANNED_ONCE, SINCE_17, session_settings

PATIENCE = timedelta(seconds=20)
VERSION = major_version(programs())
KNOWN = {name.lower(): values for name, values in known(VERSION).items()}
COMMON = {
    name: value
    for name, value in session_settings("test", PATIENCE).items()
    # A socket in the file system has no keepalives: test_database_tls.py looks at those over TCP.
    if name != "application_name" and not name.startswith("tcp_")
} | (dict(SINCE_17) if VERSION >= 17 else {})
SHOWN = "SELECT translate(current_setting(name), chr(34), '') FROM unnest($1::text[]) AS name"


async def shown(connection: Any, names: Sequence[str]) -> list[str]:
    """Read settings as they are in this session."""
    return [row[0] for row in await connection.fetch(SHOWN, names)]


async def expected(dsn: str, wanted: Mapping[str, str]) -> list[str]:
    """Return what they look like where somebody has set them by hand."""
    connection = await asyncpg.connect(dsn, server_settings=dict(BEARABLE))
    for name, value in wanted.items():
        await connection.execute(f"SET {name} = '{value}'")
    read = await shown(connection, list(wanted))
    await connection.close()
    return read


async def every_session_has_ours(dsn: str) -> None:
    """Look at a command's session, and at one of those that claim and record."""
    command = await connect(dsn, application_name="test", command_timeout=PATIENCE)
    assert await shown(command, list(COMMON)) == await expected(dsn, COMMON)
    await command.close()
    ours = COMMON | PLANNED_ONCE
    pool = create_pool(dsn, application_name="test", command_timeout=PATIENCE, size=1, planning=PLANNED_ONCE)
    async with pool as connections:
        # Twice: what a session sets must survive its way back into the pool.
        for _ in range(2):
            async with connections.acquire() as connection:
                assert await shown(connection, list(ours)) == await expected(dsn, ours)


def otherwise(place: str) -> list[str]:
    """Write the statements that set all we set to something else."""
    return [
        f"ALTER {place} SET {name} = {literal(name, KNOWN[name][0])}" for name in {**COMMON, **PLANNED_ONCE}
    ]


@pytest.mark.parametrize(
    "place", ["ROLE webhook_dispatcher IN DATABASE {}", "DATABASE {}"], ids=["role", "database"]
)
async def test_what_we_set_wins_over_role_and_database(database: Database, place: str) -> None:
    owner = await database.connect()
    for statement in otherwise(place.format(database.name)):
        await owner.execute(statement)
    await owner.close()
    await every_session_has_ours(database.dsn())
