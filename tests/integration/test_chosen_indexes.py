"""Indexes that an installation may do without: the key of charges, which never fails; made and dropped."""

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from tests.integration.storage_harness import LEASE, Daemon, StorageHarness, answered
from tests.servers.database import Database
from tests.waiting import until_found
from webhook_dispatcher.storage import chosen_indexes, schema
from webhook_dispatcher.storage.chosen_indexes import ChosenIndexes

INDEXES = """
SELECT tables.relname AS table, indexes.relname AS index, pg_index.indisvalid AS is_valid
FROM pg_index
JOIN pg_class AS indexes ON indexes.oid = pg_index.indexrelid
JOIN pg_class AS tables ON tables.oid = pg_index.indrelid
WHERE pg_get_indexdef(pg_index.indexrelid) LIKE '%charge_key%'
ORDER BY tables.relname
"""
TRY = "SELECT query_start FROM pg_stat_activity WHERE query LIKE 'DROP INDEX webhook.delivery_log%'"
TABLES = """
SELECT 'delivery_log' UNION ALL SELECT 'outbox' UNION ALL
SELECT child.relname::text FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = 'webhook.delivery_log'::regclass
ORDER BY 1
"""


async def indexed(connection: asyncpg.Connection) -> dict[str, bool]:
    """Return which tables have the index, and whether it is valid."""
    return {row["table"]: row["is_valid"] for row in await connection.fetch(INDEXES)}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"id": "ch_1", "amount": 1}', "ch_1"),
        ('{"amount": 1, "id": "ch_\\u0031"}', "ch_1"),
        ('{"id": "first", "id": "last"}', "last"),
        ('{"recipients": [{"id": "rcp_1"}]}', None),
        ('{"id": "' + "\N{EURO SIGN}" * 255 + '"}', "\N{EURO SIGN}" * 255),
        ('{"id": "' + "x" * 256 + '"}', None),
        ('{"id": "' + "x" * 16_384 + '"}', None),
        ('{"id": ""}', ""),
        ('{"id": 7}', None),
        ('{"id": null}', None),
        ('{"id": {"id": "inner"}}', None),
        ("{}", None),
        ('{"id": "a\\u0000b"}', None),
        ('{"id": "ch_1", "note": "\\u0000"}', None),
        ('{"id": "ch_1", "note": "\\ud800"}', None),
        ('{"id": ' + "[" * 5_000 + "]" * 5_000 + "}", None),
    ],
)
async def test_every_object_can_be_inserted_and_has_the_key_that_can_be_read(
    shared_database: Database, text: str, key: str | None
) -> None:
    producer = await shared_database.connect("webhook_producer")
    insert = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m', 'charge.created', $1)"
    seq = await producer.fetchval(f"{insert} RETURNING seq", text)
    await producer.close()
    reader = await shared_database.connect("webhook_observer")
    assert await reader.fetchval("SELECT charge_id FROM webhook.charges WHERE seq = $1", seq) == key
    await reader.close()


async def test_a_charge_is_found_by_the_indexes_wherever_its_events_are(
    storage: StorageHarness, here: Daemon
) -> None:
    first, second = await storage.insert("m", '{"id": "ch_1"}', '{"id": "ch_1"}')
    await storage.insert("n", *['{"id": "ch_other"}'] * 200)
    lease, events = await here.claim("m")
    await here.records.write([answered(events[0], lease.epoch, await storage.now(), 200)], [], LEASE)
    asked = "SELECT seq FROM webhook.charges WHERE charge_id = 'ch_1' ORDER BY seq"
    assert [row["seq"] for row in await storage.db.fetch(asked)] == [first, second]
    plan = "\n".join(row[0] for row in await storage.db.fetch(f"EXPLAIN {asked}"))
    assert "Seq Scan" not in plan
    assert plan.count("_charge") == len(await storage.db.fetch(TABLES)) - 1


@pytest.mark.parametrize("state", ["pending", "pending_retry"])
async def test_what_is_owed_is_asked_for_without_the_log(storage: StorageHarness, state: str) -> None:
    plan = await storage.db.fetch(f"EXPLAIN SELECT count(*) FROM webhook.deliveries WHERE state = '{state}'")
    assert "delivery_log" not in "\n".join(row[0] for row in plan)


async def test_the_newest_deliveries_are_read_from_the_end_of_their_indexes(storage: StorageHarness) -> None:
    asked = "EXPLAIN SELECT * FROM webhook.deliveries ORDER BY seq DESC LIMIT 5"
    plan = "\n".join(row[0] for row in await storage.db.fetch(asked))
    assert "Merge Append" in plan
    assert "Seq Scan" not in plan


async def tables(connection: asyncpg.Connection) -> dict[str, bool]:
    return {row[0]: True for row in await connection.fetch(TABLES)}


async def migrated(database: Database, choice: bool | None) -> Sequence[str]:
    said: list[str] = []
    await schema.migrate(database.dsn("postgres"), ChosenIndexes(charge=choice), said.append)
    return said


