"""The judge of chaos runs: a history that keeps a promise passes, one that breaks it is named and told."""

from dataclasses import replace

import pytest

from lab.chaos.evidence import UNPROVEN
from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, found
from webhook_dispatcher.local.arrivals import Signature


def test_a_run_without_faults_is_clean(builder: EvidenceBuilder) -> None:
    verdict = judge(builder.evidence())
    assert verdict.is_clean
    assert (verdict.events, verdict.merchants, verdict.requests, verdict.delivered) == (4, 2, 4, 4)
    assert verdict.lags.worst == pytest.approx(0.037)
    assert not verdict.extras


# --- I1


def test_an_event_without_a_row_is_lost(builder: EvidenceBuilder) -> None:
    del builder.ends["b"]
    assert found(builder) == [(What.LOST, "b")]


@pytest.mark.parametrize("state", ["pending", "pending_retry"])
def test_an_event_that_is_owed_at_the_end_is_stuck(builder: EvidenceBuilder, state: str) -> None:
    builder.ends["b"] = (state, None)
    assert found(builder) == [(What.STUCK, "b")]


def test_delivered_needs_a_request_that_was_accepted(builder: EvidenceBuilder) -> None:
    builder.sent("d", 5, 5.05, status=500)
    assert found(builder) == [(What.UNACCEPTED, "d")]


@pytest.mark.parametrize("reason", ["not_configured", "cancelled", "unsendable", "exhausted"])
def test_failed_needs_a_reason_that_somebody_brought_about(builder: EvidenceBuilder, reason: str) -> None:
    builder.sent("d", 5, 5.05, status=500)
    builder.fail("d", reason)
    assert found(builder) == [(What.UNFOUNDED_END, "d")]


def test_an_answer_on_record_was_given(builder: EvidenceBuilder) -> None:
    builder.record("b", 8, status=503)
    assert found(builder) == [(What.UNGIVEN, "b")]


def test_a_request_for_an_event_that_nobody_wrote(builder: EvidenceBuilder) -> None:
    stray = replace(builder.arrivals[0], event_id="z", started_at=9.0)
    builder.arrivals.append(stray)
    assert found(builder) == [(What.UNKNOWN, "z")]
    stray.type = "webhook.test"  # the daemons make these themselves
    assert found(builder) == []


# --- Filters

OTHERS = frozenset({"charge.failed"})


def test_what_a_filter_leaves_out_is_passed_over_and_nothing_of_it_is_sent(builder: EvidenceBuilder) -> None:
    builder.filters["m3"] = {OTHERS}
    builder.event("d", 5, "m3")
    builder.pass_over("d")
    assert found(builder) == []
    builder.attempt("d", 5.05)
    assert found(builder) == [(What.UNWANTED, "d")]
    builder.unwanted.clear()
    assert found(builder) == [(What.UNWANTED, "d"), (What.LOST, "d")]
    builder.ends["d"] = ("delivered", None)
    assert found(builder) == [(What.UNWANTED, "d")]


def test_what_is_wanted_is_not_passed_over(builder: EvidenceBuilder) -> None:
    builder.event("d", 5, "m3")
    builder.pass_over("d")
    assert found(builder) == [(What.PASSED_OVER, "d")]
    builder.filters["m3"] = {OTHERS | {"charge.created"}}
    assert found(builder) == [(What.PASSED_OVER, "d")]
    builder.filters["m3"].add(OTHERS)
    assert found(builder) == [], "one that did not want it held too"


def test_what_was_asked_for_by_hand_is_sent_though_it_is_not_wanted(builder: EvidenceBuilder) -> None:
    builder.filters["m3"] = {OTHERS}
    builder.event("d", 5, "m3")
    builder.attempt("d", 20, trigger="manual")
    builder.by_hand["d"] = 1
    assert found(builder) == []


# --- B


def test_more_scheduled_attempts_than_there_are_delays(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    for attempt in range(9):
        builder.attempt("d", 5.05 + attempt, status=200 if attempt == 8 else 500)
    assert found(builder) == [(What.TOO_MANY_ATTEMPTS, "d")]


def test_an_attempt_by_hand_comes_on_top(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    for attempt in range(8):
        builder.attempt("d", 5.05 + attempt, status=500)
    builder.attempt("d", 20, trigger="manual")
    assert found(builder) == [(What.TOO_MANY_ATTEMPTS, "d"), (What.UNASKED, "d")]
    builder.by_hand["d"] = 1
    assert found(builder) == []


# --- What is sent


@pytest.mark.parametrize("signature", [one for one in Signature if one is not Signature.RIGHT])
def test_every_request_is_signed(builder: EvidenceBuilder, signature: Signature) -> None:
    builder.arrivals[1].signature = signature
    assert found(builder) == [(What.WRONG_SIGNATURE, "b")]


def test_the_body_holds_the_text_of_the_producer_byte_for_byte(builder: EvidenceBuilder) -> None:
    builder.arrivals[1].body = builder.arrivals[1].body.replace(b"2.0", b"2")
    assert found(builder) == [(What.WRONG_BODY, "b")]


def test_the_body_is_the_same_on_every_attempt(builder: EvidenceBuilder) -> None:
    builder.sent("d", 5, 5.1, status=500)
    builder.attempt("d", 6.1)
    assert found(builder) == []
    builder.arrivals[-1].body = builder.arrivals[-1].body.replace(b".123Z", b".124Z")
    assert found(builder) == [(What.WRONG_BODY, "d")]


def test_an_event_goes_to_its_own_merchant(builder: EvidenceBuilder) -> None:
    builder.arrivals[1].merchant_id = "m2"
    assert found(builder) == [(What.WRONG_MERCHANT, "b")]


def test_an_event_goes_to_whose_certificate_proves_who_it_is(builder: EvidenceBuilder) -> None:
    builder.arrivals[1].headers = {**builder.arrivals[1].headers, UNPROVEN: "yes"}
    assert found(builder) == [(What.UNPROVEN, "b")]
