"""Which failures are the merchants', and which are ours."""

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.unit.builders import make_event
from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.dispatch.health.own_faults import (
    MAX_BEAT_INTERVAL,
    MAX_CLOCK_DIFFERENCE,
    PROBE_INTERVAL,
    SETTLING,
    OwnFaults,
)
from webhook_dispatcher.dispatch.health.suspicion import MAX_SUSPICION, MIN_HOLD, SILENCE
from webhook_dispatcher.domain.clock import DatabaseClock
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.telemetry.metrics import Metrics

ACCEPTED = Answer(200)
NO_FILES = Failure(Outcome.CONNECT, "EMFILE", is_ours=True)
NO_NAMES = Failure(Outcome.DNS, "name servers cannot be reached", is_ours=True, has_address=False)
REFUSED = Failure(Outcome.CONNECT, "ECONNREFUSED")
BADLY_SIGNED = Failure(Outcome.UNSENDABLE, "our own signature does not verify", is_ours=True)
LATE = Failure(Outcome.TIMEOUT, "")


class OwnFaultsHarness:
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
        return self.faults.counts(event, seen, started)

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

    def is_told(self, kind: str) -> bool:
        """Tell whether operators are told of a fault of this kind."""
        value = self.metrics.registry.get_sample_value("webhook_own_fault", {"kind": kind})
        return value == 1


@pytest.fixture
def harness() -> OwnFaultsHarness:
    return OwnFaultsHarness()


def test_a_local_fault_needs_no_second_witness_and_lasts(harness: OwnFaultsHarness) -> None:
    assert not harness.attempt("m1", NO_FILES)
    for _ in range(2):
        assert harness.faults.reasons == ["a fault of our own (local): EMFILE"]
        assert (set(harness.faults.held), harness.is_told("local")) == ({"m1"}, True)
        harness.wait(10 * SETTLING)


def test_a_local_fault_holds_back_nobody_who_has_not_shown_it(harness: OwnFaultsHarness) -> None:
    harness.attempt("m1", NO_FILES)
    assert not harness.pauses()
    harness.wait(0.1)
    assert harness.attempt("connected", ACCEPTED)
    assert harness.faults.held == {"m1"}
    assert harness.is_told("local"), "it needed no file descriptor"
    harness.wait(MIN_HOLD)
    assert harness.faults.suspicions.take_released() == ["m1"], "it is tried beside others that are answered"


def test_a_local_fault_that_comes_and_goes_is_told_once(harness: OwnFaultsHarness) -> None:
    with capture_logs() as told:
        for _ in range(20):
            assert not harness.attempt("m1", NO_FILES)
            harness.wait(1)
            assert harness.attempt("m1", ACCEPTED)
            assert not harness.faults.held
            harness.wait(SETTLING / 2)
            assert harness.is_told("local")
        harness.wait(SETTLING)
    began, ended = [entry for entry in told if "fault" in entry["event"]]
    assert (began["event"], ended["event"]) == ("fault.began", "fault.ended")
    assert (began["merchant_id"], began["detail"]) == ("m1", NO_FILES.detail)
    assert harness.faults.reasons == []


@pytest.mark.parametrize("is_fresh", [True, False])
def test_who_asked_a_name_server_shows_that_it_is_there(harness: OwnFaultsHarness, is_fresh: bool) -> None:
    harness.attempt("m1", NO_NAMES)
    harness.wait(1)
    assert harness.attempt("m1", Answer(200, is_fresh=is_fresh))
    assert bool(harness.faults.held) is not is_fresh


def test_who_showed_a_local_fault_is_no_less_trusted_for_it(harness: OwnFaultsHarness) -> None:
    assert harness.attempt("m1", ACCEPTED)
    assert not harness.attempt("m1", NO_FILES)
    for _ in range(2 * int(MAX_SUSPICION)):
        harness.wait(1)
        assert harness.attempt("connected", ACCEPTED)
    assert not harness.faults.held, "it is tried as everybody is"
    assert harness.faults.has_worked("m1")
    assert not harness.attempt("m1", NO_FILES), "it never counts"
    assert harness.faults.held == {"m1"}


def test_probes_are_let_through_one_at_a_time(harness: OwnFaultsHarness) -> None:
    harness.attempt("m1", BADLY_SIGNED)
    assert not harness.faults.may_probe()
    harness.clock.advance(PROBE_INTERVAL)
    assert harness.faults.may_probe()
    assert harness.faults.may_probe(), "none was sent"
    harness.faults.note_probe()
    assert not harness.faults.may_probe()
    harness.clock.advance(PROBE_INTERVAL)
    assert harness.faults.may_probe()


@pytest.mark.parametrize("sign", [1, -1])
def test_clocks_far_apart_pause_everything_until_they_agree(harness: OwnFaultsHarness, sign: int) -> None:
    apart = sign * timedelta(seconds=MAX_CLOCK_DIFFERENCE + 1)
    harness.database_clock.synchronise(harness.clock.now + apart, harness.clock.elapsed())
    harness.faults.beat()
    assert harness.pauses()
    assert not harness.faults.may_probe()
    assert not harness.attempt("m1", Answer(401)), "a stamp that is off is refused by honest receivers"
    assert harness.attempt("m1", ACCEPTED)
    assert harness.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "clock"}) == 1
    harness.database_clock.synchronise(harness.clock.now, harness.clock.elapsed())
    harness.faults.beat()
    assert not harness.pauses()


