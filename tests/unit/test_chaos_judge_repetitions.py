"""The judge of chaos runs on repetitions: each needs a fault that explains it."""

from dataclasses import replace
from random import Random

import pytest

from lab.chaos.evidence import Repeats
from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, calm, found, kill
from webhook_dispatcher.local.arrivals import Arrival


@pytest.fixture
def builder() -> EvidenceBuilder:
    return calm()


def test_a_repetition_without_a_fault(builder: EvidenceBuilder) -> None:
    builder.request("b", 3)
    assert found(builder) == [(What.UNEXPLAINED, "b")]


def test_what_was_in_flight_in_a_daemon_that_died_may_be_repeated(builder: EvidenceBuilder) -> None:
    kill(builder, "d", "e", exposed=2)
    assert found(builder) == []
    verdict = judge(builder.evidence())
    assert [(extra.event_id, extra.injection) for extra in verdict.extras] == [("d", 1), ("e", 1)]
    [figures] = verdict.kinds
    assert (figures.extras, figures.worst_extras, figures.exposed) == (2, 2, 2)
    assert verdict.bound == 2


def cut_on(builder: EvidenceBuilder, name: str, at: float, connection: int, daemon: str = "d1.1") -> Arrival:
    cut = builder.request(name, at, status=None, took=0.005, daemon=daemon)
    cut.was_cut, cut.connection = True, connection
    return cut


def test_a_request_cut_on_a_kept_connection_is_sent_again_at_once(builder: EvidenceBuilder) -> None:
    builder.event("cut", 5)
    cut = builder.request("cut", 5.05, status=None, took=0.005)
    builder.attempt("cut", 5.08)
    assert found(builder) == [(What.UNEXPLAINED, "cut")]
    builder.arrivals[0].connection = cut.connection = 77
    cut.was_cut = True
    assert found(builder) == []
    assert judge(builder.evidence()).resent == 1
    cut.headers = {"user-agent": "webhook-dispatcher/0.1.0+d3.1"}
    assert found(builder) == [(What.UNEXPLAINED, "cut")]


def test_a_request_cut_on_a_fresh_connection_is_not_sent_again(builder: EvidenceBuilder) -> None:
    builder.event("cut", 5)
    cut_on(builder, "cut", 5.05, 77)
    builder.attempt("cut", 5.08)
    assert found(builder) == [(What.UNEXPLAINED, "cut")]


def test_an_attempt_sends_its_request_again_only_once(builder: EvidenceBuilder) -> None:
    builder.event("cut", 5)
    for number, arrival in enumerate(builder.arrivals[:2]):
        arrival.connection = 77 + number
    cut_on(builder, "cut", 5.05, 77)
    cut_on(builder, "cut", 5.07, 78)
    builder.attempt("cut", 5.1)
    assert found(builder) == [(What.UNEXPLAINED, "cut")]
    assert judge(builder.evidence()).resent == 1


def test_a_slow_attempt_that_was_cut_is_known_by_its_record(builder: EvidenceBuilder) -> None:
    builder.event("cut", 5)
    builder.arrivals[0].connection = 77
    cut_on(builder, "cut", 5.05, 77)
    builder.request("cut", 5.8)
    builder.record("cut", 5.04, took=0.79)
    assert found(builder) == []


def test_what_was_cut_and_sent_again_may_be_unrecorded_too(builder: EvidenceBuilder) -> None:
    builder.event("cut", 5)
    builder.arrivals[0].connection = 77
    cut_on(builder, "cut", 5.05, 77)
    builder.request("cut", 5.08)
    builder.attempt("cut", 9, daemon="d2.1")
    builder.fault("kill -9", 5.2, 5.3, ["d1.1"], exposed=1)
    assert found(builder) == []


def test_more_repetitions_than_were_exposed(builder: EvidenceBuilder) -> None:
    kill(builder, "d", "e", exposed=1)
    assert found(builder) == [(What.TOO_MANY_DUPLICATES, "e")]


