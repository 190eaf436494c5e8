"""The judge of chaos runs on order: what came too early, and what overlapped."""

from dataclasses import replace

import pytest

from tests.chaos.verdict import What
from tests.unit.chaos_story import Story, calm, found


@pytest.fixture
def story() -> Story:
    return calm()


def test_an_event_that_came_before_one_committed_earlier_is_out_of_order(story: Story) -> None:
    story.event("d", 5)
    story.event("e", 5.1)
    story.attempt("e", 5.2)
    story.attempt("d", 5.3)
    assert found(story) == [(What.OUT_OF_ORDER, "e")]


def test_transactions_that_overlap_have_no_order(story: Story) -> None:
    story.event("d", 5, took=0.2)
    story.event("e", 5.1)
    story.attempt("e", 5.3)
    story.attempt("d", 5.4)
    story.event("f", 6, unsure=True)
    story.event("g", 6.5)
    story.attempt("g", 6.6)
    story.attempt("f", 6.7)
    assert found(story) == []


def test_events_of_one_transaction_keep_their_order(story: Story) -> None:
    story.event("d", 5)
    story.event("e", 5)
    story.attempt("e", 5.2)
    story.attempt("d", 5.3)
    assert found(story) == [(What.OUT_OF_ORDER, "e")]


def test_merchants_have_no_order_between_them(story: Story) -> None:
    story.event("d", 5)
    story.event("e", 5.1, merchant="m2")
    story.attempt("e", 5.2)
    story.attempt("d", 5.3)
    assert found(story) == []


def test_an_event_whose_first_attempt_reached_nobody_has_had_its_turn(story: Story) -> None:
    story.event("d", 5)
    story.event("e", 5.1)
    story.record("d", 5.1, status=None, outcome="connect")
    story.attempt("e", 5.2)
    story.attempt("d", 5.5)
    assert found(story) == []


def test_test_events_and_what_is_first_sent_by_hand_have_no_order(story: Story) -> None:
    story.event("d", 5)
    story.event("t", 5.1, type="webhook.test")
    story.event("e", 5.2)
    story.cancelled.add("e")
    story.by_hand.update("te")
    story.attempt("t", 5.3)
    story.attempt("e", 5.4, trigger="manual")
    story.attempt("d", 5.5)
    assert found(story) == []


def test_a_first_request_before_the_end_of_the_one_before_overlaps(story: Story) -> None:
    story.event("d", 5)
    story.event("e", 5.1)
    story.attempt("d", 5.2, took=0.3)
    story.attempt("e", 5.4)
    assert found(story) == [(What.OVERLAP, "e")]


@pytest.mark.parametrize(("begin", "is_right"), [(5.85, False), (5.95, True)])
def test_a_request_without_an_answer_ends_when_its_sender_gives_it_up(
    story: Story, begin: float, is_right: bool
) -> None:
    story.event("d", 5)
    story.event("e", 5.1)
    story.attempt("d", 5.2, status=None, took=0.8)
    story.attempt("d", 7.0)
    story.attempt("e", begin)
    assert found(story) == ([] if is_right else [(What.OVERLAP, "e")])


def test_a_daemon_that_was_hit_leaves_a_request_open(story: Story) -> None:
    story.event("d", 5)
    story.event("e", 5.1)
    story.request("d", 5.2, status=None, took=30)
    story.fault("freeze", 5.3, 15, ["d1.1"], exposed=1)
    story.attempt("d", 8, daemon="d2.1")
    story.attempt("e", 8.1, daemon="d2.1")
    assert found(story) == []


def test_a_request_that_was_left_open_and_cancelled_holds_nobody_back(story: Story) -> None:
    story.event("d", 5)
    story.event("e", 5.1)
    story.request("d", 5.2, status=None, took=30)
    story.fail("d", "cancelled")
    story.cancelled.add("d")
    story.attempt("e", 8.1, daemon="d2.1")
    assert found(story) == [(What.OVERLAP, "e"), (What.UNEXPLAINED, "d")]
    story.fault("freeze", 5.3, 15, ["d1.1"], exposed=1)
    assert found(story) == []


def test_the_late_request_of_a_thawed_daemon_overlaps_nothing(story: Story) -> None:
    story.event("d", 5)
    story.event("e", 5.1)
    story.fault("freeze", 5.15, 8, ["d1.1"], exposed=1)
    story.attempt("d", 8.0, daemon="d1.1", took=0.2)
    story.attempt("d", 8.01, daemon="d2.1")
    story.rows["d"][1] = replace(story.rows["d"][1], attempt=1)  # both recorded as the first
    story.attempt("e", 8.1, daemon="d2.1")
    assert found(story) == []


def test_an_event_whose_row_was_deleted_is_out_of_order_unless_its_first_attempt_reached_nobody(
    story: Story,
) -> None:
    story.event("early", 5, merchant="m9")
    story.event("late", 6, merchant="m9")
    story.attempt("late", 6.1)
    story.request("early", 7)
    story.deleted.add("early")
    del story.ends["early"]
    assert (What.OUT_OF_ORDER, "late") in found(story)
    story.record("early", 5.1, None, outcome="dns")
    assert found(story) == []


def test_a_first_attempt_that_hung_before_it_was_sent_shows_no_order(story: Story) -> None:
    story.event("early", 5, merchant="m9")
    story.event("late", 5.1, merchant="m9")
    story.record("early", 5.2, None, took=0.8)
    story.attempt("late", 6.1)
    story.attempt("early", 6.2)
    assert found(story) == []


def test_what_was_first_sent_by_hand_has_no_order_even_if_that_request_was_not_recorded(story: Story) -> None:
    story.event("d", 5)
    story.event("e", 6)
    story.attempt("e", 6.1)
    story.by_hand["d"] = 1
    story.request("d", 20)
    story.fault("kill -9", 20.1, 20.2, ["d1.1"], exposed=1)
    story.attempt("d", 23, daemon="d2.1", trigger="manual")
    assert found(story) == []
