"""migrations/schema.sql makes what all migrations make: both are dumped, and compared.

Left out are the days of the log, whose names follow the date, and Alembic's own table.
"""

import asyncio
import subprocess
from pathlib import Path

import asyncpg

from tests.servers import client
from tests.servers.database import Connect, Database
from webhook_dispatcher.storage import schema

MIGRATIONS = Path(__file__).parents[2] / "migrations"
LEFT_OUT = ("--exclude-table=webhook.*_log_2*", "--exclude-table=webhook.alembic_version")
EMPTY = "DROP SCHEMA IF EXISTS webhook CASCADE; CREATE SCHEMA webhook AUTHORIZATION webhook_owner"
AS_OWNER = "RESET ROLE; SET ROLE webhook_owner;"

OLDER = """
CREATE TABLE webhook.parcel (id bigint PRIMARY KEY, weight integer NOT NULL);
CREATE FUNCTION webhook.is_heavy(grams bigint) RETURNS boolean LANGUAGE sql AS 'SELECT grams > 10';
CREATE VIEW webhook.parcels AS SELECT id, weight FROM webhook.parcel;
GRANT SELECT ON webhook.parcels TO webhook_admin;
"""
STEP = """
ALTER TABLE webhook.parcel ADD COLUMN note text, ADD COLUMN sealed boolean;
COMMENT ON COLUMN webhook.parcel.note IS 'For people.';
CREATE OR REPLACE FUNCTION webhook.is_heavy(grams bigint) RETURNS boolean LANGUAGE sql AS 'SELECT grams > 20';
CREATE OR REPLACE VIEW webhook.parcels AS SELECT id, weight, note FROM webhook.parcel;
GRANT SELECT ON webhook.parcels TO webhook_observer;
"""
EDITED = """
CREATE TABLE webhook.parcel (id bigint PRIMARY KEY, weight integer NOT NULL, note text, sealed boolean);
COMMENT ON COLUMN webhook.parcel.note IS 'For people.';
CREATE FUNCTION webhook.is_heavy(grams bigint) RETURNS boolean LANGUAGE sql AS 'SELECT grams > 20';
CREATE VIEW webhook.parcels AS SELECT id, weight, note FROM webhook.parcel;
GRANT SELECT ON webhook.parcels TO webhook_observer, webhook_admin;
"""
"""An invented older version, a migration of it, and the file that makes the same at once."""
FORGOTTEN = {
    "a column": (", sealed boolean", ""),
    "the order of columns": ("note text, sealed boolean", "sealed boolean, note text"),
    "a comment": ("For people", "For machines"),
    "what a function does": ("> 20", "> 10"),
    "a column of a view": ("weight, note FROM", "weight FROM"),
    "a right": ("webhook_observer, ", ""),
}


async def dumped(database: Database) -> tuple[list[str], list[str]]:
    """Dump a schema: its definitions in their order, and its rights, which are given in whatever order."""
    command = [
        str(client("pg_dump")),
        "--schema-only",
        "--schema=webhook",
        *LEFT_OUT,
        database.dsn("postgres"),
    ]
    text = await asyncio.to_thread(subprocess.check_output, command, text=True)
    # Some versions begin and end with a random word.
    lines = [line for line in text.splitlines() if not line.startswith("\\")]
    rights = [line for line in lines if line.startswith(("GRANT ", "REVOKE "))]
    return [line for line in lines if line not in rights], sorted(rights)


async def made_by(database: Database, owner: asyncpg.Connection, *files: str) -> tuple[list[str], list[str]]:
    """Make a schema of files' texts alone, and dump it."""
    await owner.execute(f"RESET ALL; RESET ROLE; {EMPTY}")
    for text in files:
        await owner.execute(f"{AS_OWNER}{text}")
    return await dumped(database)


async def test_the_schemas_file_makes_what_the_migrations_make(database: Database, connect: Connect) -> None:
    owner = await connect()
    await owner.execute("DROP SCHEMA webhook CASCADE")
    await schema.migrate(database.dsn("postgres"))
    migrated = await dumped(database)
    text = (MIGRATIONS / "schema.sql").read_text(encoding="utf-8")
    assert await made_by(database, owner, text) == migrated
    assert [len(part) > 100 for part in migrated] == [True, True]


async def test_what_the_file_was_not_told_of_a_migration_is_noticed(
    database: Database, connect: Connect
) -> None:
    owner = await connect()
    migrated = await made_by(database, owner, OLDER, STEP)
    assert await made_by(database, owner, EDITED) == migrated
    for what, (told, forgotten) in FORGOTTEN.items():
        assert told in EDITED
        assert await made_by(database, owner, EDITED.replace(told, forgotten)) != migrated, what
