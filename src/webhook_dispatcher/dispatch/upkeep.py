"""Keeps the log's partitions ahead of time and within retention, and the gauges fresh."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.pace import Stop, pause
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import SchemaMismatch, StorageError
from webhook_dispatcher.domain.ports import Upkeep
from webhook_dispatcher.telemetry.metrics import Metrics

DAYS_AHEAD = 8
"""Days for which partitions are made beforehand."""
UPKEEP_INTERVAL = 1800.0
"""Seconds between two rounds; a minute after one that failed."""
CONTROL_KEPT = timedelta(days=366)
"""How long handled commands stay (contract 3: a year)."""
GAUGE_INTERVAL = 5.0
"""Seconds between two measurements, or twenty times what one took."""
COUNT_LIMIT = 100_000
"""Rows counted exactly; beyond, the statistics' estimate serves."""
SEARCH_ANEW = 60
"""Measurements after which the oldest pending event is searched from the beginning again."""
SCHEMA_INTERVAL = 5.0
"""Seconds between two looks at the schema's version."""
LOOP_LAG_INTERVAL = 0.25
"""Seconds between two looks at how late the event loop is."""

_log = structlog.get_logger()


async def keep_house(
    upkeep: Upkeep, retention: timedelta, metrics: Metrics, stop: Stop, wake: asyncio.Event
) -> None:
    """Make and drop partitions until stopped; at once when woken, since a day may be missing."""
    while not stop.is_set():
        wake.clear()
        wait = UPKEEP_INTERVAL
        try:
            made = await upkeep.make_partitions(DAYS_AHEAD)
            dropped = await upkeep.drop_partitions(retention)
            await upkeep.purge_control(CONTROL_KEPT)
        except StorageError as error:
            metrics.database_errors.labels("housekeeping").inc()
            _log.warning("housekeeping.failed", error=str(error))
            wait = 60.0
        else:
            if made or dropped:
                _log.info("partitions.changed", made=made, dropped=dropped)
        await pause(wait, wake)


async def measure(
    upkeep: Upkeep,
    key_ids: tuple[str, ...],
    on_unknown_keys: Callable[[frozenset[str]], None],
    clock: Clock,
    metrics: Metrics,
    stop: Stop,
) -> None:
    """Refresh the gauges of what is owed until stopped."""
    oldest_from = rounds = 0
    while not stop.is_set():
        started = clock.elapsed()
        try:
            owed = await upkeep.measure(COUNT_LIMIT, oldest_from)
            on_unknown_keys(await upkeep.read_unknown_keys(key_ids))
        except StorageError as error:
            metrics.database_errors.labels("measure").inc()
            _log.warning("measure.failed", error=str(error))
        else:
            metrics.pending.set(owed.pending)
            metrics.pending_retry.set(owed.pending_retry)
            metrics.oldest_pending_age.set(max(0.0, owed.oldest_pending_age))
            metrics.oldest_due_retry_age.set(owed.oldest_due_retry_age)
            rounds += 1
            # What is pending only moves on, but for late commits: those a search from zero finds.
            oldest_from = 0 if rounds % SEARCH_ANEW == 0 else owed.oldest_seq or oldest_from
        await stop.wait_at_most(max(GAUGE_INTERVAL, 20 * (clock.elapsed() - started)))


async def watch_schema(
    upkeep: Upkeep, on_mismatch: Callable[[SchemaMismatch], None], metrics: Metrics, stop: Stop
) -> None:
    """Tell when the schema does not serve this program any more, until stopped."""
    while not stop.is_set():
        await stop.wait_at_most(SCHEMA_INTERVAL)
        try:
            await upkeep.check_schema()
        except SchemaMismatch as error:
            on_mismatch(error)
        except StorageError as error:
            metrics.database_errors.labels("schema").inc()
            _log.warning("schema.unchecked", error=str(error))


async def watch_loop(clock: Clock, metrics: Metrics, beat: Callable[[], None]) -> None:
    """Measure how late the event loop runs its timers, and call `beat` each time, until cancelled."""
    while True:
        due = clock.elapsed() + LOOP_LAG_INTERVAL
        await pause(LOOP_LAG_INTERVAL)
        metrics.event_loop_lag.set(max(0.0, clock.elapsed() - due))
        beat()
