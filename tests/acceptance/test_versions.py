"""Two versions of the program on one database, across a migration. Source: ADR 0007.

The next version is made here: a copy of this one with one more migration, whose column its code uses.
"""

import asyncio
import re
import shutil
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.acceptance.installation import IN_SCALED_TIME, Installation
from tests.acceptance.load import PATIENCE, Load, all_settled, check_promises, repetitions, start_daemons
from tests.acceptance.processes import Daemon
from tests.servers.damage import documented
from tests.waiting import until, until_found
from webhook_dispatcher.local.arrivals import overlapping
from webhook_dispatcher.local.behaviour import Behaviour
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
USES = ("recalled = lane.recalled AND NOT (plan.is_ours AND plan.is_over),", f"recorded_by = {NEXT},")
"""A line of the statement that records outcomes, and what the next version has behind it."""
NEW_TYPE = "charge.invented"
MIGRATIONS = [file.read_text(encoding="utf-8") for file in sorted((ROOT / "migrations/sql").glob("*.sql"))]
RULES_BEGIN = "CREATE OR REPLACE FUNCTION webhook.event_can_be_sent("
RULES = [text for text in MIGRATIONS if RULES_BEGIN in text][-1].partition(RULES_BEGIN)[2].partition("$$;")[0]
ALLOWS = f"{RULES_BEGIN}{RULES}$$;".replace("'webhook.test'", f"'webhook.test', '{NEW_TYPE}'")
"""What the rules for producers' rows become with one more type."""
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
        replace(storage / "sql/recording.sql", USES[0], "\n".join(USES))
        return cls(root)

    async def migrate(self, installation: Installation) -> None:
        """Bring the schema to this version while everything goes on."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(self.root / "src"))
            dsn = installation.database.dsn("postgres")
            done = await asyncio.to_thread(installation.command, "migrate", MIGRATION_DATABASE_URL=dsn)
        assert done.returncode == 0, done.stderr

    def learn_type(self) -> None:
        """Let this version know one more event type."""
        types = '    "charge.fiscal_failed",\n'
        replace(self.root / "src/webhook_dispatcher/domain/event.py", types, f'{types}    "{NEW_TYPE}",\n')

    async def start(self, installation: Installation, **changed: str) -> Daemon:
        """Start a daemon of this version."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(self.root / "src"))
            daemon = installation.spawn(**changed)
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
    installation: Installation, tmp_path: Path
) -> None:
    next_version = NextVersion.make(tmp_path / "next", ADDS)
    await installation.configure(*MERCHANTS)
    [old] = await start_daemons(installation, 1)
    async with Load(installation.database.dsn("webhook_producer"), MERCHANTS, RATE) as load:
        await goes_on(old)
        await next_version.migrate(installation)
        await goes_on(old)
        new = await next_version.start(installation)
        await asyncio.gather(goes_on(old), goes_on(new))
        assert await until_found(lambda: installation.owner.fetchval(RECORDED_BY_NEXT))
        old.terminate()
        assert await old.ended(PATIENCE) == 0
        [restarted] = await start_daemons(installation, 1)
        await asyncio.gather(goes_on(restarted), goes_on(new))
    known = await all_settled(installation.owner, PATIENCE)
    arrivals = installation.receiver.arrivals
    check_promises(load.sent, arrivals, known)
    assert overlapping(arrivals) == []
    assert repetitions(arrivals, known) == {}


