"""A range of time is sent again, and what is old is given up. Source: contract 3, `recover` and `skip`."""

import asyncio
import subprocess
from datetime import timedelta

import pytest

from tests.acceptance.installation import Installation
from tests.waiting import Yardstick, until_found
from webhook_dispatcher.local.behaviour import Behaviour

DOWN = Behaviour(status=503)
ENDS_WITHIN = 2.0
"""Seconds within which a mass command that is stopped has ended."""
CLOCK = "SELECT clock_timestamp() + interval '1 ms'"
"""Commands are given milliseconds, cut off: a little later than what is there already."""
RIGHT, WRONG = "charge.created", "charge.failed"
WRONG_ONES = """
INSERT INTO webhook.outbox (merchant_id, type, object)
SELECT 'm2', $1, '{}' FROM generate_series(1, 600) RETURNING seq
"""


def said(finished: subprocess.CompletedProcess[str]) -> list[str]:
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


async def command(installation: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line while receiver and producer go on."""
    return await asyncio.to_thread(installation.command, *arguments)


async def instant(installation: Installation) -> str:
    """Return an instant between what was written before and what is written after, in milliseconds."""
    at = await installation.owner.fetchval(
        "SELECT date_trunc('milliseconds', clock_timestamp()) + interval '1 ms'"
    )
    await installation.until_true("SELECT clock_timestamp() > $1", at)
    return str(at.isoformat())


async def test_a_recovery_is_stopped_within_two_seconds(installation: Installation) -> None:
    await installation.configure("m1")
    await installation.start()
    await installation.emit_each(["m1"], 400)
    await installation.all_delivered(400)
    night = len(installation.receiver.of("m1"))
    await installation.do("pause", "m1")
    recover = await installation.ask("recover", "m1")
    sent = "SELECT count(*) FROM webhook.outbox WHERE trigger = 'replay'"
    await installation.until_true(sent)
    with Yardstick() as machine:
        assert said(await command(installation, "commands", "stop", str(recover)))
        stopped_at = await installation.owner.fetchval(CLOCK)
        row = await installation.handled(recover)
    assert row["handled_at"] - stopped_at < timedelta(seconds=machine.allows(ENDS_WITHIN))
    assert (row["status"], row["result"]["stopped"]) == ("done", True)
    assert 0 < row["result"]["recovered"] < 400
    await installation.do("resume", "m1")
    await installation.arrived(night + row["result"]["recovered"], "m1")
    assert await installation.count("state = 'delivered'") == 400
    assert (await command(installation, "commands", "stop", str(recover))).returncode == 1


async def test_wrong_events_of_a_type_are_skipped_though_a_daemon_is_killed_and_the_others_arrive_in_order(
    installation: Installation,
) -> None:
    """The runbook of docs/operate/commands.md, "5,000 wrong events"."""
    await installation.configure("m1", "m2")
    daemon = await installation.start()
    early = await installation.emit("m1", event_type=WRONG)
    await installation.settled(early.id, "delivered", 1)
    said(await command(installation, "pause", "--all"))
    before_time = await installation.emit("m1", event_type=WRONG)
    since = await instant(installation)
    right = [before_time]
    for _ in range(3):
        for merchant in ("m1", "m2"):
            await installation.emit(merchant, event_type=WRONG)
            right.append(await installation.emit(merchant, event_type=RIGHT))
    last = max(row["seq"] for row in await installation.owner.fetch(WRONG_ONES, WRONG))
    until = await instant(installation)
    late = await installation.emit("m2", event_type=WRONG)
    which = ["skip", "--all", "--type", WRONG, "--since", since, "--before", until]
    preview = said(await command(installation, *which, "--dry-run"))
    assert preview[0].startswith("606 to be given up without an attempt, created from ")
    assert preview[1:] == [f"  type {WRONG}: 606", "  m2: 603", "  m1: 3"]

    # The second chunk waits for a row that is locked; the daemon dies meanwhile, and its lease lapses.
    skipped = "SELECT (result->>'skipped')::integer FROM webhook.control WHERE command = 'skip'"
    async with installation.owner.transaction():
        await installation.owner.execute("SELECT FROM webhook.outbox WHERE seq = $1 FOR UPDATE", last)
        skipping = asyncio.create_task(command(installation, *which, "--yes"))
        await until_found(lambda: installation.admin.fetchval(skipped))
        daemon.kill()
        assert await installation.admin.fetchval(skipped) == 500
    resuming = asyncio.create_task(command(installation, "resume", "--all"))
    await installation.owner.execute("UPDATE webhook.control SET running_until = clock_timestamp()")
    await installation.start()
    lines = said(await skipping)
    assert lines[0] == preview[0]
    assert lines[-1].endswith("done, skipped 606")
    said(await resuming)
    events = [*right, late]
    await installation.arrived(1 + len(events))
    for merchant in ("m1", "m2"):
        arrived = [arrival.event_id for arrival in installation.receiver.of(merchant)]
        assert arrived[merchant == "m1" :] == [
            str(sent.id) for sent in events if sent.merchant_id == merchant
        ]
    assert await installation.count(f"failed_reason = 'skipped' AND type = '{WRONG}'") == 606
    await installation.all_delivered(1 + len(events))
    assert said(await command(installation, *which, "--dry-run"))[0].startswith("none is to be given up")
    got = ["recover", "--all", "--type", WRONG, "--state", "delivered", "--since", since, "--dry-run"]
    assert said(await command(installation, *got))[1:3] == ["  m1: 1", "  m2: 1"], "before_time and late"


async def test_a_retry_shows_its_attempt_and_warns_of_a_pause(installation: Installation) -> None:
    await installation.configure("m1")
    installation.receiver.behave("m1", DOWN, DOWN, Behaviour())
    await installation.start()
    event = await installation.emit("m1")
    await installation.settled(event.id, "pending_retry", 1)
    refused = await command(installation, "deliveries", "retry", str(event.id))
    assert refused.returncode == 1
    assert "attempt 2: not delivered: status 503 (" in refused.stdout
    await installation.do("pause", "m1")
    paused = await command(installation, "deliveries", "retry", str(event.id))
    assert paused.stderr == "m1 is paused: the attempt waits for `resume m1`\n"
    assert said(paused)[-1].endswith("done, in_flight no")
    await installation.do("resume", "m1")
    await installation.settled(event.id, "delivered", 3)
    forced = said(await command(installation, "deliveries", "retry", "--force", str(event.id)))
    assert forced[-1].startswith("attempt 4: delivered 20")


@pytest.mark.slow(
    "acceptance/test_recover.py::test_wrong_events_of_a_type_are_skipped_though_a_daemon_is_killed_and_the_others_arrive_in_order"
)
async def test_a_cut_over_sends_what_came_after_its_instant_and_nothing_from_before(
    installation: Installation,
) -> None:
    """The day of docs/evaluate/moving.md: paused from the start, the other sender's events are given up."""
    await installation.configure("m1")
    await installation.owner.execute(
        "UPDATE webhook.state SET paused = true"
    )  # as `migrate --paused` leaves it
    await installation.start()
    sent_by_the_other = await installation.emit_each(["m1"], 3)
    cut_over = await instant(installation)
    ours = await installation.emit("m1")
    assert said(await command(installation, "skip", "--all", "--before", cut_over, "--yes"))
    assert said(await command(installation, "resume", "--all"))
    await installation.settled(ours.id, "delivered", 1)
    assert len(installation.receiver.of("m1")) == 1
    for event in sent_by_the_other:
        assert (await installation.delivery(event.id))["failed_reason"] == "skipped"


async def test_the_first_migration_may_leave_everything_paused(installation: Installation) -> None:
    name = f"{installation.database.name}_paused"
    dsn = installation.database.server.dsn("postgres", name)
    await installation.owner.execute(f"CREATE DATABASE {name}")
    try:
        first = installation.command("migrate", "--paused", DATABASE_URL=dsn, DATABASE_POOLER="none")
        assert said(first)[-1] == (
            "the schema is up to date, and everything is paused: `resume --all` begins to send"
        )
        paused = "SELECT paused FROM webhook.state"
        database = installation.database
        connection = await type(database)(database.server, name).connect()
        assert await connection.fetchval(paused) is True
        await connection.execute("UPDATE webhook.state SET paused = false")
        second = installation.command("migrate", "--paused", DATABASE_URL=dsn, DATABASE_POOLER="none")
        assert (second.returncode, "the schema is there already: `pause --all`" in second.stderr) == (1, True)
        assert await connection.fetchval(paused) is False
        # As a first migration leaves it that was cut short before it paused.
        await connection.execute("UPDATE webhook.state SET installation = NULL")
        third = installation.command("migrate", "--paused", DATABASE_URL=dsn, DATABASE_POOLER="none")
        assert (third.returncode, await connection.fetchval(paused)) == (0, True)
        await connection.close()
    finally:
        await installation.owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
