"""Partitions, retention, gauges and corrections: upkeep.sql's and clock.sql's statements, bound and mapped.

Partitions are the one thing done as webhook_owner, for the length of a transaction each.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.domain.ports import Corrected, Dropped, LongestWaits, OldestSearch, Owed
from webhook_dispatcher.domain.sealing import by_public_half, opened_by
from webhook_dispatcher.domain.signing import Keyring
from webhook_dispatcher.storage import heartbeats, installation, keys, numbers, schema
from webhook_dispatcher.storage.api import expiry as api_expiry
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.console import expiry as console_expiry
from webhook_dispatcher.storage.statements import load

_UPKEEP = load("upkeep")
_CLOCK = load("clock")
_PURGE = load("control")["purge_control"]
_PURGE_UNREPORTED = load("notices")["purge_unreported"]
LOGS = ("delivery_log", "attempt_log")
OLDEST_PAGE = 1_000
"""Lanes looked at in one step of the search for the oldest pending event."""
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '500ms'"


@dataclass(frozen=True, slots=True)
class Partition:
    """One day of one log. rows: as statistics have it."""

    log: str
    name: str
    day: date
    has_rows: bool
    rows: int


class PostgresUpkeep:
    """Implements domain.ports.Upkeep on a pool of connections."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._numbered_since: datetime | None = None

    async def check_schema(self) -> None:
        started_at = await schema.check(self._pool)
        # Sequences are behind after a change of the server; to read them takes a look into each partition.
        if started_at != self._numbered_since:
            await numbers.check(self._pool)
            self._numbered_since = started_at

    async def read_names(self) -> Names:
        return await installation.read_names(self._pool)

    async def make_partitions(self, days_ahead: int) -> int:

        today = await self._today()
        existing = {(partition.log, partition.day) for partition in await self._partitions()}
        wanted = [
            (log, today + timedelta(days=offset)) for log in LOGS for offset in range(-1, days_ahead + 1)
        ]
        missing = [entry for entry in wanted if entry not in existing]
        for log, day in missing:
            name = f"{log}_{day:%Y%m%d}"
            first, after = f"{day} 00:00:00+00", f"{day + timedelta(days=1)} 00:00:00+00"
            # Made apart and attached: inserts into the log go on meanwhile.
            async with self._as_owner() as connection:
                # Names and bounds are dates of our own making; DDL takes no parameters.
                await connection.execute(f"CREATE TABLE webhook.{name} (LIKE webhook.{log} INCLUDING ALL)")
                await connection.execute(
                    f"ALTER TABLE webhook.{log} ATTACH PARTITION webhook.{name} "
                    f"FOR VALUES FROM ('{first}') TO ('{after}')"
                )
        return len(missing)

    async def drop_partitions(self, keep: timedelta) -> Dropped | None:

        today, partitions = await self._today(), await self._partitions()
        # A clock that is ahead makes everything old at once; nothing was written so late yet.
        newest = max((partition.day for partition in partitions if partition.has_rows), default=today)
        day = min((partition.day for partition in partitions), default=today)
        if day >= min(today, newest) - keep:
            return None
        oldest = [partition for partition in partitions if partition.day == day]
        # Before: whoever reads what is left must see that something is missing.
        await self._forget_milestones(day)
        for partition in oldest:
            # A drop that meets a lock gives up within half a second.
            async with self._as_owner() as connection:
                await connection.execute(f"DROP TABLE webhook.{partition.name}")
        return Dropped(day, len(oldest), sum(partition.rows for partition in oldest))

    async def note_milestone(self) -> None:
        with translated():
            await self._pool.execute(_UPKEEP["note_milestone"].text)

    async def _forget_milestones(self, last_day: date) -> None:
        end = datetime.combine(last_day + timedelta(days=1), time(), UTC)
        with translated():
            await self._pool.execute(_UPKEEP["forget_milestones"].text, end)

    async def purge_control(self, keep: timedelta) -> None:
        with translated():
            await self._pool.execute(_PURGE.text, keep)

    async def purge_unreported(self, keep: timedelta) -> None:
        with translated():
            await self._pool.execute(_PURGE_UNREPORTED.text, keep)

    async def forget_noted(self, keep: timedelta) -> None:
        await heartbeats.forget_noted(self._pool, keep)

    async def clear_api_rows(self) -> int:
        return await api_expiry.clear(self._pool)

    async def clear_console_rows(self) -> int:
        return await console_expiry.clear(self._pool)

    async def correct_lanes(self, after_lane: str, page_size: int, waits: LongestWaits) -> Corrected:
        with translated():
            row = await self._pool.fetchrow(
                _CLOCK["correct_lanes"].text,
                after_lane,
                page_size,
                waits.lease,
                list(waits.delays),
                waits.suspension_interval,
                waits.rest,
            )
        assert row is not None
        return Corrected(**row)

    async def correct_others(self, waits: LongestWaits) -> None:
        with translated():
            await self._pool.execute(_CLOCK["correct_others"].text, waits.command_lease)

    async def measure(self, count_limit: int, search: OldestSearch) -> Owed:
        with translated():
            row = await self._pool.fetchrow(_UPKEEP["read_gauges"].text, count_limit)
        assert row is not None
        # Where nothing is pending, what is not would be walked through in vain.
        age, searched = await self._find_oldest(search) if row["pending"] else (0.0, search)
        return Owed(**row, oldest_pending_age=age, search=searched)

    async def _find_oldest(self, search: OldestSearch) -> tuple[float, OldestSearch]:
        """Return the age of the oldest pending event as far as is known, and how to go on."""
        with translated():
            row = await self._pool.fetchrow(
                _UPKEEP["read_oldest_pending"].text,
                search.from_seq,
                search.known_seq,
                search.after_lane,
                OLDEST_PAGE,
            )
        if row is None:
            return 0.0, replace(search, known_seq=0, after_lane="")
        return row["age"], OldestSearch(
            row["first_seq"] or search.from_seq, row["oldest_seq"], row["last_lane"]
        )

    async def read_unknown_keys(self, held: tuple[str, ...]) -> frozenset[str]:
        with translated():
            stored = [*held, *map(by_public_half, held)]
            rows = await self._pool.fetch(_UPKEEP["read_unknown_keys"].text, stored)
        return frozenset(opened_by(row["key_id"]) for row in rows)

    async def find_wrong_keys(self, keyring: Keyring) -> frozenset[str]:
        return frozenset(wrong.key_id for wrong in await keys.settle(self._pool, keyring))

    async def confirm_sealing_key(self, keyring: Keyring) -> bool:
        return await keys.confirm_sealing_key(self._pool, keyring)

    async def _today(self) -> date:
        with translated():
            today: date = await self._pool.fetchval(_UPKEEP["read_today"].text)
        return today

    async def _partitions(self) -> list[Partition]:
        with translated():
            rows = await self._pool.fetch(_UPKEEP["read_partitions"].text)
        return [Partition(*row) for row in rows]

    @asynccontextmanager
    async def _as_owner(self) -> AsyncIterator[PoolConnectionProxy]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute("SET LOCAL ROLE webhook_owner")
                await connection.execute(LOCK_TIMEOUT)
                yield connection
