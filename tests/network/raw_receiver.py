"""A receiver that misbehaves byte by byte: real sockets, real TLS, and full control of what is written."""

import asyncio
import ctypes
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

from tests.network.stream_server import StreamServer

# Linux, socket(7): a program of one instruction, which drops every segment that comes in.
SO_ATTACH_FILTER = 26
DROP = struct.pack("HBBI", 0x06, 0, 0, 0)


@dataclass(frozen=True)
class Request:
    """One request as it arrived, and how to answer it."""

    head: bytes
    body: bytes
    connection: int
    writer: asyncio.StreamWriter

    async def answer(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """Close with RST."""
        sock = self.writer.get_extra_info("socket")
        if sock is not None:  # None once it is closed
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0]

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }


Behaviour = Callable[[Request], Awaitable[None]]
Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawReceiver(StreamServer):
    """Serve on a loopback port; every request is kept, then given to `behave`.

    converse: talks to each connection instead, without reading any request for it.
    wanted_port: 0 is any.
    """

    behave: Behaviour | None = None
    context: ssl.SSLContext | None = None
    address: str = "127.0.0.1"
    converse: Conversation | None = None
    wanted_port: int = 0
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    async def __aenter__(self) -> Self:
        await self._listen(self.address, self.wanted_port, self.context)
        return self

    def url(self, rest: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"{'https' if self.context else 'http'}://{host}:{self.port}{rest}"

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if self.converse is not None:
                await self.converse(reader, writer)
            else:
                await self._answer_requests(reader, writer, self.connections)
        except (OSError, EOFError):
            pass

    async def _answer_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        while not writer.is_closing():
            head = await reader.readuntil(b"\r\n\r\n")
            length = Request(head, b"", number, writer).headers.get("content-length", "0")
            request = Request(head, await reader.readexactly(int(length)), number, writer)
            self.requests.append(request)
            assert self.behave is not None
            await self.behave(request)


def answering(data: bytes) -> Behaviour:
    """Write these bytes and keep the connection open."""

    async def behave(request: Request) -> None:
        await request.answer(data)

    return behave


def status(line: str, *headers: str, body: bytes = b"") -> bytes:
    """Render an answer with its length."""
    return "\r\n".join([f"HTTP/1.1 {line}", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


OK = status("200 OK", body=b"ok")


def go_deaf(connection: socket.socket) -> None:
    """Receive nothing more; what is sent from here still arrives."""
    program = ctypes.create_string_buffer(DROP)
    connection.setsockopt(
        socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(program))
    )
