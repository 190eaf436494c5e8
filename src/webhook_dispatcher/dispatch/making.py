"""Makes missing lanes apart: a transaction that is making one of them may keep us waiting."""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from webhook_dispatcher.domain.errors import StorageError
from webhook_dispatcher.domain.ports import Claims
from webhook_dispatcher.telemetry.metrics import Metrics

_log = structlog.get_logger()


class LaneMaker:
    """Makes lanes, some at a time: each may wait for a lock, on a connection that claiming needs."""

    def __init__(
        self, claims: Claims, metrics: Metrics, on_made: Callable[[Mapping[str, int]], None]
    ) -> None:
        """Set up. `on_made`: told the merchants, with the lowest seq known of each."""
        self._claims = claims
        self._metrics = metrics
        self._on_made = on_made
        self._making: asyncio.Task[None] | None = None

    def make(self, group: asyncio.TaskGroup, heads: Mapping[str, int]) -> None:
        """Begin to make lanes, unless others are being made: then the sweep asks again."""
        if heads and (self._making is None or self._making.done()):
            self._making = group.create_task(self._make(heads))

    async def _make(self, heads: Mapping[str, int]) -> None:
        try:
            unmade = await self._claims.create_lanes(list(heads))
        except StorageError as error:
            self._metrics.database_errors.labels("claim").inc()
            _log.warning("claim.failed", error=str(error))
            return
        self._on_made({merchant_id: heads[merchant_id] for merchant_id in heads if merchant_id not in unmade})
