"""The judge of chaos runs on repetitions: each needs a fault that explains it."""

from dataclasses import replace
from random import Random

import pytest

from tests.chaos.evidence import Repeats
from tests.chaos.judge import judge
from tests.chaos.verdict import What
from tests.unit.chaos_story import Story, calm, found, kill
from webhook_dispatcher.local.arrivals import Arrival


@pytest.fixture
def story() -> Story:
    return calm()


def test_a_repetition_without_a_fault(story: Story) -> None:
    story.request("b", 3)
    assert found(story) == [(What.UNEXPLAINED, "b")]


def test_what_was_in_flight_in_a_daemon_that_died_may_be_repeated(story: Story) -> None:
    kill(story, "d", "e", exposed=2)
    assert found(story) == []
    verdict = judge(story.evidence())
    assert [(extra.event_id, extra.injection) for extra in verdict.extras] == [("d", 1), ("e", 1)]
    [figures] = verdict.kinds
    assert (figures.extras, figures.worst_extras, figures.exposed) == (2, 2, 2)
    assert verdict.bound == 2


def cut_on(story: Story, name: str, at: float, connection: int, daemon: str = "d1.1") -> Arrival:
    cut = story.request(name, at, status=None, took=0.005, daemon=daemon)
    cut.was_cut, cut.connection = True, connection
    return cut


def test_a_request_cut_on_a_kept_connection_is_sent_again_at_once(story: Story) -> None:
    story.event("cut", 5)
    cut = story.request("cut", 5.05, status=None, took=0.005)
    story.attempt("cut", 5.08)
    assert found(story) == [(What.UNEXPLAINED, "cut")]
    story.arrivals[0].connection = cut.connection = 77
    cut.was_cut = True
    assert found(story) == []
    assert judge(story.evidence()).resent == 1
    cut.headers = {"user-agent": "webhook-dispatcher/0.1.0+d3.1"}
    assert found(story) == [(What.UNEXPLAINED, "cut")]


def test_a_request_cut_on_a_fresh_connection_is_not_sent_again(story: Story) -> None:
    story.event("cut", 5)
    cut_on(story, "cut", 5.05, 77)
    story.attempt("cut", 5.08)
    assert found(story) == [(What.UNEXPLAINED, "cut")]


def test_an_attempt_sends_its_request_again_only_once(story: Story) -> None:
    story.event("cut", 5)
    for number, arrival in enumerate(story.arrivals[:2]):
        arrival.connection = 77 + number
    cut_on(story, "cut", 5.05, 77)
    cut_on(story, "cut", 5.07, 78)
    story.attempt("cut", 5.1)
    assert found(story) == [(What.UNEXPLAINED, "cut")]
    assert judge(story.evidence()).resent == 1


def test_a_slow_attempt_that_was_cut_is_known_by_its_record(story: Story) -> None:
    story.event("cut", 5)
    story.arrivals[0].connection = 77
    cut_on(story, "cut", 5.05, 77)
    story.request("cut", 5.8)
    story.record("cut", 5.04, took=0.79)
    assert found(story) == []


def test_what_was_cut_and_sent_again_may_be_unrecorded_too(story: Story) -> None:
    story.event("cut", 5)
    story.arrivals[0].connection = 77
    cut_on(story, "cut", 5.05, 77)
    story.request("cut", 5.08)
    story.attempt("cut", 9, daemon="d2.1")
    story.fault("kill -9", 5.2, 5.3, ["d1.1"], exposed=1)
    assert found(story) == []


def test_more_repetitions_than_were_exposed(story: Story) -> None:
    kill(story, "d", "e", exposed=1)
    assert found(story) == [(What.TOO_MANY_DUPLICATES, "e")]


def test_two_faults_share_what_both_explain(story: Story) -> None:
    kill(story, "d", "e", exposed=1)
    story.fault("partition", 4.5, 5.5, ["d1.1"], exposed=1)
    assert found(story) == []
    assert {extra.injection for extra in judge(story.evidence()).extras} == {1, 2}


def test_a_repetition_makes_room_for_one_that_only_its_fault_explains(story: Story) -> None:
    for name, daemon in (("d", "d1.1"), ("e", "d3.1")):
        story.event(name, 5, merchant=f"m-{name}")
        story.request(name, 5.1, daemon=daemon)
        story.attempt(name, 8, daemon="d2.1")
    story.fault("kill -9 two", 5.2, 5.3, ["d1.1", "d3.1"], exposed=1)
    story.fault("partition", 4.5, 5.5, ["d1.1"], exposed=1)
    assert found(story) == []
    assert {extra.event_id: extra.injection for extra in judge(story.evidence()).extras} == {"d": 2, "e": 1}


def test_what_is_on_record_is_not_in_flight_any_more(story: Story) -> None:
    story.event("d", 5)
    story.attempt("d", 5.1)
    story.fault("kill -9", 5.2, 5.3, ["d1.1"], exposed=1)
    story.request("d", 30, daemon="d2.1")
    assert found(story) == [(What.UNEXPLAINED, "d")]


def test_a_thawed_daemon_repeats_what_its_successor_has_sent(story: Story) -> None:
    story.event("d", 5)
    story.fault("freeze", 5.05, 9.5, ["d1.1"], exposed=1)
    story.attempt("d", 8, daemon="d2.1")
    story.request("d", 9.3, daemon="d1.1")
    assert found(story) == []
    for began, ended in ((5.05, 9.0), (8.5, 9.2)):  # over before, and begun only after the successor's
        story.injections[0] = replace(story.injections[0], began=began, ended=ended)
        assert found(story) == [(What.UNEXPLAINED, "d")]


