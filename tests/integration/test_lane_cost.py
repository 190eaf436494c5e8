"""Leasing, recording and planning retries read the lanes they are about, however many others there are."""

from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from tests.integration.statement_cost import PLANS, execute, explain, prepare
from tests.servers.database import Database
from webhook_dispatcher.storage.connection import connect
from webhook_dispatcher.storage.session import BY_INDEXES, PLANNED_ONCE
from webhook_dispatcher.storage.statements import load

PATIENCE = timedelta(seconds=20)
LANES = 5_000
ASKED = 100
EVENTS = 20_000
NAMES = f"ARRAY{[f'm{number}' for number in range(ASKED)]}"
NUMBERS = f"ARRAY{list(range(ASKED))}"


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection]:
    admin = await database.connect()
    await admin.execute(
        "INSERT INTO webhook.lane (merchant_id) SELECT 'm' || n FROM generate_series(1, $1) AS n", LANES
    )
    await admin.execute("ANALYZE webhook.lane")
    for name, value in BY_INDEXES.items():  # as all sessions of the daemon, and a pooler's transactions
        await admin.execute(f"SET {name} = {value}")
    yield admin
    await admin.close()


def _each(value: str, sqltype: str) -> str:
    return f"array_fill({value}::{sqltype}, ARRAY[{ASKED}])"


STARTED_AT = _each("pg_postmaster_start_time()", "timestamptz")


def _record() -> tuple[str, ...]:
    """Return the values of a batch in which every asked lane has one outcome."""
    nothing = [_each("NULL", kind) for kind in ("text", "text")]
    instants = _each("clock_timestamp()", "timestamptz")
    return (
        *(NUMBERS, NAMES),
        *(_each("gen_random_uuid()", "uuid"), _each("0", "bigint"), _each("false", "boolean"), *nothing),
        *(_each("1", "smallint"), _each("NULL", "timestamptz"), _each("200", "smallint")),
        *(_each("'delivered'", "text"), _each("'schedule'", "text"), instants, _each("5", "integer")),
        *(instants, NAMES, _each("0", "bigint"), _each("false", "boolean"), instants),
        *(_each("0", "bigint"), "'30 seconds'", *nothing, STARTED_AT),
    )


@PLANS
async def test_leasing_reads_only_the_wanted_lanes(
    connection: asyncpg.Connection, plan_cache_mode: str
) -> None:
    cost = await explain(
        connection,
        "measured",
        load("claiming")["lease_lanes"],
        plan_cache_mode,
        *(NAMES, _each("9", "bigint"), "'30 seconds'", "'somebody'"),
    )
    assert cost.most_rows("lane") <= ASKED


@PLANS
async def test_recording_reads_only_the_lanes_concerned(
    connection: asyncpg.Connection, plan_cache_mode: str
) -> None:
    cost = await explain(connection, "measured", load("recording")["record"], plan_cache_mode, *_record())
    assert cost.most_rows("lane") <= ASKED


@PLANS
async def test_planning_retries_reads_only_the_locked_lanes(
    connection: asyncpg.Connection, plan_cache_mode: str
) -> None:
    cost = await explain(
        connection, "measured", load("retrying")["plan_retries"], plan_cache_mode, NAMES, "2", "'{}'"
    )
    assert cost.most_rows("lane") <= ASKED


EARLY = {
    "read_arrivals": ("claiming", {"outbox_pkey"}, (str(EVENTS - ASKED), "5000")),
    "read_gaps": ("claiming", {"outbox_pkey"}, ("ARRAY[1, 500]", "ARRAY[50, 549]", "5000")),
    "lease_lanes": ("claiming", set(), (NAMES, _each("9", "bigint"), "'30 seconds'", "'somebody'")),
    "read_runs": (
        "claiming",
        {"outbox_in_order"},
        (NAMES, *[_each(most, "bigint") for most in ("0", "1", "65536")], STARTED_AT),
    ),
    "record": ("recording", {"outbox_pkey", "outbox_due"}, _record()),
}
"""By name: where a statement is, how it is to read the outbox, and its values."""


@pytest.mark.parametrize("name", EARLY)
async def test_a_plan_that_was_made_while_there_was_nothing_reads_no_more_when_there_is(
    database: Database, name: str
) -> None:
    """The daemon starts on an empty database, or the outbox was empty, and keeps its plans: then a burst."""
    subject, indexes, values = EARLY[name]
    admin = await connect(
        database.dsn("postgres"), application_name="early", command_timeout=PATIENCE, planning=PLANNED_ONCE
    )
    await prepare(admin, "early", load(subject)[name])
    await execute(admin, "early", *values)
    async with admin.transaction():
        await admin.execute(
            "INSERT INTO webhook.lane (merchant_id) SELECT 'm' || n FROM generate_series(1, $1) AS n", LANES
        )
        await admin.execute(
            "INSERT INTO webhook.outbox (merchant_id, type, object) "
            "SELECT 'm' || n % $2, 'charge.succeeded', '{}' FROM generate_series(1, $1) AS n",
            EVENTS,
            LANES,
        )
        cost = await execute(admin, "early", *values)
    await admin.close()
    assert cost.indexes("outbox") == indexes
    assert all(cost.most_rows(table) <= ASKED for table in ("lane", "outbox") if cost.indexes(table))
