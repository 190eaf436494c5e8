"""No statement reads a table in proportion to anything but what it is asked, whatever statistics say.

A general plan is kept until statistics are gathered anew, and whatever they said when it was made it must do
for what is there later. So they are forced into the catalogue, every statement is planned under them, for its
values and in general, and executed beside 40,000 rows. Sessions are as the daemon's.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

import asyncpg
import pytest
import pytest_asyncio

from tests.integration.statement_cost import PLANS, Cost, execute, is_compiled, prepare
from tests.integration.statement_questions import BEARER, FILL, LEAVE_ALONE, QUESTIONS, READ_WHOLE, STATEMENTS
from tests.servers.database import Database
from webhook_dispatcher.storage.connection import connect
from webhook_dispatcher.storage.session import PLANNED_ONCE

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE = timedelta(minutes=2)
BUFFERS = 320
"""What a statement may read that is about one row: a log has ten partitions, and as many indexes each."""
BUFFERS_A_ROW = 120
"""`record` reads 73 to 90, by how many rows were rolled back before it, each of which its index has still."""
HANDLED_A_ROW = 30
"""Rows that one node of a plan may read or compare for each; where each meets each, they are 100."""

OURS = "(SELECT oid FROM pg_class WHERE relnamespace = 'webhook'::regnamespace)"
AS_LEFT = "as ANALYZE left them"
SIZES = {
    AS_LEFT: "reltuples = reltuples",
    "no pages and no rows": "relpages = 0, reltuples = 0",
    "many pages and no rows": "relpages = greatest(relpages, 1), reltuples = 0",
    "one page and one row": "relpages = 1, reltuples = 1",
    "a million times as many": "reltuples = reltuples * 1e6",
    "never analyzed": "relpages = 0, reltuples = -1",
    "half of them": "reltuples = reltuples / 2",
}
"""By name, what is put into pg_class for all tables and indexes; half of all rows are dead anyway."""
CONTENTS = {
    AS_LEFT: "SELECT 1",
    "unknown": f"DELETE FROM pg_statistic WHERE starelid IN {OURS}",
    "mostly NULL": f"UPDATE pg_statistic SET stadistinct = 1, stanullfrac = 0.99 WHERE starelid IN {OURS}",
    "all distinct": f"UPDATE pg_statistic SET stadistinct = -1, stanullfrac = 0 WHERE starelid IN {OURS}",
    "of one merchant": f"""
        UPDATE pg_statistic
        SET
            stadistinct = 1, stanullfrac = CASE WHEN stanullfrac > 0 THEN 1 ELSE 0 END,
            stakind1 = 0, stakind2 = 0, stakind3 = 0, stakind4 = 0, stakind5 = 0
        WHERE starelid IN {OURS} AND (starelid, staattnum) NOT IN (
            SELECT attrelid, attnum FROM pg_attribute WHERE attname IN ('seq', 'id', 'event_id')
        )
    """,
}
"""By name, what is done to pg_statistic; the first two with each of the sizes."""
WORST = pytest.mark.slow(
    "integration/test_plan_bounds.py::test_whatever_statistics_say_each_reads_in_proportion_to_what_it_is_asked"
)
TRIED = [(size, contents) for size in SIZES for contents in list(CONTENTS)[: None if size == AS_LEFT else 2]]
QUICKLY_TRIED = [(AS_LEFT, AS_LEFT), (AS_LEFT, "of one merchant")]
STATISTICS = [pytest.param(*each, marks=[] if each in QUICKLY_TRIED else WORST) for each in TRIED]

SMALL = {"many pages and no rows": {"show_recovery", "show_all_api_keys"}}
"""What reads 40,000 rows (5,000 keys) rather than an index where statistics call them none; more: not."""

JIT_AS_POSTGRES_HAS_IT = """
SET jit = on;
SET jit_above_cost = 100000;
SET jit_inline_above_cost = 500000;
SET jit_optimize_above_cost = 500000
"""
"""A server of the tests may compile everything, for minutes."""


async def _session(database: Database) -> asyncpg.Connection:
    """Connect as the daemon does, but compile what Postgres by itself would, and prepare everything."""
    connection = await connect(
        database.dsn("postgres"), application_name="plans", command_timeout=PATIENCE, planning=PLANNED_ONCE
    )
    await connection.execute(JIT_AS_POSTGRES_HAS_IT)
    for name in QUESTIONS:
        await prepare(connection, name, STATEMENTS[name])
    return connection


async def _ask(connection: asyncpg.Connection, name: str) -> Cost:
    """Execute a statement for its plan, and undo what it did."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        return await execute(connection, name, *QUESTIONS[name].values)
    finally:
        await transaction.rollback()


