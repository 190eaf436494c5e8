"""What attempts say about merchants, and how many places each kind of merchant may take."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.dispatch.health import lanes as standing
from webhook_dispatcher.dispatch.health.lanes import FORGET_AFTER, SLOW, Health, LaneHealth, Slots
from webhook_dispatcher.domain.verdict import Outcome

QUICK = SLOW / 10
GOOD, UNKNOWN, SLOW_ONE = Health.HEALTHY, Health.UNKNOWN, Health.SLOW
COUNTS = st.fixed_dictionaries({kind: st.integers(0, 60) for kind in Health})


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        *(([], UNKNOWN), ([(Outcome.DELIVERED, QUICK)], GOOD)),
        *(([(Outcome.DELIVERED, SLOW * 1.01)], SLOW_ONE), ([(Outcome.STATUS, SLOW * 1.01)], SLOW_ONE)),
        *(([(Outcome.TIMEOUT, QUICK)], SLOW_ONE), ([(Outcome.CONNECT, QUICK)], UNKNOWN)),
        ([(Outcome.DELIVERED, QUICK), (Outcome.STATUS, QUICK)], UNKNOWN),
        ([(Outcome.TIMEOUT, SLOW * 10), (Outcome.STATUS, QUICK)], UNKNOWN),
        ([(Outcome.DELIVERED, QUICK), (Outcome.TIMEOUT, SLOW * 10)], SLOW_ONE),
        ([(Outcome.TIMEOUT, SLOW * 10), (Outcome.DELIVERED, QUICK)], GOOD),
        ([(Outcome.DELIVERED, QUICK), (Outcome.UNSENDABLE, 0.0)], GOOD),
    ],
)
def test_the_latest_attempts_decide(attempts: list[tuple[Outcome, float]], expected: Health) -> None:
    standings = LaneHealth(FakeClock())
    for outcome, seconds in attempts:
        standings.learn("m", outcome, seconds)
    assert standings.of("m") is expected
    assert standings.tally(["m"]) == Counter({kind: int(kind is expected) for kind in Health})


def test_who_took_much_of_the_event_loop_is_slow_until_the_next_attempt() -> None:
    standings = LaneHealth(FakeClock())
    standings.learn("m", Outcome.DELIVERED, QUICK, is_costly=True)
    assert standings.of("m") is SLOW_ONE
    standings.learn("m", Outcome.DELIVERED, QUICK)
    assert standings.of("m") is GOOD


def test_an_attempt_under_way_for_long_makes_slow_whoever_was_good() -> None:
    clock = FakeClock()
    standings = LaneHealth(clock)
    for name in "abc":
        standings.learn(name, Outcome.DELIVERED, QUICK)
    standings.started("a")
    clock.advance(SLOW / 2)
    standings.started("b")
    landed = standings.started("c")
    assert standings.tally(["a", "b", "c"])[GOOD] == 3
    clock.advance(SLOW / 2)
    standings.finished(landed)
    assert [standings.of(name) for name in "abc"] == [SLOW_ONE, GOOD, GOOD]
    clock.advance(SLOW)
    assert [standings.of(name) for name in "abc"] == [SLOW_ONE, SLOW_ONE, GOOD]


def test_an_attempt_is_watched_however_late_it_begins() -> None:
    clock = FakeClock()
    standings = LaneHealth(clock)
    standings.learn("a", Outcome.DELIVERED, QUICK)
    assert standings.of("a") is GOOD
    clock.advance(SLOW * 2)
    assert standings.of("a") is GOOD
    standings.started("a")
    clock.advance(SLOW)
    assert standings.of("a") is SLOW_ONE


def test_what_was_known_is_forgotten_after_a_while() -> None:
    clock = FakeClock()
    standings = LaneHealth(clock)
    standings.learn("good", Outcome.DELIVERED, QUICK)
    standings.learn("slow", Outcome.TIMEOUT, SLOW)
    clock.advance(FORGET_AFTER / 2)
    standings.learn("later", Outcome.TIMEOUT, SLOW)
    assert standings.tally(["good", "slow", "later"]) == {GOOD: 1, SLOW_ONE: 2, UNKNOWN: 0}
    clock.advance(FORGET_AFTER / 2)
    assert standings.tally(["good", "slow", "later"]) == {GOOD: 0, SLOW_ONE: 1, UNKNOWN: 2}
    assert standings.of("later") is SLOW_ONE


def test_memory_is_bounded_and_keeps_who_was_heard_of_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "MAX_KNOWN", 3)
    standings = LaneHealth(FakeClock())
    for name in "abc":
        standings.learn(name, Outcome.TIMEOUT, SLOW)
    for name in "axyz":
        standings.learn(name, Outcome.DELIVERED, QUICK)
    standings.learn("b", Outcome.TIMEOUT, SLOW)
    standings.learn("d", Outcome.TIMEOUT, SLOW)
    standings.learn("e", Outcome.TIMEOUT, SLOW)
    assert [standings.of(name) for name in "cbde"] == [UNKNOWN, SLOW_ONE, SLOW_ONE, SLOW_ONE]
    assert [standings.of(name) for name in "axyz"] == [UNKNOWN, GOOD, GOOD, GOOD]


@pytest.mark.parametrize(
    ("most", "slow", "doubtful"), [(1, 1, 1), (2, 1, 2), (8, 4, 7), (40, 20, 35), (1000, 500, 875)]
)
def test_slow_ones_have_half_and_good_ones_the_last_eighth(most: int, slow: int, doubtful: int) -> None:
    room = Slots(most, {})
    assert [room.left(kind) for kind in (SLOW_ONE, UNKNOWN, GOOD)] == [slow, doubtful, most]


def test_those_who_turned_out_to_be_slow_take_from_their_own_kind() -> None:
    room = Slots(40, {SLOW_ONE: 35})
    assert [room.left(kind) for kind in (SLOW_ONE, UNKNOWN, GOOD)] == [-15, 0, 5]


@pytest.mark.parametrize(
    ("fullness", "expected"), [(0.4, [20, 35, 40]), (0.5, [0, 35, 40]), (0.9, [0, 0, 40])]
)
def test_the_shares_hold_for_memory_too(fullness: float, expected: list[int]) -> None:
    room = Slots(40, {}, fullness)
    assert [room.left(kind) for kind in (SLOW_ONE, UNKNOWN, GOOD)] == expected


@given(st.integers(1, 100), COUNTS, st.lists(st.sampled_from(Health)))
def test_nobody_takes_more_than_its_share(most: int, taken: dict[Health, int], asks: list[Health]) -> None:
    room, given_out = Slots(most, taken), Counter(taken)
    for kind in asks:
        if room.left(kind) > 0:
            room.take(kind)
            given_out[kind] += 1
            assert given_out.total() <= most
            if kind is not GOOD:
                assert given_out[SLOW_ONE] + given_out[UNKNOWN] <= most - most // 8
            if kind is SLOW_ONE:
                assert given_out[SLOW_ONE] <= max(1, most // 2)
    assert room.left(SLOW_ONE) <= room.left(UNKNOWN) <= room.left(GOOD)
