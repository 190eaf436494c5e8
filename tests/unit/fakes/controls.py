"""The control table, and the transactions in which its commands are carried out, in memory."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID

from tests.unit.builders import NOW
from tests.unit.fakes.database import FakeDatabase
from webhook_dispatcher.domain.command import (
    Code,
    CommandRejected,
    CommandRow,
    CommandStatus,
    HandledCommand,
    Queue,
    Recover,
    RetryFailed,
    Skip,
    TakenCancel,
    WaitingCommand,
)
from webhook_dispatcher.domain.errors import LeaseLost
from webhook_dispatcher.domain.event import State, sample_of
from webhook_dispatcher.domain.lane import lane_named, merchant_of, number_of
from webhook_dispatcher.domain.mass_command import MadeDue, Matches
from webhook_dispatcher.domain.ports import (
    CommandTransaction,
    FoundDelivery,
    Reopened,
    ReopenedChunk,
    TestLog,
)

EVENT_ID = UUID(int=7)


@dataclass(slots=True)
class Handling:
    """What became of a command so far."""

    status: CommandStatus = CommandStatus.PENDING
    result: Mapping[str, Any] | None = None
    code: Code | None = None
    message: str = ""
    token: datetime | None = None


class FakeControls:
    """The table and, once opened, the transaction: one object, which keeps a list of what it was told to do.

    open_transactions: how many were entered and not left.
    """

    def __init__(self, database: FakeDatabase) -> None:
        self.database = database
        self.open_transactions = 0
        self.commands: list[CommandRow] = []
        self.handlings: dict[int, Handling] = {}
        self.done: list[tuple[Any, ...]] = []
        self.deliveries: tuple[FoundDelivery, ...] = ()
        self.can_run_now = True
        self.reopened = Reopened.DUE_NOW
        self.is_cancelled = True
        self.paused: set[str | None] = set()
        self.suspended: dict[str, datetime] = {}
        self.own_type: str | None = None
        self.takes_together = True
        self.shares: list[int] = []
        self.finished_together: list[list[int]] = []
        self.chunks: list[ReopenedChunk] = []
        self.asked_chunks: list[tuple[tuple[datetime, int], int]] = []
        self.tests: list[TestLog] = []
        self.lock_answers: deque[bool] = deque()
        self.before_take: deque[Callable[[], None]] = deque()
        self.waiting: deque[int] = deque()
        self.counted: list[tuple[int, ...]] = []
        self.stopping: set[int] = set()
        self.looks: list[Matches] = []
        self.asked_looks: list[tuple[str, int, int]] = []
        self.left_out: set[int] = set()
        self.decided: list[int] = []
        self.control_is_free = asyncio.Event()
        self.control_is_free.set()
        self.stop_looks = 0
        self.sent_again: list[tuple[int, tuple[int, ...]]] = []

    def insert(self, name: str, merchant_id: str | None = None, **changes: Any) -> CommandRow:
        """Insert a command, as an operator does."""
        facts: dict[str, Any] = {
            "event_id": None,
            "args": {},
            "result": {},
            "created_at": NOW,
            "requested_by": "anna",
        }
        number = len(self.commands) + 1
        self.commands.append(CommandRow(id=number, name=name, merchant_id=merchant_id, **(facts | changes)))
        self.handlings[number] = Handling()
        return self.commands[-1]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[CommandTransaction]:
        self.database.fail("transaction")
        self.open_transactions += 1
        try:
            yield self
        finally:
            self.open_transactions -= 1

    def find(self, state: State, is_owed: bool, is_in_flight: bool = False, endpoint: int = 1) -> None:
        """Let a delivery of any event be found: that of number 1, the only endpoint, or also of another."""
        finished_at = None if is_owed else NOW
        lane, seq = lane_named("m", endpoint if endpoint > 1 else None), 6 + endpoint
        found = FoundDelivery(
            seq, "m", endpoint, lane, "charge.created", state, is_owed, is_in_flight, finished_at
        )
        others = (delivery for delivery in self.deliveries if delivery.endpoint != endpoint)
        self.deliveries = tuple(sorted([*others, found], key=attrgetter("seq")))

    async def lock_control(self) -> bool:
        self.database.fail("lock_control")
        return self.lock_answers.popleft() if self.lock_answers else True

    def subject(self, row: CommandRow) -> str:
        """Say whose command it is; every event is one of its own here."""
        return row.merchant_id or (str(row.event_id) if row.event_id else "")

    def _pending(self, subject: str | None = None) -> list[CommandRow]:
        return [
            row
            for row in self.commands
            if self.handlings[row.id].status is CommandStatus.PENDING and subject in (None, self.subject(row))
        ]

    def _is_plain_cancel(self, row: CommandRow) -> bool:
        return self.takes_together and row.name == "cancel" and row.event_id is not None and not row.args

    async def await_control(self) -> None:
        self.database.fail("await_control")
        await self.control_is_free.wait()

    async def next_commands(self, queue: Queue, except_ids: Sequence[int], most: int) -> list[WaitingCommand]:
        self.database.fail("next_commands")
        left_out = {self.subject(self.commands[id_ - 1]) for id_ in except_ids}
        first: dict[str, CommandRow] = {}
        for row in self._pending():
            first.setdefault(self.subject(row), row)
        return [
            WaitingCommand(row.id, subject, self._is_plain_cancel(row))
            for subject, row in first.items()
            if subject not in left_out
        ][:most]

    async def take(self, command_id: int) -> bool:
        self.database.fail("take")
        if self.before_take:
            self.before_take.popleft()()
        return self.handlings[command_id].status is CommandStatus.PENDING

    async def take_cancels(
        self, subjects: Sequence[str], per_subject: int, except_ids: Sequence[int]
    ) -> list[TakenCancel]:
        self.database.fail("take_cancels")
        self.shares.append(per_subject)
        taken: list[TakenCancel] = []
        for subject in subjects:
            for row in self._pending(subject)[:per_subject]:
                if not self._is_plain_cancel(row) or row.id in except_ids:
                    break
                assert row.event_id is not None
                taken.append(TakenCancel(row.id, row.event_id, subject, row.requested_by))
        return taken

    async def reject_overtaken(self, command_ids: Sequence[int]) -> None:
        self.database.fail("reject_overtaken")
        self.decided.extend(command_ids)

    async def read_command(self, command_id: int) -> CommandRow:
        self.database.fail("read_command")
        return self.commands[command_id - 1]

    def _hold(self, command_id: int, token: datetime | None) -> Handling:
        if token is not None and self.handlings[command_id].token != token:
            raise LeaseLost("another worker has it")
        return self.handlings[command_id]

    async def finish(self, command_id: int, result: Mapping[str, Any], token: datetime | None = None) -> None:
        self.database.fail("finish")
        handling = self._hold(command_id, token)
        handling.status, handling.result = CommandStatus.DONE, dict(result)

    async def reject(self, command_id: int, code: Code, message: str, token: datetime | None = None) -> None:
        self.database.fail("reject")
        handling = self._hold(command_id, token)
        handling.status, handling.code, handling.message = CommandStatus.REJECTED, code, message

    async def mark_running(
        self, command_id: int, lease: timedelta, result: Mapping[str, Any], token: datetime | None = None
    ) -> datetime:
        self.database.fail("mark_running")
        handling = self._hold(command_id, token)
        handling.status, handling.result = CommandStatus.RUNNING, dict(result)
        handling.token = (handling.token or NOW) + timedelta(seconds=1)
        self.done.append(("mark_running", lease))
        return handling.token

    async def run_now(self, delivery: FoundDelivery) -> bool:
        self.done.append(("run_now", delivery.seq))
        return self.can_run_now

    async def reopen(self, delivery: FoundDelivery) -> Reopened:
        self.done.append(("reopen", delivery.seq))
        return self.reopened

    async def wake_lanes(self, heads: Mapping[str, int | None]) -> None:
        self.database.fail("wake_lanes")
        self.done.append(("wake_lanes", dict(heads)))

    async def find_deliveries(self, event_ids: Sequence[UUID]) -> dict[UUID, tuple[FoundDelivery, ...]]:
        self.database.fail("find_deliveries")
        return {
            event_id: tuple(replace(each, seq=each.seq + 1000 * place) for each in self.deliveries)
            for place, event_id in enumerate(event_ids)
            if self.deliveries
        }

    async def cancel(self, deliveries: Sequence[FoundDelivery]) -> frozenset[int]:
        self.database.fail("cancel")
        seqs = frozenset(delivery.seq for delivery in deliveries)
        self.done.append(("cancel", set(seqs)))
        return seqs if self.is_cancelled else frozenset()

    async def finish_all(self, handled: Sequence[HandledCommand]) -> None:
        self.database.fail("finish_all")
        self.finished_together.append([command.id for command in handled])
        for command in handled:
            handling = self.handlings[command.id]
            handling.status, handling.result = command.status, command.result
            handling.code = command.rejection.code if command.rejection else None

    async def require_endpoint(self, merchant_id: str, number: int | None = None) -> str:
        for lane in sorted(self.database.endpoints):
            if merchant_of(lane) == merchant_id and number in (None, number_of(lane) or 1):
                return lane
        raise CommandRejected(Code.NOT_CONFIGURED, "no endpoint")

    async def is_everything_paused(self) -> bool:
        return None in self.paused

    async def read_sample(self, event_type: str) -> bytes | None:
        return sample_of(event_type, "id") if event_type == self.own_type else None

    async def read_suspension(self, merchant_id: str, number: int) -> datetime | None:
        return self.suspended.get(merchant_id if number == 1 else lane_named(merchant_id, number))

    async def pause(self, merchant_id: str | None, is_paused: bool, number: int | None = None) -> None:
        narrower = () if number is None else (number,)
        self.done.append(("pause", merchant_id, is_paused, *narrower))

    async def set_url(self, lane: str, url: str, command_id: int) -> None:
        self.database.fail("set_url")
        self.done.append(("set_url", lane, url))

    async def count_failed(self, command: RetryFailed) -> int:
        return sum(chunk.matched for chunk in self.chunks)

    async def reopen_failed(
        self, command: RetryFailed, after: tuple[datetime, int], most: int
    ) -> ReopenedChunk | None:
        self.database.fail("reopen_failed")
        self.asked_chunks.append((after, most))
        return self.chunks.pop(0) if self.chunks else None

    async def count_waiting(self, seqs: Sequence[int]) -> int:
        self.database.fail("count_waiting")
        self.counted.append(tuple(seqs))
        return self.waiting.popleft() if self.waiting else 0

    async def skip_failed(self, command: RetryFailed, after: tuple[datetime, int]) -> ReopenedChunk | None:
        self.asked_chunks.append((after, 0))
        return self.chunks.pop(0) if self.chunks else None

    async def note_chunk(self, command_id: int, seqs: Sequence[int]) -> None:
        self.sent_again.append((command_id, tuple(seqs)))

    async def is_stopping(self, command_id: int) -> bool:
        self.stop_looks += 1
        return command_id in self.stopping

    def _look(self, where: str, after: int, limit: int) -> Matches:
        self.asked_looks.append((where, after, limit))
        return self.looks.pop(0) if self.looks else Matches((), 0, after, is_over=True)

    async def find_waiting(self, command: Recover, after: int, limit: int) -> Matches:
        return self._look("waiting", after, limit)

    async def find_finished(self, command: Recover, after: int, limit: int) -> Matches:
        return self._look("finished", after, limit)

    async def find_skippable(self, command: Skip, after: int, limit: int) -> Matches:
        return self._look("skippable", after, limit)

    def _make_due(self, how: str, found: Matches) -> MadeDue:
        self.database.fail(how)
        self.done.append((how, tuple(found.seqs)))
        seqs = tuple(seq for seq in found.seqs if seq not in self.left_out)
        return MadeDue(seqs, dict.fromkeys(found.lanes))

    async def run_all_now(self, found: Matches) -> MadeDue:
        return self._make_due("run_all_now", found)

    async def reopen_all(self, found: Matches) -> MadeDue:
        return self._make_due("reopen_all", found)

    async def skip(self, found: Matches) -> Mapping[str, int]:
        seqs = self._make_due("skip", found).seqs
        return {"charge.created": len(seqs)}

    async def log_test_event(self, test: TestLog) -> None:
        self.tests.append(test)
