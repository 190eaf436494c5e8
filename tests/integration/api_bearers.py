"""Merchants' API keys and tokens, made as a superuser makes them, for tests of what tokens may do."""

import hashlib

import asyncpg

KEY = (
    "INSERT INTO webhook.api_key (client_id, secret_hash, merchant_id, name, created_by) "
    "VALUES ($1, sha256('a secret'), $2, 'a test', 'a test') RETURNING id"
)
TOKEN = (
    "INSERT INTO webhook.api_token (hash, api_key_id, expires_at) "
    "VALUES ($1, $2, clock_timestamp() + make_interval(hours => $3))"
)


async def bearer(superuser: asyncpg.Connection, merchant: str, name: str = "", hours: int = 1) -> bytes:
    """Give a merchant a key, `client-` and the name (its own by default), and return a token's hash."""
    client = f"client-{name or merchant}"
    token = hashlib.sha256(client.encode()).digest()
    await superuser.execute(TOKEN, token, await superuser.fetchval(KEY, client, merchant), hours)
    return token


async def revoke(superuser: asyncpg.Connection, name: str) -> None:
    """Revoke a key."""
    await superuser.execute(
        "UPDATE webhook.api_key SET revoked_at = clock_timestamp(), revoked_by = 'a test' "
        "WHERE client_id = $1",
        f"client-{name}",
    )
