"""Leasing, recording and planning retries read the lanes they are about, however many others there are."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.conftest import Database
from tests.integration.cost import PLANS, explain
from webhook_dispatcher.storage.statements import load

LANES = 5_000
ASKED = 100
NAMES = f"ARRAY{[f'm{number}' for number in range(ASKED)]}"
NUMBERS = f"ARRAY{list(range(ASKED))}"


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection]:
    admin = await database.connect()
    await admin.execute(
        "INSERT INTO webhook.lane (merchant_id) SELECT 'm' || n FROM generate_series(1, $1) AS n", LANES
    )
    await admin.execute("ANALYZE webhook.lane")
    yield admin
    await admin.close()


def _each(value: str, sqltype: str) -> str:
    return f"array_fill({value}::{sqltype}, ARRAY[{ASKED}])"


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
    nothing = [_each("NULL", kind) for kind in ("text", "text")]
    instants = _each("clock_timestamp()", "timestamptz")
    cost = await explain(
        connection,
        "measured",
        load("recording")["record"],
        plan_cache_mode,
        *(NUMBERS, NAMES),
        *(_each("gen_random_uuid()", "uuid"), _each("0", "bigint"), _each("false", "boolean"), *nothing),
        *(_each("1", "smallint"), _each("NULL", "timestamptz"), _each("200", "smallint")),
        *(_each("'delivered'", "text"), _each("'schedule'", "text"), instants, _each("5", "integer")),
        *(instants, NAMES, _each("0", "bigint"), _each("false", "boolean"), instants),
        *(_each("0", "bigint"), "'30 seconds'", _each("false", "boolean")),
    )
    assert cost.most_rows("lane") <= ASKED


@PLANS
async def test_planning_retries_reads_only_the_locked_lanes(
    connection: asyncpg.Connection, plan_cache_mode: str
) -> None:
    cost = await explain(
        connection, "measured", load("retrying")["plan_retries"], plan_cache_mode, NAMES, "2"
    )
    assert cost.most_rows("lane") <= ASKED
