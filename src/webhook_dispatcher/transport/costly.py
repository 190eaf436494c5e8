"""Connections that cost much of the event loop: whoever made the last one so takes turns with others like it.

What a receiver can have us compute for one connection is bounded (tls.py, resolver.py), but it can have us
make one after the other, by closing each. So costly origins have few slots, and a slot rests after its
connection for many times what that has cost: all of them together take a tenth of the event loop's time.
Source: docs/adr/0023-receivers-choose-among-what-is-cheap.md.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

# Most handshakes take a millisecond; with P-384 in each certificate, three.
_COSTLY_SECONDS = 0.01
_SLOTS = 2
_REST_FACTOR = 20
_MAX_KNOWN = 1000


@dataclass(slots=True)
class Cost:
    """What making a connection has taken of the event loop so far. seconds: of the processor's time."""

    seconds: float = 0.0

    @property
    def is_high(self) -> bool:
        """Tell whether it is many times what connections cost."""
        return self.seconds > _COSTLY_SECONDS


class Turns:
    """Who takes turns: the origins whose last connection was costly, the latest of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slots = asyncio.Semaphore(_SLOTS)
        self._costly: OrderedDict[str, None] = OrderedDict()

    @asynccontextmanager
    async def turn(self, origin: str, cost: Cost) -> AsyncIterator[None]:
        """Make a connection meanwhile; wait for a slot first, if the last one was costly.

        cost: what it takes, known at the end.
        """
        takes_slot = origin in self._costly
        if takes_slot:
            await self._slots.acquire()
        try:
            yield
        finally:
            self._costly.pop(origin, None)
            if cost.is_high:
                self._costly[origin] = None
                if len(self._costly) > _MAX_KNOWN:
                    self._costly.popitem(last=False)
            if takes_slot:
                self._loop.call_at(self._loop.time() + _REST_FACTOR * cost.seconds, self._slots.release)
