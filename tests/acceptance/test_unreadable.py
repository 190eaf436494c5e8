"""Rows that the database cannot read any more: they wait, are named, hold up nobody. Source: I9."""

import asyncio
import re
from uuid import UUID

import pytest

from tests.acceptance.installation import IN_SCALED_TIME, Installation, Sent
from tests.acceptance.processes import Daemon
from tests.servers.damage import damaging, documented, large_object
from tests.waiting import MAX_WAIT, until, until_equal, until_found
from webhook_dispatcher.local.behaviour import Behaviour

pytestmark = pytest.mark.scaled_time
PATIENCE = MAX_WAIT
MERCHANTS = [f"m{number:02}" for number in range(30)]
DUE = "UPDATE webhook.outbox SET due_at = clock_timestamp(), attempts = 1 WHERE id = $1"
LOOK = (
    "INSERT INTO webhook.lane (merchant_id, retry_at) VALUES ($1, clock_timestamp()) "
    "ON CONFLICT (merchant_id) DO UPDATE SET retry_at = clock_timestamp()"
)


async def start(installation: Installation, **changed: str) -> Daemon:
    """Start a daemon, however slow the machine is today."""
    daemon = installation.spawn(**{**IN_SCALED_TIME, **changed})
    await daemon.logged("daemon.started", PATIENCE)
    return daemon


async def make_due(installation: Installation, merchant_id: str, text: str = "{}") -> Sent:
    """Write an event that has had one attempt and is due for the next."""
    sent = await installation.emit(merchant_id, text)
    await installation.owner.execute(DUE, sent.id)
    await installation.owner.execute(LOOK, merchant_id)
    return sent


async def blocked_rows(daemon: Daemon) -> float:
    """Read the gauge."""
    _, metrics = await daemon.asked("/metrics")
    [line] = re.findall(r'^webhook_blocked_rows{reason="unreadable"} (.*)$', metrics, re.MULTILINE)
    return float(line)


async def nobody_waits_but(installation: Installation, *waiting: UUID) -> None:
    """Wait until everything else is delivered."""

    async def is_so() -> bool:
        rows = await installation.admin.fetch(
            "SELECT event_id FROM webhook.deliveries WHERE state IN ('pending', 'pending_retry')"
        )
        return {row["event_id"] for row in rows} == set(waiting)

    await until_found(is_so, PATIENCE)


async def test_unreadable_rows_wait_and_are_named_until_they_are_restored_or_quarantined(
    installation: Installation,
) -> None:
    await installation.configure(*MERCHANTS)
    good = await installation.emit_each(MERCHANTS, 3)
    due = [await make_due(installation, merchant_id) for merchant_id in MERCHANTS]
    async with damaging(installation.owner):
        in_order = await installation.emit("m07", large_object())
    async with damaging(installation.owner):
        retry = await make_due(installation, "m11", large_object())
    good += await installation.emit_each(MERCHANTS, 3)
    behind = [sent for sent in good[-3 * len(MERCHANTS) :] if sent.merchant_id == "m07"]
    due.append(await make_due(installation, "m11"))

    daemon = await start(installation)
    await nobody_waits_but(installation, in_order.id, retry.id, *[sent.id for sent in behind])
    await until(lambda: len(daemon.log("row.unreadable")) >= 2)
    told = {(line["merchant_id"], line["event_id"], line["seq"]) for line in daemon.log("row.unreadable")}
    assert told == {("m07", str(in_order.id), in_order.seq), ("m11", str(retry.id), retry.seq)}
    assert len(daemon.log("row.unreadable")) == 2
    assert all("toast" in line["detail"] for line in daemon.log("row.unreadable"))
    await until_equal(lambda: blocked_rows(daemon), 2)

    as_dispatcher = installation.database.settings("webhook_dispatcher")

    async def are_named_by_check() -> bool:
        checked = await asyncio.to_thread(installation.command, "check", "--json", **as_dispatcher)
        return checked.returncode == 1 and all(
            f"{sent.merchant_id}: event {sent.id}, seq {sent.seq}, cannot be read" in checked.stdout
            for sent in (in_order, retry)
        )

    await until_found(are_named_by_check, PATIENCE)
    assert await installation.count("state = 'failed'") == 0, "nothing is given up by itself"

    await installation.owner.execute(documented("restore", in_order.seq))
    await installation.owner.execute(documented("quarantine", retry.seq))
    await nobody_waits_but(installation)
    for merchant_id in MERCHANTS:
        firsts = [str(sent.id) for sent in good if sent.merchant_id == merchant_id]
        if merchant_id == "m07":
            firsts.insert(3, str(in_order.id))
        arrivals = [a.event_id for a in installation.receiver.of(merchant_id) if a.event_id in firsts]
        assert arrivals == firsts
    arrived = [arrival.event_id for arrival in installation.receiver.arrivals]
    assert sorted(arrived) == sorted(str(sent.id) for sent in [*good, *due, in_order])

    row = await installation.delivery(retry.id)
    assert (row["state"], row["failed_reason"], row["object"]) == ("failed", "unsendable", "null")
    asked = await installation.do("retry", event_id=retry.id)
    assert (asked["status"], "could not be read" in asked["error_message"]) == ("rejected", True)
    everything = await installation.do("retry_failed", since="2026-01-01T00:00:00Z")
    assert everything["result"] == {"matched": 1, "retried": 0}
    await until_equal(lambda: blocked_rows(daemon), 0, 2 * PATIENCE)


async def _is_ready(daemon: Daemon) -> bool:
    status, _ = await daemon.asked("/readyz")
    return status == 200


ALWAYS = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'index contains corrupted page at block 3' USING ERRCODE = 'XX002';
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION public.refuse();
"""


@pytest.mark.parametrize(("table", "status"), [("webhook.delivery_log", 200), ("webhook.attempt_log", 500)])
async def test_while_the_log_is_damaged_nothing_is_sent_again(
    installation: Installation, table: str, status: int
) -> None:
    await installation.configure("m00", "m01")
    for merchant_id in ("m00", "m01"):
        installation.receiver.behave(merchant_id, Behaviour(status=status))
    daemon = await start(installation, RETRY_SCHEDULE="PT1H")
    await installation.owner.execute(ALWAYS.format(table=table))
    await installation.emit_each(["m00", "m01"], 3)
    await until(lambda: len(daemon.log("record.failed")) > 1, PATIENCE)
    before = len(installation.receiver.arrivals)
    await installation.emit_each(["m00", "m01"], 1)
    await until(lambda: len(daemon.log("record.failed")) > 4, PATIENCE)
    sent = [arrival.event_id for arrival in installation.receiver.arrivals]
    assert len(set(sent)) == len(sent) == before <= 6, "nothing twice, and nothing new"
    assert daemon.log("row.unreadable") == []

    async def says_so() -> bool:
        status_said, said = await daemon.asked("/readyz")
        return (status_said, "outcomes cannot be written" in said) == (503, True)

    await until_found(says_so)
    await installation.owner.execute(f"DROP TRIGGER refuse ON {table}")
    await until_equal(lambda: installation.count("state IN ('delivered', 'pending_retry')"), 8, PATIENCE)
    assert len(installation.receiver.arrivals) == 8