async def _ask_all(connection: asyncpg.Connection) -> dict[str, Cost]:
    return {name: await _ask(connection, name) for name in QUESTIONS}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def early(shared_database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Have a session whose general plans were made while there was nothing, and then the rows."""
    admin = await shared_database.connect()
    await admin.execute(LEAVE_ALONE)
    await admin.execute(BEARER)
    await admin.execute("VACUUM ANALYZE")
    connection = await _session(shared_database)
    await _ask_all(connection)
    await admin.execute(FILL)
    yield connection
    await connection.close()
    await admin.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def connection(
    early: asyncpg.Connection, shared_database: Database
) -> AsyncIterator[asyncpg.Connection]:
    """Have a session on the full database, with statistics of what is there."""
    session = await _session(shared_database)
    await session.execute("ANALYZE")
    yield session
    await session.close()


def _excessive(costs: Mapping[str, Cost]) -> dict[str, tuple[int, float]]:
    """Name those that read or compared too much: how many buffers, and how many rows at most."""
    return {
        name: (cost.buffers, cost.most_handled)
        for name, cost in costs.items()
        if cost.buffers > BUFFERS + BUFFERS_A_ROW * (QUESTIONS[name].rows - 1)
        or cost.most_handled > HANDLED_A_ROW * QUESTIONS[name].rows
    }


async def test_every_statement_is_asked_or_may_read_all() -> None:
    assert QUESTIONS.keys() | READ_WHOLE.keys() == STATEMENTS.keys()
    assert not QUESTIONS.keys() & READ_WHOLE.keys()


async def test_plans_made_while_there_was_nothing_read_no_more_when_there_is(
    early: asyncpg.Connection,
) -> None:
    assert _excessive(await _ask_all(early)) == {}


@PLANS
async def test_nothing_is_compiled(connection: asyncpg.Connection, plan_cache_mode: str) -> None:
    if not await connection.fetchval("SELECT pg_jit_available()"):
        pytest.skip("this Postgres cannot compile (TEST_POSTGRES_BIN names one that can)")
    await connection.execute(f"SET plan_cache_mode = {plan_cache_mode}")
    # Planned for its values, a run's two bounds look as if there were a ninth of all rows between them: only
    # JIT switched off, as sessions have it, keeps that from being compiled. So do two conditions on failed
    # deliveries, a look for any delivery of a merchant, which ends at the first, one at those who fail, and
    # one at a table of a few rows, which is read whole. Of a charge all events are found before the latest is
    # taken, and without statistics of the key they look many.
    dear = {"is_known_merchant", "read_current_sealing_key"}
    dear |= {"read_own_charge", "list_own_deliveries_of_charge"}
    # A token is guessed to be of a thousand merchants, and each would look into all partitions.
    dear |= {"read_own_delivery", "list_own_deliveries_of_event", "list_own_deliveries", "list_own_failed"}
    # Looks of the console's pages are bounded where the planner does not see it, and so are the command
    # line's by the same texts, and that of a recovery at what waits.
    dear |= {name for name in QUESTIONS if name.startswith(("show_", "console_"))} | {"read_key_to_seal_with"}
    dear |= {name for name in QUESTIONS if f"console_{name}" in QUESTIONS} | {"find_waiting"}
    if plan_cache_mode == "force_custom_plan":
        dear |= {"read_runs", "count_failed", "reopen_failed", "report_failing"}
    asked = {name: question.values for name, question in QUESTIONS.items()}
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(f"UPDATE pg_class SET reltuples = 2.5 * reltuples WHERE oid IN {OURS}")
    assert {name for name in asked if await is_compiled(connection, name, *asked[name])} <= dear
    await transaction.rollback()


@PLANS
@pytest.mark.parametrize(("size", "contents"), STATISTICS)
async def test_whatever_statistics_say_each_reads_in_proportion_to_what_it_is_asked(
    connection: asyncpg.Connection, plan_cache_mode: str, size: str, contents: str
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SET LOCAL jit = off")
    await connection.execute(f"SET LOCAL plan_cache_mode = {plan_cache_mode}")
    await connection.execute(CONTENTS[contents])
    await connection.execute(
        f"UPDATE pg_class SET {SIZES[size]} WHERE oid IN {OURS} AND relkind IN ('r', 'i')"
    )
    excessive = _excessive(await _ask_all(connection))
    await transaction.rollback()
    assert excessive.keys() <= SMALL.get(size, set()), excessive
