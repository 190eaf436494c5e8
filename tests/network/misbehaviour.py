"""The scenes of the receiver catalogue: each sets up one misbehaving receiver and says where to post to."""

import asyncio
import socket
import ssl
import tempfile
import threading
import time
import warnings
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import trustme

from tests.network.raw_receiver import Behaviour, Conversation, RawReceiver, Request, answering

authority = trustme.CA()
stranger = trustme.CA()
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@dataclass
class Target:
    """Where to post to, and what has arrived there."""

    url: str
    requests: list[Request] = field(default_factory=list)


Scene = Callable[[], AbstractAsyncContextManager[Target]]


def context_of(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


_good = authority.issue_cert("127.0.0.1")


def good_context() -> ssl.SSLContext:
    return context_of(_good)


def does(behave: Behaviour, context: Callable[[], ssl.SSLContext] = good_context) -> Scene:
    """Read each request over TLS, then behave like this."""

    @asynccontextmanager
    async def scene() -> AsyncIterator[Target]:
        async with RawReceiver(behave, context()) as receiver:
            yield Target(receiver.url(), receiver.requests)

    return scene


def says(data: bytes, context: Callable[[], ssl.SSLContext] = good_context) -> Scene:
    """Read each request over TLS, answer with these bytes, and keep the connection open."""
    return does(answering(data), context)


def talks(converse: Conversation, context: Callable[[], ssl.SSLContext | None] = good_context) -> Scene:
    """Talk to each connection, over TLS or (None) on the bare TCP where TLS is due."""

    @asynccontextmanager
    async def scene() -> AsyncIterator[Target]:
        async with RawReceiver(None, context(), converse=converse) as receiver:
            yield Target(f"https://127.0.0.1:{receiver.port}/")

    return scene


def plainly(converse: Conversation) -> Scene:
    return talks(converse, lambda: None)


def presents(certificate: trustme.LeafCert) -> Scene:
    """Answer well, under this certificate."""
    return says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", lambda: context_of(certificate))


def is_called(name: str) -> Scene:
    """Nobody listens there; all that counts is what the name server says."""

    @asynccontextmanager
    async def scene() -> AsyncIterator[Target]:
        async with nobody_listens() as target:
            yield Target(target.url.replace("127.0.0.1", name))

    return scene


@asynccontextmanager
async def nobody_listens() -> AsyncIterator[Target]:
    # Bound and never listening: refused, and nobody else can get the port.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield Target(f"https://127.0.0.1:{taken.getsockname()[1]}/")


@asynccontextmanager
async def backlog_is_full() -> AsyncIterator[Target]:
    """Linux drops the SYN when the queue of connections that wait to be accepted is full."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for caller in (first, second):
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield Target(f"https://127.0.0.1:{listener.getsockname()[1]}/")


@asynccontextmanager
async def we_stand_still() -> AsyncIterator[Target]:
    """Answer at once, from a thread; but our own event loop stands still until after the deadline."""
    ready, leave = threading.Event(), threading.Event()
    target = Target("")

    def serve() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            target.url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
            ready.set()
            with good_context().wrap_socket(listener.accept()[0], server_side=True) as connection:
                connection.recv(65536)
                loop.call_soon_threadsafe(time.sleep, 1.0)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                leave.wait(10)

    loop = asyncio.get_running_loop()
    thread = threading.Thread(target=serve)
    thread.start()
    await asyncio.to_thread(ready.wait, 5)
    try:
        yield target
    finally:
        leave.set()
        await asyncio.to_thread(thread.join)


# What receivers do once they have read a request.


async def answer_never(request: Request) -> None:
    await asyncio.Event().wait()


def ends(sent: bytes, ending: Callable[[Request], None]) -> Behaviour:
    async def behave(request: Request) -> None:
        await request.answer(sent)
        ending(request)

    return behave


def arrives_then_resets(sent: bytes) -> Behaviour:
    """Reset only after what was sent has been read: a reset discards what has not."""

    async def behave(request: Request) -> None:
        await request.answer(sent)
        await asyncio.sleep(0.02)
        request.reset()

    return behave


def drips(head: bytes, drop: bytes = b"x", every: float = 0.01) -> Behaviour:
    async def behave(request: Request) -> None:
        await request.answer(head)
        while True:
            await asyncio.sleep(every)
            await request.answer(drop)

    return behave


def pours(head: bytes, drop: bytes = b"x" * 65536) -> Behaviour:
    # With a turn of the loop in between: a write to a connection that was reset never waits.
    return drips(head, drop, every=0)


def waits(seconds: float, data: bytes) -> Behaviour:
    async def behave(request: Request) -> None:
        await asyncio.sleep(seconds)
        await request.answer(data)

    return behave


def closes_the_second(first: bytes, ending: Callable[[Request], None]) -> Callable[[], Behaviour]:
    """Close a kept connection as the second request comes in on it."""

    def make() -> Behaviour:
        used: set[int] = set()

        async def behave(request: Request) -> None:
            if request.connection in used:
                ending(request)
            else:
                used.add(request.connection)
                await request.answer(first)

        return behave

    return make


def does_anew(make: Callable[[], Behaviour]) -> Scene:
    """Like `does`, with a behaviour that remembers: a new one for each scene."""
    return lambda: does(make())()


# What they do with a connection.


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def shake_hands_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = good_context().wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(await reader.read(65536))
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    for byte in outgoing.read():
        writer.write(bytes([byte]))
        await asyncio.sleep(0.01)


def greets(data: bytes) -> Conversation:
    """Say this where TLS is due, and close."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)
        writer.close()

    return converse


def answers_the_head(data: bytes, *, then_closes: bool) -> Conversation:
    """Answer before the body is read, and never read it."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        if then_closes:
            writer.close()
        else:
            await asyncio.Event().wait()

    return converse


# Certificates and versions of TLS.

expired = authority.issue_cert("127.0.0.1", not_before=LONG_AGO, not_after=LONG_AGO + timedelta(days=1))
not_yet_valid = authority.issue_cert("127.0.0.1", not_before=LONG_AGO + timedelta(days=365 * 90))
wrong_host = authority.issue_cert("hooks.example.org")
unknown_issuer = stranger.issue_cert("127.0.0.1")


def self_signed() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(stranger.private_key_pem.bytes() + stranger.cert_pem.bytes())
        file.flush()
        context.load_cert_chain(file.name)
    return context


def only(version: ssl.TLSVersion) -> Callable[[], ssl.SSLContext]:
    def make() -> ssl.SSLContext:
        context = good_context()
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = version
        return context

    return make


def wants_a_client_certificate(version: ssl.TLSVersion) -> Callable[[], ssl.SSLContext]:
    def make() -> ssl.SSLContext:
        context = only(version)()
        context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(context)
        return context

    return make


def gzip_bomb() -> bytes:
    """Pack 1 GiB into 1 MiB: one fully flushed block of zeros, repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + block * 1024 + packer.flush()
