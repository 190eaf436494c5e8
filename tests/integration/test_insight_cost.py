"""What `status` reads beside days of log: by indexes, and no more than it needs.

Sessions are as the command has them: webhook_admin's, each statement planned for its values.
"""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import asyncpg
import pytest
import pytest_asyncio

from tests.integration.statement_cost import Cost, execute, prepare
from tests.servers.database import Database
from webhook_dispatcher.domain.status import MAX_COUNTED
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.insight import MAX_LAGS, insight
from webhook_dispatcher.storage.statements import load

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOGGED = 100_000
"""One attempt and one delivery each, spread over the day."""
RECENT = 3_000
"""In the last minute."""
LANES = 2_000
FILL = f"""
INSERT INTO webhook.lane (merchant_id) SELECT 'm' || n FROM generate_series(0, {LANES - 1}) AS n;
INSERT INTO webhook.outbox (merchant_id, type, object)
SELECT 'm' || n % 10, 'charge.created', '{{}}' FROM generate_series(1, 1000) AS n;
CREATE TEMPORARY TABLE event AS
SELECT
    n, gen_random_uuid() AS id, 'm' || n % {LANES} AS merchant_id,
    CASE
        WHEN n <= {LOGGED} THEN date_trunc('day', clock_timestamp(), 'UTC') - interval '1 day'
            + n * interval '1 hour' / {LOGGED}
        ELSE clock_timestamp() - ({LOGGED} + {RECENT} - n) * interval '1 minute' / {RECENT}
    END AS at
FROM generate_series(1, {LOGGED} + {RECENT}) AS n;
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, attempts, finished_at
)
SELECT 1000000 + n, id, merchant_id, 'charge.created', at, '{{}}', 'delivered', 1, at FROM event ORDER BY n;
INSERT INTO webhook.attempt_log (event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome)
SELECT id, merchant_id, 1, 'schedule', at, 5, 'delivered' FROM event ORDER BY n;
"""
STATEMENTS = {**load("insight"), **load("administration")}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def filled(shared_database: Database) -> Database:
    filling = await shared_database.connect()
    await filling.execute(FILL)
    # Autovacuum does this too, in its time.
    for table in await filling.fetch("SELECT inhrelid::regclass::text AS name FROM pg_inherits"):
        if "attempt_log_2" in table["name"] and not table["name"].endswith(("_time", "_idx", "_pkey")):
            await filling.execute(f"VACUUM ANALYZE {table['name']}")
    await filling.execute("ANALYZE")
    await filling.close()
    return shared_database


@pytest_asyncio.fixture(loop_scope="module")
async def session(filled: Database) -> AsyncIterator[asyncpg.Connection]:
    async with administration(filled.dsn("webhook_admin")) as opened, insight(opened.connection):
        yield opened.connection


async def cost(session: asyncpg.Connection, name: str, *values: str) -> Cost:
    await prepare(session, name, STATEMENTS[name])
    return await execute(session, name, *values)


def whole_scans(found: Cost) -> list[str]:
    """Name the tables that were read without an index."""
    return [node["Relation Name"] for node in found.nodes() if node["Node Type"] == "Seq Scan"]


async def since(session: asyncpg.Connection) -> datetime:
    now: datetime = await session.fetchval("SELECT clock_timestamp()")
    return now - timedelta(minutes=5)


@pytest.mark.parametrize(("name", "most"), [("count_recent", MAX_COUNTED + 1), ("measure_lag", MAX_LAGS)])
async def test_the_last_minutes_are_found_in_a_log_of_days(
    session: asyncpg.Connection, name: str, most: int
) -> None:
    found = await cost(session, name, f"'{(await since(session)).isoformat()}'", str(most))
    assert whole_scans(found) == []
    attempts = [node for node in found.nodes() if "attempt_log" in str(node.get("Relation Name"))]
    # Days that are still empty, and were never analyzed, may be looked at by any index.
    attempts = [node for node in attempts if node["Node Type"] == "Bitmap Heap Scan" or node["Actual Rows"]]
    assert {node["Node Type"] for node in attempts} == {"Bitmap Heap Scan"}
    read = sum(node["Actual Rows"] + node.get("Rows Removed by Index Recheck", 0) for node in attempts)
    assert min(most, RECENT) <= read < RECENT + 10_000, "what is recent, and a range of blocks or two"
