"""Commands that take longer than one transaction may: those that concern many deliveries, and a test event.

They are marked as running in the transaction that takes them up, and carried out after it. Their progress is
kept in `result`: when their worker goes away, any dispatcher resumes them from it once their lease has ended.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, assert_never
from uuid import uuid4

import structlog

from webhook_dispatcher.dispatch.attempt import Attempter
from webhook_dispatcher.dispatch.control.mass_command import MassCommand, P, Work
from webhook_dispatcher.dispatch.control.mass_retry import MassRetry, MassRetryProgress
from webhook_dispatcher.dispatch.control.recovery import Recovery, RecoveryProgress
from webhook_dispatcher.dispatch.control.running_command import RunningCommand, running_lease
from webhook_dispatcher.dispatch.control.sample_event import SampleEvent, SampleProgress
from webhook_dispatcher.dispatch.control.skipping import Skipping, SkipProgress
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.domain.command import (
    Code,
    CommandRejected,
    CommandRow,
    LongCommand,
    Recover,
    RetryFailed,
    Skip,
    TestEvent,
    malformed_type,
)
from webhook_dispatcher.domain.errors import LeaseLost, StorageError
from webhook_dispatcher.domain.event import SAMPLE_CHARGE, SAMPLES, is_own_type
from webhook_dispatcher.domain.ports import Claims, CommandTransaction, Controls

_log = structlog.get_logger()

LongRunningCommand = MassCommand[Any] | SampleEvent


class LongRunningCommands:
    """Begins long commands inside a transaction, and carries them out after it."""

    def __init__(
        self,
        controls: Controls,
        claims: Claims,
        attempter: Attempter,
        recorder: Recorder,
        instruments: Instruments,
        attempt_timeout: timedelta,
        stop: Stop,
    ) -> None:
        self._controls = controls
        self._lease = running_lease(attempt_timeout)
        self._claims = claims
        self._attempter = attempter
        self._recorder = recorder
        self._right_of_way = instruments.right_of_way
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._metrics = instruments.metrics
        self._stop = stop

    async def begin(
        self, transaction: CommandTransaction, row: CommandRow, command: LongCommand
    ) -> LongRunningCommand:
        """Mark a command as running, and return what is left to be carried out once that is committed.

        Raises CommandRejected.
        """
        match command:
            case RetryFailed():
                retried = MassRetryProgress.from_result(row.result) if row.result else MassRetryProgress()
                return await self._begin(transaction, row, MassRetry(command), retried)
            case Recover():
                return await self._begin_recovery(transaction, row, command)
            case Skip():
                skipped = SkipProgress.from_result(row.result) if row.result else SkipProgress()
                return await self._begin(transaction, row, Skipping(command, self._metrics), skipped)
            case TestEvent():
                return await self._begin_sample_event(transaction, row, command)
            case _:
                assert_never(command)

    async def carry_out(self, command: LongRunningCommand) -> None:
        """Carry a command out; if it cannot go on, another dispatcher will resume it."""
        try:
            await command.run()
        except (StorageError, LeaseLost) as error:
            _log.warning("control.interrupted", command_id=command.running.id, error=str(error))

    async def _begin_recovery(
        self, transaction: CommandTransaction, row: CommandRow, command: Recover
    ) -> LongRunningCommand:
        if command.merchant_id is not None:
            await transaction.require_endpoint(command.merchant_id)
        command = replace(command, retries=len(self._attempter.schedule.delays))
        begun = (
            RecoveryProgress.from_result(row.result, command) if row.result else RecoveryProgress.of(command)
        )
        return await self._begin(transaction, row, Recovery(command), begun)

    async def _begin(
        self, transaction: CommandTransaction, row: CommandRow, work: Work[P], progress: P
    ) -> MassCommand[P]:
        running = await self._mark_running(transaction, row, progress.as_result())
        return MassCommand(
            work,
            progress,
            running,
            self._controls,
            self._recorder,
            self._right_of_way,
            self._clock,
            self._stop,
        )

    async def _begin_sample_event(
        self, transaction: CommandTransaction, row: CommandRow, command: TestEvent
    ) -> SampleEvent:
        lane = await transaction.require_endpoint(command.merchant_id, command.endpoint)
        # A merchant that is paused by itself is tried so before it is resumed.
        if await transaction.is_everything_paused():
            raise CommandRejected(Code.WRONG_STATE, "everything is paused: resume it first")
        sample: bytes | None = SAMPLES.get(command.type, SAMPLE_CHARGE)
        if is_own_type(command.type):
            sample = await transaction.read_sample(command.type)
        if sample is None:
            malformed_type()
        if row.result:
            progress = SampleProgress.from_result(row.result)
        else:
            progress = SampleProgress(uuid4(), self._database_clock.now())
        running = await self._mark_running(transaction, row, progress.as_result())
        return SampleEvent(lane, sample, progress, running, self._claims, self._attempter, self._metrics)

    async def _mark_running(
        self, transaction: CommandTransaction, row: CommandRow, result: Mapping[str, Any]
    ) -> RunningCommand:
        token = await transaction.mark_running(row.id, self._lease, result)
        return RunningCommand(row, token, self._lease, self._controls, self._metrics)
