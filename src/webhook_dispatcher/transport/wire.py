"""One connection on the wire: a request goes out in one write, and only so much of its answer is taken in.

States: idle; awaiting an answer; draining the body behind a final head; closed. An exchange ends in a status
or in an exception, once. It is over with the final head: what is wrong behind that changes no verdict, it
only closes the connection. The rest of a small body is waited for, so that the connection can be used again.
The parser is llhttp, which takes bare LF and folded headers; only a NUL in a value has to be looked for.
Everything but `send` runs in the event loop's callbacks, without a task.
Source: contract 2.1; RFC 9112.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from webhook_dispatcher.transport.reading import Disconnected, Expired, Malformed, Phase

# What clients commonly allow (8 KiB, about a hundred headers) turns honest answers into failures.
_LINE_LIMIT = 64 * 1024
_HEADERS_LIMIT = 1000

# What may come before an answer is final: many long headers would be held in memory, and many 1xx parsed.
MOST_HEAD_BYTES = 256 * 1024
_MOST_INTERIM = 64
_SWITCHING_PROTOCOLS = 101

# What is left of a body is waited for this long at most: more than the 40 ms of a delayed ACK between a
# receiver's two writes.
_DRAIN_SECONDS = 0.05
_DRAIN_BYTES = 4096
_LENGTH_DIGITS = 4

# Joining head and body costs less than a second segment, but a large body should not be copied.
_JOINED_BYTES = 16 * 1024

_CONTENT_LENGTH = b"content-length"


def answer_parser(protocol: object) -> HttpResponseParser:
    """Make a parser that calls the protocol back; as lenient as honest receivers need it."""
    parser = HttpResponseParser(protocol)
    parser.set_dangerous_leniencies(
        lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
    )
    return parser


class Wire(asyncio.Protocol):
    """The protocol of one connection, and the callbacks of its parser.

    requests: how many were sent on it.
    is_answering: a byte of the answer to the last one has come.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, origin: str, on_lost: Callable[["Wire"], None]
    ) -> None:
        self._loop = loop
        self.origin = origin
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = None
        self._waiter: asyncio.Future[int] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = self._deadline = 0.0
        self.requests = 0
        self.is_answering = False

    @property
    def is_idle(self) -> bool:
        """Tell whether another request may be sent."""
        transport = self._transport
        return transport is not None and self._waiter is None and not transport.is_closing()

    @property
    def is_stale(self) -> bool:
        """Tell, after a failure, whether a reused connection broke before any byte of an answer."""
        return self.requests > 1 and not self.is_answering

    @property
    def phase(self) -> Phase:
        """Say how far the last request has come."""
        return Phase.READING if self.is_answering else Phase.WAITING

    def send(self, head: bytes, body: bytes, deadline: float) -> asyncio.Future[int]:
        """Send a request on an idle connection; the future gets the status of its final answer.

        Units:  the deadline is a time of the loop.
        Errors: Expired, Malformed, Disconnected, or the OSError (ssl.SSLError) that ended the connection. It
                is closed then, as it is after an answer behind which nothing else can be read.
        """
        waiter = self._loop.create_future()
        self.requests += 1
        self.is_answering = False
        self._status = -1
        self._is_complete = self._is_keepable = False
        self._head_bytes = self._interim = self._drained = 0
        transport = self._transport
        if transport is None or transport.is_closing():
            waiter.set_exception(Disconnected())
            return waiter
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

    def abort(self) -> None:
        """Close at once; nothing that is still to be written is worth waiting for."""
        if self._transport is not None:
            self._transport.abort()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to parse."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is no subclass
        self._parser = answer_parser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End what was going on."""
        self._end(exc)
        self._stop_timer()
        self._transport = self._parser = None  # the parser refers to us
        self._on_lost(self)

    def eof_received(self) -> None:
        """Close; what was not written yet is not."""
        self._end(None)
        self.abort()

    def data_received(self, data: bytes) -> None:
        """Parse a piece of the answer."""
        if self._waiter is None or self._parser is None:
            # Bytes that nobody asked for, such as a 408: no answer to the next request.
            self.abort()
            return
        self.is_answering = True
        is_head = self._status < 0
        if is_head and self._loop.time() >= self._deadline:
            self._expire()
            return
        is_broken = False
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            is_broken = True
        if self._status < 0:
            self._head_bytes += len(data)
            if is_broken or self._head_bytes > MOST_HEAD_BYTES:
                self._fail(Malformed())
        elif is_broken or self._is_complete or not self._is_drained(len(data), is_head):
            self._finish(is_broken)

    # What the parser calls; what is raised here ends up as an HttpParserError in data_received.

    def on_message_begin(self) -> None:
        """Begin a head; behind a complete answer there should be none."""
        if self._is_complete:
            self._is_keepable = False
        self._headers = self._reason_bytes = 0
        self._length = b""

    def on_status(self, reason: bytes) -> None:
        """Bound the reason phrase, which comes in pieces and is not used."""
        self._reason_bytes += len(reason)
        if self._reason_bytes > _LINE_LIMIT:
            raise Malformed

    def on_header(self, name: bytes, value: bytes) -> None:
        """Bound the headers, and note the one that is used."""
        if self._status >= 0:
            return  # a trailer, or another answer
        self._headers += 1
        if (
            self._headers > _HEADERS_LIMIT
            or len(value) > _LINE_LIMIT
            or len(name) > _LINE_LIMIT
            or b"\0" in value
        ):
            raise Malformed
        if len(name) == len(_CONTENT_LENGTH) and name.lower() == _CONTENT_LENGTH:
            self._length = value

    def on_headers_complete(self) -> None:
        """Take the final head's status; count those that announce it (1xx)."""
        if self._status >= 0 or self._parser is None:
            return
        status: int = self._parser.get_status_code()
        if 100 <= status < 200 and status != _SWITCHING_PROTOCOLS:
            self._interim += 1
            if self._interim > _MOST_INTERIM:
                raise Malformed
            return
        self._status = status
        # False for a body that only the connection's end ends; behind a 101 the parser stops by itself.
        self._is_keepable = self._parser.should_keep_alive()

    def on_message_complete(self) -> None:
        """Note that nothing is left to drain."""
        self._is_complete = self._status >= 0

    # How an exchange ends.

    def _is_drained(self, more: int, is_head: bool) -> bool:
        """Tell whether the rest of the body is waited for; begin to, behind its head."""
        if not is_head:
            self._drained += more
            return self._drained <= _DRAIN_BYTES
        # Not int at once: Python refuses to read thousands of digits, zeros included.
        length = self._length
        if not self._is_keepable or len(length) > _LENGTH_DIGITS or (length and int(length) > _DRAIN_BYTES):
            return False
        self._limit(min(self._deadline, self._loop.time() + _DRAIN_SECONDS))
        return True

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
        if self._status >= 0:
            self._finish(is_broken=True)
        else:
            self._fail(Expired())

    def _finish(self, is_broken: bool) -> None:
        """Give the answer; leave the connection open only if it is fit for another request."""
        transport = self._transport
        if (
            is_broken
            or not (self._is_keepable and self._is_complete)
            or (transport is not None and transport.get_write_buffer_size())
        ):
            self.abort()
        waiter = self._take_waiter()
        if waiter is not None:
            waiter.set_result(self._status)

    def _fail(self, error: Exception) -> None:
        self.abort()
        waiter = self._take_waiter()
        if waiter is not None:
            waiter.set_exception(error)

    def _end(self, error: Exception | None) -> None:
        if self._waiter is None:
            return
        if self._status >= 0:
            self._finish(is_broken=True)
        else:
            self._fail(error or Disconnected())

    def _take_waiter(self) -> asyncio.Future[int] | None:
        """Return who still waits, and have it wait no longer."""
        waiter, self._waiter = self._waiter, None
        return None if waiter is None or waiter.done() else waiter

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
