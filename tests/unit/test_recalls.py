"""What operators call back: lanes whose session must end, and everything."""

import asyncio

import pytest

from tests.unit.dispatching import Office
from tests.unit.fakes import make_event, quiet
from webhook_dispatcher.dispatch.control.recalls import obey_recalls
from webhook_dispatcher.domain.claim import Recalls
from webhook_dispatcher.domain.errors import StorageUnavailable

NOTHING = Recalls(False, frozenset())
EVERYTHING = Recalls(True, frozenset())


async def _look(office: Office, recalls: Recalls) -> None:
    """Look for recalls once, and find these."""
    office.claims.recalls.append(recalls)
    await obey_recalls(office.claims, office.dispatcher, office.instruments.pause)


async def test_a_recalled_lane_ends_after_the_event_in_flight() -> None:
    office = Office()
    office.sender.gate = asyncio.Event()
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"), make_event(2, "a"))
        await office.rounds(group)
        await _look(office, Recalls(False, frozenset({"a", "unknown"})))
        office.sender.gate.set()
        await quiet()
        assert office.sent == [1]


async def test_nothing_is_claimed_from_the_pause_of_everything_to_its_end() -> None:
    office = Office()
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"))
        await _look(office, EVERYTHING)
        await office.rounds(group)
        assert office.sent == []
        await _look(office, NOTHING)
        await office.rounds(group)
        assert office.sent == [1]


async def test_a_pause_lasts_while_the_database_does_not_say_that_it_has_ended() -> None:
    office = Office()
    async with office.open():
        await _look(office, EVERYTHING)
        office.database.faults["read_recalls"].append(StorageUnavailable("away"))
        with pytest.raises(StorageUnavailable):
            await _look(office, NOTHING)
        assert office.instruments.pause.is_on
