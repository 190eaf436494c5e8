"""The judge of chaos runs on time: what came late, and how long everybody waited after a fault."""

import pytest

from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import SCHEDULE, EvidenceBuilder, calm, found, kill


@pytest.fixture
def builder() -> EvidenceBuilder:
    return calm()


def test_an_event_that_waits_for_no_reason_is_late(builder: EvidenceBuilder) -> None:
    builder.event("d", 5, took=0)
    builder.attempt("d", 10.6)
    assert found(builder) == [(What.LATE, "d")]


@pytest.mark.parametrize(
    ("fault", "lag", "is_late"),
    [
        ({"stops_all": True}, 14, False),
        ({"stops_all": True}, 20, True),
        ({"merchants": ["m1"]}, 14, False),
        ({"merchants": ["m2"]}, 14, True),
        ({"daemons": ["d1.1"]}, 8, False),
        ({"daemons": ["d1.1"]}, 14, False),
        ({"daemons": ["d1.1"]}, 20, True),
        ({"daemons": ["d2.1"]}, 14, True),
        ({"daemons": ["d1.1"], "merchants": ["m2"]}, 14, True),
    ],
)
def test_a_fault_explains_as_long_as_it_held_the_event_up(
    builder: EvidenceBuilder, fault: dict[str, object], lag: float, is_late: bool
) -> None:
    builder.event("d", 20, took=0)
    builder.attempt("d", 20 + lag)
    builder.fault("outage", 21, 28, **fault)  # type: ignore[arg-type]
    assert found(builder) == ([(What.LATE, "d")] if is_late else [])


@pytest.mark.parametrize(("merchant", "is_late"), [("m1", False), ("m2", True)])
def test_what_a_fault_leaves_behind_explains_what_its_merchants_wait_for(
    builder: EvidenceBuilder, merchant: str, is_late: bool
) -> None:
    builder.fault("endpoints removed", 19, 21, merchants=[merchant], lingers=30)
    builder.event("d", 20, took=0)
    builder.attempt("d", 51)
    assert found(builder) == ([(What.LATE, "d")] if is_late else [])


def test_a_fault_explains_nothing_long_after_its_end(builder: EvidenceBuilder) -> None:
    builder.fault("outage", 1, 20, stops_all=True)
    builder.fault("pause", 2, 60, merchants=["m9"])  # so faults of a minute are to be reckoned with
    builder.event("d", 40, took=0)
    builder.attempt("d", 50)
    assert found(builder) == [(What.LATE, "d")]


def test_an_event_waits_for_those_of_its_merchant_before_it(builder: EvidenceBuilder) -> None:
    for number in range(10):
        name = f"slow{number}"
        builder.event(name, 5 + number / 100)
        builder.attempt(name, 5.2 + number * 0.8, status=None, took=0.75)
        builder.attempt(name, 20 + number * 0.8)
    assert found(builder) == []


def test_faults_that_pile_up_explain_no_more_time_than_there_is(builder: EvidenceBuilder) -> None:
    for number in range(25):  # 3.0 s of 4 each; as a sum they would be half an hour
        builder.fault("outage", 4.0 * number, 4.0 * number + 1, stops_all=True)
    builder.event("d", 5, took=0)
    builder.attempt("d", 20)
    assert found(builder) == []
    builder.event("e", 30, took=0)
    builder.attempt("e", 100)
    assert found(builder) == [(What.LATE, "e")]


def test_a_fault_explains_for_one_takeover_however_often_it_was_hit_before(builder: EvidenceBuilder) -> None:
    for _ in range(50):
        builder.fault("freeze", 6, 7, ["d1.1"])
    builder.event("d", 5, took=0)
    builder.attempt("d", 30)
    assert found(builder) == [(What.LATE, "d")]


def test_faults_of_its_daemons_thwart_only_so_many_takeovers_in_a_row(builder: EvidenceBuilder) -> None:
    for number in range(15):
        builder.fault("deadlocks", 3.0 * number, 3.0 * number + 2, ["d1.1", "d2.1"])
    builder.event("d", 5, took=0)
    builder.attempt("d", 26)
    assert found(builder) == []
    builder.event("e", 26, merchant="m3", took=0)
    builder.attempt("e", 49)
    assert found(builder) == [(What.LATE, "e")]


def test_a_merchant_that_is_served_on_and_on_has_a_queue(builder: EvidenceBuilder) -> None:
    for number in range(20):
        builder.event(f"q{number}", 5, took=0)
    for number in range(20):
        builder.attempt(f"q{number}", 6.0 + 4 * number)
    assert found(builder) == []


