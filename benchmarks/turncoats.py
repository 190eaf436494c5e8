"""Merchants that accept what they are sent until they are told to fail, all in the same way. TLS only.

They listen on one port at many loopback addresses: 127.0.2.1, which all of them may share, and networks
apart (127.0.3.1, 127.0.4.1, …). For the rig, on a port without TLS: `/-/stats` (JSON) and `/-/turn/HOW`, with
HOW one of `well`, `closing` (well, but a connection for each request), a status, `time-out` (no answer),
`refusal` (nobody listens) and `tls` (a stranger's certificate); whatever it is, open connections are cut.
Prints both ports.
"""

import argparse
import asyncio
import json
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import trustme
import uvloop

BACKLOG = 4096
NAME = "*.hooks.example.com"
LOOPBACK, SHARED = "127.0.0.1", "127.0.2.1"
_END = b"\r\n\r\n"
_LENGTH = b"\r\nContent-Length: "


def apart(number: int) -> str:
    """Return an address in a network of its own."""
    return f"127.0.{3 + number}.1"


class Turncoats:
    """All of them: what they do now, and who is connected."""

    def __init__(self, addresses: Sequence[str], ca_file: Path) -> None:
        self._addresses = addresses
        self._known, self._strange = trustme.CA(), trustme.CA()
        self._known.cert_pem.write_to_path(str(ca_file))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server: asyncio.Server | None = None
        self.port = 0
        self.status: int | None = 200
        self.closes = False
        self.requests = 0
        self.connections: set[asyncio.Transport] = set()

    async def turn(self, how: str) -> None:
        """Do this from now on."""
        self.status = {"well": 200, "time-out": None}.get(how, int(how) if how.isdigit() else 200)
        self.closes = how == "closing"
        authority = self._strange if how == "tls" else self._known
        authority.issue_cert(NAME, *self._addresses).configure_cert(self._context)
        if self._server is not None:
            self._server.close()
            self._server = None
        for transport in list(self.connections):
            transport.abort()
        if how != "refusal":
            await self._listen()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        if not self.port:
            probe = await loop.create_server(asyncio.Protocol, self._addresses[0], 0)
            self.port = probe.sockets[0].getsockname()[1]
            probe.close()
        self._server = await loop.create_server(
            lambda: Connection(self), self._addresses, self.port, ssl=self._context, backlog=BACKLOG
        )


class Connection(asyncio.Protocol):
    """One connection of one of them; a request is short, but may come in pieces."""

    def __init__(self, all_of_them: Turncoats) -> None:
        self._all = all_of_them
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be known."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is no subclass
        self._all.connections.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Be forgotten."""
        self._all.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        """Answer when a whole request is there."""
        self._received += data
        end = self._received.find(_END)
        at = self._received.find(_LENGTH, 0, end)
        if end < 0 or at < 0:
            return
        length = int(self._received[at + len(_LENGTH) :].split(b"\r", 1)[0])
        if len(self._received) < end + len(_END) + length:
            return
        self._received = b""
        self._all.requests += 1
        if self._all.status is not None:
            self._transport.write(b"HTTP/1.1 %d Said\r\nContent-Length: 0\r\n\r\n" % self._all.status)
            if self._all.closes:
                self._transport.close()


async def serve(options: argparse.Namespace) -> None:
    """Serve until terminated."""
    turncoats = Turncoats([LOOPBACK, SHARED, *map(apart, range(options.merchants))], options.ca_file)
    await turncoats.turn("well")

    async def control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(_END)).split()[1].decode()
        if path.startswith("/-/turn/"):
            turncoats.requests = 0
            await turncoats.turn(path.removeprefix("/-/turn/"))
        body = json.dumps({"requests": turncoats.requests}).encode()
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(control, LOOPBACK, 0)
    ports = {"https": turncoats.port, "control": server.sockets[0].getsockname()[1]}
    print(json.dumps(ports), flush=True)
    await server.serve_forever()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--merchants", type=int, required=True, help="that have networks of their own")
    parser.add_argument("--ca-file", type=Path, required=True, help="write the authority to trust here")
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