def test_a_time_out_while_the_loop_stood_still_does_not_count(harness: OwnFaultsHarness) -> None:
    harness.faults.beat()
    started = harness.clock.elapsed()
    harness.clock.advance(MAX_BEAT_INTERVAL + 1)
    assert not harness.faults.counts(make_event(1), LATE, started)
    harness.faults.beat()
    assert not harness.faults.counts(make_event(2), LATE, started)
    assert harness.faults.counts(make_event(3), Answer(500), started), "an answer is an answer"
    assert not harness.pauses()


def test_a_time_out_of_a_loop_that_ran_counts(harness: OwnFaultsHarness) -> None:
    assert harness.attempt("m1", LATE, lasts=10)


@pytest.mark.parametrize("seen", [Answer(500), REFUSED, ACCEPTED])
def test_a_local_fault_is_over_if_one_gets_further(harness: OwnFaultsHarness, seen: Answer | Failure) -> None:
    harness.attempt("m1", NO_FILES)
    harness.attempt("m2", NO_FILES)
    harness.wait(1)
    assert harness.attempt("m2", seen)
    assert not harness.faults.held
    harness.wait(SETTLING)
    assert not harness.is_told("local")


@pytest.mark.parametrize(("shown", "is_over"), [("NO_NAMES", True), ("NO_FILES", False)])
def test_a_name_that_does_not_exist_shows_only_that_name_servers_are_reached(
    harness: OwnFaultsHarness, shown: str, is_over: bool
) -> None:
    harness.attempt("m1", {"NO_NAMES": NO_NAMES, "NO_FILES": NO_FILES}[shown])
    harness.wait(1)
    assert harness.attempt("m1", Failure(Outcome.DNS, "name does not exist", has_address=False))
    assert bool(harness.faults.held) is not is_over


def test_a_signature_that_does_not_verify_pauses_everything_until_one_does(harness: OwnFaultsHarness) -> None:
    assert not harness.attempt("m1", BADLY_SIGNED)
    assert harness.pauses()
    assert harness.faults.signer_is_broken
    assert harness.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "signer"}) == 1
    harness.clock.advance(1)
    assert harness.attempt("m2", Failure(Outcome.UNSENDABLE, "not a published type"))
    assert harness.pauses(), "nothing was signed"
    assert harness.attempt("m2", Answer(401)), "it is not sent unless it verifies"
    assert not harness.pauses()


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 503])
def test_what_all_answer_alike_is_theirs(harness: OwnFaultsHarness, status: int) -> None:
    merchants = [f"m{number}" for number in range(50)]
    assert all(harness.attempt(merchant_id, ACCEPTED) for merchant_id in merchants)
    assert all(harness.attempt(merchant_id, Answer(status)) for merchant_id in merchants)
    assert not harness.pauses()
    assert not harness.faults.held


def test_operators_are_told_when_nobody_is_answered_any_more(harness: OwnFaultsHarness) -> None:
    merchants = [f"m{number}" for number in range(10)]
    assert all(harness.attempt(merchant_id, ACCEPTED) for merchant_id in merchants)
    harness.clock.advance(1)
    for merchant_id in merchants:
        harness.attempt(merchant_id, REFUSED)
    assert not harness.pauses(), "who has not shown it yet may be sent to"
    harness.wait(SILENCE - 1)
    assert harness.faults.reasons == []
    harness.wait(1)
    [reason] = harness.faults.reasons
    assert "fleet" in reason
    assert "connect" in reason
    assert harness.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "fleet"}) == 1
    assert harness.metrics.registry.get_sample_value("webhook_merchants_held_back") == 6
    assert harness.attempt("m1", ACCEPTED)
    harness.faults.beat()
    assert harness.faults.reasons == []
    assert harness.metrics.registry.get_sample_value("webhook_own_fault", {"kind": "fleet"}) == 0
    assert harness.metrics.registry.get_sample_value("webhook_merchants_held_back") == 0


def test_names_that_cannot_be_looked_up_are_a_mark_of_their_own(harness: OwnFaultsHarness) -> None:
    merchants = [f"m{number}" for number in range(10)]
    assert all(harness.attempt(merchant_id, ACCEPTED) for merchant_id in merchants)
    for number, merchant_id in enumerate(merchants):
        harness.wait(0.01)
        silent = Failure(Outcome.TIMEOUT, "", origin=f"host{number}", has_address=False)
        harness.attempt(merchant_id, silent)
    held = len(harness.faults.held)
    harness.wait(0.01)
    assert harness.attempt("m9", Answer(200, is_fresh=False))
    assert len(harness.faults.held) == held > 0
    assert harness.attempt("m9", ACCEPTED)
    assert not harness.faults.held


def test_what_makes_things_old_is_in_doubt_for_a_day(harness: OwnFaultsHarness) -> None:
    assert harness.faults.clock_doubt() == "the database's clock was not read yet"
    for ahead, doubt in (
        (0, ""),
        (86_400 * 31, "the clocks of this machine and of the database are apart"),
        (0, "the database's clock was set within the last day"),
    ):
        now = harness.clock.now + timedelta(seconds=ahead)
        harness.database_clock.synchronise(now, harness.clock.elapsed())
        assert harness.faults.clock_doubt() == doubt
    harness.clock.advance(86_400)
    harness.database_clock.synchronise(harness.clock.now, harness.clock.elapsed())
    assert harness.faults.clock_doubt() == ""