@pytest.mark.parametrize("is_served", [False, True])
def test_a_merchant_that_is_sent_what_was_recovered_is_served(
    builder: EvidenceBuilder, is_served: bool
) -> None:
    builder.command("skip", 7, before=6.0)
    builder.command("recover", 8, states=frozenset(["skipped"]))
    for place in range(8):
        builder.event(f"r{place}", 5 + 0.1 * place, merchant="m9")
        builder.attempt(f"r{place}", 9.1 + (4 * place if is_served else place), trigger="manual")
    builder.event("d", 9, merchant="m9")
    builder.attempt("d", 40)
    assert found(builder) == ([] if is_served else [(What.LATE, "d")])


def test_an_event_that_was_cancelled_and_sent_by_hand_much_later_is_not_late(
    builder: EvidenceBuilder,
) -> None:
    builder.event("d", 5)
    builder.cancelled.add("d")
    builder.by_hand["d"] = 1
    builder.attempt("d", 90, trigger="manual")
    assert found(builder) == []


def test_a_retry_comes_when_it_is_due(builder: EvidenceBuilder) -> None:
    builder.schedule = SCHEDULE
    builder.event("d", 5)
    builder.attempt("d", 5.05, status=500, took=0.02)
    builder.attempt("d", 5.3)
    assert found(builder) == []


def test_a_retry_that_comes_before_it_is_due(builder: EvidenceBuilder) -> None:
    builder.schedule = SCHEDULE
    builder.event("d", 5)
    builder.attempt("d", 5.05, status=500, took=0.02)
    builder.attempt("d", 5.3, status=500)
    builder.attempt("d", 5.5)
    assert found(builder) == [(What.EARLY, "d")]
    builder.fault("rows edited", 5.0, 5.1, merchants=["m1"])
    assert found(builder) == []  # an operator may have moved its due time
    builder.by_hand["d"] = 1
    assert found(builder) == []


def test_a_retry_that_nothing_holds_up_is_late(builder: EvidenceBuilder) -> None:
    builder.schedule = SCHEDULE
    builder.event("d", 5)
    builder.attempt("d", 5.05, status=500)
    builder.attempt("d", 12)
    assert found(builder) == [(What.LATE, "d")]
    builder.fault("outage", 6, 11, stops_all=True)
    assert found(builder) == []


def test_a_retry_waits_for_others_of_its_merchant(builder: EvidenceBuilder) -> None:
    builder.schedule = SCHEDULE
    for number in range(10):
        builder.event(f"q{number}", 5 + number)
        builder.attempt(f"q{number}", 5.05 + number, status=500)
    for number in range(10):
        builder.attempt(f"q{number}", 15.3 + 4 * (9 - number))
    builder.event("d", 9.5)
    builder.attempt("d", 9.7, status=500)
    builder.attempt("d", 55)
    assert (What.LATE, "d") not in found(builder)


# --- Figures


def test_recovery_is_the_time_until_everyone_who_was_owed_something_is_served(
    builder: EvidenceBuilder,
) -> None:
    builder.fault("outage", 20, 25, stops_all=True)
    for number in range(3):
        builder.event(f"n{number}", 24, merchant=f"n{number}")
        builder.attempt(f"n{number}", 25.5 + number)
    [figures] = judge(builder.evidence()).kinds
    assert figures.recovery_worst == pytest.approx(2.5, abs=0.01)


def test_what_was_interrupted_is_owed_until_it_is_sent_again(builder: EvidenceBuilder) -> None:
    kill(builder, "d", exposed=1)
    [figures] = judge(builder.evidence()).kinds
    assert figures.recovery_median == pytest.approx(2.8)


def test_a_merchant_that_an_operator_holds_back_has_no_part_in_recovery(builder: EvidenceBuilder) -> None:
    builder.fault("outage", 20, 25, stops_all=True)
    builder.fault("pause", 24, 40, merchants=["m9"])
    for merchant, served in (("m1", 26), ("m9", 40)):
        builder.event(merchant, 24, merchant)
        builder.attempt(merchant, served)
    outage = judge(builder.evidence()).kinds[0]
    assert outage.recovery_worst == pytest.approx(1.0, abs=0.01)


def test_recovery_that_another_outage_disturbed_is_not_counted(builder: EvidenceBuilder) -> None:
    builder.fault("outage", 20, 25, stops_all=True)
    builder.fault("other", 25.2, 26, stops_all=True)
    builder.event("d", 24)
    builder.attempt("d", 27)
    outage, other = sorted(judge(builder.evidence()).kinds, key=lambda kind: kind.kind == "other")
    assert outage.recoveries == []
    assert other.recovery_worst == pytest.approx(1.0, abs=0.01)


def test_the_history_tells_what_happened(builder: EvidenceBuilder) -> None:
    kill(builder, "d", exposed=0)
    [violation] = judge(builder.evidence()).violations
    text = "\n".join(violation.history)
    assert "committed" in text
    assert "+5.100 A request from d1.1: 200, ended +5.120" in text
    assert "fault 1, kill -9 on d1.1: +5.200 to +5.300" in text
    assert "on record: attempt 1 (schedule)" in text
    assert text.endswith("A ended: delivered after 1 attempts")
