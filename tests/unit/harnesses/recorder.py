"""A recorder with a database and a clock in memory, and lanes that hand it records."""

from datetime import timedelta

from tests.unit.builders import LEASE, NOW, make_event
from tests.unit.fakes.database import FakeDatabase, Owed
from tests.unit.fakes.storage import FakeRecords
from tests.unit.loop_turns import finished
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane_session import LaneSession
from webhook_dispatcher.dispatch.recorder import LOCKED_WAIT, Recorder
from webhook_dispatcher.domain.claim import RunAsk
from webhook_dispatcher.domain.event import Event, State
from webhook_dispatcher.domain.record import Attempt, Record
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.telemetry.metrics import Metrics

TRUST = 15.0


class RecorderHarness:
    """What a dispatcher and its followers would do to a recorder."""

    def __init__(self) -> None:
        self.database = FakeDatabase()
        self.clock = self.database.clock
        self.records = FakeRecords(self.database)
        self.metrics = Metrics("test")
        instruments = Instruments.of(self.clock, self.metrics)
        self.memory = instruments.memory
        self.recorder = Recorder(self.records, instruments, LEASE, TRUST)
        self.blocked = instruments.blocked
        self.closed: list[LaneSession] = []

    def session(self, lane: str, *seqs: int) -> LaneSession:
        """Lease a lane that owes events, and read them."""
        self.database.insert(*[make_event(seq, lane) for seq in seqs])
        session = LaneSession(self.database.lease(lane), self.memory, self.clock.elapsed() + TRUST, 1e9)
        everything = RunAsk(lane, 0, 1000, 10**6, NOW)
        session.take_in([make_event(seq, lane) for seq in seqs], everything, stable=max(seqs))
        return session

    def attempt(self, session: LaneSession, state: State | None = State.DELIVERED) -> Record:
        """Make the next attempt of a session and hand over its record."""
        record = self.record(session.start(), session.lease.epoch, False, state)
        self.recorder.add(record, session)
        return record

    def retry(
        self, seq: int, claim: int, state: State | None = State.DELIVERED, on_failure: State | None = None
    ) -> Record:
        """Make an attempt of a claimed row outside the order, and hand over its record."""
        event = make_event(seq, "r", attempts=1, on_failure=on_failure)
        if seq not in self.database.owed:
            self.database.owed[seq] = Owed(event, False, claim)
        self.memory.reserve(event)
        record = self.record(event, claim, True, state)
        self.recorder.add(record, None)
        return record

    def record(self, event: Event, fence: int, is_retry: bool, state: State | None) -> Record:
        """Make a record of an attempt that ended now."""
        outcome = Outcome.STATUS if state is None else Outcome.DELIVERED
        attempt = Attempt(event.attempts + 1, self.clock.now, self.clock.now, 0, 200, outcome)
        due_at = self.clock.now + timedelta(minutes=1) if state is None else None
        return Record(event, fence, is_retry, attempt, state, None, due_at, self.clock.now)

    def end(self, session: LaneSession) -> None:
        """End a session as the dispatcher does."""
        session.end()
        self.recorder.release(session)

    def step(self, after: float = 0.0) -> None:
        """Write a batch, after so many seconds; nothing here waits."""
        self.clock.advance(after)
        self.closed += finished(self.recorder.step())

    async def run(self) -> None:
        """Write until the recorder is drained, as the daemon does."""
        while not self.recorder.is_drained:
            self.closed += await self.recorder.write_next()

    def settle(self, most: int = 30) -> None:
        """Write until nothing is left."""
        for _ in range(most):
            if not self.recorder.unwritten and not self.recorder._ending:
                return
            self.step(after=LOCKED_WAIT)
        raise AssertionError(f"{self.recorder.unwritten} outcomes are still not written")
