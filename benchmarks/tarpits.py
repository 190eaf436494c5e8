"""Receivers that hang at each stage, and a name server that never answers, in a process of its own.

Prints its ports as a line of JSON, and when it is stopped how many connections, requests or queries each got.
"""

import argparse
import asyncio
import json
import signal
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import uvloop

from benchmarks.merchants import DRIP, MUTE, NAMELESS, SILENT
from webhook_dispatcher.local.certificate import server_context

DRIP_SECONDS = 1.0
BACKLOG = 4096


class Silent(asyncio.Protocol):
    """Accepts and says nothing; what comes is thrown away."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._counts[SILENT] += 1


class Mute(asyncio.Protocol):
    """Reads a request (TLS is done by then) and never answers."""

    kind = MUTE

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._is_asked = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._counts[self.kind] += 1
            self.asked()

    def asked(self) -> None:
        """Do nothing about the request."""


class Drip(Mute):
    """Answers with a status line and then one header after the other, without an end."""

    kind = DRIP

    def asked(self) -> None:
        self._send(b"HTTP/1.1 200 OK\r\n")

    def _send(self, text: bytes) -> None:
        if self.transport is not None:
            self.transport.write(text)
            asyncio.get_running_loop().call_later(DRIP_SECONDS, self._send, b"X-Soon: yes\r\n")


class DeadNameServer(asyncio.DatagramProtocol):
    """Takes queries and answers none."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._counts[NAMELESS] += 1


async def serve(ca_file: Path) -> None:
    """Hang until told to stop."""
    loop = asyncio.get_running_loop()
    counts: Counter[str] = Counter()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    tls = server_context(ca_file)
    ports = {}
    for kind, protocol, context in ((SILENT, Silent, None), (MUTE, Mute, tls), (DRIP, Drip, tls)):
        server = await loop.create_server(
            partial(protocol, counts), "127.0.0.1", 0, ssl=context, backlog=BACKLOG
        )
        ports[kind] = server.sockets[0].getsockname()[1]
    transport, _ = await loop.create_datagram_endpoint(
        partial(DeadNameServer, counts), local_addr=("127.0.0.1", 0)
    )
    ports[NAMELESS] = transport.get_extra_info("sockname")[1]
    _say(ports)
    await stopped.wait()
    _say(counts)


def _say(facts: dict[str, int]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ca-file", type=Path, required=True, help="write the authority to trust here")
    uvloop.run(serve(parser.parse_args().ca_file))


if __name__ == "__main__":
    main()
