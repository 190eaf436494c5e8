"""The least of HTTP/1.1 that a receiver needs, fast enough to judge a daemon under load.

One request after the other on a kept connection, bodies with a Content-Length only. What a client that
is not ours might send besides is refused with a status.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol, cast

HEAD_LIMIT = 64 * 1024
BODY_LIMIT = 1024 * 1024


class Exchange:
    """One request, and the means to answer it.

    started_at: when its first byte came, on the server's clock. fields: the headers as they were written.
    """

    __slots__ = ("_connection", "body", "connection", "fields", "headers", "method", "started_at", "target")

    def __init__(self, connection: "Connection", head: bytes, started_at: float) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        self.fields = [
            (name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])
        ]
        fields = [(name.lower(), value) for name, value in self.fields]
        self.headers = dict(fields)
        if len(self.headers) < len(fields):
            # One that was sent twice is both, as RFC 9110, 5.2 has it: a signature must not hide another.
            self.headers = {
                name: ", ".join(value for same, value in fields if same == name) for name, _ in fields
            }
        self.started_at = started_at
        self.connection = connection.number
        self.body = b""
        self._connection = connection

    def answer(self, status: int) -> None:
        """Send a status and no body; the connection stays open."""
        self.send(_rendered(status))

    def send(self, answer: bytes) -> None:
        """Send an answer verbatim."""
        self._connection.finish(self, answer)

    def disconnect(self) -> None:
        """Close without an answer."""
        self._connection.drop()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request that was forwarded is answered with, and what people are shown beside it."""

    status: int
    text: str


class Service(Protocol):
    """Who is told of requests."""

    def received(self, exchange: Exchange) -> None:
        """Take a complete request; answer it now or later."""

    def abandoned(self, exchange: Exchange) -> None:
        """Learn that the client went away before the answer."""

    def closed(self, connection: "Connection") -> None:
        """Learn that a connection has ended."""


class Connection(asyncio.Protocol):
    """One client's connection: reads a request, waits for its answer, reads the next."""

    def __init__(self, service: Service, number: int, clock: Callable[[], float]) -> None:
        self.number = number
        self._service = service
        self._clock = clock
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._started_at = 0.0
        self._reading: Exchange | None = None
        self._missing = 0
        self._open: Exchange | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back to the client."""
        # A cast, since uvloop's transports only look like asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the service if an answer was owed."""
        exchange, self._open, self._transport = self._open, None, None
        if exchange is not None:
            self._service.abandoned(exchange)
        self._service.closed(self)

    def data_received(self, data: bytes) -> None:
        """Gather bytes, and pass a request on as soon as it is complete."""
        if not self._buffer and self._reading is None:
            self._started_at = self._clock()
        self._buffer += data
        self._proceed()

    def finish(self, exchange: Exchange, answer: bytes) -> None:
        """Send the answer to the open request, and turn to the next."""
        if self._open is not exchange or self._transport is None:
            return
        self._open = None
        self._transport.write(answer)
        if self._buffer:
            self._proceed()

    def drop(self) -> None:
        """Close at once; an open request counts as ended by us."""
        self._open = None
        if self._transport is not None:
            self._transport.abort()

    def _proceed(self) -> None:
        if self._open is not None:
            return
        if self._reading is None:
            self._read_head()
        if self._reading is not None and len(self._buffer) >= self._missing:
            exchange, self._reading = self._reading, None
            exchange.body = bytes(self._buffer[: self._missing])
            del self._buffer[: self._missing]
            self._open = exchange
            self._service.received(exchange)

    def _read_head(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_LIMIT:
                self._refuse(431)
            return
        try:
            exchange = Exchange(self, bytes(self._buffer[:end]), self._started_at)
            missing = int(exchange.headers.get("content-length", "0"))
        except ValueError:
            self._refuse(400)
            return
        if "transfer-encoding" in exchange.headers:
            self._refuse(411)
        elif not 0 <= missing <= BODY_LIMIT:
            self._refuse(413)
        else:
            del self._buffer[: end + 4]
            self._missing = missing
            self._reading = exchange

    def _refuse(self, status: int) -> None:
        if self._transport is not None:
            self._transport.write(_rendered(status, b"Connection: close\r\n"))
            self._transport.close()


def _rendered(status: int, headers: bytes = b"") -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    # 1xx, 204 and 304 have no body and so no length (RFC 9110, 8.6).
    length = b"" if status < 200 or status in (204, 304) else b"Content-Length: 0\r\n"
    return b"HTTP/1.1 %d %b\r\n%b%b\r\n" % (status, phrase.encode(), headers, length)
