"""The judge of chaos runs on failovers: what the database has is owed, what it lacks is lost and noted."""

from dataclasses import replace

import pytest

from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import SCHEDULE, EvidenceBuilder, calm, found

LOST_FROM, CRASHED, BACK = 5.0, 8.0, 9.0


@pytest.fixture
def builder() -> EvidenceBuilder:
    """A failover that has lost three seconds; a daemon lived through it, and was busy afterwards."""
    builder = calm()
    builder.fault("failover", CRASHED, BACK, ["d1.1"], exposed=1, stops_all=True, forgets_from=LOST_FROM)
    builder.event("z", 30, merchant="m9")
    builder.attempt("z", 30.1)
    return builder


def test_what_was_sent_and_is_on_record_no_more_is_sent_again(builder: EvidenceBuilder) -> None:
    builder.event("d", 4.9)
    builder.request("d", 6, status=500)
    builder.request("d", 6.5)
    builder.attempt("d", 10)
    assert found(builder) == []
    assert judge(builder.evidence()).forgotten == 2


@pytest.mark.parametrize(("first", "again"), [(3.9, 10.0), (10.0, 10.5)])
def test_what_is_sent_again_for_no_such_reason_is_unexplained(
    builder: EvidenceBuilder, first: float, again: float
) -> None:
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


@pytest.mark.parametrize(("at", "is_right"), [((10.0, 10.2), True), ((10.2, 10.0), False)])
def test_what_is_sent_again_comes_in_order(
    builder: EvidenceBuilder, at: tuple[float, float], is_right: bool
) -> None:
    for number, name in enumerate("de"):
        builder.event(name, 4.8 + number / 10)
        builder.request(name, 6 + number / 10)
        builder.attempt(name, at[number])
    assert found(builder) == ([] if is_right else [(What.OUT_OF_ORDER, "e")])


def test_an_outcome_that_a_daemon_wrote_afterwards_says_nothing_about_the_order(
    builder: EvidenceBuilder,
) -> None:
    builder.event("d", 4.8)
    builder.event("e", 4.9)
    builder.request("d", 6)
    builder.attempt_each("ed", 7.9, every=2.1)
    assert found(builder) == []


def test_a_late_outcome_counts_beside_the_attempts_that_are_due(builder: EvidenceBuilder) -> None:
    builder.event("d", 4.8)
    builder.attempt("d", 7.9, status=500)
    for number in range(8):
        builder.attempt("d", 10 + number, status=500)
    builder.rows["d"] = [replace(row, attempt=max(1, n)) for n, row in enumerate(builder.rows["d"])]
    builder.fail("d", "exhausted")
    assert found(builder) == []
    builder.request("d", 19, status=500)
    assert (What.TOO_MANY_ATTEMPTS, "d") in found(builder)


@pytest.mark.parametrize(("late_at", "is_early"), [(7.9, False), (10.0, True)])
def test_a_retry_follows_the_schedule_of_the_history_that_goes_on(
    builder: EvidenceBuilder, late_at: float, is_early: bool
) -> None:
    builder.schedule = SCHEDULE
    builder.event("d", 1.8)
    builder.attempt("d", 2, status=500)
    builder.record("d", late_at, 500, attempt=6)
    builder.request("d", late_at + 0.003, 500)
    builder.record("d", late_at + 1.2, attempt=2)
    builder.request("d", late_at + 1.203)
    assert ((What.EARLY, "d") in found(builder)) == is_early


def test_an_event_that_is_gone_is_nobodys_and_its_trace_is_counted(builder: EvidenceBuilder) -> None:
    builder.event("d", 5.5)
    builder.request("d", 6)
    builder.lose("d")
    builder.event("e", 5.6)
    builder.lose("e", is_traced=False)
    verdict = judge(builder.evidence())
    assert (verdict.violations, verdict.absent, verdict.traced) == ([], 1, 1)


@pytest.mark.parametrize(
    ("daemon", "status", "is_owed"), [("d1.1", 200, True), ("d2.1", 200, False), ("d1.1", 500, False)]
)
def test_who_lived_through_it_notes_what_was_accepted(
    builder: EvidenceBuilder, daemon: str, status: int, is_owed: bool
) -> None:
    builder.event("d", 5.5)
    builder.request("d", 6, status, daemon)
    builder.lose("d", is_traced=False)
    assert found(builder) == ([(What.UNTRACED, "d")] if is_owed else [])


@pytest.mark.parametrize(("daemon", "is_owed"), [("d1.1", False), ("d2.1", True)])
def test_who_says_that_no_answer_came_in_time_notes_nothing(
    builder: EvidenceBuilder, daemon: str, is_owed: bool
) -> None:
    builder.event("d", 5.5)
    builder.request("d", 6)
    builder.lose("d", is_traced=False)
    builder.unheard.add((daemon, "d"))
    assert found(builder) == ([(What.UNTRACED, "d")] if is_owed else [])


def test_what_was_noted_may_be_lost_by_the_next_failover(builder: EvidenceBuilder) -> None:
    builder.fault("failover", 16, 17, ["d1.1"], stops_all=True, forgets_from=12)
    builder.event("d", 5.5)
    builder.request("d", 6)
    builder.lose("d", is_traced=False)
    assert found(builder) == []


@pytest.mark.parametrize(("at", "is_known"), [(2.0, False), (9.5, True), (12.0, False)])
def test_an_event_that_is_gone_is_sent_for_no_longer_than_a_lease(
    builder: EvidenceBuilder, at: float, is_known: bool
) -> None:
    builder.event("d", 1.5)
    builder.request("d", at)
    builder.lose("d")
    assert found(builder) == ([] if is_known else [(What.UNKNOWN, "d")])


def test_what_is_noted_as_lost_is_not_there(builder: EvidenceBuilder) -> None:
    builder.traced.add("a")
    assert found(builder) == [(What.MISTRACED, "a")]


@pytest.mark.parametrize("is_gone", [False, True])
def test_what_was_sent_and_is_lost_was_right(builder: EvidenceBuilder, is_gone: bool) -> None:
    builder.event("d", 5.0 if is_gone else 4.8)
    builder.request("d", 6).body = b"{}"
    if is_gone:
        builder.lose("d")
    else:
        builder.attempt("d", 10)
    assert {what for what, _ in found(builder)} == {What.WRONG_BODY}


@pytest.mark.parametrize(("at", "is_excused"), [(6, True), (20, False)])
def test_a_notice_may_be_lost(builder: EvidenceBuilder, at: float, is_excused: bool) -> None:
    builder.told_after = 5.0
    builder.notice("endpoint.failing", at, failingSince=0.0)
    builder.notices.clear()
    assert {what for what, _ in found(builder)} == (set() if is_excused else {What.UNKNOWN, What.MISTOLD})
