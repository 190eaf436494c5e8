"""Looking for arrivals: soon again where something was found, at most the poll interval apart where not."""

from tests.unit.dispatching import Office
from tests.unit.fakes import make_event
from webhook_dispatcher.dispatch.pace import SOON, Rhythm

LONGEST = 0.025


def waits(rhythm: Rhythm, count: int) -> list[float]:
    return [rhythm.next() for _ in range(count)]


def test_where_nothing_is_found_the_waits_grow_to_the_poll_interval() -> None:
    rhythm = Rhythm(LONGEST)
    assert waits(rhythm, 2) == [LONGEST, LONGEST]
    rhythm.found()
    assert waits(rhythm, 6) == [SOON, 2 * SOON, 4 * SOON, 8 * SOON, LONGEST, LONGEST]


def test_while_something_is_found_the_next_look_comes_soon() -> None:
    rhythm = Rhythm(LONGEST)
    for _ in range(3):
        rhythm.found()
        assert rhythm.next() == SOON


def test_a_poll_interval_below_the_shortest_wait_is_kept_to() -> None:
    rhythm = Rhythm(SOON / 2)
    rhythm.found()
    assert waits(rhythm, 2) == [SOON / 2, SOON / 2]


async def test_an_arrival_hastens_the_next_look() -> None:
    office = Office()
    async with office.open("m") as group:
        assert office.dispatcher._rhythm.next() == LONGEST
        office.database.insert(make_event(1))
        await office.dispatcher.step(group)
        assert office.dispatcher._rhythm.next() == SOON


async def test_a_number_taken_by_an_open_transaction_hastens_the_next_look() -> None:
    office = Office()
    async with office.open("m") as group:
        office.database.last_seq += 1
        await office.dispatcher.step(group)
        assert office.dispatcher._rhythm.next() == SOON
