"""The judge of chaos runs on commands: what each accounts for, and what it forbids."""

from typing import Any

import pytest

from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, calm, found

DELIVERED = frozenset(("delivered",))
FAILED = frozenset(("failed",))
SKIPPED = frozenset(("skipped",))


@pytest.fixture
def builder() -> EvidenceBuilder:
    return calm()


# --- recover


def test_each_recover_accounts_for_one_replay(builder: EvidenceBuilder) -> None:
    builder.command("recover", 5, states=DELIVERED, since=0.0)
    builder.attempt("a", 6, trigger="replay")
    assert found(builder) == []
    assert judge(builder.evidence()).replayed == 1
    builder.attempt("a", 7, trigger="replay")
    assert found(builder) == [(What.UNASKED, "a")]
    builder.command("recover", 6.5, states=DELIVERED, since=0.0)
    assert found(builder) == []


@pytest.mark.parametrize(
    "about",
    [
        {"merchant_id": "m2"},
        {"states": FAILED},
        {"since": 3.0},
        {"until": -2.0},
        {"at": 9.0},
        {"status": "rejected"},
        {"status": "withdrawn"},
    ],
)
def test_a_recover_of_something_else_accounts_for_no_replay(
    builder: EvidenceBuilder, about: dict[str, Any]
) -> None:
    builder.command("recover", **{"at": 5.0, "states": DELIVERED, "since": 0.0, **about})
    builder.attempt("a", 6, trigger="replay")
    assert found(builder) == [(What.UNASKED, "a")]


def test_a_replay_that_is_not_on_record_needs_a_fault(builder: EvidenceBuilder) -> None:
    builder.command("recover", 5, states=DELIVERED, since=0.0)
    builder.request("a", 6)
    builder.attempt("a", 9, trigger="replay", daemon="d2.1")
    assert found(builder) == [(What.UNEXPLAINED, "a")]
    builder.fault("kill -9", 6.01, 6.1, ["d1.1"], exposed=1)
    assert found(builder) == []


def test_what_was_delivered_and_fails_when_replayed_may_be_replayed_once_more(
    builder: EvidenceBuilder,
) -> None:
    for at in (5, 8):
        builder.command("recover", at, states=DELIVERED, since=at - 2.0 if at > 5 else 0.0)
        builder.attempt("a", at + 1, status=500, trigger="replay")
    assert found(builder) == []


def test_replays_are_outside_the_order(builder: EvidenceBuilder) -> None:
    builder.command("recover", 5, states=DELIVERED, since=0.0)
    for name, at in zip("cba", (6, 6.01, 6.02), strict=True):
        builder.attempt(name, at, trigger="replay")
    assert found(builder) == []


def test_what_a_recover_was_about_is_sent_again(builder: EvidenceBuilder) -> None:
    builder.finished["a"] = 0.1
    builder.command("recover", 50, states=DELIVERED, since=0.0)
    assert found(builder) == [(What.FORGOTTEN, "a")]
    builder.attempt("a", 51, trigger="replay")
    builder.finished["a"] = 51.1
    assert found(builder) == []


def test_what_ended_just_before_a_recover_may_be_missing_from_it(builder: EvidenceBuilder) -> None:
    builder.finished["a"] = 47.0  # on record later, perhaps
    builder.command("recover", 50, states=DELIVERED, since=0.0)
    assert found(builder) == []


@pytest.mark.parametrize("about", [{"is_whole": False}, {"states": FAILED}, {"merchant_id": "m2"}])
def test_what_a_recover_leaves_out_need_not_be_sent_again(
    builder: EvidenceBuilder, about: dict[str, Any]
) -> None:
    builder.finished["a"] = 0.1
    builder.command("recover", 50, **{"states": DELIVERED, "since": 0.0, **about})
    assert found(builder) == []


def test_a_recover_of_failed_ones_accounts_for_one_attempt_by_hand(builder: EvidenceBuilder) -> None:
    builder.event("d", 5, merchant="m-d")
    for attempt in range(8):
        builder.attempt("d", 5.05 + attempt, status=500)
    builder.fail("d", "exhausted")
    builder.attempt("d", 20, status=500, trigger="manual")
    assert found(builder) == [(What.TOO_MANY_ATTEMPTS, "d"), (What.UNASKED, "d")]
    builder.command("recover", 19, states=FAILED)
    assert found(builder) == []


def test_what_was_skipped_and_recovered_may_fail_at_once(builder: EvidenceBuilder) -> None:
    builder.event("d", 5, merchant="m-d")
    builder.command("skip", 6, merchant_id="m-d", before=6.0)
    builder.command("recover", 8, states=SKIPPED)
    builder.attempt("d", 9, status=500, trigger="manual")
    builder.fail("d", "exhausted", at=9.1)
    assert found(builder) == []


