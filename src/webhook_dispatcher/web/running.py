"""A program that listens at one address: its databases are checked until it is stopped, then it drains.

It holds nothing that another process would need, and listens as soon as its databases were asked once, even
when they are away: what needs them is refused then.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from webhook_dispatcher.domain.errors import (
    ConfigurationError,
    DispatcherError,
    SchemaMismatch,
    StorageUnavailable,
)
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names
from webhook_dispatcher.storage import installation, schema
from webhook_dispatcher.storage.api.connections import Connections, kept
from webhook_dispatcher.storage.api.endpoints import refuse_powerful
from webhook_dispatcher.storage.connection import create_pool, describe, translated
from webhook_dispatcher.storage.session import PLANNED_ONCE
from webhook_dispatcher.telemetry.address import split_address
from webhook_dispatcher.web.clients import Network
from webhook_dispatcher.web.server import Answering, WebServer

CHECK_SECONDS = 5.0
"""How often each database is asked whether it is there, and of a version that we serve."""
STATEMENT_TIME = timedelta(seconds=5)
MAX_BACKLOG = 1024

_log = structlog.get_logger()

Pools = Mapping[str | None, Connections]
"""One for each database, by its name; None is the name of a single one without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an operator has chosen. databases: their URLs, by name.

    grace: seconds that requests under way are waited for.
    """

    address: str
    trusted_proxies: Sequence[Network]
    max_connections: int
    grace: float
    databases: Mapping[str | None, str] = field(repr=False)
    is_pooled: bool = False
    installation: str | None = None


class Running(ABC):
    """A server from its start until it has drained.

    name: as its command, its settings and its lines in the log have it. pool_size: connections to each
    database.
    """

    def __init__(self, name: str, options: Options, pool_size: int) -> None:
        self._name = name
        self._role = f"webhook_{name}"
        self._options = options
        self._pool_size = pool_size
        self._away: dict[str | None, str] = dict.fromkeys(options.databases, "it was not reached yet")
        self._names: dict[str | None, Names] = {}
        self._stop, self._end_of_grace = asyncio.Event(), asyncio.Event()
        self._failure: DispatcherError | None = None
        self._server: WebServer | None = None
        self.port = 0

    @property
    def max_connections(self) -> int:
        """How many connections it may have."""
        return self._options.max_connections

    @property
    def url(self) -> str:
        """Where it is reached, once it listens."""
        return f"http://{self._options.address.rpartition(':')[0]}:{self.port}"

    @abstractmethod
    async def start(self, stack: AsyncExitStack) -> None:
        """Begin to answer; what is open then is closed with the stack."""

    def readiness(self) -> Sequence[str]:
        """Name what stands in the way of answering."""
        if self._server is None:
            return ["not listening yet"]
        ending = ["stopping"] if self._stop.is_set() else []
        databases = self._options.databases
        return ending + [f"{describe(databases[name])}: {reason}" for name, reason in self._away.items()]

    def names(self) -> Names:
        """Return by which names events are sent: of several databases, those of the first."""
        return self._names.get(next(iter(self._options.databases)), DEFAULT_NAMES)

    async def _connect(self, stack: AsyncExitStack) -> Pools:
        """Open the pools, and ask each database once."""
        pools = {name: await self._pool(stack, dsn) for name, dsn in self._options.databases.items()}
        with schema.connected_as(self._role, f"`{self._name}`"):
            await self._check(pools)
        return pools

    async def _pool(self, stack: AsyncExitStack, dsn: str) -> Connections:
        pool = await stack.enter_async_context(
            create_pool(
                dsn,
                application_name=f"webhook-dispatcher {self._name}",
                command_timeout=STATEMENT_TIME,
                size=self._pool_size,
                pooled=self._options.is_pooled,
                planning=PLANNED_ONCE,
            )
        )
        return await stack.enter_async_context(kept(pool))

    async def _listen(self, stack: AsyncExitStack, answering: Answering, pools: Pools) -> None:
        address, most = self._options.address, self._options.max_connections
        server = WebServer(answering, most, self._options.trusted_proxies)
        host, port = split_address(address)
        try:
            self._listener = await server.loop.create_server(
                server, host, port, backlog=min(most, MAX_BACKLOG)
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConfigurationError(
                f"WEBHOOK_{self._name.upper()}_ADDRESS: cannot listen on {address}: {reason}"
            ) from None
        self.port = self._listener.sockets[0].getsockname()[1]
        server.watch()
        self._server = server
        stack.callback(asyncio.create_task(self._watch(pools)).cancel)

    async def _check(self, pools: Pools) -> None:
        """Ask every database whether it is there and ours; SchemaMismatch and ConfigurationError end us."""
        await asyncio.gather(*(self._check_one(name, pool) for name, pool in pools.items()))

    async def _check_one(self, name: str | None, pool: Connections) -> None:
        try:
            with translated():
                async with pool.acquire() as connection:
                    await schema.check(connection)
                    (await installation.read(connection)).verify(self._options.installation)
                    self._names[name] = await installation.read_names(connection)
                    await refuse_powerful(connection, self._role)
                    await schema.check_commits(connection)
        except StorageUnavailable as error:
            _log.warning("database.awaited", shard=name, error=str(error))
            self._away[name] = str(error)
        else:
            self._away.pop(name, None)

    async def _watch(self, pools: Pools) -> None:
        """Check again and again; SchemaMismatch and ConfigurationError end the program."""
        while not self._stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), CHECK_SECONDS)
                return
            try:
                await self._check(pools)
            except (SchemaMismatch, ConfigurationError) as error:
                self._failure = error
                self.stop()
            except DispatcherError as error:
                _log.warning("database.unchecked", error=str(error))

    def stop(self) -> None:
        """Ask it to end."""
        self._stop.set()

    def cut_short(self) -> None:
        """End the grace now: requests that are still under way are broken off."""
        self._end_of_grace.set()

    async def finished(self) -> None:
        """Wait until it is asked to end."""
        await self._stop.wait()

    def failure(self) -> DispatcherError | None:
        """Return the error that it ended for; None where it was asked to end."""
        return self._failure

    async def drain(self) -> None:
        """Take no new connections in, let requests under way end, then close."""
        self.stop()
        if self._server is None:
            return
        self._listener.close()
        draining = asyncio.create_task(self._server.drain(self._options.grace))
        cutting = asyncio.create_task(self._end_of_grace.wait())
        await asyncio.wait([draining, cutting], return_when=asyncio.FIRST_COMPLETED)
        for task in (draining, cutting):
            task.cancel()
        self._server.end()
        _log.info(f"{self._name}.stopped")
