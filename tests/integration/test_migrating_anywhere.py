"""A migration makes the same schema whatever the database's sessions have as defaults."""

import asyncpg
import pytest

from tests.servers import programs
from tests.servers.awkward_settings import BEARABLE, known, literal
from tests.servers.database import Database
from webhook_dispatcher.local.binaries import major_version
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.chosen_indexes import ChosenIndexes

KNOWN = known(major_version(programs()))
DEFINITIONS = """
SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'webhook'::regnamespace
UNION ALL
SELECT 'relation ' || concat_ws(' ', relname, relkind, relacl, reloptions,
    pg_get_viewdef(CASE WHEN relkind = 'v' THEN oid END),
    pg_get_indexdef(CASE WHEN relkind = 'i' THEN oid END))
FROM pg_class WHERE relnamespace = 'webhook'::regnamespace AND relname !~ '_[0-9]{8}'
UNION ALL
SELECT 'column ' || concat_ws(' ', relname, attname, atttypid::regtype, attnotnull, attidentity, attgenerated,
    pg_get_expr(adbin, adrelid))
FROM pg_attribute
JOIN pg_class ON pg_class.oid = attrelid
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relnamespace = 'webhook'::regnamespace AND attnum > 0 AND relname !~ '_[0-9]{8}'
UNION ALL
SELECT 'constraint ' || concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid))
FROM pg_constraint
WHERE connamespace = 'webhook'::regnamespace AND conrelid::regclass::text !~ '_[0-9]{8}'
UNION ALL
SELECT 'trigger ' || pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
ORDER BY 1
"""
MISPLACED = r"""
SELECT relname, pg_get_expr(relpartbound, oid) FROM pg_class,
    LATERAL (SELECT to_date(right(relname, 8), 'YYYYMMDD') AS day) AS named
WHERE relnamespace = 'webhook'::regnamespace AND relispartition AND relkind = 'r'
    AND pg_get_expr(relpartbound, oid)
    <> format('FOR VALUES FROM (''%s 00:00:00+00'') TO (''%s 00:00:00+00'')', day, day + 1)
"""


async def definitions(dsn: str) -> list[str]:
    """Read what a schema consists of, its partitions apart; those are held against their names."""
    connection = await asyncpg.connect(dsn, server_settings={"timezone": "UTC"})
    rows = await connection.fetch(DEFINITIONS)
    assert await connection.fetch(MISPLACED) == []
    await connection.close()
    return [row[0] for row in rows]


async def migrate_under(database: Database, name: str, turn: int) -> str:
    """Migrate a database of its own that has the awkward values as its defaults; return its URL without."""
    owner = await asyncpg.connect(database.dsn("postgres"), server_settings=dict(BEARABLE))
    dsn = database.server.dsn("postgres", name)
    await owner.execute(f"CREATE DATABASE {name}")
    for setting, values in KNOWN.items():
        value = literal(setting, values[turn % len(values)])
        await owner.execute(f"ALTER DATABASE {name} SET {setting} = {value}")
    await schema.migrate(dsn, ChosenIndexes(feed=True))
    await owner.execute(f"ALTER DATABASE {name} RESET ALL")
    await owner.close()
    return dsn


LATER = pytest.mark.slow(
    "integration/test_migrating_anywhere.py::test_a_migration_makes_the_same_schema_under_all_awkward_values"
)
TURNS = range(max(map(len, KNOWN.values())))


@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=LATER) for turn in TURNS[1:])])
async def test_a_migration_makes_the_same_schema_under_all_awkward_values(
    database: Database, turn: int
) -> None:
    name = f"{database.name}_awkward"
    dsn = await migrate_under(database, name, turn)
    try:
        assert await definitions(dsn) == await definitions(database.dsn("postgres"))
    finally:
        owner = await database.connect()
        await owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await owner.close()


CITUS = """
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
VALUES (1, 'citus', 10, 'pg_catalog'::regnamespace, false, '13.2-1');
CREATE FUNCTION public.propagate() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('citus.enable_ddl_propagation') <> 'off' THEN
        RAISE EXCEPTION '% was sent to the workers', tg_tag;
    END IF;
END
$$;
CREATE EVENT TRIGGER citus ON ddl_command_end EXECUTE FUNCTION public.propagate();
"""
"""Stands in for Citus, which Debian lacks: the extension by name, and any change sent to workers fails."""


@pytest.mark.parametrize("by_hand", [False, True])
async def test_nothing_of_a_migration_is_sent_to_the_workers_of_citus(
    database: Database, by_hand: bool
) -> None:
    name = f"{database.name}_citus"
    dsn = database.server.dsn("postgres", name)
    superuser = await database.connect()
    await superuser.execute(f"CREATE DATABASE {name}")
    await superuser.execute(f"ALTER DATABASE {name} SET citus.enable_ddl_propagation = 'on'")
    try:
        of_citus = await asyncpg.connect(dsn)
        await of_citus.execute(CITUS)
        if by_hand:
            await of_citus.execute(schema.migration_sql())
        else:
            await schema.migrate(dsn, ChosenIndexes(feed=True))
        await of_citus.close()
        assert await definitions(dsn)
    finally:
        await superuser.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await superuser.close()
