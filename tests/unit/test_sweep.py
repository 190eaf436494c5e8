"""The sweep goes round at once when another server has taken over: what it has already is not the tail's."""

import asyncio
from datetime import timedelta

from tests.unit.builders import NOW, make_event
from tests.unit.fakes.database import FakeDatabase
from tests.unit.fakes.storage import FakeClaims
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.loop_turns import until
from webhook_dispatcher.dispatch.pace import Stop, every
from webhook_dispatcher.dispatch.sweep import SWEEP_INTERVAL, Sweep
from webhook_dispatcher.domain.claim import SweptLane

OUTAGE = 1.5
"""Seconds for which a sweep hung: it rests for twenty times as long."""


class Heads(FakeClaims):
    """Who is owed something; the first to ask waits until the server is back."""

    def __init__(self, database: FakeDatabase) -> None:
        super().__init__(database)
        self.asked = 0

    async def sweep(self, after_lane: str, page_size: int) -> list[SweptLane]:
        self.asked += 1
        if self.asked == 1:
            self.database.clock.advance(OUTAGE)
            return []
        heads = {
            owed.event.merchant_id: seq for seq, owed in sorted(self.database.owed.items(), reverse=True)
        }
        return [SweptLane(name, seq, is_free=True) for name, seq in heads.items()]


async def test_what_another_server_has_is_found_though_the_last_sweep_hung_in_the_outage() -> None:
    harness, stop = DispatcherHarness(), Stop()
    heads = Heads(harness.database)
    async with harness.open("a") as group:
        sweeping = asyncio.create_task(
            every(
                SWEEP_INTERVAL,
                Sweep(heads, harness.dispatcher).step,
                "sweep.failed",
                harness.clock,
                harness.metrics,
                stop,
                harness.dispatcher.needs_sweep,
            )
        )
        await until(lambda: heads.asked == 1)
        # Written before the daemon has met the server that took over.
        harness.database.server_started_at = NOW + timedelta(seconds=1)
        harness.database.insert(make_event(1, "a"))
        await harness.dispatcher.step(group)
        await until(lambda: heads.asked > 1)
        await harness.rounds(group)
        stop.set()
        await sweeping
    assert harness.sent == [1]
