"""What is owed as the gauges show it: the oldest event that waits, beside others written before it.

Seq is the order in which events were written; when one was created, its producer may say.
"""

from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from tests.servers.database import Connect, Database
from webhook_dispatcher.domain.ports import OldestSearch
from webhook_dispatcher.storage import upkeep
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

INSERT = (
    "INSERT INTO webhook.outbox (merchant_id, type, object, created_at) "
    "VALUES ($1, 'charge.created', '{}', clock_timestamp() - $2::interval) RETURNING seq"
)
HOUR = 3600.0


@pytest.fixture
async def producer(database: Database) -> AsyncIterator[asyncpg.Connection]:
    connection = await database.connect("webhook_producer")
    yield connection
    await connection.close()


@pytest.fixture
async def measuring(database: Database) -> AsyncIterator[PostgresUpkeep]:
    async with database.pool("upkeep", 1, timedelta(seconds=20)) as pool:
        yield PostgresUpkeep(pool)


async def insert(producer: asyncpg.Connection, merchant_id: str, seconds: float) -> int:
    seq: int = await producer.fetchval(INSERT, merchant_id, timedelta(seconds=seconds))
    return seq


async def ages(measuring: PostgresUpkeep, steps: int) -> list[int]:
    """Measure so often, and return the age of the oldest each time, in hours."""
    found, search = [], OldestSearch()
    for _ in range(steps):
        owed = await measuring.measure(100, search)
        found.append(round(owed.oldest_pending_age / HOUR))
        search = owed.search
    return found


async def test_an_older_event_that_was_written_later_is_the_oldest(
    producer: asyncpg.Connection, measuring: PostgresUpkeep
) -> None:
    await insert(producer, "m1", 1753)
    await insert(producer, "m2", 20 * HOUR)
    assert await ages(measuring, 2) == [20, 20]


async def test_the_oldest_is_found_within_a_round_of_merchants_and_kept_until_it_is_over(
    producer: asyncpg.Connection, measuring: PostgresUpkeep, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "OLDEST_PAGE", 2)
    for number in range(6):
        await insert(producer, f"m{number}", HOUR * (20 if number == 3 else 2 if number == 1 else 1))
    assert await ages(measuring, 6) == [2, 20, 20, 20, 20, 20]
    superuser = await connect()
    await superuser.execute("DELETE FROM webhook.outbox WHERE merchant_id = 'm3'")
    assert await ages(measuring, 4) == [2, 2, 2, 2]


async def test_what_was_the_oldest_and_is_over_is_not_shown_again(
    producer: asyncpg.Connection, measuring: PostgresUpkeep, connect: Connect
) -> None:
    await insert(producer, "m1", HOUR)
    oldest = await insert(producer, "m2", 20 * HOUR)
    first = await measuring.measure(100, OldestSearch())
    assert first.search.known_seq == oldest
    superuser = await connect()
    # Attempted, and waiting for a retry.
    await superuser.execute("UPDATE webhook.outbox SET due_at = 'infinity' WHERE seq = $1", oldest)
    assert round((await measuring.measure(100, first.search)).oldest_pending_age / HOUR) == 1
    await superuser.execute("DELETE FROM webhook.outbox")
    assert (await measuring.measure(100, first.search)).oldest_pending_age == 0


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ("", 3),
        ("failing_since = clock_timestamp() - interval '4 minutes'", 2),
        ("suspended_at = clock_timestamp()", 2),
        ("paused = true", 2),
        ("last_failure_at = clock_timestamp() - interval '2 hours'", 2),
    ],
)
async def test_merchants_that_fail_are_counted_unless_something_else_is_told_of_them(
    database: Database, measuring: PostgresUpkeep, change: str, failing: int
) -> None:
    connection = await database.connect()
    await connection.execute(
        "INSERT INTO webhook.lane (merchant_id) SELECT 'm' || n FROM generate_series(1, 30) AS n"
    )
    await connection.execute(
        "UPDATE webhook.lane SET failing_since = clock_timestamp() - interval '6 minutes', "
        "last_failure_at = clock_timestamp() WHERE merchant_id IN ('m1', 'm2', 'm3')"
    )
    if change:
        await connection.execute(f"UPDATE webhook.lane SET {change} WHERE merchant_id = 'm1'")
    await connection.close()
    assert (await measuring.measure(100, OldestSearch())).failing == failing
