"""What daemons note of themselves on a real database, what that costs, and when it is forgotten."""

import asyncio
import base64
from datetime import timedelta

import asyncpg
import pytest

from tests.integration.storage_harness import PATIENCE, StorageHarness
from tests.servers.database import Database
from webhook_dispatcher.app import run
from webhook_dispatcher.domain.ports import Heartbeat
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage.heartbeats import PostgresHeartbeats, forget_noted
from webhook_dispatcher.storage.schema import SCHEMA_VERSION

RETENTION = timedelta(days=31)
NOTED = "SELECT outcome, sum(attempts)::bigint FROM webhook.attempts_by_minute GROUP BY outcome"


def beat(**attempts: int) -> Heartbeat:
    return Heartbeat(3, 2, [], [], attempts)


async def noted(storage: StorageHarness) -> dict[str, int]:
    return {row["outcome"]: row["sum"] for row in await storage.db.fetch(NOTED)}


async def test_two_daemons_add_up_and_each_has_its_row(storage: StorageHarness) -> None:
    async with storage.database.pool("upkeep", 2, PATIENCE) as pool:
        first, second = [
            PostgresHeartbeats(pool, owner, "host", "1.0", SCHEMA_VERSION, {"WEBHOOK_LEASE": "PT1M"})
            for owner in ("a", "b")
        ]
        await first.note(beat(delivered=5, timeout=1))
        started_at = await storage.db.fetchval("SELECT started_at FROM webhook.dispatcher WHERE owner = 'a'")
        await asyncio.gather(*[each.note(beat(timeout=1, delivered=1)) for each in (first, second) * 5])
        await second.note(Heartbeat(0, 0, ["too late"], ["a fault"], {}))
        rows = await storage.db.fetch("SELECT * FROM webhook.dispatcher ORDER BY owner")
        assert await noted(storage) == {"delivered": 15, "timeout": 11}
    assert [(row["owner"], row["lanes"], row["is_ready"], row["reasons"], row["faults"]) for row in rows] == [
        ("a", 3, True, [], []),
        ("b", 0, False, ["too late"], ["a fault"]),
    ]
    assert [row["settings"] for row in rows] == ['{"WEBHOOK_LEASE": "PT1M"}'] * 2
    assert rows[0]["started_at"] == started_at < rows[0]["beat_at"]


async def test_settings_are_noted_that_are_no_text_of_the_database(storage: StorageHarness) -> None:
    """A path may be any bytes, which Python has as halves of surrogate pairs, and a database be of ASCII."""
    async with storage.database.pool("upkeep", 1, PATIENCE) as pool:
        settings = {"WEBHOOK_DATA_DIR": "/srv/\udcff/J\xfcrgen"}
        await PostgresHeartbeats(pool, "a", "host", "1.0", SCHEMA_VERSION, settings).note(beat(delivered=1))
    told = await storage.db.fetchval("SELECT settings ->> 'WEBHOOK_DATA_DIR' FROM webhook.dispatcher")
    assert told == r"/srv/\udcff/J\xfcrgen"


async def test_one_that_ends_leaves_its_attempts_and_no_row(storage: StorageHarness) -> None:
    async with storage.database.pool("upkeep", 1, PATIENCE) as pool:
        leaving = PostgresHeartbeats(pool, "a", "host", "1.0", SCHEMA_VERSION, {"WEBHOOK_LEASE": "PT1M"})
        await leaving.note(beat(delivered=1))
        await leaving.remove({"delivered": 2})
    assert await storage.db.fetchval("SELECT count(*) FROM webhook.dispatcher") == 0
    assert await noted(storage) == {"delivered": 3}


