"""Whether commands had the effect that they promise, and withdrawn ones none (contract 3)."""

from bisect import bisect_left
from collections.abc import Iterator
from math import isinf

from lab.chaos.cases import Case, Cases
from lab.chaos.commands import Commands, concerns
from lab.chaos.evidence import Command, Delivery, Evidence, daemon_of
from lab.chaos.history import Historian
from lab.chaos.injections import Injections
from lab.chaos.order import BrokenPromise
from lab.chaos.records import AFTER
from lab.chaos.repetitions import GAP
from lab.chaos.verdict import Violation, What
from webhook_dispatcher.domain.command import CommandStatus
from webhook_dispatcher.domain.event import FailedReason
from webhook_dispatcher.local.arrivals import Arrival

OBEYED_WITHIN = 1.0 + AFTER
"""Seconds after a command for which what it forbids may still begin (1 s), and reach the receiver."""
_GIVEN_UP = (FailedReason.CANCELLED, FailedReason.SKIPPED)


def forbidden(cases: Cases, injections: Injections) -> Iterator[BrokenPromise]:
    """Find events of which a request came after they had been skipped or cancelled.

    A daemon that a fault hit may learn of it late. What was accepted before was not given up.
    """
    for case in cases:
        for since, why in _forbidding(case, cases.commands):
            late = _first_after(case, since + OBEYED_WITHIN)
            if late is not None and not _is_excused(late, since, injections):
                detail = f"a request came {late.started_at - since:.2f} s after {why}"
                yield BrokenPromise(What.FORBIDDEN, case, detail)
                break


def _forbidding(case: Case, commands: Commands) -> Iterator[tuple[float, str]]:
    """Return from when on nothing of an event was to be sent any more, and why."""
    delivery = case.delivery
    if delivery is None:
        return
    if delivery.finished_at is not None and delivery.failed_reason in _GIVEN_UP:
        yield delivery.finished_at, f"it ended as {delivery.failed_reason}"
    retries = commands.retries(case.event)
    for cancel in commands.cancels(case.event):
        if cancel.event_id == case.event.of:
            continue  # done if it ended any of the event's deliveries
        # Nothing but a retry of its own takes a cancel back.
        if cancel.handled_at is not None and not any(_ended(one) > cancel.given_at for one in retries):
            yield cancel.handled_at, f"command {cancel.id} cancelled it"
    if not case.by_hand and isinf(case.reopened_from):
        for skip in commands.skips_of(case.merchant_id):
            if skip.handled_at is not None and _is_for(skip, case, delivery):
                yield skip.handled_at, f"command {skip.id} skipped what was older"


def _ended(command: Command) -> float:
    return float("inf") if command.handled_at is None else command.handled_at


def _is_for(skip: Command, case: Case, delivery: Delivery) -> bool:
    """Tell whether a skip went through all that was owed, and an event may have been owed already."""
    committed = case.event.committed_at
    is_owed = committed is not None and committed < skip.given_at
    return (
        skip.status == CommandStatus.DONE and skip.is_whole and is_owed and delivery.created_at < skip.before
    )


def _first_after(case: Case, at: float) -> Arrival | None:
    """Return the first request after a moment, unless one before it was accepted: then it is a replay."""
    for arrival in case.arrivals:
        if arrival.started_at > at:
            return arrival
        if arrival.status is not None and 200 <= arrival.status <= 299:
            return None
    return None


def _is_excused(late: Arrival, since: float, injections: Injections) -> bool:
    """Tell whether a fault may have kept a daemon from learning what it was not to send any more."""
    return any(daemon_of(late) in one.daemons for one in injections.between(since, late.started_at, GAP))


def forgotten(cases: Cases, injections: Injections, evidence: Evidence) -> Iterator[BrokenPromise]:
    """Find deliveries that a recover was about, and that have ended only before it.

    An end may come into the log long after its instant, while faults last; such a late one is not judged.
    """
    latest = injections.longest + injections.grace
    ended = sorted(_ends(cases, evidence), key=lambda end: end[0])
    for recover in cases.commands.recovers:
        if recover.is_whole and recover.status == CommandStatus.DONE:
            until = min(recover.until, recover.given_at - latest)
            lowest, highest = (
                bisect_left(ended, at, key=lambda end: end[0]) for at in (recover.since, until)
            )
            for _, kind, case in ended[lowest:highest]:
                if kind in recover.states and concerns(recover, case.merchant_id):
                    detail = f"command {recover.id} was to send it again, and it has ended before that"
                    yield BrokenPromise(What.FORGOTTEN, case, detail)


def _ends(cases: Cases, evidence: Evidence) -> Iterator[tuple[float, str, Case]]:
    """Return when each delivery ended, and as what; not where an endpoint may have been missing."""
    for case in cases:
        delivery = case.delivery
        if delivery is None or delivery.finished_at is None or case.is_test:
            continue
        if case.merchant_id in evidence.unconfigured:
            continue
        is_given_up = delivery.failed_reason in _GIVEN_UP
        yield delivery.finished_at, str(delivery.failed_reason if is_given_up else delivery.state), case


def disobeyed(evidence: Evidence, historian: Historian) -> Iterator[Violation]:
    """Find commands that were withdrawn and carried out all the same, and those that nobody ended."""
    for command in evidence.commands:
        what, detail = _fault_of(command, evidence)
        if what is not None:
            merchant_id = command.merchant_id or ""
            said = f"command {command.id} ({command.name}) {detail}"
            yield Violation(what, merchant_id, command.event_id, said, historian.command(command))


def _fault_of(command: Command, evidence: Evidence) -> tuple[What | None, str]:
    if command.id in evidence.withdrawn and command.status != CommandStatus.WITHDRAWN:
        return What.DEFIED, f"was withdrawn in time, and is {command.status}"
    if command.id in evidence.in_force:
        return What.DEFIED, "is withdrawn, and in force"
    if command.status in (CommandStatus.PENDING, CommandStatus.RUNNING):
        return What.UNENDED, f"is still {command.status} at the end"
    return None, ""
