"""Carries out the control table's commands, each queue's in rounds of their own.

A round takes up the first command of each subject, so that nobody waits for the commands of others. A short
command is carried out in the transaction that takes it up; cancels go together (mass_cancel). A long one is
marked as running in that transaction, and goes on in a task of its own (long_running).
One command is carried out at a time, over all queues and dispatchers: operators' are next (right_of_way), and
merchants' try again later.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, assert_never

import structlog

from webhook_dispatcher.dispatch.control import mass_cancel
from webhook_dispatcher.dispatch.control.long_running import LongRunningCommand, LongRunningCommands
from webhook_dispatcher.dispatch.control.mass_command import ControlIsBusy, lock_control
from webhook_dispatcher.dispatch.control.postponed import Postponed
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Interval, Stop, every
from webhook_dispatcher.domain.command import (
    UNKNOWN,
    Cancel,
    Code,
    CommandRejected,
    CommandRow,
    CommandStatus,
    LongCommand,
    Pause,
    Queue,
    Retry,
    SetUrl,
    ShortCommand,
    parse_command,
)
from webhook_dispatcher.domain.errors import StatementRefused, StorageError
from webhook_dispatcher.domain.event import State, render_instant
from webhook_dispatcher.domain.ports import (
    CommandTransaction,
    Controls,
    FoundDelivery,
    Reopened,
    UrlGuard,
)

POLL = Interval(0.25)
"""Between two polls of the control table (contract 3: taken up within a second)."""
MAX_ROUND = 500
"""Commands that are taken up before the next look."""
MAX_BRAKES = 20
"""Brakes that are, so that a pause of everything does not wait for hundreds of others."""

_log = structlog.get_logger()


class Controller:
    """Takes a queue's commands up in order of their id within a subject, one transaction each.

    postponed: shared by the controllers of all queues, since what one has postponed holds up none of them.
    """

    def __init__(
        self,
        queue: Queue,
        controls: Controls,
        long_running: LongRunningCommands,
        url_guard: UrlGuard,
        instruments: Instruments,
        postponed: Postponed,
        stop: Stop,
    ) -> None:
        self._queue = queue
        self._round = MAX_BRAKES if queue is Queue.BRAKES else MAX_ROUND
        self._controls = controls
        self._long_running = long_running
        self._url_guard = url_guard
        self._clock = instruments.clock
        self._metrics = instruments.metrics
        self._stop = stop
        self._right_of_way = instruments.right_of_way
        self._mass_cancel = mass_cancel.MassCancel(controls, self._right_of_way, instruments.metrics)
        self._postponed = postponed
        self._unread: set[int] = set()

    async def run(self) -> None:
        """Take commands up until stopped; long ones are released to other dispatchers then."""
        async with asyncio.TaskGroup() as group:
            step = partial(self.step, group)
            await every(POLL, step, "control.failed", self._clock, self._metrics, self._stop)

    async def step(self, group: asyncio.TaskGroup) -> bool:
        """Go one round, and go on with long commands in `group`; False when nothing could be done."""
        postponed = self._postponed.ids()
        async with self._controls.transaction() as transaction:
            waiting = await transaction.next_commands(self._queue, postponed, self._round)
        others = [command for command in waiting if not self._mass_cancel.takes(command)]
        cancels = [command for command in waiting if self._mass_cancel.takes(command)]
        has_handled = False
        try:
            # Those last that have failed before.
            for command in sorted(others, key=lambda command: self._postponed.has_failed(command.id)):
                if self._stop.is_set():
                    break
                has_handled |= await self._take_up(command.id, group)
        except ControlIsBusy:
            has_handled = False
        if cancels:
            has_handled |= await self._mass_cancel.step(cancels, postponed)
        return has_handled

    async def _take_up(self, command_id: int, group: asyncio.TaskGroup) -> bool:
        """Take up one command in a transaction of its own; False when it is not to be had any more.

        Raises ControlIsBusy and StorageError.
        """
        row: CommandRow | None = None
        long_command: LongRunningCommand | None = None
        try:
            async with self._controls.transaction() as transaction:
                await self._lock_control(transaction)
                if not await transaction.take(command_id):
                    return False
                row = await self._read(transaction, command_id)
                if row is not None:
                    long_command = await self._begin(transaction, row)
        except StorageError as error:
            await self._reject_or_postpone(row, error)
            return True
        if row is not None:
            self._postponed.forget(command_id)
        if long_command is not None:
            group.create_task(self._long_running.carry_out(long_command))
        return True

    async def _lock_control(self, transaction: CommandTransaction) -> None:
        if self._queue is not Queue.MERCHANTS:
            await self._right_of_way.take(transaction)
        elif self._right_of_way.is_taken:
            raise ControlIsBusy
        else:
            await lock_control(transaction)

    async def _reject_or_postpone(self, row: CommandRow | None, error: StorageError) -> None:
        """Reject a command whose own values were refused; postpone any other that failed, and raise."""
        if row is None:
            raise error
        if not (isinstance(error, StatementRefused) and error.is_row_fault):
            # What it needs may be locked, or a right is wanting: the command is not at fault.
            self._postponed.add(row.id)
            raise error
        # If it were tried again, it would hold up all later ones of its subject.
        async with self._controls.transaction() as transaction:
            if await transaction.take(row.id):
                await self._reject(transaction, row, CommandRejected(Code.MALFORMED, error.detail))

    async def _read(self, transaction: CommandTransaction, command_id: int) -> CommandRow | None:
        """Read a command; None where the database cannot: then it is postponed, the second time rejected."""
        try:
            row = await transaction.read_command(command_id)
        except StatementRefused as error:
            if not error.is_row_fault:
                raise
            if command_id not in self._unread:
                self._unread.add(command_id)
                self._postponed.add(command_id)
                _log.warning("control.failed", command_id=command_id, error=str(error))
                return None
            await transaction.reject(command_id, Code.MALFORMED, error.detail)
            self._unread.discard(command_id)
            self._metrics.control_commands.labels(UNKNOWN, CommandStatus.REJECTED).inc()
            _log.error("command.unreadable", command_id=command_id, error=str(error))
            return None
        self._unread.discard(command_id)
        return row

    async def _begin(self, transaction: CommandTransaction, row: CommandRow) -> LongRunningCommand | None:
        """Carry a short command out, or begin a long one; what is rejected is marked so."""
        try:
            command = parse_command(row)
            if isinstance(command, LongCommand):
                return await self._long_running.begin(transaction, row, command)
            result = await self._carry_out(transaction, row.id, command)
        except CommandRejected as rejection:
            await self._reject(transaction, row, rejection)
            return None
        await transaction.finish(row.id, result)
        self._log_handled(row, CommandStatus.DONE, result)
        return None

    async def _carry_out(
        self, transaction: CommandTransaction, command_id: int, command: ShortCommand
    ) -> Mapping[str, Any]:
        """Carry a short command out and return its result. Raises CommandRejected."""
        match command:
            case Retry():
                return await _retry(transaction, command)
            case Cancel():
                return await self._cancel(transaction, command_id, command)
            case SetUrl():
                lane = await transaction.require_endpoint(command.merchant_id, command.endpoint)
                if (fault := self._url_guard.find_fault(command.url)) is not None:
                    raise CommandRejected(Code.INVALID_URL, f"the URL is refused: {fault}")
                await transaction.set_url(lane, command.url, command_id)
                return {}
            case Pause():
                if command.merchant_id is not None:
                    await transaction.require_endpoint(command.merchant_id, command.endpoint)
                await transaction.pause(command.merchant_id, command.is_paused, command.endpoint)
                await transaction.reject_overtaken([command_id])
                return {}
            case _:
                assert_never(command)

    async def _cancel(
        self, transaction: CommandTransaction, command_id: int, command: Cancel
    ) -> Mapping[str, Any]:
        cancelled = await mass_cancel.cancel(transaction, {command_id: command.event_id}, command.endpoint)
        [handled] = cancelled.handled
        if handled.rejection is not None:
            raise handled.rejection
        mass_cancel.count_ended(cancelled, self._metrics)
        return handled.result or {}

    async def _reject(
        self, transaction: CommandTransaction, row: CommandRow, rejection: CommandRejected
    ) -> None:
        await transaction.reject(row.id, rejection.code, rejection.message)
        self._log_handled(row, CommandStatus.REJECTED, {"code": int(rejection.code)})

    def _log_handled(self, row: CommandRow, status: CommandStatus, result: Mapping[str, Any]) -> None:
        self._metrics.control_commands.labels(row.label, status).inc()
        _log.info("control.handled", **row.facts, status=status, **result)


async def _retry(transaction: CommandTransaction, command: Retry) -> dict[str, Any]:
    """Retry those of an event's deliveries that can be; where none can, it is rejected as the first."""
    found = await transaction.find_deliveries([command.event_id])
    deliveries = mass_cancel.of_endpoint(found.get(command.event_id, ()), command.endpoint)
    if not deliveries:
        raise CommandRejected(Code.NOT_FOUND, "no delivery of this event is known")
    heads: dict[str, int | None] = {}
    are_in_flight: list[bool] = []
    rejections: list[CommandRejected] = []
    for delivery in deliveries:
        try:
            are_in_flight.append(await _retry_one(transaction, delivery, command.force, heads))
        except CommandRejected as rejection:
            rejections.append(rejection)
    if not are_in_flight:
        raise rejections[0]
    if heads:
        await transaction.wake_lanes(heads)
    return {"in_flight": any(are_in_flight)}


