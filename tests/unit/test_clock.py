"""The database's clock as we estimate it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW
from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.domain.clock import DatabaseClock

MICROSECOND = timedelta(microseconds=2)


@pytest.fixture
def database_clock(clock: FakeClock) -> DatabaseClock:
    return DatabaseClock(clock)


def test_until_the_database_is_asked_ours_serves(clock: FakeClock, database_clock: DatabaseClock) -> None:
    clock.advance(5)
    assert abs(database_clock.now() - NOW - timedelta(seconds=5)) < MICROSECOND
    assert abs(database_clock.ahead_by()) < MICROSECOND.total_seconds()
    assert database_clock.now().utcoffset() == timedelta(0)


def test_a_database_that_is_ahead_is_followed(clock: FakeClock, database_clock: DatabaseClock) -> None:
    database_clock.synchronise(NOW + timedelta(seconds=40), clock.elapsed())
    clock.advance(3600)  # though asleep: CLOCK_BOOTTIME counts that
    assert abs(database_clock.now() - NOW - timedelta(seconds=3640)) < MICROSECOND
    assert abs(database_clock.ahead_by() - 40) < MICROSECOND.total_seconds()


@given(st.floats(0, 5), st.floats(0, 1), st.floats(-1e6, 1e6))
def test_the_error_is_at_most_half_of_what_the_answer_took(took: float, share: float, ahead: float) -> None:
    clock = FakeClock()
    database_clock = DatabaseClock(clock)
    asked = clock.elapsed()
    clock.advance(took * share)
    read = clock.now + timedelta(seconds=ahead)
    clock.advance(took - took * share)
    database_clock.synchronise(read, asked)
    error = database_clock.now() - (clock.now + timedelta(seconds=ahead))
    assert abs(error) <= timedelta(seconds=took / 2) + 5 * MICROSECOND


def test_a_step_of_our_wall_clock_moves_no_time(clock: FakeClock, database_clock: DatabaseClock) -> None:
    clock.wall -= 3600
    assert abs(database_clock.now() - NOW) < MICROSECOND
    assert abs(database_clock.ahead_by() - 3600) < MICROSECOND.total_seconds()


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 1), st.floats(-4, 4))))
def test_it_never_runs_backwards_however_far_estimates_err(answers: list[tuple[float, float, float]]) -> None:
    clock = FakeClock()
    database_clock = DatabaseClock(clock)
    database_clock.synchronise(NOW, clock.elapsed())
    before = database_clock.now()
    for took, share, ahead in answers:
        asked = clock.elapsed()
        clock.advance(took * share)
        read = clock.now + timedelta(seconds=ahead)
        clock.advance(took - took * share)
        database_clock.synchronise(read, asked)
        assert database_clock.now() >= before
        before = database_clock.now()


def test_it_stands_until_an_estimate_has_caught_up(clock: FakeClock, database_clock: DatabaseClock) -> None:
    for ahead in (3, 0):
        database_clock.synchronise(clock.now + timedelta(seconds=ahead), clock.elapsed())
    seen = []
    for _ in range(3):
        seen.append(round((database_clock.now() - NOW).total_seconds(), 3))
        clock.advance(2)
    assert seen == [3, 3, 4]


def test_a_database_that_was_set_back_is_followed(clock: FakeClock, database_clock: DatabaseClock) -> None:
    database_clock.synchronise(NOW, clock.elapsed())
    clock.advance(1)
    database_clock.synchronise(NOW - timedelta(hours=1), clock.elapsed())
    assert abs(database_clock.now() - NOW + timedelta(hours=1)) < MICROSECOND
