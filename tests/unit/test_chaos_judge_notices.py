"""The judge of chaos runs on what the platform is told: all that failed, once, and nothing else."""

from dataclasses import replace

import pytest

from lab.chaos.judge import judge
from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, calm, found
from webhook_dispatcher.local.arrivals import Signature

UNTOLD, MISTOLD = [(What.UNTOLD, None)], [(What.MISTOLD, None)]


@pytest.fixture
def builder() -> EvidenceBuilder:
    """Three events of one merchant, delivered by 2.1 s; the platform is told who fails for 5 s."""
    builder = calm()
    builder.told_after = 5.0
    return builder


def exhaust(builder: EvidenceBuilder, name: str, at: float = 10.0) -> None:
    builder.event(name, at)
    for number in range(8):
        builder.attempt(name, at + 0.05 + number / 2, status=500)
    builder.fail(name, "exhausted", at + 3.6)


def go_on_failing(builder: EvidenceBuilder, since: float, until: float, count: int = 8) -> None:
    """Let so many events fail once each, and be cancelled."""
    for number in range(count):
        name = f"f{number}"
        builder.event(name, since - 0.05 + number * (until - since) / (count - 1))
        builder.attempt(name, since + number * (until - since) / (count - 1), status=503)
        builder.cancelled.add(name)
        builder.fail(name, "cancelled")


def recover(builder: EvidenceBuilder, at: float, count: int = 3) -> None:
    for number in range(count):
        builder.event(f"r{number}", at + number)
        builder.attempt(f"r{number}", at + number + 0.02)


