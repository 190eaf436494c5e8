"""Writes a batch of records whatever is in it.

A batch that the database refuses is halved until the bad record is alone, and that one is written plainer
(I9), at last without its object; a damaged row that cannot be changed at all is left to be found
again. What the statement left out was either locked, and may still be written, or has come too late for its
fence, and then says only what is a fact.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import structlog

from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.event import Event, FailedReason, State
from webhook_dispatcher.domain.ports import Records
from webhook_dispatcher.domain.record import LaneTurn, Record, Written
from webhook_dispatcher.domain.verdict import Outcome

_log = structlog.get_logger()


NOTHING_WRITTEN = Written(frozenset(), (), (), (), ())


class Writer:
    """Writes records; all methods raise StorageError, and may then be called again."""

    def __init__(self, records: Records, lease: timedelta, on_refused: Callable[[], None]) -> None:
        """Set up. `on_refused` is called when the database refuses even the plainest record."""
        self._records = records
        self._lease = lease
        self._on_refused = on_refused
        self._given_up: set[int] = set()
        self._stuck: set[int] = set()

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
        seq, event_id = record.event.seq, str(record.event.id)
        if seq not in self._stuck:
            _log.error("record.refused", event_id=event_id, seq=seq, error=str(error))
        refusal = error
        for form in _plainer_forms(record, error):
            try:
                written = await self._records.write([form], [], self._lease)
            except StatementRefused as again:
                refusal = again
                continue
            if form.event.is_unreadable and not record.event.is_unreadable:
                _tell_unreadable(record.event, error)
            return written
        if refusal.is_damage:
            if seq not in self._stuck:
                _log.error("row.stuck", event_id=event_id, seq=seq, error=str(refusal))
            self._stuck.add(seq)
            self._given_up.add(seq)
            return NOTHING_WRITTEN
        self._on_refused()
        raise refusal

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


def _plainer_forms(record: Record, error: StatementRefused) -> Iterator[Record]:
    """Give what may be written instead, the fullest first."""
    # A damaged row cannot be postponed, and moving it reads its object: it is finished without.
    lost = replace(record.event, is_unreadable=True)
    finished = record if record.state is not None else _failed(record)
    if error.is_damage:
        yield replace(finished, event=lost)
    if record.state is State.DELIVERED:
        plainer = replace(record, attempt=None)  # what was delivered stays so
    else:
        attempt = record.attempt and replace(record.attempt, outcome=Outcome.UNSENDABLE, status=None)
        plainer = replace(_failed(record), attempt=attempt)
    yield plainer
    yield replace(plainer, event=lost)


def _failed(record: Record) -> Record:
    if record.event.on_failure is State.DELIVERED:
        return replace(record, state=State.DELIVERED, reason=None, due_at=None)
    return replace(record, state=State.FAILED, reason=FailedReason.UNSENDABLE, due_at=None)


def _tell_unreadable(event: Event, error: StatementRefused) -> None:
    _log.error(
        "row.unreadable",
        merchant_id=event.merchant_id,
        event_id=str(event.id),
        seq=event.seq,
        is_closed=True,
        error=str(error),
    )
