"""One HTTP connection: a request is sent in one write, and only as much of its answer is read as is needed.

An exchange is one request and its answer; it ends once, in a status or in an exception. The final head
decides: an error behind it only closes the connection. The rest of a small body is waited for, so that the
connection can be used again. That happens only if the answer ended beyond doubt (`parsing.py`) and came after
the whole request.

| state | no field holds it; it follows from |
| --- | --- |
| idle | there is no `_waiter` |
| awaiting an answer | there is one, and the answer's `status` is -1 |
| draining the body behind a final head | there is one, and the answer has a `status` |
| closed | there is no `_transport`, or it is closing |

Everything but `send` runs in the event loop's callbacks, without a task.
Source: contract 2.1; RFC 9112.
"""

import asyncio
import re
import ssl
from collections.abc import Callable
from typing import cast

from webhook_dispatcher.domain.verdict import may_always
from webhook_dispatcher.transport.buffers import Buffers
from webhook_dispatcher.transport.failures import (
    Disconnected,
    Expired,
    HandshakeFailed,
    Malformed,
    Phase,
    Withheld,
)
from webhook_dispatcher.transport.parsing import EXCERPT_SECONDS, REQUEST_TIMEOUT, AnswerParser, ExcerptParser
from webhook_dispatcher.transport.renewal import Age

# What is left of a body is waited for this long at most: more than the 40 ms of a delayed ACK between a
# receiver's two writes.
_DRAIN_SECONDS = 0.05
_DRAIN_BYTES = 4096

# Where an excerpt is asked for, its chunks may be of a byte each, but not each with a comment of its own.
_EXCERPT_BYTES = 16 * 1024

# A 408 that was meant for the idle connection crosses the request, so it comes soon. One that comes later is
# the answer of a receiver that has waited for the rest of it.
MAX_CROSSING_SECONDS = 1.0

_TIMEOUT_LINE = re.compile(rb"HTTP/1\.[01] 408")

# Joining head and body costs less than a second segment, but a large body should not be copied.
_JOINED_BYTES = 16 * 1024


