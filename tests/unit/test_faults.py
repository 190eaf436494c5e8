"""Which failures are the merchants', and which are ours."""

from datetime import timedelta

import pytest

from tests.unit.fakes import FakeClock, make_event
from webhook_dispatcher.dispatch.faults import (
    GOOD_FOR,
    LEAST_MERCHANTS,
    LONGEST_BEAT,
    MOST_CLOCK_DIFFERENCE,
    PROBE_INTERVAL,
    SAMPLE,
    WINDOW,
    Faults,
)
from webhook_dispatcher.domain.clock import DatabaseClock
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.telemetry.metrics import Metrics

ACCEPTED = Answer(200)
NO_NAME = Failure(Outcome.DNS, "no such name")
NO_FILES = Failure(Outcome.CONNECT, "EMFILE", is_ours=True)
LATE = Failure(Outcome.TIMEOUT, "")


class Office:
    """Faults with a clock of their own, and merchants that answer."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.database_clock = DatabaseClock(self.clock)
        self.metrics = Metrics("test")
        self.faults = Faults(self.clock, self.database_clock, self.metrics)
        self.seq = 0

    def attempt(
        self, merchant_id: str, seen: Answer | Failure, *, attempts: int = 0, lasts: float = 0
    ) -> bool:
        """Let one attempt end; tell whether it counts."""
        self.seq += 1
        started = self.clock.elapsed()
        while lasts > 0:
            step = min(lasts, LONGEST_BEAT / 2)
            self.clock.advance(step)
            self.faults.beat()
            lasts -= step
        event = make_event(self.seq, merchant_id, attempts=attempts)
        return self.faults.counts(event, seen, started)

    def pauses(self) -> bool:
        """Tell whether sending pauses."""
        return self.faults.is_open

    def fleet(self, size: int) -> list[str]:
        """Have so many merchants accept something, some time ago."""
        merchants = [f"m{number}" for number in range(size)]
        for merchant_id in merchants:
            assert self.attempt(merchant_id, ACCEPTED)
        self.clock.advance(WINDOW + 1)
        self.faults.beat()
        self.faults._stalled_at = -1.0
        return merchants


def test_one_merchant_that_fails_is_its_own_fault() -> None:
    office = Office()
    office.fleet(20)
    assert all(office.attempt("m1", NO_NAME) for _ in range(50))
    assert not office.pauses()


def test_a_third_of_all_merchants_failing_alike_is_their_fault() -> None:
    office = Office()
    merchants = office.fleet(60)
    for number, merchant_id in enumerate(merchants * 3):
        assert office.attempt(merchant_id, Answer(503) if number % 3 == 0 else ACCEPTED)
    assert not office.pauses()


@pytest.mark.parametrize("seen", [NO_NAME, Answer(401), LATE, Failure(Outcome.TLS, "")])
def test_nearly_all_that_worked_failing_alike_is_ours(seen: Answer | Failure) -> None:
    office = Office()
    merchants = office.fleet(LEAST_MERCHANTS + 1)
    counted = [office.attempt(merchant_id, seen) for merchant_id in merchants]
    assert counted == [True] * (LEAST_MERCHANTS - 1) + [False] * 2
    assert office.pauses()
    assert office.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "fleet"}) == 1
    [reason] = office.faults.reasons
    assert "fleet" in reason


def test_merchants_that_fail_in_different_ways_are_not_one_fault_of_ours() -> None:
    office = Office()
    for number, merchant_id in enumerate(office.fleet(40)):
        assert office.attempt(merchant_id, Answer(500 + number % 4))
    assert not office.pauses()


def test_merchants_that_never_worked_prove_nothing() -> None:
    office = Office()
    assert all(office.attempt(f"new{number}", NO_NAME) for number in range(100))
    assert not office.pauses()


def test_merchants_that_worked_too_long_ago_prove_nothing() -> None:
    office = Office()
    merchants = office.fleet(20)
    office.clock.advance(GOOD_FOR)
    assert all(office.attempt(merchant_id, NO_NAME) for merchant_id in merchants)
    assert not office.pauses()


def test_retries_prove_nothing_about_the_fleet() -> None:
    office = Office()
    merchants = office.fleet(20)
    assert all(office.attempt(merchant_id, NO_NAME, attempts=1) for merchant_id in merchants)
    assert not office.pauses()


def test_results_of_long_ago_are_not_compared_with_todays() -> None:
    office = Office()
    merchants = office.fleet(20)
    for merchant_id in merchants:
        office.attempt(merchant_id, NO_NAME)
        office.clock.advance(WINDOW / (LEAST_MERCHANTS - 1) + 0.1)
        office.faults.beat()
    assert not office.pauses()


def test_during_a_fault_only_failures_of_its_kind_do_not_count() -> None:
    office = Office()
    for merchant_id in office.fleet(10):
        office.attempt(merchant_id, NO_NAME)
    assert not office.attempt("m1", NO_NAME, attempts=1)
    assert office.attempt("m1", Answer(500))
    assert office.pauses()


def test_one_attempt_begun_after_the_fault_and_accepted_ends_it() -> None:
    office = Office()
    event = make_event(99, "m1")
    before = office.clock.elapsed()
    for merchant_id in office.fleet(10):
        office.attempt(merchant_id, NO_NAME)
    assert office.faults.counts(event, ACCEPTED, before)
    assert office.pauses(), "it was begun before"
    office.clock.advance(1)
    assert office.attempt("m2", ACCEPTED)
    assert not office.pauses()
    assert office.faults.reasons == []
    assert office.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "fleet"}) == 0


def test_a_local_fault_needs_no_second_witness() -> None:
    office = Office()
    assert not office.attempt("m1", NO_FILES)
    assert office.pauses()
    assert office.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "local"}) == 1


def test_probes_are_let_through_one_at_a_time() -> None:
    office = Office()
    office.attempt("m1", NO_FILES)
    assert not office.faults.takes_probe()
    office.clock.advance(PROBE_INTERVAL)
    assert office.faults.takes_probe()
    assert office.faults.takes_probe(), "none was sent"
    office.faults.note_probe()
    assert not office.faults.takes_probe()
    office.clock.advance(PROBE_INTERVAL)
    assert office.faults.takes_probe()


@pytest.mark.parametrize("sign", [1, -1])
def test_clocks_far_apart_pause_everything_until_they_agree(sign: int) -> None:
    office = Office()
    apart = sign * timedelta(seconds=MOST_CLOCK_DIFFERENCE + 1)
    office.database_clock.synchronise(office.clock.now + apart, office.clock.elapsed())
    office.faults.beat()
    assert office.pauses()
    assert not office.faults.takes_probe()
    assert not office.attempt("m1", Answer(401)), "a stamp that is off is refused by honest receivers"
    assert office.attempt("m1", ACCEPTED)
    assert office.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "clock"}) == 1
    office.database_clock.synchronise(office.clock.now, office.clock.elapsed())
    office.faults.beat()
    assert not office.pauses()


def test_a_time_out_while_the_loop_stood_still_does_not_count() -> None:
    office = Office()
    office.faults.beat()
    started = office.clock.elapsed()
    office.clock.advance(LONGEST_BEAT + 1)
    assert not office.faults.counts(make_event(1), LATE, started)
    office.faults.beat()
    assert not office.faults.counts(make_event(2), LATE, started)
    assert office.faults.counts(make_event(3), Answer(500), started), "an answer is an answer"
    assert not office.pauses()


def test_a_time_out_of_a_loop_that_ran_counts() -> None:
    office = Office()
    office.fleet(2)
    assert office.attempt("m1", LATE, lasts=10)


def test_a_failure_that_the_sender_knows_to_be_ours_never_counts() -> None:
    office = Office()
    assert not office.attempt("m1", NO_FILES)
    assert not office.attempt("m2", Failure(Outcome.DNS, "EMFILE", is_ours=True))


@pytest.mark.parametrize("seen", [Answer(500), Failure(Outcome.CONNECT, "refused"), ACCEPTED])
def test_a_local_fault_is_over_when_anybody_is_reached(seen: Answer | Failure) -> None:
    office = Office()
    office.attempt("m1", NO_FILES)
    office.clock.advance(1)
    assert office.attempt("m2", seen)
    assert not office.pauses()


def test_a_fleet_fault_uses_up_no_more_than_a_sample_at_any_rate() -> None:
    for pause in (0.001, 0.1, 2.0):
        office = Office()
        merchants = office.fleet(1000)
        for merchant_id in merchants[:500]:
            office.clock.advance(pause / 100)
            office.attempt(merchant_id, ACCEPTED)
        counted = 0
        for merchant_id in merchants[500:]:
            office.clock.advance(pause)
            office.faults.beat()
            counted += office.attempt(merchant_id, NO_NAME)
        assert office.pauses()
        assert counted <= SAMPLE


def test_late_failures_of_attempts_begun_before_others_succeeded_do_not_outweigh_them() -> None:
    office = Office()
    merchants = office.fleet(60)
    begun = office.clock.elapsed()
    office.clock.advance(1)
    for merchant_id in merchants[30:]:
        assert office.attempt(merchant_id, ACCEPTED)
    for number, merchant_id in enumerate(merchants[:30]):
        assert office.faults.counts(make_event(1000 + number, merchant_id), NO_NAME, begun)
    assert not office.pauses()
