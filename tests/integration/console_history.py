"""What a console finds after a month: deliveries of many merchants, their keys, commands and changes."""

import asyncpg

from tests.integration.read_cost import MAKE_PARTITIONS, ROWS_A_SECOND
from tests.waiting import MAX_WAIT, until_found

MERCHANTS = 50_000
_BOTH_LOGS = MAKE_PARTITIONS + ";" + MAKE_PARTITIONS.replace("delivery_log", "attempt_log")
_FILL = """
INSERT INTO webhook.lane (merchant_id, failing_since, paused, suspended_at, wait_until)
SELECT
    'm' || n, CASE WHEN n % 10 = 0 THEN clock_timestamp() END, n % 1000 = 1,
    CASE WHEN n % 500 = 0 THEN clock_timestamp() END, clock_timestamp()
FROM generate_series(0, {merchants}) AS n;
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, finished_at,
    last_outcome
)
SELECT
    n, lpad(n::text, 32, '0')::uuid,
    -- However many rows there are, the small merchant fills a page.
    CASE WHEN n % 4 = 0 THEN 'm0' WHEN n % ({rows} / 100) = 1 THEN 'm7' ELSE 'm' || n % {merchants} END,
    CASE WHEN n % 1000 = 0 THEN 'charge.failed' ELSE 'charge.succeeded' END, at,
    json_build_object('id', 'ch_' || n / 4),
    CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'delivered' END, CASE WHEN n % 10 = 0 THEN 'exhausted' END, 1, at,
    CASE WHEN n % 10 = 0 THEN 'timeout' ELSE 'delivered' END
FROM generate_series(1, {rows}) AS n
CROSS JOIN LATERAL (
    SELECT
        date_trunc('day', clock_timestamp(), 'UTC') - interval '22 days'
        + n * interval '22 days' / ({rows} + 1) AS at
) AS time;
INSERT INTO webhook.attempt_log (event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome)
SELECT event_id, merchant_id, 1, 'schedule', finished_at, 5, last_outcome FROM webhook.delivery_log;
INSERT INTO webhook.outbox (seq, merchant_id, type, object, due_at) OVERRIDING SYSTEM VALUE
SELECT {rows} + n, 'm' || n % 2000, 'charge.succeeded', '{{}}', CASE WHEN n % 3 = 0 THEN clock_timestamp() END
FROM generate_series(1, 20000) AS n;
INSERT INTO webhook.command_chunk (command_id, place, seqs)
SELECT 7, 25 * n, ARRAY(SELECT {rows} - 25 * n - s FROM generate_series(1, 25) AS s)
FROM generate_series(0, 399) AS n;
-- Rows as they are, without what triggers would add to them.
SET session_replication_role = replica;
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id)
SELECT 'm' || n, 'https://merchant-' || n || '.hooks.example.com/webhooks', '', 'k1'
FROM generate_series(0, {merchants}) AS n;
INSERT INTO webhook.api_key (client_id, secret_hash, merchant_id, name, created_by)
SELECT
    'client-' || n, sha256(n::text::bytea), CASE WHEN n % 10 = 0 THEN 'm7' ELSE 'm' || n END,
    'online shop', 'ada'
FROM generate_series(0, {merchants}) AS n;
INSERT INTO webhook.control (command, merchant_id, subject, event_id, requested_by, status, handled_at)
SELECT
    CASE WHEN n % 3 = 0 THEN 'retry' WHEN n % 3 = 1 THEN 'pause' ELSE 'resume' END,
    CASE WHEN n % 3 > 0 AND n % 5 > 0 THEN 'm' || n % 100 END, '',
    CASE WHEN n % 3 = 0 THEN lpad((n % 3000)::text, 32, '0')::uuid END, 'ada',
    CASE WHEN n > {rows} / 40 - 2000 THEN 'pending' WHEN n % 50 = 0 THEN 'rejected' ELSE 'done' END,
    clock_timestamp()
FROM generate_series(1, {rows} / 40) AS n;
INSERT INTO webhook.audit (person, action, merchant_id, after)
SELECT 'ada', 'url changed', 'm' || n % 100, jsonb_build_object('url', 'https://merchant.example/' || n)
FROM generate_series(1, {rows} / 10) AS n;
INSERT INTO webhook.dispatcher (
    owner, host, version, started_at, beat_at, lanes, attempts_in_flight, is_ready, reasons, faults
)
SELECT 'd' || n, 'host', '1', clock_timestamp(), clock_timestamp(), 1, 1, true, '{{}}', '{{}}'
FROM generate_series(1, 4) AS n;
RESET session_replication_role;
INSERT INTO webhook.attempts_by_minute (minute, outcome, attempts)
SELECT date_trunc('minute', statement_timestamp()) - n * interval '1 minute', 'delivered', 100
FROM generate_series(0, 11519) AS n;
"""


async def fill(session: asyncpg.Connection, rows: int) -> None:
    """Fill a database with so many deliveries, and vacuum it; as a superuser."""
    for text in (_BOTH_LOGS, _FILL.format(rows=rows, merchants=MERCHANTS)):
        await session.execute(text)
    await until_found(lambda: _vacuumed(session), MAX_WAIT + rows / ROWS_A_SECOND)


async def _vacuumed(session: asyncpg.Connection) -> bool:
    """Tell whether all rows are visible to all, which an analyzing autovacuum may keep back."""
    await session.execute("VACUUM ANALYZE")
    return not await session.fetchval(
        "SELECT count(*) FROM pg_class "
        "WHERE relnamespace = 'webhook'::regnamespace AND relkind = 'r' AND relallvisible < relpages"
    )
