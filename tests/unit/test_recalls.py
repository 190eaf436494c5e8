"""What operators call back: lanes whose session must end, and everything."""

import asyncio

from tests.unit.dispatching import Office
from tests.unit.fakes import make_event, quiet
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.sweep import watch_recalls
from webhook_dispatcher.domain.claim import Recalls
from webhook_dispatcher.domain.errors import StorageUnavailable

NOTHING = Recalls(False, frozenset())


async def _watch(office: Office, *recalls: Recalls) -> list[bool]:
    """Look for recalls as often as there are any, and once more where the database is to fail."""
    told: list[bool] = []
    stop = Stop()
    office.claims.recalls.extend(recalls)
    office.claims.after_recalls = stop.set
    await watch_recalls(office.claims, office.dispatcher, told.append, office.metrics, stop)
    return told


async def test_a_recalled_lane_ends_after_the_event_in_flight() -> None:
    office = Office()
    office.sender.gate = asyncio.Event()
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"), make_event(2, "a"))
        await office.rounds(group)
        assert await _watch(office, Recalls(False, frozenset({"a", "unknown"}))) == [False]
        office.sender.gate.set()
        await quiet()
        assert office.sent == [1]


async def test_a_pause_of_everything_is_told_and_its_end_as_well() -> None:
    office = Office()
    async with office.open():
        paused = Recalls(True, frozenset())
        assert await _watch(office, paused, NOTHING) == [True, False]


async def test_a_database_that_fails_is_asked_again() -> None:
    office = Office()
    async with office.open():
        office.database.faults["read_recalls"].append(StorageUnavailable("away"))
        assert await _watch(office, NOTHING) == [False]
    assert office.metrics.database_errors.labels("recall")._value.get() == 1
