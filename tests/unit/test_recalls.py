"""What operators call back: lanes whose session must end, and everything."""

import asyncio

import pytest

from tests.unit.builders import make_event
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.loop_turns import quiet
from webhook_dispatcher.dispatch.control.recalls import obey_recalls
from webhook_dispatcher.domain.claim import Recalls
from webhook_dispatcher.domain.errors import StorageUnavailable

NOTHING = Recalls(False, frozenset())
EVERYTHING = Recalls(True, frozenset())


async def _look(harness: DispatcherHarness, recalls: Recalls) -> None:
    """Look for recalls once, and find these."""
    harness.claims.recalls.append(recalls)
    await obey_recalls(harness.claims, harness.dispatcher, harness.instruments.pause)


async def test_a_recalled_lane_ends_after_the_event_in_flight() -> None:
    harness = DispatcherHarness()
    harness.sender.gate = asyncio.Event()
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"), make_event(2, "a"))
        await harness.rounds(group)
        await _look(harness, Recalls(False, frozenset({"a", "unknown"})))
        harness.sender.gate.set()
        await quiet()
        assert harness.sent == [1]


async def test_a_pause_lasts_until_the_database_says_that_it_has_ended() -> None:
    harness = DispatcherHarness()
    async with harness.open():
        await _look(harness, EVERYTHING)
        harness.database.faults["read_recalls"].append(StorageUnavailable("away"))
        with pytest.raises(StorageUnavailable):
            await _look(harness, NOTHING)
        assert harness.instruments.pause.is_on
        harness.claims.recalls.clear()
        await _look(harness, NOTHING)
        assert not harness.instruments.pause.is_on
