"""The merchants that may have work, and the memory of bodies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.dispatch import finding
from webhook_dispatcher.dispatch.finding import NO_STRAGGLER, ReadyLanes
from webhook_dispatcher.dispatch.health.lanes import Health, LaneHealth, Slots
from webhook_dispatcher.domain.verdict import Outcome

NOTICES = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 50) | st.just(NO_STRAGGLER)))
KINDS = st.lists(st.sampled_from(Health), max_size=30)


def make_lanes(**standings: Health) -> ReadyLanes:
    known = LaneHealth(FakeClock())
    for lane, standing in standings.items():
        teach(known, lane, standing)
    return ReadyLanes(known)


def teach(standings: LaneHealth, lane: str, standing: Health) -> None:
    """Let a merchant that nothing was known of have a standing."""
    if standing is not Health.UNKNOWN:
        outcome = Outcome.DELIVERED if standing is Health.HEALTHY else Outcome.TIMEOUT
        standings.learn(lane, outcome, 0.1)


def room(most: int = 1000, **taken: int) -> Slots:
    return Slots(most, {Health[kind.upper()]: many for kind, many in taken.items()})


def test_beyond_the_bound_new_merchants_are_left_to_the_sweep() -> None:
    lanes = make_lanes()
    for number in range(finding.MAX_READY + 1):
        lanes.add(f"m{number}", 5)
    lanes.add("m0", 1)
    assert (len(lanes.kinds), lanes.take(1, room())) == (finding.MAX_READY, {"m0": 1})


@given(NOTICES, st.integers(0, 10))
def test_every_merchant_is_taken_once_with_its_lowest_head(notices: list[tuple[str, int]], most: int) -> None:
    lanes = make_lanes()
    for lane, seq in notices:
        lanes.add(lane, seq)
    first, rest = lanes.take(most, room()), lanes.take(100, room())
    assert not first.keys() & rest.keys()
    lowest = {name: min(seq for other, seq in notices if other == name) for name, _ in notices}
    assert (first | rest, list(first | rest)) == (lowest, list(dict(notices)))


def test_slow_ones_do_not_stand_in_front_of_others() -> None:
    slow = [f"s{number}" for number in range(10)]
    lanes = make_lanes(**dict.fromkeys(slow, Health.SLOW), good=Health.HEALTHY)
    for lane in (*slow, "unknown", "good"):
        lanes.add(lane)
    taken = lanes.take(9, room(8))
    assert list(taken) == ["s0", "s1", "s2", "s3", "unknown", "good"]
    assert lanes.waiting(room(8, slow=4)) == 0
    assert lanes.waiting(room(8, slow=3)) == len(lanes.kinds) == 6
    assert list(lanes.take(9, room(8, slow=3, healthy=4))) == ["s4"]


def test_those_that_wait_want_no_more_slots_than_they_may_have() -> None:
    lanes = make_lanes(a=Health.SLOW, b=Health.SLOW, c=Health.SLOW, d=Health.HEALTHY)
    for lane in "abcd":
        lanes.add(lane, 1)
    slots = room(8, slow=3)
    assert (lanes.waiting(slots), lanes.wanted(slots)) == (4, 2)
    assert lanes.wanted(room(8, slow=6)) == 1


def test_who_was_good_and_has_become_slow_waits_with_those() -> None:
    lanes = make_lanes(a=Health.HEALTHY)
    lanes.add("a", 3)
    teach(lanes._health, "a", Health.SLOW)
    full = room(8, slow=4)
    assert (lanes.waiting(full), lanes.take(9, full), lanes.waiting(full)) == (1, {}, 0)
    assert lanes.take(9, room(8, slow=3)) == {"a": 3}


def test_who_has_become_better_leaves_the_line_of_slow_ones_when_heard_of_again() -> None:
    lanes = make_lanes(a=Health.SLOW)
    lanes.add("a", 3)
    teach(lanes._health, "a", Health.HEALTHY)
    lanes.add("a", 5)
    assert (len(lanes.kinds), lanes.take(9, room(8, slow=8 - 1))) == (1, {"a": 3})


@given(KINDS, st.integers(1, 12), st.data())
def test_nobody_starves_and_each_kind_has_order(kinds: list[Health], most: int, data: st.DataObject) -> None:
    names = {f"m{number}": kind for number, kind in enumerate(kinds)}
    lanes = make_lanes(**names)
    for lane in names:
        lanes.add(lane)
    order: list[str] = []
    held: list[str] = []
    for _ in range(200):
        taken = lanes.take(most, Slots(most, lanes._health.tally(held)))
        order += taken
        held += taken
        # Places become free one by one, in any order; whoever had one wants another at once.
        if held:
            back = held.pop(data.draw(st.integers(0, len(held) - 1)))
            lanes.add(back)
        if len(set(order)) == len(names):
            break
    firsts = list(dict.fromkeys(order))
    assert sorted(firsts) == sorted(names)
    for kind in Health:
        assert [name for name in firsts if names[name] is kind] == [n for n in names if names[n] is kind]


def sweep(lanes: ReadyLanes, names: list[str]) -> None:
    lanes.begin_sweep()
    for name in names:
        lanes.add(name, is_swept=True)


def test_places_in_a_full_line_go_by_the_order_of_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_READY", 3)
    names = [f"m{number}" for number in range(8)]
    lanes = make_lanes()
    served: list[str] = []
    for _ in range(12):
        sweep(lanes, names)
        served += lanes.take(1, room())  # it owes more: the sweep finds it again
        lanes.add("new", 1)  # has events all the time, and finds no place before those whose turn it is
    assert set(names) <= set(served)


def test_a_round_that_finds_nobody_whose_turn_it_is_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_READY", 2)
    lanes = make_lanes()
    sweep(lanes, ["a", "b", "z"])
    lanes.take(1, room())
    sweep(lanes, ["a", "c"])  # z, who was refused, owes nothing any more
    assert len(lanes.kinds) == 1
    sweep(lanes, ["a", "c"])
    assert list(lanes.take(9, room())) == ["b", "a"]


def test_a_line_that_has_emptied_lets_everybody_in() -> None:
    lanes = make_lanes()
    for number in range(finding.MAX_READY + 1):
        lanes.add(f"m{number}")
    lanes.take(finding.MAX_READY, room(10**6))
    assert lanes.add("x")


def test_a_full_line_of_slow_ones_refuses_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_READY", 1)
    lanes = make_lanes(a=Health.SLOW, b=Health.SLOW, c=Health.HEALTHY)
    assert [lanes.add(name) for name in "abcd"] == [True, False, True, True]
    assert list(lanes.take(9, room(8, slow=4))) == ["c", "d"]
