"""What one connection can make the server of API and console hold, however it sends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response

from tests.waiting import until
from webhook_dispatcher.web.server import MAX_PIPELINED, Connection, WebServer

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
OF_THE_PARSER = 32
"""Requests that aiohttp's parser takes out of what came in one piece."""


class Slow:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.connections = set[Connection]()

    async def __call__(self, request: BaseRequest) -> Response:
        assert isinstance(request.protocol, Connection)
        self.connections.add(request.protocol)
        await self.goes_on.wait()
        return Response()

    def refuse_unparsed(self, request: BaseRequest, error: BaseException | None) -> Response:
        raise AssertionError


@asynccontextmanager
async def connected(slow: Slow) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    server = WebServer(slow, 10)
    async with await server.loop.create_server(server, "127.0.0.1", 0) as listener:
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        yield reader, writer
        slow.goes_on.set()
        writer.transport.abort()
        await server.drain(10)


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
