"""Connections to Postgres, and the one place where its errors become ours.

Every session states its isolation level and its time-outs: a default of database or role never decides.
Through a pooler in transaction mode (`pooled`) every transaction does; see `storage.pooler`.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
from asyncpg import exceptions as pg

from webhook_dispatcher.domain.errors import (
    ConfigurationError,
    DispatcherError,
    LockTaken,
    PartitionMissing,
    SchemaMismatch,
    StatementRefused,
    StorageUnavailable,
)
from webhook_dispatcher.storage import link
from webhook_dispatcher.storage.instants import read_any_instant
from webhook_dispatcher.storage.pooler import (
    PASSED_ON,
    PoolerInBetween,
    is_behind_pooler,
    opened_with,
)
from webhook_dispatcher.storage.session import BY_INDEXES, SINCE_17, session_settings

CONNECT_TIMEOUT = timedelta(seconds=10)
CLOSE_TIMEOUT = timedelta(seconds=1)

AS_THE_SERVER_DOES: Mapping[str, str] = {}
"""For sessions that ask seldom: the planner's settings stay the server's."""

# Citus would send each change to its workers, as webhook_owner, which may not log in there.
AS_OWNER = """
SET ROLE webhook_owner;
SET search_path = pg_catalog, pg_temp;
SELECT set_config('citus.enable_ddl_propagation', 'off', false) FROM pg_extension WHERE extname = 'citus'
"""

_REFUSED_PARAMETER = re.compile(r"unsupported startup parameter:? (\S+)")

_UNAVAILABLE = (
    OSError,  # TimeoutError among them
    pg.OperatorInterventionError,  # shutdown, cancelled, statement time-out
    pg.InsufficientResourcesError,  # too many connections, disk full, out of memory
    pg.PostgresSystemError,
    pg.TransactionRollbackError,  # serialization, deadlock
    pg.InvalidTransactionStateError,  # read-only after a failover, idle in transaction
    pg.SnapshotTooOldError,  # old_snapshot_threshold, up to PostgreSQL 16
    pg.InvalidAuthorizationSpecificationError,
    pg.InvalidCatalogNameError,
    pg.InternalClientError,
    pg.InvalidCachedStatementError,  # the schema changed under a prepared statement
    asyncpg.InterfaceError,
)
_PREPARED_ELSEWHERE = (
    # What was prepared on one server connection is asked for on another.
    pg.InvalidSQLStatementNameError,
    pg.DuplicatePreparedStatementError,
)
_MISMATCH = (
    pg.UndefinedTableError,
    pg.UndefinedColumnError,
    pg.UndefinedFunctionError,
    pg.UndefinedObjectError,
    pg.InvalidSchemaNameError,
)


@contextmanager
def translated() -> Iterator[None]:
    """Turn whatever asyncpg raises into StorageUnavailable, StatementRefused or SchemaMismatch.

    ConfigurationError where the URL, or what was said of a pooler, can never work.
    """
    try:
        yield
    except _PREPARED_ELSEWHERE as error:
        raise _pooler_in_between(_message_of(error)) from None
    except pg.PostgresConnectionError as error:
        raise _disconnected(error) from error
    except pg.ClientConfigurationError as error:
        raise ConfigurationError(f"the database's URL: {error}") from None
    except _MISMATCH as error:
        raise SchemaMismatch(f"the schema does not match this version ({error})") from error
    except pg.LockNotAvailableError as error:
        raise LockTaken(_message_of(error)) from error
    except _UNAVAILABLE as error:
        if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
            # A value that asyncpg could not encode: it never reached the server. Its text is not for users.
            raise StatementRefused("22000", "a value is outside of what the database can store") from error
        raise StorageUnavailable(_message_of(error)) from error
    except asyncpg.PostgresError as error:
        raise _refused(error) from error
    except (UnicodeDecodeError, OverflowError) as error:
        # What is stored means nothing to us, such as damaged text.
        raise StatementRefused("22000", "a stored value is outside of what can be read") from error


async def connect(
    dsn: str,
    *,
    application_name: str,
    command_timeout: timedelta,
    pooled: bool = False,
    planning: Mapping[str, str] = AS_THE_SERVER_DOES,
) -> asyncpg.Connection:
    """Open one connection; StorageUnavailable names host and database, never the password.

    pooled: through a pooler in transaction mode. Without, finding one is a PoolerInBetween.
    planning: PLANNED_ONCE or PLANNED_EACH_TIME; through a pooler no plan is kept, and only scans of whole
    tables are kept out.
    """
    with _reaching(dsn):
        options = _options(dsn, application_name, command_timeout, pooled, planning)
        return await _open(dsn, pooled, dsn, **options)


async def connect_as_owner(dsn: str, command_timeout: timedelta) -> asyncpg.Connection:
    """Open a connection that changes the schema: as webhook_owner, with the server's own names alone."""
    connection = await connect(
        dsn, application_name="webhook-dispatcher migrate", command_timeout=command_timeout
    )
    try:
        with translated():
            await connection.execute(AS_OWNER)
    except BaseException:
        await connection.close()
        raise
    return connection


