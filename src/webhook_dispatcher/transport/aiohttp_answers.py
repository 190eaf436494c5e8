"""aiohttp's protocol of one connection, with what it does not decide: whether another request may follow.

A connection is kept only if the answer's end is beyond doubt: the request was written whole, the body ended
exactly where its length or its last chunk says, a 204 or 304 declared none, and not a byte came behind that.
The final head is given to aiohttp alone, and what follows it apart: so the verdict falls with the head,
whatever is wrong behind it, and the bytes of the body can be counted.
Source: contract 2.1; RFC 9112, 6.3 and 9.3; RFC 9110, 8.6.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from aiohttp import HttpVersion11
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import BadHttpMessage
from aiohttp.http_parser import RawResponseMessage

from webhook_dispatcher.transport.buffers import Buffers
from webhook_dispatcher.transport.connection import MAX_CROSSING_SECONDS
from webhook_dispatcher.transport.parsing import REQUEST_TIMEOUT
from webhook_dispatcher.transport.renewal import Renewals

# What may come before an answer is final: many long headers would be held in memory, and many 1xx parsed.
_MAX_HEAD_BYTES = 256 * 1024
_MAX_INTERIM = 64
_SWITCHING_PROTOCOLS = 101

_BODILESS = frozenset((204, 304))
_MAX_LENGTH_DIGITS = 4

_HEAD_END = re.compile(rb"\n\r?\n")
_CHUNKS_END = re.compile(rb"[^\r\n]\r?\n\r?\n\Z")
_MAX_CHUNKS_END = 5


class AnswerHandler(ResponseHandler):
    """One connection.

    network: of the peer; empty behind an egress proxy.
    requests: how many were sent on it.
    is_answering: a byte of the answer to the last one has come.
    is_early: it came so soon that it may have crossed the request.
    broke_in_handshake: the connection ended before anything showed that the other side had agreed to TLS.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_lost: Callable[["AnswerHandler"], None],
        buffers: Buffers,
        renewals: Renewals,
    ) -> None:
        super().__init__(loop)
        self._renewals = renewals
        self._age = renewals.newborn()
        self._on_lost = on_lost
        self._buffers = buffers
        self.network = ""
        self.requests = self._received = 0
        self._sent_at = 0.0
        self.broke_in_handshake = False
        self._expect_answer()

    def begin(self) -> None:
        """Prepare for another request and its answer."""
        self.requests += 1
        self._expect_answer()
        self._sent_at = self._loop.time()
        self._received = self._buffers.received()

    def _expect_answer(self) -> None:
        self.is_early = False
        self.is_answering = self._is_final = self._is_over = self._is_end_certain = self._is_doubtful = False
        self._head_bytes = self._interim = self._body_bytes = 0
        self._ending = b""

    @property
    def should_close(self) -> bool:
        """Tell whether no other request may be sent; aiohttp asks when it would keep the connection."""
        return super().should_close or self._is_doubtful or not self._is_end_certain

    @property
    def is_reusable(self) -> bool:
        """Tell whether a kept connection may be used again."""
        return not self.should_close and not self._buffers.has_unread()

    def close(self) -> None:
        """Close at once: what nobody reads would keep the socket open for as long."""
        super().abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End what was going on."""
        self._on_lost(self)
        self.broke_in_handshake = self._is_handshake_open()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse a piece of an answer: head by head, then what follows the final one."""
        if data and (self._parser is None or self._is_over):
            # Nobody asked for it: no answer to the next request.
            self._is_end_certain = False
            self.close()
            return
        if not self.is_answering and not self._is_timely():
            self.close()
            return
        while data and not self._is_final:
            head = self._cut(data)
            data = data[len(head) :]
            self._head_bytes += len(head)
            super().data_received(head)
            is_too_much = self._head_bytes > _MAX_HEAD_BYTES or self._interim > _MAX_INTERIM
            if is_too_much and not self._is_final:
                if self.transport is not None:
                    self.set_exception(BadHttpMessage("too much before the final answer"))
                    self.transport.abort()
                return
        if self._is_over and data:
            self._is_end_certain = False  # Behind an answer without a body.
            return
        self._body_bytes += len(data)
        self._ending = (self._ending + data)[-_MAX_CHUNKS_END:]
        super().data_received(data)  # Also of nothing: aiohttp's way to go on after a pause.

    def _is_timely(self) -> bool:
        """Tell whether the first bytes can be an answer to the request, and take note of when they came."""
        if self.requests > 1 and self._buffers.received() <= self._received:
            # Sent before anything of the request was received: the rest of an earlier answer, or a 408.
            return False
        self.is_answering = True
        self.is_early = self._loop.time() - self._sent_at <= MAX_CROSSING_SECONDS
        return True

    def feed_data(self, data: tuple[RawResponseMessage, Any], size: int = 0) -> None:
        """Take note of the final answer among those that announce it (1xx)."""
        message, payload = data
        if 100 <= message.code < 200 and message.code != _SWITCHING_PROTOCOLS:
            self._interim += 1
            self._is_doubtful |= _declares_body(message)
        elif not self._is_final:
            self._is_final, self._ending = True, b""
            # A 408 may have crossed the request, whose own answer would follow.
            self._is_doubtful |= message.code == REQUEST_TIMEOUT
            if self.transport is not None:  # whether the other side has taken the whole request
                unsent = self.transport.get_write_buffer_size() or self._buffers.unreceived()
                self._is_doubtful |= unsent > 0
            self._is_doubtful |= self._renewals.is_due(self._age, 200 <= message.code <= 299)
            payload.on_eof(lambda: self._end(message))
        super().feed_data(data, size)

    def _cut(self, data: bytes) -> bytes:
        """Return the data up to the end of the head, all of it where that is still to come."""
        before = self._ending
        end = _HEAD_END.search(before + data)
        head = data if end is None else data[: end.end() - len(before)]
        self._ending = (before + head)[-2:] if end is None else b""
        return head

    def _end(self, message: RawResponseMessage) -> None:
        """Judge the end of the body; called in the middle of the data that it ends in."""
        self._is_over = True
        if message.code in _BODILESS:
            self._is_end_certain = not _declares_body(message)
        elif message.chunked:
            # Chunks in HTTP/1.0 are a fault in the framing (RFC 9112, 6.1).
            is_known = message.version >= HttpVersion11
            self._is_end_certain = is_known and _CHUNKS_END.search(self._ending) is not None
        else:
            self._is_end_certain = self._body_bytes == _length(message)

    def _is_handshake_open(self) -> bool:
        """Tell whether the other side may still refuse us.

        In TLS 1.3 a client is done before the receiver has seen its last message: one that insists on a
        certificate may then close without an alert. A session ticket or a byte says that it agreed.
        """
        tls = self.transport.get_extra_info("ssl_object") if self.transport else None
        if tls is None or self.requests > 1 or self.is_answering or tls.version() != "TLSv1.3":
            return False
        return tls.session is None or not tls.session.has_ticket


def _declares_body(message: RawResponseMessage) -> bool:
    return "Transfer-Encoding" in message.headers or _length(message) != 0


def _length(message: RawResponseMessage) -> int | None:
    """Return how long the body is said to be, 0 where nothing is said; None where it is not waited for."""
    length = message.headers.get("Content-Length", "")
    # Not int at once: Python refuses to read thousands of digits, zeros included.
    return int(length or 0) if len(length) <= _MAX_LENGTH_DIGITS else None
