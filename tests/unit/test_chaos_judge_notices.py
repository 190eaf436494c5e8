"""The judge of chaos runs on what the platform is told: all that failed, once, and nothing else."""

import pytest

from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, calm, found
from webhook_dispatcher.local.arrivals import Signature

UNTOLD, MISTOLD = [(What.UNTOLD, None)], [(What.MISTOLD, None)]


@pytest.fixture
def builder() -> EvidenceBuilder:
    """Three events of one merchant, delivered by 2.1 s; the platform is told who fails for 5 s."""
    builder = calm()
    builder.told_after = 5.0
    return builder


def exhaust(builder: EvidenceBuilder, name: str, at: float = 10.0) -> None:
    builder.event(name, at)
    for number in range(8):
        builder.attempt(name, at + 0.05 + number / 2, status=500)
    builder.fail(name, "exhausted", at + 3.6)


def go_on_failing(builder: EvidenceBuilder, since: float, until: float, count: int = 8) -> None:
    """Let so many events fail once each, and be cancelled."""
    for number in range(count):
        name = f"f{number}"
        builder.sent(
            name,
            since - 0.05 + number * (until - since) / (count - 1),
            since + number * (until - since) / (count - 1),
            status=503,
        )
        builder.cancelled.add(name)
        builder.fail(name, "cancelled")


def recover(builder: EvidenceBuilder, at: float, count: int = 3) -> None:
    for number in range(count):
        builder.sent(f"r{number}", at + number, at + number + 0.02)


def test_each_failure_is_told(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    exhaust(builder, "e", 20)
    builder.notice("delivery.failed", count=1, eventIds=["d"])
    assert found(builder) == UNTOLD
    builder.notice("delivery.failed", count=1, eventIds=["e"])
    assert found(builder) == []
    assert judge(builder.evidence()).notices == {"delivery.failed": 2}


def test_more_failures_than_there_were_are_mistold(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    builder.notice("delivery.failed", count=2, eventIds=["d"])
    assert found(builder) == MISTOLD


def test_a_notice_is_on_record_and_signed(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    builder.notice("delivery.failed", count=1, eventIds=["d"]).signature = Signature.WRONG
    assert found(builder) == [(What.WRONG_SIGNATURE, None)]
    builder.notices.clear()
    assert found(builder) == [(What.UNKNOWN, None), (What.WRONG_SIGNATURE, None)]


def test_who_fails_for_long_is_told_of(builder: EvidenceBuilder) -> None:
    go_on_failing(builder, 10, 50)
    assert found(builder) == UNTOLD
    builder.notice("endpoint.failing", at=20, failingSince=10.03)
    assert found(builder) == []


def test_a_recovery_is_told(builder: EvidenceBuilder) -> None:
    go_on_failing(builder, 10, 50)
    builder.notice("endpoint.failing", failingSince=10.03)
    recover(builder, 60)
    assert found(builder) == UNTOLD
    builder.notice("endpoint.recovered", failingSince=10.03, recoveredAt=60.05)
    assert found(builder) == []


def test_nothing_is_told_twice(builder: EvidenceBuilder) -> None:
    go_on_failing(builder, 10, 50)
    for _ in range(2):
        builder.notice("endpoint.failing", failingSince=10.03)
    assert found(builder) == MISTOLD


def test_nobody_recovers_from_what_was_not_told(builder: EvidenceBuilder) -> None:
    builder.notice("endpoint.recovered", failingSince=10.0, recoveredAt=60.0)
    assert found(builder) == MISTOLD


def test_who_was_accepted_meanwhile_does_not_fail(builder: EvidenceBuilder) -> None:
    recover(builder, 60)
    builder.notice("endpoint.failing", failingSince=59.0)
    builder.notice("endpoint.recovered", failingSince=59.0, recoveredAt=65.0)
    assert found(builder) == MISTOLD
    builder.fault("outage", 59.5, 63.5, stops_all=True)
    assert found(builder) == [], "what it accepted may not have been on record yet"
