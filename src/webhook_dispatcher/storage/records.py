"""Recording: the statements of recording.sql, bound and mapped."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg

from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.record import Attempt, LaneTurn, Record, Written
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

_RECORDING = load("recording")
_UNREADABLE = load("unreadable")
_NO_WAIT = datetime(2000, 1, 1, tzinfo=UTC)
"""Any instant in the past: the lane may be leased at once."""


class PostgresRecords:
    """Implements domain.ports.Records on a pool that claiming does not share."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def write(self, records: Sequence[Record], turns: Sequence[LaneTurn], lease: timedelta) -> Written:
        with translated():
            row = await self._pool.fetchrow(
                _RECORDING["record"].text, *_record_arguments(records, turns, lease)
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
        with translated():
            rows = await self._pool.fetch(
                _RECORDING["read_unwritten"].text, *_read_unwritten_arguments(records)
            )
        return frozenset(row["seq"] for row in rows)

    async def write_late(self, record: Record) -> bool:
        attempt = record.attempt
        if attempt is None:
            return True  # nothing was sent: whoever holds the row now decides anew
        with translated():
            settled = await self._pool.fetchval(
                _RECORDING["record_late"].text, *_record_late_arguments(record.event, attempt)
            )
        return bool(settled)

    async def is_unreadable(self, seq: int) -> bool:
        with translated():
            # What is refused even here, where no object is read, is not refused for the row's sake.
            if await self._pool.fetchrow(_UNREADABLE["find_row"].text, seq) is None:
                return False
        try:
            with translated():
                await self._pool.fetch(_UNREADABLE["try_rows"].text, [seq])
        except StatementRefused as error:
            return error.is_damage
        return False


def _record_arguments(records: Sequence[Record], turns: Sequence[LaneTurn], lease: timedelta) -> list[object]:
    attempts = [record.attempt for record in records]
    return _RECORDING["record"].arguments(
        {
            "seqs": [record.event.seq for record in records],
            "merchants": [record.event.lane for record in records],
            "event_ids": [record.event.id for record in records],
            "fences": [record.fence for record in records],
            "are_retries": [record.is_retry for record in records],
            "states": [record.state for record in records],
            "reasons": [record.reason for record in records],
            "attempts": [record.attempts for record in records],
            "due_ats": [record.due_at for record in records],
            "statuses": [attempt and attempt.status for attempt in attempts],
            "outcomes": [attempt and attempt.outcome for attempt in attempts],
            "attempt_reasons": [attempt and attempt.reason for attempt in attempts],
            "response_excerpts": [attempt and attempt.response_excerpt for attempt in attempts],
            "triggers": [record.event.trigger for record in records],
            "started_ats": [attempt and attempt.started_at for attempt in attempts],
            "durations_ms": [attempt and attempt.duration_ms for attempt in attempts],
            "finished_ats": [record.at for record in records],
            "lanes": [turn.lease.lane for turn in turns],
            "lane_epochs": [turn.lease.epoch for turn in turns],
            "lanes_are_over": [turn.is_over for turn in turns],
            "lane_waits": [turn.wait_until or _NO_WAIT for turn in turns],
            "lane_reaches": [turn.reach for turn in turns],
            "lane_servers_started_at": [turn.lease.server_started_at for turn in turns],
            "lease": lease,
        }
    )


def _read_unwritten_arguments(records: Sequence[Record]) -> list[object]:
    return _RECORDING["read_unwritten"].arguments(
        {
            "seqs": [record.event.seq for record in records],
            "merchants": [record.event.lane for record in records],
            "event_ids": [record.event.id for record in records],
            "fences": [record.fence for record in records],
            "are_retries": [record.is_retry for record in records],
            "states": [record.state for record in records],
        }
    )


def _record_late_arguments(event: Event, attempt: Attempt) -> list[object]:
    return _RECORDING["record_late"].arguments(
        {
            "seq": event.seq,
            "event_id": event.id,
            "merchant_id": event.lane,
            "attempt": attempt.number,
            "trigger": event.trigger,
            "started_at": attempt.started_at,
            "duration_ms": attempt.duration_ms,
            "status": attempt.status,
            "outcome": attempt.outcome,
            "reason": attempt.reason,
            "response_excerpt": attempt.response_excerpt,
            "finished_at": attempt.finished_at,
            "is_delivered": attempt.outcome is Outcome.DELIVERED,
        }
    )


# A name that the header does not know is found when the program starts, not with the first outcome.
_record_arguments((), (), timedelta())
_read_unwritten_arguments(())
