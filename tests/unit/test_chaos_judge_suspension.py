"""The judge of chaos runs on suspended merchants: tried once an interval, and lifted in time."""

import pytest

from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, calm, found


@pytest.fixture
def builder() -> EvidenceBuilder:
    """A merchant that was suspended from 20 s on, and tried every six seconds."""
    builder = calm()
    builder.suspended("m1", 20, 42.2)
    for number in range(4):
        failed(builder, f"t{number}", 26.0 + 6 * number)
    return builder


def failed(builder: EvidenceBuilder, name: str, at: float) -> None:
    builder.sent(name, 18.9 + at / 1000, at, committing=0, status=503)
    builder.cancelled.add(name)
    builder.fail(name, "cancelled")


def test_tries_once_an_interval_are_right(builder: EvidenceBuilder) -> None:
    assert found(builder) == []
    verdict = judge(builder.evidence())
    assert (verdict.suspensions, verdict.tries) == (1, 3)


def test_two_tries_in_an_interval_are_too_many(builder: EvidenceBuilder) -> None:
    failed(builder, "u", 33)
    assert found(builder) == [(What.OVERTRIED, "u")]
    builder.fault("failover", 34, 35, ["d1.1"], stops_all=True, forgets_from=31)
    assert found(builder) == []


def test_a_suspension_that_nobody_lifts(builder: EvidenceBuilder) -> None:
    builder.suspensions.clear()
    builder.suspended("m1", 20, 110, is_over=False)
    assert found(builder) == []
    builder.sent("w", 19, 50)
    assert found(builder) == [(What.UNLIFTED, "w")]
    builder.fault("outage", 51, 100, stops_all=True)
    assert found(builder) == []


def test_a_suspension_soon_after_a_success(builder: EvidenceBuilder) -> None:
    builder.sent("w", 11, 11.1)
    assert found(builder) == [(What.UNDESERVED, "w")]
    builder.fault("frozen", 11.12, 19, ["d1.1"])
    assert found(builder) == []
