"""Databases that are used again: a new one is a copy of 900 files, one that is emptied a few new ones.

A database goes when its schema, rights, settings or statistics are not what they were. Otherwise its sessions
are ended, tables that hold anything are truncated, and what migrations insert is put back.
"""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO

import asyncpg

from tests.servers.database import TEMPLATE, Database, execute
from tests.spent import spending
from webhook_dispatcher.local.postgres import EmbeddedPostgres

FIRST_OF_OURS = 16384
"""Where the numbers of what is not the server's own begin."""
END_SESSIONS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
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
    ",".join(f"(SELECT concat(count(*), ' ', max(xmin::text::bigint)) FROM pg_{name})" for name in CATALOGS)
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
WRITABLE = """
SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
AND attgenerated = '' ORDER BY attnum
"""
SEQUENCES = f"SELECT oid::regclass::text FROM pg_class WHERE relkind = 'S' AND oid >= {FIRST_OF_OURS}"


@dataclass(frozen=True, slots=True)
class Pristine:
    """What a migrated database holds: rows as COPY writes them, by table and columns; where sequences are."""

    rows: dict[str, tuple[list[str], bytes]]
    sequences: dict[str, tuple[int, bool]]

    @classmethod
    async def read(cls, connection: asyncpg.Connection) -> "Pristine":
        """Read it from the template."""
        rows, sequences = {}, {}
        for table in await _names(connection, USED):
            columns, written = await _names(connection, WRITABLE, table), BytesIO()
            chosen = ", ".join(f'"{column}"' for column in columns)
            await connection.copy_from_query(f"SELECT {chosen} FROM {table}", output=written, format="binary")
            rows[table] = columns, written.getvalue()
        for name in await _names(connection, SEQUENCES):
            [[value, is_called]] = await connection.fetch(f"SELECT last_value, is_called FROM {name}")
            sequences[name] = value, is_called
        return cls(rows, sequences)

    async def restore(self, connection: asyncpg.Connection) -> None:
        """Bring a database back to it whose shape is still the template's."""
        await connection.execute("SET session_replication_role = replica")  # triggers have had their turn
        async with connection.transaction():
            used = ", ".join(await _names(connection, USED))
            await connection.execute(f"TRUNCATE {used} CASCADE")  # what refers to them is ours, too
            for table, (columns, written) in self.rows.items():
                schema, _, name = table.partition(".")
                await connection.copy_to_table(
                    name, schema_name=schema, source=BytesIO(written), columns=columns, format="binary"
                )
            for sequence, state in self.sequences.items():
                await connection.execute("SELECT setval($1::text::regclass, $2, $3)", sequence, *state)
        await connection.execute("SELECT pg_stat_reset()")


async def _names(connection: asyncpg.Connection, query: str, *arguments: str) -> list[str]:
    return [row[0] for row in await connection.fetch(query, *arguments)]


class Databases:
    """Migrated databases on one server, each one test's at a time."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._free: list[tuple[Database, str]] = []
        self._pristine = asyncio.run(self._read())

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

    async def _read(self) -> Pristine:
        connection = await Database(self._server, TEMPLATE).connect()
        try:
            return await Pristine.read(connection)
        finally:
            await connection.close()

    async def _make(self) -> tuple[Database, str]:
        database = Database(self._server, f"webhook_{next(self._numbers)}")
        await execute(self._server, f"CREATE DATABASE {database.name} TEMPLATE {TEMPLATE}")
        connection = await database.connect()
        try:
            return database, await connection.fetchval(SHAPE)
        finally:
            await connection.close()

    async def _is_restored(self, database: Database, shape: str) -> bool:
        try:
            connection = await database.connect()
            try:
                await connection.execute(END_SESSIONS)
                if await connection.fetchval(SHAPE) != shape:
                    return False
                await self._pristine.restore(connection)
            finally:
                await connection.close()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            return False  # what its role or database was given keeps us from it
        return True
