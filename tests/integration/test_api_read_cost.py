"""What merchants' reads cost in a log of 31 days: some buffers for each partition and row, however full.

`make bench-api-reads` has it at the size that is promised, and prints what it found.
"""

import os
from collections.abc import AsyncIterator, Iterator, Mapping

import asyncpg
import pytest
import pytest_asyncio

from tests.integration.api_harness import token_of
from tests.integration.read_cost import MAKE_PARTITIONS, Found, patience, set_as_programs_do
from tests.integration.statement_cost import Cost, execute, kept_plans, prepare
from tests.integration.test_api_walls import READS
from tests.servers.database import Database, copy_database
from webhook_dispatcher.local.postgres import EmbeddedPostgres

FEW, MANY = 30_000, int(os.environ.get("API_READ_ROWS", "100000"))

pytestmark = [pytest.mark.asyncio(loop_scope="module"), patience(MANY)]

PARTITIONS = 31
BUFFERS = 4
"""For a partition, and for a row: what is owed counts as two partitions more, the token as one."""
PLACES = PARTITIONS + 3
PAGE = 50
NEWEST = str(2**63 - 1)
TODAY = "date_trunc('day', clock_timestamp(), 'UTC')"
"""Rows are laid out from here, so that what a range holds does not depend on the time of day."""
FILL = """
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, finished_at, xid
)
SELECT
    n, lpad(n::text, 32, '0')::uuid, CASE WHEN n % 2 = 0 THEN 'big' ELSE 'm' || n % 1000 END,
    CASE WHEN n % 100 < 2 THEN 'charge.failed' ELSE 'charge.succeeded' END, at,
    json_build_object('id', 'ch_' || n / 4),
    CASE WHEN n % ({rows} / 200) = 0 THEN 'failed' ELSE 'delivered' END,
    CASE WHEN n % ({rows} / 200) = 0 THEN 'exhausted' END, 1, at, (3 + n::bigint * 600 / {rows})::text::xid8
FROM generate_series(1, {rows}) AS n
CROSS JOIN LATERAL (
    SELECT
        date_trunc('day', clock_timestamp(), 'UTC') - interval '22 days'
        + n * interval '31 days' / ({rows} + 1) AS at
) AS time
"""
OWE = """
INSERT INTO webhook.outbox (seq, merchant_id, type, object, due_at) OVERRIDING SYSTEM VALUE
SELECT {rows} + n, 'big', 'charge.succeeded', '{{}}', CASE WHEN n % 3 = 0 THEN clock_timestamp() END
FROM generate_series(1, 5000) AS n
"""


async def _session(postgres: EmbeddedPostgres, rows: int) -> tuple[asyncpg.Connection, str]:
    """Fill a database, and prepare every read; return the token as SQL too."""
    database = Database(postgres, f"webhook_api_{rows}")
    await copy_database(postgres, database.name)
    session = await database.connect()
    for text in (MAKE_PARTITIONS, FILL.format(rows=rows), OWE.format(rows=rows), "VACUUM ANALYZE"):
        await session.execute(text)
    token_hash = await token_of(session, "big")
    await set_as_programs_do(session)
    for name, statement in READS.items():
        await prepare(session, name, statement)
    return session, f"'\\x{token_hash.hex()}'"


@pytest.fixture(scope="module")
def found() -> Iterator[Found]:
    """Keep what reads cost, to be printed in the end."""
    found = Found(FEW, MANY)
    yield found
    found.print()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions(postgres: EmbeddedPostgres) -> AsyncIterator[Mapping[int, tuple[asyncpg.Connection, str]]]:
    opened = {rows: await _session(postgres, rows) for rows in (FEW, MANY)}
    yield opened
    for session, _ in opened.values():
        await session.close()
    admin = await asyncpg.connect(postgres.dsn())
    for rows in opened:
        await admin.execute(f"DROP DATABASE webhook_api_{rows} WITH (FORCE)")
    await admin.close()


