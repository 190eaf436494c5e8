"""When a kept connection that works is given up for a new one: a merchant that moves is followed.

A busy connection is never idle, and would lead to an old address for as long as somebody answers there. So it
may be a minute old, and less once its answer is no delivery. Not each failure ends one: a handshake costs ten
times a request, and there are merchants that refuse every event.
While no new connection can be made (name servers, route or proxy are gone), those that there are stay, but
for one in ten seconds that tries.
"""

import asyncio

# A handshake in a minute is a thousandth of a core at most; .NET's HttpClientFactory, for the same end, takes
# two minutes.
_MAX_AGE_SECONDS = 60.0
_MAX_AGE_OF_REFUSED_SECONDS = 10.0
_RETRY_SECONDS = 10.0


class Renewals:
    """Tells which connections of one sender are due, by their age and by whether new ones could be made."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._resumes_at: float | None = None  # since no connection could be made

    def is_due(self, made_at: float, is_delivery: bool) -> bool:
        """Tell, after an answer, whether its connection is to be closed. Units: a time of the loop."""
        now = self._loop.time()
        if now < made_at + (_MAX_AGE_SECONDS if is_delivery else _MAX_AGE_OF_REFUSED_SECONDS):
            return False
        if self._resumes_at is not None:
            if now < self._resumes_at:
                return False
            self._resumes_at = now + _RETRY_SECONDS
        return True

    def connected(self) -> None:
        """Take note that a connection was made."""
        self._resumes_at = None

    def failed(self) -> None:
        """Take note that one could not be made; others' failures put nothing off."""
        if self._resumes_at is None:
            self._resumes_at = self._loop.time() + _RETRY_SECONDS
