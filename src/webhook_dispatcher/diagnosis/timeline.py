"""A delivery's story, moment by moment: what happened when, who wanted it, and what is to come."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from webhook_dispatcher.diagnosis import reasons
from webhook_dispatcher.diagnosis.explanation import asked, failed_because, result, routed
from webhook_dispatcher.diagnosis.said import NOTHING, Fact, Said, Word, said
from webhook_dispatcher.domain.command import CommandFacts
from webhook_dispatcher.domain.delivery import (
    MAX_AHEAD,
    AttemptView,
    DeliveryFacts,
    EventFacts,
    Surroundings,
)
from webhook_dispatcher.domain.endpoint import EndpointChange
from webhook_dispatcher.domain.event import State, Trigger
from webhook_dispatcher.domain.record import UNWANTED
from webhook_dispatcher.domain.verdict import Outcome

WORTH_TELLING = timedelta(seconds=1)
"""A wait for the first attempt is told only if it was at least so long."""
TOLD = ("retry", "cancel", "retry_failed", "recover", "skip", "pause", "resume")
"""Commands that a delivery's story has sentences for; others are called by their names."""


class Kind(StrEnum):
    """What sort of moment it is."""

    WRITTEN = "written"
    WAITED = "waited"
    MISSING = "missing"
    """The log does not have it any more."""
    CHANGED = "changed"
    """Somebody changed the endpoint."""
    ASKED = "asked"
    """Somebody gave a command."""
    ATTEMPT_FAILED = "attempt_failed"
    DELIVERED = "delivered"
    FAILED = "failed"
    """It failed for good."""
    AHEAD = "ahead"
    """What goes on now, or is to come."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the story."""

    at: datetime
    said: Said
    kind: Kind


NOTHING_ELSE = Surroundings()


def build(facts: EventFacts, around: Surroundings = NOTHING_ELSE) -> tuple[Moment, ...]:
    """Tell a delivery's story in order; what goes on now or is to come stands last."""
    moments = [
        Moment(facts.delivery.created_at, said("moment_written"), Kind.WRITTEN),
        *_waiting(facts),
        *_missing(facts),
        *(_change(change) for change in around.changes),
        *(_command(command) for command in [*facts.commands, *around.commands]),
        *(_attempt(attempt) for attempt in facts.attempts),
        *_end(facts),
        *_ahead(facts),
    ]
    # Sorting is stable: what happened at one instant stays in the order above.
    return tuple(sorted(moments, key=lambda moment: (moment.kind is Kind.AHEAD, moment.at)))


def _waiting(facts: EventFacts) -> Iterator[Moment]:
    """Say for how long it waited for its first attempt, and behind what."""
    delivery = facts.delivery
    if facts.overtaken_by is not None:
        later = facts.overtaken_by
        told = said("moment_overtaken", number=str(later.seq), event=later.event_id)
        yield Moment(later.started_at, told, Kind.WAITED)
    first = next((attempt for attempt in facts.attempts if attempt.attempt == 1), None)
    if first is None or first.started_at - delivery.created_at < WORTH_TELLING:
        return
    waited = first.started_at - delivery.created_at
    if facts.predecessor is None:
        yield Moment(delivery.created_at, said("moment_waited", waited=waited), Kind.WAITED)
    else:
        told = said(
            "moment_waited_behind",
            waited=waited,
            event=facts.predecessor.event_id,
            number=str(facts.predecessor.seq),
            until=facts.predecessor.ended_at,
        )
        yield Moment(delivery.created_at, told, Kind.WAITED)


def _missing(facts: EventFacts) -> Iterator[Moment]:
    count = facts.delivery.attempts - len({attempt.attempt for attempt in facts.attempts})
    if count > 0:
        yield Moment(facts.delivery.created_at, said("attempts_gone", count=count), Kind.MISSING)


def _change(change: EndpointChange) -> Moment:
    told = said("moment_changed", person=change.person or change.role, change=Word("change", change.action))
    return Moment(change.at, told, Kind.CHANGED)


def _command(command: CommandFacts) -> Moment:
    given: dict[str, Fact] = {
        "person": command.requested_by,
        "number": str(command.id),
        "status": Word("command_status", command.status),
    }
    if command.command in TOLD:
        told = said(f"moment_{command.command}", **given)
    else:
        told = said("moment_command", command=Word("command", command.command), **given)
    return Moment(command.created_at, told, Kind.ASKED)


def _attempt(attempt: AttemptView) -> Moment:
    is_delivered = attempt.outcome == Outcome.DELIVERED
    told = said(
        "moment_delivered" if is_delivered else "moment_failed",
        number=str(attempt.attempt),
        took=timedelta(milliseconds=attempt.duration_ms),
        asked=asked(attempt, "moment_asked"),
        result=result(None if is_delivered else attempt.outcome, attempt.status, is_code=False),
        reason=said("attempt_reason", reason=reasons.read(attempt.reason)) if attempt.reason else NOTHING,
    )
    return Moment(attempt.started_at, told, Kind.DELIVERED if is_delivered else Kind.ATTEMPT_FAILED)


def _end(facts: EventFacts) -> Iterator[Moment]:
    """Say how it ended, where no attempt in the log says so."""
    delivery = facts.delivery
    if delivery.finished_at is None:
        return
    if facts.route is not None:
        for told in routed(facts.route, delivery.finished_at):
            yield Moment(delivery.finished_at, told, Kind.ASKED)
    elif delivery.state == UNWANTED:
        yield Moment(delivery.finished_at, said("unwanted", at=delivery.finished_at), Kind.ASKED)
    elif delivery.state == State.FAILED:
        yield Moment(delivery.finished_at, said("failed", because=failed_because(facts)), Kind.FAILED)
    elif all(attempt.outcome != Outcome.DELIVERED for attempt in facts.attempts):
        yield Moment(delivery.finished_at, said("moment_ended"), Kind.DELIVERED)


def _ahead(facts: EventFacts) -> Iterator[Moment]:
    """Say what goes on, or comes next."""
    delivery, now = facts.delivery, facts.circumstances.now
    if delivery.state == State.PENDING:
        yield Moment(now, _first_attempt(facts), Kind.AHEAD)
    elif delivery.finished_at is None and delivery.due_at is not None:
        yield _next_attempt(delivery, delivery.due_at, now)


def _first_attempt(facts: EventFacts) -> Said:
    now = facts.circumstances
    if now.is_routed:
        return said("waits_for_routing")
    if now.ahead:
        key = "moment_first_behind_or_more" if now.ahead >= MAX_AHEAD else "moment_first_behind"
        return said(key, count=min(now.ahead, MAX_AHEAD))
    return said("moment_first_in_flight" if now.is_held else "moment_first")


def _next_attempt(delivery: DeliveryFacts, due_at: datetime, now: datetime) -> Moment:
    by_hand = said("asked_by_hand") if delivery.trigger == Trigger.MANUAL else NOTHING
    number = str(delivery.attempts + 1)
    if delivery.is_claimed:
        key = "retry_claimed" if due_at > now else "retry_lost"
        return Moment(now, said(key, number=number, by_hand=by_hand, until=due_at), Kind.AHEAD)
    if due_at <= now:
        told = said("moment_overdue", number=number, by_hand=by_hand, wait=now - due_at)
        return Moment(now, told, Kind.AHEAD)
    told = said("moment_due", number=number, by_hand=by_hand, wait=due_at - now)
    return Moment(due_at, told, Kind.AHEAD)
