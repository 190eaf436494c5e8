"""The stop-watch of tests/spent.py counts each moment once."""

from contextlib import ExitStack

from tests.spent import StopWatch


class Spending:
    """A stop-watch on a clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.watch = StopWatch(lambda: self.now)

    def spent(self) -> dict[str, float]:
        return {purpose: seconds for purpose, seconds in self.watch.seconds_spent().items() if seconds}


def test_a_section_within_another_is_taken_out_of_it() -> None:
    spending = Spending()
    spending.now += 1
    with spending.watch.spending("starting Postgres"):
        spending.now += 2
        with spending.watch.spending("migrating"):
            spending.now += 4
        spending.now += 8
    spending.now += 16
    assert spending.spent() == {"starting Postgres": 10, "migrating": 4}


def test_what_is_waited_for_while_a_program_starts_is_its_start() -> None:
    spending = Spending()
    with spending.watch.spending("starting programs"), spending.watch.spending("waiting"):
        spending.now += 1
    assert spending.spent() == {"starting programs": 1}


def test_what_several_tasks_do_at_once_is_counted_once_though_the_first_to_begin_ends_first() -> None:
    spending = Spending()
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(spending.watch.spending("making databases"))
        spending.now += 1
        second.enter_context(spending.watch.spending("starting programs"))
        spending.now += 2
        first.close()
        spending.now += 4
    assert spending.spent() == {"making databases": 1, "starting programs": 6}


def test_what_is_still_open_is_counted_so_far() -> None:
    spending = Spending()
    with spending.watch.spending("waiting"):
        spending.now += 1
        assert spending.spent() == {"waiting": 1}
        spending.now += 1
    assert spending.spent() == {"waiting": 2}
