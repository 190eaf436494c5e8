"""The judge of chaos runs on commands: what each accounts for, and what it forbids."""

from typing import Any

import pytest

from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, found

DELIVERED = frozenset(("delivered",))
FAILED = frozenset(("failed",))


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
def test_a_recover_of_other_things_accounts_for_none(builder: EvidenceBuilder, about: dict[str, Any]) -> None:
    builder.command("recover", **{"at": 5.0, "states": DELIVERED, "since": 0.0, **about})
    builder.attempt("a", 6, trigger="replay")
    assert found(builder) == [(What.UNASKED, "a")]


def test_what_was_cancelled_in_flight_and_delivered_finished_when_it_was_cancelled(
    builder: EvidenceBuilder,
) -> None:
    builder.command("recover", 5, states=DELIVERED, since=3.0)
    builder.attempt("a", 6, trigger="replay")
    cancel = builder.command("cancel", 3.5, event_id="a")
    assert found(builder) == []
    builder.commands.remove(cancel)
    builder.command("cancel", 1, event_id="a")
    assert found(builder) == [(What.UNASKED, "a")]


def test_what_a_recover_was_about_is_sent_again(builder: EvidenceBuilder) -> None:
    builder.finished["a"] = 0.1
    builder.command("recover", 50, states=DELIVERED, since=0.0)
    assert found(builder) == [(What.FORGOTTEN, "a")]
    builder.attempt("a", 51, trigger="replay")
    builder.finished["a"] = 51.1
    assert found(builder) == []


# --- skip and cancel


@pytest.mark.parametrize(
    "about", [{"before": 4.9}, {"merchant_id": "m1"}, {"at": 7.0}, {"took": 0.01}, {"status": "withdrawn"}]
)
def test_what_no_skip_was_about_is_not_skipped(builder: EvidenceBuilder, about: dict[str, Any]) -> None:
    builder.event("d", 5, merchant="m-d")
    builder.fail("d", "skipped", at=6.1)
    builder.command("skip", **{"at": 6.0, "merchant_id": "m-d", "before": 5.5, **about})
    assert found(builder) == [(What.UNFOUNDED_END, "d")]


@pytest.mark.parametrize(("reason", "name"), [("skipped", "skip"), ("cancelled", "cancel")])
def test_nothing_is_sent_of_what_was_given_up(builder: EvidenceBuilder, reason: str, name: str) -> None:
    builder.sent("d", 5, 5.5, merchant="m-d", status=500)
    builder.attempt("d", 7.5, status=500)  # in flight, or not known yet
    builder.fail("d", reason, at=6.5)
    builder.cancelled.add("d")
    builder.command(name, 6.4, event_id="d" if name == "cancel" else None, before=6.0)
    assert found(builder) == []
    builder.attempt("d", 9.0, status=500)
    assert found(builder) == [(What.FORBIDDEN, "d")]
    builder.fault("frozen", 6, 8, ["d1.1"], exposed=1)
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
