"""A server takes over that was behind: its numbers are given again, to other events. Source: I1 to I3."""

import shutil
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.load import PATIENCE, all_settled, check_promises, start_daemons
from tests.acceptance.outage import end_server, reconnect
from tests.servers.database import Database, own_migrated
from tests.waiting import until, until_found
from webhook_dispatcher.local.behaviour import Behaviour

MERCHANTS = [f"m{number:02}" for number in range(40)]
ANSWER = timedelta(seconds=3)
"""How long a request hangs: longer than the server is away."""


@pytest.fixture
def own_database() -> Iterator[Database]:
    """Serve a migrated database that can be copied while it runs."""
    with own_migrated({"wal_level": "replica", "full_page_writes": "on"}) as database:
        yield database


async def copy_server(owner: asyncpg.Connection) -> tuple[Path, Path]:
    """Make a copy of a running server's files, as a base backup is; return both folders."""
    await owner.fetchval("SELECT pg_backup_start('behind', true)")
    cluster = Path(await owner.fetchval("SHOW data_directory"))
    behind = cluster.with_suffix(".behind")
    shutil.copytree(cluster, behind, ignore=shutil.ignore_patterns("postmaster.*", "pg_wal"))
    label = await owner.fetchval("SELECT labelfile FROM pg_backup_stop(false)")
    shutil.copytree(cluster / "pg_wal", behind / "pg_wal")
    (behind / "backup_label").write_text(label)
    for copied in (behind, *behind.rglob("*")):
        original = (cluster / copied.relative_to(behind)) if copied != behind else cluster
        owned_as = original if original.exists() else cluster
        shutil.chown(copied, owned_as.stat().st_uid, owned_as.stat().st_gid)
    return cluster, behind


async def fail_over(installation: Installation, cluster: Path, behind: Path) -> None:
    """Let the copy take over from the server, which crashes, at the same address."""
    await end_server(installation, signal.SIGQUIT)
    cluster.rename(cluster.with_suffix(".lost"))
    behind.rename(cluster)
    installation.database.server.start()
    for ended in (installation.admin, installation.owner, installation.producer):
        ended.terminate()
    await reconnect(installation)
    installation.producer = await installation.database.connect("webhook_producer")


OF_RETRIES = pytest.mark.slow(
    "acceptance/test_failover.py::test_what_is_written_after_a_failover_is_sent_whatever_numbers_it_gets"
)


@pytest.mark.parametrize(
    ("is_in_order", "count"),
    [
        pytest.param(True, 1, id="first attempts"),
        pytest.param(False, 2, id="retries", marks=OF_RETRIES),
    ],
)
async def test_what_is_written_after_a_failover_is_sent_whatever_numbers_it_gets(
    own_world: Installation, is_in_order: bool, count: int
) -> None:
    await own_world.configure(*MERCHANTS)
    schedule = "PT1S" + ",PT1S" * 6
    daemons = await start_daemons(own_world, count, RETRY_SCHEDULE=schedule)
    before = await own_world.emit_each(MERCHANTS, 1)
    await own_world.all_delivered(len(before))
    cluster, behind = await copy_server(own_world.owner)

    for merchant_id in MERCHANTS:
        failing = [] if is_in_order else [Behaviour(status=503)]
        own_world.receiver.behave(merchant_id, *failing, Behaviour(delay=ANSWER))
    lost = await own_world.emit_each(MERCHANTS, 2)
    hanging = len(before) + len(MERCHANTS) * (1 if is_in_order else 2)
    await own_world.arrived(hanging, deadline=PATIENCE)
    await fail_over(own_world, cluster, behind)
    # As after more numbers than the 32 that a server writes down ahead.
    await own_world.owner.execute("SELECT setval('webhook.outbox_seq_seq', $1, false)", lost[0].seq)
    after = await own_world.emit_each(MERCHANTS[1:] + MERCHANTS[:1], 3)

    assert {event.seq for event in lost} <= {event.seq for event in after}
    known = await all_settled(own_world.owner, PATIENCE)
    forgotten = {str(event.id) for event in lost}
    await until(lambda: all(arrival.ended_at for arrival in own_world.receiver.arrivals), PATIENCE)
    check_promises(
        [*before, *after],
        [arrival for arrival in own_world.receiver.arrivals if arrival.event_id not in forgotten],
        known,
    )
    assert not forgotten & known.keys()
    sent = {arrival.event_id for arrival in own_world.receiver.arrivals} & forgotten
    noted = "SELECT event_id::text FROM webhook.lost_event"

    async def all_are_noted() -> bool:
        return {row["event_id"] for row in await own_world.owner.fetch(noted)} == sent

    await until_found(all_are_noted, PATIENCE)

    async def are_shown() -> bool:
        _, text = await daemons[0].asked("/metrics")
        return f"webhook_lost_events {float(len(sent))}" in text

    await until_found(are_shown, PATIENCE)
    for connection in (own_world.admin, own_world.owner, own_world.producer):
        await connection.close()
    for daemon in daemons:
        assert daemon.log("database.changed")
    assert sum(entry["count"] for daemon in daemons for entry in daemon.log("events.lost")) == len(sent)
    explained, checked = own_world.command("explain", str(lost[0].id)), own_world.command("check")
    assert "the server that took over" in explained.stderr
    assert f"{len(sent)} events of 40 merchants were sent and are not here" in checked.stdout
    assert explained.returncode == checked.returncode == 1
