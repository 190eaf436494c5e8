"""What is written about one attempt, and what becomes of the lane it was made in."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple
from uuid import UUID

from webhook_dispatcher.domain.claim import Lease
from webhook_dispatcher.domain.event import Event, FailedReason, State
from webhook_dispatcher.domain.verdict import Outcome

UNWANTED: Final = "unwanted"
"""In place of a state: the endpoint's filter leaves the event out, and it goes into the log without one."""
ROUTED: Final = "routed"
"""So too, where copies of it went to several endpoints."""


class Attempt(NamedTuple):
    """One POST as it went; instants in database time, fixed once.

    reason: why it failed, in words; None where it was delivered, as `response_excerpt` is.
    response_excerpt: how the answer's body begins, where the operator wants it; anybody may have written it.
    """

    number: int
    started_at: datetime
    finished_at: datetime
    duration_ms: int
    status: int | None
    outcome: Outcome
    reason: str | None = None
    response_excerpt: str | None = None


class Sent(NamedTuple):
    """An event that was attempted. sent_at: the end of its latest attempt; is_delivered: by any of them."""

    event_id: UUID
    merchant_id: str
    seq: int
    sent_at: datetime
    is_delivered: bool


class Record(NamedTuple):
    """One row's new state, to be written under the fence it was claimed with.

    fence: the lane's epoch, or the row's claim where `is_retry`.
    attempt: None where the row was finished or rescheduled without being sent.
    state: DELIVERED, FAILED or UNWANTED when nothing more is owed; None while it is, and `due_at` says when.
    at: when this was decided, in database time.
    """

    event: Event
    fence: int
    is_retry: bool
    attempt: Attempt | None
    state: State | Literal["unwanted"] | None
    reason: FailedReason | None
    due_at: datetime | None
    at: datetime

    @property
    def attempts(self) -> int:
        """Return the delivery's attempts with this one."""
        return self.event.attempts if self.attempt is None else self.attempt.number


@dataclass(frozen=True, slots=True)
class LaneTurn:
    """What becomes of a lane: renewed, or released once all its outcomes are written.

    reach: with this batch, everything in order up to this seq is recorded.
    """

    lease: Lease
    is_over: bool
    reach: int = 0
    wait_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What a record statement wrote; whatever is in none of these was locked and is written next time."""

    seqs: frozenset[int]
    kept: tuple[str, ...]
    released: tuple[str, ...]
    recalled: tuple[str, ...]
    lost: tuple[str, ...]
