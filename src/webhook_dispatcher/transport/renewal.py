"""When a kept connection that works is given up for a new one: a merchant that moves is followed.

A busy connection is never idle, and would lead to an old address for as long as somebody answers there. So it
may be a minute old, and less once its answer is no delivery. Not each failure ends one: a handshake costs ten
times a request, and there are merchants that refuse every event. Each reaches another part of it: or all
that were made together, as after a failover, would end together every minute.
While no new connection can be made (name servers, route or proxy are gone), those that there are stay, but
for one in ten seconds that tries.
"""

import asyncio
from random import Random
from typing import NamedTuple

# A handshake in a minute is a thousandth of a core at most; .NET's HttpClientFactory, for the same end, takes
# two minutes.
_MAX_AGE_SECONDS = 60.0
_MAX_AGE_OF_REFUSED_SECONDS = 10.0
_RETRY_SECONDS = 10.0
_MIN_PART = 0.75


class Age(NamedTuple):
    """Since when there is a connection, by the loop's clock, and which part of the age it may reach."""

    made_at: float
    part: float


class Renewals:
    """Tells which connections of one sender are due, by their age and by whether new ones could be made."""

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random | None = None) -> None:
        self._loop = loop
        self._random = random or Random()
        self._resumes_at: float | None = None  # since no connection could be made

    def newborn(self) -> Age:
        """Return the age of a connection that is made now."""
        return Age(self._loop.time(), self._random.uniform(_MIN_PART, 1.0))

    def is_due(self, age: Age, is_delivery: bool) -> bool:
        """Tell, after an answer, whether its connection is to be closed."""
        now = self._loop.time()
        if now < age.made_at + age.part * (_MAX_AGE_SECONDS if is_delivery else _MAX_AGE_OF_REFUSED_SECONDS):
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
