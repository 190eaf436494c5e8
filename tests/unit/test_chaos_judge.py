"""The judge of chaos runs: a history that keeps a promise passes, one that breaks it is named and told."""

from dataclasses import replace

import pytest

from tests.chaos.judge import judge
from tests.chaos.verdict import What
from tests.unit.chaos_story import Story, calm, found
from webhook_dispatcher.local.arrivals import Signature


@pytest.fixture
def story() -> Story:
    return calm()


def test_a_run_without_faults_is_clean(story: Story) -> None:
    verdict = judge(story.evidence())
    assert verdict.is_clean
    assert (verdict.events, verdict.merchants, verdict.requests, verdict.delivered) == (4, 2, 4, 4)
    assert verdict.lags.worst == pytest.approx(0.037)
    assert not verdict.extras


# --- I1


def test_an_event_without_a_row_is_lost(story: Story) -> None:
    del story.ends["b"]
    assert found(story) == [(What.LOST, "b")]


def test_an_event_whose_row_an_operator_deleted_may_be_missing(story: Story) -> None:
    del story.ends["b"]
    story.deleted.add("b")
    assert found(story) == []


@pytest.mark.parametrize("state", ["pending", "pending_retry"])
def test_an_event_that_is_owed_at_the_end_is_stuck(story: Story, state: str) -> None:
    story.ends["b"] = (state, None)
    assert found(story) == [(What.STUCK, "b")]


def test_delivered_needs_a_request_that_was_accepted(story: Story) -> None:
    story.event("d", 5)
    story.attempt("d", 5.05, status=500)
    assert found(story) == [(What.UNACCEPTED, "d")]


@pytest.mark.parametrize("reason", ["not_configured", "cancelled", "unsendable", "exhausted"])
def test_failed_needs_a_reason_that_somebody_brought_about(story: Story, reason: str) -> None:
    story.event("d", 5)
    story.attempt("d", 5.05, status=500)
    story.fail("d", reason)
    assert found(story) == [(What.UNFOUNDED_END, "d")]


def test_failed_for_legal_reasons_is_right(story: Story) -> None:
    for name in "def":
        story.event(name, 5, merchant=f"m-{name}")
    story.fail("d", "cancelled")
    story.cancelled.add("d")
    story.fail("e", "not_configured")
    story.unconfigured.add("m-e")
    for attempt in range(8):
        story.attempt("f", 5.05 + attempt, status=500)
    story.fail("f", "exhausted")
    assert found(story) == []
    assert judge(story.evidence()).failed == {"cancelled": 1, "not_configured": 1, "exhausted": 1}


def test_cancelled_and_sent_by_hand_is_exhausted_after_that_one_attempt(story: Story) -> None:
    story.event("d", 5)
    story.fail("d", "exhausted")
    story.cancelled.add("d")
    story.by_hand["d"] = 1
    story.attempt("d", 7, status=500, trigger="manual")
    assert found(story) == []


def test_an_answer_on_record_was_given(story: Story) -> None:
    story.record("b", 8, status=503)
    assert found(story) == [(What.UNGIVEN, "b")]


def test_a_request_for_an_event_that_nobody_wrote(story: Story) -> None:
    stray = replace(story.arrivals[0], event_id="z", started_at=9.0)
    story.arrivals.append(stray)
    assert found(story) == [(What.UNKNOWN, "z")]
    stray.type = "webhook.test"  # the daemons make these themselves
    assert found(story) == []


# --- B


def test_more_scheduled_attempts_than_there_are_delays(story: Story) -> None:
    story.event("d", 5)
    for attempt in range(9):
        story.attempt("d", 5.05 + attempt, status=200 if attempt == 8 else 500)
    assert found(story) == [(What.TOO_MANY_ATTEMPTS, "d")]


def test_an_attempt_that_reached_nobody_counts_too(story: Story) -> None:
    story.event("d", 5)
    story.record("d", 5.05, status=None, outcome="connect")
    for attempt in range(8):
        story.attempt("d", 6.05 + attempt, status=200 if attempt == 7 else 500)
    assert found(story) == [(What.TOO_MANY_ATTEMPTS, "d")]


def test_an_attempt_by_hand_comes_on_top(story: Story) -> None:
    story.event("d", 5)
    for attempt in range(8):
        story.attempt("d", 5.05 + attempt, status=500)
    story.attempt("d", 20, trigger="manual")
    assert found(story) == [(What.TOO_MANY_ATTEMPTS, "d"), (What.UNASKED, "d")]
    story.by_hand["d"] = 1
    assert found(story) == []


# --- What is sent


@pytest.mark.parametrize("signature", [one for one in Signature if one is not Signature.RIGHT])
def test_every_request_is_signed(story: Story, signature: Signature) -> None:
    story.arrivals[1].signature = signature
    assert found(story) == [(What.WRONG_SIGNATURE, "b")]


def test_the_body_holds_the_text_of_the_producer_byte_for_byte(story: Story) -> None:
    story.arrivals[1].body = story.arrivals[1].body.replace(b"2.0", b"2")
    assert found(story) == [(What.WRONG_BODY, "b")]


def test_the_body_is_the_same_on_every_attempt(story: Story) -> None:
    story.event("d", 5)
    story.attempt("d", 5.1, status=500)
    story.attempt("d", 6.1)
    assert found(story) == []
    story.arrivals[-1].body = story.arrivals[-1].body.replace(b".123Z", b".124Z")
    assert found(story) == [(What.WRONG_BODY, "d")]


def test_an_event_goes_to_its_own_merchant(story: Story) -> None:
    story.arrivals[1].merchant_id = "m2"
    assert found(story) == [(What.WRONG_MERCHANT, "b")]