def test_each_failure_is_told(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    exhaust(builder, "e", 20)
    builder.notice("delivery.failed", count=1, eventIds=["d"])
    assert found(builder) == UNTOLD
    builder.notice("delivery.failed", count=1, eventIds=["e"])
    assert found(builder) == []
    assert judge(builder.evidence()).notices == {"delivery.failed": 2}


def test_a_notice_that_comes_twice_counts_once(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    exhaust(builder, "e", 20)
    arrival = builder.notice("delivery.failed", count=1, eventIds=["d"])
    builder.arrivals.append(replace(arrival, started_at=95.0))
    assert found(builder) == UNTOLD


def test_more_failures_than_there_were_are_mistold(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    builder.notice("delivery.failed", count=2, eventIds=["d"])
    assert found(builder) == MISTOLD


def test_what_fails_again_by_hand_may_be_told_again(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    builder.by_hand["d"] = 1
    builder.attempt("d", 30, status=500, trigger="manual")
    for _ in range(2):
        builder.notice("delivery.failed", count=1, eventIds=["d"])
        assert found(builder) == []
    builder.notice("delivery.failed", count=1, eventIds=["d"])
    assert found(builder) == MISTOLD


def test_what_was_told_and_accepted_later_was_told_rightly(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    builder.by_hand["d"] = 1
    builder.attempt("d", 30, trigger="manual")
    builder.ends["d"] = ("delivered", None)
    builder.notice("delivery.failed", count=1, eventIds=["d"])
    assert found(builder) == []


def test_what_was_told_and_skipped_after_a_recover_was_told_rightly(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    builder.command("recover", 20, states=frozenset(("failed",)), since=0.0)
    builder.command("skip", 21, took=1, before=30.0)
    builder.fail("d", "skipped", 21.5)
    builder.notice("delivery.failed", count=1, eventIds=["d"])
    assert found(builder) == []


def test_what_operators_gave_up_is_no_news(builder: EvidenceBuilder) -> None:
    builder.event("d", 10)
    builder.cancelled.add("d")
    builder.fail("d", "cancelled")
    assert found(builder) == []
    builder.notice("delivery.failed", count=1, eventIds=["d"])
    assert found(builder) == MISTOLD


def test_a_notice_names_events_of_its_merchant(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    builder.notice("delivery.failed", count=1, eventIds=["x"])
    assert found(builder) == MISTOLD


def test_a_notice_that_was_given_up_counts_as_told(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    builder.arrivals.remove(builder.notice("delivery.failed", count=1, eventIds=["d"]))
    assert found(builder) == [(What.UNACCEPTED, None), *UNTOLD]
    builder.notices[0] = replace(builder.notices[0], state="failed")
    assert found(builder) == []
    builder.notices[0] = replace(builder.notices[0], state="pending")
    assert found(builder) == [(What.STUCK, None), *UNTOLD]


def test_a_notice_is_on_record_and_signed(builder: EvidenceBuilder) -> None:
    exhaust(builder, "d")
    builder.notice("delivery.failed", count=1, eventIds=["d"]).signature = Signature.WRONG
    assert found(builder) == [(What.WRONG_SIGNATURE, None)]
    builder.notices.clear()
    assert found(builder) == [(What.UNKNOWN, None), (What.WRONG_SIGNATURE, None)]


def test_a_notice_to_a_merchant_is_one_that_nobody_wrote(builder: EvidenceBuilder) -> None:
    arrival = builder.notice("endpoint.failing", failingSince=1.0)
    arrival.merchant_id = "m1"
    builder.notices.clear()
    assert found(builder) == [(What.UNKNOWN, "n1")]


def test_who_fails_for_long_is_told_of(builder: EvidenceBuilder) -> None:
    go_on_failing(builder, 10, 50)
    assert found(builder) == UNTOLD
    builder.notice("endpoint.failing", at=20, failingSince=10.03)
    assert found(builder) == []


@pytest.mark.parametrize("until", [14.0, 30.0])
def test_who_fails_too_shortly_for_a_loop_under_faults_need_not_be_told_of(
    builder: EvidenceBuilder, until: float
) -> None:
    go_on_failing(builder, 10, until)
    assert found(builder) == []


def test_two_events_say_too_little(builder: EvidenceBuilder) -> None:
    go_on_failing(builder, 10, 50, count=2)
    assert found(builder) == []


def test_outages_are_left_out_and_so_is_who_was_touched(builder: EvidenceBuilder) -> None:
    go_on_failing(builder, 10, 50)
    builder.fault("outage", 20, 40, stops_all=True)
    assert found(builder) == []
    builder.injections.clear()
    builder.fault("URLs changed", 20, 20.1, merchants=["m1"])
    assert found(builder) == []


def test_a_suspension_tells_it_too(builder: EvidenceBuilder) -> None:
    go_on_failing(builder, 10, 50)
    builder.notice("endpoint.suspended", failingSince=10.03, suspendedAt=25.0)
    assert found(builder) == []


def test_what_was_told_before_holds_until_the_recovery(builder: EvidenceBuilder) -> None:
    builder.notice("endpoint.failing", failingSince=4.0)
    builder.event("s", 4)
    builder.attempt("s", 4.1, status=500)
    builder.cancelled.add("s")
    builder.fail("s", "cancelled")
    recover(builder, 5, count=1)
    go_on_failing(builder, 10, 50)
    assert found(builder) == []
    builder.notice("endpoint.recovered", failingSince=4.0, recoveredAt=5.05)
    assert found(builder) == UNTOLD


def test_a_recovery_is_told(builder: EvidenceBuilder) -> None:
    go_on_failing(builder, 10, 50)
    builder.notice("endpoint.failing", failingSince=10.03)
    recover(builder, 60)
    assert found(builder) == UNTOLD
    builder.notice("endpoint.recovered", failingSince=10.03, recoveredAt=60.05)
    assert found(builder) == []


def test_nothing_is_told_twice(builder: EvidenceBuilder) -> None:
    go_on_failing(builder, 10, 50)
    for _ in range(2):
        builder.notice("endpoint.failing", failingSince=10.03)
    assert found(builder) == MISTOLD


def test_nobody_recovers_from_what_was_not_told(builder: EvidenceBuilder) -> None:
    builder.notice("endpoint.recovered", failingSince=10.0, recoveredAt=60.0)
    assert found(builder) == MISTOLD


def test_who_was_accepted_meanwhile_does_not_fail(builder: EvidenceBuilder) -> None:
    recover(builder, 60)
    builder.notice("endpoint.failing", failingSince=59.0)
    builder.notice("endpoint.recovered", failingSince=59.0, recoveredAt=65.0)
    assert found(builder) == MISTOLD
    builder.fault("outage", 59.5, 63.5, stops_all=True)
    assert found(builder) == [], "what it accepted may not have been on record yet"


def test_where_nothing_is_told_nothing_is_missed(builder: EvidenceBuilder) -> None:
    builder.told_after = None
    exhaust(builder, "d")
    go_on_failing(builder, 10, 50)
    assert found(builder) == []
