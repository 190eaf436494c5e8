"""Alembic's entry: plain SQL on the asyncpg driver, the version table inside schema `webhook`."""

import asyncio
from datetime import timedelta
from functools import partial
from pathlib import Path

from alembic import context
from sqlalchemy import Connection, pool
from sqlalchemy.ext.asyncio import create_async_engine

from webhook_dispatcher.storage.connection import connect, connect_as_owner

PREAMBLE = Path(__file__).parent / "roles.sql"
PATIENCE = timedelta(minutes=10)
"""How long one file may take; each sets shorter time-outs of its own for its locks and statements."""
ALONE = "SELECT pg_advisory_xact_lock(hashtext('webhook.migrate'))"
"""Has whoever migrates at the same time wait until this transaction ends."""


def print_sql() -> None:
    """Write the migration as SQL, a transaction for each file."""
    context.configure(
        version_table_schema="webhook",
        transaction_per_migration=True,
        dialect_name="postgresql",
        literal_binds=True,
    )
    context.get_context().impl.static_output(PREAMBLE.read_text(encoding="utf-8"))
    with context.begin_transaction():
        context.run_migrations()


def migrate(connection: Connection) -> None:
    """Run what is missing, and note its names, in one transaction: cut short, it leaves nothing behind."""
    applied = context.config.attributes["applied"]
    context.configure(
        version_table_schema="webhook",
        connection=connection,
        on_version_apply=lambda step, **_: applied.append(step.up_revision_id),
    )
    with context.begin_transaction():
        # The first statement that SQLAlchemy sees begins the transaction; what files hold is not shown to it.
        connection.exec_driver_sql(ALONE)
        context.run_migrations()


async def migrate_online() -> None:
    """Connect as the URL says, make roles and schema where missing, then migrate."""
    dsn = context.config.attributes["dsn"]

    # Not as the owner: this may make the role.
    preparing = await connect(dsn, application_name="webhook-dispatcher migrate", command_timeout=PATIENCE)
    try:
        await preparing.execute(f"{ALONE};\n{PREAMBLE.read_text(encoding='utf-8')}")
    finally:
        await preparing.close()
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=partial(connect_as_owner, dsn, PATIENCE),
        poolclass=pool.NullPool,
    )
    async with engine.connect() as connection:
        await connection.run_sync(migrate)
        await connection.commit()
    await engine.dispose()


if context.is_offline_mode():
    print_sql()
else:
    asyncio.run(migrate_online())
