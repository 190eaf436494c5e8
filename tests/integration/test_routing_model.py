"""Endpoints come and go while events are routed, sent and retried: nothing is lost, doubled or out of order.

Hypothesis chooses what happens, one statement after the other, between two daemons whose leases may lapse at
any moment. Each endpoint is judged by what was sent to it. MODEL_EXAMPLES makes it try more.
"""

import asyncio
import os
from collections import defaultdict
from dataclasses import dataclass, field
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.integration.storage_harness import LEASE, Daemon, StorageHarness, answered, open_storage
from tests.integration.test_routing import STABLE, hand_on
from tests.servers.database import Database
from webhook_dispatcher.domain.claim import HandedOn, Lease, RouteAsk
from webhook_dispatcher.domain.lane import lane_named, number_of
from webhook_dispatcher.domain.record import LaneTurn

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "4"))
ADD = """
SELECT result, number FROM webhook.add_endpoint('m', 'https://example.com/', '\\x00', 'k1', NULL, NULL, NULL)
"""
LAPSE = "UPDATE webhook.lane SET lease_until = clock_timestamp() WHERE lease_until > clock_timestamp()"
WAKE = "UPDATE webhook.lane SET wait_until = '-infinity'"
OWED = """
SELECT count(*)
FROM webhook.outbox
LEFT JOIN webhook.endpoint ON endpoint.merchant_id = outbox.merchant_id
WHERE outbox.due_at IS NULL AND (outbox.merchant_id = 'm' OR endpoint.merchant_id IS NOT NULL)
"""
CLEAR = """
DELETE FROM webhook.endpoint; DELETE FROM webhook.outbox; DELETE FROM webhook.delivery_log;
DELETE FROM webhook.attempt_log; DELETE FROM webhook.lane; UPDATE webhook.state SET compatible_from = 1
"""


@dataclass(slots=True)
class Routes:
    """Merchant m, and what its endpoints are due: by number, the events in order.

    sent: what each was sent first, in order. retried: what failed once.
    """

    storage: StorageHarness
    daemons: tuple[Daemon, Daemon]
    due: dict[int, list[UUID]] = field(default_factory=lambda: {1: []})
    sent: defaultdict[int, list[UUID]] = field(default_factory=lambda: defaultdict(list))
    held: dict[str, tuple[Daemon, Lease]] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)

    async def insert(self, _: int) -> None:
        """Commit an event, which all who are there are due."""
        [seq] = await self.storage.insert("m")
        event = await self.storage.id_of(seq)
        for number, due in self.due.items():
            if number not in self.removed:
                due.append(event)

    async def add(self, _: int) -> None:
        """Add an endpoint, where nobody holds the lane."""
        result, number = await self.storage.db.fetchrow(ADD)  # type: ignore[misc]
        if result == "created":
            assert number not in self.due
            self.due[number] = []

    async def remove(self, which: int) -> None:
        """Remove one of the others."""
        others = [number for number in self.due if number > 1 and number not in self.removed]
        if others:
            number = others[which % len(others)]
            self.removed.add(number)
            lane = lane_named("m", number)
            await self.storage.db.execute("DELETE FROM webhook.endpoint WHERE merchant_id = $1", lane)

    async def lapse(self, _: int) -> None:
        """Let all leases lapse: whoever had one goes on as a zombie, and the other daemon may take over."""
        await self.storage.db.execute(LAPSE)

    async def work(self, which: int) -> None:
        """Let a daemon go on with a lane, or take it; a zombie with what it had."""
        await self.storage.db.execute(WAKE)
        lanes = [row[0] for row in await self.storage.db.fetch("SELECT merchant_id FROM webhook.lane")]
        lane = lanes[which % len(lanes)]
        daemon = self.daemons[which % 2]
        holder, lease = self.held.pop(lane, (None, None))
        if lease is None or which % 5:
            leased = await daemon.claims.lease({lane: 1}, LEASE)
            if not leased.leases:
                return
            holder, [lease] = daemon, leased.leases
        assert holder is not None
        if lease.is_routed:
            await self._route(holder, lease, which)
        else:
            await self._send(holder, lease, which)

    async def _route(self, daemon: Daemon, lease: Lease, which: int) -> None:
        at = await self.storage.now()
        await daemon.claims.route(RouteAsk(lease, lease.from_seq, STABLE, 1 + which % 9, 1 << 20, at), LEASE)
        self.held[lease.lane] = daemon, lease
        if await self.storage.db.fetchval("SELECT routed_at FROM webhook.lane WHERE merchant_id = 'm'"):
            await daemon.claims.become_direct("m")

    async def _send(self, daemon: Daemon, lease: Lease, which: int) -> None:
        """Attempt the next event under a lease that is the latest, record it, and release the lane or not."""
        latest = (await self.storage.lane(lease.lane))["epoch"]
        endpoints = await daemon.claims.read_endpoints([lease.lane])
        events = await daemon.read(lease.lane, after=lease.from_seq, run=1)
        if not events or latest != lease.epoch or not endpoints:
            await daemon.records.write([], [LaneTurn(lease, True, lease.from_seq)], LEASE)
            return
        [event] = events
        status = 500 if which % 3 == 0 else 200
        outcome = answered(event, lease.epoch, await self.storage.now(), status)
        written = await daemon.records.write([outcome], [LaneTurn(lease, which % 2 == 0, event.seq)], LEASE)
        assert written.seqs == {event.seq}
        self.sent[number_of(lease.lane) or 1].append(event.event_id)
        if which % 2:
            self.held[lease.lane] = daemon, lease

    async def retry(self, which: int) -> None:
        """Make all due that waits in a lane; hand on what has no endpoint there, else deliver it."""
        lanes = [row[0] for row in await self.storage.db.fetch("SELECT merchant_id FROM webhook.lane")]
        lane, daemon = lanes[which % len(lanes)], self.daemons[which % 2]
        if not await daemon.claims.read_endpoints([lane]):
            fates = await hand_on(self.storage, daemon, lane)
            may_wait = {HandedOn.MOVED, HandedOn.NOBODY}
            assert set(fates.values()) <= may_wait

    async def finish(self) -> None:
        """Let all be sent, and judge what was."""
        await self.lapse(0)
        self.held.clear()
        for number in range(2_000):
            await self.work(number)
            if not number % 20:
                await self.lapse(0)
                if not await self.storage.db.fetchval(OWED):
                    break
        for number in (number for number in self.due if number not in self.removed):
            assert self.sent[number] == self.due[number], number
        for number in self.removed:
            assert self.sent[number] == self.due[number][: len(self.sent[number])], number
        doubled = await self.storage.db.fetch(
            "SELECT event_id FROM webhook.delivery_log GROUP BY event_id, xid IS NULL HAVING count(*) > 1"
        )
        assert doubled == []


STEPS = ("insert", "insert", "work", "work", "work", "work", "add", "remove", "lapse", "retry")


@pytest.mark.timeout(120 + 20 * EXAMPLES)
def test_each_endpoint_is_sent_what_it_was_there_for_in_order_whatever_happens(database: Database) -> None:
    with asyncio.Runner() as runner:

        async def run(steps: list[tuple[str, int]]) -> None:
            async with open_storage(database) as storage:
                await storage.db.execute(CLEAR)
                await storage.configure("m")
                daemons = await storage.daemon("here"), await storage.daemon("there")
                routes = Routes(storage, daemons)
                for name, which in steps:
                    await getattr(routes, name)(which)
                await routes.finish()

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(
            st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 29)), min_size=20, max_size=50),
        )
        def try_out(steps: list[tuple[str, int]]) -> None:
            runner.run(run(steps))

        try_out()
