"""The judge of chaos runs on failovers: what the database has is owed, what it lacks is lost and noted."""

import pytest

from lab.chaos.evidence import Life, Repeats
from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, calm, found

LOST_FROM, CRASHED, BACK = 5.0, 8.0, 9.0


@pytest.fixture
def builder() -> EvidenceBuilder:
    """A failover that has lost three seconds; a daemon lived through it, and was busy afterwards."""
    builder = calm()
    builder.fault("failover", CRASHED, BACK, ["d1.1"], exposed=1, stops_all=True, forgets_from=LOST_FROM)
    builder.sent("z", 30, 30.1, merchant="m9")
    return builder


@pytest.mark.parametrize(("first", "again"), [(3.9, 10.0), (10.0, 10.5)])
def test_what_is_sent_again_else_is_unexplained(builder: EvidenceBuilder, first: float, again: float) -> None:
    builder.fault("stop", 1, 1.1)
    builder.event("d", 0.9 if first < LOST_FROM else 4.9)
    builder.request("d", first - 2 if first < LOST_FROM else first)
    builder.attempt("d", again)
    assert (What.UNEXPLAINED, "d") in found(builder)


def test_what_the_database_has_is_owed_whatever_was_sent_before(builder: EvidenceBuilder) -> None:
    builder.event("d", 4.9)
    builder.request("d", 6)
    assert found(builder) == [(What.UNACCEPTED, "d")]
    builder.ends["d"] = ("pending", None)
    assert found(builder) == [(What.STUCK, "d")]
    del builder.ends["d"]
    assert found(builder) == [(What.LOST, "d")]


def test_two_attempts_of_one_number_may_both_be_on_record(builder: EvidenceBuilder) -> None:
    builder.fault("frozen", 3, 5, ["d1.1"], exposed=1)
    builder.event("d", 3.5)
    builder.record("d", 3.6, None, took=0.8, attempt=1)
    builder.request("d", 3.61, None, took=0.8)
    builder.record("d", 6, 200, took=0.1, attempt=1)
    builder.request("d", 6.05, 200, "d2.1")
    assert found(builder) == []


@pytest.mark.parametrize(("at", "is_right"), [((10.0, 10.2), True), ((10.2, 10.0), False)])
def test_what_is_resent_is_ordered(builder: EvidenceBuilder, at: tuple[float, float], is_right: bool) -> None:
    for number, name in enumerate("de"):
        builder.event(name, 4.8 + number / 10)
        builder.request(name, 6 + number / 10)
        builder.attempt(name, at[number])
    assert found(builder) == ([] if is_right else [(What.OUT_OF_ORDER, "e")])


def test_an_event_that_is_gone_is_nobodys_and_its_trace_is_counted(builder: EvidenceBuilder) -> None:
    builder.event("d", 5.5)
    builder.request("d", 6)
    builder.lose("d")
    builder.event("e", 5.6)
    builder.lose("e", is_traced=False)
    verdict = judge(builder.evidence())
    assert (verdict.violations, verdict.absent, verdict.traced) == ([], 1, 1)


@pytest.mark.parametrize(("at", "is_right"), [(6.0, True), (9.5, True), (12.0, False)])
def test_what_is_gone_may_have_been_for_an_endpoint_whose_removal_is_gone(
    builder: EvidenceBuilder, at: float, is_right: bool
) -> None:
    builder.lives = {"m1.2": [Life(removed_from=0, removed_by=0)]}  # once more, by numbers given again
    builder.event("d", 5.5)
    builder.request("d", 6)
    builder.request("d.2", at)
    builder.lose("d")
    assert found(builder) == ([] if is_right else [(What.UNKNOWN, "d")])


@pytest.mark.parametrize(
    ("daemon", "status", "is_owed"), [("d1.1", 200, True), ("d2.1", 200, False), ("d1.1", 500, False)]
)
def test_survivors_note_accepted(builder: EvidenceBuilder, daemon: str, status: int, is_owed: bool) -> None:
    builder.event("d", 5.5)
    builder.request("d", 6, status, daemon)
    builder.lose("d", is_traced=False)
    assert found(builder) == ([(What.UNTRACED, "d")] if is_owed else [])


@pytest.mark.parametrize(("daemon", "is_owed"), [("d1.1", False), ("d2.1", True)])
def test_who_heard_none_in_time_notes_nothing(builder: EvidenceBuilder, daemon: str, is_owed: bool) -> None:
    builder.event("d", 5.5)
    builder.request("d", 6)
    builder.lose("d", is_traced=False)
    builder.unheard.add((daemon, "d"))
    assert found(builder) == ([(What.UNTRACED, "d")] if is_owed else [])


@pytest.mark.parametrize(("at", "is_known"), [(2.0, False), (9.5, True), (12.0, False)])
def test_a_lost_event_is_sent_for_a_lease(builder: EvidenceBuilder, at: float, is_known: bool) -> None:
    builder.event("d", 1.5)
    builder.request("d", at)
    builder.lose("d")
    assert found(builder) == ([] if is_known else [(What.UNKNOWN, "d")])


def test_what_is_noted_as_lost_is_not_there(builder: EvidenceBuilder) -> None:
    builder.traced.add("a")
    assert found(builder) == [(What.MISTRACED, "a")]


@pytest.mark.parametrize(("at", "is_right"), [(6.0, True), (10.0, False)])
def test_who_asked_for_an_attempt_may_be_lost(builder: EvidenceBuilder, at: float, is_right: bool) -> None:
    builder.event("d", 1)
    builder.attempt("d", 1.1)
    builder.attempt("d", at, trigger="replay")
    assert found(builder) == ([] if is_right else [(What.UNASKED, "d")])


@pytest.mark.parametrize(("unlocked", "is_right"), [(5.5, True), (2.8, False)])
def test_what_was_locked_is_written_late_and_lost(
    builder: EvidenceBuilder, unlocked: float, is_right: bool
) -> None:
    builder.fault("head rows locked", 1.5, unlocked, repeats=Repeats.NONE)
    builder.event("d", 0.9)
    builder.request("d", 1.0)
    builder.attempt("d", 10)
    assert found(builder) == ([] if is_right else [(What.UNEXPLAINED, "d")])
