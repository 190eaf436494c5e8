"""People who read the console's pages: their sessions, and connections as the console has them."""

import secrets
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import asyncpg

from tests.servers.database import Database
from webhook_dispatcher.storage.connection import create_pool
from webhook_dispatcher.storage.session import PLANNED_ONCE

PATIENCE = timedelta(seconds=20)
SIGN_IN = """
WITH person AS (
    INSERT INTO webhook.account (name, role, created_by) VALUES ($1, $2, 'a test') RETURNING id
)
INSERT INTO webhook.console_session (hash, account_id, began_at, acted_at, expires_at)
SELECT $3, id, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '12 hours' FROM person
"""


async def reader_of(db: asyncpg.Connection, role: str) -> bytes:
    """Sign somebody in as a role, past all passwords; return the session's hash. db: the superuser's."""
    session = secrets.token_bytes(32)
    await db.execute(SIGN_IN, f"{role}-{secrets.token_hex(4)}", role, session)
    return session


def console_pool(database: Database) -> AbstractAsyncContextManager[asyncpg.Pool]:
    """Keep connections as the console does."""
    return create_pool(
        database.dsn("webhook_console"),
        application_name="console",
        command_timeout=PATIENCE,
        size=2,
        planning=PLANNED_ONCE,
    )
