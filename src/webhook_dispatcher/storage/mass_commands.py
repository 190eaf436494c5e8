"""Mass commands: the statements of recovering.sql, bound and mapped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.domain.command import LONG_AGO, Recover, Skip
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.mass_command import MadeDue, Matches
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

_STATEMENTS = {**load("recovering"), "create_lanes": load("claiming")["create_lanes"]}
FAR_AHEAD = datetime(2100, 1, 1, tzinfo=UTC)
"""Beyond what the log may hold, as LONG_AGO is before: nobody's instant can be out of what Python counts."""
LOOK = 10_000
"""Rows that one look goes on at most, whether they match or not: a few hundredths of a second."""
SHORT_LOOK = 4
"""For each delivery that is wanted, rows that a look goes on at first: enough where every fourth matches."""


@dataclass(frozen=True, slots=True)
class PostgresMassTransaction:
    """Implements domain.mass_command.MassTransaction inside one transaction."""

    connection: PoolConnectionProxy

    async def is_stopping(self, command_id: int) -> bool:
        rows = await self._ask("read_stop", command_id)
        return any(row["is_stopping"] for row in rows)

    async def note_chunk(self, command_id: int, seqs: Sequence[int]) -> None:
        await self._ask("note_chunk", command_id, seqs)

    async def find_waiting(self, command: Recover, after: int, limit: int) -> Matches:
        before = command.merchant_id, after, command.until, command.types
        behind = command.failing_since, command.below_attempts, command.endpoint
        return await self._look("find_waiting", before, command.charge, behind, limit)

    async def run_all_now(self, found: Matches) -> MadeDue:
        rows = await self._ask("run_waiting_now", found.seqs)
        return MadeDue(tuple(row["seq"] for row in rows), {row["lane"]: None for row in rows})

    async def find_finished(self, command: Recover, after: int, limit: int) -> Matches:
        period = *days(command.since, command.until), command.since, command.until
        before = command.merchant_id, after, *period, command.states, command.types
        behind = command.failing_since, command.endpoint
        return await self._look("find_finished", before, command.charge, behind, limit)

    async def reopen_all(self, found: Matches) -> MadeDue:
        rows = await self._ask("reopen_finished", found.seqs, found.finished_ats, found.merchants)
        heads: dict[str, int | None] = {row["lane"]: None for row in rows}
        for row in reversed(rows):
            if row["is_in_order"]:
                heads[row["lane"]] = row["seq"]
        return MadeDue(tuple(row["seq"] for row in rows), heads)

    async def find_skippable(self, command: Skip, after: int, limit: int) -> Matches:
        before = command.merchant_id, after, command.since, command.before, command.types
        return await self._look("find_skippable", before, command.charge, (command.endpoint,), limit)

    async def skip(self, found: Matches) -> Mapping[str, int]:
        lanes = sorted(set(found.lanes))
        # One that has no lane yet could be leased before this is committed, and nothing would recall it.
        await self._ask("create_lanes", lanes)
        await self._ask("lock_and_recall_lanes", lanes)
        rows = await self._ask("skip_deliveries", found.seqs)
        return {row["type"]: row["deliveries"] for row in rows}

    async def _look(
        self, name: str, before: Sequence[object], charge: str | None, behind: Sequence[object], limit: int
    ) -> Matches:
        """Look a short way on first: a look reads all its rows, however soon it has found what is wanted.

        before, behind: the statement's other arguments, before and behind the charge.
        """
        for rows in (min(SHORT_LOOK * limit, LOOK), LOOK):
            if charge is None:
                [row] = await self._ask(name, *before, None, *behind, rows, limit)
                found = Matches(**row)
            else:
                found = await self._look_into(name, before, charge, behind, rows, limit)
            if found.looked < rows or len(found.seqs) >= limit:
                break
        return found

    async def _look_into(
        self,
        name: str,
        before: Sequence[object],
        charge: str,
        behind: Sequence[object],
        rows: int,
        limit: int,
    ) -> Matches:
        """Look into objects: where one cannot be read at fewer, until it is alone and is passed over."""
        while True:
            try:
                with translated():
                    async with self.connection.transaction():
                        [row] = await self._ask(name, *before, charge, *behind, rows, limit)
                return Matches(**row)
            except StatementRefused as error:
                if not error.is_row_fault:
                    raise
                if rows > 1:
                    rows //= 2
                    continue
                [row] = await self._ask(name, *before, None, *behind, 1, 1)
                return Matches((), looked=1, reached=row["reached"], is_over=False, is_unreadable=True)

    async def _ask(self, name: str, *arguments: object) -> Sequence[asyncpg.Record]:
        with translated():
            rows: Sequence[asyncpg.Record] = await self.connection.fetch(_STATEMENTS[name].text, *arguments)
        return rows


def days(since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """Return the days' bounds (UTC) around a range of time: those of the log's partitions."""
    first, last = max(min(since, FAR_AHEAD), LONG_AGO), max(min(until, FAR_AHEAD), LONG_AGO)
    return _midnight(first), _midnight(last - timedelta(microseconds=1)) + timedelta(days=1)


def _midnight(instant: datetime) -> datetime:
    return datetime.combine(instant.astimezone(UTC), time(tzinfo=UTC))
