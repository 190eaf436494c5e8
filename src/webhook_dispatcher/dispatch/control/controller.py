"""Carries out the control table's commands.

A short command is carried out in the transaction that takes it up. A long one is marked as running in it and
goes on in a task of its own (long_running).
"""

import asyncio
from functools import partial
from typing import Any, assert_never

import structlog

from webhook_dispatcher.dispatch.control.long_running import LongRunningCommand, LongRunningCommands
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
    Retry,
    SetUrl,
    ShortCommand,
    parse,
)
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.ports import (
    CommandTransaction,
    Controls,
    FoundDelivery,
    Reopened,
    UrlGuard,
)

POLL = Interval(0.25)
"""Between two polls of the control table (contract 3: taken up within a second)."""
POSTPONE_SECONDS = 1.0
"""Seconds for which a command that could not be carried out is skipped, so that later ones go first."""

_log = structlog.get_logger()


class Controller:
    """Takes commands up in order of their id, one transaction each."""

    def __init__(
        self,
        controls: Controls,
        long_running: LongRunningCommands,
        url_guard: UrlGuard,
        instruments: Instruments,
        stop: Stop,
    ) -> None:
        self._controls = controls
        self._long_running = long_running
        self._url_guard = url_guard
        self._clock = instruments.clock
        self._metrics = instruments.metrics
        self._stop = stop
        self._postponed_until: dict[int, float] = {}
        self._unread: set[int] = set()

    async def run(self) -> None:
        """Take commands up until stopped; long ones are released to other dispatchers then."""
        async with asyncio.TaskGroup() as group:
            step = partial(self.step, group)
            await every(POLL, step, "control.failed", self._clock, self._metrics, self._stop)

    async def step(self, group: asyncio.TaskGroup) -> bool:
        """Take up one command, and go on with a long one in `group`; False when there was none."""
        row: CommandRow | None = None
        try:
            async with self._controls.transaction() as transaction:
                command_id = await transaction.next_command(self._postponed())
                if command_id is None:
                    return False
                row = await self._read(transaction, command_id)
                if row is None:
                    return True
                long_command = await self._take_up(transaction, row)
        except StatementRefused as error:
            if row is None:
                raise
            if not error.is_row_fault:  # such as a right that is wanting: the command is not at fault
                self._postpone(row.id)
                raise
            # The command's own values are refused: if it were tried again, it would hold up all later ones.
            async with self._controls.transaction() as transaction:
                await self._reject(transaction, row, CommandRejected(Code.MALFORMED, error.detail))
            return True
        except StorageUnavailable:
            if row is not None:  # what it needs may be locked
                self._postpone(row.id)
            raise
        if long_command is not None:
            group.create_task(self._long_running.carry_out(long_command))
        return True

    def _postpone(self, command_id: int) -> None:
        self._postponed_until[command_id] = self._clock.elapsed() + POSTPONE_SECONDS

    def _postponed(self) -> list[int]:
        now = self._clock.elapsed()
        self._postponed_until = {id_: until for id_, until in self._postponed_until.items() if until > now}
        return list(self._postponed_until)

    async def _read(self, transaction: CommandTransaction, command_id: int) -> CommandRow | None:
        """Read a command; None when the database cannot read it, after postponing or rejecting it."""
        try:
            row = await transaction.read_command(command_id)
        except StatementRefused as error:
            if not error.is_row_fault:
                raise
            await self._handle_unreadable(transaction, command_id, error)
            return None
        self._unread.discard(command_id)
        return row

    async def _handle_unreadable(
        self, transaction: CommandTransaction, command_id: int, error: StatementRefused
    ) -> None:
        """Postpone a command that the database cannot read; the second time, reject it."""
        if command_id not in self._unread:
            self._unread.add(command_id)
            self._postpone(command_id)
            _log.warning("control.failed", command_id=command_id, error=str(error))
            return
        await transaction.reject(command_id, Code.MALFORMED, error.detail)
        self._unread.discard(command_id)
        self._metrics.control_commands.labels(UNKNOWN, CommandStatus.REJECTED).inc()
        _log.error("command.unreadable", command_id=command_id, error=str(error))

    async def _take_up(self, transaction: CommandTransaction, row: CommandRow) -> LongRunningCommand | None:
        """Carry a short command out, or begin a long one; what is rejected is marked so."""
        try:
            command = parse(row)
            if isinstance(command, LongCommand):
                return await self._long_running.begin(transaction, row, command)
            result = await self._carry_out(transaction, command)
        except CommandRejected as rejection:
            await self._reject(transaction, row, rejection)
            return None
        await transaction.finish(row.id, result)
        self._tell(row, CommandStatus.DONE, result)
        return None

    async def _carry_out(self, transaction: CommandTransaction, command: ShortCommand) -> dict[str, Any]:
        """Carry a short command out and return its result. Raises CommandRejected."""
        match command:
            case Retry():
                return await _retry(transaction, command)
            case Cancel():
                return await self._cancel(transaction, command)
            case SetUrl():
                return await self._set_url(transaction, command)
            case Pause():
                return await _pause(transaction, command)
            case _:
                assert_never(command)

    async def _cancel(self, transaction: CommandTransaction, command: Cancel) -> dict[str, Any]:
        delivery = await transaction.find_delivery(command.event_id)
        if not delivery.is_owed or delivery.state is State.DELIVERED:
            raise CommandRejected(Code.WRONG_STATE, f"the delivery is {delivery.state}, nothing is owed")
        if not await transaction.cancel(command.event_id, delivery.merchant_id):
            raise CommandRejected(Code.WRONG_STATE, "the delivery is no longer owed")
        # If it was in flight, one of the merchant's slots for retries is free now.
        await transaction.wake_lanes({delivery.merchant_id: None})
        self._metrics.deliveries.labels(State.FAILED, delivery.type).inc()
        return {"in_flight": delivery.is_in_flight}

    async def _set_url(self, transaction: CommandTransaction, command: SetUrl) -> dict[str, Any]:
        await transaction.require_endpoint(command.merchant_id)
        if (fault := self._url_guard.find_fault(command.url)) is not None:
            raise CommandRejected(Code.INVALID_URL, f"the URL is refused: {fault}")
        await transaction.set_url(command.merchant_id, command.url)
        return {}

    async def _reject(
        self, transaction: CommandTransaction, row: CommandRow, rejection: CommandRejected
    ) -> None:
        await transaction.reject(row.id, rejection.code, rejection.message)
        self._tell(row, CommandStatus.REJECTED, {"code": int(rejection.code)})

    def _tell(self, row: CommandRow, status: CommandStatus, result: dict[str, Any]) -> None:
        self._metrics.control_commands.labels(row.label, status).inc()
        _log.info("control.handled", command_id=row.id, command=row.label, status=status, **result)


