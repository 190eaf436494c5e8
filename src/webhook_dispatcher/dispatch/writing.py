"""Writes a batch of records whatever is in it.

A batch that the database refuses is halved until the bad record is alone. Refused for its values, that one
is written plainer (I9). Refused for damage, it is set aside and tried again from time to time, if its own
row proves to be unreadable; damage anywhere else stops everything, loudly, and loses nothing. What the
statement left out was either locked, and may still be written, or has come too late for its fence, and then
says only what is a fact.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.blocked import BlockedRows, Reason
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.ports import Records
from webhook_dispatcher.domain.record import Record, Written
from webhook_dispatcher.domain.verdict import Outcome

_log = structlog.get_logger()


NOTHING_WRITTEN = Written(frozenset(), (), (), (), ())


class Writer:
    """Writes records; all methods raise StorageError, and may then be called again.

    set_aside: seqs whose rows are damaged, so that their outcomes cannot be written for the time being.
    """

    def __init__(
        self, records: Records, lease: timedelta, blocked: BlockedRows, needs_upkeep: asyncio.Event
    ) -> None:
        """Set up. `needs_upkeep` is set when the database refuses what should be possible."""
        self.set_aside: set[int] = set()
        self._records = records
        self._lease = lease
        self._blocked = blocked
        self._needs_upkeep = needs_upkeep

    def retry(self, records: Sequence[Record]) -> None:
        """Learn that outcomes are tried again, even if their rows were damaged."""
        self.set_aside -= {record.event.seq for record in records}

    async def write_in_parts(self, records: Sequence[Record], error: StatementRefused) -> Written:
        """Write outcomes that were refused together, by halves; their lanes have their turn in a later batch.

        None ends while half of its outcomes are in doubt.
        """
        if not records:
            raise error
        if len(records) == 1:
            return await self._write_alone(records[0], error)
        half = len(records) // 2
        first, second = [await self._write(part) for part in (records[:half], records[half:])]
        return replace(first, seqs=first.seqs | second.seqs)

    async def _write(self, records: Sequence[Record]) -> Written:
        try:
            return await self._records.write(records, [], self._lease)
        except StatementRefused as error:
            return await self.write_in_parts(records, error)

    async def _write_alone(self, record: Record, error: StatementRefused) -> Written:
        if error.is_damage:
            return await self._set_aside(record, error)
        _log.error("record.refused", event_id=str(record.event.id), seq=record.event.seq, error=str(error))
        try:
            return await self._records.write([_plainer(record)], [], self._lease)
        except StatementRefused:
            self._needs_upkeep.set()
            raise

    async def _set_aside(self, record: Record, error: StatementRefused) -> Written:
        """Leave an outcome unwritten whose very row is damaged; raises where the damage is elsewhere."""
        event = record.event
        if not await self._records.is_unreadable(event.seq):
            self._needs_upkeep.set()
            raise error
        self.set_aside.add(event.seq)
        self._blocked.find(Reason.UNREADABLE, event.merchant_id, event.seq, event.id, str(error))
        return NOTHING_WRITTEN

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
            if error.is_damage:
                self.set_aside.add(record.event.seq)
                return False
            # Whoever holds the row now decides about it; at worst the event is sent once more.
            _log.error("record.refused", event_id=str(record.event.id), error=str(error))
            return True


def _plainer(record: Record) -> Record:
    """Leave out what the attempt brought; what was delivered stays so."""
    if record.state is State.DELIVERED:
        return record._replace(attempt=None)
    attempt = record.attempt and record.attempt._replace(outcome=Outcome.UNSENDABLE, status=None)
    return _failed(record)._replace(attempt=attempt)


def _failed(record: Record) -> Record:
    if record.event.on_failure is State.DELIVERED:
        return record._replace(state=State.DELIVERED, reason=None, due_at=None)
    return record._replace(state=State.FAILED, reason=FailedReason.UNSENDABLE, due_at=None)
