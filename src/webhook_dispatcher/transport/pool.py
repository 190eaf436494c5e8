"""Idle connections, by where they lead: the newest is used first, and none is kept for long.

All that go to the same origin are alike: what an address may be was judged when the connection was made, and
a sender has one proxy or none.
"""

import asyncio

from webhook_dispatcher.transport.connection import HttpConnection
from webhook_dispatcher.transport.renewal import Renewals

# Idle connections are given up before most receivers do it (Node closes after 5 s, nginx after 75 s); what is
# closed under our hands all the same is sent again by the sender.
_KEEP_ALIVE_SECONDS = 15.0
_SWEEP_SECONDS = 1.0

# Where more was sent than answers, what was meant for one merchant's request may reach another's: for so long
# each request has a connection to itself.
_APART_SECONDS = 600.0
_MAX_APART = 1000

# Closing takes a few turns of the loop; a transport that does not say that it is closed holds nobody up.
_CLOSING_SECONDS = 1.0


class Pool:
    """Connections: those between two requests, and who is still open at the end.

    most: how many are kept between requests; others are closed after their answer.
    renewals: which of them are too old for that. The pool tells it of new ones, who dials of what failed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._loop = loop
        self._most = most
        self.renewals = Renewals(loop)
        self._open: set[HttpConnection] = set()
        self._idle: dict[HttpConnection, float] = {}  # since when, in that order
        self._by_origin: dict[str, list[HttpConnection]] = {}
        self._apart_until: dict[str, float] = {}  # by origin
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    @property
    def is_closed(self) -> bool:
        """Tell whether nothing may be sent any more."""
        return self._emptied is not None

    @property
    def idle(self) -> list[HttpConnection]:
        """The connections that are kept now, the longest idle first."""
        return list(self._idle)

    def add(self, connection: HttpConnection) -> None:
        """Watch over a new connection until it is lost."""
        self._open.add(connection)
        self.renewals.connected()
        connection.age = self.renewals.newborn()
        if self.is_closed:
            connection.abort()

    def take(self, origin: str) -> HttpConnection | None:
        """Return the connection that was used last, if one is left."""
        stack = self._by_origin.get(origin)
        while stack:
            connection = stack.pop()
            since = self._idle.pop(connection)
            is_young = self._loop.time() < since + _KEEP_ALIVE_SECONDS
            if is_young and connection.is_idle and not connection.has_unread:
                return connection
            connection.abort()
        return None

    def put(self, connection: HttpConnection, is_delivery: bool = True) -> None:
        """Keep a connection, after an answer, if it is fit for that, not too old, and there is room."""
        if not connection.is_idle:
            return
        now = self._loop.time()
        is_apart = now < self._apart_until.get(connection.origin, 0.0)
        is_unwanted = is_apart or len(self._idle) >= self._most or self.is_closed
        if is_unwanted or self.renewals.is_due(connection.age, is_delivery):
            connection.abort()
            return
        self._idle[connection] = now
        stack = self._by_origin.get(connection.origin)
        if stack is None:
            self._by_origin[connection.origin] = [connection]
        else:
            stack.append(connection)
        if self._timer is None:
            self._timer = self._loop.call_at(now + _KEEP_ALIVE_SECONDS, self._sweep)

    def forget(self, connection: HttpConnection) -> None:
        """Take note that a connection is lost."""
        self._open.discard(connection)
        if connection.has_overrun:
            self._set_apart(connection.origin)
        if self._idle.pop(connection, None) is not None:
            self._by_origin[connection.origin].remove(connection)
        if self._emptied is not None and not self._open and not self._emptied.done():
            self._emptied.set_result(None)

    def _set_apart(self, origin: str) -> None:
        """Keep no connection to an origin for a while, nor those there are."""
        self._apart_until.pop(origin, None)
        if len(self._apart_until) >= _MAX_APART:
            del self._apart_until[next(iter(self._apart_until))]
        self._apart_until[origin] = self._loop.time() + _APART_SECONDS
        for connection in self._by_origin.get(origin, ()):
            connection.abort()

    async def close(self) -> None:
        """Close all connections, and let none be made."""
        self._emptied = self._loop.create_future()
        if self._timer is not None:
            self._timer.cancel()
        if not self._open:
            return
        for connection in list(self._open):
            connection.abort()
        await asyncio.wait((self._emptied,), timeout=_CLOSING_SECONDS)

    def _sweep(self) -> None:
        """Close what has been idle for too long, and come back when that is so of the next."""
        self._timer = None
        now = self._loop.time()
        for connection, since in list(self._idle.items()):
            if now < since + _KEEP_ALIVE_SECONDS:
                again = max(since + _KEEP_ALIVE_SECONDS, now + _SWEEP_SECONDS)
                self._timer = self._loop.call_at(again, self._sweep)
                break
            connection.abort()
        for origin in [origin for origin, stack in self._by_origin.items() if not stack]:
            del self._by_origin[origin]
