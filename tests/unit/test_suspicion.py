"""What many that fail alike bring about: who is excused, who is held back, and for how long."""

import pytest

from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.dispatch.health.lanes import (
    MIN_ORIGINS,
    NO_ADDRESS,
    RECENT,
    SAMPLE,
    WINDOW,
    Evidence,
)
from webhook_dispatcher.dispatch.health.suspicion import (
    MAX_HOLD,
    MAX_SUSPICION,
    MIN_HOLD,
    SILENCE,
    Suspicions,
)
from webhook_dispatcher.domain.lane import lane_named

DNS, CONNECT, TIMEOUT = "dns", "connect", "timeout"


class SuspicionsHarness:
    """Suspicions with a clock of their own; each merchant has a network of its own unless told otherwise."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.evidence = Evidence(self.clock)
        self.suspicions = Suspicions(self.clock, self.evidence)
        self.networks: dict[str, str] = {}

    def works(
        self, *merchants: str, started: float | None = None, is_first: bool = True, is_fresh: bool = True
    ) -> None:
        """Let merchants accept something."""
        for merchant_id in merchants:
            self.answers(merchant_id, started=started, is_first=is_first, is_fresh=is_fresh, is_accepted=True)

    def answers(
        self,
        merchant_id: str,
        *,
        started: float | None = None,
        is_first: bool = True,
        is_fresh: bool = True,
        is_accepted: bool = False,
    ) -> None:
        """Let a merchant answer, whatever."""
        began = self.clock.elapsed() if started is None else started
        origin = self._origin(merchant_id)
        self.suspicions.contradict(merchant_id, began, is_fresh=is_fresh)
        self.evidence.answered(
            merchant_id, origin, began, is_first=is_first, is_fresh=is_fresh, is_accepted=is_accepted
        )

    def fails(
        self,
        merchant_id: str,
        mark: str = CONNECT,
        *,
        origin: str | None = None,
        started: float | None = None,
        is_first: bool = True,
    ) -> bool:
        """Let a merchant fail; tell whether that is excused."""
        began = self.clock.elapsed() if started is None else started
        where = origin or self._origin(merchant_id)
        return self.suspicions.excuses(merchant_id, where, began, mark, is_first=is_first)

    def _origin(self, merchant_id: str) -> str:
        return self.networks.get(merchant_id, f"network of {merchant_id}")

    def fleet(self, size: int, name: str = "m") -> list[str]:
        """Have so many merchants accept something, some time ago."""
        merchants = [f"{name}{number}" for number in range(size)]
        self.works(*merchants)
        self.clock.advance(WINDOW + 1)
        return merchants

    def suspects(self, mark: str = CONNECT, size: int = 10) -> list[str]:
        """Have a fleet fail, so that this mark is suspected."""
        merchants = self.fleet(size)
        for merchant_id in merchants:
            self.fails(merchant_id, mark)
        assert self.suspicions.held
        self.clock.advance(0.001)
        return merchants


@pytest.fixture
def harness() -> SuspicionsHarness:
    return SuspicionsHarness()


def test_a_third_of_all_merchants_failing_alike_is_their_fault(harness: SuspicionsHarness) -> None:
    for number, merchant_id in enumerate(harness.fleet(60) * 3):
        harness.clock.advance(0.001)
        if number % 3:
            harness.works(merchant_id)
        else:
            assert not harness.fails(merchant_id)


def test_nearly_all_that_worked_failing_alike_is_suspicious(harness: SuspicionsHarness) -> None:
    excused = [harness.fails(merchant_id) for merchant_id in harness.fleet(MIN_ORIGINS + 1)]
    assert excused == [False] * (MIN_ORIGINS - 1) + [True] * 2


def test_merchants_that_fail_in_different_ways_are_not_suspicious(harness: SuspicionsHarness) -> None:
    marks = [DNS, CONNECT, TIMEOUT]
    for number, merchant_id in enumerate(harness.fleet(40)):
        assert not harness.fails(merchant_id, marks[number % 3])


def test_merchants_that_never_worked_prove_nothing(harness: SuspicionsHarness) -> None:
    assert not any(harness.fails(f"new{number}") for number in range(100))


def test_merchants_that_worked_too_long_ago_prove_nothing(harness: SuspicionsHarness) -> None:
    merchants = harness.fleet(20)
    harness.clock.advance(RECENT)
    assert not any(harness.fails(merchant_id) for merchant_id in merchants)


def test_retries_prove_nothing_about_others(harness: SuspicionsHarness) -> None:
    assert not any(harness.fails(merchant_id, is_first=False) for merchant_id in harness.fleet(20))


def test_results_of_long_ago_are_not_compared_with_todays(harness: SuspicionsHarness) -> None:
    for merchant_id in harness.fleet(20):
        assert not harness.fails(merchant_id)
        harness.clock.advance(WINDOW / (MIN_ORIGINS - 1) + 0.1)


def test_late_failures_do_not_outweigh_successes(harness: SuspicionsHarness) -> None:
    merchants = harness.fleet(60)
    begun = harness.clock.elapsed()
    harness.clock.advance(1)
    harness.works(*merchants[30:])
    assert not any(harness.fails(merchant_id, started=begun) for merchant_id in merchants[:30])


@pytest.mark.parametrize("pause", [0.001, 0.1, 2.0])
def test_a_fault_of_ours_uses_up_a_sample_at_any_rate(harness: SuspicionsHarness, pause: float) -> None:
    merchants = harness.fleet(1000)
    for merchant_id in merchants[:500]:
        harness.clock.advance(pause / 100)
        harness.works(merchant_id)
    counted = 0
    for merchant_id in merchants[500:]:
        harness.clock.advance(pause)
        counted += not harness.fails(merchant_id)
    assert 0 < counted <= SAMPLE


def test_a_hundred_merchants_of_one_network_are_one_witness(harness: SuspicionsHarness) -> None:
    merchants = harness.fleet(100)
    harness.networks = dict.fromkeys(merchants, "203.0.113.0/24")
    assert not any(harness.fails(merchant_id) for merchant_id in merchants)


def test_the_endpoints_of_a_merchant_are_one_witness(harness: SuspicionsHarness) -> None:
    lanes = [lane_named("m", number) for number in range(1, MIN_ORIGINS + 2)]
    harness.works(*lanes)
    harness.clock.advance(WINDOW + 1)
    assert not any(harness.fails(lane) for lane in lanes)


def test_names_not_found_outweigh_networks_that_answered(harness: SuspicionsHarness) -> None:
    merchants = harness.fleet(MIN_ORIGINS)
    harness.networks = dict.fromkeys(merchants, "203.0.113.0/24")
    harness.works(*merchants)
    harness.clock.advance(0.001)
    excused = [harness.fails(merchant_id, DNS, origin=f"{merchant_id}.example") for merchant_id in merchants]
    assert excused == [False] * (MIN_ORIGINS - 1) + [True]


def test_whoever_shows_the_mark_is_held_back_and_nobody_else(harness: SuspicionsHarness) -> None:
    merchants = harness.suspects()
    harness.works("honest")
    assert "honest" not in harness.suspicions.held
    assert merchants[-1] in harness.suspicions.held
    assert harness.fails("new", is_first=False), "whoever it is"
    assert "new" in harness.suspicions.held
    assert not harness.fails("other", DNS)
    assert "other" not in harness.suspicions.held


def test_nobody_is_let_go_while_nobody_else_is_answered(harness: SuspicionsHarness) -> None:
    harness.suspects()
    for _ in range(100):
        harness.clock.advance(10 * MAX_SUSPICION)
        assert harness.suspicions.take_released() == []
        assert harness.fails("m1"), "what everybody fails does not count for however long"
    assert harness.suspicions.believed() == CONNECT


def test_all_are_let_go_when_one_of_them_is_answered(harness: SuspicionsHarness) -> None:
    merchants = harness.suspects()
    held = [merchant_id for merchant_id in merchants if merchant_id in harness.suspicions.held]
    harness.answers(held[0])
    assert sorted(harness.suspicions.take_released()) == sorted(held)
    assert not harness.suspicions.held
    assert harness.suspicions.take_released() == []
    assert not harness.fails("m1"), "it begins anew"


def test_an_answer_to_an_attempt_begun_before_proves_nothing(harness: SuspicionsHarness) -> None:
    begun = harness.clock.elapsed()
    merchants = harness.suspects()
    harness.answers(merchants[-1], started=begun)
    harness.works("honest", started=begun)
    harness.clock.advance(SILENCE)
    assert harness.suspicions.held
    assert harness.suspicions.believed() == CONNECT


def test_while_others_are_answered_nothing_is_believed_and_holds_double(harness: SuspicionsHarness) -> None:
    harness.suspects()
    tried: list[float] = []
    begun = harness.clock.elapsed()
    while harness.clock.elapsed() < begun + MAX_SUSPICION:
        harness.clock.advance(0.1)
        harness.works("honest")
        assert harness.suspicions.believed() is None
        if "m9" in harness.suspicions.take_released():
            tried.append(harness.clock.elapsed() - begun)
            assert harness.fails("m9"), "still excused"
    waits = [later - earlier for earlier, later in zip([0.0, *tried], tried, strict=False)]
    assert waits[0] == pytest.approx(MIN_HOLD, abs=0.3)
    assert waits[2] > 1.8 * waits[1]
    assert max(waits) <= MAX_HOLD + 0.3


def test_each_hold_ends_by_an_answer_of_its_own_time(harness: SuspicionsHarness) -> None:
    harness.suspects()
    harness.works("honest")
    harness.clock.advance(MIN_HOLD)
    assert "m9" in harness.suspicions.take_released()
    assert harness.fails("m9")
    harness.clock.advance(MAX_HOLD)
    assert harness.suspicions.take_released() == []
    harness.works("honest")
    harness.clock.advance(MIN_HOLD)
    assert harness.suspicions.take_released() == ["m9"]


def test_others_who_have_little_to_be_sent_are_waited_for(harness: SuspicionsHarness) -> None:
    harness.suspects()
    harness.works("honest")
    harness.clock.advance(SILENCE)
    assert harness.suspicions.believed() is None
    harness.clock.advance(WINDOW)
    assert harness.suspicions.believed() == CONNECT


def test_a_suspicion_ends_when_others_have_been_answered_for_long_enough(harness: SuspicionsHarness) -> None:
    merchants = harness.suspects()
    harness.works("honest")
    harness.clock.advance(MAX_SUSPICION)
    harness.works("honest")
    assert harness.fails("m1")
    harness.clock.advance(0.1)
    harness.works("honest")
    assert not harness.suspicions.held
    assert not any(harness.fails(merchant_id) for merchant_id in merchants * 10), "they are no witnesses"


def test_single_answers_at_its_beginning_do_not_end_it(harness: SuspicionsHarness) -> None:
    harness.suspects()
    harness.works("on a kept connection")
    harness.clock.advance(100 * MAX_SUSPICION)
    assert harness.fails("m1")
    assert harness.suspicions.believed() == CONNECT


def test_answers_on_kept_connections_say_nothing_about_names(harness: SuspicionsHarness) -> None:
    merchants = harness.suspects(f"{DNS}{NO_ADDRESS}")
    for _ in range(1000):
        harness.clock.advance(MAX_SUSPICION / 100)
        harness.answers("honest", is_fresh=False)
        harness.answers(merchants[0], is_fresh=False)
        assert harness.suspicions.take_released() == []
    assert harness.fails("m1", f"{DNS}{NO_ADDRESS}")
    assert harness.suspicions.believed() is None, "somebody is answered"
    harness.clock.advance(0.001)
    harness.answers(merchants[0])
    assert not harness.suspicions.held


def test_answers_on_kept_connections_speak_for_our_network(harness: SuspicionsHarness) -> None:
    merchants = harness.suspects(TIMEOUT)
    harness.answers(merchants[0], is_fresh=False)
    assert not harness.suspicions.held


def test_nothing_is_believed_before_others_had_time_to_be_answered(harness: SuspicionsHarness) -> None:
    merchants = harness.fleet(10)
    begun = harness.clock.elapsed()
    harness.clock.advance(10)
    for merchant_id in merchants:
        harness.fails(merchant_id, TIMEOUT, started=begun)
    assert harness.suspicions.held
    assert harness.suspicions.believed() is None
    harness.clock.advance(SILENCE)
    assert harness.suspicions.believed() == TIMEOUT


def test_who_was_excused_is_no_witness_until_it_accepts(harness: SuspicionsHarness) -> None:
    merchants = harness.suspects()
    harness.works("honest")
    harness.answers(merchants[-1])
    assert not harness.suspicions.held
    harness.clock.advance(WINDOW + 1)
    assert not any(harness.fails(merchant_id) for merchant_id in merchants)
    harness.works(*merchants)
    harness.clock.advance(WINDOW + 1)
    assert any(harness.fails(merchant_id) for merchant_id in merchants)


def test_two_marks_are_suspected_apart(harness: SuspicionsHarness) -> None:
    others = harness.fleet(30, "n")
    some = harness.suspects(TIMEOUT)
    for merchant_id in others:
        harness.fails(merchant_id, DNS)
    assert others[-1] in harness.suspicions.held
    harness.clock.advance(0.001)
    harness.answers(others[-1])
    assert others[-2] not in harness.suspicions.held
    assert some[-1] in harness.suspicions.held


def test_a_fault_of_ours_is_seen_beside_merchants_that_collude(harness: SuspicionsHarness) -> None:
    colluders = harness.fleet(200, "colluder")
    honest = harness.fleet(10, "honest")
    for number in range(5000):
        harness.clock.advance(0.01)
        harness.fails(colluders[number % 200])
        harness.works(honest[number % 10])
    counted = 0
    for number in range(400):
        harness.clock.advance(0.01)
        harness.fails(colluders[number % 200])
        counted += not harness.fails(honest[number % 10])
    assert counted <= len(honest), "no honest merchant loses more than one attempt"


def test_busy_origins_do_not_outweigh_names_not_found(harness: SuspicionsHarness) -> None:
    merchants, busy = harness.fleet(1000), harness.fleet(20, "busy")
    counted = 0
    for merchant_id in merchants:
        harness.clock.advance(0.02)
        for other in busy:
            harness.works(other, is_fresh=False)
        counted += not harness.fails(merchant_id, f"{DNS}{NO_ADDRESS}", origin=f"{merchant_id}.example")
    assert counted < MIN_ORIGINS


def test_names_that_were_looked_up_outweigh_some_that_cannot_be(harness: SuspicionsHarness) -> None:
    merchants, well = harness.fleet(MIN_ORIGINS), harness.fleet(MIN_ORIGINS, "well")
    for merchant_id, other in zip(merchants, well, strict=True):
        harness.clock.advance(0.02)
        harness.works(other)
        assert not harness.fails(merchant_id, f"{DNS}{NO_ADDRESS}", origin=f"{merchant_id}.example")


def renew(harness: SuspicionsHarness, merchants: list[str]) -> None:
    """Have merchants accept something, and then fail alike until that is suspected again."""
    harness.works(*merchants)
    harness.clock.advance(WINDOW + 1)
    for merchant_id in merchants:
        harness.fails(merchant_id)
    harness.clock.advance(0.001)


def answer_others(harness: SuspicionsHarness, seconds: float) -> None:
    for _ in range(round(seconds) + 1):
        harness.works("other")
        harness.clock.advance(1)


@pytest.mark.parametrize("ends_it", [True, False], ids=["one of them answers", "it lasts"])
def test_who_was_excused_in_vain_is_not_excused_or_held_again_for_long(*, ends_it: bool) -> None:
    harness = SuspicionsHarness()
    merchants = harness.suspects()
    assert harness.fails("honest", is_first=False), "one bad event, at a bad time"
    answer_others(harness, MAX_HOLD + 1 if ends_it else MAX_SUSPICION + 1)
    if ends_it:
        harness.works(merchants[0])
    assert not harness.suspicions.held
    renew(harness, merchants)
    for merchant_id in (*merchants, "honest"):
        assert not harness.fails(merchant_id)
        assert merchant_id not in harness.suspicions.held
    harness.clock.advance(RECENT)
    renew(harness, merchants)
    assert harness.fails("honest")


def test_merchants_that_never_fail_are_not_remembered_for_ever(harness: SuspicionsHarness) -> None:
    for number in range(5000):
        harness.works(f"m{number}")
        harness.clock.advance(1)
    assert len(harness.evidence._working) <= RECENT + 1
