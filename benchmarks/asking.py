"""Asks a server for one thing again and again, over kept connections, and says how long answers took.

As fast as it answers, each connection asking again as soon as it has its answer; or so many a second, at
random moments (Poisson), each by the first connection that is free. Requests are prepared and answers are
searched for their length alone, so that asking costs little. A line on standard input begins what counts.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import uvloop

from benchmarks.contest import percentile

LENGTH = b"content-length: "
WARM_UP = 0.5
PATIENCE = 10.0


class Asker(asyncio.Protocol):
    """One kept connection, which asks one thing at a time."""

    def __init__(self, load: "Load", request: bytes) -> None:
        self._load = load
        self._request = request
        self._buffer = b""
        self._since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of it."""
        self._transport = cast(asyncio.Transport, transport)

    def ask(self, since: float) -> None:
        """Ask; since: when this was to be asked."""
        self._since = since
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Look for the end of an answer."""
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = head.lower().partition(LENGTH)[2].partition(b"\r\n")[0]
        if len(body) < int(length):
            return
        if not head.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"this is not what was wanted: {self._buffer.decode()}")
        self._buffer = b""
        self._load.answered(self, self._since)


class Load:
    """All connections. rate: requests a second, or as many as are answered."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._free: deque[Asker] = deque()
        self._waiting: deque[float] = deque()
        self._is_over = False
        self._done = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.size = 0
        self.took: list[float] = []

    async def connect(self, port: int, requests: Sequence[bytes], connections: int) -> None:
        """Open all connections; each asks the same all the time."""
        for number in range(connections):
            request = requests[number % len(requests)]
            _, asker = await self._loop.create_connection(
                lambda request=request: Asker(self, request),  # type: ignore[misc]
                "127.0.0.1",
                port,
            )
            self._free.append(asker)
        self.size = connections

    async def run(self, seconds: float) -> float:
        """Ask for so long, wait for the last answer, and return how long that took."""
        self.took, self._is_over = [], False
        self._done.clear()
        began = time.monotonic()
        if self._rate is None:
            for _ in range(self.size):
                self._free.popleft().ask(began)
            await asyncio.sleep(seconds)
        else:
            await self._arrive(began + seconds, self._rate)
        self._is_over = True
        took = time.monotonic() - began
        if len(self._free) < self.size:
            await asyncio.wait_for(self._done.wait(), PATIENCE)
        return took

    async def _arrive(self, end: float, rate: float) -> None:
        at = time.monotonic()
        while (at := at + random.expovariate(rate)) < end:
            if (early := at - time.monotonic()) > 0:
                await asyncio.sleep(early)
            # From the moment at which it is asked: that this process was late is not the server's fault.
            if self._free:
                self._free.popleft().ask(time.monotonic())
            else:
                self._waiting.append(time.monotonic())

    def answered(self, asker: Asker, since: float) -> None:
        """Take note of an answer, and ask the next if there is one."""
        now = time.monotonic()
        self.took.append(now - since)
        if self._waiting:
            asker.ask(self._waiting.popleft())
        elif self._rate is None and not self._is_over:
            asker.ask(now)
        else:
            self._free.append(asker)
            if self._is_over and len(self._free) == self.size:
                self._done.set()


async def ask(options: argparse.Namespace) -> None:
    """Warm up, wait to be let go, ask, and tell."""
    load = Load(options.rate)
    requests = [line.encode() for line in json.loads(options.requests.read_text())]
    await load.connect(options.port, requests, options.connections)
    await load.run(WARM_UP)
    print(json.dumps({"warm": True}), flush=True)
    sys.stdin.readline()
    seconds = await load.run(options.seconds)
    figures = {
        "requests": len(load.took),
        "seconds": seconds,
        "p50 ms": 1000 * percentile(load.took, 0.5),
        "p99 ms": 1000 * percentile(load.took, 0.99),
    }
    print(json.dumps(figures), flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--requests", type=Path, required=True, help="a JSON list of what to send")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, help="a second; as many as are answered, if not given")
    uvloop.run(ask(parser.parse_args()))


if __name__ == "__main__":
    main()
