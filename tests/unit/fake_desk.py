"""The control table and what can be done for its commands, in memory."""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.unit.fakes import NOW, FakeDatabase
from webhook_dispatcher.domain.command import Code, Command, CommandRejected, RetryFailed
from webhook_dispatcher.domain.errors import LeaseLost
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.ports import Desk, FoundDelivery, ReopenedChunk, TestLog

EVENT_ID = UUID(int=7)


@dataclass(slots=True)
class Standing:
    """A row of the control table beside its command."""

    status: str = "pending"
    result: Mapping[str, Any] | None = None
    code: Code | None = None
    message: str = ""
    token: datetime | None = None


class FakeDesk:
    """Does what it is told, and keeps a list of it."""

    def __init__(self, database: FakeDatabase) -> None:
        self.database = database
        self.commands: list[Command] = []
        self.standing: dict[int, Standing] = {}
        self.done: list[tuple[Any, ...]] = []
        self.delivery: FoundDelivery | None = None
        self.is_hastened = True
        self.reopens: bool | None = False
        self.is_cancelled = True
        self.paused: set[str] = set()
        self.chunks: list[ReopenedChunk] = []
        self.asked_chunks: list[tuple[tuple[datetime, int], int]] = []
        self.tests: list[TestLog] = []
        self.busy_looks = 0
        self.waiting: deque[int] = deque()
        self.counted: list[tuple[int, ...]] = []

    def give(self, command: str, merchant_id: str | None = None, **changes: Any) -> Command:
        """Insert a command."""
        facts: dict[str, Any] = {"event_id": None, "args": {}, "result": {}, "created_at": NOW}
        number = len(self.commands) + 1
        self.commands.append(
            Command(id=number, command=command, merchant_id=merchant_id, **(facts | changes))
        )
        self.standing[number] = Standing()
        return self.commands[-1]

    def find(self, state: State, is_owed: bool, is_in_flight: bool = False) -> None:
        """Let an event's delivery be found."""
        finished_at = None if is_owed else NOW
        self.delivery = FoundDelivery(7, "m", "charge.created", state, is_owed, is_in_flight, finished_at)

    async def is_alone(self) -> bool:
        self.database.fail("is_alone")
        self.busy_looks -= 1
        return self.busy_looks < 0

    async def next_command(self, except_ids: Sequence[int]) -> int | None:
        self.database.fail("next_command")
        waiting = (
            c.id for c in self.commands if self.standing[c.id].status == "pending" and c.id not in except_ids
        )
        return next(waiting, None)

    async def read_command(self, command_id: int) -> Command:
        self.database.fail("read_command")
        return self.commands[command_id - 1]

    def _hold(self, command_id: int, token: datetime | None) -> Standing:
        if token is not None and self.standing[command_id].token != token:
            raise LeaseLost("another worker has it")
        return self.standing[command_id]

    async def finish(self, command_id: int, result: Mapping[str, Any], token: datetime | None = None) -> None:
        self.database.fail("finish")
        standing = self._hold(command_id, token)
        standing.status, standing.result = "done", dict(result)

    async def reject(self, command_id: int, code: Code, message: str, token: datetime | None = None) -> None:
        self.database.fail("reject")
        standing = self._hold(command_id, token)
        standing.status, standing.code, standing.message = "rejected", code, message

    async def keep_running(
        self, command_id: int, lease: timedelta, result: Mapping[str, Any], token: datetime | None = None
    ) -> datetime:
        self.database.fail("keep_running")
        standing = self._hold(command_id, token)
        standing.status, standing.result = "running", dict(result)
        standing.token = (standing.token or NOW) + timedelta(seconds=1)
        self.done.append(("keep_running", lease))
        return standing.token

    async def find_delivery(self, event_id: UUID) -> FoundDelivery:
        self.database.fail("find_delivery")
        if self.delivery is None:
            raise CommandRejected(Code.NOT_FOUND, "unknown")
        return self.delivery

    async def hasten(self, delivery: FoundDelivery) -> bool:
        self.done.append(("hasten", delivery.seq))
        return self.is_hastened

    async def reopen(self, delivery: FoundDelivery) -> bool | None:
        self.done.append(("reopen", delivery.seq))
        return self.reopens

    async def announce(self, heads: Mapping[str, int | None]) -> None:
        self.database.fail("announce")
        self.done.append(("announce", dict(heads)))

    async def cancel(self, event_id: UUID, merchant_id: str) -> bool:
        self.done.append(("cancel", event_id))
        return self.is_cancelled

    async def is_paused(self, merchant_id: str) -> bool:
        if merchant_id not in self.database.endpoints:
            raise CommandRejected(Code.NOT_CONFIGURED, "no endpoint")
        return merchant_id in self.paused

    async def pause(self, merchant_id: str | None, is_paused: bool) -> None:
        self.done.append(("pause", merchant_id, is_paused))

    async def set_url(self, merchant_id: str, url: str) -> None:
        self.database.fail("set_url")
        self.done.append(("set_url", merchant_id, url))

    async def count_failed(self, wish: RetryFailed) -> int:
        return sum(chunk.matched for chunk in self.chunks)

    async def reopen_failed(
        self, wish: RetryFailed, after: tuple[datetime, int], most: int
    ) -> ReopenedChunk | None:
        self.database.fail("reopen_failed")
        self.asked_chunks.append((after, most))
        return self.chunks.pop(0) if self.chunks else None

    async def count_waiting(self, seqs: Sequence[int]) -> int:
        self.database.fail("count_waiting")
        self.counted.append(tuple(seqs))
        return self.waiting.popleft() if self.waiting else 0

    async def pass_failed(self, wish: RetryFailed, after: tuple[datetime, int]) -> ReopenedChunk | None:
        self.asked_chunks.append((after, 0))
        return self.chunks.pop(0) if self.chunks else None

    async def log_test(self, test: TestLog) -> None:
        self.tests.append(test)


class FakeControls:
    """Opens the one desk there is; `open_desks` shows transactions left open."""

    def __init__(self, desk: FakeDesk) -> None:
        self.one = desk
        self.open_desks = 0

    @asynccontextmanager
    async def desk(self) -> AsyncIterator[Desk]:
        self.one.database.fail("desk")
        self.open_desks += 1
        try:
            yield self.one
        finally:
            self.open_desks -= 1
