"""Carries out the control table's commands.

Short ones are done in the transaction that takes them up. Long ones are marked running in it and go on in
tasks of their own; if their worker dies, another dispatcher resumes them when their lease has run out.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from webhook_dispatcher.dispatch.control.long_running import (
    RUNNING_LEASE,
    LongRunning,
    check_mass_retry,
    read_test,
)
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.domain.command import (
    UNKNOWN,
    Cancel,
    Code,
    CommandRejected,
    CommandRow,
    CommandStatus,
    Pause,
    Retry,
    RetryFailed,
    SetUrl,
    TestEvent,
    parse,
)
from webhook_dispatcher.domain.errors import StatementRefused, StorageError, StorageUnavailable
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.ports import CommandTransaction, Controls, Reopened, UrlGuard

POLL = 0.25
"""Seconds between two looks at the control table (contract 3: taken up within a second)."""

POSTPONED_FOR = 1.0
"""Seconds for which a command that could not be carried out lets later ones pass."""

_log = structlog.get_logger()


class Controller:
    """Takes commands up, in order of their id, one transaction each."""

    def __init__(
        self,
        controls: Controls,
        errands: LongRunning,
        url_guard: UrlGuard,
        instruments: Instruments,
        stop: Stop,
    ) -> None:
        self._controls = controls
        self._clock = instruments.clock
        self._postponed: dict[int, float] = {}
        self._unread: set[int] = set()
        self._long_running = errands
        self._url_guard = url_guard
        self._metrics = instruments.metrics
        self._stop = stop

    async def run(self) -> None:
        """Take commands up until stopped; long ones then hand over to whoever comes next."""
        async with asyncio.TaskGroup() as group:
            while not self._stop.is_set():
                try:
                    has_handled = await self.step(group)
                except StorageError as error:
                    self._metrics.database_errors.labels("control").inc()
                    _log.warning("control.failed", error=str(error))
                    has_handled = False
                if not has_handled:
                    await self._stop.wait_at_most(POLL)

    async def step(self, group: asyncio.TaskGroup) -> bool:
        """Take up one command; False when there was none."""
        row: CommandRow | None = None
        now = self._clock.elapsed()
        self._postponed = {id_: until for id_, until in self._postponed.items() if until > now}
        try:
            async with self._controls.transaction() as transaction:
                command_id = await transaction.next_command(list(self._postponed))
                if command_id is None:
                    return False
                try:
                    row = await transaction.read_command(command_id)
                except StatementRefused as error:
                    if not error.blames_the_row:
                        raise
                    await self._pass_unread(transaction, command_id, error)
                    return True
                self._unread.discard(command_id)
                errand = await self._take_up(transaction, row)
        except StatementRefused as error:
            if row is None:
                raise
            # The values themselves are refused: trying again would hold up all later commands.
            async with self._controls.transaction() as transaction:
                await self._reject(transaction, row, CommandRejected(Code.MALFORMED, error.detail))
            return True
        except StorageUnavailable:
            if row is not None:  # what it needs may be locked: let others pass for a moment
                self._postponed[row.id] = now + POSTPONED_FOR
            raise
        if errand is not None:
            group.create_task(errand())
        return True

    async def _pass_unread(
        self, transaction: CommandTransaction, command_id: int, error: StatementRefused
    ) -> None:
        """Let others pass a command that the database cannot read; refused again later, it is rejected."""
        if command_id not in self._unread:
            self._unread.add(command_id)
            self._postponed[command_id] = self._clock.elapsed() + POSTPONED_FOR
            _log.warning("control.failed", command_id=command_id, error=str(error))
            return
        await transaction.reject(command_id, Code.MALFORMED, error.detail)
        self._unread.discard(command_id)
        self._metrics.control_commands.labels(UNKNOWN, CommandStatus.REJECTED).inc()
        _log.error("command.unreadable", command_id=command_id, error=str(error))

    async def _take_up(self, transaction: CommandTransaction, row: CommandRow) -> Callable[[], Any] | None:
        try:
            command = parse(row)
            match command:
                case RetryFailed():
                    progress = row.result or await self._long_running.begin_mass_retry(transaction, command)
                    check_mass_retry(progress)
                    token = await transaction.mark_running(row.id, RUNNING_LEASE, progress)
                    return lambda: self._long_running.retry_failed(row, command, progress, token)
                case TestEvent(merchant_id):
                    if await transaction.is_paused(merchant_id):
                        raise CommandRejected(Code.WRONG_STATE, "the merchant is paused: resume it first")
                    progress = row.result or self._long_running.begin_test()
                    read_test(progress)
                    token = await transaction.mark_running(row.id, RUNNING_LEASE, progress)
                    return lambda: self._long_running.send_test(row, merchant_id, progress, token)
                case Retry():
                    result = await _retry(transaction, command)
                case Cancel():
                    result = await self._cancel(transaction, command)
                case SetUrl():
                    result = await self._set_url(transaction, command)
                case Pause():
                    result = await _pause(transaction, command)
        except CommandRejected as rejection:
            await self._reject(transaction, row, rejection)
            return None
        await transaction.finish(row.id, result)
        self._tell(row, CommandStatus.DONE, result)
        return None

    async def _cancel(self, transaction: CommandTransaction, command: Cancel) -> dict[str, Any]:
        delivery = await transaction.find_delivery(command.event_id)
        if not delivery.is_owed or delivery.state is State.DELIVERED:
            raise CommandRejected(Code.WRONG_STATE, f"the delivery is {delivery.state}, nothing is owed")
        if not await transaction.cancel(command.event_id, delivery.merchant_id):
            raise CommandRejected(Code.WRONG_STATE, "the delivery is no longer owed")
        await transaction.wake_lanes({delivery.merchant_id: None})  # if it was in flight, its place is free
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
    else:
        if delivery.state is State.DELIVERED and not command.force:
            raise CommandRejected(Code.WRONG_STATE, "the event was delivered; args.force sends it again")
        await transaction.require_endpoint(delivery.merchant_id)
        match await transaction.reopen(delivery):
            case Reopened.ID_IS_OWED:
                raise CommandRejected(Code.WRONG_STATE, "another event with the same id is owed")
            case Reopened.IN_ORDER:
                head = delivery.seq
            case Reopened.DUE_NOW:
                pass
    await transaction.wake_lanes({delivery.merchant_id: head})
    return {"in_flight": False}


async def _pause(transaction: CommandTransaction, command: Pause) -> dict[str, Any]:
    if command.merchant_id is not None:
        await transaction.require_endpoint(command.merchant_id)
    await transaction.pause(command.merchant_id, command.is_paused)
    return {}
