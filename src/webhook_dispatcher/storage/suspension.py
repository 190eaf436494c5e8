"""Suspending merchants and lifting it: the statements of suspending.sql, bound."""

from datetime import timedelta

import asyncpg

from webhook_dispatcher.domain.ports import Suspended
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

_SUSPENDING = load("suspending")
# Both of contract 2.8.
MIN_EVENTS = 20
"""So many events must have been tried: one that is retried by hand again and again says little."""
LATEST_ATTEMPTS = 200
"""Among so many of the latest attempts."""


class PostgresSuspensions:
    """Implements domain.ports.Suspensions on a pool of connections."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def suspend(self, after: timedelta, interval: timedelta, limit: int) -> list[Suspended]:
        with translated():
            # Of dispatchers that find the same lane one suspends it.
            found = await self._pool.fetch(
                _SUSPENDING["find_to_suspend"].text, after, MIN_EVENTS, LATEST_ATTEMPTS, limit
            )
            lanes = [row["merchant_id"] for row in found]
            rows = await self._pool.fetch(_SUSPENDING["suspend_lanes"].text, lanes, after, interval)
        return [Suspended(row["merchant_id"], row["failing_since"], row["is_reported"]) for row in rows]

    async def lift(self, limit: int) -> list[str]:
        return await self._lift("lift_suspensions", limit)

    async def lift_all(self, limit: int) -> list[str]:
        return await self._lift("lift_all_suspensions", limit)

    async def _lift(self, name: str, limit: int) -> list[str]:
        with translated():
            rows = await self._pool.fetch(_SUSPENDING[name].text, limit)
        return [row["merchant_id"] for row in rows]
