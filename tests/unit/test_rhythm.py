"""Looking for arrivals: soon again where something was found, at most the poll interval apart where not."""

from tests.unit.dispatching import Office
from tests.unit.fakes import make_event
from webhook_dispatcher.dispatch.pace import SOON, Rhythm

LONGEST = 0.025


def waits(rhythm: Rhythm, count: int) -> list[float]:
    return [rhythm.next(took=0.0) for _ in range(count)]


def test_where_nothing_is_found_the_waits_grow_to_the_poll_interval() -> None:
    rhythm = Rhythm(LONGEST)
    assert waits(rhythm, 2) == [LONGEST, LONGEST]
    rhythm.found()
    assert waits(rhythm, 6) == [SOON, 2 * SOON, 4 * SOON, 8 * SOON, LONGEST, LONGEST]


def test_while_something_is_found_the_next_look_comes_soon() -> None:
    rhythm = Rhythm(LONGEST)
    for _ in range(3):
        rhythm.found()
        assert waits(rhythm, 1) == [SOON]


def test_whoever_takes_long_to_answer_is_left_alone_for_as_long() -> None:
    rhythm = Rhythm(LONGEST)
    rhythm.found()
    assert rhythm.next(took=3 * SOON) == 3 * SOON
    rhythm.found()
    assert rhythm.next(took=2 * LONGEST) == LONGEST


def test_a_poll_interval_below_the_shortest_wait_is_kept_to() -> None:
    rhythm = Rhythm(SOON / 2)
    rhythm.found()
    assert waits(rhythm, 2) == [SOON / 2, SOON / 2]


async def test_an_arrival_hastens_the_next_look() -> None:
    office = Office()
    async with office.open("m") as group:
        assert waits(office.dispatcher._rhythm, 1) == [LONGEST]
        office.database.insert(make_event(1))
        await office.dispatcher.step(group)
        assert waits(office.dispatcher._rhythm, 1) == [SOON]


async def test_a_number_taken_by_an_open_transaction_hastens_the_next_look() -> None:
    office = Office()
    async with office.open("m") as group:
        office.database.last_seq += 1
        await office.dispatcher.step(group)
        assert waits(office.dispatcher._rhythm, 1) == [SOON]
