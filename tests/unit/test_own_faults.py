"""Which failures are the merchants', and which are ours."""

from datetime import timedelta

import pytest

from tests.unit.fakes import FakeClock, make_event
from webhook_dispatcher.dispatch.health.own_faults import (
    MAX_BEAT_INTERVAL,
    MAX_CLOCK_DIFFERENCE,
    PROBE_INTERVAL,
    OwnFaults,
)
from webhook_dispatcher.dispatch.health.suspicion import SILENCE
from webhook_dispatcher.domain.clock import DatabaseClock
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.telemetry.metrics import Metrics

ACCEPTED = Answer(200)
NO_FILES = Failure(Outcome.CONNECT, "EMFILE", is_ours=True)
REFUSED = Failure(Outcome.CONNECT, "ECONNREFUSED")
BADLY_SIGNED = Failure(Outcome.UNSENDABLE, "our own signature does not verify", is_ours=True)
LATE = Failure(Outcome.TIMEOUT, "")


class Office:
    """Faults with a clock of their own, and merchants that answer."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.database_clock = DatabaseClock(self.clock)
        self.metrics = Metrics("test")
        self.faults = OwnFaults(self.clock, self.database_clock, self.metrics)
        self.seq = 0

    def attempt(
        self, merchant_id: str, seen: Answer | Failure, *, attempts: int = 0, lasts: float = 0
    ) -> bool:
        """Let one attempt end; tell whether it counts."""
        self.seq += 1
        started = self.clock.elapsed()
        self.wait(lasts)
        event = make_event(self.seq, merchant_id, attempts=attempts)
        return self.faults.learn(event, seen, started)

    def wait(self, seconds: float) -> None:
        """Let time pass, while the loop runs."""
        while seconds > 0:
            step = min(seconds, MAX_BEAT_INTERVAL / 2)
            self.clock.advance(step)
            self.faults.beat()
            seconds -= step

    def pauses(self) -> bool:
        """Tell whether sending pauses."""
        return self.faults.circuit_is_open


def test_a_local_fault_needs_no_second_witness() -> None:
    office = Office()
    assert not office.attempt("m1", NO_FILES)
    assert office.pauses()
    assert office.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "local"}) == 1


def test_probes_are_let_through_one_at_a_time() -> None:
    office = Office()
    office.attempt("m1", NO_FILES)
    assert not office.faults.may_probe()
    office.clock.advance(PROBE_INTERVAL)
    assert office.faults.may_probe()
    assert office.faults.may_probe(), "none was sent"
    office.faults.note_probe()
    assert not office.faults.may_probe()
    office.clock.advance(PROBE_INTERVAL)
    assert office.faults.may_probe()


@pytest.mark.parametrize("sign", [1, -1])
def test_clocks_far_apart_pause_everything_until_they_agree(sign: int) -> None:
    office = Office()
    apart = sign * timedelta(seconds=MAX_CLOCK_DIFFERENCE + 1)
    office.database_clock.synchronise(office.clock.now + apart, office.clock.elapsed())
    office.faults.beat()
    assert office.pauses()
    assert not office.faults.may_probe()
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
    office.clock.advance(MAX_BEAT_INTERVAL + 1)
    assert not office.faults.learn(make_event(1), LATE, started)
    office.faults.beat()
    assert not office.faults.learn(make_event(2), LATE, started)
    assert office.faults.learn(make_event(3), Answer(500), started), "an answer is an answer"
    assert not office.pauses()


def test_a_time_out_of_a_loop_that_ran_counts() -> None:
    office = Office()
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


def test_a_signature_that_does_not_verify_pauses_everything_until_one_does() -> None:
    office = Office()
    assert not office.attempt("m1", BADLY_SIGNED)
    assert office.pauses()
    assert office.faults.signer_is_broken
    assert office.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "signer"}) == 1
    office.clock.advance(1)
    assert office.attempt("m2", Failure(Outcome.UNSENDABLE, "not a published type"))
    assert office.pauses(), "nothing was signed"
    assert office.attempt("m2", Answer(401)), "it is not sent unless it verifies"
    assert not office.pauses()


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 503])
def test_what_all_answer_alike_is_theirs(status: int) -> None:
    office = Office()
    merchants = [f"m{number}" for number in range(50)]
    assert all(office.attempt(merchant_id, ACCEPTED) for merchant_id in merchants)
    assert all(office.attempt(merchant_id, Answer(status)) for merchant_id in merchants)
    assert not office.pauses()
    assert not office.faults.held


def test_time_outs_of_a_loop_that_stood_still_raise_no_suspicion() -> None:
    office = Office()
    merchants = [f"m{number}" for number in range(50)]
    assert all(office.attempt(merchant_id, ACCEPTED) for merchant_id in merchants)
    office.faults.beat()
    started = office.clock.elapsed()
    office.clock.advance(MAX_BEAT_INTERVAL + 1)
    for number, merchant_id in enumerate(merchants):
        assert not office.faults.learn(make_event(1000 + number, merchant_id), LATE, started)
    assert not office.faults.held


def test_operators_are_told_when_nobody_is_answered_any_more() -> None:
    office = Office()
    merchants = [f"m{number}" for number in range(10)]
    assert all(office.attempt(merchant_id, ACCEPTED) for merchant_id in merchants)
    office.clock.advance(1)
    for merchant_id in merchants:
        office.attempt(merchant_id, REFUSED)
    assert not office.pauses(), "who has not shown it yet may be sent to"
    office.wait(SILENCE - 1)
    assert office.faults.reasons == []
    office.wait(1)
    [reason] = office.faults.reasons
    assert "fleet" in reason
    assert "connect" in reason
    assert office.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "fleet"}) == 1
    assert office.metrics.registry.get_sample_value("webhook_merchants_held_back") == 6
    assert office.attempt("m1", ACCEPTED)
    office.faults.beat()
    assert office.faults.reasons == []
    assert office.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "fleet"}) == 0
    assert office.metrics.registry.get_sample_value("webhook_merchants_held_back") == 0


def test_names_that_cannot_be_looked_up_are_a_mark_of_their_own() -> None:
    office = Office()
    merchants = [f"m{number}" for number in range(10)]
    assert all(office.attempt(merchant_id, ACCEPTED) for merchant_id in merchants)
    for number, merchant_id in enumerate(merchants):
        office.wait(0.01)
        silent = Failure(Outcome.TIMEOUT, "", origin=f"host{number}", has_address=False)
        office.attempt(merchant_id, silent)
    held = len(office.faults.held)
    office.wait(0.01)
    assert office.attempt("m9", Answer(200, is_fresh=False))
    assert len(office.faults.held) == held > 0
    assert office.attempt("m9", ACCEPTED)
    assert not office.faults.held


def test_those_held_back_are_probed_one_at_a_time() -> None:
    office = Office()
    merchants = [f"m{number}" for number in range(10)]
    assert all(office.attempt(merchant_id, ACCEPTED) for merchant_id in merchants)
    assert office.faults.probes == 0
    office.clock.advance(1)
    for merchant_id in merchants:
        office.attempt(merchant_id, REFUSED)
    assert office.faults.probes == 0, "it has just begun"
    office.wait(PROBE_INTERVAL)
    assert office.faults.probes == 1
    office.faults.note_probe()
    assert office.faults.probes == 0
