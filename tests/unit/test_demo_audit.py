import dataclasses
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from webhook_dispatcher.cli.demo import audit, cast
from webhook_dispatcher.domain.delivery import DeliveryView
from webhook_dispatcher.domain.event import Event, FailedReason, State
from webhook_dispatcher.local.arrivals import Arrival, Signature
from webhook_dispatcher.local.producer import Written

NOW = datetime(2026, 11, 20, tzinfo=UTC)
EVENT = Written(UUID(int=1), 1, cast.HEALTHY.id, "charge.created", '{"rate": 1.10}')
LATER = Written(UUID(int=2), 2, cast.HEALTHY.id, "charge.failed", "{ }")


class FakeStage:
    """What the audit needs of a stage."""

    def __init__(self, *written: Written) -> None:
        self.written = {str(event.id): event for event in written}

    def merchant_of(self, arrival: Arrival) -> str:
        return arrival.merchant_id


def delivery(event: Written, **changes: Any) -> DeliveryView:
    view = DeliveryView(
        event_id=event.id, seq=event.seq, merchant_id=event.merchant_id, type=event.type, created_at=NOW,
        state=State.DELIVERED, failed_reason=None, attempts=1, next_attempt_at=None, last_status=200,
        last_outcome="delivered", finished_at=NOW, charge_id=None,
    )  # fmt: skip
    return dataclasses.replace(view, **changes)


def arrival(event: Written, at: float = 1.0, **changes: Any) -> Arrival:
    body = Event(event.seq, event.id, event.merchant_id, event.type, NOW, event.object.encode()).body()
    came = Arrival(
        merchant_id=event.merchant_id, event_id=str(event.id), type=event.type, attempt=1, started_at=at,
        connection=1, signature=Signature.RIGHT, headers={}, body=body, ended_at=at + 0.5, status=200,
    )  # fmt: skip
    return dataclasses.replace(came, **changes)


def judge(
    deliveries: list[DeliveryView], arrivals: list[Arrival], cancelled: set[str] | None = None
) -> list[str]:
    found = {str(view.event_id): view for view in deliveries}
    stage: Any = FakeStage(EVENT, LATER)
    return audit.judge_arrivals(stage, found, cancelled or set(), arrivals)


BOTH = [delivery(EVENT), delivery(LATER)]


def test_what_agrees_is_not_complained_about() -> None:
    assert judge(BOTH, [arrival(EVENT, 1), arrival(LATER, 2)]) == []


@pytest.mark.parametrize(
    ("deliveries", "arrivals", "complaint"),
    [
        (BOTH, [arrival(EVENT)], "arrived 0 times, with 1 attempts recorded"),
        (BOTH, [arrival(EVENT, 1), arrival(EVENT, 2), arrival(LATER, 3)], "accepted more than once"),
        (BOTH, [arrival(EVENT, 2), arrival(LATER, 1)], "against the order"),
        (BOTH, [arrival(EVENT, 1), arrival(LATER, 1.4)], "before the first attempt of"),
        (BOTH, [arrival(EVENT), arrival(LATER, 2, signature=Signature.WRONG)], "a signature that is wrong"),
        (BOTH, [arrival(EVENT, body=arrival(EVENT).body.replace(b"1.10", b"1.1")), arrival(LATER, 2)],
         "another body"),
        (BOTH,
         [arrival(EVENT, body=arrival(EVENT).body.replace(b"created", b"createt")), arrival(LATER, 2)],
         "another"),
        (BOTH[:1], [arrival(EVENT), arrival(LATER, 2)], "is not in the database"),
        (BOTH, [arrival(EVENT), arrival(LATER, 2), arrival(EVENT, 3, event_id="x")],
         "reached the receiver only"),
    ],
)  # fmt: skip
def test_disagreements_are_named(
    deliveries: list[DeliveryView], arrivals: list[Arrival], complaint: str
) -> None:
    assert complaint in "\n".join(judge(deliveries, arrivals))


def test_a_cancelled_event_must_not_arrive() -> None:
    assert "cancelled and sent" in "\n".join(
        judge(BOTH, [arrival(EVENT, 1), arrival(LATER, 2)], {str(LATER.id)})
    )


@pytest.mark.parametrize(
    ("merchant", "changes", "agrees"),
    [
        (cast.HEALTHY, {}, True),
        (cast.FLAKY, {"attempts": 3}, True),
        (cast.HEALTHY, {"state": State.PENDING_RETRY}, False),
        (cast.FAILING, {"state": State.FAILED, "failed_reason": FailedReason.EXHAUSTED, "attempts": 8}, True),
        (cast.FAILING, {"state": State.FAILED, "failed_reason": FailedReason.EXHAUSTED, "attempts": 7},
         False),
        (cast.HANGING, {"state": State.FAILED, "failed_reason": FailedReason.UNSENDABLE, "attempts": 8},
         False),
        (cast.HANGING, {}, False),
    ],
)  # fmt: skip
def test_the_schedule_alone_decides_before_the_commands(
    merchant: cast.Merchant, changes: dict[str, Any], agrees: bool
) -> None:
    found = delivery(dataclasses.replace(EVENT, merchant_id=merchant.id), **changes)
    assert (audit.judge_schedule([found]) == []) is agrees


def test_in_the_end_only_what_was_cancelled_has_failed() -> None:
    cancelled = delivery(LATER, state=State.FAILED, failed_reason=FailedReason.CANCELLED)
    assert audit.judge_end([delivery(EVENT), cancelled], {str(LATER.id)}) == []
    assert audit.judge_end([delivery(EVENT), cancelled], set())
    assert audit.judge_end(BOTH, {str(LATER.id)})