def _list(
    state: str = "NULL", type_: str = "NULL", since: str = "NULL", until: str = "NULL"
) -> tuple[str, ...]:
    return "list_own_deliveries", "{token}", NEWEST, state, type_, since, until, "NULL", str(PAGE + 1)


def _deep(part: int, **filters: str) -> tuple[str, ...]:
    """Go on from a position in the log: at a part of its rows."""
    name, token, _, *rest = _list(**filters)
    return name, token, "{rows} / " + str(part), *rest


EXAMINED = 1_000
ASKED = {
    "no filter": (_list(), PAGE),
    "no filter, further on": (_deep(2), PAGE),
    "pending": (_list("'pending'"), PAGE),
    "pending_retry": (_list("'pending_retry'"), PAGE),
    "failed": (("list_own_failed", "{token}", NEWEST, *["NULL"] * 4, str(PAGE + 1)), PAGE),
    "failed, of a type that none is": (
        ("list_own_failed", "{token}", NEWEST, "'charge.created'", *["NULL"] * 3, str(PAGE + 1)),
        200,
    ),
    "delivered": (_list("'delivered'"), PAGE),
    "type": (_deep(2, type_="'charge.failed'"), EXAMINED),
    "since": (_list(since=f"{TODAY} + interval '8 days 12 hours'"), EXAMINED),
    "until": (_list(until=f"{TODAY} - interval '19 days 12 hours'"), EXAMINED),
    "one charge's deliveries": (
        ("list_own_deliveries_of_charge", "{token}", NEWEST, *["NULL"] * 5, "'ch_' || {rows} / 8", str(PAGE)),
        4,
    ),
    "one event's deliveries": (
        ("list_own_deliveries_of_event", "{token}", NEWEST, *["NULL"] * 6)
        + ("lpad('1000', 32, '0')::uuid", str(PAGE)),
        1,
    ),
    "one charge": (("read_own_charge", "{token}", "'ch_' || {rows} / 8"), 4),
    "no charge": (("read_own_charge", "{token}", "'none'"), 0),
    "one delivery": (("read_own_delivery", "{token}", "lpad('1000', 32, '0')::uuid"), 1),
    "events from the first": (
        ("list_own_events", "{token}", "'0'", "0", "NULL", str(PAGE + 1), "1000000"),
        PAGE,
    ),
    "events, further on": (
        ("list_own_events", "{token}", "'303'", "{rows} / 2", "NULL", str(PAGE + 1), "1000000"),
        PAGE,
    ),
    "events from an instant on": (
        ("list_own_events", "{token}", "NULL", "NULL", "clock_timestamp()", str(PAGE + 1), "1000000"),
        PAGE,
    ),
    "no more events": (
        ("list_own_events", "{token}", "'9000000000'", "0", "NULL", str(PAGE + 1), "1000000"),
        0,
    ),
    "no delivery": (("read_own_delivery", "{token}", "lpad('1001', 32, '0')::uuid"), 1),
}
"""By name, what is asked, and how many rows it may be about."""


@kept_plans("integration/test_api_read_cost.py::test_reads_are_bounded_and_flat")
@pytest.mark.parametrize("name", ASKED)
async def test_reads_are_bounded_and_flat(
    sessions: Mapping[int, tuple[asyncpg.Connection, str]], found: Found, name: str, plan_cache_mode: str
) -> None:
    (statement, *values), about = ASKED[name]
    costs = dict[int, Cost]()
    for rows, (session, token) in sessions.items():
        await session.execute(f"SET plan_cache_mode = {plan_cache_mode}")
        given = [value.format(token=token, rows=rows) for value in values]
        await execute(session, statement, *given)  # A session's first look at an index reads its root, too.
        costs[rows] = await execute(session, statement, *given)
    found.add(name, costs)
    few, many = costs[FEW].buffers, costs[MANY].buffers
    assert many <= BUFFERS * (PLACES + about)
    assert many <= few + PLACES + about / 10, "an index may be a level higher"
    # By row_number() one more is read than is numbered.
    assert max(cost.most_handled for cost in costs.values()) <= EXAMINED + 1
