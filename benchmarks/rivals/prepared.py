"""The receiver's own limit: prepared requests over kept connections, each written again when it is answered.

Nothing is rendered, signed or parsed, so that whatever limits it is not this process but the receiver.
"""

import argparse
import asyncio
from collections.abc import Iterator
from functools import partial
from typing import cast
from urllib.parse import urlsplit

import uvloop

from benchmarks.bodies import EVENT_TYPE
from benchmarks.rivals.posting import backlog
from benchmarks.rivals.run import Run

OK = b"HTTP/1.1 200 "
_HEAD = """POST {path}{merchant_id} HTTP/1.1\r
Host: {host}\r
Content-Type: application/json; charset=utf-8\r
User-Agent: webhook-dispatcher/rival\r
Service-Event-Id: {event_id}\r
Service-Event-Type: {event_type}\r
Service-Signature: t=1763626530,v1={signature}\r
Content-Length: {length}\r
\r
"""


class Connection(asyncio.Protocol):
    """One connection; it writes its request for as long as there are any to be written."""

    def __init__(self, request: bytes, remaining: Iterator[int], run: Run) -> None:
        self._request = request
        self._remaining = remaining
        self._run = run

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what is written to."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is no subclass

    def post(self) -> None:
        """Write the request, unless there were enough."""
        if next(self._remaining, None) is not None:
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take what arrives for one whole answer: the receiver writes it at once, and it is short."""
        if not data.startswith(OK):
            raise SystemExit(f"the receiver answered {data[:40]!r}")
        self._run.finished()
        self.post()


def requests(options: argparse.Namespace) -> Iterator[bytes]:
    """Render a request for each connection."""
    url = urlsplit(options.url)
    for event in backlog(options.connections, options.connections, options.bytes):
        head = _HEAD.format(
            path=url.path,
            merchant_id=event.merchant_id,
            host=url.netloc,
            event_id=event.event_id,
            event_type=EVENT_TYPE,
            signature="0" * 64,
            length=len(event.body),
        )
        yield head.encode() + event.body


async def work(options: argparse.Namespace) -> None:
    """Post until so many requests are answered."""
    run, remaining, loop = Run(options.events), iter(range(options.events)), asyncio.get_running_loop()
    url = urlsplit(options.url)
    connections = []
    for request in requests(options):
        made = partial(Connection, request, remaining, run)
        _, connection = await loop.create_connection(made, url.hostname, url.port)
        connections.append(connection)
    await run.start()
    for connection in connections:
        connection.post()
    await run.over.wait()
    run.report()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    command = parser.add_subparsers(required=True).add_parser("work")
    command.add_argument("--url", required=True)
    command.add_argument("--events", type=int, required=True)
    command.add_argument("--connections", type=int, default=100)
    command.add_argument("--bytes", type=int, default=1_000)
    uvloop.run(work(parser.parse_args()))


if __name__ == "__main__":
    main()
