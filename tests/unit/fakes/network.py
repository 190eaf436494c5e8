"""A network in memory: a sender that answers as it is told, and what connections are made of."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast
from uuid import UUID

from aiohttp import ClientResponse
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import StreamWriter

from webhook_dispatcher.domain.verdict import NOT_SENT, Answer, Failure, may_always
from webhook_dispatcher.transport.buffers import Buffers
from webhook_dispatcher.transport.connection import HttpConnection

ORIGIN = "https://hooks.example.org:443"
TIMEOUT = 10.0


class FakeTransport(asyncio.Transport):
    """Notes what is written; `unwritten` bytes are still in its buffer, and `buffers` is what lies below."""

    def __init__(self, tls: object = None) -> None:
        super().__init__({"ssl_object": tls})
        self.written: list[bytes] = []
        self.buffers = FakeBuffers()
        self.unwritten = 0
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.written.append(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.written += list_of_data

    def get_write_buffer_size(self) -> int:
        return self.unwritten

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted


class FakeBuffers(Buffers):
    """Buffers that hold what a test says."""

    def __init__(self) -> None:
        self.is_unread = False
        self.bytes_unreceived = 0

    def has_unread(self) -> bool:
        return self.is_unread

    def unreceived(self) -> int:
        return self.bytes_unreceived

    def received(self) -> int:
        return 0


class FakeTimer:
    """A call that is due at some time, unless cancelled."""

    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self.when = when
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """What a connection needs of a loop; futures are the running one's."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().create_future()

    def call_at(self, when: float, call: Callable[[], object]) -> FakeTimer:
        timer = FakeTimer(when, call)
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass, ringing what is due in its order."""
        until = self.now + seconds
        while due := [timer for timer in self.timers if not timer.is_cancelled and timer.when <= until]:
            timer = min(due, key=lambda timer: timer.when)
            self.timers.remove(timer)
            self.now = max(self.now, timer.when)
            timer.call()
        self.now = until

    @property
    def real(self) -> asyncio.AbstractEventLoop:
        return cast(asyncio.AbstractEventLoop, self)


def connected(
    loop: FakeLoop,
    origin: str = ORIGIN,
    on_lost: Callable[[HttpConnection], None] = lambda _: None,
    tls: object = None,
) -> tuple[HttpConnection, FakeTransport]:
    """Return an idle connection and its transport."""
    transport = FakeTransport(tls)
    wire = HttpConnection(loop.real, origin, transport.buffers, on_lost)
    wire.connection_made(transport)
    return wire, transport


def sent(loop: FakeLoop, body: bytes = b"{}") -> tuple[HttpConnection, FakeTransport, "asyncio.Future[int]"]:
    """Return a connection on which a request was just sent, its transport, and the answer."""
    wire, transport = connected(loop)
    return wire, transport, wire.send(b"POST / HTTP/1.1\r\n\r\n", body, loop.now + TIMEOUT)


class FakeSender:
    """Answers what it is told to; `gate` keeps requests on the wire until it is set."""

    def __init__(self, *answers: Answer | Failure) -> None:
        self.answers = deque(answers)
        self.sent: list[tuple[str, Mapping[str, str], bytes]] = []
        self.gate: asyncio.Event | None = None
        self.on_post: Callable[[], None] = lambda: None

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, may_send: Callable[[], bool] = may_always
    ) -> Answer | Failure:
        if not may_send():
            return NOT_SENT
        self.sent.append((url, headers, body))
        self.on_post()
        if self.gate is not None:
            await self.gate.wait()
        return self.answers.popleft() if self.answers else Answer(200)

    @property
    def event_ids(self) -> list[int]:
        """Return the events sent, by the number that make_event made their ids from."""
        return [UUID(headers["Service-Event-Id"]).int for _, headers, _ in self.sent]


class Replied(ClientResponse):
    """A response as aioresponses makes it, with what aiohttp 3.14 wants besides."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(*args, stream_writer=StreamWriter(BaseProtocol(loop), loop), **kwargs)


SECRET = "what the receiver sent"


def unverified(words: str) -> ssl.SSLCertVerificationError:
    """Return the error of a certificate that does not verify."""
    error = ssl.SSLCertVerificationError(1, SECRET)
    error.verify_message = words
    return error


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, SECRET)
    error.reason = reason
    return error


def caused_by(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error
