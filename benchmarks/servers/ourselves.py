"""This daemon, on a Postgres of the benchmark's own: events are inserted, a commit each."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack

import asyncpg

from benchmarks.bodies import EVENT_TYPE
from benchmarks.processes import cpu_seconds
from benchmarks.rig import Rig
from benchmarks.servers.server import Publish
from webhook_dispatcher.version import __version__

DATABASE = "servers"
INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, $2, $3)"


class Ourselves:
    """The daemon, between `start_worker` and `end_worker`."""

    name, version = "webhook-dispatcher", __version__

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._running = ExitStack()
        self._pid: int | None = None
        self._ended = 0.0

    async def register(self, urls: Mapping[str, str]) -> None:
        """Make the database with its endpoints, and start."""
        await asyncio.to_thread(self._rig.make_template, DATABASE, urls, len(urls))
        await asyncio.to_thread(self.start_worker)

    async def connect(self, stack: AsyncExitStack) -> Publish:
        """Open a producer's connection."""
        connection = await asyncpg.connect(self._rig.postgres.dsn("webhook_producer", DATABASE))
        stack.push_async_callback(connection.close)

        async def publish(merchant: str, text: str) -> None:
            await connection.execute(INSERT, merchant, EVENT_TYPE, text)

        return publish

    def end_worker(self, *, by_kill: bool = False) -> None:
        """End the daemon."""
        if by_kill:
            self._daemon.process.kill()
        self._ended += cpu_seconds(self._daemon.process.pid)
        self._running.close()
        self._pid = None

    def start_worker(self) -> None:
        """Start a daemon."""
        self._daemon = self._running.enter_context(self._rig.daemon(DATABASE))
        self._pid = self._daemon.process.pid

    def cpu_seconds(self) -> float:
        """Return what the daemons and Postgres have used."""
        assert self._rig.postgres.pid is not None
        own = 0.0 if self._pid is None else cpu_seconds(self._pid)
        return self._ended + own + cpu_seconds(self._rig.postgres.pid)
