"""Postgres through a pooler in transaction mode, such as PgBouncer with `pool_mode = transaction`.

Nothing of a session lasts there: the next transaction may have another server connection, and ours may have
somebody else's settings and prepared statements. So every statement runs inside a transaction, which opens
in one round trip with its isolation level and its settings (SET LOCAL); statements are prepared without a
name, inside it; and nothing is sent when a connection goes back to the pool.

A statement costs four round trips: BEGIN with the settings, parse, execute, COMMIT.
"""

from collections.abc import Mapping
from typing import Any

import asyncpg

from webhook_dispatcher.domain.errors import ConfigurationError, StorageUnavailable
from webhook_dispatcher.storage.session import SINCE_17

PASSED_ON = frozenset({"application_name"})
"""Settings that poolers take at startup and keep for each client."""
OF_THE_LINK = frozenset(
    {"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "idle_session_timeout"}
)
"""Settings of the connection between pooler and server, which are the pooler's to make."""
_ISOLATION = "default_transaction_isolation"
_BEGINS = "BEGIN;"
_ENDS = ("COMMIT;", "ROLLBACK;", "ROLLBACK")


class PoolerInBetween(ConfigurationError):
    """A pooler stands between us and Postgres, and we were not told."""


class PooledConnection(asyncpg.Connection):
    """A connection of which only transactions are ours; `opened_with` gives it its settings.

    What is asked outside of a transaction gets one of its own; `transaction()` works as ever.
    """

    _settings = ""

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:
        # Asyncpg's transactions send their statements by this, too; BEGIN brings the settings along.
        if self.is_in_transaction() or query in _ENDS:
            return await super().execute(query, *args, timeout=timeout)
        if query == _BEGINS:
            try:
                return await super().execute(self._opening(), timeout=timeout)
            except asyncpg.InternalServerError as error:
                # A pooler that has no server for us; nothing was asked yet.
                raise StorageUnavailable(str(error)) from error
        async with self.transaction():
            return await super().execute(query, *args, timeout=timeout)

    def _opening(self) -> str:
        further = _local(SINCE_17) if self.get_server_version().major >= 17 else []
        return "; ".join([self._settings, *further])

    async def fetch(self, *args: Any, **options: Any) -> Any:
        if self.is_in_transaction():
            return await super().fetch(*args, **options)
        async with self.transaction():
            return await super().fetch(*args, **options)

    async def fetchrow(self, *args: Any, **options: Any) -> Any:
        if self.is_in_transaction():
            return await super().fetchrow(*args, **options)
        async with self.transaction():
            return await super().fetchrow(*args, **options)

    async def fetchval(self, *args: Any, **options: Any) -> Any:
        if self.is_in_transaction():
            return await super().fetchval(*args, **options)
        async with self.transaction():
            return await super().fetchval(*args, **options)


def opened_with(settings: Mapping[str, str]) -> type[PooledConnection]:
    """Make the class of connections whose transactions have these settings."""
    isolation = settings[_ISOLATION]
    elsewhere = PASSED_ON | OF_THE_LINK | {_ISOLATION}
    local = _local({name: value for name, value in settings.items() if name not in elsewhere})
    opening = "; ".join([f"BEGIN ISOLATION LEVEL {isolation.upper()}", *local])
    return type("PooledConnection", (PooledConnection,), {"_settings": opening})


def _local(settings: Mapping[str, str]) -> list[str]:
    """Write settings for a transaction. Values are of our own making; they are quoted all the same."""
    return [f"SET LOCAL {name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in settings.items()]


async def is_behind_pooler(connection: asyncpg.Connection) -> bool:
    """Tell whether another server process answers than the one that was named when we connected.

    One round trip: the answer is in the command's tag. Poolers name a process of their own making.
    """
    tag = await connection.execute(f"SELECT WHERE pg_backend_pid() = {connection.get_server_pid():d}")
    return tag != "SELECT 1"
