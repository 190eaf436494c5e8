"""Writes outcomes in batches, renews lanes and releases them.

One writer, strictly one statement after the other. What is handed over stays here until the database has
said that it is written: a failed, cancelled or doubtful statement is written again, which changes nothing.
While the oldest outcome that is not written yet is older than MAX_BEHIND, no attempt is started
(`caught_up`). An outcome whose row is locked or damaged delays only its own lane.
What becomes of a batch that the database refuses, and of what comes too late, `RefusedBatches` says.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.blocked import BlockedRows, Reason
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane_session import LaneSession, SessionState
from webhook_dispatcher.dispatch.pace import Backoff, sleep
from webhook_dispatcher.domain.errors import StatementRefused, StorageError
from webhook_dispatcher.domain.event import Event, FailedReason, State
from webhook_dispatcher.domain.lane import told
from webhook_dispatcher.domain.ports import Records
from webhook_dispatcher.domain.record import UNWANTED, LaneTurn, Record, Written
from webhook_dispatcher.domain.verdict import Outcome

BATCH_WAIT = 0.004
"""Seconds that the first outcome of a batch waits for others."""
MAX_BEHIND = 0.1
"""Seconds: the age of the oldest unwritten outcome beyond which no attempt is started (I3)."""
LOCKED_WAIT = 0.02
"""Seconds until an outcome whose row or lane was locked is tried again."""
DAMAGE_WAIT = 5.0
"""The same, whose row is damaged; below blocked.BLOCKED_WAIT, so that it is written before a row that was
mended is claimed anew."""
RECORD_WAIT = 0.5
"""Seconds between two tries at most: less than outage.HEAD_START, so that nobody claims before."""
MAX_BATCH = 500
MIN_BATCH = 10
QUICK_WRITE = 1.0
"""Seconds; a statement may take 1.8 at least: nine tenths (storage/session.py) of app.daemon's two."""

_REFUSED = "the database refused what was to be written about the attempt"

_log = structlog.get_logger()

NOTHING_WRITTEN = Written(frozenset(), (), (), (), ())


