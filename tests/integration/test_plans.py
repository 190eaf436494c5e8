"""Statements are planned once for all values where the daemon asks the same few again and again."""

import base64
from collections.abc import Mapping
from datetime import timedelta

import asyncpg
import pytest

from tests.servers.database import Database
from webhook_dispatcher.app import run
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage.claims import PostgresClaims
from webhook_dispatcher.storage.connection import create_pool
from webhook_dispatcher.storage.records import PostgresRecords
from webhook_dispatcher.storage.session import PLANNED_EACH_TIME, PLANNED_ONCE

PATIENCE = timedelta(seconds=10)
PLANS = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement = $1"
LOOK = "SELECT seq FROM webhook.outbox WHERE seq > $1 ORDER BY seq LIMIT $2"


async def plans(pool: asyncpg.Pool) -> tuple[int, int]:
    """Ask a question three times; return how often the server planned it in general, and for its values."""
    async with pool.acquire() as connection:
        for _ in range(3):
            await connection.fetch(LOOK, 1, 10)
        row = await connection.fetchrow(PLANS, LOOK)
    assert row is not None
    return row["generic_plans"], row["custom_plans"]


@pytest.mark.parametrize(("planning", "planned"), [(PLANNED_ONCE, (3, 0)), (PLANNED_EACH_TIME, (0, 3))])
async def test_a_pool_plans_as_it_is_told_to(
    database: Database, planning: Mapping[str, str], planned: tuple[int, int]
) -> None:
    async with create_pool(
        database.dsn(), application_name="test", command_timeout=PATIENCE, size=1, planning=planning
    ) as pool:
        assert await plans(pool) == planned


async def test_through_a_pooler_plans_are_made_alike(database: Database) -> None:
    async with create_pool(
        database.dsn(),
        application_name="test",
        command_timeout=PATIENCE,
        size=1,
        pooled=True,
        planning=PLANNED_ONCE,
    ) as pool:
        assert await pool.fetchval("SHOW enable_seqscan") == "off"


async def test_the_daemons_claims_and_records_are_planned_once(database: Database) -> None:
    settings = load_settings(
        {
            "WEBHOOK_DATABASE_URL": database.dsn(),
            "WEBHOOK_SECRET_KEYS": f"k1:{base64.b64encode(bytes(32)).decode()}",
            "WEBHOOK_OPS_ADDRESS": "127.0.0.1:0",
        }
    )
    async with run.running(settings) as daemon:
        claims, records = daemon._dispatcher._claims, daemon._recorder._refused._records
        assert isinstance(claims, PostgresClaims)
        assert isinstance(records, PostgresRecords)
        for pool in (claims._pool, records._pool):
            assert await plans(pool) == (3, 0)
