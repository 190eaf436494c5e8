"""HTTP as bytes: what is sent is what the test wrote, and what comes back is read to the last byte."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.waiting import MAX_WAIT


@dataclass(frozen=True)
class Reply:
    """An answer; names of headers are in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """Return the error, after a look at the envelope."""
        assert self.headers["content-type"] == "application/json"
        assert set(self.json) == {"success", "error", "meta"}
        assert self.json["success"] is False
        return self.json["error"]


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *parts: bytes) -> None:
        """Send what the server may not want any more, too."""
        try:
            for part in parts:
                self.writer.write(part)
                await self.writer.drain()
        except ConnectionError:
            pass

    async def reply(self, has_body: bool = True) -> Reply:
        """Read the next answer."""
        async with asyncio.timeout(MAX_WAIT):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip("\r\n").split("\r\n")
            pairs = [line.split(": ", 1) for line in lines]
            headers = {name.lower(): value for name, value in pairs}
            assert len(headers) == len(pairs), "a header is there twice"
            size = int(headers.get("content-length", 0)) if has_body else 0
            return Reply(int(first.split()[1]), headers, await self.reader.readexactly(size))

    async def until_ended(self) -> bytes:
        """Wait until the server closes, and return what it had sent."""
        came = bytearray()
        try:
            while part := await self.reader.read(1024):
                came += part
        except ConnectionError:
            pass
        return bytes(came)

    async def is_ended(self) -> bool:
        """Tell whether the server closes: True when it has; False when a request is answered instead."""
        await self.send(b"GET /v1/things/still-there HTTP/1.1\r\nHost: api\r\n\r\n")
        try:
            return (await self.reply()).status != 200
        except (asyncio.IncompleteReadError, ConnectionError):
            return True


@asynccontextmanager
async def connected(port: int, address: str | None = None) -> AsyncIterator[RawClient]:
    """Keep a connection open while entered. address: of ours, of those that begin with 127."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, limit=16 * 1_048_576, local_addr=(address, 0) if address else None
    )
    try:
        yield RawClient(reader, writer)
    finally:
        writer.transport.abort()


async def asked(port: int, request: bytes, address: str | None = None) -> Reply:
    """Send one request over a connection of its own, and return the answer."""
    async with connected(port, address) as client:
        await client.send(request)
        return await client.reply(has_body=not request.startswith(b"HEAD"))
