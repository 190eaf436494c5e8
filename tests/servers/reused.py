"""Databases that are used again: a new one is a copy of 900 files, one that is emptied a few new ones.

A database goes when its schema, rights, settings or statistics are not what they were. Otherwise its sessions
are ended, tables that hold anything are truncated, and what migrations insert is put back.
"""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from tests.servers.database import TEMPLATE, Database, copy_database, execute
from tests.spent import spending
from webhook_dispatcher.local.postgres import EmbeddedPostgres

FIRST_OF_OURS = 16384
"""Where the numbers of what is not the server's own begin."""
CATALOGS = (
    "attrdef",
    "attribute",
    "constraint",
    "default_acl",
    "depend",
    "event_trigger",
    "extension",
    "index",
    "inherits",
    "namespace",
    "policy",
    "proc",
    "publication",
    "rewrite",
    "statistic_ext",
    "trigger",
    "type",
)
SHAPE = f"""
SELECT concat_ws('/',
    (
        SELECT md5(string_agg(concat_ws(
            ',', oid, relname, relnamespace, relowner, relacl, reloptions, relrowsecurity,
            relforcerowsecurity, relkind, relpersistence, relispartition
        ), ';' ORDER BY oid))
        FROM pg_class WHERE oid >= {FIRST_OF_OURS}
    ),
    {
    ",".join(
        f"(SELECT concat(count(*), ' ', min(age(xmin)) - age(own.xmin)) FROM pg_{name})" for name in CATALOGS
    )
},
    (SELECT count(*) FROM pg_statistic WHERE starelid >= {FIRST_OF_OURS}),
    (SELECT string_agg(concat_ws(',', setrole, setconfig), ';' ORDER BY setrole)
     FROM pg_db_role_setting WHERE setdatabase = own.oid),
    own.datacl, own.datconnlimit, own.datallowconn
)
FROM pg_database own WHERE datname = current_database()
"""
"""Differs after any change but to rows: TRUNCATE leaves all of it as it is."""
USED = f"""
SELECT oid::regclass::text FROM pg_class
WHERE relkind = 'r' AND oid >= {FIRST_OF_OURS} AND (pg_relation_size(oid) > 0 OR reltuples >= 0)
"""
MAKE_ROWS = """
SELECT format(
    'INSERT INTO %1$s (%2$s) OVERRIDING SYSTEM VALUE '
    'SELECT %2$s FROM jsonb_populate_recordset(NULL::%1$s, %3$L)',
    $1::text,
    (
        SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
        WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    ),
    (SELECT jsonb_agg(each) FROM {table} AS each)
)
"""
"""Writes the statement that inserts what a table holds."""
MAKE_SEQUENCE = "SELECT format('SELECT setval(%L, %s, %L)', $1::text, last_value, is_called) FROM {table}"
SEQUENCES = f"SELECT oid::regclass::text FROM pg_class WHERE relkind = 'S' AND oid >= {FIRST_OF_OURS}"
RESTORE = """
SET statement_timeout = '60s';
SET session_replication_role = replica;  -- no trigger has a say: the audit may only be added to
DO $do$
BEGIN
    -- Looked at again and again: pg_terminate_backend(pid, timeout) looks each tenth of a second.
    LOOP
        PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
        EXIT WHEN NOT FOUND;
        PERFORM pg_sleep(0.002), pg_stat_clear_snapshot();
    END LOOP;
    ASSERT ({shape}) = '{wanted}';
    EXECUTE (SELECT 'TRUNCATE ' || string_agg(oid, ', ') || ' CASCADE' FROM ({used}) AS used);
END
$do$;
{rows};
SELECT pg_stat_reset()
"""
"""Brings a database back whose shape is as wanted: one message to the server, and one transaction there."""


class Databases:
    """Migrated databases on one server, each one test's at a time."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._free: list[tuple[Database, str]] = []
        self._rows = asyncio.run(self._read())

    @contextmanager
    def one(self) -> Iterator[Database]:
        """Have one while entered."""
        with spending("making databases"):
            database, shape = self._free.pop() if self._free else asyncio.run(self._make())
        try:
            yield database
        finally:
            with spending("making databases"):
                self._take_back(database, shape)

    def _take_back(self, database: Database, shape: str) -> None:
        if asyncio.run(self._is_restored(database, shape)):
            self._free.append((database, shape))
        else:
            asyncio.run(execute(self._server, f"DROP DATABASE {database.name} WITH (FORCE)"))

    async def _read(self) -> str:
        """Write the statements that make the template's rows."""
        connection = await Database(self._server, TEMPLATE).connect()
        try:
            made = []
            for names, make in ((USED, MAKE_ROWS), (SEQUENCES, MAKE_SEQUENCE)):
                for [name] in await connection.fetch(names):
                    made.append(await connection.fetchval(make.format(table=name), name))
            return ";\n".join(made)
        finally:
            await connection.close()

    async def _make(self) -> tuple[Database, str]:
        database = Database(self._server, f"webhook_{next(self._numbers)}")
        await copy_database(self._server, database.name)
        connection = await database.connect()
        try:
            return database, await connection.fetchval(SHAPE)
        finally:
            await connection.close()

    async def _is_restored(self, database: Database, shape: str) -> bool:
        try:
            connection = await database.connect()
            try:
                await connection.execute(
                    RESTORE.format(shape=SHAPE, wanted=shape, used=USED, rows=self._rows)
                )
            finally:
                await connection.close()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            return False  # its shape, or what its role or database was given, keeps us from it
        return True
