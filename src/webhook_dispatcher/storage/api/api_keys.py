"""API keys as operators make, see and revoke them: api_keys.sql, bound. Secrets get here as hashes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from webhook_dispatcher.storage.api.database import ask
from webhook_dispatcher.storage.statements import load

_KEYS = load("api_keys")


@dataclass(frozen=True, slots=True)
class ApiKeyView:
    """A key as shown to people: a row of webhook.api_keys. last_used_at: to the minute."""

    client_id: str
    merchant_id: str
    name: str
    created_at: datetime
    created_by: str
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


async def create(
    connection: asyncpg.Connection,
    merchant_id: str,
    client_id: str,
    secret_hash: bytes,
    name: str,
    person: str,
) -> None:
    """Make a key. StatementRefused: the outbox would take no event of that merchant either."""
    await _rows(connection, "create_api_key", merchant_id, client_id, secret_hash, name, person)


async def list_(connection: asyncpg.Connection, merchant_id: str | None) -> list[ApiKeyView]:
    """Return the keys of all merchants or of one, revoked ones too."""
    return [ApiKeyView(**row) for row in await _rows(connection, "list_api_keys", merchant_id)]


async def revoke(connection: asyncpg.Connection, client_id: str, person: str) -> bool | None:
    """Revoke a key for good; False when it was revoked before, None when there is none."""
    is_revoked: bool | None = (await _rows(connection, "revoke_api_key", client_id, person))[0]["is_revoked"]
    return is_revoked


async def _rows(connection: asyncpg.Connection, name: str, *arguments: object) -> Sequence[Any]:
    return await ask(connection, _KEYS[name], *arguments)
