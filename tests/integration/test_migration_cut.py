"""`migrate` is cut short, or given twice at once; in the end all is as if nothing was. Source: contract 4."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance import forked
from tests.acceptance.processes import environment
from tests.servers.database import Database, execute
from tests.waiting import until_found
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema

LOCK = 4_711
STOP_AT = f"""
CREATE SCHEMA cut;
CREATE SEQUENCE cut.done;
CREATE FUNCTION cut.stop() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    -- The schema is there after the first cut.
    IF tg_tag <> 'CREATE SCHEMA' THEN
        IF nextval('cut.done') = {{place}} THEN
            PERFORM pg_advisory_xact_lock({LOCK});
        END IF;
    END IF;
END $$;
CREATE EVENT TRIGGER stop ON ddl_command_end EXECUTE FUNCTION cut.stop();
"""
WAITING = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND NOT granted"


@pytest.fixture
def empty(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """Make a database without the schema."""
    database = Database(postgres, "cut")
    asyncio.run(execute(postgres, "CREATE DATABASE cut"))
    yield database
    asyncio.run(execute(postgres, "DROP DATABASE cut WITH (FORCE)"))


async def commands_of_a_migration(database: Database, owner: asyncpg.Connection) -> int:
    """Count the commands that an event trigger sees, and leave no schema."""
    await owner.execute(STOP_AT.format(place=0))
    await schema.migrate(database.dsn("postgres"))
    count: int = await owner.fetchval("SELECT last_value FROM cut.done")
    await owner.execute("DROP EVENT TRIGGER stop; DROP SCHEMA cut CASCADE; DROP SCHEMA webhook CASCADE")
    return count


BY_TERM = pytest.mark.slow(
    "integration/test_migration_cut.py::test_a_migration_that_was_cut_short_can_be_given_again"
)


@pytest.mark.parametrize(
    "by", [pytest.param(signal.SIGTERM, marks=BY_TERM), signal.SIGKILL], ids=lambda by: by.name
)
@pytest.mark.parametrize(
    "places",
    [
        pytest.param(2, id="first and last"),
        pytest.param(
            20,
            id="twenty",
            marks=pytest.mark.slow(
                "integration/test_migration_cut.py::test_a_migration_that_was_cut_short_can_be_given_again"
            ),
        ),
    ],
)
async def test_a_migration_that_was_cut_short_can_be_given_again(
    empty: Database, tmp_path: Path, places: int, by: signal.Signals
) -> None:
    """Each begins where the one before was cut, and only the last is left to come to its end."""
    owner = await empty.connect()
    count = await commands_of_a_migration(empty, owner)
    for number in range(places):
        place = 1 + number * (count - 1) // (places - 1)
        await owner.execute(STOP_AT.format(place=place))
        await owner.execute("SELECT pg_advisory_lock($1::int)", LOCK)
        variables = environment(empty.settings("postgres"))
        with (tmp_path / "log").open("wb") as log:
            migrating = forked.start(["webhook_dispatcher", "migrate"], variables, tmp_path, None, None, log)
        await until_found(lambda: owner.fetchval(WAITING, LOCK))
        migrating.send_signal(by)
        migrating.wait()
        await owner.execute("SELECT pg_advisory_unlock($1::int)", LOCK)
        # The server finishes what it was told before it learns that nobody is there any more.
        await until_found(lambda: _is_left_alone(owner))
        await owner.execute("DROP EVENT TRIGGER stop; DROP SCHEMA cut CASCADE")
        left = await owner.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('webhook')"
        )
        assert left == [], f"cut at command {place} of {count}"
    migrated = await schema.migrate(empty.dsn("postgres"))
    first, last = migrated.applied[0], migrated.applied[-1]
    assert (first, int(last[:4])) == (schema.FIRST, schema.SCHEMA_VERSION)
    await owner.close()


async def _is_left_alone(owner: asyncpg.Connection) -> bool:
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    return bool(await owner.fetchval(sessions) == 1)


async def test_migrations_at_the_same_time_wait_for_each_other(empty: Database, tmp_path: Path) -> None:
    variables = environment(empty.settings("postgres"))
    migrate = ["webhook_dispatcher", "migrate"]
    ended = await asyncio.gather(
        *(asyncio.to_thread(forked.run, migrate, variables, tmp_path) for _ in range(3))
    )
    assert [process.returncode for process in ended] == [0, 0, 0], [process.stderr for process in ended]
