"""How a merchant fares, as every front end tells it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from webhook_dispatcher.domain.thresholds import BEHIND, is_failing


class MerchantState(StrEnum):
    """How a merchant fares, in one word: the first of these that is true."""

    NOT_CONFIGURED = "not_configured"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    FAILING = "failing"
    SLOW = "slow"
    NEW = "new"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class MerchantFacts:
    """How one merchant fares. waiting: events in order, as far as they were counted, as waiting_for_retry.

    attempted, attempts_failed: as domain.thresholds.is_failing has them. paused_…: of the command that paused
    it. failed_…: of the latest failed attempt, where one failed lately. These and waiting_for_retry are not
    read for every list. Of a merchant with several endpoints all this is the worst one's, whose number
    `endpoint` is, but for what waits: that is of all. endpoints: each by itself.
    """

    merchant_id: str
    has_endpoint: bool
    is_paused: bool
    failing_since: datetime | None
    failures_in_a_row: int
    last_success_at: datetime | None
    suspended_at: datetime | None
    next_try_at: datetime | None
    oldest_waiting_at: datetime | None
    waiting: int
    waiting_for_retry: int = 0
    attempted: int = 0
    attempts_failed: int = 0
    paused_at: datetime | None = None
    paused_by: str | None = None
    failed_event_id: UUID | None = None
    failed_at: datetime | None = None
    failed_outcome: str | None = None
    failed_status: int | None = None
    failed_reason: str | None = None
    endpoint: int | None = None
    endpoints: Sequence["MerchantFacts"] = ()

    @property
    def place(self) -> tuple[bool, bool, bool, int]:
        """Sort endpoints by this: the worst comes first."""
        return (self.suspended_at is None, not self.fails, not self.is_paused, -self.waiting)

    @property
    def fails(self) -> bool:
        """Whether too many of its latest attempts failed."""
        return is_failing(self.attempted, self.attempts_failed, self.failing_since, self.failures_in_a_row)

    def state(self, now: datetime) -> MerchantState:
        """Say in one word how it fares: what keeps everything from it first."""
        if not self.has_endpoint:
            return MerchantState.NOT_CONFIGURED
        if self.is_paused:
            return MerchantState.PAUSED
        if self.suspended_at is not None:
            return MerchantState.SUSPENDED
        if self.fails:
            return MerchantState.FAILING
        if self.oldest_waiting_at is not None and now - self.oldest_waiting_at > BEHIND:
            return MerchantState.SLOW
        if self.last_success_at is None:
            return MerchantState.NEW
        return MerchantState.HEALTHY
