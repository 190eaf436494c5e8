"""Recording: the statements of recording.sql, bound and mapped."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg

from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.record import LaneTurn, Record, Written
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

_RECORDING = load("recording")
_UNREADABLE = load("unreadable")
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class PostgresRecords:
    """Implements domain.ports.Records on a pool that claiming does not share."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def write(self, records: Sequence[Record], turns: Sequence[LaneTurn], lease: timedelta) -> Written:
        """See domain.ports.Records; source: recording.sql `record`."""
        with translated():
            row = await self._pool.fetchrow(
                _RECORDING["record"].text,
                [record.event.seq for record in records],
                [record.event.merchant_id for record in records],
                [record.event.id for record in records],
                [record.fence for record in records],
                [record.is_retry for record in records],
                [record.state for record in records],
                [record.reason for record in records],
                [record.attempts for record in records],
                [record.due_at for record in records],
                [record.attempt and record.attempt.status for record in records],
                [record.attempt and record.attempt.outcome for record in records],
                [record.event.trigger for record in records],
                [record.attempt and record.attempt.started_at for record in records],
                [record.attempt and record.attempt.duration_ms for record in records],
                [record.at for record in records],
                [turn.merchant_id for turn in turns],
                [turn.epoch for turn in turns],
                [turn.is_over for turn in turns],
                [turn.wait_until or _LONG_AGO for turn in turns],
                [turn.reach for turn in turns],
                lease,
            )
        assert row is not None
        return Written(
            seqs=frozenset(row["written"]),
            kept=tuple(row["kept"]),
            released=tuple(row["released"]),
            recalled=tuple(row["recalled"]),
            lost=tuple(row["lost"]),
        )

    async def read_unwritten(self, records: Sequence[Record]) -> frozenset[int]:
        """See domain.ports.Records; source: recording.sql `read_unwritten`."""
        with translated():
            rows = await self._pool.fetch(
                _RECORDING["read_unwritten"].text,
                [record.event.seq for record in records],
                [record.event.merchant_id for record in records],
                [record.fence for record in records],
                [record.is_retry for record in records],
            )
        return frozenset(row["seq"] for row in rows)

    async def write_late(self, record: Record) -> bool:
        """See domain.ports.Records; source: recording.sql `record_late`."""
        attempt = record.attempt
        if attempt is None:
            return True  # nothing was sent: whoever holds the row now decides anew
        with translated():
            settled = await self._pool.fetchval(
                _RECORDING["record_late"].text,
                record.event.seq,
                record.event.id,
                record.event.merchant_id,
                attempt.number,
                record.event.trigger,
                attempt.started_at,
                attempt.duration_ms,
                attempt.status,
                attempt.outcome,
                attempt.finished_at,
                attempt.outcome is Outcome.DELIVERED,
            )
        return bool(settled)

    async def is_unreadable(self, seq: int) -> bool:
        """See domain.ports.Records; source: unreadable.sql `find_row` and `try_rows`."""
        with translated():
            # Whatever refuses even this is not the row.
            await self._pool.fetch(_UNREADABLE["find_row"].text, seq)
        try:
            with translated():
                await self._pool.fetch(_UNREADABLE["try_rows"].text, [seq])
        except StatementRefused as error:
            return error.is_damage
        return False