class BatchSize:
    """How many outcomes are written in one statement, and how many lanes released.

    While the database is slow, more outcomes wait and batches grow; a batch that takes longer than a
    statement may is never written, however often it is tried. So a batch that failed is followed by half of
    it, and only a full one that was quick by a larger one.
    """

    def __init__(self) -> None:
        self.limit = MAX_BATCH

    def failed(self) -> None:
        """Learn that a batch was not written."""
        self.limit = max(MIN_BATCH, self.limit // 2)

    def grow(self) -> None:
        """Learn that a full batch was quick."""
        self.limit = min(MAX_BATCH, self.limit * 2)


@dataclass(slots=True, eq=False)
class Entry:
    """One record on its way, and the session it was made in; a retry has none."""

    record: Record
    session: LaneSession | None
    added: float
    try_at: float = 0.0


class RefusedBatches:
    """Handles the outcomes that an ordinary batch did not write: they were refused, or came too late.

    Refused for a row's fault, the batch is halved until the bad record is alone. Refused for its values, that
    one is written plainer (I9). Refused for damage, it is set aside and tried again from time to time, if its
    own row proves to be unreadable; damage anywhere else (in a log, or in a row of webhook.lane) stops
    everything, loudly, and loses nothing. Refused for no row's fault (rights that are wanting, a log without
    its partition), all is written again as it is, until that is mended. What the statement left out was
    either locked, and may still be written, or has come too late for its fence, and then says only what is a
    fact. All methods raise StorageError, and may then be called again.

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

        No lane is released while half of its outcomes are in doubt. Raises `error` if no row is at fault.
        """
        if not error.is_row_fault:
            self._needs_upkeep.set()
        if not (records and error.is_row_fault):
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
            if await self._is_set_aside(record.event, error):
                return NOTHING_WRITTEN
            self._needs_upkeep.set()
            raise error
        _log.error("record.refused", event_id=str(record.event.id), seq=record.event.seq, error=str(error))
        try:
            return await self._records.write([_plainer(record)], [], self._lease)
        except StatementRefused:
            self._needs_upkeep.set()
            raise

    async def _is_set_aside(self, event: Event, error: StatementRefused) -> bool:
        """Set an outcome aside whose very row proves to be damaged; tell whether it does."""
        if not await self._records.is_unreadable(event.seq):
            return False
        self.set_aside.add(event.seq)
        self._blocked.find(Reason.UNREADABLE, event.lane, event.seq, event.id, str(error))
        return True

    async def settle(self, records: Sequence[Record]) -> frozenset[int]:
        """Write what came too late for its fence; return the seqs that were locked or damaged, for later."""
        if not records:
            return frozenset()
        locked = await self._records.read_unwritten(records)
        late = [record for record in records if record.event.seq not in locked]
        return locked.union([record.event.seq for record in late if not await self._write_late(record)])

    async def _write_late(self, record: Record) -> bool:
        try:
            try:
                return await self._records.write_late(record)
            except StatementRefused as error:
                if error.is_damage and await self._is_set_aside(record.event, error):
                    return False
                raise
        except StatementRefused as error:
            if not error.is_row_fault:
                self._needs_upkeep.set()
                raise
            # Whoever holds the row now decides about it; at worst the event is sent once more.
            _log.error("record.refused", event_id=str(record.event.id), error=str(error))
            return True


class Recorder:
    """Collects records and what becomes of lanes, and writes both until it is stopped and has written all.

    needs_upkeep: set when the database refuses what should be possible: a log may lack its next partition.
    """

    def __init__(self, records: Records, instruments: Instruments, lease: timedelta, trust: float) -> None:
        """Set up. `trust`: seconds after asking during which a renewed lane may start attempts."""
        self.needs_upkeep = asyncio.Event()
        self._memory = instruments.memory
        self._records = records
        self._lease = lease
        self._sent_lately = instruments.sent_lately
        self._refused = RefusedBatches(records, lease, instruments.blocked, self.needs_upkeep)
        self._clock = instruments.clock
        self._metrics = instruments.metrics
        self._trust = trust
        self._batch = BatchSize()
        self._queue: deque[Entry] = deque()
        self._deferred: list[Entry] = []
        self._ending: dict[str, LaneSession] = {}
        self._writing: list[Entry] = []
        self._writing_since: float | None = None
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._resting: asyncio.Future[None] | None = None
        self._is_hurried = False
        self._stopping = False
        self._backoff = Backoff(RECORD_WAIT)
        self._recorded: Counter[str] = Counter()

    def add(self, record: Record, session: LaneSession | None) -> None:
        """Take over a record; it is kept until the database has said that it is written."""
        if session is not None:
            session.add_outcome()
        self._sent_lately.note(record)
        self._queue.append(Entry(record, session, self._clock.elapsed()))
        self._wake.set()

    def release(self, session: LaneSession) -> None:
        """End a session, and release its lane with or after its last outcome."""
        session.end()
        self._ending[session.lease.lane] = session
        self._wake.set()

    def is_behind(self) -> bool:
        """Tell whether an outcome has been waiting to be written for longer than MAX_BEHIND."""
        return self.behind_for() > MAX_BEHIND

    def behind_for(self) -> float:
        """Return for how many seconds the oldest outcome has been waiting to be written."""
        oldest = self._writing_since
        if self._queue and (oldest is None or self._queue[0].added < oldest):
            oldest = self._queue[0].added
        return 0.0 if oldest is None else self._clock.elapsed() - oldest

    async def caught_up(self) -> None:
        """Wait until no outcome has been waiting for too long."""
        while self.is_behind():
            self._progress.clear()
            await self._progress.wait()

    @property
    def unwritten(self) -> int:
        """Return how many outcomes are not known to be written."""
        return len(self._queue) + len(self._writing) + len(self._deferred)

    def take_recorded(self) -> Counter[str]:
        """Return how many attempts were written since this was asked last, by outcome."""
        taken, self._recorded = self._recorded, Counter()
        return taken

    def stop(self) -> None:
        """Write what is there, then be drained; what was set aside is tried once more."""
        self._stopping = True
        for entry in self._deferred:
            entry.try_at = self._clock.elapsed()
        self._wake.set()

    @property
    def is_drained(self) -> bool:
        """Tell whether it was stopped, and all is written but what was set aside at its last try."""
        if not self._stopping or self._queue or self._writing or self._has_lanes_to_release:
            return False
        now, set_aside = self._clock.elapsed(), self._refused.set_aside
        return all(entry.try_at > now and entry.record.event.seq in set_aside for entry in self._deferred)

    @property
    def _has_lanes_to_release(self) -> bool:
        return any(not session.unwritten for session in self._ending.values())

    async def write_next(self) -> list[LaneSession]:
        """Wait for outcomes and write a batch; return the sessions that are closed. Waits after a failure."""
        await self._gather()
        try:
            closed = await self.step()
        except StorageError as error:
            self._metrics.database_errors.labels("record").inc()
            _log.warning("record.failed", error=str(error), unwritten=self.unwritten)
            await sleep(self._backoff.next())
            return []
        self._backoff.reset()
        return closed

    async def _gather(self) -> None:
        """Wait until there is something to write, and then a moment for more."""
        if not self._queue and (self._deferred or not self._stopping):
            self._wake.clear()
            now = self._clock.elapsed()
            rests = [max(0.0, entry.try_at - now) for entry in self._deferred]
            if self._has_lanes_to_release:
                rests.append(LOCKED_WAIT)
            await sleep(min(rests, default=None), self._wake)
        if len(self._queue) < self._batch.limit:
            waited = self._clock.elapsed() - self._queue[0].added if self._queue else 0.0
            if waited < BATCH_WAIT and not self._is_hurried:
                await self._rest(BATCH_WAIT - waited)
        self._is_hurried = False

    async def _rest(self, seconds: float) -> None:
        """Wait for more outcomes, until `hurry`; costs what a plain sleep does."""
        loop = asyncio.get_running_loop()
        rest = self._resting = loop.create_future()
        timer = loop.call_later(seconds, self.hurry)
        try:
            await rest
        finally:
            timer.cancel()

    def hurry(self) -> None:
        """Write what there is without waiting for more: a session waits for it."""
        self._is_hurried = True
        if self._resting is not None and not self._resting.done():
            self._resting.set_result(None)

    async def step(self) -> list[LaneSession]:
        """Write one batch, settle what it did and did not write, and return the sessions that are closed.

        Nothing is awaited once a session has been closed: none is lost to the caller.
        """
        batch = self._next_batch()
        turns = self._turns_with(batch)
        if not batch and not turns:
            return []
        started = self._clock.elapsed()
        records = [entry.record for entry in batch]
        if self._refused.set_aside:
            self._refused.retry(records)
        try:
            try:
                written = await self._records.write(records, list(turns.values()), self._lease)
            except StatementRefused as error:
                written = await self._refused.write_in_parts(records, error)
        except BaseException:
            self._requeue(batch)
            self._batch.failed()
            raise
        took = self._clock.elapsed() - started
        if took < QUICK_WRITE and max(len(batch), len(turns)) >= self._batch.limit:
            self._batch.grow()
        self._metrics.record_duration.observe(took)
        if rest := self._settle(batch, written.seqs):
            try:
                self._keep(rest, await self._refused.settle([entry.record for entry in rest]))
            except BaseException:
                self._requeue(rest)
                raise
        self._progress.set()
        return self._settle_lanes(list(turns), written, started)

    def _next_batch(self) -> list[Entry]:
        """Take what may be tried now, oldest first; a row occurs once in a statement."""
        now = self._clock.elapsed()
        oldest = self._queue[0].added if self._queue else now
        batch: dict[int, Entry] = {}
        later: list[Entry] = []
        # Rows known to be damaged have a batch of their own: nobody else is refused with them.
        set_aside = self._refused.set_aside
        is_apart = any(
            entry.try_at <= now and entry.record.event.seq in set_aside for entry in self._deferred
        )
        for entry in self._deferred:
            seq = entry.record.event.seq
            is_due = entry.try_at <= now and (seq in set_aside) is is_apart and len(batch) < self._batch.limit
            if is_due and seq not in batch:
                batch[seq] = entry
                # It kept back its own lane alone; its age is not to keep back all others.
                entry.added = oldest
            else:
                later.append(entry)
        self._deferred = later
        queue = deque() if is_apart else self._queue
        while queue and len(batch) < self._batch.limit and queue[0].record.event.seq not in batch:
            entry = queue.popleft()
            batch[entry.record.event.seq] = entry
        self._writing = list(batch.values())
        self._writing_since = min((entry.added for entry in self._writing), default=None)
        return self._writing

    def _requeue(self, entries: list[Entry]) -> None:
        self._writing, self._writing_since = [], None
        self._queue.extendleft(sorted(entries, key=lambda entry: entry.added)[::-1])

    def _turns_with(self, batch: list[Entry]) -> dict[LaneSession, LaneTurn]:
        """Say what becomes of the lanes: a session that is over ends with or after its last outcome."""
        outcomes: dict[LaneSession, set[int]] = {}
        for entry in batch:
            if entry.session is not None:
                outcomes.setdefault(entry.session, set()).add(entry.record.event.seq)
        for session in [session for session in self._ending.values() if not session.unwritten]:
            if len(outcomes) >= self._batch.limit:
                break
            # Behind the others, for when its lane is locked now.
            self._ending[session.lease.lane] = self._ending.pop(session.lease.lane)
            outcomes.setdefault(session, set())
        return {session: session.turn(seqs) for session, seqs in outcomes.items()}

    def _settle(self, batch: list[Entry], seqs: frozenset[int], *, is_late: bool = False) -> list[Entry]:
        """Strike off what was written, and return the rest. is_late: its attempts alone were."""
        rest = []
        for entry in batch:
            record, session = entry.record, entry.session
            if record.event.seq not in seqs:
                rest.append(entry)
                continue
            if record.attempt is not None:
                self._recorded[record.attempt.outcome] += 1
            if record.state is not None and not is_late:
                self._count_end(record)
            if session is not None and is_late and record.state == UNWANTED:
                session.keep_unwanted()
            if session is None:
                self._memory.free(record.event)
            else:
                session.settle_outcome(record.event)
        self._writing, self._writing_since = rest, min((entry.added for entry in rest), default=None)
        return rest

    def _count_end(self, record: Record) -> None:
        if isinstance(record.state, State):
            self._metrics.deliveries_by[record.state, record.reason, record.event.type].inc()
        else:
            self._metrics.unwanted_events.inc()

    def _keep(self, rest: list[Entry], for_later: frozenset[int]) -> None:
        written = frozenset(entry.record.event.seq for entry in rest) - for_later
        for entry in self._settle(rest, written, is_late=True):
            is_set_aside = entry.record.event.seq in self._refused.set_aside
            entry.added = self._clock.elapsed()  # from here on it holds up its own lane alone
            entry.try_at = entry.added + (DAMAGE_WAIT if is_set_aside else LOCKED_WAIT)
            if entry.session is not None and is_set_aside:
                entry.session.give_way()
            elif entry.session is not None:
                entry.session.block()
            self._deferred.append(entry)
        self._writing, self._writing_since = [], None

    def _settle_lanes(
        self, sessions: list[LaneSession], written: Written, started: float
    ) -> list[LaneSession]:
        """Renew, close or lose the lanes of a batch; return the sessions that are closed."""
        kept, released, lost = set(written.kept), set(written.released), set(written.lost)
        for session in sessions:
            if session.lease.lane in kept:
                session.renew(started + self._trust)
            elif session.lease.lane in lost and session.lose():
                self._metrics.leases_lost.inc()
                _log.warning("lane.lost", **told(session.lease.lane), epoch=session.lease.epoch)
            if session.lease.lane in written.recalled:
                session.recall()
        over = {s.lease.lane for s in sessions if s.state is SessionState.OVER and not s.unwritten}
        closed = [session for session in sessions if session.lease.lane in released | (lost & over)]
        for session in closed:
            self._ending.pop(session.lease.lane, None)
        return closed


def _plainer(record: Record) -> Record:
    """Leave out what the attempt brought; what was delivered stays so."""
    if record.state in (State.DELIVERED, UNWANTED):
        return record._replace(attempt=None)
    attempt = record.attempt and record.attempt._replace(
        outcome=Outcome.UNSENDABLE, status=None, reason=_REFUSED, response_excerpt=None
    )
    if record.event.on_failure is State.DELIVERED:
        return record._replace(attempt=attempt, state=State.DELIVERED, reason=None, due_at=None)
    return record._replace(attempt=attempt, state=State.FAILED, reason=FailedReason.UNSENDABLE, due_at=None)
