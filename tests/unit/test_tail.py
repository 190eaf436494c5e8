"""Following the outbox's numbers: what is committed in time is seen, and nothing is settled too soon."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW
from webhook_dispatcher.dispatch import finding
from webhook_dispatcher.dispatch.finding import FIRST_RECHECK, MAX_GAP_AGE, MAX_RECHECK_WAIT, Tail
from webhook_dispatcher.domain.claim import Arrival, Arrivals

FOREVER = 1e9


@dataclass
class Transaction:
    """Numbers taken together at `begins`, visible from `commits`; `commits` is None when rolled back."""

    low: int
    high: int
    begins: float
    ends: float
    is_committed: bool


@dataclass
class Outbox:
    """Which numbers are visible when, and which transactions are open."""

    transactions: list[Transaction] = field(default_factory=list)
    server_started_at: datetime = NOW

    def take(self, count: int, begins: float, lasts: float, is_committed: bool) -> None:
        low = self.transactions[-1].high + 1 if self.transactions else 1
        self.transactions.append(Transaction(low, low + count - 1, begins, begins + lasts, is_committed))

    def visible(self, now: float) -> list[Arrival]:
        done = [one for one in self.transactions if one.is_committed and one.ends <= now]
        return [Arrival(seq, "m") for one in done for seq in range(one.low, one.high + 1)]

    def look(self, cursor: int | None, now: float, most: int = 10**6) -> Arrivals:
        begun = [number for number, one in enumerate(self.transactions, 1) if one.begins <= now]
        still_open = [number for number in begun if self.transactions[number - 1].ends > now]
        behind = [arrival for arrival in self.visible(now) if cursor is not None and arrival.seq > cursor]
        return Arrivals(
            last_seq=self.transactions[begun[-1] - 1].high if begun else 0,
            oldest_open=min(still_open, default=len(begun) + 1),
            next_transaction=len(begun) + 1,
            database_now=NOW,
            server_started_at=self.server_started_at,
            visible=tuple(behind[:most]),
            is_cut=len(behind) >= most,
        )


def step(tail: Tail, outbox: Outbox, now: float, most: int = 10**6) -> list[int]:
    """Look once, as the dispatcher does; return what was reported."""
    seen = list(tail.observe(outbox.look(tail.cursor, now, most), now))
    gaps = tail.due_gaps(now)
    found = [one for one in outbox.visible(now) if any(low <= one.seq <= high for low, high in gaps)]
    tail.observe_gaps(found, now)
    return [arrival.seq for arrival in [*seen, *found]]


def test_the_first_look_only_finds_out_where_the_sequence_stands() -> None:
    tail, outbox = Tail(), Outbox()
    outbox.take(10, 0.0, 0.0, True)
    assert step(tail, outbox, 1.0) == []
    assert (tail.cursor, tail.stable) == (10, 0)
    outbox.take(2, 2.0, 0.0, True)
    assert step(tail, outbox, 2.0) == [11, 12]


def test_what_was_there_at_the_first_look_is_settled_once_its_transactions_have_ended() -> None:
    tail, outbox = Tail(), Outbox()
    outbox.take(1, 0.0, 5.0, True)
    outbox.take(1, 0.0, 0.0, True)
    stable = {}
    for tenth in range(100):
        step(tail, outbox, tenth / 10)
        stable[tenth] = tail.stable
    assert (stable[49], stable[51]) == (0, 2)


def test_a_gap_is_looked_at_again_and_again_ever_less_often() -> None:
    tail, outbox = Tail(), Outbox()
    step(tail, outbox, 0.0)
    outbox.take(1, 1.0, FOREVER, True)
    outbox.take(1, 1.0, 0.0, True)
    assert step(tail, outbox, 1.0) == [2]
    looks, now = [], 1.0
    while now < 4.0:
        if tail.due_gaps(now):
            looks.append(round(now - 1.0, 3))
        step(tail, outbox, now)
        now += 0.0125
    expected = [FIRST_RECHECK * (2**n - 1) for n in range(1, 6)]
    assert looks[:5] == pytest.approx(expected, abs=5 * 0.0125)
    assert looks[-1] - looks[-2] == pytest.approx(MAX_RECHECK_WAIT, abs=0.02)


def test_a_gap_kept_open_for_too_long_is_given_up_after_a_last_look() -> None:
    tail, outbox = Tail(), Outbox()
    step(tail, outbox, 0.0)
    outbox.take(1, 1.0, FOREVER, True)
    outbox.take(1, 1.0, MAX_GAP_AGE, True)
    step(tail, outbox, 1.0)
    step(tail, outbox, 1.5)
    step(tail, outbox, 0.9 + MAX_GAP_AGE)
    assert tail.stable == 0
    assert step(tail, outbox, 1.0 + MAX_GAP_AGE) == [2]
    assert tail.stable == 2


def test_another_server_begins_anew_though_its_numbers_go_as_far() -> None:
    tail, outbox = Tail(), Outbox()
    outbox.take(5, 0.0, 0.0, True)
    step(tail, outbox, 0.0)
    promoted = Outbox(server_started_at=NOW + timedelta(seconds=1))
    promoted.take(9, 0.0, 0.0, True)
    assert tail.is_of_another_history(promoted.look(tail.cursor, 2.0))
    assert step(tail, promoted, 2.0) == [], "older ones are the sweep's"
    assert (tail.cursor, tail.stable) == (9, 0)
    assert not tail.is_of_another_history(promoted.look(tail.cursor, 2.0))


def test_a_database_restored_to_an_earlier_state_begins_anew() -> None:
    tail, outbox = Tail(), Outbox()
    outbox.take(100, 0.0, 0.0, True)
    for now in (1.0, 1.3, 1.6):
        step(tail, outbox, now)
    assert tail.stable == 100
    restored = Outbox()
    restored.take(50, 0.0, 0.0, True)
    assert step(tail, restored, 2.0) == []
    assert (tail.cursor, tail.stable) == (50, 0)
    restored.take(1, 2.5, 0.0, True)
    assert step(tail, restored, 2.5) == [51]
    for now in (3.0, 3.1):
        step(tail, restored, now)
    assert tail.stable == 51


def test_the_ranges_remembered_are_bounded_and_what_is_not_probed_is_still_not_settled() -> None:
    tail, outbox = Tail(), Outbox()
    step(tail, outbox, 0.0)
    for begins in (1.0, 1.01):
        for _ in range(finding.MAX_RANGES - 10):
            outbox.take(1, begins, 5.0, True)
            outbox.take(1, begins, 0.0, True)
        step(tail, outbox, begins)
    probed = tail.due_gaps(1.01 + FIRST_RECHECK)
    assert len(probed) == finding.MAX_RANGES - 10
    assert probed[-1] == (outbox.transactions[-2].low,) * 2
    step(tail, outbox, 3.0)
    assert tail.stable == 0
    for now in (6.1, 6.2, 6.3):
        step(tail, outbox, now)
    assert tail.stable == outbox.transactions[-1].high


TRANSACTIONS = st.lists(
    st.tuples(
        st.integers(1, 3),  # numbers taken
        st.floats(0, 0.4),  # since the transaction before began
        st.floats(0, MAX_GAP_AGE * 0.8),  # how long it is open
        st.booleans() | st.just(True),
    ),
    max_size=12,
)
STEPS = st.lists(st.floats(0.001, 1.0), min_size=1, max_size=40)


@given(TRANSACTIONS, STEPS, st.integers(1, 5) | st.just(10**6))
def test_whatever_becomes_visible_within_the_window_is_reported_once_and_nothing_is_settled_before(
    transactions: list[tuple[int, float, float, bool]], steps: list[float], most: int
) -> None:
    tail, outbox, begins = Tail(), Outbox(), 0.0
    step(tail, outbox, 0.0)
    for count, pause, lasts, is_committed in transactions:
        begins += pause
        outbox.take(count, begins, lasts, is_committed)
    expected = {
        seq for one in outbox.transactions if one.is_committed for seq in range(one.low, one.high + 1)
    }
    reported: list[int] = []
    now = 0.0
    for length in steps + [0.3] * 80:
        now += length
        reported += step(tail, outbox, now, most)
        unseen = expected - set(reported)
        assert tail.stable < min(unseen, default=FOREVER), "settled before it was seen"
    assert sorted(reported) == sorted(expected)
    if outbox.transactions:
        assert tail.stable == outbox.transactions[-1].high