@asynccontextmanager
async def as_owner(dsn: str, command_timeout: timedelta) -> AsyncIterator[asyncpg.Connection]:
    """Keep a connection as by `connect_as_owner` while entered."""
    connection = await connect_as_owner(dsn, command_timeout)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def create_pool(
    dsn: str,
    *,
    application_name: str,
    command_timeout: timedelta,
    size: int,
    pooled: bool = False,
    planning: Mapping[str, str] = AS_THE_SERVER_DOES,
) -> AsyncIterator[asyncpg.Pool]:
    """Keep up to `size` connections while entered; none is opened before it is needed.

    pooled, planning: as for `connect`; what is done with the pool is the same either way.
    Leaving closes them within the command time-out, then by force: a hanging server does not hold a stop up.
    """
    with _reaching(dsn):
        options = _options(dsn, application_name, command_timeout, pooled, planning)
        pool = await asyncpg.create_pool(
            dsn, min_size=0, max_size=size, connect=partial(_open, dsn, pooled), reset=_leave, **options
        )
    try:
        yield pool
    finally:
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT.total_seconds()):
                await pool.close()
        except (TimeoutError, asyncpg.InterfaceError, OSError):
            pool.terminate()


async def _leave(connection: asyncpg.Connection) -> None:
    """Send nothing on release: all we set is SET LOCAL, and asyncpg's own reset costs a round trip each."""


def _options(
    dsn: str,
    application_name: str,
    command_timeout: timedelta,
    pooled: bool,
    planning: Mapping[str, str],
) -> dict[str, Any]:
    """Say how to connect: with settings that the session keeps, or that each transaction makes anew."""
    settings = session_settings(application_name, command_timeout)
    limits = {"timeout": CONNECT_TIMEOUT.total_seconds(), "command_timeout": command_timeout.total_seconds()}
    try:
        link.tls_context(dsn)
    except ValueError as error:  # it can never work: refused at the start
        raise ConfigurationError(f"the database's URL: {error}") from None
    if planning:
        settings |= BY_INDEXES if pooled else planning
    if not pooled:
        return limits | {
            "server_settings": settings,
            "target_session_attrs": _session_attributes(dsn, "read-write"),
        }
    return limits | {
        "connection_class": opened_with(settings),
        "statement_cache_size": 0,
        "server_settings": {name: settings[name] for name in PASSED_ON},
        # What a pooler reports of its server may be from before a failover: `_examine` asks instead.
        "target_session_attrs": _session_attributes(dsn, "any"),
    }


async def _open(dsn: str, pooled: bool, *args: Any, **options: Any) -> asyncpg.Connection:
    """Open a connection; what is refused before anything was asked says nothing about a row.

    Certificates are read each time, since they are exchanged on disk while we run; the system's take 20 ms.
    """
    try:
        with translated():
            context = await asyncio.to_thread(link.tls_context, dsn)
            connection: asyncpg.Connection = await asyncpg.connect(*args, ssl=context, **options)
            await _examine(dsn, pooled, connection)
            await read_any_instant(connection)
    except (StatementRefused, ValueError) as error:
        raise StorageUnavailable(str(error)) from error
    except PoolerInBetween as error:
        if not pooled:
            raise
        # We were told of it, and send nothing that it could refuse.
        raise _refused_option(_message_of(error.__cause__ or error)) from error
    return connection


