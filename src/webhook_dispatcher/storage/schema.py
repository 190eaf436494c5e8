"""The schema: bringing it to this version, and refusing to run on another.

The schema records its version and the oldest daemon it serves, so that a daemon of the version before
an additive migration goes on beside one of the version after it.
"""

import asyncio
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.domain.errors import (
    MAY_NOT,
    ConfigurationError,
    SchemaMismatch,
    StatementRefused,
    StorageUnavailable,
    UserError,
)
from webhook_dispatcher.storage import installation, inventory, numbers
from webhook_dispatcher.storage.chosen_indexes import AS_BEFORE, ChosenIndexes
from webhook_dispatcher.storage.chosen_indexes import settle as settle_indexes
from webhook_dispatcher.storage.connection import as_owner, translated
from webhook_dispatcher.storage.inventory import Migrated
from webhook_dispatcher.storage.statements import load

PATIENCE = timedelta(seconds=10)
DISPATCHER, THE_DAEMON = "webhook_dispatcher", "the daemon"
INSTALL_NEWER = "install a newer webhook-dispatcher"
_PACKAGE = Path(__file__).parents[1]

# SQL_ASCII takes what it is given, and we give UTF-8.
_ENCODINGS_OF_EVERYTHING = ("UTF8", "SQL_ASCII")


def _migrations() -> Path:
    """Find the migrations: inside the installed package, or at the top of a checkout."""
    packaged = _PACKAGE / "migrations"
    return packaged if packaged.is_dir() else _PACKAGE.parents[1] / "migrations"


_VERSIONS = sorted(file.stem for file in (_migrations() / "versions").glob("0*.py"))
FIRST = _VERSIONS[0]
SCHEMA_VERSION = int(_VERSIONS[-1][:4])
"""The schema that this program is written for: the number of the last migration that it carries."""


def _upgrade(dsn: str = "", output: io.StringIO | None = None) -> tuple[str, ...]:
    """Let Alembic run what is missing and return its names, or print all of it to `output`."""
    # Late: it takes longer to import than most commands take to run, and only `migrate` needs it.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(output_buffer=output)
    config.set_main_option("script_location", str(_migrations()).replace("%", "%%"))
    applied: list[str] = []
    config.attributes.update(dsn=dsn, applied=applied)
    try:
        command.upgrade(config, "head", sql=output is not None)
    except CommandError as error:
        raise SchemaMismatch(
            f"the schema is not one that this version knows ({error})", INSTALL_NEWER
        ) from error
    return tuple(applied)


async def migrate(
    dsn: str,
    indexes: ChosenIndexes = AS_BEFORE,
    tell: Callable[[str], None] = lambda _: None,
    name: str | None = None,
    paused: bool = False,
) -> Migrated:
    """Bring the schema to this version, and return what that took.

    Running it again changes nothing. StorageUnavailable or StatementRefused when it cannot be done.
    SchemaMismatch: it is of a version that is newer than this program.
    indexes: which of those there are to be that an installation may do without.
    tell: is given a line before each step that may take long, and the name that the installation gets.
    name: what it is called at first; None makes a name up. ConfigurationError: it has another name already.
    paused: everything is paused from the start; UserError where a first migration has come to its end.
    """
    if paused:
        await _refuse_named(dsn)
    await installation.refuse_others(dsn, name)
    known_roles = await inventory.read_roles(dsn)
    with translated():
        # Alembic drives its own event loop, and its errors surface as asyncpg's.
        applied = await asyncio.to_thread(_upgrade, dsn)
    async with as_owner(dsn, PATIENCE) as connection:
        await numbers.mend(connection, tell)
        # Before the name: where this is cut short, `migrate --paused` can be given again.
        if paused:
            with translated():
                await connection.execute(load("control")["pause_everything"].text, True)
    await installation.give_name(dsn, name, tell)
    await settle_indexes(dsn, indexes, tell)
    return Migrated(applied, await inventory.read(dsn, known_roles) if FIRST in applied else None)


async def _refuse_named(dsn: str) -> None:
    found = await installation.find(dsn)
    if found is not None and found.name is not None:
        raise UserError(
            "--paused is for the first migration, and the schema is there already: "
            "`pause --all` pauses what is sent from it"
        )


def migration_sql(paused: bool = False) -> str:
    """Return the whole migration as SQL for people who apply it themselves; paused: it pauses everything."""
    output = io.StringIO()
    _upgrade(output=output)
    if paused:
        output.write("\nUPDATE webhook.state SET paused = true;\n")
    return output.getvalue()


async def check_commits(connection: PoolConnectionProxy) -> None:
    """Raise StorageUnavailable while each COMMIT waits for a standby that is not there."""
    with translated():
        is_awaiting = await connection.fetchval(load("upkeep")["awaits_standby"].text)
    if is_awaiting:
        raise StorageUnavailable("COMMIT waits for a synchronous standby, and none is connected")


async def check(connection: asyncpg.Connection | asyncpg.Pool | PoolConnectionProxy) -> datetime:
    """Raise SchemaMismatch unless the schema is there and serves this program; return the server's start."""
    with translated():
        row = await connection.fetchrow(load("upkeep")["read_schema"].text)
    if row is None:
        raise SchemaMismatch("the schema was not migrated to its end")
    if row["schema_version"] < SCHEMA_VERSION:
        raise SchemaMismatch(
            f"the schema is of version {row['schema_version']}, this program needs {SCHEMA_VERSION}"
        )
    if row["compatible_from"] > SCHEMA_VERSION:
        raise SchemaMismatch(
            f"the schema serves programs for version {row['compatible_from']} and later, "
            f"this one is for {SCHEMA_VERSION}",
            f'{INSTALL_NEWER}, or go back as "Upgrading" in the documentation says',
        )
    started_at: datetime = row["server_started_at"]
    return started_at


async def check_encoding(connection: asyncpg.Connection | asyncpg.Pool) -> None:
    """Raise ConfigurationError unless the database can store whatever a receiver answers."""
    with translated():
        row = await connection.fetchrow(load("upkeep")["read_encoding"].text)
    assert row is not None
    if row["encoding"] not in _ENCODINGS_OF_EVERYTHING:
        raise ConfigurationError(
            f"WEBHOOK_RESPONSE_EXCERPT: must be 0, since the database's encoding, {row['encoding']}, "
            "cannot hold every answer"
        )


@contextmanager
def connected_as(role: str, whose: str) -> Iterator[None]:
    """Turn the refusal of a right into ConfigurationError: we are connected as somebody else than meant."""
    try:
        yield
    except StatementRefused as error:
        if error.sqlstate != MAY_NOT:
            raise
        raise ConfigurationError(
            f"WEBHOOK_DATABASE_URL: {error.detail}; {whose} connects as {role}, or as a member of it"
        ) from error


async def check_role(connection: asyncpg.Connection | asyncpg.Pool) -> None:
    """Raise ConfigurationError unless we are connected as somebody who may deliver."""
    with translated():
        row = await connection.fetchrow(load("upkeep")["read_role"].text)
    assert row is not None
    if not row["may_deliver"]:
        raise ConfigurationError(
            f"WEBHOOK_DATABASE_URL: {row['role']!r} may not deliver; "
            f"{THE_DAEMON} connects as {DISPATCHER}, or as a member of it"
        )