@pytest.mark.parametrize(("off", "status"), [(0.5, None), (-0.5, None), (4.0, 500)])
def test_a_clock_that_is_off_makes_no_repetition(story: Story, off: float, status: int | None) -> None:
    story.event("d", 5)
    story.record("d", 5.1 + off, status)
    story.request("d", 5.1, status)
    story.attempt("d", 15)
    assert found(story) == []


def test_records_are_matched_so_that_most_requests_are_on_record(story: Story) -> None:
    story.event("d", 5)
    story.record("d", 5.09, status=None, took=5)
    story.record("d", 5.1, status=None, took=0.1)
    story.request("d", 5.12, status=None)
    story.request("d", 9.5, status=None)
    story.attempt("d", 15)
    assert found(story) == []


@pytest.mark.parametrize(
    ("daemon", "began", "repeats"),
    [
        ("d3.1", 5.2, Repeats.EXPOSED),  # another daemon
        ("d1.1", 30.0, Repeats.EXPOSED),  # another time
        ("d1.1", 5.2, Repeats.NONE),  # nothing of what it does repeats a request
    ],
)
def test_only_a_fault_of_that_daemon_at_that_time_explains(
    story: Story, daemon: str, began: float, repeats: Repeats
) -> None:
    kill(story, "d", exposed=1)
    fault = replace(
        story.injections[0], daemons=frozenset([daemon]), began=began, ended=began + 0.1, repeats=repeats
    )
    story.injections[0] = fault
    assert found(story) == [(What.UNEXPLAINED, "d")]


def test_the_same_attempt_recorded_twice_is_one_repetition(story: Story) -> None:
    story.event("d", 5)
    story.attempt("d", 5.1)
    story.attempt("d", 8.1, daemon="d2.1")
    assert found(story) == []  # as two attempts of the schedule
    story.rows["d"][1] = replace(story.rows["d"][1], attempt=1)
    assert found(story) == [(What.UNEXPLAINED, "d")]
    story.fault("partition", 5.05, 10, ["d1.1"], exposed=1)
    assert found(story) == []


def test_a_recorded_attempt_that_was_never_sent_excuses_no_request(story: Story) -> None:
    story.record("b", 3, status=None, outcome="dns")
    story.request("b", 3.01)
    assert found(story) == [(What.UNEXPLAINED, "b")]


@pytest.mark.parametrize(("ended", "is_explained"), [(4.8, False), (5.2, True)])
def test_a_fault_that_was_over_before_the_request_explains_nothing(
    story: Story, ended: float, is_explained: bool
) -> None:
    kill(story, "d", exposed=1)
    story.injections[0] = replace(story.injections[0], began=4.0, ended=ended)
    assert found(story) == ([] if is_explained else [(What.UNEXPLAINED, "d")])


def test_a_fault_after_the_outcome_was_written_explains_nothing(story: Story) -> None:
    kill(story, "d", exposed=1)
    story.injections[0] = replace(story.injections[0], began=7.3, ended=7.4)
    assert found(story) == [(What.UNEXPLAINED, "d")]


@pytest.mark.parametrize(("pause", "is_explained"), [(1.0, True), (2.0, False)])
def test_faults_that_follow_each_other_keep_an_outcome_waiting(
    story: Story, pause: float, is_explained: bool
) -> None:
    story.event("d", 5, took=0)
    story.request("d", 5.1)
    story.attempt("d", 16, daemon="d2.1")
    story.fault("rows locked", 5.0, 8.0, ["d1.1"], repeats=Repeats.NONE)
    story.fault("outage", 8 + pause, 13, ["d1.1"], exposed=1, stops_all=True)
    assert found(story) == ([] if is_explained else [(What.UNEXPLAINED, "d")])


def test_a_fault_that_touched_other_merchants_explains_nothing(story: Story) -> None:
    kill(story, "d", exposed=1)
    story.injections[0] = replace(story.injections[0], merchants=frozenset(["m9"]))
    assert found(story) == [(What.UNEXPLAINED, "d")]


def test_a_stop_asked_for_costs_nothing_unless_recording_is_disturbed(story: Story) -> None:
    kill(story, "d", exposed=1)
    story.injections[0] = replace(story.injections[0], kind="SIGTERM")
    assert found(story) == [(What.UNEXPLAINED, "d")]
    story.fault("outage", 5.0, 6, stops_all=True, repeats=Repeats.NONE)
    assert found(story) == []


def test_a_stop_asked_for_twice_cuts_what_is_in_flight(story: Story) -> None:
    kill(story, "d", exposed=1)
    story.injections[0] = replace(story.injections[0], kind="SIGTERM twice")
    assert found(story) == []


def test_a_fleet_that_repeats_at_random_is_reported_among_any_number_of_faults() -> None:
    random = Random(1)
    story = Story()
    for number in range(300):
        name, at, daemon = f"e{number}", random.uniform(5, 100), f"d{random.randint(1, 3)}.1"
        story.event(name, at, merchant=f"m{number}")
        story.attempt(name, at + 0.05, daemon=daemon)
    daemons = ["d1.1", "d2.1", "d3.1"]
    for most in (1, 3):
        at = 0.0
        while at < 110:
            lasts = random.uniform(1, 3)
            hit = random.sample(daemons, most)
            story.fault("fault", at, at + lasts, hit, exposed=10 * most)
            at += lasts + random.uniform(0.1, 6)
    assert found(story) == []
    for arrival in random.sample(story.arrivals, 60):
        story.request(arrival.event_id, arrival.started_at + 1, daemon=f"d{random.randint(1, 3)}.1")
    verdict = judge(story.evidence())
    assert verdict.counts[What.UNEXPLAINED] >= 3
    assert verdict.repeated_share == pytest.approx(60 / 360)
