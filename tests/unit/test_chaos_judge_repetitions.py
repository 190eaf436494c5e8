"""The judge of chaos runs on repetitions: each needs a fault that explains it."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lab.chaos.evidence import Repeats
from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, found, kill
from webhook_dispatcher.local.arrivals import Arrival


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


def test_an_attempt_sends_its_request_again_only_once(builder: EvidenceBuilder) -> None:
    builder.event("cut", 5)
    for number, arrival in enumerate(builder.arrivals[:2]):
        arrival.connection = 77 + number
    cut_on(builder, "cut", 5.05, 77)
    cut_on(builder, "cut", 5.07, 78)
    builder.attempt("cut", 5.1)
    assert found(builder) == [(What.UNEXPLAINED, "cut")]
    assert judge(builder.evidence()).resent == 1


def test_more_repetitions_than_were_exposed(builder: EvidenceBuilder) -> None:
    kill(builder, "d", "e", exposed=1)
    assert found(builder) == [(What.TOO_MANY_DUPLICATES, "e")]


def test_what_is_on_record_is_not_in_flight_any_more(builder: EvidenceBuilder) -> None:
    builder.sent("d", 5, 5.1)
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


@pytest.mark.parametrize(
    "change",
    [
        {"daemons": frozenset(["d3.1"])},
        {"began": 30.0, "ended": 30.1},
        {"began": 4.0, "ended": 4.8},  # over before the request
        {"began": 7.3, "ended": 7.4},  # begun after the outcome was written
        {"repeats": Repeats.NONE},  # nothing of what it does repeats a request
        {"merchants": frozenset(["m9"])},
    ],
)
def test_only_faults_of_those_at_that_time_explain(builder: EvidenceBuilder, change: dict[str, Any]) -> None:
    kill(builder, "d", exposed=1)
    builder.injections[0] = replace(builder.injections[0], **change)
    assert found(builder) == [(What.UNEXPLAINED, "d")]


def test_the_same_attempt_recorded_twice_is_one_repetition(builder: EvidenceBuilder) -> None:
    builder.sent("d", 5, 5.1)
    builder.attempt("d", 8.1, daemon="d2.1")
    assert found(builder) == []  # as two attempts of the schedule
    builder.rows["d"][1] = replace(builder.rows["d"][1], attempt=1)
    assert found(builder) == [(What.UNEXPLAINED, "d")]
    builder.fault("partition", 5.05, 7, ["d1.1"], exposed=1)
    assert found(builder) == []
    builder.attempt("d", 8.15, daemon="d2.1")  # the next one, closer than clocks are
    builder.rows["d"][2] = replace(builder.rows["d"][2], attempt=2)
    assert found(builder) == []


def test_a_recorded_attempt_that_was_never_sent_excuses_no_request(builder: EvidenceBuilder) -> None:
    builder.record("b", 3, status=None, outcome="dns")
    builder.request("b", 3.01)
    assert found(builder) == [(What.UNEXPLAINED, "b")]


def test_a_fleet_that_repeats_at_random_is_reported_among_any_number_of_faults() -> None:
    random = Random(1)
    builder = EvidenceBuilder()
    for number in range(300):
        name, at, daemon = f"e{number}", random.uniform(5, 100), f"d{random.randint(1, 3)}.1"
        builder.sent(name, at, at + 0.05, merchant=f"m{number}", daemon=daemon)
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
