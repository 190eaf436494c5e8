"""How old connections become: by their answers, and by whether new ones could be made."""

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes.network import FakeLoop
from webhook_dispatcher.transport.renewal import Renewals


class Patient(Random):
    """Gives each connection all the time that there is."""

    def random(self) -> float:
        return 1.0


class Aged:
    """Renewals, and a connection that was made at the beginning."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.renewals = Renewals(self.loop.real, Patient())
        self.age = self.renewals.newborn()

    def is_due(self, seconds: float = 0.0, *, is_delivery: bool = True) -> bool:
        """Tell what becomes of it so many seconds later."""
        self.loop.advance(seconds)
        return self.renewals.is_due(self.age, is_delivery)


def test_a_connection_is_a_minute_old_at_most() -> None:
    aged = Aged()
    assert [aged.is_due(59.9), aged.is_due(0.1)] == [False, True]


def test_an_answer_that_is_no_delivery_ends_one_of_ten_seconds() -> None:
    aged = Aged()
    seen = [aged.is_due(9.9, is_delivery=False), aged.is_due(0.1), aged.is_due(is_delivery=False)]
    assert seen == [False, False, True]


def test_while_none_can_be_made_one_in_ten_seconds_is_given_up() -> None:
    """However often it fails, and whoever fails."""
    aged = Aged()
    aged.loop.advance(60)
    seen = []
    for _ in range(25):
        aged.renewals.failed()
        seen.append(aged.is_due(1.0))
    assert [second for second, is_due in enumerate(seen, start=1) if is_due] == [10, 20]


def test_once_one_was_made_all_that_are_due_are_given_up() -> None:
    aged = Aged()
    aged.renewals.failed()
    assert [aged.is_due(60), aged.is_due()] == [True, False]
    aged.renewals.connected()
    assert [aged.is_due(), aged.is_due()] == [True, True]


@given(st.randoms(use_true_random=False), st.booleans())
def test_those_that_were_made_at_once_end_one_by_one(random: Random, is_delivery: bool) -> None:
    """Within the last quarter of the time that each may have; what was decided of one stays so."""
    loop, most = FakeLoop(), 60.0 if is_delivery else 10.0
    renewals = Renewals(loop.real, random)
    ages = [renewals.newborn() for _ in range(100)]
    ended = []
    for part in (0.749, 0.1, 0.1, 0.052):
        loop.advance(part * most)
        ended.append({age for age in ages if renewals.is_due(age, is_delivery)})
    assert ended[0] == set()
    assert ended[1] <= ended[2] <= ended[3] == set(ages)


def test_a_hundred_that_were_made_at_once_end_in_fifteen_seconds() -> None:
    loop = FakeLoop()
    renewals = Renewals(loop.real, Random(1))
    ages = [renewals.newborn() for _ in range(100)]
    loop.advance(45)
    ended = [0]
    for _ in range(15):
        loop.advance(1)
        ended.append(sum(renewals.is_due(age, is_delivery=True) for age in ages))
    assert max(later - sooner for sooner, later in pairwise(ended)) <= 15