async def _retry(transaction: CommandTransaction, command: Retry) -> dict[str, Any]:
    delivery = await transaction.find_delivery(command.event_id)
    if delivery.is_in_flight:
        return {"in_flight": True}
    if delivery.state is State.PENDING:
        raise CommandRejected(Code.WRONG_STATE, "the event still waits for its first attempt, in order")
    head: int | None = None
    if delivery.is_owed:
        if not await transaction.run_now(delivery):
            return {"in_flight": True}
    elif delivery.state is State.DELIVERED and not command.force:
        raise CommandRejected(Code.WRONG_STATE, "the event was delivered; args.force sends it again")
    else:
        head = await _reopen(transaction, delivery)
    await transaction.wake_lanes({delivery.merchant_id: head})
    return {"in_flight": False}


async def _reopen(transaction: CommandTransaction, delivery: FoundDelivery) -> int | None:
    """Make a finished delivery owed again; return its seq if it went back to its place in the order."""
    await transaction.require_endpoint(delivery.merchant_id)
    match await transaction.reopen(delivery):
        case Reopened.ID_IS_OWED:
            raise CommandRejected(Code.WRONG_STATE, "another event with the same id is owed")
        case Reopened.IN_ORDER:
            return delivery.seq
        case Reopened.DUE_NOW:
            return None


async def _pause(transaction: CommandTransaction, command: Pause) -> dict[str, Any]:
    if command.merchant_id is not None:
        await transaction.require_endpoint(command.merchant_id)
    await transaction.pause(command.merchant_id, command.is_paused)
    return {}