class HttpConnection(asyncio.Protocol):
    """The protocol of one connection.

    network: of the peer; the host's name behind an egress proxy.
    age: set by the pool.
    took_name: to connect, a name server was asked, or the egress proxy.
    was_costly: connecting took much of the event loop.
    requests: how many were sent on it.
    is_answering: a byte of the answer to the last one has come.
    excerpt_bytes: how much of a failed answer's body is asked for.
    """

    age: Age

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        origin: str,
        buffers: Buffers,
        on_lost: Callable[["HttpConnection"], None],
        excerpt_bytes: int = 0,
    ) -> None:
        self._loop = loop
        self.origin = origin
        self._buffers = buffers
        self.network = ""
        self.took_name = self.was_costly = False
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._answer = ExcerptParser(excerpt_bytes) if excerpt_bytes else AnswerParser()
        self._lingers_since: float | None = None
        self._waiter: asyncio.Future[int] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = self._deadline = 0.0
        self.requests = 0
        self.is_answering = self._has_spoken = False

    @property
    def has_overrun(self) -> bool:
        """Tell whether more came than answers, or was announced; a 408 to an idle connection is common."""
        return self._has_spoken or self._answer.is_overrun

    @property
    def is_idle(self) -> bool:
        """Tell whether another request may be sent."""
        transport = self._transport
        return transport is not None and self._waiter is None and not transport.is_closing()

    @property
    def has_unread(self) -> bool:
        """Tell, of an idle connection, whether bytes have come that nobody asked for, or its end."""
        return self._buffers.has_unread()

    @property
    def is_stale(self) -> bool:
        """Tell, after an exchange, whether a reused connection was given up by the receiver just then.

        No byte of an answer came, or soon a 408, which may have been sent before the request was received.
        Source: RFC 9110, 15.5.9.
        """
        if self.requests == 1 or not self.is_answering:
            return self.requests > 1
        took = self._answered_at - self._sent_at
        return self._answer.status == REQUEST_TIMEOUT and took <= MAX_CROSSING_SECONDS

    @property
    def phase(self) -> Phase:
        """Say how far the last request has come."""
        return Phase.READING if self.is_answering else Phase.WAITING

    def send(
        self, head: bytes, body: bytes, deadline: float, may_send: Callable[[], bool] = may_always
    ) -> asyncio.Future[int]:
        """Send a request on an idle connection; the future gets the status of its final answer.

        Units:  the deadline is a time of the loop.
        Errors: Withheld (may_send said no, right before the first byte), Expired, Malformed, Disconnected, or
                the OSError (ssl.SSLError) that ended the connection. It is closed then, as it is after an
                answer behind which nothing else can be read.
        """
        waiter = self._loop.create_future()
        self.requests += 1
        self.is_answering = False
        transport = self._transport
        if transport is None or transport.is_closing():
            waiter.set_exception(Disconnected())
            return waiter
        # As late as possible: a process that is frozen after this sends the request when it wakes.
        if not may_send():
            transport.abort()
            waiter.set_exception(Withheld())
            return waiter
        self._answer.begin()
        self._sent_at = self._loop.time()
        self._drained = 0
        self._request_bytes = len(head) + len(body)
        self._waiter = waiter
        self._limit(deadline)
        try:
            if len(body) <= _JOINED_BYTES:
                transport.write(head + body)
            else:
                transport.writelines((head, body))
        except (OSError, RuntimeError) as error:  # uvloop's, for what was closed just now
            self._fail(error)
        return waiter

    def take_excerpt(self) -> tuple[str | None, float]:
        """Return how the body of the last answer begins, and for how many seconds that was waited for."""
        since, self._lingers_since = self._lingers_since, None
        excerpt = self._answer.excerpt() if isinstance(self._answer, ExcerptParser) else None
        return excerpt, 0.0 if since is None else self._loop.time() - since

    def abort(self) -> None:
        """Close at once; nothing that is still to be written is worth waiting for."""
        if self._transport is not None:
            self._transport.abort()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange, if there is one, and report that the connection is lost."""
        self._end(exc)
        self._stop_timer()
        self._transport = None
        self._answer.close()
        self._on_lost(self)

    def eof_received(self) -> None:
        """Close; what was not written yet is not."""
        self._end(None)
        self.abort()

    def data_received(self, data: bytes) -> None:
        """Parse a piece of the answer."""
        if self._waiter is None:
            # Bytes that nobody asked for, such as a 408: no answer to the next request.
            self._has_spoken |= self.is_idle and _TIMEOUT_LINE.match(data) is None
            self.abort()
            return
        if not self.is_answering and not self._is_timely():
            return
        now = self._loop.time()
        if not self.is_answering:
            self.is_answering, self._answered_at = True, now
        answer = self._answer
        is_head = answer.status < 0
        if is_head and now >= self._deadline:
            self._expire()
            return
        is_read = answer.feed(data)
        if answer.status < 0:
            if not is_read:
                self._fail(Malformed())
            return
        if not is_read or answer.is_complete or not self._is_drained(len(data), is_head):
            self._finish(is_broken=not is_read)

    def _is_timely(self) -> bool:
        """Tell whether the first bytes can be an answer to the request; end the exchange if they cannot."""
        transport = self._transport
        if transport is None:
            return False
        unreceived = transport.get_write_buffer_size() + self._buffers.unreceived()
        if unreceived and self.requests > 1 and unreceived >= self._request_bytes:
            # Sent before anything of the request was received: the rest of an earlier answer, or a 408.
            self._fail(Disconnected())
            return False
        if unreceived:
            # The receiver may never read the rest, or take it for another request.
            self._answer.doubt()
        return True

    # How an exchange ends.

    def _is_drained(self, more: int, is_head: bool) -> bool:
        """Tell whether the rest of the body is waited for; begin to, behind its head."""
        answer = self._answer
        if is_head and answer.lacks_excerpt and not self.is_stale:
            self._lingers_since = self._loop.time()
            self._limit(min(self._deadline, self._lingers_since + EXCERPT_SECONDS))
            return True
        if not is_head:
            self._drained += more
            if answer.lacks_excerpt:
                return self._drained <= _EXCERPT_BYTES
        if not (answer.is_keepable and answer.has_rest_within(_DRAIN_BYTES)):
            return False
        if is_head:
            self._limit(min(self._deadline, self._loop.time() + _DRAIN_SECONDS))
        return self._drained <= _DRAIN_BYTES

    def _limit(self, deadline: float) -> None:
        """Have the exchange end by this time at the latest.

        A timer that rings before stays: most exchanges are over long before, and making and cancelling one
        costs more than rendering a request.
        """
        self._deadline = deadline
        if self._timer is None or self._rings_at > deadline:
            self._stop_timer()
            self._rings_at = deadline
            self._timer = self._loop.call_at(deadline, self._ring)

    def _ring(self) -> None:
        """End the exchange if it is this one's time, and not that of one before."""
        self._timer = None
        if self._waiter is None:
            return
        if self._loop.time() >= self._deadline:
            self._expire()
        else:
            self._limit(self._deadline)

    def _expire(self) -> None:
        """End the exchange because its time is over, or that of the body."""
        if self._answer.status >= 0:
            self._finish(is_broken=True)
        else:
            self._fail(Expired())

    def _finish(self, is_broken: bool) -> None:
        """Give the answer; leave the connection open only if it is fit for another request."""
        answer = self._answer
        if is_broken or not (answer.is_keepable and answer.is_complete):
            self.abort()
        waiter = self._take_waiter()
        if waiter is not None:
            waiter.set_result(answer.status)

    def _fail(self, error: Exception) -> None:
        self.abort()
        waiter = self._take_waiter()
        if waiter is not None:
            waiter.set_exception(error)

    def _end(self, error: Exception | None) -> None:
        if self._waiter is None:
            return
        if self._answer.status >= 0:
            self._finish(is_broken=True)
        elif self._is_handshake_open() and not isinstance(error, ssl.SSLError):
            failure = HandshakeFailed()
            failure.__cause__ = error
            self._fail(failure)
        else:
            self._fail(error or Disconnected())

    def _is_handshake_open(self) -> bool:
        """Tell whether nothing shows that the receiver ever agreed to speak TLS with us.

        In TLS 1.3 a client is done before the receiver has seen its last message. One that insists on a
        certificate of ours may then close without an alert; a session ticket or a byte says that it agreed.
        """
        if self.requests > 1 or self.is_answering or self._transport is None:
            return False
        tls: ssl.SSLObject | None = self._transport.get_extra_info("ssl_object")
        if tls is None or tls.version() != "TLSv1.3":
            return False
        return tls.session is None or not tls.session.has_ticket

    def _take_waiter(self) -> asyncio.Future[int] | None:
        """Return the future that is still waited for, if any; the exchange is over for it."""
        waiter, self._waiter = self._waiter, None
        return None if waiter is None or waiter.done() else waiter

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
