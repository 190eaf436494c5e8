"""Writes a batch of records whatever is in it.

A batch that the database refuses is halved until the bad record is alone, and that one is written plainer
(I9). What the statement left out was either locked, and may still be written, or has come too late for its
fence, and then says only what is a fact.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import structlog

from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.ports import Records
from webhook_dispatcher.domain.record import LaneTurn, Record, Written
from webhook_dispatcher.domain.verdict import Outcome

_log = structlog.get_logger()


class Writer:
    """Writes records; all methods raise StorageError, and may then be called again."""

    def __init__(self, records: Records, lease: timedelta, on_refused: Callable[[], None]) -> None:
        """Set up. `on_refused` is called when the database refuses even the plainest record."""
        self._records = records
        self._lease = lease
        self._on_refused = on_refused

    async def write(self, records: Sequence[Record], turns: Sequence[LaneTurn]) -> Written:
        """Write a batch of outcomes, and what becomes of their lanes."""
        try:
            return await self._records.write(records, turns, self._lease)
        except StatementRefused as error:
            if not records:
                raise
            if len(records) == 1:
                return await self._write_plainer(records[0], error)
            # The lanes have their turn in a later batch: none ends while half of it is in doubt.
            half = len(records) // 2
            first = await self.write(records[:half], [])
            second = await self.write(records[half:], [])
            return replace(first, seqs=first.seqs | second.seqs)

    async def _write_plainer(self, record: Record, error: StatementRefused) -> Written:
        _log.error("record.refused", event_id=str(record.event.id), seq=record.event.seq, error=str(error))
        if record.state is State.DELIVERED:
            plainer = replace(record, attempt=None)  # what was delivered stays so
        else:
            attempt = record.attempt and replace(record.attempt, outcome=Outcome.UNSENDABLE, status=None)
            plainer = replace(
                record, attempt=attempt, state=State.FAILED, reason=FailedReason.UNSENDABLE, due_at=None
            )
        try:
            return await self._records.write([plainer], [], self._lease)
        except StatementRefused:
            self._on_refused()
            raise

    async def settle(self, records: Sequence[Record]) -> frozenset[int]:
        """Write what came too late for its fence; return the seqs that were only locked: try those again."""
        if not records:
            return frozenset()
        still_ours = await self._records.read_unwritten(records)
        locked = set(still_ours)
        for record in records:
            if record.event.seq not in still_ours and not await self._write_late(record):
                locked.add(record.event.seq)
        return frozenset(locked)

    async def _write_late(self, record: Record) -> bool:
        try:
            return await self._records.write_late(record)
        except StatementRefused as error:
            # Whoever holds the row now decides about it; at worst the event is sent once more.
            _log.error("record.refused", event_id=str(record.event.id), error=str(error))
            return True
