"""Two versions of the program on one database, across a migration. Source: ADR 0007."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.acceptance.installation import IN_SCALED_TIME, Installation
from tests.acceptance.load import PATIENCE, Load, all_settled, check_promises, repetitions, start_daemons
from tests.acceptance.other_version import ADDS, NEW_TYPE, NEXT, RECORDED_BY_NEXT, ROOT, OtherVersion
from tests.acceptance.processes import Daemon
from tests.servers.damage import documented
from tests.waiting import until, until_found
from webhook_dispatcher.local.arrivals import overlapping
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.storage.schema import SCHEMA_VERSION

MERCHANTS = [f"m{number:02}" for number in range(20)]
RATE = 60.0
ROUTED_SINCE = 26
"""Programs for an earlier schema know but one endpoint of a merchant."""
BREAKS = f"UPDATE webhook.state SET compatible_from = {NEXT};"
SCHEMA = (ROOT / "migrations/schema.sql").read_text(encoding="utf-8")
RULES = SCHEMA.partition("CREATE FUNCTION webhook.event_can_be_sent(")[2].partition("$$;")[0]
ALLOWS = f"CREATE OR REPLACE FUNCTION webhook.event_can_be_sent({RULES}$$;".replace(
    "'webhook.test'", f"'webhook.test', '{NEW_TYPE}'"
)
"""What the rules for producers' rows become with one more type."""


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
    next_version = OtherVersion.next(tmp_path / "next", ADDS)
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


@pytest.mark.slow(
    "acceptance/test_processes_stopping.py::test_schema_that_does_not_serve_ends_all_with_its_code"
)
async def test_version_that_the_schema_no_longer_serves_ends_with_3_and_leaves_its_work_to_the_next(
    installation: Installation, tmp_path: Path
) -> None:
    next_version = OtherVersion.next(tmp_path / "next", ADDS + BREAKS)
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
    next_version = OtherVersion.next(tmp_path / "next", ADDS + ALLOWS)
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


async def test_older_daemons_are_refused_from_the_second_endpoint_on_until_it_is_gone(
    installation: Installation, tmp_path: Path
) -> None:
    older, receiver = OtherVersion.before(tmp_path / "older", ROUTED_SINCE), installation.receiver
    sent: list[str] = []

    async def emit() -> None:
        sent.extend([str(event.id) for event in await installation.emit_each(["m"], 10)])

    async def command(line: str, code: int = 0) -> str:
        done = await asyncio.to_thread(installation.command, *line.split())
        assert done.returncode == code, done
        return done.stderr

    add = f"endpoint add m {receiver.url('second')}"
    await installation.configure("m")
    old, new = await older.start(installation), await installation.start()
    await emit()
    assert "know no further endpoints" in (told := await command(add, code=1))
    assert "end them, and give it again" in told
    old.terminate()
    await emit()
    assert await old.ended(PATIENCE) == 0
    await command(add)
    receiver.behave("second", Behaviour(status=500), Behaviour())
    await emit()
    await until(lambda: len(receiver.of("second")) == 10, PATIENCE)
    refused = older.spawn(installation)
    assert await refused.ended(PATIENCE) == 3
    forget_last_line(refused, f"version {ROUTED_SINCE} and later, this one is for {ROUTED_SINCE - 1}")
    await command("endpoint remove m --endpoint 2 --yes")
    await emit()
    # What is owed to it would fail when its retry is due.
    await command(f"deliveries retry {sent[20]} --endpoint 2 --no-wait")
    await installation.until_true("SELECT compatible_from = 1 FROM webhook.state", deadline=PATIENCE)
    await older.start(installation)
    new.terminate()
    await emit()
    assert await new.ended(PATIENCE) == 0
    await installation.until_true("SELECT NOT EXISTS (SELECT FROM webhook.outbox)", deadline=PATIENCE)
    assert [arrival.event_id for arrival in receiver.of("m")] == sent
    assert [arrival.event_id for arrival in receiver.of("second")] == sent[20:30]
    assert overlapping(receiver.arrivals) == []


@pytest.mark.scaled_time
async def test_an_event_type_that_nobody_ever_knows_is_cancelled_and_its_lane_goes_on(
    installation: Installation, tmp_path: Path
) -> None:
    await OtherVersion.next(tmp_path / "next", ADDS + ALLOWS).migrate(installation)
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
