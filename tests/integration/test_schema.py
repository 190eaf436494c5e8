"""The migration, what the schema asks of producers, and what each role may do."""

import asyncio
import re
from pathlib import Path

import asyncpg
import pytest

from tests.servers.database import Connect, Database, execute, own_server
from webhook_dispatcher.domain.errors import ConfigurationError, SchemaMismatch
from webhook_dispatcher.domain.event import CHARGE_TYPES, NOTICE_TYPES, PLATFORM, TEST_EVENT_TYPE, Trigger
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

CONTRACT = (Path(__file__).parents[2] / "docs/contract.md").read_text(encoding="utf-8")
INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, $2, $3) RETURNING id, seq"


def test_a_daemon_looks_at_sequences_again_once_the_server_has_been_started() -> None:
    with own_server({}) as server, asyncio.Runner() as runner:
        runner.run(schema.migrate(server.dsn()))
        pool = runner.run(open_pool(server.dsn()))
        upkeep = PostgresUpkeep(pool)
        runner.run(upkeep.check_schema())
        runner.run(execute(server, "ALTER TABLE webhook.outbox ALTER COLUMN seq SET CACHE 20"))
        runner.run(upkeep.check_schema())
        server.stop()
        server.start()
        runner.run(pool.expire_connections())
        with pytest.raises(SchemaMismatch, match="CACHE 20"):
            runner.run(upkeep.check_schema())
        runner.run(pool.close())


async def open_pool(dsn: str) -> asyncpg.Pool:
    return await asyncpg.create_pool(dsn, min_size=0)


async def test_every_type_that_the_program_knows_may_be_inserted(connect: Connect) -> None:
    connection = await connect("webhook_producer")
    for event_type in (*CHARGE_TYPES, TEST_EVENT_TYPE):
        await connection.fetchrow(INSERT, "m1", event_type, "{}")
    dispatcher = await connect("webhook_dispatcher")
    for event_type in NOTICE_TYPES:
        await dispatcher.execute(INSERT, PLATFORM, event_type, "{}")


@pytest.mark.parametrize(
    ("role", "merchant", "event_type", "rule"),
    [
        *(
            ("webhook_producer", PLATFORM, kind, "only_dispatchers_write_to_the_platform")
            for kind in (NOTICE_TYPES[0], CHARGE_TYPES[0])
        ),
        ("webhook_dispatcher", "m1", NOTICE_TYPES[0], "type_is_one_of_the_published_event_types"),
        ("webhook_dispatcher", PLATFORM, CHARGE_TYPES[0], "type_is_one_of_the_published_event_types"),
    ],
)
async def test_notices_are_for_the_platform_and_nothing_else_is_nor_do_producers_write_them(
    shared_database: Database, role: str, merchant: str, event_type: str, rule: str
) -> None:
    connection = await shared_database.connect(role)
    with pytest.raises(asyncpg.CheckViolationError, match=rule):
        await connection.execute(INSERT, merchant, event_type, "{}")
    await connection.close()


async def test_longest_merchant_id_and_largest_object_are_taken(connect: Connect) -> None:
    connection = await connect("webhook_producer")
    largest = '{"a":"' + "x" * (262_144 - 8) + '"}'
    await connection.fetchrow(INSERT, "é" * 128, "charge.created", largest)


async def test_producer_may_insert_and_read_back_the_number_and_nothing_else(connect: Connect) -> None:
    connection = await connect("webhook_producer")
    event_id = await connection.fetchval(INSERT, "m1", "charge.created", "{}")
    again = await connection.execute(
        "INSERT INTO webhook.outbox (id, merchant_id, type, object) "
        "VALUES ($1, 'm1', 'charge.created', '{}') ON CONFLICT (id) DO NOTHING",
        event_id,
    )
    assert again == "INSERT 0 0"
    for forbidden in (
        "SELECT object FROM webhook.outbox",
        "UPDATE webhook.outbox SET attempts = 9",
        "DELETE FROM webhook.outbox",
        "INSERT INTO webhook.outbox (merchant_id, type, object, attempts) "
        "VALUES ('m', 'charge.created', '{}', 1)",
        "SELECT * FROM webhook.endpoint",
        "SELECT * FROM webhook.control",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(forbidden)


async def test_observer_reads_deliveries_without_payloads(connect: Connect) -> None:
    connection = await connect("webhook_observer")
    await connection.fetch("SELECT event_id, state, attempts FROM webhook.deliveries")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.fetch("SELECT object FROM webhook.deliveries")


async def test_a_daemon_that_may_not_read_the_sequence_is_refused(database: Database) -> None:
    owner, dispatcher = await database.connect(), await database.connect("webhook_dispatcher")
    await schema.check_role(dispatcher)
    await owner.execute("REVOKE ALL ON SEQUENCE webhook.outbox_seq_seq FROM webhook_dispatcher")
    with pytest.raises(ConfigurationError, match="may not deliver"):
        await schema.check_role(dispatcher)
    await owner.close()
    await dispatcher.close()


async def test_every_table_has_a_primary_key(connect: Connect) -> None:
    connection = await connect()
    without = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'webhook'::regnamespace AND relkind IN ('r', 'p') "
        "AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)"
    )
    assert without == []


@pytest.mark.parametrize("is_paused", [False, True])
async def test_printed_migration_makes_the_same_schema(connect: Connect, is_paused: bool) -> None:
    connection = await connect()
    query = (
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
        # Without the days' partitions: midnight may pass in between.
        "WHERE table_schema = 'webhook' AND table_name !~ '_[0-9]{8}$' ORDER BY 1, 2"
    )
    migrated = await connection.fetch(query)
    await connection.execute("DROP SCHEMA webhook CASCADE")
    await connection.execute(schema.migration_sql(is_paused))
    await connection.execute("RESET ROLE")
    assert await connection.fetch(query) == migrated
    assert await connection.fetchval("SELECT paused FROM webhook.state") is is_paused


def promised(relation: str) -> str:
    """Return the contract's paragraph about a table or view."""
    _, _, rest = CONTRACT.partition(f"\n**`webhook.{relation}`**")
    return rest.partition("\n\n")[0]


@pytest.mark.parametrize("view", ["endpoints", "deliveries", "attempts"])
async def test_a_view_has_the_columns_that_the_contract_lists(schema_only: Database, view: str) -> None:
    connection = await schema_only.connect()
    columns = await connection.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 ORDER BY attnum",
        f"webhook.{view}",
    )
    await connection.close()
    quoted = " ".join(promised(view).split()).split("`")[1::2]
    words = [word for group in quoted for word in group.split(", ") if word not in {*Trigger}]
    assert words[: len(columns)] == [name for (name,) in columns]


@pytest.mark.parametrize(("table", "role"), [("outbox", "webhook_producer"), ("control", "webhook_admin")])
async def test_the_contract_names_the_columns_that_others_may_insert(
    schema_only: Database, table: str, role: str
) -> None:
    connection = await schema_only.connect()
    columns = await connection.fetch(
        "SELECT column_name FROM information_schema.column_privileges WHERE table_schema = 'webhook' "
        "AND table_name = $1 AND grantee = $2 AND privilege_type = 'INSERT'",
        table,
        role,
    )
    await connection.close()
    quoted = promised(table).replace("\n", " ").split("`")[1::2]
    assert columns
    assert {name for (name,) in columns} <= {word for group in quoted for word in re.findall(r"\w+", group)}
