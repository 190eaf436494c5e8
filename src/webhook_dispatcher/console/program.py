"""The program `webhook-dispatcher console`: what it is made of, how it starts, and how it stops.

While its database is away pages say so.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import structlog

from webhook_dispatcher.console.authenticator import Authenticator
from webhook_dispatcher.console.names import SEGMENT
from webhook_dispatcher.console.pages.health import Setting
from webhook_dispatcher.console.rendering import Renderer
from webhook_dispatcher.console.static_files import StaticFiles
from webhook_dispatcher.console.table import Parts, table
from webhook_dispatcher.console.web import Console, Front
from webhook_dispatcher.diagnosis.explanation import Rules
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.storage.api.database import Share
from webhook_dispatcher.storage.console.overview import Overviews
from webhook_dispatcher.storage.console.sessions import Sessions
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.version import __version__
from webhook_dispatcher.web import running
from webhook_dispatcher.web.router import Router
from webhook_dispatcher.web.running import Running

POOL_SIZE = 6
"""Connections to the database: people are few, and each asks for one page at a time."""
MAX_CONNECTIONS = 200

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(running.Options):
    """What an operator has chosen; of databases there is one."""

    front: Front
    egress: EgressPolicy
    rules: Rules
    settings: Sequence[Setting]


class Program(Running):
    """The running parts."""

    _options: Options

    def __init__(self, options: Options, clock: Clock) -> None:
        super().__init__("console", options, POOL_SIZE)
        self._clock = clock

    @property
    def url(self) -> str:
        """Where people reach it: the origin that they see, where it stands behind a proxy."""
        return self._options.front.origin or super().url

    async def start(self, stack: AsyncExitStack) -> None:
        """Open the pool, ask the database once, and listen."""
        pools = await self._connect(stack)
        [(shard, connections)] = pools.items()
        await self._listen(stack, self._console(Share(connections, POOL_SIZE), shard), pools)
        _log.info("console.started", version=__version__, url=self.url, port=self.port)

    def _console(self, database: Share, shard: str | None) -> Console:
        front, static = self._options.front, StaticFiles()
        parts = Parts(
            database=database,
            clock=self._clock,
            guard=Guard(self._options.egress),
            rules=self._options.rules,
            static=static,
            settings=self._options.settings,
            shard=shard,
            installation=self._options.installation,
            is_by_proxy=front.proxy_header is not None,
            readiness=self.readiness,
            names=self.names,
        )
        renderer = Renderer(static, self._clock, self._options.installation)
        authenticator, overviews = Authenticator(Sessions(database)), Overviews(database)
        router = Router([(one.method, one.template, one) for one in table(parts)], SEGMENT)
        return Console(router, authenticator, overviews, renderer, front, self._clock)
