"""The server behind the Partner API and the console: aiohttp's, with the bounds that it does not set itself.

Whatever a client does, or fails to do, takes a bounded part of time and memory. Heads, bodies and answers
have deadlines, which are looked at once a second. No address has more than its share of the places, and where
there are too few of them, who has shown no credentials goes first. What the parser refuses is answered in the
same form as everything else.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any, Protocol, cast

from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web import RequestKey
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from aiohttp.web_server import Server

from webhook_dispatcher.web import aiohttp_names, clients
from webhook_dispatcher.web.faults import Fault, RequestRefused
from webhook_dispatcher.web.heads import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_LINE_BYTES,
    HeadTooLarge,
    HeadTooSlow,
)

MAX_HEAD_SECONDS = 10.0
MAX_IDLE_SECONDS = 75.0
MAX_DRAIN_SECONDS = 20.0
"""How long a client may leave an answer unread."""
LOOK_INTERVAL_SECONDS = 1.0
LINGERING_SECONDS = 2.0
READ_BYTES = 16_384
SHARE = 4
"""One address may have so many times fewer connections, or requests under way, than all may have together."""
MAX_PIPELINED = 2
"""Requests of one connection that wait for the one that is answered. Of what comes in one piece aiohttp's
parser takes up to 32."""


class Phase(StrEnum):
    """What a connection is waiting for, in the order in which they are closed where there are too many.

    BODY: that of a request without credentials. UNREAD: its client reads the answer.
    """

    BODY = "body"
    IDLE = "idle"
    HEAD = "head"
    UNREAD = "unread"


class Held(Protocol):
    """What a request holds until its answer was sent, such as memory."""

    def release(self) -> None:
        """Release it."""
        ...


HELD: RequestKey[Held] = RequestKey("held", Held)
CONNECTION: RequestKey["Connection"] = RequestKey("connection")
"""On which a request came."""
ADDRESS: RequestKey[clients.Address] = RequestKey("address")
"""Whom a request comes from, as far as proxies that are trusted tell."""
BY_PROXY: RequestKey[bool] = RequestKey("by_proxy")
"""Whether a proxy that is trusted has sent it."""


class Answering(Protocol):
    """Answers requests, and those that the parser could not read."""

    async def __call__(self, request: BaseRequest) -> StreamResponse:
        """Answer a request."""
        ...

    def refuse_unparsed(self, request: BaseRequest, error: BaseException | None) -> StreamResponse:
        """Answer a request that could not be parsed, or at which the server itself failed."""
        ...


class Connection(RequestHandler):
    """One connection: knows when it waits for its client, and since when."""

    def __init__(self, server: "WebServer") -> None:
        super().__init__(
            server,
            loop=server.loop,
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            lingering_time=LINGERING_SECONDS,
            keepalive_timeout=MAX_IDLE_SECONDS,
            read_bufsize=READ_BYTES,
        )
        self._max_msg_queue_size, self._msg_queue_resume_size = MAX_PIPELINED, 1
        self._server = server
        self._newest: StreamReader = EMPTY_PAYLOAD
        self._head_bytes = 0
        self._is_refused = self._is_half_closed = False
        self._link: asyncio.Transport | None = None
        self.subject: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin. Without a buffer, the first byte that the system does not take calls `pause_writing`."""
        self._link = cast(asyncio.Transport, transport)
        self._link.set_write_buffer_limits(high=0)
        super().connection_made(transport)
        self.subject = self._server.subject_of(transport.get_extra_info("peername"))
        self._server.admit(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End."""
        self._server.forget(self)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what was asked whole by a client that sends no more; else, or then, the connection ends."""
        self._is_half_closed = self._newest.is_eof() and not self._server.awaits(self)
        return self._is_half_closed

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless a request of this connection was refused already."""
        if self._is_refused:
            return
        known, newest = self._request_count, self._newest
        super().data_received(data)
        if self._request_count > known:
            self._take_note_of_heads(newest)
        elif data and newest.is_eof():
            self._take_note_of_part(len(data))

    def _take_note_of_heads(self, before: StreamReader) -> None:
        """Note new requests, and the body of the newest. Where the parser gave up within a body, end that."""
        self._head_bytes = 0
        message, self._newest = self._messages[-1]
        if isinstance(message, _ErrInfo):
            self._is_refused = True
            if not before.is_eof():
                before.set_exception(RequestPayloadError(message.message))
        self._server.note(self, None)

    def _take_note_of_part(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self.refuse(HeadTooLarge())
        elif not self._request_in_progress:
            self._server.note(self, Phase.HEAD)

    @contextmanager
    def awaiting_body(self) -> Iterator[None]:
        """Note, while entered, that it waits for the body of a request without credentials."""
        self._server.note(self, Phase.BODY)
        try:
            yield
        finally:
            self._server.note(self, None)

    def refuse(self, error: Exception) -> None:
        """Answer as if the parser had raised this error, and read nothing more."""
        self._is_refused = True
        self._messages.append((_ErrInfo(400, error, ""), EMPTY_PAYLOAD))
        self._request_count += 1
        self._server.note(self, None)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _handle_request(
        self,
        request: BaseRequest,
        start_time: float | None,
        request_handler: Callable[[BaseRequest], Awaitable[StreamResponse]],
    ) -> tuple[StreamResponse, bool]:
        """Answer a request when the answer before it was read."""
        request[CONNECTION] = self
        self._server.note(self, None)
        await self._drain_helper()
        under_way = self._server.begin_one()
        try:
            return await super()._handle_request(request, start_time, request_handler)
        finally:
            # The answer was read, or given up.
            if (held := request.get(HELD)) is not None:
                held.release()
            self._server.end_one(under_way)
            if not self._messages:
                self._server.note(self, Phase.HEAD if self._head_bytes else Phase.IDLE)
                if self._is_half_closed:
                    self.close()

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        """Answer what the parser refused, or our own code raised, in the same form as everything else."""
        if isinstance(exc, ConnectionError):
            raise exc  # the client is gone, and who answers has said so
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        return self._server.answering.refuse_unparsed(request, exc)

    def pause_writing(self) -> None:
        """Note that the client does not read what it is sent."""
        super().pause_writing()
        self._server.note_unread(self)

    def resume_writing(self) -> None:
        """Note that the client has read everything."""
        super().resume_writing()
        self._server.note_read(self)

    def abort(self) -> None:
        """End at once, whatever is still to be sent."""
        self._server.forget(self)
        if self._link is not None:
            self._link.abort()

    @property
    def is_draining(self) -> bool:
        """Whether the answer that is being made is the connection's last."""
        return self._server.is_draining


class WebServer(Server):
    """All connections, in the order in which they began to wait.

    max_connections: how many there may be. One more closes the one that has waited for longest in the first
    phase in which there is any; where none waits, itself. One more of an address than its share closes one of
    that address. A trusted proxy's connections are many clients': there the share is of requests under way.
    Errors: ConfigurationError where aiohttp is none in which the bounds hold.
    """

    def __init__(
        self, answering: Answering, max_connections: int, trusted_proxies: Sequence[clients.Network] = ()
    ) -> None:
        aiohttp_names.check()
        super().__init__(self._answer)
        self.loop = asyncio.get_running_loop()
        self.answering = answering
        self.is_draining = False
        self._max_connections = max_connections
        self._max_share = max(1, max_connections // SHARE)
        self._trusted_proxies = trusted_proxies
        self._open: set[Connection] = set()
        self._connections_of, self._requests_of = Counter[str | None](), Counter[str]()
        self._under_way: set[asyncio.Task[object] | None] = set()
        self._waiting: dict[Phase, dict[Connection, float]] = {phase: {} for phase in Phase}
        self._over = asyncio.Event()
        self._watch: asyncio.TimerHandle | None = None

    def __call__(self) -> RequestHandler:
        """Make the protocol of a new connection."""
        return Connection(self)

    @property
    def count(self) -> int:
        """How many connections there are."""
        return len(self._open)

    async def _answer(self, request: BaseRequest) -> StreamResponse:
        """Have a request answered, unless its address has its share of requests under way already."""
        forwarded = request.headers.getall("X-Forwarded-For", [])
        request[ADDRESS] = clients.address_of(request.remote, forwarded, self._trusted_proxies)
        request[BY_PROXY] = request[CONNECTION].subject is None
        subject = clients.subjects_of(request[ADDRESS])[0]
        if self._requests_of[subject] >= self._max_share:
            return self.answering.refuse_unparsed(request, RequestRefused(Fault.CROWDED))
        self._requests_of[subject] += 1
        try:
            return await self.answering(request)
        finally:
            _count_down(self._requests_of, subject)

    def subject_of(self, peer: Sequence[object] | None) -> str | None:
        """Return what a connection is counted by; None: by nothing, a trusted proxy's."""
        address = clients.address_of(str(peer[0]) if peer else None, (), ())
        is_trusted = any(address in network for network in self._trusted_proxies)
        return None if is_trusted else clients.subjects_of(address)[0]

    def note(self, connection: Connection, phase: Phase | None) -> None:
        """Note what a connection waits for from now on; None: it is being answered."""
        if connection not in self._open:
            return
        for other in (Phase.BODY, Phase.IDLE, Phase.HEAD):
            if other is not phase:
                self._waiting[other].pop(connection, None)
        if phase is not None:
            self._waiting[phase].setdefault(connection, self.loop.time())
            if phase is Phase.IDLE and self.is_draining:
                connection.force_close()

    def awaits(self, connection: Connection) -> bool:
        """Tell whether a connection waits for its client's next request, and answers none."""
        return any(connection in self._waiting[phase] for phase in (Phase.IDLE, Phase.HEAD))

    def note_unread(self, connection: Connection) -> None:
        """Note that a client leaves an answer unread."""
        self._waiting[Phase.UNREAD].setdefault(connection, self.loop.time())

    def note_read(self, connection: Connection) -> None:
        """Note that the client has read the answer."""
        self._waiting[Phase.UNREAD].pop(connection, None)

    def forget(self, connection: Connection) -> None:
        """Note that a connection is over."""
        if connection in self._open:
            self._open.remove(connection)
            _count_down(self._connections_of, connection.subject)
        for connections in self._waiting.values():
            connections.pop(connection, None)
        self._note_end()

    def begin_one(self) -> "asyncio.Task[object] | None":
        """Note that this task answers a request: `drain` waits for it, even where its client has gone."""
        task = asyncio.current_task()
        self._under_way.add(task)
        return task

    def end_one(self, task: "asyncio.Task[object] | None") -> None:
        """Note that the request of a task has been answered."""
        self._under_way.discard(task)
        self._note_end()

    def _note_end(self) -> None:
        if not self._open and not self._under_way:
            self._over.set()

    def admit(self, newcomer: Connection) -> None:
        """Take a connection in, and close another where there are too many (see the class)."""
        self._open.add(newcomer)
        self._connections_of[newcomer.subject] += 1
        self._over.clear()
        self.note(newcomer, Phase.IDLE)
        if newcomer.subject and self._connections_of[newcomer.subject] > self._max_share:
            self._first_to_go(newcomer, newcomer.subject).abort()
        elif len(self._open) > self._max_connections:
            self._first_to_go(newcomer).abort()

    def _first_to_go(self, newcomer: Connection, subject: str | None = None) -> Connection:
        """Return which one to close for a newcomer; subject: one of that address."""
        for phase in Phase:
            for each in self._waiting[phase]:
                if each is not newcomer and subject in (None, each.subject):
                    return each
        return newcomer

    def watch(self) -> None:
        """Look at all connections once a second, from now on."""
        now = self.loop.time()
        for connection in self._overdue(Phase.HEAD, now - MAX_HEAD_SECONDS):
            connection.refuse(HeadTooSlow())
        for connection in self._overdue(Phase.IDLE, now - MAX_IDLE_SECONDS):
            connection.abort()
        for connection in self._overdue(Phase.UNREAD, now - MAX_DRAIN_SECONDS):
            connection.abort()
        self._watch = self.loop.call_later(LOOK_INTERVAL_SECONDS, self.watch)

    def _overdue(self, phase: Phase, since: float) -> list[Connection]:
        found = []
        for connection, began in self._waiting[phase].items():
            if began > since:
                break
            found.append(connection)
        return found

    async def drain(self, grace: float) -> None:
        """Close idle connections, and wait within the grace until every request under way is answered."""
        self.is_draining = True
        for connection in [*self._waiting[Phase.IDLE]]:
            connection.force_close()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                while self._open or self._under_way:
                    await self._over.wait()

    def end(self) -> None:
        """End all that is left."""
        if self._watch is not None:
            self._watch.cancel()
        for connection in [*self._open]:
            connection.abort()


def _count_down(counts: Counter[Any], subject: str | None) -> None:
    counts[subject] -= 1
    if not counts[subject]:
        del counts[subject]
