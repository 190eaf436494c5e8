"""The judge of chaos runs on time: what came late, and how long everybody waited after a fault."""

import pytest

from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import SCHEDULE, EvidenceBuilder, found, kill


def test_an_event_that_waits_for_no_reason_is_late(builder: EvidenceBuilder) -> None:
    builder.sent("d", 5, 10.6, committing=0)
    assert found(builder) == [(What.LATE, "d")]


@pytest.mark.parametrize(
    ("fault", "lag", "is_late"),
    [
        *(({"stops_all": True}, 14, False), ({"stops_all": True}, 20, True)),
        *(({"merchants": ["m1"]}, 14, False), ({"merchants": ["m2"]}, 14, True)),
        *(({"daemons": ["d1.1"]}, 8, False), ({"daemons": ["d1.1"]}, 14, False)),
        *(({"daemons": ["d1.1"]}, 20, True), ({"daemons": ["d2.1"]}, 14, True)),
        ({"daemons": ["d1.1"], "merchants": ["m2"]}, 14, True),
    ],
)
def test_a_fault_explains_as_long_as_it_held_the_event_up(
    builder: EvidenceBuilder, fault: dict[str, object], lag: float, is_late: bool
) -> None:
    builder.sent("d", 20, 20 + lag, committing=0)
    builder.fault("outage", 21, 28, **fault)  # type: ignore[arg-type]
    assert found(builder) == ([(What.LATE, "d")] if is_late else [])


@pytest.mark.parametrize(("hit", "is_late"), [(["d2.1", "d3.4"], True), (["d1.0", "d2.1", "d3.4"], False)])
def test_a_fault_that_hit_all_daemons_hit_who_held_the_event(
    builder: EvidenceBuilder, hit: list[str], is_late: bool
) -> None:
    builder.sent("d", 20, 34, committing=0)
    for merchant, daemon in (("m8", "d2.1"), ("m9", "d3.4")):
        builder.sent(merchant, 1, 1.1, merchant, daemon=daemon)
    builder.fault("statements cancelled", 21, 28, hit)
    assert found(builder) == ([(What.LATE, "d")] if is_late else [])


@pytest.mark.parametrize(("merchant", "is_late"), [("m1", False), ("m2", True)])
def test_what_a_fault_leaves_explains_waiting(builder: EvidenceBuilder, merchant: str, is_late: bool) -> None:
    builder.fault("endpoints removed", 19, 21, merchants=[merchant], lingers=30)
    builder.sent("d", 20, 51, committing=0)
    assert found(builder) == ([(What.LATE, "d")] if is_late else [])


def test_faults_that_pile_up_explain_no_more_time_than_there_is(builder: EvidenceBuilder) -> None:
    for number in range(25):  # 3.0 s of 4 each; as a sum they would be half an hour
        builder.fault("outage", 4.0 * number, 4.0 * number + 1, stops_all=True)
    builder.sent("d", 5, 20, committing=0)
    assert found(builder) == []
    builder.sent("e", 30, 100, committing=0)
    assert found(builder) == [(What.LATE, "e")]


def test_a_retry_that_comes_before_it_is_due(builder: EvidenceBuilder) -> None:
    builder.schedule = SCHEDULE
    builder.sent("d", 5, 5.05, status=500, took=0.02)
    builder.attempt("d", 5.3, status=500)
    builder.attempt("d", 5.5)
    assert found(builder) == [(What.EARLY, "d")]
    builder.fault("rows edited", 5.0, 5.1, merchants=["m1"])
    assert found(builder) == []  # an operator may have moved its due time
    builder.by_hand["d"] = 1
    assert found(builder) == []


def test_a_retry_that_nothing_holds_up_is_late(builder: EvidenceBuilder) -> None:
    builder.schedule = SCHEDULE
    builder.sent("d", 5, 5.05, status=500)
    builder.attempt("d", 12)
    assert found(builder) == [(What.LATE, "d")]
    builder.fault("outage", 6, 11, stops_all=True)
    assert found(builder) == []


# --- Figures


def test_recovery_is_the_time_until_everyone_who_was_owed_is_served(builder: EvidenceBuilder) -> None:
    builder.fault("outage", 20, 25, stops_all=True)
    for number in range(3):
        builder.sent(f"n{number}", 24, 25.5 + number, merchant=f"n{number}")
    [figures] = judge(builder.evidence()).kinds
    assert figures.recovery_worst == pytest.approx(2.5, abs=0.01)


def test_the_history_tells_what_happened(builder: EvidenceBuilder) -> None:
    kill(builder, "d", exposed=0)
    [violation] = judge(builder.evidence()).violations
    text = "\n".join(violation.history)
    assert "committed" in text
    assert "+5.100 A request from d1.1 to m-d: 200, ended +5.120" in text
    assert "fault 1, kill -9 on d1.1: +5.200 to +5.300" in text
    assert "on record: attempt 1 (schedule)" in text
    assert text.endswith("A ended: delivered after 1 attempts")
