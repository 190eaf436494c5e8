"""Writes outcomes in batches, renews lanes and gives them back.

One writer, strictly one statement after the other. What is handed over stays here until the database has
said that it is written: a failed, cancelled or doubtful statement is written again, which changes nothing.
While the oldest answer that is on its way to the database is older than MOST_BEHIND, nobody starts a new
attempt (`caught_up`). A row that somebody holds locked, or that is damaged, keeps back only its own lane.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.batch import BatchSize
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane import Visit
from webhook_dispatcher.dispatch.pace import RECORD_WAIT, Backoff, pause
from webhook_dispatcher.dispatch.writing import Writer
from webhook_dispatcher.domain.errors import StorageError
from webhook_dispatcher.domain.ports import Records
from webhook_dispatcher.domain.record import LaneTurn, Record, Written

LINGER = 0.004
"""Seconds that the first outcome of a batch waits for company."""
MOST_BEHIND = 0.1
"""Seconds: the age of the oldest answer on its way to the database beyond which nothing new starts (I3)."""
BOUNCE_WAIT = 0.02
"""Seconds until an outcome whose row or lane was locked is tried again."""
DAMAGE_WAIT = 5.0
"""The same, whose row is damaged; below blocked.BLOCKED_WAIT, so that it is written before a row that was
mended is claimed anew."""

_log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class Entry:
    """One record on its way, and the visit it was made in; a retry has none."""

    record: Record
    visit: Visit | None
    added: float
    try_at: float = 0.0


class Recorder:
    """Collects records and turns of lanes, and writes them until it is drained."""

    def __init__(
        self,
        records: Records,
        instruments: Instruments,
        lease: timedelta,
        trust: float,
        on_refused: Callable[[], None],
    ) -> None:
        """Set up. `trust`: seconds after asking during which a renewed lane may start attempts."""
        self.on_closed: Callable[[Visit], None] = _ignore
        self._bodies = instruments.bodies
        self._writer = Writer(records, lease, instruments.blocked, on_refused)
        self._clock = instruments.clock
        self._metrics = instruments.metrics
        self._trust = trust
        self._batch = BatchSize()
        self._queue: deque[Entry] = deque()
        self._bounced: list[Entry] = []
        self._ending: dict[str, Visit] = {}
        self._writing: list[Entry] = []
        self._writing_since: float | None = None
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._stopping = False

    def add(self, record: Record, visit: Visit | None) -> None:
        """Take over a record; it is written soon, and kept until it is."""
        if visit is not None:
            visit.unwritten += 1
        self._queue.append(Entry(record, visit, self._clock.elapsed()))
        self._wake.set()

    def give_back(self, visit: Visit) -> None:
        """Release a lane with or after its last outcome."""
        self._ending[visit.merchant_id] = visit
        self._wake.set()

    def is_behind(self) -> bool:
        """Tell whether an answer has been on its way to the database for too long."""
        oldest = self._writing_since
        if self._queue and (oldest is None or self._queue[0].added < oldest):
            oldest = self._queue[0].added
        return oldest is not None and self._clock.elapsed() - oldest > MOST_BEHIND

    async def caught_up(self) -> None:
        """Wait until nothing is overdue for writing."""
        while self.is_behind():
            self._progress.clear()
            await self._progress.wait()

    @property
    def unwritten(self) -> int:
        """Return how many outcomes are not known to be written."""
        return len(self._queue) + len(self._writing) + len(self._bounced)

    def stop(self) -> None:
        """Write what is there, then return from `run`."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Write batches until stopped and empty."""
        backoff = Backoff(RECORD_WAIT)
        while not (self._stopping and not self.unwritten and not self._ending):
            await self._gather()
            try:
                await self.step()
            except StorageError as error:
                self._metrics.database_errors.labels("record").inc()
                _log.warning("record.failed", error=str(error), unwritten=self.unwritten)
                await pause(backoff.next())
            else:
                backoff.reset()

    async def _gather(self) -> None:
        """Wait until there is something to write, and then a moment for more."""
        if not self._queue and not self._stopping:
            self._wake.clear()
            waits_for_a_lock = bool(self._bounced or self._ending)
            await pause(BOUNCE_WAIT if waits_for_a_lock else None, self._wake)
        if len(self._queue) < self._batch.limit and (wait := self._company()) > 0:
            await pause(wait)

    def _company(self) -> float:
        """Return for how many seconds the first outcome still waits for others."""
        waited = self._clock.elapsed() - self._queue[0].added if self._queue else 0.0
        return LINGER - waited

    async def step(self) -> None:
        """Write one batch, and settle what it did and did not write."""
        batch = self._next_batch()
        turns = self._turns_with(batch)
        if not batch and not turns:
            return
        asked = self._clock.elapsed()
        try:
            written = await self._writer.write([entry.record for entry in batch], list(turns.values()))
        except BaseException:
            self._put_back(batch)
            self._batch.failed()
            raise
        took = self._clock.elapsed() - asked
        self._batch.written(max(len(batch), len(turns)), took)
        self._metrics.record_duration.observe(took)
        rest = self._settle(batch, written)
        try:
            self._keep(rest, await self._writer.settle([entry.record for entry in rest]))
        except BaseException:
            self._put_back(rest)
            raise
        self._settle_lanes(list(turns), written, asked)
        self._progress.set()

    def _next_batch(self) -> list[Entry]:
        """Take what may be tried now, oldest first; a row occurs once in a statement."""
        now = self._clock.elapsed()
        batch: dict[int, Entry] = {}
        later: list[Entry] = []
        for entry in self._bounced:
            is_due = entry.try_at <= now and len(batch) < self._batch.limit
            if not is_due or batch.setdefault(entry.record.event.seq, entry) is not entry:
                later.append(entry)
        self._bounced = later
        while self._queue and len(batch) < self._batch.limit and self._queue[0].record.event.seq not in batch:
            entry = self._queue.popleft()
            batch[entry.record.event.seq] = entry
        self._under_way(list(batch.values()))
        return self._writing

    def _under_way(self, entries: list[Entry]) -> None:
        # What was locked before is younger here than the rest: its age is that of its last try.
        self._writing = entries
        self._writing_since = min((entry.added for entry in entries), default=None)

    def _put_back(self, entries: list[Entry]) -> None:
        self._under_way([])
        self._queue.extendleft(sorted(entries, key=_added, reverse=True))

    def _turns_with(self, batch: list[Entry]) -> dict[Visit, LaneTurn]:
        """Say what becomes of the lanes: a visit that is over ends with or after its last outcome."""
        outcomes: dict[Visit, set[int]] = {}
        for entry in batch:
            if entry.visit is not None:
                outcomes.setdefault(entry.visit, set()).add(entry.record.event.seq)
        for visit in [visit for visit in self._ending.values() if not visit.unwritten]:
            if len(outcomes) >= self._batch.limit:
                break
            # Behind the others, for when its lane is locked now.
            self._ending[visit.merchant_id] = self._ending.pop(visit.merchant_id)
            outcomes.setdefault(visit, set())
        return {
            visit: LaneTurn(
                visit.merchant_id,
                visit.lease.epoch,
                visit.is_over and visit.unwritten == len(seqs),
                visit.reach(seqs),
                visit.wait_until,
            )
            for visit, seqs in outcomes.items()
        }

    def _settle(self, batch: list[Entry], written: Written) -> list[Entry]:
        """Strike off what was written; return the rest."""
        rest = []
        for entry in batch:
            if entry.record.event.seq in written.seqs:
                if entry.record.state is not None:
                    self._metrics.count_delivery(entry.record.state, entry.record.event.type)
                self._strike_off(entry)
            else:
                rest.append(entry)
        self._under_way(rest)
        return rest

    def _strike_off(self, entry: Entry) -> None:
        self._bodies.free(entry.record.event)
        visit = entry.visit
        if visit is None:
            return
        visit.finish(entry.record.event)

    def _keep(self, rest: list[Entry], locked: frozenset[int]) -> None:
        for entry in rest:
            if entry.record.event.seq not in locked:
                self._strike_off(entry)
                continue
            is_set_aside = entry.record.event.seq in self._writer.set_aside
            entry.added = self._clock.elapsed()  # from here on it holds up its own lane alone
            entry.try_at = entry.added + (DAMAGE_WAIT if is_set_aside else BOUNCE_WAIT)
            if entry.visit is not None and is_set_aside:
                entry.visit.spend()
            elif entry.visit is not None:
                entry.visit.unstuck.clear()
            self._bounced.append(entry)
        self._under_way([])

    def _settle_lanes(self, visits: list[Visit], written: Written, asked: float) -> None:
        kept, released, lost = set(written.kept), set(written.released), set(written.lost)
        for visit in visits:
            if visit.merchant_id in lost:
                self._lose(visit)
            elif visit.merchant_id in kept:
                visit.trusted_until = asked + self._trust
            elif visit.merchant_id in released:
                self._close(visit)
            if visit.merchant_id in written.recalled:
                visit.is_recalled = True

    def _lose(self, visit: Visit) -> None:
        if not visit.is_lost:
            visit.is_lost = True
            self._metrics.leases_lost.inc()
            _log.warning("lane.lost", merchant_id=visit.merchant_id, epoch=visit.lease.epoch)
        if visit.is_over and not visit.unwritten:
            self._close(visit)

    def _close(self, visit: Visit) -> None:
        self._ending.pop(visit.merchant_id, None)
        self.on_closed(visit)


def _added(entry: Entry) -> float:
    return entry.added


def _ignore(visit: Visit) -> None:
    """Nobody is to be told that a lane was given back."""
