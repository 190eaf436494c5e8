"""`run` and `migrate`, and `child`, which a supervisor starts."""

import asyncio
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated

import typer

from webhook_dispatcher.cli.failures import complain_of
from webhook_dispatcher.cli.migrated import lines_of
from webhook_dispatcher.cli.options import ShardName
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.errors import ConfigurationError, DispatcherError
from webhook_dispatcher.storage.chosen_indexes import ChosenIndexes
from webhook_dispatcher.storage.connection import connect
from webhook_dispatcher.storage.inventory import Migrated
from webhook_dispatcher.storage.pooler import PoolerInBetween

PATIENCE = timedelta(seconds=10)
MIGRATORS = (
    "a superuser, or as a user with CREATEROLE who may create schemas (WEBHOOK_MIGRATION_DATABASE_URL)"
)


def run(
    context: typer.Context,
    embedded: Annotated[
        bool,
        typer.Option(
            "--embedded",
            help="Start a Postgres in WEBHOOK_DATA_DIR and use that, with the Partner API and the console: "
            "for a laptop.",
        ),
    ] = False,
    parent_pid: Annotated[
        int | None, typer.Option("--parent-pid", hidden=True, help="End when this process, our parent, does.")
    ] = None,
) -> None:
    """Deliver events until stopped (SIGTERM or Ctrl-C), in WEBHOOK_PROCESSES processes for each database.

    Waits for a database that is away; refuses a schema of another version (exit 3).
    """
    session = session_of(context)
    settings = session.settings()
    if embedded and settings.database_url is not None:
        raise ConfigurationError(
            "--embedded starts a database of its own: unset WEBHOOK_DATABASE_URL, or leave it out"
        )
    if not embedded:
        settings.databases()
        settings.keyring()
    from webhook_dispatcher.app import run as program

    code = program.run(settings, embedded, session.environ, typer.echo, parent_pid)
    if code:
        raise typer.Exit(code)


def child(context: typer.Context, number: int, line: int, supervisor_pid: int) -> None:
    """Deliver events as one process of a supervisor. number: its place; line: the socket to report over."""
    from webhook_dispatcher.app import run as program

    program.run_child(session_of(context).settings(), number, socket.socket(fileno=line), supervisor_pid)


def migrate(
    context: typer.Context,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL instead, to apply it yourself.")] = False,
    charge_index: Annotated[
        bool | None,
        typer.Option(
            "--charge-index/--no-charge-index",
            help="Find deliveries by their charge. By default as chosen before, at first yes.",
            show_default=False,
        ),
    ] = None,
    feed_index: Annotated[
        bool | None,
        typer.Option(
            "--feed-index/--no-feed-index",
            help="Let merchants read their events in order. By default as chosen before, at first no.",
            show_default=False,
        ),
    ] = None,
    paused: Annotated[
        bool,
        typer.Option("--paused", help="For the first time: nothing is sent until `resume --all`."),
    ] = False,
    shard: ShardName = None,
) -> None:
    """Create the schema `webhook`, or bring it up to date; does nothing when it is.

    Where there are several databases it does all of them, whatever becomes of one, or the one that is named.
    """
    from webhook_dispatcher.storage import schema

    if sql:
        typer.echo(schema.migration_sql(paused), nl=False)
        return
    from webhook_dispatcher.settings.shards import choose

    settings = session_of(context).settings()
    shards = settings.migrations() if shard is None else (choose(settings.migrations(), shard),)
    named = [(settings.migration_dsn(shard.name), shard.name) for shard in shards]
    indexes = ChosenIndexes(charge_index, feed_index)
    codes = [_migrate_one(dsn, name, indexes, settings.installation, paused) for dsn, name in named]
    if failures := [code for code in codes if code]:
        raise typer.Exit(failures[0])


def _migrate_one(
    dsn: str, name: str | None, indexes: ChosenIndexes, installation: str | None, paused: bool
) -> int:
    """Migrate one database and say so; return the exit code."""

    def tell(line: str) -> None:
        typer.echo(f"{name}: {line}" if name else line)

    try:
        migrated = asyncio.run(_migrate(dsn, indexes, tell, installation, paused))
    except DispatcherError as error:
        return complain_of(error, name, MIGRATORS)
    for line in lines_of(migrated):
        tell(line)
    at_rest = ", and everything is paused: `resume --all` begins to send" if paused else ""
    tell(f"the schema is up to date{at_rest}")
    return 0


async def _migrate(
    dsn: str,
    indexes: ChosenIndexes,
    tell: Callable[[str], None],
    installation: str | None,
    paused: bool,
) -> Migrated:
    from webhook_dispatcher.storage import schema

    # Before anything else: this names the database that cannot be reached.
    try:
        await (
            await connect(dsn, application_name="webhook-dispatcher migrate", command_timeout=PATIENCE)
        ).close()
    except PoolerInBetween:
        raise ConfigurationError(
            "WEBHOOK_MIGRATION_DATABASE_URL must lead straight to Postgres: "
            "migrate cannot go through a connection pooler"
        ) from None
    return await schema.migrate(dsn, indexes, tell, installation, paused)