async def _examine(dsn: str, pooled: bool, connection: asyncpg.Connection) -> None:
    """Refuse a new connection that is not what it was taken for, and set what could not be set before."""
    try:
        if not pooled:
            if await is_behind_pooler(connection):
                raise _pooler_in_between("another server process answers than the one connected to")
            if connection.get_server_version().major >= 17:
                await connection.execute("; ".join(f"SET {name} = {text}" for name, text in SINCE_17.items()))
            return
        if _session_attributes(dsn, "any") is None:
            return
        if await connection.execute("SELECT WHERE pg_is_in_recovery()") == "SELECT 1":
            raise pg.TargetServerAttributeNotMatched
    except BaseException:
        # Closing it would wait for a server that hangs.
        connection.terminate()
        raise


def describe(dsn: str) -> str:
    """Name a database for people: never user or password."""
    parts = urlsplit(dsn)
    query: Mapping[str, list[str]] = parse_qs(parts.query)
    hosts = query.get("host") or [parts.netloc.rpartition("@")[2]]
    database = (
        unquote(parts.path.lstrip("/")) or (query.get("database") or query.get("dbname") or ["(default)"])[0]
    )
    return f"database {database!r} at {hosts[0] or 'the default host'}"


def _session_attributes(dsn: str, wanted: str) -> Any:
    """Say what the server must be, unless the URL says what it wants."""
    return None if "target_session_attrs" in parse_qs(urlsplit(dsn).query) else wanted


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


def _pooler_in_between(sign: str) -> PoolerInBetween:
    return PoolerInBetween(
        f"a connection pooler stands before the database ({sign})",
        remedy="set WEBHOOK_DATABASE_POOLER=transaction, or connect straight to Postgres",
    )


def _refused_option(message: str) -> ConfigurationError:
    return ConfigurationError(f"the database's URL: the connection pooler refuses an option ({message})")


def _refused(error: asyncpg.PostgresError) -> StorageUnavailable | StatementRefused:
    """Take for a refused statement only what has a code: a pooler's own words may have none."""
    sqlstate: str | None = error.sqlstate
    if sqlstate is None:
        return StorageUnavailable(_message_of(error))
    # A rule that is broken has a name; that no partition takes a row is told without one.
    is_unplaced = isinstance(error, pg.CheckViolationError) and error.constraint_name is None
    return (PartitionMissing if is_unplaced else StatementRefused)(sqlstate, _message_of(error))


def _disconnected(error: pg.PostgresConnectionError) -> DispatcherError:
    """Tell what a pooler will never accept from what may pass; PgBouncer has one code for everything."""
    message = _message_of(error)
    if match := _REFUSED_PARAMETER.search(message):
        if match[1] in {**session_settings("", timedelta(0)), **BY_INDEXES}:
            return _pooler_in_between(message)
        return _refused_option(message)
    if "statement pooling mode" in message:
        return ConfigurationError(f"the connection pooler must have pool_mode = transaction ({message})")
    return StorageUnavailable(message)


def _message_of(error: BaseException) -> str:
    """Say what happened in one line; asyncpg's time-outs say nothing themselves."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate does not prove who it is ({error.verify_message}); "
            "sslrootcert=FILE in the URL names its authority"
        )
    if isinstance(error, pg.TargetServerAttributeNotMatched):
        return "no server there accepts writes (a standby, or default_transaction_read_only is on)"
    first = next(iter(str(error).splitlines()), "")
    if "rejected SSL upgrade" in first:
        return (
            f"{first}: it does not speak TLS; switch it on there or, where the network itself is trusted, "
            "set WEBHOOK_DATABASE_TLS=waived"
        )
    return first or type(error).__name__
