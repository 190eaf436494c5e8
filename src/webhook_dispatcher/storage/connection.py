"""Connections to Postgres, and the one place where its errors become ours.

Every session states its isolation level and its time-outs: a default of database or role never decides.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
from asyncpg import exceptions as pg

from webhook_dispatcher.domain.errors import (
    ConfigurationError,
    SchemaMismatch,
    StatementRefused,
    StorageUnavailable,
)
from webhook_dispatcher.storage import link

CONNECT_TIMEOUT = timedelta(seconds=10)
CLOSE_TIMEOUT = timedelta(seconds=1)

_UNAVAILABLE = (
    OSError,  # TimeoutError among them
    pg.PostgresConnectionError,
    pg.OperatorInterventionError,  # shutdown, cancelled, statement time-out
    pg.InsufficientResourcesError,  # too many connections, disk full, out of memory
    pg.PostgresSystemError,
    pg.TransactionRollbackError,  # serialization, deadlock
    pg.InvalidTransactionStateError,  # read-only after a failover, idle in transaction
    pg.InvalidAuthorizationSpecificationError,
    pg.InvalidCatalogNameError,
    pg.InternalClientError,
    pg.InvalidCachedStatementError,  # the schema changed under a prepared statement
    asyncpg.InterfaceError,
)
_MISMATCH = (
    pg.UndefinedTableError,
    pg.UndefinedColumnError,
    pg.UndefinedFunctionError,
    pg.UndefinedObjectError,
    pg.InvalidSchemaNameError,
)


class LockTaken(StorageUnavailable):
    """Somebody else held a lock for longer than this statement was willing to wait."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn whatever asyncpg raises into StorageUnavailable, StatementRefused or SchemaMismatch."""
    try:
        yield
    except pg.ClientConfigurationError as error:
        raise ConfigurationError(f"the database's URL: {error}") from None
    except _MISMATCH as error:
        raise SchemaMismatch(
            f"the schema does not match this version ({error}): run `webhook-dispatcher migrate`"
        ) from error
    except pg.LockNotAvailableError as error:
        raise LockTaken(_said(error)) from error
    except _UNAVAILABLE as error:
        if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
            # A value that asyncpg could not encode: it never reached the server.
            raise StatementRefused("22000", _said(error)) from error
        raise StorageUnavailable(_said(error)) from error
    except asyncpg.PostgresError as error:
        raise StatementRefused(error.sqlstate or "XX000", _said(error)) from error


async def connect(
    dsn: str,
    *,
    application_name: str,
    command_timeout: timedelta,
    statement_cache_size: int = 100,
) -> asyncpg.Connection:
    """Open one connection; StorageUnavailable names host and database, never the password."""
    with _reaching(dsn):
        return await asyncpg.connect(
            dsn,
            timeout=CONNECT_TIMEOUT.total_seconds(),
            command_timeout=command_timeout.total_seconds(),
            statement_cache_size=statement_cache_size,
            server_settings=session_settings(application_name, command_timeout),
            target_session_attrs=_session_attributes(dsn),
            ssl=_tls_context(dsn),
        )


@asynccontextmanager
async def create_pool(
    dsn: str,
    *,
    application_name: str,
    command_timeout: timedelta,
    size: int,
    statement_cache_size: int = 100,
) -> AsyncIterator[asyncpg.Pool]:
    """Keep up to `size` connections while entered; none is opened before it is needed.

    Leaving closes them within the command time-out, then by force: a hanging server does not hold a stop up.
    """
    with _reaching(dsn):
        pool = await asyncpg.create_pool(
            dsn,
            min_size=0,
            max_size=size,
            timeout=CONNECT_TIMEOUT.total_seconds(),
            command_timeout=command_timeout.total_seconds(),
            statement_cache_size=statement_cache_size,
            server_settings=session_settings(application_name, command_timeout),
            target_session_attrs=_session_attributes(dsn),
            ssl=_tls_context(dsn),
        )
    try:
        yield pool
    finally:
        await _close(pool, CLOSE_TIMEOUT)


async def _close(pool: asyncpg.Pool, patience: timedelta) -> None:
    try:
        async with asyncio.timeout(patience.total_seconds()):
            await pool.close()
    except (TimeoutError, asyncpg.InterfaceError, OSError):
        pool.terminate()


def session_settings(application_name: str, command_timeout: timedelta) -> dict[str, str]:
    """Give what every session sets: isolation, time-outs a little below the client's, keepalives."""
    milliseconds = int(command_timeout.total_seconds() * 1000)
    return {
        "application_name": application_name,
        "default_transaction_isolation": "read committed",
        "timezone": "UTC",
        "statement_timeout": str(max(1, milliseconds * 9 // 10)),
        "lock_timeout": str(max(1, milliseconds // 2)),
        "idle_in_transaction_session_timeout": str(max(1, milliseconds)),
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }


def describe(dsn: str) -> str:
    """Name a database for people: never user or password."""
    parts = urlsplit(dsn)
    query: Mapping[str, list[str]] = parse_qs(parts.query)
    hosts = query.get("host") or [parts.netloc.rpartition("@")[2]]
    database = (
        unquote(parts.path.lstrip("/")) or (query.get("database") or query.get("dbname") or ["(default)"])[0]
    )
    return f"database {database!r} at {hosts[0] or 'the default host'}"


def _session_attributes(dsn: str) -> Any:
    """Insist on a server that can write, unless the URL says what it wants."""
    return None if "target_session_attrs" in parse_qs(urlsplit(dsn).query) else "read-write"


def _tls_context(dsn: str) -> ssl.SSLContext | None:
    try:
        return link.tls_context(dsn)
    except ValueError as error:
        raise ConfigurationError(f"the database's URL: {error}") from None


@contextmanager
def _reaching(dsn: str) -> Iterator[None]:
    """Say which database could not be reached, and why, in one line."""
    try:
        with translated():
            yield
    except SchemaMismatch as error:
        # Nothing of the schema is asked for yet: it is an option of the URL that the server does not know.
        raise ConfigurationError(f"the database's URL: {error.__cause__}") from None
    except (StorageUnavailable, StatementRefused) as error:
        raise StorageUnavailable(f"cannot reach {describe(dsn)}: {error}") from error.__cause__


def _said(error: BaseException) -> str:
    """Say what happened in one line; asyncpg's time-outs say nothing themselves."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate does not prove who it is ({error.verify_message}); "
            "sslrootcert=FILE in the URL names its authority"
        )
    if isinstance(error, pg.TargetServerAttributeNotMatched):
        return "no server there accepts writes"
    first = next(iter(str(error).splitlines()), "")
    if "rejected SSL upgrade" in first:
        return (
            f"{first}: it does not speak TLS; switch it on there or, where the network itself is trusted, "
            "set WEBHOOK_DATABASE_TLS=waived"
        )
    return first or type(error).__name__