@pytest.mark.parametrize("how", ["skip and recover", "cancel and retry"])
def test_what_was_given_up_and_put_back_has_no_order_though_that_request_was_not_recorded(
    builder: EvidenceBuilder, how: str
) -> None:
    builder.event("d", 5, merchant="m-d")
    builder.event("e", 6, merchant="m-d")
    builder.attempt("e", 9.1)
    builder.request("d", 10)
    builder.fault("kill -9", 10.1, 10.2, ["d1.1"], exposed=1)
    builder.fail("d", "skipped", at=11.1)
    builder.command("skip", 11, merchant_id="m-d", before=5.5)
    assert found(builder) == [(What.OUT_OF_ORDER, "e")]
    if how == "skip and recover":
        builder.command("skip", 7, merchant_id="m-d", before=5.5)
        builder.command("recover", 8, states=SKIPPED)
    else:
        builder.command("cancel", 7, event_id="d")
        builder.command("retry", 8, event_id="d")
    assert found(builder) == []


# --- skip and cancel


def test_what_a_skip_was_about_may_end_as_skipped(builder: EvidenceBuilder) -> None:
    builder.event("d", 5, merchant="m-d")
    builder.fail("d", "skipped", at=6.1)
    builder.command("skip", 6, merchant_id="m-d", before=5.5)
    assert found(builder) == []


@pytest.mark.parametrize(
    "about",
    [{"before": 4.9}, {"merchant_id": "m1"}, {"at": 7.0}, {"took": 0.01}, {"status": "withdrawn"}],
)
def test_what_no_skip_was_about_does_not_end_as_skipped(
    builder: EvidenceBuilder, about: dict[str, Any]
) -> None:
    builder.event("d", 5, merchant="m-d")
    builder.fail("d", "skipped", at=6.1)
    builder.command("skip", **{"at": 6.0, "merchant_id": "m-d", "before": 5.5, **about})
    assert found(builder) == [(What.UNFOUNDED_END, "d")]


@pytest.mark.parametrize(("reason", "name"), [("skipped", "skip"), ("cancelled", "cancel")])
def test_nothing_is_sent_of_what_was_given_up(builder: EvidenceBuilder, reason: str, name: str) -> None:
    builder.event("d", 5, merchant="m-d")
    builder.attempt("d", 5.5, status=500)
    builder.attempt("d", 7.5, status=500)  # in flight, or not known yet
    builder.fail("d", reason, at=6.5)
    builder.cancelled.add("d")
    builder.command(name, 6.4, event_id="d" if name == "cancel" else None, before=6.0)
    assert found(builder) == []
    builder.attempt("d", 9.0, status=500)
    assert found(builder) == [(What.FORBIDDEN, "d")]
    builder.fault("frozen", 6, 8, ["d1.1"], exposed=1)
    assert found(builder) == []


def test_what_waits_when_everything_older_is_skipped_is_not_sent_later(builder: EvidenceBuilder) -> None:
    builder.event("d", 5, merchant="m-d")
    builder.command("skip", 6, before=6.0)
    builder.attempt("d", 9.0)
    assert found(builder) == [(What.FORBIDDEN, "d")]


def test_a_recover_does_not_take_a_cancel_back_and_a_retry_does(builder: EvidenceBuilder) -> None:
    builder.event("d", 5, merchant="m-d")
    builder.attempt("d", 5.5, status=500)
    builder.cancelled.add("d")
    builder.command("cancel", 6, event_id="d")
    builder.command("recover", 8, states=FAILED)
    builder.attempt("d", 9, trigger="manual")
    assert found(builder) == [(What.FORBIDDEN, "d")]
    builder.command("retry", 8, event_id="d")
    assert found(builder) == []


def test_a_skip_does_not_hide_that_a_merchant_was_not_served(builder: EvidenceBuilder) -> None:
    builder.event("d", 5, merchant="m-d")
    builder.fail("d", "skipped", at=20.1)
    builder.command("skip", 20, merchant_id="m-d", before=20.0)
    assert found(builder) == [(What.LATE, "d")]


# --- withdrawn


def test_what_was_withdrawn_in_time_is_not_carried_out(builder: EvidenceBuilder) -> None:
    command = builder.command("pause", 5, status="withdrawn", merchant_id="m1")
    builder.withdrawn.add(command.id)
    assert found(builder) == []
    late = builder.command("pause", 6, merchant_id="m1")  # taken up before it could be withdrawn
    assert found(builder) == []
    builder.withdrawn.add(late.id)
    assert found(builder) == [(What.DEFIED, None)]


def test_what_is_withdrawn_is_not_in_force(builder: EvidenceBuilder) -> None:
    command = builder.command("pause", 5, status="withdrawn", merchant_id="m1")
    builder.in_force.add(command.id)
    assert found(builder) == [(What.DEFIED, None)]


@pytest.mark.parametrize("status", ["pending", "running"])
def test_a_command_that_is_open_at_the_end_was_forgotten(builder: EvidenceBuilder, status: str) -> None:
    builder.command("skip", 5, status=status)
    assert found(builder) == [(What.UNENDED, None)]
