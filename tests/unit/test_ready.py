"""The merchants that may have work, and the memory of bodies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import make_event
from webhook_dispatcher.dispatch import ready
from webhook_dispatcher.dispatch.bodies import Bodies
from webhook_dispatcher.dispatch.ready import NO_STRAGGLER, ReadyLanes

NOTICES = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 50)))


def test_who_came_first_is_taken_first() -> None:
    lanes = ReadyLanes()
    for merchant_id, seq in (("b", 5), ("a", 6), ("b", 7), ("c", 8)):
        lanes.add(merchant_id, seq)
    assert list(lanes.take(2).items()) == [("b", 5), ("a", 6)]
    assert lanes.take(2) == {"c": 8}
    assert lanes.take(2) == {}


def test_a_lower_head_keeps_the_place() -> None:
    lanes = ReadyLanes()
    lanes.add("a")
    lanes.add("b", 3)
    lanes.add("a", 2)
    assert list(lanes.take(9).items()) == [("a", 2), ("b", 3)]


def test_a_merchant_without_a_known_head_lowers_nothing() -> None:
    lanes = ReadyLanes()
    lanes.add("a", 4)
    lanes.add("a")
    lanes.add("b")
    assert lanes.take(9) == {"a": 4, "b": NO_STRAGGLER}


def test_what_was_taken_in_vain_is_put_back_with_the_lowest_head() -> None:
    lanes = ReadyLanes()
    lanes.add("a", 4)
    heads = lanes.take(1)
    lanes.add("a", 9)
    lanes.give_back(heads)
    assert lanes.take(9) == {"a": 4}


def test_beyond_the_bound_new_merchants_are_left_to_the_sweep() -> None:
    lanes = ReadyLanes()
    for number in range(ready.MOST_READY + 1):
        lanes.add(f"m{number}", 5)
    lanes.add("m0", 1)
    assert len(lanes) == ready.MOST_READY
    assert lanes.take(1) == {"m0": 1}


@given(NOTICES, st.integers(0, 10))
def test_every_merchant_is_taken_once_with_its_lowest_head(notices: list[tuple[str, int]], most: int) -> None:
    lanes = ReadyLanes()
    for merchant_id, seq in notices:
        lanes.add(merchant_id, seq)
    first, rest = lanes.take(most), lanes.take(100)
    assert not first.keys() & rest.keys()
    lowest = {name: min(seq for other, seq in notices if other == name) for name, _ in notices}
    assert first | rest == lowest
    assert list(first | rest) == list(dict(notices))


@pytest.mark.parametrize(("held", "has_room"), [(0, True), (9, True), (10, False), (30, False)])
def test_bodies_have_room_below_their_bound(held: int, has_room: bool) -> None:
    bodies = Bodies(10)
    event = make_event(1, object=b"x" * held)
    bodies.hold(event)
    assert bodies.has_room() is has_room
    bodies.free(event)
    assert bodies.held == 0
