"""Looks twice a second who is suspended, for the judge: nothing but the lane says when that ends."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import asyncpg

from lab.chaos.evidence import Suspension
from lab.chaos.labels import label_of
from lab.chaos.writers import AWAY

EVERY = 0.5
SUSPENDED = """
SELECT merchant_id, extract(epoch FROM suspended_at)::float8 AS suspended_at
FROM webhook.lane
WHERE suspended_at IS NOT NULL
"""

Fetch = Callable[[str], Awaitable[Sequence[asyncpg.Record]]]


class SuspensionWatch:
    """Looks while `run` runs. While the database is away nothing is seen.

    fetch: asks the database, as the superuser.
    """

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._seen: dict[tuple[str, float], Suspension] = {}

    @property
    def suspensions(self) -> list[Suspension]:
        """Return what was seen, by its begin."""
        return sorted(self._seen.values(), key=lambda one: one.began)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            with suppress(*AWAY):  # the next look may see more
                await self.look()
            await asyncio.sleep(EVERY)

    async def look(self) -> None:
        """Look once. What is read may be older than the answer, never than the question."""
        asked = time.monotonic()
        to_monotonic = asked - time.time()
        rows = await self._fetch(SUSPENDED)
        lasting = {(label_of(row["merchant_id"]), row["suspended_at"]) for row in rows}
        for key in lasting:
            known = self._seen.get(key, Suspension(key[0], key[1] + to_monotonic, asked))
            self._seen[key] = replace(known, seen_until=asked, ended=None)
        for key, known in self._seen.items():
            if key not in lasting and known.ended is None:
                self._seen[key] = replace(known, ended=time.monotonic())