async def test_the_index_is_dropped_and_made_again_as_is_chosen(storage: StorageHarness) -> None:
    wanted = await tables(storage.db)
    assert await indexed(storage.db) == wanted
    assert await migrated(storage.database, False) == ["dropping the index of charges"]
    assert await indexed(storage.db) == {}
    await storage.insert("m", '{"id": "ch_1"}')
    assert await migrated(storage.database, None) == [], "the choice is remembered"
    assert await indexed(storage.db) == {}
    assert len(await migrated(storage.database, True)) == len(wanted) - 1
    assert await indexed(storage.db) == wanted
    assert await migrated(storage.database, None) == []


async def test_who_waits_for_a_lock_says_so_once(
    storage: StorageHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen_indexes, "SILENT_TRIES", 2)
    said: list[str] = []
    reader = await storage.database.connect()
    tries: set[object] = set()

    async def was_tried_again() -> bool:
        tries.add(await storage.db.fetchval(TRY))
        return len(said) > 1 and len(tries - {None}) > 4

    async with reader.transaction():
        await reader.execute("LOCK TABLE webhook.delivery_log IN ACCESS SHARE MODE")
        dropping = asyncio.create_task(
            chosen_indexes.settle(storage.database.dsn("postgres"), ChosenIndexes(charge=False), said.append)
        )
        await until_found(was_tried_again)
    await dropping
    assert said == [
        "dropping the index of charges",
        "waiting until nobody uses webhook.delivery_log for a moment (pg_locks says who does)",
    ]
    assert await indexed(storage.db) == {}
    await reader.close()


async def test_an_interrupted_migration_is_gone_on_with(storage: StorageHarness) -> None:
    wanted = await tables(storage.db)
    await migrated(storage.database, False)
    partition = next(name for name in wanted if name.startswith("delivery_log_"))
    key = '((webhook.charge_key(object) COLLATE "C"))'
    await storage.db.execute(
        f"CREATE INDEX delivery_log_charge ON ONLY webhook.delivery_log {key};"
        f"CREATE INDEX {partition}_charge ON webhook.{partition} {key};"
        f"CREATE INDEX outbox_charge ON webhook.outbox {key};"
        "UPDATE pg_index SET indisvalid = false "
        f"WHERE indexrelid IN ('webhook.{partition}_charge'::regclass, 'webhook.outbox_charge'::regclass)"
    )
    await migrated(storage.database, True)
    assert await indexed(storage.db) == wanted


async def test_an_index_that_was_attached_before_it_was_whole_is_made_anew(storage: StorageHarness) -> None:
    wanted = await tables(storage.db)
    partition = next(name for name in wanted if name.startswith("delivery_log_"))
    await storage.db.execute(
        "UPDATE pg_index SET indisvalid = false, indisready = false WHERE indexrelid = $1::text::regclass",
        f"webhook.{partition}_charge_key_idx",
    )
    assert await migrated(storage.database, None) == [f"indexing charges in webhook.{partition}"]
    assert await indexed(storage.db) == wanted


FEED = "SELECT count(*) FROM pg_indexes WHERE indexdef LIKE '%(merchant_id, xid, seq) WHERE%'"


async def test_the_index_of_the_feed_is_chosen_apart(storage: StorageHarness) -> None:
    wanted, dsn = await tables(storage.db), storage.database.dsn("postgres")
    assert await storage.db.fetchval(FEED) == len(wanted)
    said = list[str]()
    await storage.insert("m", "{}")
    await schema.migrate(dsn, ChosenIndexes(feed=False), said.append)
    assert said == ["dropping the index of the feed of events"]
    assert await storage.db.fetchval(FEED) == 0
    assert await indexed(storage.db) == wanted, "the other one stays"
    await schema.migrate(dsn, ChosenIndexes(feed=True), said.append)
    assert len(said) == len(wanted)
    assert await storage.db.fetchval(FEED) == len(wanted)


async def test_two_migrations_at_once_make_one_index(storage: StorageHarness) -> None:
    wanted = await tables(storage.db)
    await migrated(storage.database, False)
    await storage.insert("m", '{"id": "ch_1"}')
    said: list[list[str]] = [[], []]
    dsn = storage.database.dsn("postgres")
    await asyncio.gather(
        *(chosen_indexes.settle(dsn, ChosenIndexes(charge=True), lines.append) for lines in said)
    )
    assert sorted(map(len, said)) == [0, len(wanted) - 1]
    assert await indexed(storage.db) == wanted


async def test_a_partition_that_is_made_later_has_the_index(storage: StorageHarness) -> None:
    await storage.db.execute(
        "CREATE TABLE webhook.delivery_log_20990101 PARTITION OF webhook.delivery_log "
        "FOR VALUES FROM ('2099-01-01 00:00:00+00') TO ('2099-01-02 00:00:00+00')"
    )
    assert (await indexed(storage.db))["delivery_log_20990101"]
