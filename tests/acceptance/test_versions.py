"""Two versions of the program on one database, across a migration. Source: ADR 0007.

The next version is made here: a copy of this one with one more migration, whose column its code uses.
"""

import asyncio
import shutil
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.load import PATIENCE, Load, all_settled, check_promises, repetitions, start_daemons
from tests.acceptance.process import Daemon, until, until_found
from tests.acceptance.world import World
from webhook_dispatcher.local.arrivals import overlapping
from webhook_dispatcher.storage.schema import SCHEMA_VERSION

ROOT = Path(__file__).parents[2]
MERCHANTS = [f"m{number:02}" for number in range(20)]
RATE = 60.0
NEXT = SCHEMA_VERSION + 1
ADDS = f"""
    SET lock_timeout = '5s';
    SET statement_timeout = '1min';
    SET ROLE webhook_owner;
    ALTER TABLE webhook.lane ADD COLUMN recorded_by integer DEFAULT {SCHEMA_VERSION};
    CREATE INDEX lane_recorded_by ON webhook.lane (recorded_by);
    UPDATE webhook.state SET schema_version = {NEXT};
"""
BREAKS = f"UPDATE webhook.state SET compatible_from = {NEXT};"
RECORDED_BY_NEXT = f"SELECT count(*) FROM webhook.lane WHERE recorded_by = {NEXT}"
USES = (
    "recalled = lane.recalled AND NOT (plan.is_ours AND plan.is_over),",
    f"recorded_by = {NEXT},",
)
"""A line of the statement that records outcomes, and what the next version has behind it."""
REVISION = '''
    """One more."""

    from webhook_dispatcher.storage.migration import run_sql_file

    revision = "{name}"
    down_revision = "{before}"


    def upgrade() -> None:
        """Apply the SQL file of the same name."""
        run_sql_file(f"{{revision}}.sql")
'''


class NextVersion(NamedTuple):
    """A checkout of the next version."""

    root: Path

    @classmethod
    def make(cls, root: Path, migration: str) -> "NextVersion":
        """Copy this version, and add a migration and a statement that uses it."""
        # Compiled files too: they stay valid, and three programs start from here.
        shutil.copytree(ROOT / "src", root / "src")
        shutil.copytree(ROOT / "migrations", root / "migrations")
        latest = sorted((root / "migrations/versions").glob("0*.py"))[-1].stem
        name = f"{NEXT:04}_next"
        (root / "migrations/sql" / f"{name}.sql").write_text(textwrap.dedent(migration))
        revision = textwrap.dedent(REVISION).lstrip().format(name=name, before=latest)
        (root / "migrations/versions" / f"{name}.py").write_text(revision)
        storage = root / "src/webhook_dispatcher/storage"
        replace(storage / "schema.py", f"SCHEMA_VERSION = {SCHEMA_VERSION}\n", f"SCHEMA_VERSION = {NEXT}\n")
        replace(storage / "sql/recording.sql", USES[0], "\n".join(USES))
        return cls(root)

    async def migrate(self, world: World) -> None:
        """Bring the schema to this version while everything goes on."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(self.root / "src"))
            dsn = world.database.dsn("postgres")
            done = await asyncio.to_thread(world.command, "migrate", MIGRATION_DATABASE_URL=dsn)
        assert done.returncode == 0, done.stderr

    async def start(self, world: World) -> Daemon:
        """Start a daemon of this version."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(self.root / "src"))
            daemon = world.spawn()
        await daemon.logged("daemon.started", PATIENCE)
        return daemon


def replace(file: Path, old: str, new: str) -> None:
    """Replace the one occurrence of a text."""
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file.name} has changed: {old!r}"
    file.write_text(text.replace(old, new), encoding="utf-8")


async def goes_on(daemon: Daemon, more: int = 20) -> None:
    """Wait until a daemon has made so many more attempts."""
    before = attempts_of(daemon)
    await until(lambda: attempts_of(daemon) >= before + more, PATIENCE)


def attempts_of(daemon: Daemon) -> int:
    """Count a daemon's attempts; reading its log entry by entry would slow the receiver down."""
    return daemon.log_file.read_bytes().count(b'"delivery.attempted"')


def forget_last_line(daemon: Daemon, text: str) -> None:
    """Take the error for people off a daemon's log: on purpose it is no event."""
    *events, line = daemon.log_file.read_text().splitlines(keepends=True)
    assert text in line
    daemon.log_file.write_text("".join(events))


async def test_two_versions_deliver_side_by_side_across_an_additive_migration(
    world: World, tmp_path: Path
) -> None:
    next_version = NextVersion.make(tmp_path / "next", ADDS)
    await world.configure(*MERCHANTS)
    [old] = await start_daemons(world, 1)
    async with Load(world.database.dsn("webhook_producer"), MERCHANTS, RATE) as load:
        await goes_on(old)
        await next_version.migrate(world)
        await goes_on(old)
        new = await next_version.start(world)
        await asyncio.gather(goes_on(old), goes_on(new))
        assert await until_found(lambda: world.owner.fetchval(RECORDED_BY_NEXT))
        old.terminate()
        assert await old.ended(PATIENCE) == 0
        [restarted] = await start_daemons(world, 1)
        await asyncio.gather(goes_on(restarted), goes_on(new))
    known = await all_settled(world.owner, PATIENCE)
    arrivals = world.receiver.arrivals
    check_promises(load.sent, arrivals, known)
    assert overlapping(arrivals) == []
    assert repetitions(arrivals, known) == {}


async def test_version_that_the_schema_no_longer_serves_ends_with_3_and_leaves_its_work_to_the_next(
    world: World, tmp_path: Path
) -> None:
    next_version = NextVersion.make(tmp_path / "next", ADDS + BREAKS)
    await world.configure(*MERCHANTS)
    [running] = await start_daemons(world, 1)
    async with Load(world.database.dsn("webhook_producer"), MERCHANTS, RATE) as load:
        await goes_on(running)
        await next_version.migrate(world)
        refused = world.spawn()
        assert await refused.ended(PATIENCE) == 3
        [line] = refused.log_file.read_text().splitlines()
        assert f"version {NEXT} and later" in line
        assert f"this one is for {SCHEMA_VERSION}" in line
        forget_last_line(refused, "install a newer webhook-dispatcher")
        assert await running.ended(PATIENCE) == 3
        forget_last_line(running, "install a newer webhook-dispatcher")
        new = await next_version.start(world)
        await goes_on(new)
    known = await all_settled(world.owner, PATIENCE)
    check_promises(load.sent, world.receiver.arrivals, known)
    assert repetitions(world.receiver.arrivals, known) == {}
