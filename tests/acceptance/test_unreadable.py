"""Rows that the database cannot read any more hold nobody up. Source: I9."""

import pytest

from tests.acceptance.process import Daemon, until, until_found
from tests.acceptance.world import World
from tests.integration.damage import damaging, large_object
from tests.waiting import MAX_WAIT
from webhook_dispatcher.local.behaviour import Behaviour

PATIENCE = MAX_WAIT
MERCHANTS = [f"m{number:02}" for number in range(30)]
DUE = "UPDATE webhook.outbox SET due_at = clock_timestamp(), attempts = 1 WHERE id = $1"
LOOK = (
    "INSERT INTO webhook.lane (merchant_id, retry_at) VALUES ($1, clock_timestamp()) "
    "ON CONFLICT (merchant_id) DO UPDATE SET retry_at = clock_timestamp()"
)


async def start(world: World, **changed: str) -> Daemon:
    """Start a daemon, however slow the machine is today."""
    daemon = world.spawn(**changed)
    await daemon.logged("daemon.started", PATIENCE)
    return daemon


async def make_due(world: World, merchant_id: str, text: str = "{}") -> str:
    """Write an event that has had one attempt and is due for the next."""
    sent = await world.emit(merchant_id, text)
    await world.owner.execute(DUE, sent.id)
    await world.owner.execute(LOOK, merchant_id)
    return str(sent.id)


async def test_two_unreadable_rows_end_unsendable_and_hold_up_nobody(world: World) -> None:
    await world.configure(*MERCHANTS)
    good = await world.emit_each(MERCHANTS, 3)
    due = [await make_due(world, merchant_id) for merchant_id in MERCHANTS]
    async with damaging(world.owner):
        in_order = await world.emit("m07", large_object())
    async with damaging(world.owner):
        retry = await make_due(world, "m11", large_object())
    good += await world.emit_each(MERCHANTS, 3)

    daemon = await start(world)
    await world.all_delivered(len(good) + len(due), PATIENCE)

    async def all_ended() -> bool:
        return await world.count("state = 'failed' AND failed_reason = 'unsendable'") == 2

    await until_found(all_ended, PATIENCE)
    assert await world.count("state IN ('pending', 'pending_retry')") == 0
    for merchant_id in MERCHANTS:
        firsts = {str(sent.id) for sent in good if sent.merchant_id == merchant_id}
        arrivals = [a.event_id for a in world.receiver.of(merchant_id) if a.event_id in firsts]
        assert arrivals == [str(sent.id) for sent in good if sent.merchant_id == merchant_id]
    arrived = {arrival.event_id for arrival in world.receiver.arrivals}
    assert arrived == {str(sent.id) for sent in good} | set(due), "what cannot be read was not sent"

    await until(lambda: len(daemon.log("row.unreadable")) >= 2)
    told = daemon.log("row.unreadable")
    assert len(told) == 2
    assert {(line["merchant_id"], line["event_id"]) for line in told} == {
        ("m07", str(in_order.id)),
        ("m11", retry),
    }
    assert all("toast" in line["error"] for line in told)

    delivery = await world.delivery(in_order.id)
    assert (delivery["object"], delivery["attempts"]) == ("null", 0)
    assert await world.attempts(in_order.id) == []
    shown = world.command("deliveries", "show", str(in_order.id))
    assert shown.returncode == 0, shown.stderr
    assert "unsendable" in shown.stdout

    asked = await world.do("retry", event_id=in_order.id)
    assert asked["status"] == "rejected"
    assert "could not be read" in asked["error_message"]
    everything = await world.do("retry_failed", since="2026-01-01T00:00:00Z")
    assert everything["result"] == {"matched": 2, "retried": 0}
    assert await world.count("state = 'failed'") == 2

    _, metrics = await daemon.asked("/metrics")
    ended = [
        line for line in metrics.splitlines() if "_deliveries_total{" in line and 'state="failed"' in line
    ]
    assert sum(float(line.rsplit(" ", 1)[1]) for line in ended) == 2


