"""Makes the log's partitions ahead of time and drops old ones, measures gauges, and checks the schema."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.pace import Interval, sleep
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import SchemaMismatch
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.domain.ports import OldestSearch, Upkeep
from webhook_dispatcher.domain.signing import Keyring
from webhook_dispatcher.telemetry.metrics import Metrics

DAYS_AHEAD = 8
"""Days for which partitions are made beforehand."""
UPKEEP_INTERVAL = Interval(1800.0, seconds_after_failure=60.0)
CONTROL_KEPT = timedelta(days=366)
"""How long handled commands are kept (contract 3: a year)."""
GAUGE_INTERVAL = Interval(5.0, limits_load=True)
COUNT_LIMIT = 100_000
"""Rows counted exactly; beyond, the statistics' estimate serves."""
SEARCH_ANEW = 60
"""Measurements after which the lowest pending number is searched from the beginning again."""
SCHEMA_INTERVAL = Interval(5.0)
SEALING_INTERVAL = Interval(60.0)
EVENT_LOOP_LAG_INTERVAL = 0.25
"""Seconds between two measurements of the event loop's lag."""

_log = structlog.get_logger()


async def keep_logs(upkeep: Upkeep, retention: timedelta, doubt: Callable[[], str]) -> None:
    """Make the log's next partitions, drop its oldest, and forget what is old, expired or was never told.

    doubt: says why no clock should be trusted that makes things old; then nothing is forgotten.
    """
    if count := await upkeep.make_partitions(DAYS_AHEAD):
        _log.info("partitions.made", count=count)
    if reason := doubt():
        _log.warning("retention.waits", reason=reason)
        return
    # Before the oldest go: one at least must stay.
    await upkeep.note_milestone()
    if dropped := await upkeep.drop_partitions(retention):
        _log.info("partitions.dropped", day=str(dropped.day), count=dropped.partitions, rows=dropped.rows)
    await upkeep.purge_control(CONTROL_KEPT)
    await upkeep.purge_unreported(retention)
    await upkeep.forget_noted(retention)
    cleared = await upkeep.clear_api_rows()
    of_console = await upkeep.clear_console_rows()
    if cleared:
        _log.info("api_rows.cleared", count=cleared)
    if of_console:
        _log.info("console_rows.cleared", count=of_console)


class Gauges:
    """Measures what is owed, and which encryption keys the database needs that we do not have.

    missing_keys, wrong_keys: the ids of those, and of keys that are not the ones their ids stand for, as of
        the last measurement. A daemon that starts with a wrong key ends; the first secret may come later.
    _search: where the search for the oldest pending event goes on.
    """

    def __init__(self, upkeep: Upkeep, keyring: Keyring, metrics: Metrics) -> None:
        self._upkeep = upkeep
        self._keyring = keyring
        self._metrics = metrics
        self._search, self._count = OldestSearch(), 0
        self.missing_keys: frozenset[str] = frozenset()
        self.wrong_keys: frozenset[str] = frozenset()

    async def step(self) -> None:
        """Measure once, and show it."""
        owed = await self._upkeep.measure(COUNT_LIMIT, self._search)
        self._metrics.pending.set(owed.pending)
        self._metrics.pending_retry.set(owed.pending_retry)
        self._metrics.oldest_pending_age.set(max(0.0, owed.oldest_pending_age))
        self._metrics.oldest_due_retry_age.set(owed.oldest_due_retry_age)
        self._metrics.suspended_merchants.set(owed.suspended)
        self._metrics.failing_merchants.set(owed.failing)
        self._metrics.lost_events.set(owed.lost)
        self._count += 1
        # The lowest pending seq only grows, except for late commits: now and then search from zero for those.
        is_anew = self._count % SEARCH_ANEW == 0
        self._search = replace(owed.search, from_seq=0) if is_anew else owed.search
        # Last: a stored secret that is damaged may be refused, and what was measured is shown all the same.
        missing = await self._upkeep.read_unknown_keys(self._keyring.key_ids)
        for key_id in missing - self.missing_keys:
            _log.error("key.missing", key_id=key_id, reason="not among WEBHOOK_SECRET_KEYS")
        self.missing_keys = missing
        wrong = await self._upkeep.find_wrong_keys(self._keyring)
        for key_id in wrong - self.wrong_keys:
            _log.error("key.refused", key_id=key_id, reason="not the key that this id stands for")
        self.wrong_keys = wrong


async def check_schema(
    upkeep: Upkeep, on_mismatch: Callable[[SchemaMismatch], None], use_names: Callable[[Names], None]
) -> None:
    """Tell when the schema does not serve this program any more, and else which names requests have."""
    try:
        await upkeep.check_schema()
        use_names(await upkeep.read_names())
    except SchemaMismatch as error:
        on_mismatch(error)


async def confirm_sealing_key(upkeep: Upkeep, keyring: Keyring) -> None:
    """Publish with what the Partner API may seal secrets for us, and say that we are there to open them."""
    if not await upkeep.confirm_sealing_key(keyring):
        reason = "another key's public half is published under that id"
        _log.error("sealing_key.refused", key_id=keyring.sealing_id, reason=reason)


async def watch_event_loop(clock: Clock, metrics: Metrics, beat: Callable[[], None]) -> None:
    """Measure how late the event loop runs its timers, and call `beat` each time, until cancelled."""
    while True:
        due = clock.elapsed() + EVENT_LOOP_LAG_INTERVAL
        await sleep(EVENT_LOOP_LAG_INTERVAL)
        metrics.event_loop_lag.set(max(0.0, clock.elapsed() - due))
        beat()
