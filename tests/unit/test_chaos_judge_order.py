"""The judge of chaos runs on order: what came too early, and what overlapped."""

from dataclasses import replace

import pytest

from lab.chaos.verdict import What
from tests.unit.chaos_evidence import SCHEDULE, EvidenceBuilder, calm, found


@pytest.fixture
def builder() -> EvidenceBuilder:
    return calm()


def test_an_event_that_came_before_one_committed_earlier_is_out_of_order(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.attempt_each("ed", 5.2)
    assert found(builder) == [(What.OUT_OF_ORDER, "e")]


def test_transactions_that_overlap_have_no_order(builder: EvidenceBuilder) -> None:
    builder.event("d", 5, took=0.2)
    builder.event("e", 5.1)
    builder.attempt_each("ed", 5.3)
    builder.event("f", 6, unsure=True)
    builder.event("g", 6.5)
    builder.attempt_each("gf", 6.6)
    assert found(builder) == []


def test_events_of_one_transaction_keep_their_order(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5)
    builder.attempt_each("ed", 5.2)
    assert found(builder) == [(What.OUT_OF_ORDER, "e")]


def test_merchants_have_no_order_between_them(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1, merchant="m2")
    builder.attempt_each("ed", 5.2)
    assert found(builder) == []


def test_an_event_whose_first_attempt_reached_nobody_has_had_its_turn(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.record("d", 5.1, status=None, outcome="connect")
    builder.attempt("e", 5.2)
    builder.attempt("d", 5.5)
    assert found(builder) == []


@pytest.mark.parametrize(("given_up_at", "is_right"), [(5.19, True), (5.6, False)])
def test_its_daemons_log_is_believed_where_the_record_of_that_attempt_went_with_it(
    builder: EvidenceBuilder, given_up_at: float, is_right: bool
) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.request("e", 5.2)
    builder.fault("kill", 5.3, 6, ["d1.1"], exposed=1)
    builder.attempt("d", 5.5, daemon="d2.1")
    builder.attempt("e", 5.7, daemon="d2.1")
    builder.given_up["d"] = given_up_at
    assert found(builder) == ([] if is_right else [(What.OUT_OF_ORDER, "e")])


def test_test_events_and_what_is_first_sent_by_hand_have_no_order(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("t", 5.1, type="webhook.test")
    builder.event("e", 5.2)
    builder.cancelled.add("e")
    builder.by_hand.update("te")
    builder.attempt("t", 5.3)
    builder.attempt("e", 5.4, trigger="manual")
    builder.attempt("d", 5.5)
    assert found(builder) == []


def test_a_first_request_before_the_end_of_the_one_before_overlaps(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.attempt("d", 5.2, took=0.3)
    builder.attempt("e", 5.4)
    assert found(builder) == [(What.OVERLAP, "e")]


@pytest.mark.parametrize(("begin", "is_right"), [(5.85, False), (5.95, True)])
def test_a_request_without_an_answer_ends_when_its_sender_gives_it_up(
    builder: EvidenceBuilder, begin: float, is_right: bool
) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.attempt("d", 5.2, status=None, took=0.8)
    builder.attempt("d", 7.0)
    builder.attempt("e", begin)
    assert found(builder) == ([] if is_right else [(What.OVERLAP, "e")])


def test_a_daemon_that_was_hit_leaves_a_request_open(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.request("d", 5.2, status=None, took=30)
    builder.fault("freeze", 5.3, 15, ["d1.1"], exposed=1)
    builder.attempt("d", 8, daemon="d2.1")
    builder.attempt("e", 8.1, daemon="d2.1")
    assert found(builder) == []


def test_a_request_that_was_left_open_and_cancelled_holds_nobody_back(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.request("d", 5.2, status=None, took=30)
    builder.fail("d", "cancelled")
    builder.cancelled.add("d")
    builder.attempt("e", 8.1, daemon="d2.1")
    assert found(builder) == [(What.OVERLAP, "e"), (What.UNEXPLAINED, "d")]
    builder.fault("freeze", 5.3, 15, ["d1.1"], exposed=1)
    assert found(builder) == []


def test_the_late_request_of_a_thawed_daemon_overlaps_nothing(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.fault("freeze", 5.15, 8, ["d1.1"], exposed=1)
    builder.attempt("d", 8.0, daemon="d1.1", took=0.2)
    builder.attempt("d", 8.01, daemon="d2.1")
    builder.rows["d"][1] = replace(builder.rows["d"][1], attempt=1)  # both recorded as the first
    builder.attempt("e", 8.1, daemon="d2.1")
    assert found(builder) == []


def test_an_event_whose_row_was_deleted_is_out_of_order_unless_its_first_attempt_reached_nobody(
    builder: EvidenceBuilder,
) -> None:
    builder.event("early", 5, merchant="m9")
    builder.event("late", 6, merchant="m9")
    builder.attempt("late", 6.1)
    builder.request("early", 7)
    builder.deleted.add("early")
    del builder.ends["early"]
    assert (What.OUT_OF_ORDER, "late") in found(builder)
    builder.record("early", 5.1, None, outcome="dns")
    assert found(builder) == []


def test_a_first_attempt_that_hung_before_it_was_sent_shows_no_order(builder: EvidenceBuilder) -> None:
    builder.event("early", 5, merchant="m9")
    builder.event("late", 5.1, merchant="m9")
    builder.record("early", 5.2, None, took=0.8)
    builder.attempt("late", 6.1)
    builder.attempt("early", 6.2)
    assert found(builder) == []


def test_what_was_first_sent_by_hand_has_no_order_even_if_that_request_was_not_recorded(
    builder: EvidenceBuilder,
) -> None:
    builder.event("d", 5)
    builder.event("e", 6)
    builder.attempt("e", 6.1)
    builder.by_hand["d"] = 1
    builder.request("d", 20)
    builder.fault("kill -9", 20.1, 20.2, ["d1.1"], exposed=1)
    builder.attempt("d", 23, daemon="d2.1", trigger="manual")
    assert found(builder) == []


def test_a_retry_of_a_killed_daemon_is_not_taken_for_a_first_attempt_that_arrived_late(
    builder: EvidenceBuilder,
) -> None:
    builder.schedule = SCHEDULE
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.record("d", 5.1, status=None, took=0.8)  # it waited for a name server, and was never sent
    builder.attempt("e", 6.0)
    builder.request("d", 6.15, status=None, daemon="d1.2")
    builder.fault("kill -9", 6.16, 8.0, daemons=("d1.2",), exposed=1)
    builder.attempt("d", 8.6)
    assert found(builder) == []
