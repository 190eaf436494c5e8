"""An event, and the body its merchant receives.

Source: contract 1 and 2 (docs/contract.md).
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

EVENT_TYPES = (
    "charge.created",
    "charge.succeeded",
    "charge.failed",
    "charge.reversed",
    "charge.split_completed",
    "charge.split_failed",
    "charge.fiscal_registered",
    "charge.fiscal_failed",
    "webhook.test",
)

TEST_EVENT_TYPE = "webhook.test"


class State(StrEnum):
    """Where a delivery stands."""

    PENDING = "pending"
    PENDING_RETRY = "pending_retry"
    DELIVERED = "delivered"
    FAILED = "failed"


class FailedReason(StrEnum):
    """Why a delivery failed for good."""

    EXHAUSTED = "exhausted"
    NOT_CONFIGURED = "not_configured"
    UNSENDABLE = "unsendable"
    CANCELLED = "cancelled"


class Trigger(StrEnum):
    """What made an attempt happen."""

    SCHEDULE = "schedule"
    MANUAL = "manual"


class Event(NamedTuple):
    """One row of the outbox, as claimed. A tuple: made for each, and four times as cheap.

    object: the producer's JSON text as UTF-8, byte for byte.
    attempts: how many have been recorded before this one.
    on_failure: what becomes of the delivery if a manual attempt fails; None where the schedule decides.
    is_unreadable: the database cannot give its object, which is empty here; it is not sent, but finished.
    """

    seq: int
    id: UUID
    merchant_id: str
    type: str
    created_at: datetime
    object: bytes
    attempts: int = 0
    trigger: Trigger = Trigger.SCHEDULE
    on_failure: State | None = None
    is_unreadable: bool = False

    def body(self) -> bytes:
        """Render the request body; the same bytes on every attempt."""
        return b'{"id":"%b","type":"%b","createdAt":"%b","data":{"object":%b}}' % (
            str(self.id).encode(),
            self.type.encode(),
            render_instant(self.created_at).encode(),
            self.object,
        )


def render_instant(instant: datetime) -> str:
    """Write an aware instant as UTC with exactly three decimals and a Z (truncated, never rounded up)."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
