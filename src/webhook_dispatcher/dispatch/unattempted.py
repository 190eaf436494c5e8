"""Rows that are not sent: no endpoint, a secret that we cannot open, or a row that nobody can be sent."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from webhook_dispatcher.dispatch.lane import Outcomes, Visit
from webhook_dispatcher.domain.event import Event, FailedReason, State
from webhook_dispatcher.domain.record import Record

KEY_WAIT = timedelta(seconds=5)
"""How long rows wait before we try again to open a secret whose key we lack."""
RETRY_WAIT = timedelta(seconds=30)
"""How long a due row waits before we look again whether its merchant has an endpoint."""


@dataclass(frozen=True, slots=True)
class Hold:
    """How long events of a merchant without an endpoint wait for one (contract 5, UNCONFIGURED_HOLD)."""

    duration: timedelta

    def ends_at(self, event: Event, endpoint_removed_at: datetime | None) -> datetime:
        """Return when an event without endpoint fails: at once if its endpoint was removed after it."""
        if endpoint_removed_at is not None and event.created_at <= endpoint_removed_at:
            return event.created_at
        return event.created_at + self.duration


def fail_unconfigured(event: Event, fence: int, is_retry: bool, at: datetime) -> Record:
    """Finish a row whose merchant has no endpoint, without an attempt; what was delivered stays so."""
    if event.on_failure is State.DELIVERED:
        return Record(event, fence, is_retry, None, State.DELIVERED, None, None, at)
    return Record(event, fence, is_retry, None, State.FAILED, FailedReason.NOT_CONFIGURED, None, at)


def settle_unconfigured(visit: Visit, hold: Hold, now: datetime, outcomes: Outcomes) -> None:
    """Finish what has waited long enough for its merchant's endpoint; the rest of the lane waits on."""
    while visit.run:
        if visit.run[0].fault is not None:
            outcomes.add(fail_unsendable(visit.run.popleft(), visit.lease.epoch, False, now), visit)
            continue
        ends_at = hold.ends_at(visit.run[0], visit.lease.endpoint_removed_at)
        if ends_at > now:
            # A created_at far ahead must not hold back what is inserted after it.
            visit.wait_until = min(ends_at, now + hold.duration)
            return
        event = visit.run.popleft()
        outcomes.add(fail_unconfigured(event, visit.lease.epoch, False, now), visit)


def fail_unsendable(event: Event, fence: int, is_retry: bool, at: datetime) -> Record:
    """Finish a row that can be sent to nobody, without an attempt; what was delivered stays so."""
    if event.on_failure is State.DELIVERED:
        return Record(event, fence, is_retry, None, State.DELIVERED, None, None, at)
    return Record(event, fence, is_retry, None, State.FAILED, FailedReason.UNSENDABLE, None, at)


def hand_back(event: Event, fence: int, due_at: datetime, at: datetime) -> Record:
    """Give a claimed retry back unsent; it does not count as an attempt."""
    return Record(event, fence, True, None, None, None, due_at, at)
