"""Lets one fault have the run for itself: no other lasts meanwhile, and none begins."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Quiet:
    """Counts the faults that last. One of them may ask for quiet; others wait their turn until it is over."""

    def __init__(self) -> None:
        self._lasting = 0
        self._is_wanted = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Let a fault last while entered, once nobody wants quiet."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_wanted)
            self._lasting += 1
        try:
            yield
        finally:
            async with self._changed:
                self._lasting -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Let the fault that enters this, in its turn, be the only one; the others end first."""
        self._is_wanted = True
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: self._lasting == 1)
            yield
        finally:
            async with self._changed:
                self._is_wanted = False
                self._changed.notify_all()
