"""`cancel` by the hundred: those that wait for nothing but each other are carried out in one transaction.

Each is judged and written down as if it were alone. Where the database refuses one of them, or a lock is
not to be had in time, nothing was changed, and each is taken up in a transaction of its own.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from uuid import UUID

import structlog

from webhook_dispatcher.dispatch.right_of_way import RightOfWay
from webhook_dispatcher.domain.command import (
    Code,
    CommandName,
    CommandRejected,
    CommandStatus,
    HandledCommand,
    TakenCancel,
    WaitingCommand,
)
from webhook_dispatcher.domain.errors import StorageError
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.ports import CommandTransaction, Controls, FoundDelivery
from webhook_dispatcher.telemetry.metrics import Metrics

MAX_CANCELS = 500
"""Cancels of one transaction, which holds their merchants' lanes meanwhile: some 0.1 s."""
MAX_NAMED = 10
"""People, and merchants, that the log names of one transaction."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What became of cancels, and the types of the deliveries that they ended."""

    handled: tuple[HandledCommand, ...]
    types: tuple[str, ...]


class MassCancel:
    """Carries out cancels of any merchants together."""

    def __init__(self, controls: Controls, right_of_way: RightOfWay, metrics: Metrics) -> None:
        self._controls = controls
        self._right_of_way = right_of_way
        self._metrics = metrics
        self._one_by_one: frozenset[int] = frozenset()

    def takes(self, command: WaitingCommand) -> bool:
        """Tell whether a command is one that goes together with others."""
        return command.is_plain_cancel and command.id not in self._one_by_one

    async def step(self, waiting: Sequence[WaitingCommand], except_ids: Sequence[int]) -> bool:
        """Carry out the next cancels of the subjects that these begin; False when there was nothing to do.

        Raises StorageError.
        """
        subjects = [command.subject for command in waiting if command.subject is not None][:MAX_CANCELS]
        share = max(1, MAX_CANCELS // max(1, len(subjects)))
        taken: Sequence[TakenCancel] = ()
        try:
            async with self._controls.transaction() as transaction:
                await self._right_of_way.take(transaction)
                taken = await transaction.take_cancels(subjects, share, [*except_ids, *self._one_by_one])
                if not taken:
                    return False
                cancelled = await cancel(transaction, {command.id: command.event_id for command in taken})
                await transaction.finish_all(cancelled.handled)
        except StorageError as error:
            self._one_by_one = frozenset(command.id for command in taken)
            if taken and error.is_row_fault:
                _log.warning("control.separated", commands=len(taken), error=str(error))
                return True
            raise
        self._log_handled(taken, cancelled)
        return True

    def _log_handled(self, taken: Sequence[TakenCancel], cancelled: Cancelled) -> None:
        ids = [command.id for command in taken]
        count_ended(cancelled, self._metrics)
        counts = {}
        for status in (CommandStatus.DONE, CommandStatus.REJECTED):
            counts[str(status)] = sum(command.status is status for command in cancelled.handled)
            self._metrics.control_commands.labels(CommandName.CANCEL, status).inc(counts[status])
        _log.info(
            "control.handled",
            command=CommandName.CANCEL,
            first=min(ids),
            last=max(ids),
            requested_by=sorted({command.requested_by for command in taken})[:MAX_NAMED],
            subjects=sorted({command.subject for command in taken})[:MAX_NAMED],
            **counts,
        )


async def cancel(
    transaction: CommandTransaction, events: Mapping[int, UUID], endpoint: int | None = None
) -> Cancelled:
    """Cancel events, each named by the command that asks for it; the first of two commands has it."""
    known = await transaction.find_deliveries(list(dict.fromkeys(events.values())))
    found = {event_id: of_endpoint(deliveries, endpoint) for event_id, deliveries in known.items()}
    owed = list(
        {delivery.seq: delivery for delivery in chain(*found.values()) if _is_cancellable(delivery)}.values()
    )
    ended = await transaction.cancel(owed) if owed else frozenset()
    await transaction.reject_overtaken(list(events))
    cancelled: set[int] = set()
    handled = []
    for command_id, event_id in sorted(events.items()):
        handled.append(_judge(command_id, found.get(event_id, ()), ended - cancelled))
        cancelled |= {delivery.seq for delivery in found.get(event_id, ())}
    return Cancelled(tuple(handled), tuple(delivery.type for delivery in owed if delivery.seq in ended))


def of_endpoint(deliveries: Sequence[FoundDelivery], endpoint: int | None) -> Sequence[FoundDelivery]:
    """Return those of one endpoint, by its number; None: all."""
    return [delivery for delivery in deliveries if endpoint in (None, delivery.endpoint)]


def count_ended(cancelled: Cancelled, metrics: Metrics) -> None:
    """Count the deliveries that cancels have ended, once that is committed or about to be."""
    for event_type in cancelled.types:
        metrics.deliveries_by[State.FAILED, FailedReason.CANCELLED, event_type].inc()


def _is_cancellable(delivery: FoundDelivery) -> bool:
    return delivery.is_owed and delivery.state is not State.DELIVERED


def _judge(command_id: int, deliveries: Sequence[FoundDelivery], ended: Set[int]) -> HandledCommand:
    """Say what became of one cancel: done where any delivery was ended, else what is wrong with the first."""
    if not deliveries:
        return _rejected(command_id, Code.NOT_FOUND, "no delivery of this event is known")
    done = [delivery for delivery in deliveries if delivery.seq in ended]
    if done:
        return HandledCommand(command_id, {"in_flight": any(delivery.is_in_flight for delivery in done)})
    if not _is_cancellable(deliveries[0]):
        return _rejected(
            command_id, Code.WRONG_STATE, f"the delivery is {deliveries[0].state}, nothing is owed"
        )
    return _rejected(command_id, Code.WRONG_STATE, "the delivery is no longer owed")


def _rejected(command_id: int, code: Code, message: str) -> HandledCommand:
    return HandledCommand(command_id, rejection=CommandRejected(code, message))
