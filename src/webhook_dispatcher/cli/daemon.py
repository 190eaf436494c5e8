"""`run` and `migrate`."""

import asyncio
from datetime import timedelta
from typing import Annotated

import typer

from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.storage.connection import connect
from webhook_dispatcher.storage.pooler import PoolerInBetween

PATIENCE = timedelta(seconds=10)


def run(
    context: typer.Context,
    embedded: Annotated[
        bool,
        typer.Option("--embedded", help="Start a Postgres in WEBHOOK_DATA_DIR and use that: for a laptop."),
    ] = False,
) -> None:
    """Deliver events until stopped (SIGTERM or Ctrl-C).

    Waits for a database that is away; refuses a schema of another version (exit 3).
    """
    settings = session_of(context).settings()
    if embedded and settings.database_url is not None:
        raise ConfigurationError(
            "--embedded starts a database of its own: unset WEBHOOK_DATABASE_URL, or leave it out"
        )
    if not embedded:
        settings.database_dsn()
        settings.keyring()
    from webhook_dispatcher import app

    app.run(settings, embedded=embedded)


def migrate(
    context: typer.Context,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL instead, to apply it yourself.")] = False,
) -> None:
    """Create the schema `webhook`, or bring it up to date; does nothing when it is."""
    from webhook_dispatcher.storage import schema

    if sql:
        typer.echo(schema.migration_sql(), nl=False)
        return
    asyncio.run(_migrate(session_of(context).settings().migration_dsn()))
    typer.echo("the schema is up to date")


async def _migrate(dsn: str) -> None:
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
    await schema.migrate(dsn)