async def _retry_one(
    transaction: CommandTransaction, delivery: FoundDelivery, force: bool, heads: dict[str, int | None]
) -> bool:
    """Have one delivery attempted, and its lane woken; True: an attempt is due or under way already."""
    if delivery.is_in_flight:
        return True
    if delivery.state is State.PENDING:
        raise CommandRejected(Code.WRONG_STATE, "the event still waits for its first attempt, in order")
    number = delivery.endpoint  # None: it is routed first
    since = None if number is None else await transaction.read_suspension(delivery.merchant_id, number)
    if since is not None:
        raise CommandRejected(
            Code.WRONG_STATE,
            f"the merchant is suspended since {render_instant(since)}; resume it, or try it by test_event",
        )
    head: int | None = None
    if delivery.is_owed:
        if not await transaction.run_now(delivery):
            return True
    elif delivery.state is State.DELIVERED and not force:
        raise CommandRejected(Code.WRONG_STATE, "the event was delivered; args.force sends it again")
    else:
        await transaction.require_endpoint(delivery.merchant_id, number)
        reopened = await transaction.reopen(delivery)
        if reopened is Reopened.ID_IS_OWED:
            raise CommandRejected(Code.WRONG_STATE, "another event with the same id is owed")
        head = delivery.seq if reopened is Reopened.IN_ORDER else None
    heads[delivery.lane] = head
    return False
