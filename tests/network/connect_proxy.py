"""An HTTP proxy on loopback that speaks CONNECT: it resolves by a table, or answers as it is told."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from tests.network.stream_server import StreamServer

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class ConnectProxy(StreamServer):
    """Open tunnels to where `targets` says that "host:port" is, or answer 503.

    converse: handles each connection instead, after the head of its CONNECT.
    """

    targets: Mapping[str, int] = field(default_factory=dict)
    converse: Callable[[bytes, asyncio.StreamWriter], Awaitable[None]] | None = None
    heads: list[bytes] = field(default_factory=list)
    tunnels: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def asked(self) -> list[str]:
        """The targets of all CONNECTs."""
        return [head.split()[1].decode() for head in self.heads]

    def stop_listening(self) -> None:
        """Leave the port to somebody else; tunnels go on."""
        self._server.close()

    def cut_tunnels(self) -> None:
        """Reset all tunnels, as a proxy that restarts does."""
        for writer in self.tunnels:
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            if self.converse is not None:
                await self.converse(head, writer)
            else:
                await self._tunnel(head, reader, writer)
        except (OSError, EOFError):
            pass

    async def _tunnel(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self.targets.get(head.split()[1].decode())
        if port is None:
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_DNS_FAIL 0\r\n\r\n")
            await writer.drain()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        self.tunnels.append(writer)
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 here\r\n\r\n")
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            await _close(far_writer)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def saying(*lines: str) -> Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]:
    """Answer CONNECT with these lines."""

    async def converse(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await writer.drain()

    return converse
