"""The database's clock as we estimate it."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import NOW, FakeClock
from webhook_dispatcher.domain.clock import DatabaseClock

MICROSECOND = timedelta(microseconds=2)


def test_until_the_database_was_asked_this_machines_clock_serves() -> None:
    clock = FakeClock()
    database_clock = DatabaseClock(clock)
    clock.advance(5)
    assert abs(database_clock.now() - NOW - timedelta(seconds=5)) < MICROSECOND
    assert abs(database_clock.ahead_by()) < MICROSECOND.total_seconds()


def test_a_database_that_is_ahead_is_followed() -> None:
    clock = FakeClock()
    database_clock = DatabaseClock(clock)
    database_clock.synchronise(NOW + timedelta(seconds=40), clock.elapsed())
    clock.advance(1)
    assert abs(database_clock.now() - NOW - timedelta(seconds=41)) < MICROSECOND
    assert abs(database_clock.ahead_by() - 40) < MICROSECOND.total_seconds()


def test_instants_are_aware() -> None:
    assert DatabaseClock(FakeClock()).now().utcoffset() == timedelta(0)


@given(st.floats(0, 5), st.floats(0, 1), st.floats(-1e6, 1e6))
def test_the_error_is_at_most_half_of_how_long_the_answer_took(
    took: float, share: float, ahead: float
) -> None:
    clock = FakeClock()
    database_clock = DatabaseClock(clock)
    asked = clock.elapsed()
    clock.advance(took * share)
    read = clock.now + timedelta(seconds=ahead)
    clock.advance(took - took * share)
    database_clock.synchronise(read, asked)
    error = database_clock.now() - (clock.now + timedelta(seconds=ahead))
    assert abs(error) <= timedelta(seconds=took / 2) + 5 * MICROSECOND


def test_a_suspended_machine_goes_on_counting_the_databases_time() -> None:
    clock = FakeClock()
    database_clock = DatabaseClock(clock)
    database_clock.synchronise(NOW, clock.elapsed())
    clock.advance(3600)  # asleep; CLOCK_BOOTTIME counts that
    assert abs(database_clock.now() - NOW - timedelta(hours=1)) < MICROSECOND


def test_a_step_of_this_machines_wall_clock_moves_nothing_but_the_difference() -> None:
    clock = FakeClock()
    database_clock = DatabaseClock(clock)
    clock.wall -= 3600
    assert abs(database_clock.now() - NOW) < MICROSECOND
    assert abs(database_clock.ahead_by() - 3600) < MICROSECOND.total_seconds()


def test_an_earlier_moment_is_read_on_the_same_clock() -> None:
    clock = FakeClock()
    database_clock = DatabaseClock(clock)
    assert database_clock.now() - database_clock.at(clock.elapsed() - 10) == timedelta(seconds=10)
