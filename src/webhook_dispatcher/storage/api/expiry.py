"""Clears away what expired of the Partner API: api_limits.sql, bound.

It goes in chunks, which lock few rows, and waits for none.
"""

from datetime import timedelta
from typing import Any

import asyncpg

from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

CHUNK = 1_000
MARGIN = timedelta(minutes=1)
"""What expired less long ago stays: the clock may be set back by so much."""
_LIMITS = load("api_limits")


async def clear(pool: asyncpg.Pool, chunk: int = CHUNK) -> int:
    """Clear away tokens, answers and counts, and return how many of the first two; one look where none is."""
    if not await _value(pool, "has_api_rows"):
        return 0
    for statement in ("clear_usage", "clear_card_attempts"):
        after: str | None = ""
        while after is not None:
            after = await _value(pool, statement, after, MARGIN, chunk)
    return sum([await _clear(pool, name, chunk) for name in ("clear_tokens", "clear_requests")])


async def _clear(pool: asyncpg.Pool, name: str, chunk: int) -> int:
    cleared, in_chunk = 0, chunk
    while in_chunk == chunk:
        with translated():
            in_chunk = len(await pool.fetch(_LIMITS[name].text, MARGIN, chunk))
        cleared += in_chunk
    return cleared


async def _value(pool: asyncpg.Pool, name: str, *arguments: object) -> Any:
    with translated():
        return await pool.fetchval(_LIMITS[name].text, *arguments)
