"""While a request is on the wire no transaction is open for it, and nothing is locked. Source: I5."""

from datetime import datetime

import asyncpg

from tests.acceptance.process import until_found
from tests.acceptance.world import PATIENT, World
from webhook_dispatcher.local.behaviour import Behaviour

SOON = 4.0
"""Seconds for what other statements hold for a moment: fewer than the ten after which the server would end a
transaction that was left open. Requests hang for a minute."""
OPEN = """
SELECT query FROM pg_stat_activity
WHERE usename = 'webhook_dispatcher' AND datname = current_database() AND xact_start <= $1
"""
ADVISORY = """
SELECT count(*) FROM pg_locks
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
LANES = "SELECT FROM webhook.lane WHERE merchant_id = ANY($1) FOR UPDATE NOWAIT"
ROWS = "SELECT FROM webhook.outbox WHERE merchant_id = ANY($1) FOR UPDATE NOWAIT"


async def test_nothing_is_open_or_locked_for_requests_that_hang(world: World) -> None:
    await world.configure("first", "retried", "other")
    world.receiver.behave("first", Behaviour(hangs=True))
    world.receiver.behave("retried", Behaviour(status=500), Behaviour(hangs=True))
    await world.start(**PATIENT, RETRY_SCHEDULE="PT0.1S,PT1H")
    await world.emit("first")
    await world.emit("retried")
    await world.arrived(3)
    hanging_since = await world.owner.fetchval("SELECT clock_timestamp()")
    # Claimed, sent and recorded beside them.
    delivered = await world.emit("other")
    await world.settled(delivered.id, "delivered", 1)
    await until_found(lambda: nothing_is_open(world.owner, hanging_since), SOON)
    await until_found(lambda: can_be_locked(world.owner, ["first", "retried"]), SOON)
    assert await world.owner.fetchval(ADVISORY) == 0
    assert [arrival.ended_at is None for arrival in world.receiver.of("first")] == [True]
    assert [arrival.ended_at is None for arrival in world.receiver.of("retried")] == [False, True]


async def nothing_is_open(connection: asyncpg.Connection, since: datetime) -> bool:
    return not await connection.fetch(OPEN, since)


async def can_be_locked(connection: asyncpg.Connection, merchants: list[str]) -> bool:
    """Tell whether lanes and rows of merchants can be locked without waiting."""
    try:
        async with connection.transaction():
            lanes, rows = [await connection.fetch(query, merchants) for query in (LANES, ROWS)]
    except asyncpg.LockNotAvailableError:
        return False
    assert len(lanes) == len(rows) == len(merchants)
    return True
