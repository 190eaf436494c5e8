"""The program `webhook-dispatcher console`: what it is made of, how it starts, and how it stops.

It holds nothing that another process would need. It listens as soon as its database was asked once, even when
that is away: pages then say so.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from webhook_dispatcher import __version__
from webhook_dispatcher.console.doorkeeper import Doorkeeper
from webhook_dispatcher.console.pages.health import Setting
from webhook_dispatcher.console.rendering import Renderer
from webhook_dispatcher.console.routing import Routes
from webhook_dispatcher.console.static_files import StaticFiles
from webhook_dispatcher.console.table import Parts, table
from webhook_dispatcher.console.web import Console, Front
from webhook_dispatcher.diagnosis.explanation import Rules
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.storage import installation, schema
from webhook_dispatcher.storage.api.connections import Connections, kept
from webhook_dispatcher.storage.api.database import Share
from webhook_dispatcher.storage.api.endpoints import refuse_powerful
from webhook_dispatcher.storage.connection import create_pool, describe, translated
from webhook_dispatcher.storage.console.sessions import Sessions
from webhook_dispatcher.storage.session import PLANNED_ONCE
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.web.running import Running
from webhook_dispatcher.web.server import WebServer

STATEMENT_TIME = timedelta(seconds=5)
POOL_SIZE = 6
"""Connections to the database: people are few, and each asks for one page at a time."""
MAX_CONNECTIONS = 200
BACKLOG = 128

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator has chosen. grace: seconds. shard: the database's name, where it has one."""

    address: str
    front: Front
    database_url: str = field(repr=False)
    grace: float
    egress: EgressPolicy
    rules: Rules
    settings: Sequence[Setting]
    shard: str | None = None
    is_pooled: bool = False
    installation: str | None = None


class Program(Running):
    """The running parts."""

    def __init__(self, options: Options, clock: Clock) -> None:
        super().__init__(options.address, "WEBHOOK_CONSOLE_ADDRESS", options.grace, "console.stopped")
        self._options = options
        self._clock = clock
        self._away: str | None = "it was not reached yet"

    def readiness(self) -> Sequence[str]:
        """Name what stands in the way of answering."""
        ending = ["stopping"] if self._stop.is_set() else []
        away = [f"{describe(self._options.database_url)}: {self._away}"] if self._away else []
        return ending + away

    async def start(self, stack: AsyncExitStack) -> None:
        """Open the pool, ask the database once, and listen."""
        pool = await stack.enter_async_context(
            create_pool(
                self._options.database_url,
                application_name="webhook-dispatcher console",
                command_timeout=STATEMENT_TIME,
                size=POOL_SIZE,
                pooled=self._options.is_pooled,
                planning=PLANNED_ONCE,
            )
        )
        connections = await stack.enter_async_context(kept(pool))
        await self._check(connections)
        console = self._console(Share(connections, POOL_SIZE))
        await self._listen(WebServer(console, MAX_CONNECTIONS), BACKLOG)
        watching = asyncio.create_task(self._watch(lambda: self._check(connections)))
        stack.callback(watching.cancel)
        _log.info("console.started", version=__version__, url=self._url(), port=self.port)

    def _console(self, database: Share) -> Console:
        front, static = self._options.front, StaticFiles()
        parts = Parts(
            database=database,
            clock=self._clock,
            guard=Guard(self._options.egress),
            rules=self._options.rules,
            static=static,
            settings=self._options.settings,
            shard=self._options.shard,
            installation=self._options.installation,
            is_by_proxy=front.proxy_header is not None,
            readiness=self.readiness,
        )
        renderer = Renderer(static, self._clock)
        return Console(Routes(table(parts)), Doorkeeper(Sessions(database)), renderer, front, self._clock)

    def _url(self) -> str:
        return self._options.front.origin or f"http://{self._options.address.rpartition(':')[0]}:{self.port}"

    async def _check(self, connections: Connections) -> None:
        """Ask the database whether it is there and ours; SchemaMismatch and ConfigurationError end us."""
        try:
            with translated():
                async with connections.acquire() as connection:
                    await schema.check(connection)
                    (await installation.read(connection)).verify(self._options.installation)
                    await refuse_powerful(connection)
        except StorageUnavailable as error:
            _log.warning("database.awaited", error=str(error))
            self._away = str(error)
        else:
            self._away = None
