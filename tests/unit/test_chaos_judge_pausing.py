"""The judge of chaos runs on pauses of everything: taken up in time, and heeded."""

import pytest

from lab.chaos.verdict import What
from tests.unit.chaos_evidence import EvidenceBuilder, found


@pytest.fixture
def builder() -> EvidenceBuilder:
    return EvidenceBuilder()


def paused(builder: EvidenceBuilder, took: float = 0.2, resumed_at: float = 14.0) -> None:
    """Pause everything at 10."""
    builder.command("pause", 10, took)
    builder.command("resume", resumed_at, 0.2)


@pytest.mark.parametrize("name", ["pause", "resume"])
@pytest.mark.parametrize(("took", "is_slow"), [(2.9, False), (3.1, True)])
def test_a_brake_of_everything_is_taken_up_in_time(
    builder: EvidenceBuilder, name: str, took: float, is_slow: bool
) -> None:
    builder.command(name, 10, took)
    assert found(builder) == ([(What.SLOW, None)] if is_slow else [])


def test_it_waits_for_those_before_it_and_for_nobody_elses(builder: EvidenceBuilder) -> None:
    builder.command("pause", 9, 0.2, merchant_id="m1", is_operators=False)
    builder.command("skip", 9.5, 5.0, merchant_id="m1")
    builder.command("resume", 10, 6.0)
    assert found(builder) == []
    builder.command("retry_failed", 20, 5.0, merchant_id="m1", is_operators=False)
    builder.command("pause", 21, 4.5)
    builder.command("resume", 26, 0.2)
    assert found(builder) == [(What.SLOW, None)]


@pytest.mark.parametrize(("daemons", "stops_all"), [(["d1.1"], False), ([], True)])
def test_a_fault_excuses_its_time_and_a_takeover(
    builder: EvidenceBuilder, daemons: list[str], stops_all: bool
) -> None:
    builder.fault("fault", 10.5, 12, daemons, stops_all=stops_all)
    builder.command("pause", 10, 8.0)
    builder.command("resume", 19, 0.2)
    assert found(builder) == []
    builder.command("pause", 30, 8.0)
    builder.command("resume", 39, 0.2)
    assert found(builder) == [(What.SLOW, None)]


def test_a_machine_that_stood_still_takes_up_nothing(builder: EvidenceBuilder) -> None:
    builder.fault("flood", 5, 15, merchants=["m1"], slowness=2.0)
    builder.command("pause", 10, 4.5)
    builder.command("resume", 16, 0.2)
    assert found(builder) == []


@pytest.mark.parametrize(
    ("at", "is_heeded"), [(9.9, True), (11.6, True), (11.8, False), (13.9, False), (14.1, True)]
)
def test_nothing_is_sent_while_everything_is_paused(
    builder: EvidenceBuilder, at: float, is_heeded: bool
) -> None:
    paused(builder)
    builder.event("d", at - 0.1)
    builder.attempt("d", at)
    assert found(builder) == ([] if is_heeded else [(What.UNHEEDED, "d")])


def test_tests_are_sent_all_the_same(builder: EvidenceBuilder) -> None:
    paused(builder)
    builder.event("d", 12, type="webhook.test")
    builder.attempt("d", 12.5)
    assert found(builder) == []


def test_a_daemon_that_a_fault_hit_may_learn_of_it_late(builder: EvidenceBuilder) -> None:
    paused(builder)
    builder.fault("frozen", 10, 12, ["d1.1"], exposed=1)
    builder.event("d", 9.9)
    builder.attempt("d", 12.1)
    assert found(builder) == []


def test_a_resume_may_be_lost_by_a_failover(builder: EvidenceBuilder) -> None:
    builder.command("pause", 10)
    builder.fault("failover", 20, 21, ["d2.1"], stops_all=True, forgets_from=11.0)
    builder.command("resume", 21, 0.2)
    builder.event("d", 10.9)
    builder.attempt("d", 15)  # a daemon wrote it afterwards
    assert found(builder) == []


def test_nothing_is_owed_meanwhile(builder: EvidenceBuilder) -> None:
    paused(builder, resumed_at=40.0)
    builder.event("d", 10.5)
    builder.attempt("d", 41)
    assert found(builder) == []
    builder.event("e", 60, merchant="m2")
    builder.attempt("e", 90)
    assert found(builder) == [(What.LATE, "e")]
