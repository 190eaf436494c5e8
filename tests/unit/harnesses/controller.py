"""A controller with the control table and everything around it in memory."""

import asyncio
from datetime import timedelta
from typing import Any

from tests.unit.builders import KEYRING, LEASE
from tests.unit.fakes.controls import FakeControls
from tests.unit.fakes.database import FakeDatabase
from tests.unit.fakes.network import FakeSender
from tests.unit.fakes.storage import FakeClaims, FakeRecords
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.attempt import Attempter
from webhook_dispatcher.dispatch.control.controller import Controller
from webhook_dispatcher.dispatch.control.long_running import LongRunningCommands
from webhook_dispatcher.dispatch.control.postponed import Postponed
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.domain.command import Code, CommandRow, Queue
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.telemetry.metrics import Metrics

URL = "https://new.example/"
ATTEMPT_TIMEOUT = timedelta(minutes=1)


class ControllerHarness:
    """A controller, the control table, and a merchant `m` with an endpoint; it is the UrlGuard too."""

    def __init__(self) -> None:
        self.database = FakeDatabase()
        self.database.configure("m")
        self.controls = FakeControls(self.database)
        self.sender, self.stop, self.metrics = FakeSender(), Stop(), Metrics("test")
        self.clock = self.database.clock
        instruments = Instruments.of(self.clock, self.metrics)
        self.right_of_way = instruments.right_of_way
        attempter = self.attempter = Attempter(self.sender, KEYRING, Schedule(), instruments)
        recorder = Recorder(FakeRecords(self.database), instruments, LEASE, 15.0)
        long_running = LongRunningCommands(
            self.controls,
            FakeClaims(self.database),
            attempter,
            recorder,
            instruments,
            ATTEMPT_TIMEOUT,
            self.stop,
        )
        self.controller = Controller(
            Queue.MERCHANTS, self.controls, long_running, self, instruments, Postponed(self.clock), self.stop
        )

    def find_fault(self, url: str) -> str | None:
        return None if url == URL else "it is not public"

    async def step(self) -> bool:
        """Take one command up, and let what it began end."""
        async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
            has_handled = await self.controller.step(group)
        assert self.controls.open_transactions == 0
        return has_handled

    def counted(self, command: str, status: str) -> float | None:
        labels = {"command": command, "status": status}
        return self.metrics.registry.get_sample_value("webhook_control_commands_total", labels)

    async def assert_rejected(self, row: CommandRow, code: Code) -> None:
        assert await self.step()
        assert (self.controls.handlings[row.id].status, self.controls.handlings[row.id].code) == (
            "rejected",
            code,
        )
        assert self.controls.done == [] or self.controls.done[-1][0] in {"reopen", "cancel"}

    async def assert_done(self, row: CommandRow, result: dict[str, Any], *done: tuple[Any, ...]) -> None:
        assert await self.step()
        assert (self.controls.handlings[row.id].status, self.controls.handlings[row.id].result) == (
            "done",
            result,
        )
        assert (self.controls.done, self.counted(row.name, "done")) == (list(done), 1)
