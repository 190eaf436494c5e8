"""The program `webhook-dispatcher api`: what it is made of, how it starts, and how it stops.

Any number of them stand behind a load balancer. What needs a database that is away is 503.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from webhook_dispatcher.api.admission import ByToken
from webhook_dispatcher.api.calls import Operation
from webhook_dispatcher.api.charge_service import forwarded
from webhook_dispatcher.api.charge_service.claims import OnceUpstream
from webhook_dispatcher.api.charge_service.upstream import ANSWER_TIMEOUT, Upstream
from webhook_dispatcher.api.metrics import ApiMetrics
from webhook_dispatcher.api.openapi.published import published
from webhook_dispatcher.api.operations.table import table
from webhook_dispatcher.api.pipeline import Pipeline
from webhook_dispatcher.api.shares import Databases
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.storage.api.connections import Connections
from webhook_dispatcher.storage.api.database import Share
from webhook_dispatcher.storage.api.events import Events
from webhook_dispatcher.telemetry.health import OpsServer
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.version import USER_AGENT, __version__
from webhook_dispatcher.web import running
from webhook_dispatcher.web.router import Router
from webhook_dispatcher.web.running import Pools, Running

POOL_SIZE = 10
UPSTREAM_TIME = ANSWER_TIMEOUT
CLAIM_MARGIN = timedelta(seconds=5)
"""How much longer a key is claimed than the charge service is waited for."""
MAX_REQUEST_TIME = UPSTREAM_TIME + CLAIM_MARGIN
"""How long a request that was read may take: no grace is shorter."""
NO_FEED = "GET /v1/events is not there: run `webhook-dispatcher migrate --feed-index`, then start this again"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(running.Options):
    """What an operator has chosen. upstream: the charge service's URL, or none."""

    ops_address: str
    limits: RateLimits = field(default_factory=RateLimits)
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    upstream: str | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """What requests are answered with. forwarding: where there is a charge service."""

    operations: Sequence[Operation]
    admission: ByToken
    forwarding: forwarded.Forwarding | None = None


def compose(
    pools: Pools,
    limits: RateLimits,
    egress: EgressPolicy,
    upstream: str | None = None,
    has_feed: bool = True,
    names: Callable[[], Names] = Names,
) -> Parts:
    """Put together what answers requests; pools: one for each database, by its name.

    has_feed: whether merchants can read their events in order. names: by which events are sent.
    """
    databases = Databases(pools)
    operations, admission = table(databases, limits, Guard(egress), has_feed), ByToken(databases, limits)
    if upstream is None:
        return Parts((*operations, *published(operations, names)), admission)
    forwarding = forwarded.Forwarding(Upstream(upstream, forwarded.CODES, USER_AGENT, timeout=UPSTREAM_TIME))
    once_upstream = OnceUpstream(forwarding.forward, UPSTREAM_TIME + CLAIM_MARGIN)
    operations = forwarded.instead(operations, forwarded.operations(once_upstream.once))
    return Parts((*operations, *published(operations, names)), admission, forwarding)


class Program(Running):
    """The running parts. parts: makes what answers, when the pools are open."""

    _options: Options

    def __init__(self, options: Options, clock: Clock, parts: Callable[[Pools], Parts] | None = None) -> None:
        super().__init__("api", options, POOL_SIZE)
        self._clock = clock
        self._parts = parts
        self.ops_port = 0

    @property
    def url(self) -> str:
        """Where its operations are."""
        return f"{super().url}/v1"

    async def start(self, stack: AsyncExitStack) -> None:
        """Open the pools, ask each database once, and listen."""
        pools = await self._connect(stack)
        parts = await self._compose(pools) if self._parts is None else self._parts(pools)
        metrics = ApiMetrics(
            __version__,
            [operation.name for operation in parts.operations],
            lambda: self._server.count if self._server else 0,
            self.readiness,
        )
        if parts.forwarding is not None:
            await stack.enter_async_context(parts.forwarding.opened(metrics.count_upstream))
        address = self._options.ops_address
        ops = OpsServer(address, metrics.registry, self.readiness, list, "WEBHOOK_API_OPS_ADDRESS")
        await stack.enter_async_context(ops)
        self.ops_port = ops.port
        pipeline = Pipeline(
            Router((one.method, one.template, one) for one in parts.operations),
            parts.admission,
            self._clock,
            metrics,
        )
        await self._listen(stack, pipeline, pools)
        _log.info("api.started", version=__version__, url=self.url, port=self.port, ops_port=self.ops_port)

    async def _compose(self, pools: Pools) -> Parts:
        chosen, has_feed = self._options, await asyncio.gather(*map(_has_feed, pools, pools.values()))
        return compose(pools, chosen.limits, chosen.egress, chosen.upstream, any(has_feed), self.names)


async def _has_feed(name: str | None, pool: Connections) -> bool:
    """Tell whether a database's events can be read in order, and log how to have it where they cannot.

    Where the database is away each request will be told.
    """
    try:
        is_indexed = await Events(Share(pool, 1)).is_indexed()
    except StorageUnavailable:
        return True
    if not is_indexed:
        _log.info("events.not_indexed", shard=name, reason=NO_FEED)
    return is_indexed
