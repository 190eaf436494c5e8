"""Clears away what expired of the console: console_accounts.sql, bound.

It goes in chunks, which lock few rows, and waits for none.
"""

import asyncpg

from webhook_dispatcher.storage.api.expiry import CHUNK, clear_in_chunks
from webhook_dispatcher.storage.console.database import ask
from webhook_dispatcher.storage.statements import load

_ACCOUNTS = load("console_accounts")


async def clear(pool: asyncpg.Pool, chunk: int = CHUNK) -> int:
    """Clear away sessions, codes and counts, and return how many of the first two; one look where none is."""
    [row] = await ask(pool, _ACCOUNTS["has_console_rows"])
    if not row["has_rows"]:
        return 0
    await clear_in_chunks(pool, _ACCOUNTS["clear_failures"], chunk)
    return sum(
        [await clear_in_chunks(pool, _ACCOUNTS[name], chunk) for name in ("clear_sessions", "clear_codes")]
    )
