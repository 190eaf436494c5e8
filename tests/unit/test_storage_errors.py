"""What asyncpg raises becomes one of three errors, by what to do about it."""

import re
from datetime import timedelta

import asyncpg
import pytest
from asyncpg import exceptions as pg
from asyncpg.types import ServerVersion

from webhook_dispatcher.domain.errors import (
    ConfigurationError,
    SchemaMismatch,
    StatementRefused,
    StorageUnavailable,
)
from webhook_dispatcher.storage.connection import connect, create_pool, describe, translated
from webhook_dispatcher.storage.pooler import PooledConnection, PoolerInBetween

UNAVAILABLE = [
    *(OSError(111, "Connection refused"), TimeoutError(), asyncpg.InterfaceError("connection is closed")),
    *(
        kind("said by the server")
        for kind in (
            *(pg.ConnectionDoesNotExistError, pg.AdminShutdownError, pg.CannotConnectNowError),
            *(pg.TooManyConnectionsError, pg.SerializationError, pg.DeadlockDetectedError),
            *(pg.LockNotAvailableError, pg.QueryCanceledError, pg.ReadOnlySQLTransactionError),
            *(pg.IdleInTransactionSessionTimeoutError, pg.DiskFullError, pg.OutOfMemoryError),
            *(pg.InvalidPasswordError, pg.InvalidAuthorizationSpecificationError),
            *(pg.InvalidCatalogNameError, pg.TargetServerAttributeNotMatched),
            *(pg.InvalidCachedStatementError, pg.SnapshotTooOldError),
        )
    ),
]
REFUSED = [
    pg.CheckViolationError("violates check constraint"),
    pg.UniqueViolationError("duplicate key"),
    pg.CharacterNotInRepertoireError("invalid byte sequence"),
    pg.NumericValueOutOfRangeError("out of range"),
    pg.InsufficientPrivilegeError("permission denied for table endpoint"),
    pg.RaiseError("custom"),
]
MISMATCH = [
    pg.UndefinedTableError('relation "webhook.outbox" does not exist'),
    pg.UndefinedColumnError("column"),
    pg.UndefinedFunctionError("function"),
    pg.InvalidSchemaNameError("schema"),
]


@pytest.mark.parametrize("error", UNAVAILABLE, ids=lambda error: type(error).__name__)
def test_what_may_pass_is_unavailable(error: Exception) -> None:
    with pytest.raises(StorageUnavailable) as caught, translated():
        raise error
    assert str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", REFUSED, ids=lambda error: type(error).__name__)
def test_what_is_wrong_with_the_values_is_refused(error: asyncpg.PostgresError) -> None:
    with pytest.raises(StatementRefused) as caught, translated():
        raise error
    assert caught.value.sqlstate == error.sqlstate


def test_what_has_no_code_is_not_known_to_be_about_our_statement() -> None:
    with pytest.raises(StorageUnavailable, match="no server"), translated():
        raise asyncpg.PostgresError("no server")


NO_SERVER = {"S": "FATAL", "C": "XX000", "M": "unable to check out connection from the pool"}


async def no_server(*_: object, **__: object) -> None:
    raise pg.PostgresError.new(NO_SERVER)


async def test_what_is_refused_when_connecting_is_not_about_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncpg, "connect", no_server)
    opened = create_pool(
        "postgresql://u@127.0.0.1:1/x", application_name="test", command_timeout=timedelta(seconds=1), size=1
    )
    async with opened as pool:
        with pytest.raises(StorageUnavailable, match="check out"), translated():
            await pool.fetchval("SELECT 1")


async def test_what_is_refused_at_a_pooled_begin_is_not_about_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unopened(PooledConnection):
        def __init__(self) -> None:
            """Open nothing."""

        def __del__(self) -> None:
            """Close nothing."""

        def is_in_transaction(self) -> bool:
            return False

        def get_server_version(self) -> ServerVersion:
            return ServerVersion(15, 0, 0, "final", 0)

    monkeypatch.setattr(asyncpg.Connection, "execute", no_server)
    with pytest.raises(StorageUnavailable, match="check out"), translated():
        await Unopened().execute("BEGIN;")


def test_a_value_that_cannot_be_encoded_is_refused() -> None:
    class EncodingError(asyncpg.InterfaceError, ValueError):
        """As asyncpg's own, which the server's error of the same name hides."""

    with pytest.raises(StatementRefused) as caught, translated():
        raise EncodingError("invalid input for query argument $1")
    assert caught.value.sqlstate == "22000"
    assert "argument" not in caught.value.detail, "operators read it in error_message"


@pytest.mark.parametrize("error", MISMATCH, ids=lambda error: type(error).__name__)
def test_what_is_missing_in_the_schema_is_a_mismatch(error: Exception) -> None:
    with pytest.raises(SchemaMismatch, match="webhook-dispatcher migrate"), translated():
        raise error


@pytest.mark.parametrize(
    "error",
    [
        pg.ProtocolViolationError("unsupported startup parameter: default_transaction_isolation"),
        pg.InvalidSQLStatementNameError('prepared statement "__asyncpg_stmt_1__" does not exist'),
        pg.DuplicatePreparedStatementError('prepared statement "__asyncpg_stmt_1__" already exists'),
    ],
    ids=lambda error: type(error).__name__,
)
def test_signs_of_a_pooler_name_the_setting(error: Exception) -> None:
    with pytest.raises(PoolerInBetween, match="set WEBHOOK_DATABASE_POOLER=transaction"), translated():
        raise error


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("unsupported startup parameter: work_mem", "refuses an option .*work_mem"),
        ("transaction blocks not allowed in statement pooling mode", "must have pool_mode = transaction"),
    ],
)
def test_what_a_pooler_will_never_accept_is_our_configuration(said: str, right: str) -> None:
    with pytest.raises(ConfigurationError, match=right), translated():
        raise pg.ProtocolViolationError(said)


@pytest.mark.parametrize(
    "said", ["query_wait_timeout", "server conn crashed?", "server login has been failing, try again later"]
)
def test_what_a_pooler_says_while_the_server_is_away_may_pass(said: str) -> None:
    with pytest.raises(StorageUnavailable, match=re.escape(said)), translated():
        raise pg.ProtocolViolationError(said)


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError), translated():
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("dsn", "name"),
    [
        ("postgresql://u:sesame@db.internal:5432/charges", "database 'charges' at db.internal:5432"),
        ("postgres://u:s%40same@db/ch%20arges?sslmode=require", "database 'ch arges' at db"),
        ("postgresql://u:sesame@/charges?host=/run/postgresql", "database 'charges' at /run/postgresql"),
        ("postgresql://db", "database '(default)' at db"),
        ("postgresql://", "database '(default)' at the default host"),
    ],
)
def test_a_database_is_named_without_user_or_password(dsn: str, name: str) -> None:
    assert describe(dsn) == name


async def test_a_url_that_asyncpg_does_not_understand_is_our_configuration() -> None:
    dsn = "postgresql://u:sesame@127.0.0.1:1/x?sslmode=maybe"
    with pytest.raises(ConfigurationError, match=r"the database's URL.*sslmode") as caught:
        await connect(dsn, application_name="test", command_timeout=timedelta(seconds=1))
    assert "sesame" not in str(caught.value)
