"""Tokens for merchants, and reading as the Partner API does: as webhook_api, each statement planned once."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg

from tests.servers.database import Database
from webhook_dispatcher.storage.connection import create_pool
from webhook_dispatcher.storage.session import PLANNED_ONCE

PATIENCE = timedelta(seconds=60)
ADD_KEY = """
INSERT INTO webhook.api_key (client_id, secret_hash, merchant_id, name, created_by)
VALUES (replace(gen_random_uuid()::text, '-', ''), sha256('secret'), $1, 'test', 'test')
RETURNING id
"""
ADD_TOKEN = """
INSERT INTO webhook.api_token (hash, api_key_id, expires_at) VALUES ($1, $2, clock_timestamp() + $3::interval)
"""
REVOKE = "UPDATE webhook.api_key SET revoked_at = clock_timestamp(), revoked_by = 'test' WHERE id = $1"
UNKNOWN = hashlib.sha256(b"nobody's").digest()


async def token_of(
    superuser: asyncpg.Connection,
    merchant: str,
    lives: timedelta = timedelta(hours=1),
    *,
    is_revoked: bool = False,
) -> bytes:
    """Make a key of a merchant and a token of it, and return the token's hash."""
    key = await superuser.fetchval(ADD_KEY, merchant)
    token_hash = hashlib.sha256(f"{merchant} {key}".encode()).digest()
    await superuser.execute(ADD_TOKEN, token_hash, key, lives)
    if is_revoked:
        await superuser.execute(REVOKE, key)
    return token_hash


@asynccontextmanager
async def api_pool(database: Database, size: int = 2) -> AsyncIterator[asyncpg.Pool]:
    """Connect as the Partner API's processes do."""
    async with create_pool(
        database.dsn("webhook_api"),
        application_name="api",
        command_timeout=PATIENCE,
        size=size,
        planning=PLANNED_ONCE,
    ) as pool:
        yield pool
