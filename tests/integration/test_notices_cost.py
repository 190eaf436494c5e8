"""What looking for notices reads where ten thousand merchants fail at once, every five seconds.

Most are told of already, or have had no attempt in the last minute; of those that have, nearly all have
failed by one event alone. Sequential scans are off, as in the sessions of the daemon.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
import pytest_asyncio

from tests.integration.statement_cost import PLANS, Cost, explain
from tests.servers.database import Database
from webhook_dispatcher.storage.statements import load

pytestmark = pytest.mark.asyncio(loop_scope="module")

LANES = 10_000
EVERY_FRESH = 50
"""One of so many has failed within the last minute."""
FRESH = LANES // EVERY_FRESH
READY = 3
"""Of those, so many are to be told of."""
ATTEMPTS = 10
FILL = f"""
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id)
SELECT 'm' || n, 'https://example.com/', '\\x00', 'k1' FROM generate_series(1, {LANES}) AS n;
INSERT INTO webhook.lane (merchant_id) SELECT 'm' || n FROM generate_series(1, {LANES}) AS n
ON CONFLICT DO NOTHING;
UPDATE webhook.lane SET
    failing_since = clock_timestamp() - interval '1 day' * random() - interval '2 hours',
    last_failure_at = clock_timestamp()
        - CASE WHEN substr(merchant_id, 2)::integer % {EVERY_FRESH} = 0 THEN interval '0'
            ELSE interval '1 hour' END,
    failures_in_a_row = 9;
INSERT INTO webhook.attempt_log (event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome)
SELECT
    CASE WHEN n > {READY} * {EVERY_FRESH} THEN lpad(n::text, 32, '0')::uuid ELSE gen_random_uuid() END,
    'm' || n, k, 'schedule', clock_timestamp() - (k - 1) * interval '5 minutes', 5, 'status'
FROM generate_series(1, {LANES}) AS n, generate_series(1, {ATTEMPTS}) AS k;
ANALYZE;
"""


NOTICES = "SELECT count(*) FROM webhook.outbox WHERE type = $1"
TOLD = """
UPDATE webhook.lane SET
    reported_failing_since = failing_since,
    last_success_at = CASE WHEN merchant_id = 'm7' THEN clock_timestamp() END
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def failing(shared_database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Have a session where ten thousand fail; each test's own transaction is undone."""
    connection = await shared_database.connect()
    await connection.execute(FILL)
    await connection.execute("SET enable_seqscan = off")
    yield connection
    await connection.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def told(failing: asyncpg.Connection) -> asyncpg.Connection:
    """Let all be told of, and one recover."""
    await failing.execute(TOLD)
    await failing.execute("VACUUM ANALYZE webhook.lane")
    return failing


@asynccontextmanager
async def undone(session: asyncpg.Connection) -> AsyncIterator[None]:
    """Undo in the end what is done while entered."""
    transaction = session.transaction()
    await transaction.start()
    yield
    await transaction.rollback()


def _sequential(cost: Cost) -> set[str]:
    return {
        str(node["Relation Name"])
        for node in cost.nodes()
        if node["Node Type"] == "Seq Scan" and node["Actual Loops"] and "Relation Name" in node
    }


@PLANS
async def test_beside_ten_thousand_that_fail_few_attempts_are_read(
    failing: asyncpg.Connection, plan_cache_mode: str
) -> None:
    statement = load("notices")["report_failing"]
    async with undone(failing):
        name = f"report_failing_{plan_cache_mode}"
        cost = await explain(failing, name, statement, plan_cache_mode, "'1 hour'", "500")
        notices = await failing.fetchval(NOTICES, "endpoint.failing")
    assert cost.plan["Actual Rows"] == 1
    assert (notices, _sequential(cost)) == (READY, set())
    read = sum(
        node["Actual Rows"] * node["Actual Loops"]
        for node in cost.nodes()
        if "attempt_log" in node.get("Relation Name", "")
    )
    assert READY * ATTEMPTS <= read <= FRESH * ATTEMPTS
    # Of those who failed lately two days are looked at, shortly after midnight three, each with its index.
    assert cost.buffers < 2 * LANES + 60 * FRESH


@PLANS
async def test_beside_ten_thousand_that_were_told_of_those_alone_are_read_that_recovered(
    told: asyncpg.Connection, plan_cache_mode: str
) -> None:
    recovered, failing = (load("notices")[name] for name in ("report_recovered", "report_failing"))
    async with undone(told):
        cost = await explain(told, f"recovered_{plan_cache_mode}", recovered, plan_cache_mode, "500")
        assert await told.fetchval(NOTICES, "endpoint.recovered") == 1
        again = await explain(told, f"again_{plan_cache_mode}", failing, plan_cache_mode, "'1 hour'", "500")
    assert _sequential(cost) == set()
    assert cost.buffers < 2 * LANES
    assert again.buffers < 3 * LANES
