"""Strangers, whose credentials were not seen to be right yet, share a few of a database's connections.

So a flood of invented tokens, which costs a look-up each, leaves the other connections to merchants: who was
let in before passes by.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from webhook_dispatcher.api.calls import Refused
from webhook_dispatcher.api.catalogue import UNAVAILABLE

AT_ONCE = 3
MAX_WAITING = 200
WAIT_SECONDS = 5.0
MAX_KNOWN = 20_000
"""Tokens that are remembered: who was forgotten is a stranger for one request."""


class Gate:
    """One database's."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._known: OrderedDict[bytes, None] = OrderedDict()

    @asynccontextmanager
    async def passed(self, token_hash: bytes | None = None) -> AsyncIterator[None]:
        """Wait for one's turn, unless the token is known. Refused: too many do, or it took too long."""
        if token_hash in self._known:
            yield
            return
        await self._enter()
        try:
            yield
        finally:
            self._free.release()

    def note(self, token_hash: bytes, *, is_live: bool) -> None:
        """Remember whose token is live, and nobody else."""
        self._known.pop(token_hash, None)
        if is_live:
            self._known[token_hash] = None
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    async def _enter(self) -> None:
        if self._waiting >= MAX_WAITING:
            raise _busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise _busy() from None
        finally:
            self._waiting -= 1


def _busy() -> Refused:
    return Refused(UNAVAILABLE, headers={"Retry-After": "1"})
