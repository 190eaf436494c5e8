"""What looking and claiming cost in buffers, behind dead rows that an old transaction keeps (I7).

Counts come from the shipped texts, prepared as the daemon prepares them, planned for their values and
in general (as the daemon's own sessions ask for), with statistics of a full and of an empty table.
"""

import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import asyncpg
import pytest
import pytest_asyncio

from tests.integration.statement_cost import PLANS, Cost, explain
from tests.servers.database import Database
from webhook_dispatcher.storage.statements import Statement, load

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLAIMING = load("claiming")
DEAD = 100_000
DEAD_OF_HOT = 75_000
BUSY = 5_000
FILL = """
INSERT INTO webhook.outbox (merchant_id, type, object)
SELECT
    CASE WHEN number <= $2 THEN 'hot' ELSE 'm' || number % 1000 END,
    'charge.created',
    '{"id":"ch_0123456789","status":"succeeded","amount":12345}'
FROM generate_series(1, $1) AS number
"""
OLD_TRANSACTION = "SELECT pg_current_xact_id(), count(*) FROM webhook.state"


@dataclass(slots=True)
class Graveyard:
    """A database whose outbox has seen and deleted all its rows, and the connection to measure on."""

    connection: asyncpg.Connection
    last_dead: int
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def explain(self, statement: Statement, plan_cache_mode: str, *values: str) -> Cost:
        """Execute a statement once for its plan."""
        name = f"measured_{next(self.numbers)}"
        return await explain(self.connection, name, statement, plan_cache_mode, *values)


async def _fill_and_empty(admin: asyncpg.Connection) -> int:
    await admin.execute("ALTER TABLE webhook.outbox SET (autovacuum_enabled = off)")
    await admin.execute(FILL, DEAD, DEAD_OF_HOT)
    await admin.execute("ANALYZE webhook.outbox")
    await admin.execute("DELETE FROM webhook.outbox")
    last: int = await admin.fetchval("SELECT last_value FROM webhook.outbox_seq_seq")
    return last


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def emptied(shared_database: Database) -> AsyncIterator[Graveyard]:
    """Leave an empty table, 100,000 dead rows, and a transaction open that may still look at them."""
    old, admin = await shared_database.connect(), await shared_database.connect()
    connection = await shared_database.connect("webhook_dispatcher")
    # A session's first call of it reads the catalogue.
    await connection.execute("SELECT pg_sequence_last_value('webhook.outbox_seq_seq')")
    transaction = old.transaction(isolation="repeatable_read")
    await transaction.start()
    await old.fetchrow(OLD_TRANSACTION)
    yield Graveyard(connection, await _fill_and_empty(admin))
    await transaction.rollback()
    for each in (old, admin, connection):
        await each.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def busy(emptied: Graveyard, shared_database: Database) -> Graveyard:
    """Let the hot merchant owe 5,000 rows behind its 75,000 dead ones, and others a few."""
    admin = await shared_database.connect()
    await admin.execute(FILL, BUSY + 1000, BUSY)
    await admin.execute(
        "INSERT INTO webhook.lane (merchant_id) SELECT 'm' || n FROM generate_series(0, 999) n"
    )
    await admin.execute(
        "INSERT INTO webhook.lane (merchant_id, from_seq) VALUES ('hot', $1)", emptied.last_dead
    )
    await admin.close()
    return emptied


def _hot_run(last_dead: int, run: int) -> tuple[str, ...]:
    return (
        "ARRAY['hot']",
        f"ARRAY[{last_dead}]",
        f"ARRAY[{run}]",
        "ARRAY[1048576]",
        "ARRAY[pg_postmaster_start_time()]",
    )


@PLANS
async def test_idle_look_at_an_emptied_table_reads_a_handful_of_buffers(
    emptied: Graveyard, plan_cache_mode: str
) -> None:
    cost = await emptied.explain(CLAIMING["read_arrivals"], plan_cache_mode, str(emptied.last_dead), "5000")
    print("buffers:", cost.buffers)
    assert cost.indexes("outbox") == {"outbox_pkey"}
    assert cost.buffers <= 10


@PLANS
async def test_look_at_gaps_does_not_read_the_dead_rows_around_them(
    emptied: Graveyard, plan_cache_mode: str
) -> None:
    middle = emptied.last_dead // 2
    bounds = f"ARRAY[{middle}, {middle + 1000}]", f"ARRAY[{middle + 9}, {middle + 1009}]"
    cost = await emptied.explain(CLAIMING["read_gaps"], plan_cache_mode, *bounds, "5000")
    print("buffers:", cost.buffers)
    assert cost.buffers <= 40  # two descents, and the dead rows inside the gaps


@PLANS
async def test_run_behind_dead_rows_costs_what_it_brings(busy: Graveyard, plan_cache_mode: str) -> None:
    costs = {}
    for run in (20, 200, 2000):
        cost = await busy.explain(CLAIMING["read_runs"], plan_cache_mode, *_hot_run(busy.last_dead, run))
        assert cost.plan["Actual Rows"] == run
        assert cost.indexes("outbox") == {"outbox_in_order"}
        costs[run] = cost.buffers
    print("buffers:", costs)
    assert costs[20] <= 50
    assert costs[200] <= 10 * costs[20]
    assert costs[2000] <= 100 * costs[20]


@PLANS
async def test_sweep_probes_no_more_merchants_than_it_may(busy: Graveyard, plan_cache_mode: str) -> None:
    """Behind dead rows its probes are not cheap; their number is what bounds it (and it runs seldom)."""
    cost = await busy.explain(CLAIMING["sweep_lanes"], plan_cache_mode, "'hot'", "50")
    print("buffers:", cost.buffers)
    assert cost.plan["Actual Rows"] == 50
    assert cost.indexes("outbox") == {"outbox_in_order"}
    (lateral,) = [node for node in cost.nodes() if node["Node Type"] == "Recursive Union"]
    assert lateral["Actual Rows"] <= 51
