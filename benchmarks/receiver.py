"""A receiver light enough not to be the limit: it finds the end of a request and answers 200.

It verifies nothing (the tests' receiver does). The first part of the path says how it behaves: `/hook/`
answers after --delay-ms, but for what holds the text --hangs-on, `/fail/` answers 500, `/hang/` never. For
the rig: `/-/stats` (JSON), `/-/arrivals` (a line `event_id seconds` for each request since the last reset,
with --log), `/-/reset`; `/-/hold`: from now on nothing is answered, until `/-/let-go`. Prints its ports.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import cast

import uvloop

from webhook_dispatcher.local.certificate import NAMES, server_context

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
FAILED = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
_END = b"\r\n\r\n"
_LENGTH = b"\r\nContent-Length: "
_ID = b"\r\nService-Event-Id: "


class Counts:
    """What arrived since the last reset; times are of the machine's monotonic clock."""

    def __init__(self, keeps_arrivals: bool) -> None:
        self._keeps_arrivals = keeps_arrivals
        self.connections = 0
        self.is_holding = False
        self.reset()

    def reset(self) -> None:
        """Forget everything but the connections."""
        self.requests = 0
        self.first_at = self.last_at = 0.0
        self.cpu_before = time.process_time()
        self._arrivals: list[tuple[bytes, float]] = []

    def note(self, event_id: bytes) -> None:
        """Count a request."""
        now = time.monotonic()
        if not self.requests:
            self.first_at = now
        self.requests += 1
        self.last_at = now
        if self._keeps_arrivals:
            self._arrivals.append((event_id, now))

    def stats(self) -> bytes:
        """Return the counts as JSON."""
        return json.dumps(
            {
                "requests": self.requests,
                "first_at": self.first_at,
                "last_at": self.last_at,
                "connections": self.connections,
                "cpu_seconds": time.process_time() - self.cpu_before,
            }
        ).encode()

    def arrivals(self) -> bytes:
        """Return every request's event and moment."""
        return b"".join(b"%s %.6f\n" % arrival for arrival in self._arrivals)


class Connection(asyncio.Protocol):
    """One connection; requests come one after the other."""

    def __init__(self, counts: Counts, delay: float, hangs_on: bytes) -> None:
        self._counts = counts
        self._delay = delay
        self._hangs_on = hangs_on
        self._parts: list[bytes] = []
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is no subclass
        self._counts.connections += 1

    def data_received(self, data: bytes) -> None:
        """Answer when a whole request is there; what is long is put together only once."""
        if self._parts:
            self._parts.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        end = data.find(_END)
        if end < 0:
            self._wait(data, 1)
            return
        at = data.find(_LENGTH, 0, end)
        if at >= 0:
            length = int(data[at + len(_LENGTH) : data.find(b"\r", at + 2)])
            if (missing := end + len(_END) + length - len(data)) > 0:
                self._wait(data, missing)
                return
        self._answer(data)

    def _wait(self, data: bytes, missing: int) -> None:
        self._parts.append(data)
        self._missing = missing

    def _answer(self, data: bytes) -> None:
        path = data[data.find(b"/") : data.find(b" HTTP/")]
        if path.startswith(b"/-/"):
            self._answer_rig(path)
            return
        at = data.find(_ID) + len(_ID)
        self._counts.note(data[at : data.find(b"\r", at)])
        if path.startswith(b"/hang/") or self._counts.is_holding:
            return
        if self._hangs_on and self._hangs_on in data:
            return
        answer = FAILED if path.startswith(b"/fail/") else OK
        if self._delay:
            asyncio.get_running_loop().call_later(self._delay, self._transport.write, answer)
        else:
            self._transport.write(answer)

    def _answer_rig(self, path: bytes) -> None:
        if path == b"/-/reset":
            self._counts.reset()
        elif path in (b"/-/hold", b"/-/let-go"):
            self._counts.is_holding = path == b"/-/hold"
        body = self._counts.arrivals() if path == b"/-/arrivals" else self._counts.stats()
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


async def serve(options: argparse.Namespace) -> None:
    """Serve until terminated."""
    counts = Counts(options.log)

    def connected() -> Connection:
        return Connection(counts, options.delay_ms / 1000, options.hangs_on.encode())

    loop = asyncio.get_running_loop()
    plain = await loop.create_server(connected, "127.0.0.1", 0, backlog=4096)
    ports = {"http": plain.sockets[0].getsockname()[1]}
    if options.ca_file is not None:
        tls = await loop.create_server(
            connected, "127.0.0.1", 0, ssl=server_context(options.ca_file, options.names), backlog=4096
        )
        ports["https"] = tls.sockets[0].getsockname()[1]
    print(json.dumps(ports), flush=True)
    await plain.serve_forever()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--hangs-on", default="", metavar="TEXT", help="leave a request with it unanswered")
    parser.add_argument("--ca-file", type=Path, help="serve TLS besides; the authority is written here")
    parser.add_argument("--names", nargs="+", default=NAMES, help="in the certificate")
    parser.add_argument("--log", action="store_true", help="keep each request's event and moment")
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
