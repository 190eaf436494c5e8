"""Writes a batch of records whatever is in it.

A batch that the database refuses is halved until the bad record is alone. Refused for its values, that one
is written plainer (I9). Refused for damage, it is written as it is in a later round, unless its own row
alone proves to be unreadable in both: only then it is written without its object, or left where it is if the
row cannot be deleted either. Damage anywhere else stops everything, loudly, and loses nothing. What the
statement left out was either locked, and may still be written, or has come too late for its fence, and then
says only what is a fact.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.losses import Losses
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.ports import Records
from webhook_dispatcher.domain.record import LaneTurn, Record, Written
from webhook_dispatcher.domain.verdict import Outcome

_log = structlog.get_logger()


NOTHING_WRITTEN = Written(frozenset(), (), (), (), ())


class Writer:
    """Writes records; all methods raise StorageError, and may then be called again.

    stuck: seqs whose rows can be neither read nor deleted; their records were dropped.
    """

    def __init__(
        self, records: Records, lease: timedelta, losses: Losses, on_refused: Callable[[], None]
    ) -> None:
        """Set up. `on_refused` is called when the database refuses what should be possible."""
        self.stuck: set[int] = set()
        self._records = records
        self._lease = lease
        self._losses = losses
        self._on_refused = on_refused
        self._doubted: set[int] = set()
        self._given_up: set[int] = set()

    async def write(self, records: Sequence[Record], turns: Sequence[LaneTurn]) -> Written:
        """Write a batch of outcomes, and what becomes of their lanes."""
        try:
            written = await self._records.write(records, turns, self._lease)
        except StatementRefused as error:
            if not records:
                raise
            if len(records) == 1:
                return await self._write_alone(records[0], error)
            # The lanes have their turn in a later batch: none ends while half of it is in doubt.
            half = len(records) // 2
            first = await self.write(records[:half], [])
            second = await self.write(records[half:], [])
            return replace(first, seqs=first.seqs | second.seqs)
        self._doubted -= written.seqs
        self.stuck -= written.seqs
        return written

    async def _write_alone(self, record: Record, error: StatementRefused) -> Written:
        if error.is_damage:
            return await self._get_past_damage(record, error)
        _log.error("record.refused", event_id=str(record.event.id), seq=record.event.seq, error=str(error))
        return await self._write_instead(_plainer(record))

    async def _write_instead(self, record: Record) -> Written:
        try:
            return await self._records.write([record], [], self._lease)
        except StatementRefused:
            self._on_refused()
            raise

    async def _get_past_damage(self, record: Record, error: StatementRefused) -> Written:
        """Give a row's object up, or its record, once that very row is proven to be damaged."""
        event = record.event
        if not await self._records.is_unreadable(event.seq):
            self._doubted.discard(event.seq)
            self._on_refused()
            raise error
        is_lost_already = event.is_unreadable  # counted when it was read
        if event.seq not in self._doubted or not (is_lost_already or self._losses.left > 0):
            self._doubted.add(event.seq)
            raise error
        if await self._records.is_stuck(event.seq):
            if event.seq not in self.stuck:
                _log.error("row.stuck", event_id=str(event.id), seq=event.seq, error=str(error))
            self.stuck.add(event.seq)
            self._given_up.add(event.seq)
            written = NOTHING_WRITTEN
        else:
            written = await self._write_instead(_without_object(record))
            self._doubted.discard(event.seq)
            if not is_lost_already:
                _tell_unreadable(record, error)
        if not is_lost_already:
            self._losses.count()
        return written

    async def settle(self, records: Sequence[Record]) -> frozenset[int]:
        """Write what came too late for its fence; return the seqs that were only locked: try those again."""
        # What nobody can change holds up nothing else; it stays as it is until it is found again.
        records = [record for record in records if record.event.seq not in self._given_up]
        self._given_up.clear()
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


def _plainer(record: Record) -> Record:
    """Leave out what the attempt brought; what was delivered stays so."""
    if record.state is State.DELIVERED:
        return record._replace(attempt=None)
    attempt = record.attempt and record.attempt._replace(outcome=Outcome.UNSENDABLE, status=None)
    return _failed(record)._replace(attempt=attempt)


def _without_object(record: Record) -> Record:
    """Finish a damaged row with its attempt; it cannot be postponed."""
    finished = record if record.state is not None else _failed(record)
    return finished._replace(event=record.event._replace(is_unreadable=True))


def _failed(record: Record) -> Record:
    if record.event.on_failure is State.DELIVERED:
        return record._replace(state=State.DELIVERED, reason=None, due_at=None)
    return record._replace(state=State.FAILED, reason=FailedReason.UNSENDABLE, due_at=None)


def _tell_unreadable(record: Record, error: StatementRefused) -> None:
    _log.error(
        "row.unreadable",
        merchant_id=record.event.merchant_id,
        event_id=str(record.event.id),
        seq=record.event.seq,
        is_closed=True,
        error=str(error),
    )
