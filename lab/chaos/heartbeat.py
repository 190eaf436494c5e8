"""How late this process comes to its turn, as a measure of what a busy machine does to everybody."""

import asyncio
import time

EVERY = 0.02


class Heartbeat:
    """Beats while `run` runs, and knows by how much a beat was late."""

    def __init__(self) -> None:
        self._worst = 0.0

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            asked = time.monotonic()
            await asyncio.sleep(EVERY)
            self._worst = max(self._worst, time.monotonic() - asked - EVERY)

    def worst(self) -> float:
        """Return by how many seconds the latest beat since the last call was late."""
        worst, self._worst = self._worst, 0.0
        return worst
