"""Which event is next where order is kept by charge."""

import json
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import make_event
from webhook_dispatcher.dispatch.charges import Charges, charge_of
from webhook_dispatcher.domain.event import Event


def of_charge(seq: int, charge: object) -> Event:
    return make_event(seq, object=json.dumps({"id": charge}).encode())


@pytest.mark.parametrize(
    ("text", "charge"),
    [
        (b'{"id":"ch_1"}', "ch_1"),
        (b'{"id":"a","n":1.10,"id":"b"}', "b"),
        ('{"id":"\N{CYRILLIC SMALL LETTER A}"}'.encode(), "\N{CYRILLIC SMALL LETTER A}"),
        (b'{"id":1}', None),
        (b'{"id":null}', None),
        (b'{"ID":"ch_1"}', None),
        (b'{"id":"ch_1","n":' + b"9" * 5000 + b"}", "ch_1"),
        (b'{"n":' + b"[" * 100_000, None),
        (b"[]", None),
        (b'{"id":"\xff"}', None),
        (b"", None),
    ],
    ids=range(11),
)
def test_a_charge_is_known_by_a_text_and_all_else_is_one(text: bytes, charge: str | None) -> None:
    assert charge_of(make_event(1, object=text)) == charge


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=20), st.integers(2, 4), st.randoms())
def test_each_charge_goes_in_order_one_at_a_time_and_none_waits_for_another(
    of: list[str | None], at_once: int, random: object
) -> None:
    """Whoever ends first: never two of a charge, never more than may be, and never fewer than could be."""
    charges = Charges(at_once)
    run = deque(of_charge(seq, charge) for seq, charge in enumerate(of, start=1))
    under_way: list[Event] = []
    started: dict[str | None, list[int]] = {}
    while run or under_way:
        while (place := charges.place_of_next(run, 0.0)) is not None:
            event = run[place]
            del run[place]
            charges.start(event, 0.0)
            under_way.append(event)
            started.setdefault(charge_of(event), []).append(event.seq)
        busy = {charge_of(event) for event in under_way}
        assert len(busy) == len(under_way) <= at_once
        assert len(under_way) == at_once or {charge_of(event) for event in run} <= busy
        charges.end(under_way.pop(random.randrange(len(under_way))))  # type: ignore[attr-defined]
    assert all(seqs == sorted(seqs) for seqs in started.values())
    assert sum(map(len, started.values())) == len(of)


def test_the_oldest_attempt_says_when_one_is_slow() -> None:
    charges = Charges(3)
    assert charges.slow_in(5.0) is None
    first, second = of_charge(1, "a"), of_charge(2, "b")
    charges.start(first, 5.0)
    charges.start(second, 5.5)
    assert (charges.slow_in(5.25), charges.slow_in(6.5)) == (0.75, -0.5)
    charges.start(of_charge(3, "c"), 5.75)
    run = [of_charge(4, "a"), of_charge(5, "d")]
    assert (charges.place_of_next(run, 5.99), charges.place_of_next(run, 6.0)) == (None, 1)
    charges.start(of_charge(5, "d"), 6.0)
    assert charges.place_of_next([of_charge(6, "e")], 99.0) is None, "one more, however many are slow"
    charges.end(first)
    assert charges.slow_in(6.5) == 0.0
