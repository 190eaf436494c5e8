"""What one connection can make the server of API and console hold, however it sends."""

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response

from tests.waiting import MAX_WAIT, until
from webhook_dispatcher.web import body
from webhook_dispatcher.web.body import read_body
from webhook_dispatcher.web.faults import RequestRefused
from webhook_dispatcher.web.server import CONNECTION, MAX_PIPELINED, Answering, Connection, WebServer

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
OF_THE_PARSER = 32
"""Requests that aiohttp's parser takes out of what came in one piece."""


class Slow:
    """Answers when it is told to, with so many bytes."""

    def __init__(self, size: int = 0) -> None:
        self.goes_on = asyncio.Event()
        self.connections = set[Connection]()
        self.size, self.answered = size, 0

    async def __call__(self, request: BaseRequest) -> Response:
        self.connections.add(request[CONNECTION])
        await self.goes_on.wait()
        self.answered += 1
        return Response(body=bytes(self.size))

    def refuse_unparsed(self, request: BaseRequest, error: BaseException | None) -> Response:
        raise AssertionError


@asynccontextmanager
async def listening(answering: Answering, max_connections: int = 10) -> AsyncIterator[tuple[str, int]]:
    """Serve while entered, at an address and port."""
    server = WebServer(answering, max_connections)
    async with await server.loop.create_server(server, "127.0.0.1", 0) as listener:
        yield listener.sockets[0].getsockname()
        server.end()
        await server.drain(MAX_WAIT)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def opened(place: tuple[str, int], address: str | None = None) -> AsyncIterator[Streams]:
    """Keep a connection open while entered; address: of ours, of those that begin with 127."""
    reader, writer = await asyncio.open_connection(*place, local_addr=(address, 0) if address else None)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def connected(slow: Slow) -> AsyncIterator[Streams]:
    async with listening(slow) as place, opened(place) as streams:
        yield streams
        slow.goes_on.set()


def is_read(connection: Connection) -> bool:
    """Tell whether the server reads what comes on a connection."""
    assert connection.transport is not None
    return connection.transport.is_reading()


async def test_requests_that_wait_for_the_one_before_are_few_and_the_rest_is_not_read() -> None:
    slow = Slow()
    async with connected(slow) as (reader, writer):
        writer.write(GET * 10_000)
        await until(lambda: bool(slow.connections))
        [connection] = slow.connections
        await until(lambda: not is_read(connection))
        assert len(connection._messages) <= OF_THE_PARSER
        slow.goes_on.set()
        for _ in range(10_000):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_requests_that_come_one_by_one_wait_in_twos() -> None:
    slow = Slow()
    async with connected(slow) as (_, writer):
        writer.write(GET)
        await until(lambda: bool(slow.connections))
        [connection] = slow.connections
        for count in range(1, MAX_PIPELINED + 1):
            assert is_read(connection)
            writer.write(GET)
            await until(lambda: len(connection._messages) == count)  # noqa: B023 - waited for in the same turn
        assert not is_read(connection)


async def test_draining_waits_for_a_request_whose_client_has_gone() -> None:
    slow = Slow()
    async with listening(slow) as place:
        async with opened(place) as (_, writer):
            writer.write(GET)
            await until(lambda: bool(slow.connections))
            # Reset: one that is merely closed may be half-closed, and is kept until it is answered.
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        [connection] = slow.connections
        server = connection._server
        await until(lambda: server.count == 0)
        server.loop.call_soon(slow.goes_on.set)
        await server.drain(MAX_WAIT)
        assert slow.answered == 1


async def test_who_reads_nothing_goes_where_all_places_are_taken() -> None:
    slow, places = Slow(16 * 1_048_576), 4
    slow.goes_on.set()
    async with listening(slow, places) as place, AsyncExitStack() as stack:
        for number in range(places):
            _, writer = await stack.enter_async_context(opened(place, f"127.0.1.{number + 1}"))
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(GET)
        await until(lambda: [each.writing_paused for each in slow.connections] == [True] * places)
        slow.size = 0
        reader, writer = await stack.enter_async_context(opened(place, "127.0.2.1"))
        writer.write(GET)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


MOST = 1_048_576


class Reading:
    """Answers with the length of the body, or the fault that it has."""

    def __init__(self, is_strangers: bool) -> None:
        self.is_strangers = is_strangers

    async def __call__(self, request: BaseRequest) -> Response:
        try:
            found = await read_body(request, MOST, is_strangers=self.is_strangers)
        except RequestRefused as error:
            return Response(text=error.fault.name)
        return Response(text=str(len(found)))

    def refuse_unparsed(self, request: BaseRequest, error: BaseException | None) -> Response:
        raise AssertionError


@pytest.mark.parametrize("is_strangers", [True, False])
async def test_a_stranger_has_a_least_rate_and_who_is_known_has_not(
    monkeypatch: pytest.MonkeyPatch, is_strangers: bool
) -> None:
    """A byte comes again and again, for longer than a body may stall."""
    monkeypatch.setattr(body, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(body, "MAX_SECONDS", MAX_WAIT)
    async with listening(Reading(is_strangers)) as place, opened(place) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
        for _ in range(100):
            writer.write(b"x")
            await asyncio.sleep(0.01)
        _, found = await reader.readuntil(b"\r\n\r\n"), await reader.read(1024)
        assert found == (b"TOO_SLOW" if is_strangers else b"100")


async def test_a_strangers_body_that_comes_fast_is_waited_for_a_few_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body, "STALL_SECONDS", 2.0)
    monkeypatch.setattr(body, "MAX_SECONDS_OF_STRANGERS", 4.0)
    async with listening(Reading(True)) as place, opened(place) as (reader, writer):
        first = bytes(64 * 1024)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (len(first) + 1) + first)
        began = time.monotonic()
        _, found = await reader.readuntil(b"\r\n\r\n"), await reader.read(1024)
        assert found == b"TOO_SLOW"
        assert time.monotonic() - began >= 3.9


@pytest.mark.parametrize(("more", "wanted"), [(0, b"%d" % MOST), (1, b"BODY_TOO_LARGE")])
async def test_a_body_in_chunks_may_be_as_large_as_its_bound(more: int, wanted: bytes) -> None:
    async with listening(Reading(is_strangers=False)) as place, opened(place) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (MOST + more, bytes(MOST + more)))
        _, found = await reader.readuntil(b"\r\n\r\n"), await reader.read(1024)
        assert found == wanted
