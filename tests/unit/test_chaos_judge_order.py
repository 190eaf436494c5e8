"""The judge of chaos runs on order: what came too early, and what overlapped."""

import pytest

from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, found


def test_an_event_that_came_before_one_committed_earlier_is_out_of_order(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.attempt_each("ed", 5.2)
    assert found(builder) == [(What.OUT_OF_ORDER, "e")]


def test_events_of_one_transaction_keep_their_order(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5)
    builder.attempt_each("ed", 5.2)
    assert found(builder) == [(What.OUT_OF_ORDER, "e")]


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


def test_a_first_request_before_the_end_of_the_one_before_overlaps(builder: EvidenceBuilder) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.attempt("d", 5.2, took=0.3)
    builder.attempt("e", 5.4)
    assert found(builder) == [(What.OVERLAP, "e")]


@pytest.mark.parametrize(("charge", "is_right"), [("b", True), ("a", False)])
def test_where_order_is_kept_by_charge_only_events_of_one_wait_for_each_other(
    builder: EvidenceBuilder, charge: str, is_right: bool
) -> None:
    builder.event("d", 5, charge="a")
    builder.event("e", 5.1, charge=charge)
    builder.event("f", 5.2, charge="c")
    builder.attempt("e", 5.3, took=0.3)
    builder.attempt("d", 5.4)
    builder.attempt("f", 5.5)
    assert found(builder) == ([] if is_right else [(What.OUT_OF_ORDER, "e"), (What.OVERLAP, "d")])


@pytest.mark.parametrize(("begin", "is_right"), [(5.85, False), (5.95, True)])
def test_an_unanswered_request_is_given_up(builder: EvidenceBuilder, begin: float, is_right: bool) -> None:
    builder.event("d", 5)
    builder.event("e", 5.1)
    builder.attempt("d", 5.2, status=None, took=0.8)
    builder.attempt("d", 7.0)
    builder.attempt("e", begin)
    assert found(builder) == ([] if is_right else [(What.OVERLAP, "e")])
