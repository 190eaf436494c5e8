"""Going round the lanes that have something due, and claiming those that are named."""

from datetime import timedelta

import asyncpg
import pytest

from tests.integration.storage_harness import LEASE, Daemon, StorageHarness
from webhook_dispatcher.domain.claim import START, DueCursor
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.storage.statements import load

RETRYING = load("retrying")
PLACES = 2
MANY = 5_000
FILL = """
INSERT INTO webhook.lane (merchant_id, retry_at)
SELECT 'm' || number, clock_timestamp() - make_interval(secs => number)
FROM generate_series(1, $1::integer) AS number
"""


@pytest.fixture
async def crowd(storage: StorageHarness) -> asyncpg.Connection:
    """Let 5,000 merchants have something due, and say as who the daemon asks."""
    await storage.db.execute(FILL, MANY)
    await storage.db.execute("ANALYZE webhook.lane")
    return await storage.session()


async def _round(here: Daemon, most: int) -> list[str]:
    cursor, found = START, list[str]()
    while due := await here.claims.find_due(cursor, most):
        found += [cursor.lane for cursor in due]
        cursor = due[-1]
    return found


async def test_a_round_names_each_lane_once_the_longest_due_first(
    storage: StorageHarness, here: Daemon
) -> None:
    for merchant, seconds in (("c", -30), ("a", -10), ("b", -20), ("later", 60)):
        await storage.insert_due(merchant, seconds)
    await storage.insert_due("many", *[-25] * 5)
    assert await _round(here, 2) == ["c", "many", "b", "a"]
    assert await here.claims.find_due(START, 1) == (await here.claims.find_due(START, 9))[:1]


@pytest.mark.parametrize("moment", ["-infinity", "2026-01-01 00:00:00.000001+00"])
async def test_lanes_due_at_the_same_moment_are_told_apart(
    storage: StorageHarness, here: Daemon, moment: str
) -> None:
    names = ["a", "A", "b", "é", "Z z"]
    for name in names:
        await storage.insert_due(name, -1)
    await storage.db.execute("UPDATE webhook.lane SET retry_at = $1::text::timestamptz", moment)
    assert await _round(here, 2) == sorted(names)


async def test_paused_lanes_are_not_named(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert_due("m", -1)
    await storage.db.execute("UPDATE webhook.lane SET paused = true")
    assert await here.claims.find_due(START, 9) == []
    await storage.db.execute("UPDATE webhook.lane SET paused = false")
    await storage.db.execute("UPDATE webhook.state SET paused = true")
    assert await here.claims.find_due(START, 9) == []


async def test_only_the_named_lanes_are_claimed_if_they_may_be(storage: StorageHarness, here: Daemon) -> None:
    (first,) = await storage.insert_due("slow", -60)
    rows = await storage.insert_due("m", -3, -2, -1)
    (held,) = await storage.insert_due("held", -1)
    await storage.insert_due("paused", -1)
    await storage.insert_due("later", 60)
    await storage.db.execute("UPDATE webhook.lane SET paused = true WHERE merchant_id = 'paused'")
    session = await storage.session()
    async with session.transaction():
        await session.execute("SELECT FROM webhook.lane WHERE merchant_id = 'held' FOR UPDATE")
        names = ["m", "held", "paused", "later", "unknown"]
        claimed = await here.claims.claim_due_of(names, PLACES, 100, LEASE)
    assert sorted(retry.event.seq for retry in claimed) == rows[:2]
    rest = await here.claims.claim_longest_due(100, PLACES, 100, LEASE)
    assert sorted(retry.event.seq for retry in rest) == sorted([first, held])


async def test_a_mass_retrys_deliveries_wait_until_they_were_attempted(
    storage: StorageHarness, here: Daemon
) -> None:
    rows = await storage.insert_due("m", -1, -1, -1)
    await storage.db.execute("UPDATE webhook.outbox SET trigger = 'manual' WHERE seq <> $1", rows[0])
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.count_waiting(rows) == 2
        assert await transaction.count_waiting([]) == 0
    await storage.db.execute("DELETE FROM webhook.outbox WHERE seq = $1", rows[1])
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.count_waiting(rows) == 1


async def test_a_cursor_is_a_place_in_the_order_and_no_lane_need_stand_there(
    storage: StorageHarness, here: Daemon
) -> None:
    await storage.insert_due("a", -20)
    await storage.insert_due("b", -10)
    between = await storage.now() - timedelta(seconds=15)
    due = await here.claims.find_due(DueCursor(between.isoformat(), "zzz"), 9)
    assert [cursor.lane for cursor in due] == ["b"]
