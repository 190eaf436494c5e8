"""A dispatcher with everything around it in memory, one step at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from tests.unit.builders import HOLD, INTERVAL, KEYRING, LEASE
from tests.unit.fakes.database import FakeDatabase
from tests.unit.fakes.network import FakeSender
from tests.unit.fakes.storage import FakeClaims, FakeRecords
from tests.unit.loop_turns import quiet
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.attempt import Attempter, Hold
from webhook_dispatcher.dispatch.dispatcher import Dispatcher, Limits
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.telemetry.metrics import Metrics


class DispatcherHarness:
    """A dispatcher and everything around it, one step at a time."""

    def __init__(self, max_lanes: int = 10) -> None:
        self.database = FakeDatabase()
        self.clock = self.database.clock
        self.claims, self.records = FakeClaims(self.database), FakeRecords(self.database)
        self.sender, self.metrics = FakeSender(), Metrics("test")
        instruments = self.instruments = Instruments.of(self.clock, self.metrics)
        self.memory, self.own_faults = instruments.memory, instruments.own_faults
        self.recorder = Recorder(self.records, instruments, LEASE, 15.0)
        attempter = self.attempter = Attempter(self.sender, KEYRING, Schedule(), instruments)
        self.dispatcher = Dispatcher(
            self.claims,
            self.recorder,
            attempter,
            instruments,
            Limits(max_lanes, LEASE, 15.0, timedelta(milliseconds=25), Hold(HOLD), INTERVAL),
        )

    @asynccontextmanager
    async def open(self, *merchants: str) -> AsyncIterator[asyncio.TaskGroup]:
        """Look for the first time; on the way out stop, and let everything be written."""
        self.database.configure(*merchants)
        async with asyncio.timeout(MAX_WAIT):
            async with asyncio.TaskGroup() as group:
                await self.dispatcher.step(group)
                yield group
                if self.sender.gate is not None:
                    self.sender.gate.set()
                self.dispatcher.stop()
                self.dispatcher._worker.stop_reading()
            for _ in range(5):
                await self.write()
        assert (self.dispatcher.lanes_leased, self.recorder.unwritten, self.memory.used) == (0, 0, 0)

    async def write(self) -> None:
        """Write a batch of outcomes."""
        self.dispatcher.close(await self.recorder.step())

    async def rounds(self, group: asyncio.TaskGroup, count: int = 4) -> None:
        """Step, let attempts end, write: as often as asked."""
        for _ in range(count):
            await self.dispatcher.step(group)
            await quiet()
            await self.write()
            self.clock.advance(0.025)

    @property
    def sent(self) -> list[int]:
        return self.sender.event_ids
