"""A database of one's own on somebody's server, made and dropped, with roles as they were before.

Roles are the whole server's, and migrating makes those that are missing. Which there were before stands in
the database's comment: the next run puts right what a killed one has left.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from webhook_dispatcher.domain.errors import ConfigurationError, UserError
from webhook_dispatcher.storage import inventory, schema
from webhook_dispatcher.storage.connection import connect

NAME = "webhook_bench"
MADE_BY = "made by webhook-dispatcher bench; before: "
PATIENCE = timedelta(minutes=2)
COMMENT = "SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = $1"
OWNERS = """
SELECT quote_ident(member.rolname) FROM pg_auth_members JOIN pg_roles AS member ON member.oid = member
WHERE roleid = to_regrole('webhook_owner') AND member.rolname IN (current_user, 'webhook_dispatcher')
"""
"""Of webhook_owner's members those that migrating may add, as often as they were granted that."""


@asynccontextmanager
async def own_database(
    dsn: str, tell: Callable[[str], None]
) -> AsyncIterator[tuple[str, asyncpg.Connection]]:
    """Have a migrated database, its URL and a connection to it, while entered; dsn: to any of the server."""
    own = located(dsn)
    async with connected(dsn) as outside:
        comment = await outside.fetchval(COMMENT, NAME)
        if comment is not None:
            if not comment.startswith(MADE_BY):
                raise UserError(f"there is a database {NAME} already: drop it, if it is nobody's")
            tell(f"removing what a killed run left: the database {NAME} and the roles that it made")
            await _remove(dsn, outside, json.loads(comment.removeprefix(MADE_BY)), tell)
        before = await _roles(dsn, outside)
        await outside.execute(f"CREATE DATABASE {NAME} TEMPLATE template0")
    try:
        async with connected(own) as inside:
            if await inside.fetchval("SELECT current_database()") != NAME:
                raise ConfigurationError("--database-url: names the database among its options")
            said = (MADE_BY + json.dumps(before)).replace("'", "''")
            await inside.execute(f"COMMENT ON DATABASE {NAME} IS '{said}'")
            await schema.migrate(own)
            yield own, inside
    finally:
        async with connected(dsn) as outside:
            await _remove(dsn, outside, before, tell)


def located(dsn: str) -> str:
    """Return the URL of our database on the server of another URL."""
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{NAME}"))


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Have a connection while entered."""
    connection = await connect(dsn, application_name="webhook-dispatcher bench", command_timeout=PATIENCE)
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


async def _roles(dsn: str, outside: asyncpg.Connection) -> dict[str, list[str]]:
    roles = await inventory.read_roles(dsn)
    return {"roles": roles, "owners": [row[0] for row in await outside.fetch(OWNERS)]}


async def _remove(
    dsn: str, outside: asyncpg.Connection, before: dict[str, list[str]], tell: Callable[[str], None]
) -> None:
    """Drop the database, which Postgres refuses while it is used, and leave roles as they were before."""
    await outside.execute(f"DROP DATABASE IF EXISTS {NAME}")
    made = [role for role in await inventory.read_roles(dsn) if role not in before["roles"]]
    try:
        if made:
            await outside.execute(f"DROP ROLE {', '.join(made)}")
    except asyncpg.DependentObjectsStillExistError:
        tell(f"another database has come to use these roles, which stay: {', '.join(made)}")
        return
    now = await _roles(dsn, outside)
    for owner in Counter(now["owners"]) - Counter(before["owners"]):
        await outside.execute(f"REVOKE webhook_owner FROM {owner}")
