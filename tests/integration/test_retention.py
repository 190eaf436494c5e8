"""The log's oldest day goes when it is old by the clock and by the newest row. Source: contract 5."""

from datetime import UTC, date, datetime, time, timedelta

import asyncpg

from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.domain.ports import Dropped
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

PATIENCE = timedelta(seconds=20)
WRITE = """
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, finished_at
)
SELECT n, gen_random_uuid(), 'm', 'charge.created', $1, '{}', 'failed', 'exhausted', 8, $1
FROM generate_series(1, 3) AS n
"""
DAYS = """
SELECT DISTINCT to_date(right(relname, 8), 'YYYYMMDD') FROM pg_class
WHERE relname ~ '^(delivery|attempt)_log_[0-9]{8}$' ORDER BY 1
"""


async def _days(connection: asyncpg.Connection) -> list[date]:
    return [row[0] for row in await connection.fetch(DAYS)]


def _noon(day: date) -> datetime:
    return datetime.combine(day, time(12), UTC)


async def test_one_day_goes_in_each_run_and_its_rows_are_told(storage: StorageHarness) -> None:
    days, now = await _days(storage.db), await storage.now()
    await storage.db.execute(WRITE, _noon(days[0]))
    await storage.db.execute("ANALYZE webhook.delivery_log")
    await storage.db.execute(WRITE, now)
    age = now.date() - days[0]
    async with storage.database.pool("upkeep", 1, PATIENCE) as pool:
        upkeep = PostgresUpkeep(pool)
        assert await upkeep.drop_partitions(age + timedelta(days=1)) is None
        assert await upkeep.drop_partitions(age - timedelta(days=3)) == Dropped(days[0], 2, 3)
        assert await _days(storage.db) == days[1:]


async def test_nothing_is_old_that_was_written_last_whatever_the_clock_says(storage: StorageHarness) -> None:
    days = await _days(storage.db)
    await storage.db.execute(WRITE, _noon(days[0]))
    async with storage.database.pool("upkeep", 1, PATIENCE) as pool:
        # As with a clock that is ahead: the oldest day's rows are the newest, and were kept for no day yet.
        assert await PostgresUpkeep(pool).drop_partitions(timedelta(0)) is None
    assert await _days(storage.db) == days


async def test_a_look_at_all_days_takes_as_many_locks_as_check_says(storage: StorageHarness) -> None:
    """The bound that docs/operate/troubleshooting.md names: nine for each day of the log, and a few."""
    admin = await storage.session(user="webhook_admin")
    capacity = await Administration(admin).read_lock_capacity()
    days = await storage.db.fetchval(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'webhook.delivery_log'::regclass"
    )
    async with admin.transaction():
        await admin.fetch("SELECT state FROM webhook.deliveries WHERE event_id = gen_random_uuid()")
        taken = await admin.fetchval(
            "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'"
        )
    assert capacity.locks_a_day == 9
    assert days * capacity.locks_a_day < taken < (days + 3) * capacity.locks_a_day
