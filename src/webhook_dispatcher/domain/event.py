"""An event, and the body its merchant receives.

Source: contract 1 and 2 (docs/contract.md).
"""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, TypeGuard
from uuid import UUID

from webhook_dispatcher.domain.lane import merchant_of, number_of
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names

CHARGE_TYPES = (
    "charge.created",
    "charge.succeeded",
    "charge.failed",
    "charge.reversed",
    "charge.split_completed",
    "charge.split_failed",
    "charge.fiscal_registered",
    "charge.fiscal_failed",
)
TEST_EVENT_TYPE = "webhook.test"
SAMPLE_CHARGE = (
    b'{"id":"ch_test","externalId":"order_test","status":"SUCCEEDED","split":{"status":"COMPLETED"}}'
)
"""What is published of a charge, and no other field. Source: partner-api.md 2.2."""
_SAMPLE = b'{"id":"ch_test_%b","externalId":"order_test","status":"%b",%b"split":{"status":"%b"}}'
SAMPLES = {
    f"charge.{what}": _SAMPLE % (what.encode(), status, reason, split)
    for what, status, reason, split in (
        ("created", b"CREATED", b"", b"PENDING"),
        ("succeeded", b"SUCCEEDED", b"", b"PENDING"),
        ("failed", b"FAILED", b'"failureReason":"a test",', b"PENDING"),
        ("reversed", b"REVERSED", b"", b"COMPLETED"),
        ("split_completed", b"SUCCEEDED", b"", b"COMPLETED"),
        ("split_failed", b"SUCCEEDED", b"", b"FAILED"),
        ("fiscal_registered", b"SUCCEEDED", b"", b"COMPLETED"),
        ("fiscal_failed", b"SUCCEEDED", b"", b"COMPLETED"),
    )
}
"""The charge of a test of another type. No two are alike: a stored test is told by it as that type again."""
_SAMPLED = {charge: name for name, charge in SAMPLES.items()}
NOTICE_TYPES = ("delivery.failed", "endpoint.failing", "endpoint.recovered", "endpoint.suspended")
"""What the dispatcher tells the platform by itself, and nobody else is sent."""
EVENT_TYPES = (*CHARGE_TYPES, TEST_EVENT_TYPE, *NOTICE_TYPES)

PLATFORM = "$platform"
"""The merchant that notices are for: whoever runs the service. Producers may not write for it."""

MIN_CREATED_AT = datetime(2000, 1, 1, tzinfo=UTC)
MAX_CREATED_AT = datetime(2100, 1, 1, tzinfo=UTC)
"""An event is of neither an earlier nor of a later time (contract 3); the latter is not included."""
KNOWN_TYPES = frozenset(EVENT_TYPES)
"""Ours; an installation may have more of its own."""
_TYPE = re.compile(r"[a-z0-9_.]{1,64}")
_TESTED = re.compile(rb'"ch_test:([a-z0-9_.]{1,64})"')
"""The id of the charge of a sample of one's own type: a stored test is told by it."""
CONTENT_TYPE = "application/json; charset=utf-8"
"""Of a body. JSON is always UTF-8, but Java's servlets read text as Latin-1 where no charset is named."""
_OPENS_AN_OBJECT = re.compile(rb"[ \t\r\n]*\{")


def is_own_type(name: object) -> TypeGuard[str]:
    """Tell whether this may be a type of one's own: it has the form of a type, and is none of ours."""
    return isinstance(name, str) and name not in KNOWN_TYPES and _TYPE.fullmatch(name) is not None


def sample_of(name: str, charge_path: str) -> bytes:
    """Make the least sample of a type of one's own, where none is given."""
    opening = "".join(f'{{"{member}":' for member in charge_path.split("."))
    return f'{opening}"ch_test:{name}"{"}" * opening.count("{")}'.encode()


