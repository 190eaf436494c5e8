"""Clients that begin to send a body and go on byte by byte, over as many connections as they can keep."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.acceptance.raw_http import RawClient, connected


@dataclass(frozen=True)
class Origin:
    """Where a client comes from: an address of ours, or one that a proxy, which is we, tells."""

    address: str
    is_proxied: bool

    @property
    def local(self) -> str | None:
        return None if self.is_proxied else self.address

    def head(self, first: str, *lines: str) -> bytes:
        """Return a request's head with what a proxy adds."""
        added = [f"X-Forwarded-For: {self.address}"] if self.is_proxied else []
        return "\r\n".join([first, *lines, *added, "", ""]).encode()


@dataclass
class SlowSenders:
    """count: of their connections that were begun, until now."""

    port: int
    head: Sequence[str]
    pause: float
    begun: int = 0
    held: set[int] = field(default_factory=set)

    async def keep(self, number: int, origin: Origin) -> None:
        """Keep one connection, and begin another when it is closed."""
        while True:
            with suppress(OSError):
                async with connected(self.port, origin.local) as client:
                    self.begun += 1
                    self.held.add(number)
                    await self._drip(client, origin)
            self.held.discard(number)
            await asyncio.sleep(self.pause)

    async def _drip(self, client: RawClient, origin: Origin) -> None:
        client.writer.write(origin.head(*self.head) + b"{")
        while not client.reader.at_eof():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.pause):
                    if not await client.reader.read(1024):
                        return
            client.writer.write(b" ")


@asynccontextmanager
async def sending_slowly(
    port: int, origins: Sequence[Origin], count: int, head: Sequence[str], pause: float
) -> AsyncIterator[SlowSenders]:
    """Keep so many connections, each with a byte in so many seconds, while entered."""
    senders = SlowSenders(port, head, pause)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(senders.keep(number, origins[number % len(origins)])) for number in range(count)
        ]
        yield senders
        for task in tasks:
            task.cancel()
