"""Which installation a database belongs to: the statements of installation.sql, bound.

A copy of a database owes what the original owes. So the schema has a name, and who is told by
WEBHOOK_INSTALLATION to work for another one refuses it. The server's system identifier only makes a note:
an upgrade and a restore change it, a copy of the server's files does not.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.domain.errors import ConfigurationError, SchemaMismatch, StatementRefused
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.storage.connection import as_owner, translated
from webhook_dispatcher.storage.statements import load

PATIENCE = timedelta(seconds=30)
ADOPTION_PATIENCE = timedelta(days=1)
RANDOM_BYTES = 3
_STATEMENTS = load("installation")

Connection = asyncpg.Connection | asyncpg.Pool | PoolConnectionProxy


@dataclass(frozen=True, slots=True)
class Installation:
    """What a database says of itself; None is what it cannot say.

    known_server, server: system identifiers, of the server it was last known to be on and of this one.
    """

    name: str | None
    known_server: int | None
    server: int | None

    @property
    def has_moved(self) -> bool:
        """Whether this is another server than the one that was noted."""
        return None not in (self.known_server, self.server) and self.known_server != self.server

    def verify(self, wanted: str | None) -> None:
        """Raise ConfigurationError if it belongs to another installation than the setting says."""
        if wanted is not None and self.name not in (None, wanted):
            raise ConfigurationError(
                f"WEBHOOK_INSTALLATION: the database belongs to {self.name!r}, not to {wanted!r}",
                remedy=f"connect to the database of {wanted!r}; if this is a copy that is to become it, "
                "`webhook-dispatcher adopt` shows what it owes and renames it",
                separator="; ",
            )


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a daemon would send."""

    pending: int
    pending_retry: int
    merchants: int
    oldest: datetime | None


async def read(connection: Connection) -> Installation:
    """Return what the database says of itself; SchemaMismatch where it was not migrated to its end."""
    row = await _row(connection, "read_installation")
    if row is None:
        raise SchemaMismatch("the schema was not migrated to its end")
    return Installation(row["installation"], row["system_identifier"], row["server_identifier"])


async def read_names(connection: Connection) -> Names:
    """Return the names that requests have; SchemaMismatch where it was not migrated to its end."""
    row = await _row(connection, "read_names")
    if row is None:
        raise SchemaMismatch("the schema was not migrated to its end")
    return Names(row["header_prefix"], row["user_agent"], tuple(row["signatures"]))


async def read_owed(connection: Connection) -> Backlog:
    """Return what a daemon would send."""
    return Backlog(**(await _row(connection, "read_owed")))


async def adopt(connection: asyncpg.Connection, name: str, adopted_by: str) -> None:
    """Let the database belong to an installation, on this server; all its rows may be rewritten for that."""
    statement, patience = _STATEMENTS["adopt_installation"].text, ADOPTION_PATIENCE.total_seconds()
    with translated():
        async with connection.transaction():
            await connection.execute("SET LOCAL statement_timeout = 0")
            await connection.fetchrow(statement, name, adopted_by, timeout=patience)


async def refuse_others(dsn: str, wanted: str | None) -> None:
    """Raise ConfigurationError if what is there already belongs to another installation."""
    if wanted is not None and (found := await find(dsn)) is not None:
        found.verify(wanted)


async def find(dsn: str) -> Installation | None:
    """Return what the database says of itself; None where no schema is that can have a name."""
    try:
        async with as_owner(dsn, PATIENCE) as connection:
            return await read(connection)
    except (SchemaMismatch, StatementRefused):
        return None


async def give_name(dsn: str, wanted: str | None, tell: Callable[[str], None]) -> None:
    """Give the schema a name where it has none, the one that is wanted or one that is made up, and say so."""
    chosen = wanted or f"installation-{secrets.token_hex(RANDOM_BYTES)}"
    async with as_owner(dsn, PATIENCE) as connection:
        if await _row(connection, "name_installation", chosen) is None:
            return
    hint = (
        ""
        if wanted
        else f"; WEBHOOK_INSTALLATION={chosen} keeps daemons from working on a copy or another database"
    )
    tell(f"this installation is called {chosen}{hint}")


async def _row(connection: Connection, name: str, *arguments: object) -> Any:
    with translated():
        return await connection.fetchrow(_STATEMENTS[name].text, *arguments)