async def test_version_that_the_schema_no_longer_serves_ends_with_3_and_leaves_its_work_to_the_next(
    installation: Installation, tmp_path: Path
) -> None:
    next_version = NextVersion.make(tmp_path / "next", ADDS + BREAKS)
    await installation.configure(*MERCHANTS)
    [running] = await start_daemons(installation, 1)
    async with Load(installation.database.dsn("webhook_producer"), MERCHANTS, RATE) as load:
        await goes_on(running)
        await next_version.migrate(installation)
        refused = installation.spawn()
        assert await refused.ended(PATIENCE) == 3
        [line] = refused.log_file.read_text().splitlines()
        assert f"version {NEXT} and later" in line
        assert f"this one is for {SCHEMA_VERSION}" in line
        forget_last_line(refused, "install a newer webhook-dispatcher")
        assert await running.ended(PATIENCE) == 3
        forget_last_line(running, "install a newer webhook-dispatcher")
        new = await next_version.start(installation)
        await goes_on(new)
    known = await all_settled(installation.owner, PATIENCE)
    check_promises(load.sent, installation.receiver.arrivals, known)
    assert repetitions(installation.receiver.arrivals, known) == {}


@pytest.mark.slow(
    "acceptance/test_versions.py::test_an_event_type_that_nobody_ever_knows_is_cancelled_and_its_lane_goes_on"
)
async def test_events_of_a_type_that_only_the_next_version_knows_are_left_to_it(
    installation: Installation, tmp_path: Path
) -> None:
    next_version = NextVersion.make(tmp_path / "next", ADDS + ALLOWS)
    next_version.learn_type()
    await installation.configure("m", "other")
    old = await installation.start(RETRY_SCHEDULE="PT2S,PT2S")
    await next_version.migrate(installation)
    types = ["charge.created", NEW_TYPE, "charge.succeeded", NEW_TYPE, "charge.failed"]
    sent = [await installation.emit("m", event_type=event_type) for event_type in types]
    await installation.emit("other")
    await installation.all_delivered(2, PATIENCE)
    told = await old.logged("row.unknown_type", PATIENCE)
    assert (told["merchant_id"], told["seq"], NEW_TYPE in told["detail"]) == ("m", sent[1].seq, True)
    assert await until_found(lambda: shows_unknown(old))
    free = "SELECT greatest(lease_until, wait_until) < clock_timestamp() FROM webhook.lane"
    await installation.until_true(f"{free} WHERE merchant_id = 'm'")

    new = await next_version.start(installation, RETRY_SCHEDULE="PT2S,PT2S")
    await installation.all_delivered(6, PATIENCE)
    assert [arrival.event_id for arrival in installation.receiver.of("m")] == [
        str(event.id) for event in sent
    ]

    installation.receiver.behave("m", Behaviour(status=500))
    retried = await installation.emit("m", event_type=NEW_TYPE)
    await installation.settled(retried.id, "pending_retry", 1, PATIENCE)
    new.terminate()
    assert await new.ended(PATIENCE) == 0
    installation.receiver.behave("m", Behaviour())
    await until(lambda: retried.seq in {line["seq"] for line in old.log("row.unknown_type")}, PATIENCE)
    assert (await installation.delivery(retried.id))["attempts"] == 1, "the old version does not send it"
    await next_version.start(installation)
    await installation.settled(retried.id, "delivered", 2, PATIENCE)
    assert await installation.count("state <> 'delivered'") == 0


@pytest.mark.scaled_time
async def test_an_event_type_that_nobody_ever_knows_is_cancelled_and_its_lane_goes_on(
    installation: Installation, tmp_path: Path
) -> None:
    await NextVersion.make(tmp_path / "next", ADDS + ALLOWS).migrate(installation)
    await installation.configure("m")
    old = await installation.start(**IN_SCALED_TIME)
    stray, behind = await installation.emit("m", event_type=NEW_TYPE), await installation.emit("m")
    told = await old.logged("row.unknown_type", PATIENCE)
    [example] = re.findall(r"'([0-9a-f-]{36})'", documented("cancel"))
    await installation.admin.execute(documented("cancel").replace(example, told["event_id"]))
    await installation.settled(behind.id, "delivered", 1, PATIENCE)
    row = await installation.delivery(stray.id)
    assert (row["state"], row["failed_reason"]) == ("failed", "cancelled")


async def shows_unknown(daemon: Daemon) -> bool:
    _, metrics = await daemon.asked("/metrics")
    return 'webhook_blocked_rows{reason="unknown_type"} 1.0' in metrics
