"""The judge of chaos runs on suspended merchants: tried once an interval, and lifted in time."""

import pytest

from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import SCHEDULE, EvidenceBuilder, calm, found


@pytest.fixture
def builder() -> EvidenceBuilder:
    """A merchant that was suspended from 20 s on, and tried every six seconds."""
    builder = calm()
    builder.suspended("m1", 20, 42.2)
    for number in range(4):
        failed(builder, f"t{number}", 26.0 + 6 * number)
    return builder


def failed(builder: EvidenceBuilder, name: str, at: float) -> None:
    builder.event(name, 18.9 + at / 1000, took=0)
    builder.attempt(name, at, status=503)
    builder.cancelled.add(name)
    builder.fail(name, "cancelled")


def test_tries_once_an_interval_are_right(builder: EvidenceBuilder) -> None:
    assert found(builder) == []
    verdict = judge(builder.evidence())
    assert (verdict.suspensions, verdict.tries) == (1, 3)


def test_two_tries_in_an_interval_are_too_many(builder: EvidenceBuilder) -> None:
    failed(builder, "u", 33)
    assert found(builder) == [(What.OVERTRIED, "u")]


@pytest.mark.parametrize(
    ("fault", "is_explained"),
    [
        ({"daemons": ["d1.1"]}, True),
        ({"daemons": ["d2.1"]}, False),
        ({"daemons": ["d1.1"], "merchants": ["m2"]}, False),
        ({"merchants": ["m1"]}, True),
        ({"stops_all": True}, True),
    ],
)
def test_a_try_that_a_fault_kept_off_the_record_is_made_again(
    builder: EvidenceBuilder, fault: dict[str, object], is_explained: bool
) -> None:
    failed(builder, "u", 33)
    builder.fault("kill -9", 32.1, 32.2, **fault)  # type: ignore[arg-type]
    assert found(builder) == ([] if is_explained else [(What.OVERTRIED, "u")])


def test_what_was_under_way_may_come_yet(builder: EvidenceBuilder) -> None:
    for number in range(5):
        failed(builder, f"u{number}", 20.1 + number / 2)
    assert found(builder) == []


def test_whatever_a_suspended_merchant_is_owed_waits(builder: EvidenceBuilder) -> None:
    builder.suspensions.clear()
    assert (What.LATE, "t0") in found(builder)


def test_after_its_suspension_a_merchant_is_served_as_any(builder: EvidenceBuilder) -> None:
    for number in range(3):
        builder.event(f"w{number}", 30, took=0)
        builder.attempt(f"w{number}", 44.2 + number)
    assert found(builder) == []
    builder.event("z", 30, took=0)
    builder.attempt("z", 56)
    assert found(builder) == [(What.LATE, "z")]


def test_retries_of_a_suspended_merchant_have_no_time(builder: EvidenceBuilder) -> None:
    builder.schedule = SCHEDULE
    builder.event("w", 18)
    builder.attempt("w", 18.1, status=503)
    builder.attempt("w", 43)
    assert found(builder) == []


def test_a_suspension_that_nobody_lifts(builder: EvidenceBuilder) -> None:
    builder.suspensions.clear()
    builder.suspended("m1", 20, 110, is_over=False)
    assert found(builder) == []
    builder.event("w", 19)
    builder.attempt("w", 50)
    assert found(builder) == [(What.UNLIFTED, "w")]
    builder.fault("outage", 51, 100, stops_all=True)
    assert found(builder) == []


def test_a_suspension_soon_after_a_success(builder: EvidenceBuilder) -> None:
    builder.event("w", 11)
    builder.attempt("w", 11.1)
    assert found(builder) == [(What.UNDESERVED, "w")]
    builder.fault("frozen", 11.12, 19, ["d1.1"])
    assert found(builder) == []


def test_what_suspended_merchants_wait_for_is_no_ones_recovery(builder: EvidenceBuilder) -> None:
    builder.fault("outage", 22, 23, stops_all=True)
    [outage] = judge(builder.evidence()).kinds
    assert outage.recovery_worst == 0