def test_two_faults_share_what_both_explain(builder: EvidenceBuilder) -> None:
    kill(builder, "d", "e", exposed=1)
    builder.fault("partition", 4.5, 5.5, ["d1.1"], exposed=1)
    assert found(builder) == []
    assert {extra.injection for extra in judge(builder.evidence()).extras} == {1, 2}


def test_a_repetition_makes_room_for_one_that_only_its_fault_explains(builder: EvidenceBuilder) -> None:
    for name, daemon in (("d", "d1.1"), ("e", "d3.1")):
        builder.event(name, 5, merchant=f"m-{name}")
        builder.request(name, 5.1, daemon=daemon)
        builder.attempt(name, 8, daemon="d2.1")
    builder.fault("kill -9 two", 5.2, 5.3, ["d1.1", "d3.1"], exposed=1)
    builder.fault("partition", 4.5, 5.5, ["d1.1"], exposed=1)
    assert found(builder) == []
    assert {extra.event_id: extra.injection for extra in judge(builder.evidence()).extras} == {"d": 2, "e": 1}


def test_what_is_on_record_is_not_in_flight_any_more(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.attempt("d", 5.1)
    builder.fault("kill -9", 5.2, 5.3, ["d1.1"], exposed=1)
    builder.request("d", 30, daemon="d2.1")
    assert found(builder) == [(What.UNEXPLAINED, "d")]


def test_a_thawed_daemon_repeats_what_its_successor_has_sent(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.fault("freeze", 5.05, 9.5, ["d1.1"], exposed=1)
    builder.attempt("d", 8, daemon="d2.1")
    builder.request("d", 9.3, daemon="d1.1")
    assert found(builder) == []
    for began, ended in ((5.05, 9.0), (8.5, 9.2)):  # over before, and begun only after the successor's
        builder.injections[0] = replace(builder.injections[0], began=began, ended=ended)
        assert found(builder) == [(What.UNEXPLAINED, "d")]


@pytest.mark.parametrize(("off", "status"), [(0.5, None), (-0.5, None), (4.0, 500)])
def test_a_clock_that_is_off_makes_no_repetition(
    builder: EvidenceBuilder, off: float, status: int | None
) -> None:
    builder.event("d", 5)
    builder.record("d", 5.1 + off, status)
    builder.request("d", 5.1, status)
    builder.attempt("d", 15)
    assert found(builder) == []


def test_records_are_matched_so_that_most_requests_are_on_record(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.record("d", 5.09, status=None, took=5)
    builder.record("d", 5.1, status=None, took=0.1)
    builder.request("d", 5.12, status=None)
    builder.request("d", 9.5, status=None)
    builder.attempt("d", 15)
    assert found(builder) == []


@pytest.mark.parametrize(
    ("daemon", "began", "repeats"),
    [
        ("d3.1", 5.2, Repeats.EXPOSED),  # another daemon
        ("d1.1", 30.0, Repeats.EXPOSED),  # another time
        ("d1.1", 5.2, Repeats.NONE),  # nothing of what it does repeats a request
    ],
)
def test_only_a_fault_of_that_daemon_at_that_time_explains(
    builder: EvidenceBuilder, daemon: str, began: float, repeats: Repeats
) -> None:
    kill(builder, "d", exposed=1)
    fault = replace(
        builder.injections[0], daemons=frozenset([daemon]), began=began, ended=began + 0.1, repeats=repeats
    )
    builder.injections[0] = fault
    assert found(builder) == [(What.UNEXPLAINED, "d")]


def test_the_same_attempt_recorded_twice_is_one_repetition(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.attempt("d", 5.1)
    builder.attempt("d", 8.1, daemon="d2.1")
    assert found(builder) == []  # as two attempts of the schedule
    builder.rows["d"][1] = replace(builder.rows["d"][1], attempt=1)
    assert found(builder) == [(What.UNEXPLAINED, "d")]
    builder.fault("partition", 5.05, 10, ["d1.1"], exposed=1)
    assert found(builder) == []


def test_a_recorded_attempt_that_was_never_sent_excuses_no_request(builder: EvidenceBuilder) -> None:
    builder.record("b", 3, status=None, outcome="dns")
    builder.request("b", 3.01)
    assert found(builder) == [(What.UNEXPLAINED, "b")]


@pytest.mark.parametrize(("ended", "is_explained"), [(4.8, False), (5.2, True)])
def test_a_fault_that_was_over_before_the_request_explains_nothing(
    builder: EvidenceBuilder, ended: float, is_explained: bool
) -> None:
    kill(builder, "d", exposed=1)
    builder.injections[0] = replace(builder.injections[0], began=4.0, ended=ended)
    assert found(builder) == ([] if is_explained else [(What.UNEXPLAINED, "d")])


def test_a_fault_after_the_outcome_was_written_explains_nothing(builder: EvidenceBuilder) -> None:
    kill(builder, "d", exposed=1)
    builder.injections[0] = replace(builder.injections[0], began=7.3, ended=7.4)
    assert found(builder) == [(What.UNEXPLAINED, "d")]


@pytest.mark.parametrize(("pause", "is_explained"), [(1.0, True), (2.0, False)])
def test_faults_that_follow_each_other_keep_an_outcome_waiting(
    builder: EvidenceBuilder, pause: float, is_explained: bool
) -> None:
    builder.event("d", 5, took=0)
    builder.request("d", 5.1)
    builder.attempt("d", 16, daemon="d2.1")
    builder.fault("rows locked", 5.0, 8.0, ["d1.1"], repeats=Repeats.NONE)
    builder.fault("outage", 8 + pause, 13, ["d1.1"], exposed=1, stops_all=True)
    assert found(builder) == ([] if is_explained else [(What.UNEXPLAINED, "d")])


def test_a_fault_that_touched_other_merchants_explains_nothing(builder: EvidenceBuilder) -> None:
    kill(builder, "d", exposed=1)
    builder.injections[0] = replace(builder.injections[0], merchants=frozenset(["m9"]))
    assert found(builder) == [(What.UNEXPLAINED, "d")]


def test_a_stop_asked_for_costs_nothing_unless_recording_is_disturbed(builder: EvidenceBuilder) -> None:
    kill(builder, "d", exposed=1)
    builder.injections[0] = replace(builder.injections[0], kind="SIGTERM")
    assert found(builder) == [(What.UNEXPLAINED, "d")]
    builder.fault("outage", 5.0, 6, stops_all=True, repeats=Repeats.NONE)
    assert found(builder) == []


def test_a_stop_asked_for_twice_cuts_what_is_in_flight(builder: EvidenceBuilder) -> None:
    kill(builder, "d", exposed=1)
    builder.injections[0] = replace(builder.injections[0], kind="SIGTERM twice")
    assert found(builder) == []


def test_a_fleet_that_repeats_at_random_is_reported_among_any_number_of_faults() -> None:
    random = Random(1)
    builder = EvidenceBuilder()
    for number in range(300):
        name, at, daemon = f"e{number}", random.uniform(5, 100), f"d{random.randint(1, 3)}.1"
        builder.event(name, at, merchant=f"m{number}")
        builder.attempt(name, at + 0.05, daemon=daemon)
    daemons = ["d1.1", "d2.1", "d3.1"]
    for most in (1, 3):
        at = 0.0
        while at < 110:
            lasts = random.uniform(1, 3)
            hit = random.sample(daemons, most)
            builder.fault("fault", at, at + lasts, hit, exposed=10 * most)
            at += lasts + random.uniform(0.1, 6)
    assert found(builder) == []
    for arrival in random.sample(builder.arrivals, 60):
        builder.request(arrival.event_id, arrival.started_at + 1, daemon=f"d{random.randint(1, 3)}.1")
    verdict = judge(builder.evidence())
    assert verdict.counts[What.UNEXPLAINED] >= 3
    assert verdict.repeated_share == pytest.approx(60 / 360)
