"""Receivers that hang, each at another stage. Prints their ports."""

import argparse
import asyncio
import json
from pathlib import Path
from typing import cast

import uvloop

from webhook_dispatcher.local.certificate import server_context

DRIP_SECONDS = 1.0
BACKLOG = 4096


class Silent(asyncio.Protocol):
    """Accepts and says nothing; what comes is thrown away."""


class Mute(asyncio.Protocol):
    """Reads a request (TLS is done by then) and never answers."""

    def __init__(self) -> None:
        self._is_asked = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        if not self._is_asked:
            self._is_asked = True
            self.asked()

    def asked(self) -> None:
        """Do nothing about the request."""


class Drip(Mute):
    """Answers with a status line and then one header after the other, without an end."""

    def asked(self) -> None:
        self._send(b"HTTP/1.1 200 OK\r\n")

    def _send(self, text: bytes) -> None:
        if self.transport is not None:
            self.transport.write(text)
            asyncio.get_running_loop().call_later(DRIP_SECONDS, self._send, b"X-Soon: yes\r\n")


async def serve(ca_file: Path) -> None:
    """Hang until terminated."""
    loop = asyncio.get_running_loop()
    tls = server_context(ca_file)
    ports = {}
    for kind, protocol, context in (("silent", Silent, None), ("mute", Mute, tls), ("drip", Drip, tls)):
        server = await loop.create_server(protocol, "127.0.0.1", 0, ssl=context, backlog=BACKLOG)
        ports[kind] = server.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    await loop.create_future()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ca-file", type=Path, required=True, help="write the authority to trust here")
    uvloop.run(serve(parser.parse_args().ca_file))


if __name__ == "__main__":
    main()