def sampled_type(sample: bytes) -> str:
    """Return the type that a test with this object is told as: `webhook.test` where it is none's sample."""
    if (known := _SAMPLED.get(sample)) is not None:
        return known
    own = _TESTED.search(sample)
    return own[1].decode() if own and is_own_type(own[1].decode()) else TEST_EVENT_TYPE


class State(StrEnum):
    """The states of a delivery."""

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
    SKIPPED = "skipped"


class Trigger(StrEnum):
    """What made an attempt happen."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    REPLAY = "replay"
    """What was delivered is sent again."""


class Event(NamedTuple):
    """One row of the outbox, as claimed. A tuple: made for each, and four times as cheap.

    object: the producer's JSON text as UTF-8, byte for byte; empty where it is too large to be read.
    attempts: how many have been recorded before this one. attempts_by_hand: those beside the schedule.
    on_failure: what becomes of the delivery if a manual attempt fails; None where the schedule decides.
    scheduled_at: of an attempt beside the schedule, when the schedule's next one is due; None of all others.
    copy_of: of a copy for one of several endpoints, the event's id; its own is the delivery's.
    """

    seq: int
    id: UUID
    lane: str
    type: str
    created_at: datetime
    object: bytes
    attempts: int = 0
    trigger: Trigger = Trigger.SCHEDULE
    on_failure: State | None = None
    attempts_by_hand: int = 0
    scheduled_at: datetime | None = None
    copy_of: UUID | None = None

    @property
    def merchant_id(self) -> str:
        """The merchant whose lane it is in."""
        return merchant_of(self.lane)

    @property
    def endpoint(self) -> int | None:
        """The number of the endpoint that it is for; None: of the only one, or it is not routed yet."""
        return number_of(self.lane)

    @property
    def event_id(self) -> UUID:
        """The event's id, which every endpoint is told; `id` is the delivery's."""
        return self.copy_of or self.id

    @property
    def is_known(self) -> bool:
        """Tell whether its type can be sent: ours, or one of the same form that producers may write."""
        return self.type in KNOWN_TYPES or is_own_type(self.type)

    @property
    def sent_type(self) -> str:
        """The type that a merchant is told: of a test that of its sample (contract 3, `test_event`)."""
        return sampled_type(self.object) if self.type == TEST_EVENT_TYPE else self.type

    @property
    def fault(self) -> str | None:
        """Say what keeps this event from being sent to anybody, if it has come in past the rules for rows."""
        if not MIN_CREATED_AT <= self.created_at < MAX_CREATED_AT:
            return "its created_at is not between the years 2000 and 2100"
        if not (self.object.startswith(b"{") or _OPENS_AN_OBJECT.match(self.object)):
            return "its object is not a JSON object of at most 256 KiB"
        return None

    def headers(self, signature: str, names: Names = DEFAULT_NAMES) -> dict[str, str]:
        """Return the request's headers, but for those of HTTP itself (transport) and of Standard Webhooks."""
        headers = {
            "Content-Type": CONTENT_TYPE,
            names.event_id: str(self.event_id),
            names.event_type: self.sent_type,
            names.signature: signature,
        }
        if names.user_agent is not None:
            headers["User-Agent"] = names.user_agent
        return headers

    def body(self) -> bytes:
        """Render the request body; the same bytes on every attempt."""
        return b'{"id":"%b","type":"%b","createdAt":"%b","data":{"object":%b}}' % (
            str(self.event_id).encode(),
            self.sent_type.encode(),
            render_instant(self.created_at).encode(),
            self.object,
        )


def render_instant(instant: datetime) -> str:
    """Write an aware instant as UTC with exactly three decimals and a Z (truncated, never rounded up)."""
    if instant.tzinfo is not UTC:  # instants that come from the database are in UTC already
        instant = instant.astimezone(UTC)
    # Takes half as long as isoformat, or an f-string.
    return "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ" % (  # noqa: UP031
        instant.year,
        instant.month,
        instant.day,
        instant.hour,
        instant.minute,
        instant.second,
        instant.microsecond // 1000,
    )
