"""While a request is on the wire no transaction is open for it, and nothing is locked. Source: I5."""

from datetime import datetime

import asyncpg

from tests.acceptance.installation import PATIENT, Installation
from tests.waiting import until_found
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


async def test_nothing_is_open_or_locked_for_requests_that_hang(installation: Installation) -> None:
    await installation.configure("first", "retried", "other")
    installation.receiver.behave("first", Behaviour(hangs=True))
    installation.receiver.behave("retried", Behaviour(status=500), Behaviour(hangs=True))
    await installation.start(**PATIENT, RETRY_SCHEDULE="PT0.1S,PT1H")
    await installation.emit("first")
    await installation.emit("retried")
    await installation.arrived(3)
    hanging_since = await installation.owner.fetchval("SELECT clock_timestamp()")
    # Claimed, sent and recorded beside them.
    delivered = await installation.emit("other")
    await installation.settled(delivered.id, "delivered", 1)
    await until_found(lambda: nothing_is_open(installation.owner, hanging_since), SOON)
    await until_found(lambda: can_be_locked(installation.owner, ["first", "retried"]), SOON)
    assert await installation.owner.fetchval(ADVISORY) == 0
    assert [arrival.ended_at is None for arrival in installation.receiver.of("first")] == [True]
    assert [arrival.ended_at is None for arrival in installation.receiver.of("retried")] == [False, True]


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
