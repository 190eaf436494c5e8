"""A retrier with everything around it in memory, one round at a time."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tests.unit.builders import HOLD, INTERVAL, KEYRING, LEASE, make_event
from tests.unit.fakes.database import FakeDatabase
from tests.unit.fakes.network import FakeSender
from tests.unit.fakes.storage import FakeClaims, FakeRecords
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.attempt import Attempter, Hold
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.retries import Retrier, RetryLimits
from webhook_dispatcher.domain.claim import ClaimedRetry
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.telemetry.metrics import Metrics

MICROSECOND = timedelta(microseconds=1)


class RetrierHarness:
    """A retrier and everything around it."""

    def __init__(self, most: int = 10, stop: Stop | None = None) -> None:
        self.database = FakeDatabase()
        self.clock = self.database.clock
        self.claims, self.records, self.sender = (
            FakeClaims(self.database),
            FakeRecords(self.database),
            FakeSender(),
        )
        self.stop = stop or Stop()
        instruments = self.instruments = Instruments.of(self.clock, Metrics("test"))
        self.memory, self.database_clock = instruments.memory, instruments.database_clock
        self.own_faults, self.health = instruments.own_faults, instruments.health
        self.recorder = Recorder(self.records, instruments, LEASE, 15.0)
        attempter = self.attempter = Attempter(self.sender, KEYRING, Schedule(), instruments)
        limits = RetryLimits(most, 2, LEASE, 15.0, Hold(HOLD), INTERVAL)
        self.retrier = Retrier(self.claims, self.recorder, attempter, instruments, limits, self.stop)
        self.database.configure("m")

    def owe(self, *seqs: int, **changes: Any) -> None:
        """Make rows due."""
        for seq in seqs:
            event = make_event(seq, attempts=1, **changes)
            self.claims.retries.append(ClaimedRetry(event, 100 + seq, None))

    def owe_of(self, merchants: Sequence[str], first: int) -> None:
        """Make one row of each merchant due."""
        for seq, merchant_id in enumerate(merchants, first):
            self.owe(seq, lane=merchant_id)

    async def round(self) -> int:
        """Claim once, let all attempts end, and write what came of them."""
        async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
            step = await self.retrier.step(group)
        await self.recorder.step()
        return step.started

    def the_only_record(self) -> Record:
        [record] = self.records.written
        return record

    def assert_rescheduled(self, wait: timedelta = timedelta(), sent: Sequence[int] = ()) -> None:
        """Check that the one row was given back as it was, and what was sent of it."""
        record = self.the_only_record()
        assert self.sender.event_ids == list(sent)
        assert (record.attempt, record.state, record.attempts) == (None, None, 1)
        assert record.due_at is not None
        assert abs(record.due_at - self.clock.now - wait) <= MICROSECOND
        assert self.memory.used == 0