async def test_how_far_numbers_are_is_noted_once_a_minute(storage: StorageHarness) -> None:
    async with storage.database.pool("upkeep", 1, PATIENCE) as pool:
        noting = PostgresHeartbeats(pool, "a", "host", "1.0", SCHEMA_VERSION, {"WEBHOOK_LEASE": "PT1M"})
        await noting.note(beat())
        *_, last = await storage.insert("m", "{}", "{}", "{}")
        await storage.db.execute("UPDATE webhook.seq_by_minute SET minute = minute - interval '1 minute'")
        await noting.note(beat())
        await storage.insert("m")
        await noting.note(beat())
    rows = await storage.db.fetch("SELECT seq FROM webhook.seq_by_minute ORDER BY minute")
    assert [row["seq"] for row in rows][:2] == [0, last]


async def test_what_is_old_is_forgotten_and_nothing_else(storage: StorageHarness) -> None:
    ages = {"dispatcher": 1, "attempts_by_minute": 8, "seq_by_minute": 32, "command_chunk": 32}
    for sign in (1, -1):
        for table, days in ages.items():
            at = await storage.now() - timedelta(days=days, minutes=sign)
            values = {
                "dispatcher": "($1::timestamptz::text, 'h', '1', $1, $1, 0, 0, true, '{}', '{}')",
                "attempts_by_minute": "($1, 'delivered', 1)",
                "seq_by_minute": "($1, 7)",
                "command_chunk": f"({2 + sign}, 0, '{{7}}', $1)",
            }[table]
            await storage.db.execute(f"INSERT INTO webhook.{table} VALUES {values}", at)
    async with storage.database.pool("upkeep", 1, PATIENCE) as pool:
        await forget_noted(pool, RETENTION)
    left = [await storage.db.fetchval(f"SELECT count(*) FROM webhook.{table}") for table in ages]
    assert left == [1, 1, 1, 1]
    assert await storage.db.fetchval("SELECT command_id FROM webhook.command_chunk") == 1


async def test_a_note_writes_little(storage: StorageHarness) -> None:
    """Whole pages, written after a checkpoint, apart: they are the price of any change."""
    async with storage.database.pool("upkeep", 1, PATIENCE) as pool:
        noting = PostgresHeartbeats(pool, "a", "host", "1.0", SCHEMA_VERSION, {"WEBHOOK_LEASE": "PT1M"})
        for _ in range(3):
            await noting.note(beat(delivered=100, timeout=3, status=5))
        before = await storage.db.fetchval("SELECT pg_current_wal_insert_lsn()")
        for _ in range(6):
            await noting.note(beat(delivered=100, timeout=3, status=5))
        after = await storage.db.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)", before)
    assert after / 6 < 2_000


async def row_of(db: asyncpg.Connection) -> asyncpg.Record | None:
    return await db.fetchrow("SELECT * FROM webhook.dispatcher")


async def test_a_daemon_notes_itself_and_is_gone_when_it_ends(
    storage: StorageHarness, database: Database
) -> None:
    settings = load_settings(
        {
            "WEBHOOK_DATABASE_URL": database.dsn(),
            "WEBHOOK_SECRET_KEYS": f"k1:{base64.b64encode(bytes(32)).decode()}",
            "WEBHOOK_OPS_ADDRESS": "127.0.0.1:0",
        }
    )
    async with run.running(settings) as daemon:
        async with asyncio.timeout(10):
            while (row := await row_of(storage.db)) is None:
                await storage.db.execute("SELECT pg_sleep(0.01)")
        assert (row["is_ready"], row["reasons"], row["faults"]) == (True, [], [])
        assert row["owner"] == daemon._owner
    assert await row_of(storage.db) is None


@pytest.mark.parametrize("text", ["\N{SNOWMAN}", "'; DROP TABLE webhook.dispatcher; --"])
async def test_whatever_is_wrong_can_be_noted(storage: StorageHarness, text: str) -> None:
    async with storage.database.pool("upkeep", 1, PATIENCE) as pool:
        await PostgresHeartbeats(pool, "a", "host", "1.0", SCHEMA_VERSION, {"WEBHOOK_LEASE": "PT1M"}).note(
            Heartbeat(0, 0, [text], [text], {})
        )
    row = await row_of(storage.db)
    assert row is not None
    assert (row["reasons"], row["faults"]) == ([text], [text])
