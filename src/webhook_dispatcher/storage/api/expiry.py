"""Clears away what expired of the Partner API: api_limits.sql, bound.

It goes in chunks, which lock few rows, and waits for none.
"""

from datetime import timedelta
from typing import Any

import asyncpg

from webhook_dispatcher.storage.api.database import ask
from webhook_dispatcher.storage.statements import Statement, load

CHUNK = 1_000
MARGIN = timedelta(minutes=1)
"""What expired less than this ago stays, in case the clock is set back."""
_LIMITS = load("api_limits")


async def clear(pool: asyncpg.Pool, chunk: int = CHUNK) -> int:
    """Clear away tokens, answers and counts, and return how many of the first two; one look where none is."""
    if not await _value(pool, "has_api_rows"):
        return 0
    for statement in ("clear_usage", "clear_card_attempts"):
        after: str | None = ""
        while after is not None:
            after = await _value(pool, statement, after, MARGIN, chunk)
    await clear_in_chunks(pool, _LIMITS["clear_kept_bytes"], chunk)
    return sum(
        [await clear_in_chunks(pool, _LIMITS[name], chunk) for name in ("clear_tokens", "clear_requests")]
    )


async def clear_in_chunks(pool: asyncpg.Pool, statement: Statement, chunk: int) -> int:
    """Ask for one chunk after the other until there are no more, and return how many rows went."""
    cleared, in_chunk = 0, chunk
    while in_chunk == chunk:
        in_chunk = len(await ask(pool, statement, MARGIN, chunk))
        cleared += in_chunk
    return cleared


async def _value(pool: asyncpg.Pool, name: str, *arguments: object) -> Any:
    [row] = await ask(pool, _LIMITS[name], *arguments)
    return row[0]
