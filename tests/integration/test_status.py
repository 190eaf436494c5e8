"""What `status` measures, of rows that the real statements read."""

from datetime import timedelta

import pytest

from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.cli import merchants
from webhook_dispatcher.domain.status import Pace
from webhook_dispatcher.storage.insight import MAX_LAGS, MerchantFilter, insight

WINDOW = timedelta(minutes=5)
DELIVERED = f"""
WITH event AS (
    SELECT gen_random_uuid() AS id, clock_timestamp() - $1::text::interval AS at
    FROM generate_series(1, {MAX_LAGS})
),
made AS (
    INSERT INTO webhook.attempt_log (
        event_id, merchant_id, attempt, trigger, started_at, duration_ms, status, outcome
    )
    SELECT id, 'm', 1, 'schedule', at, 5, 200, 'delivered' FROM event
)
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, attempts, finished_at
)
SELECT
    1000 + row_number() OVER (), id, 'm', 'charge.created', at - $2::text::interval, '{{}}',
    'delivered', 1, at
FROM event
"""
"""As many as are looked at: attempted so long ago, after so long."""


@pytest.mark.parametrize(("then", "now", "median"), [("261 s", "6 ms", 0.006), ("8 ms", "500 ms", 0.5)])
async def test_the_lag_is_that_of_now_and_not_of_five_minutes_ago(
    storage: StorageHarness, then: str, now: str, median: float
) -> None:
    await storage.db.execute(DELIVERED, "290 s", then)
    await storage.db.execute(DELIVERED, "1 s", now)
    async with insight(storage.db) as asked:
        facts = await asked.status(WINDOW, [], None, [])
    assert (facts.lag.events, facts.lag.median) == (MAX_LAGS, median)


async def test_what_is_first_attempted_by_hand_is_not_late_and_does_not_count(
    storage: StorageHarness,
) -> None:
    await storage.db.execute(DELIVERED, "1 s", "6 ms")
    await storage.db.execute(DELIVERED.replace("'schedule'", "'manual'"), "1 s", "3 h")
    async with insight(storage.db) as asked:
        facts = await asked.status(WINDOW, [], None, [])
    assert (facts.lag.high, facts.pace.starting) == (0.006, MAX_LAGS / 300)


async def test_it_is_known_how_fast_events_come_and_go_and_what_they_take(storage: StorageHarness) -> None:
    await storage.db.execute(DELIVERED, "1 s", "6 ms")
    await storage.insert("m", *["{}"] * 100)
    await storage.db.execute(
        "UPDATE webhook.outbox SET created_at = now() - interval '10 min' WHERE seq % 2 = 0"
    )
    async with insight(storage.db) as asked:
        facts = await asked.status(WINDOW, [], None, [])
    assert facts.pace == Pace((MAX_LAGS + 50) / 300, MAX_LAGS / 300)
    sizes = {size.name: size for size in facts.sizes}
    assert set(sizes) == {"attempt_log", "delivery_log", "outbox"}
    assert all(size.bytes > 8192 and bool(size.days) == (name != "outbox") for name, size in sizes.items())
    assert sizes["delivery_log"].days == await storage.db.fetchval(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'webhook.delivery_log'::regclass"
    )


async def test_what_waits_for_a_retry_is_not_nothing(storage: StorageHarness) -> None:
    await storage.insert("m", *["{}"] * 1_102)
    await storage.db.execute("INSERT INTO webhook.lane (merchant_id) VALUES ('m')")
    await storage.db.execute(
        "UPDATE webhook.outbox SET due_at = clock_timestamp() + interval '1 min', attempts = 1"
    )
    async with insight(storage.db) as asked:
        found = await asked.merchants(MerchantFilter())
    assert (found[0].waiting, found[0].waiting_for_retry) == (0, 1_102)
    assert list(merchants.lines(found))[1].endswith(" m (1,102 for a retry, no endpoint)")


async def test_who_fails_is_told_by_the_latest_attempts_and_not_by_the_last(storage: StorageHarness) -> None:
    await storage.db.execute(
        "INSERT INTO webhook.lane (merchant_id, last_failure_at, failing_since, failures_in_a_row) VALUES "
        "('often', clock_timestamp(), NULL, 0), ('once', clock_timestamp(), clock_timestamp(), 1), "
        "('ours', clock_timestamp(), NULL, 0), ('long ago', clock_timestamp(), NULL, 0), "
        "('for days', clock_timestamp(), clock_timestamp() - interval '3 days', 4)"
    )
    await storage.db.execute(
        "INSERT INTO webhook.attempt_log "
        "(event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome) "
        "SELECT gen_random_uuid(), merchant, 1, 'schedule', "
        "clock_timestamp() - since::interval - age * interval '1 s', 5, "
        "CASE WHEN merchant = 'ours' OR age % 5 = 3 THEN 'unsendable' "
        "WHEN age % 5 = 2 OR merchant <> 'often' THEN 'timeout' ELSE 'delivered' END "
        "FROM (VALUES ('often', 245, '0 s'), ('once', 1, '0 s'), ('for days', 1, '0 s'), ('ours', 5, '0 s'), "
        "('long ago', 5, '24 h')) AS made (merchant, attempts, since) "
        "CROSS JOIN LATERAL generate_series(1, attempts) AS age"
    )
    async with insight(storage.db) as asked:
        found = await asked.merchants(MerchantFilter(only_failing=True))
        facts = await asked.status(WINDOW, [], None, [])
    assert [merchant.merchant_id for merchant in found] == ["for days", "often"]
    assert (facts.failing, facts.most_failing) == (2, found)
    assert list(merchants.lines(found))[-2] == "  20 of the latest 80 attempts failed"
