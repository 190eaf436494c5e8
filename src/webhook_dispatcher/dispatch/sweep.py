"""Goes round the merchants that are owed something, for what the tail cannot see.

Very late commits, what another daemon left behind, and everything that was there before we started. It
takes at most a twentieth of the time, however slow a round is; while lanes are wanted it goes on at once.
"""

from collections.abc import Callable

import structlog

from webhook_dispatcher.dispatch.dispatcher import Dispatcher
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import StorageError
from webhook_dispatcher.domain.ports import Claims
from webhook_dispatcher.telemetry.metrics import Metrics

PROBES = 1_000
"""Merchants probed in one statement."""
LEAST_PAUSE = 0.5
"""Seconds between two sweeps that found all there is."""
SHARE = 20
"""A sweep that took a second is followed by this many seconds of rest."""
MEND_INTERVAL = 15.0
"""Seconds between two looks for rows outside the order that nobody would find."""
RECALL_INTERVAL = 0.25
"""Seconds between two looks at what must be given back (contract 3: within a second)."""

_log = structlog.get_logger()


async def sweep(claims: Claims, dispatcher: Dispatcher, clock: Clock, metrics: Metrics, stop: Stop) -> None:
    """Sweep until stopped."""
    cursor = ""
    while not stop.is_set():
        started = clock.elapsed()
        is_full = has_news = False
        try:
            probes = await claims.sweep(cursor, PROBES)
        except StorageError as error:
            metrics.database_errors.labels("sweep").inc()
            _log.warning("sweep.failed", error=str(error))
        else:
            if not cursor:
                dispatcher.begin_sweep()
            has_news = sum(map(dispatcher.notice_probe, probes)) > 0
            is_full = len(probes) == PROBES
            cursor = probes[-1].merchant_id if is_full else ""
        if not (is_full and has_news and dispatcher.is_hungry):
            await stop.wait_at_most(max(LEAST_PAUSE, SHARE * (clock.elapsed() - started)))


async def mend_retries(claims: Claims, clock: Clock, metrics: Metrics, stop: Stop) -> None:
    """Mend lanes that look for due rows too late, after an operator's edit, until stopped."""
    cursor = ""
    while not stop.is_set():
        started = clock.elapsed()
        try:
            probed = await claims.mend_retries(cursor, PROBES)
        except StorageError as error:
            metrics.database_errors.labels("mend").inc()
            _log.warning("mend.failed", error=str(error))
        else:
            cursor = probed[-1][0] if len(probed) == PROBES else ""
        await stop.wait_at_most(max(MEND_INTERVAL, SHARE * (clock.elapsed() - started)))


async def watch_recalls(
    claims: Claims, dispatcher: Dispatcher, on_paused: Callable[[bool], None], metrics: Metrics, stop: Stop
) -> None:
    """Tell the dispatcher which runs in memory must end, until stopped."""
    while not stop.is_set():
        try:
            recalls = await claims.read_recalls()
        except StorageError as error:
            metrics.database_errors.labels("recall").inc()
            _log.warning("recall.failed", error=str(error))
        else:
            on_paused(recalls.everything_is_paused)
            for merchant_id in recalls.merchants:
                dispatcher.recall(merchant_id)
        await stop.wait_at_most(RECALL_INTERVAL)
