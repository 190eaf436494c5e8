"""What many that fail alike bring about: who is excused, who is held back, and for how long."""

import pytest

from tests.unit.fakes import FakeClock
from webhook_dispatcher.dispatch.health.merchants import (
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

DNS, CONNECT, TIMEOUT = "dns", "connect", "timeout"


class Office:
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


def test_one_merchant_that_fails_is_its_own_fault() -> None:
    office = Office()
    office.fleet(20)
    assert not any(office.fails("m1") for _ in range(50))


def test_a_third_of_all_merchants_failing_alike_is_their_fault() -> None:
    office = Office()
    for number, merchant_id in enumerate(office.fleet(60) * 3):
        office.clock.advance(0.001)
        if number % 3:
            office.works(merchant_id)
        else:
            assert not office.fails(merchant_id)


def test_nearly_all_that_worked_failing_alike_is_suspicious() -> None:
    office = Office()
    excused = [office.fails(merchant_id) for merchant_id in office.fleet(MIN_ORIGINS + 1)]
    assert excused == [False] * (MIN_ORIGINS - 1) + [True] * 2


def test_merchants_that_fail_in_different_ways_are_not_suspicious() -> None:
    office = Office()
    marks = [DNS, CONNECT, TIMEOUT]
    for number, merchant_id in enumerate(office.fleet(40)):
        assert not office.fails(merchant_id, marks[number % 3])


def test_merchants_that_never_worked_prove_nothing() -> None:
    office = Office()
    assert not any(office.fails(f"new{number}") for number in range(100))


def test_merchants_that_worked_too_long_ago_prove_nothing() -> None:
    office = Office()
    merchants = office.fleet(20)
    office.clock.advance(RECENT)
    assert not any(office.fails(merchant_id) for merchant_id in merchants)


def test_retries_prove_nothing_about_others() -> None:
    office = Office()
    assert not any(office.fails(merchant_id, is_first=False) for merchant_id in office.fleet(20))


def test_results_of_long_ago_are_not_compared_with_todays() -> None:
    office = Office()
    for merchant_id in office.fleet(20):
        assert not office.fails(merchant_id)
        office.clock.advance(WINDOW / (MIN_ORIGINS - 1) + 0.1)


def test_late_failures_of_attempts_begun_before_others_succeeded_do_not_outweigh_them() -> None:
    office = Office()
    merchants = office.fleet(60)
    begun = office.clock.elapsed()
    office.clock.advance(1)
    office.works(*merchants[30:])
    assert not any(office.fails(merchant_id, started=begun) for merchant_id in merchants[:30])


@pytest.mark.parametrize("pause", [0.001, 0.1, 2.0])
def test_a_fault_of_ours_uses_up_no_more_than_a_sample_at_any_rate(pause: float) -> None:
    office = Office()
    merchants = office.fleet(1000)
    for merchant_id in merchants[:500]:
        office.clock.advance(pause / 100)
        office.works(merchant_id)
    counted = 0
    for merchant_id in merchants[500:]:
        office.clock.advance(pause)
        counted += not office.fails(merchant_id)
    assert 0 < counted <= SAMPLE


def test_a_hundred_merchants_of_one_network_are_one_witness() -> None:
    office = Office()
    merchants = office.fleet(100)
    office.networks = dict.fromkeys(merchants, "203.0.113.0/24")
    assert not any(office.fails(merchant_id) for merchant_id in merchants)


def test_names_that_cannot_be_looked_up_outweigh_the_networks_that_answered_before() -> None:
    office = Office()
    merchants = office.fleet(MIN_ORIGINS)
    office.networks = dict.fromkeys(merchants, "203.0.113.0/24")
    office.works(*merchants)
    office.clock.advance(0.001)
    excused = [office.fails(merchant_id, DNS, origin=f"{merchant_id}.example") for merchant_id in merchants]
    assert excused == [False] * (MIN_ORIGINS - 1) + [True]


def test_whoever_shows_the_mark_is_held_back_and_nobody_else() -> None:
    office = Office()
    merchants = office.suspects()
    office.works("honest")
    assert "honest" not in office.suspicions.held
    assert merchants[-1] in office.suspicions.held
    assert office.fails("new", is_first=False), "whoever it is"
    assert "new" in office.suspicions.held
    assert not office.fails("other", DNS)
    assert "other" not in office.suspicions.held


def test_nobody_is_let_go_while_nobody_else_is_answered() -> None:
    office = Office()
    office.suspects()
    for _ in range(100):
        office.clock.advance(10 * MAX_SUSPICION)
        assert office.suspicions.take_released() == []
        assert office.fails("m1"), "what everybody fails does not count for however long"
    assert office.suspicions.believed() == CONNECT


def test_all_are_let_go_when_one_of_them_is_answered() -> None:
    office = Office()
    merchants = office.suspects()
    held = [merchant_id for merchant_id in merchants if merchant_id in office.suspicions.held]
    office.answers(held[0])
    assert sorted(office.suspicions.take_released()) == sorted(held)
    assert not office.suspicions.held
    assert office.suspicions.take_released() == []
    assert not office.fails("m1"), "it begins anew"


def test_an_answer_to_an_attempt_begun_before_proves_nothing() -> None:
    office = Office()
    begun = office.clock.elapsed()
    merchants = office.suspects()
    office.answers(merchants[-1], started=begun)
    office.works("honest", started=begun)
    office.clock.advance(SILENCE)
    assert office.suspicions.held
    assert office.suspicions.believed() == CONNECT


def test_while_others_are_answered_nothing_is_believed_and_holds_double() -> None:
    office = Office()
    office.suspects()
    tried: list[float] = []
    begun = office.clock.elapsed()
    while office.clock.elapsed() < begun + MAX_SUSPICION:
        office.clock.advance(0.1)
        office.works("honest")
        assert office.suspicions.believed() is None
        if "m9" in office.suspicions.take_released():
            tried.append(office.clock.elapsed() - begun)
            assert office.fails("m9"), "still excused"
    waits = [later - earlier for earlier, later in zip([0.0, *tried], tried, strict=False)]
    assert waits[0] == pytest.approx(MIN_HOLD, abs=0.3)
    assert waits[2] > 1.8 * waits[1]
    assert max(waits) <= MAX_HOLD + 0.3


def test_each_hold_ends_by_an_answer_of_its_own_time() -> None:
    office = Office()
    office.suspects()
    office.works("honest")
    office.clock.advance(MIN_HOLD)
    assert "m9" in office.suspicions.take_released()
    assert office.fails("m9")
    office.clock.advance(MAX_HOLD)
    assert office.suspicions.take_released() == []
    office.works("honest")
    office.clock.advance(MIN_HOLD)
    assert office.suspicions.take_released() == ["m9"]


def test_others_who_have_little_to_be_sent_are_waited_for() -> None:
    office = Office()
    office.suspects()
    office.works("honest")
    office.clock.advance(SILENCE)
    assert office.suspicions.believed() is None
    office.clock.advance(WINDOW)
    assert office.suspicions.believed() == CONNECT


def test_a_suspicion_ends_when_others_have_been_answered_for_long_enough() -> None:
    office = Office()
    merchants = office.suspects()
    office.works("honest")
    office.clock.advance(MAX_SUSPICION)
    office.works("honest")
    assert office.fails("m1")
    office.clock.advance(0.1)
    office.works("honest")
    assert not office.suspicions.held
    assert not any(office.fails(merchant_id) for merchant_id in merchants * 10), "they are no witnesses"


def test_single_answers_at_its_beginning_do_not_end_it() -> None:
    office = Office()
    office.suspects()
    office.works("on a kept connection")
    office.clock.advance(100 * MAX_SUSPICION)
    assert office.fails("m1")
    assert office.suspicions.believed() == CONNECT


def test_answers_on_kept_connections_say_nothing_about_names() -> None:
    office = Office()
    merchants = office.suspects(f"{DNS}{NO_ADDRESS}")
    for _ in range(1000):
        office.clock.advance(MAX_SUSPICION / 100)
        office.answers("honest", is_fresh=False)
        office.answers(merchants[0], is_fresh=False)
        assert office.suspicions.take_released() == []
    assert office.fails("m1", f"{DNS}{NO_ADDRESS}")
    assert office.suspicions.believed() is None, "somebody is answered"
    office.clock.advance(0.001)
    office.answers(merchants[0])
    assert not office.suspicions.held


def test_answers_on_kept_connections_speak_for_our_network() -> None:
    office = Office()
    merchants = office.suspects(TIMEOUT)
    office.answers(merchants[0], is_fresh=False)
    assert not office.suspicions.held


def test_nothing_is_believed_before_others_had_time_to_be_answered() -> None:
    office = Office()
    merchants = office.fleet(10)
    begun = office.clock.elapsed()
    office.clock.advance(10)
    for merchant_id in merchants:
        office.fails(merchant_id, TIMEOUT, started=begun)
    assert office.suspicions.held
    assert office.suspicions.believed() is None
    office.clock.advance(SILENCE)
    assert office.suspicions.believed() == TIMEOUT


def test_who_was_excused_beside_others_is_no_witness_until_it_accepts_something() -> None:
    office = Office()
    merchants = office.suspects()
    office.works("honest")
    office.answers(merchants[-1])
    assert not office.suspicions.held
    office.clock.advance(WINDOW + 1)
    assert not any(office.fails(merchant_id) for merchant_id in merchants)
    office.works(*merchants)
    office.clock.advance(WINDOW + 1)
    assert any(office.fails(merchant_id) for merchant_id in merchants)


def test_two_marks_are_suspected_apart() -> None:
    office = Office()
    others = office.fleet(30, "n")
    some = office.suspects(TIMEOUT)
    for merchant_id in others:
        office.fails(merchant_id, DNS)
    assert others[-1] in office.suspicions.held
    office.clock.advance(0.001)
    office.answers(others[-1])
    assert others[-2] not in office.suspicions.held
    assert some[-1] in office.suspicions.held


def test_a_fault_of_ours_is_seen_beside_merchants_that_collude() -> None:
    office = Office()
    colluders = office.fleet(200, "colluder")
    honest = office.fleet(10, "honest")
    for number in range(5000):
        office.clock.advance(0.01)
        office.fails(colluders[number % 200])
        office.works(honest[number % 10])
    counted = 0
    for number in range(400):
        office.clock.advance(0.01)
        office.fails(colluders[number % 200])
        counted += not office.fails(honest[number % 10])
    assert counted <= len(honest), "no honest merchant loses more than one attempt"


def test_busy_origins_on_kept_connections_do_not_outweigh_names_that_cannot_be_looked_up() -> None:
    office = Office()
    merchants, busy = office.fleet(1000), office.fleet(20, "busy")
    counted = 0
    for merchant_id in merchants:
        office.clock.advance(0.02)
        for other in busy:
            office.works(other, is_fresh=False)
        counted += not office.fails(merchant_id, f"{DNS}{NO_ADDRESS}", origin=f"{merchant_id}.example")
    assert counted < MIN_ORIGINS


def test_names_that_were_looked_up_outweigh_some_that_cannot_be() -> None:
    office = Office()
    merchants, well = office.fleet(MIN_ORIGINS), office.fleet(MIN_ORIGINS, "well")
    for merchant_id, other in zip(merchants, well, strict=True):
        office.clock.advance(0.02)
        office.works(other)
        assert not office.fails(merchant_id, f"{DNS}{NO_ADDRESS}", origin=f"{merchant_id}.example")


def renew(office: Office, merchants: list[str]) -> None:
    """Have merchants accept something, and then fail alike until that is suspected again."""
    office.works(*merchants)
    office.clock.advance(WINDOW + 1)
    for merchant_id in merchants:
        office.fails(merchant_id)
    office.clock.advance(0.001)


def answer_others(office: Office, seconds: float) -> None:
    for _ in range(round(seconds) + 1):
        office.works("other")
        office.clock.advance(1)


@pytest.mark.parametrize("ends_it", [True, False], ids=["one of them answers", "it lasts"])
def test_who_was_excused_in_vain_is_not_excused_or_held_again_for_long(*, ends_it: bool) -> None:
    office = Office()
    merchants = office.suspects()
    assert office.fails("honest", is_first=False), "one bad event, at a bad time"
    answer_others(office, MAX_HOLD + 1 if ends_it else MAX_SUSPICION + 1)
    if ends_it:
        office.works(merchants[0])
    assert not office.suspicions.held
    renew(office, merchants)
    for merchant_id in (*merchants, "honest"):
        assert not office.fails(merchant_id)
        assert merchant_id not in office.suspicions.held
    office.clock.advance(RECENT)
    renew(office, merchants)
    assert office.fails("honest")


def test_merchants_that_never_fail_are_not_remembered_for_ever() -> None:
    office = Office()
    for number in range(5000):
        office.works(f"m{number}")
        office.clock.advance(1)
    assert len(office.evidence._working) <= RECENT + 1