async def test_rows_that_cannot_even_be_changed_hold_up_nobody(world: World) -> None:
    await world.configure(*MERCHANTS[:5])
    good = await world.emit_each(MERCHANTS[:5], 2)
    async with damaging(world.owner, is_stuck=True):
        stuck = await world.emit("m03", large_object())
        retry = await make_due(world, "m03", large_object())
    good += await world.emit_each(MERCHANTS[:5], 2)
    await start(world)
    await world.all_delivered(len(good), PATIENCE)
    # Found again and again by the sweep, it does not keep later ones from their turn.
    for _ in range(3):
        later = await world.emit_each(MERCHANTS[:5], 1)
        good += later
        await world.all_delivered(len(good), PATIENCE)
    arrivals = [arrival.event_id for arrival in world.receiver.of("m03")]
    assert arrivals == [str(sent.id) for sent in good if sent.merchant_id == "m03"]
    assert await world.count("state = 'pending'") == 1
    assert not {str(stuck.id), retry} & set(arrivals)


async def test_a_row_damaged_while_its_request_is_under_way_is_finished(world: World) -> None:
    await world.configure("m00", "m01")
    world.receiver.behave("m00", Behaviour(hangs=True))
    await start(world, ATTEMPT_TIMEOUT="PT2S")
    async with damaging(world.owner):
        sent = await world.emit("m00", large_object())
        await world.arrived(1)
    await world.emit("m01")
    await world.all_delivered(1, PATIENCE)

    async def ended() -> bool:
        return await world.count(f"event_id = '{sent.id}' AND state = 'failed'") == 1

    await until_found(ended, PATIENCE)
    row = await world.delivery(sent.id)
    assert (row["failed_reason"], row["last_outcome"], row["object"]) == ("unsendable", "timeout", "null")
    [attempt] = await world.attempts(sent.id)
    assert attempt["outcome"] == "timeout"


ONCE = """
CREATE SEQUENCE public.once;
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF nextval('public.once') = 1 THEN
        RAISE EXCEPTION 'cache lookup failed for index 4711' USING ERRCODE = 'XX000';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON webhook.attempt_log FOR EACH ROW EXECUTE FUNCTION public.refuse();
"""
ALWAYS = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'index contains corrupted page at block 3' USING ERRCODE = 'XX002';
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION public.refuse();
"""


@pytest.mark.parametrize("status", [200, 500])
async def test_a_passing_internal_error_costs_no_object(world: World, status: int) -> None:
    await world.configure("m00")
    world.receiver.behave("m00", Behaviour(status=status))
    daemon = await start(world, RETRY_SCHEDULE="PT1H")
    await world.owner.execute(ONCE)
    sent = await world.emit("m00", '{"id":"ch_1"}')
    await daemon.logged("record.failed", PATIENCE)

    async def is_written() -> bool:
        return len(await world.attempts(sent.id)) == 1

    await until_found(is_written, PATIENCE)
    row = await world.delivery(sent.id)
    assert row["state"] == ("delivered" if status == 200 else "pending_retry")
    assert row["failed_reason"] is None
    assert len(world.receiver.arrivals) == 1
    assert daemon.log("row.unreadable") == []


@pytest.mark.parametrize(("table", "status"), [("webhook.delivery_log", 200), ("webhook.attempt_log", 500)])
async def test_while_the_log_is_damaged_nothing_is_sent_again(world: World, table: str, status: int) -> None:
    await world.configure("m00", "m01")
    for merchant_id in ("m00", "m01"):
        world.receiver.behave(merchant_id, Behaviour(status=status))
    daemon = await start(world, RETRY_SCHEDULE="PT1H")
    await world.owner.execute(ALWAYS.format(table=table))
    await world.emit_each(["m00", "m01"], 3)
    await until(lambda: len(daemon.log("record.failed")) > 3, PATIENCE)
    before = len(world.receiver.arrivals)
    await world.emit_each(["m00", "m01"], 1)
    await until(lambda: len(daemon.log("record.failed")) > 12, PATIENCE)
    sent = [arrival.event_id for arrival in world.receiver.arrivals]
    assert len(set(sent)) == len(sent) == before <= 6, "nothing twice, and nothing new"
    assert daemon.log("row.stuck") == []
    status_said, said = await daemon.asked("/readyz")
    assert (status_said, "outcomes cannot be written" in said) == (503, True)
    await world.owner.execute(f"DROP TRIGGER refuse ON {table}")

    async def all_written() -> bool:
        return await world.count("state IN ('delivered', 'pending_retry')") == 8

    await until_found(all_written, PATIENCE)
    assert len(world.receiver.arrivals) == 8
