"""Control commands that concern single deliveries, end to end. Source: contract 3, `webhook.control`."""

import asyncio
import json
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from tests.acceptance.installation import PATIENT, Installation
from tests.waiting import Yardstick, until, until_equal
from webhook_dispatcher.local.behaviour import Behaviour

FAILS = Behaviour(status=500)
HANGS = Behaviour(hangs=True)
AT_ONCE = 1.0
"""Seconds within which a command is taken up."""
QUICK = {"RETRY_SCHEDULE": "PT0.05S"}


def code_of(row: dict[str, object]) -> object:
    assert row["error_message"]
    return row["error_code"] if row["status"] == "rejected" else row["status"]


async def test_cancelled_deliveries_are_not_sent_any_more(installation: Installation) -> None:
    await installation.configure("m1", "m2")
    installation.receiver.behave("m1", FAILS)
    installation.receiver.behave("m2", HANGS, Behaviour())
    await installation.start(**PATIENT)
    retried = await installation.emit("m1")
    _, waiting, last = await installation.emit_each(["m2"], 3)
    await installation.settled(retried.id, "pending_retry", 1)
    with Yardstick() as machine:
        for event in (retried, waiting):
            assert (await installation.do("cancel", event_id=event.id))["status"] == "done"
            assert (await installation.delivery(event.id))["failed_reason"] == "cancelled"
            assert code_of(await installation.do("cancel", event_id=event.id)) == -14004
        # An attempt that a command forbids may start for a second after it (contract 3).
        await asyncio.sleep(machine.allows(1))
    installation.receiver.answer_hanging("m2")
    await installation.settled(last.id, "delivered", 1)
    assert str(waiting.id) not in [arrival.event_id for arrival in installation.receiver.arrivals]
    assert len(installation.receiver.of("m1")) == 1


async def test_test_event_is_sent_at_once_outside_the_order_and_never_again(
    installation: Installation,
) -> None:
    await installation.configure("m1")
    installation.receiver.behave("m1", HANGS, FAILS, Behaviour())
    await installation.start(**QUICK, **PATIENT)
    first, _ = await installation.emit_each(["m1"], 2)
    await installation.arrived(1)
    row = await installation.do("test_event", "m1")
    assert row["result"].keys() == {"event_id", "outcome", "status", "reason"}
    assert (row["result"]["outcome"], row["result"]["status"]) == ("status", 500)
    assert [arrival.type for arrival in installation.receiver.arrivals] == ["charge.created", "webhook.test"]
    charge = json.loads(installation.receiver.arrivals[1].body)["data"]["object"]
    assert (charge["status"], charge["split"]) == ("SUCCEEDED", {"status": "COMPLETED"})
    assert charge.keys() == {"id", "externalId", "status", "split"}, "what is published of a charge"
    assert (await installation.delivery(first.id))["state"] == "pending"
    test_event = UUID(row["result"]["event_id"])
    assert (await installation.delivery(test_event))["state"] == "failed"
    assert [attempt["trigger"] for attempt in await installation.attempts(test_event)] == ["manual"]
    installation.receiver.answer_hanging("m1")
    await installation.all_delivered(2)
    assert [arrival.event_id for arrival in installation.receiver.arrivals].count(str(test_event)) == 1


async def test_a_test_of_another_type_is_told_as_that_and_kept_as_a_test(installation: Installation) -> None:
    await installation.configure("m1")
    installation.receiver.behave("m1", FAILS, Behaviour())
    await installation.start(**QUICK)
    row = await installation.do("test_event", "m1", type="charge.split_failed")
    assert (row["result"]["status"], row["result"]["type"]) == (500, "charge.split_failed")
    test_event = UUID(row["result"]["event_id"])
    kept = await installation.owner.fetchval(
        "SELECT type FROM webhook.deliveries WHERE event_id = $1", test_event
    )
    assert kept == "webhook.test"
    assert (await installation.do("retry_failed", "m1"))["result"]["matched"] == 0
    await installation.do("retry", event_id=test_event)
    await installation.settled(test_event, "delivered", 2)
    first, second = installation.receiver.arrivals
    assert (first.type, second.type) == ("charge.split_failed", "charge.split_failed")
    assert first.body == second.body
    body = json.loads(first.body)
    assert (body["type"], body["data"]["object"]["id"]) == ("charge.split_failed", "ch_test_split_failed")


async def test_commands_of_one_merchant_do_not_hold_up_anothers(installation: Installation) -> None:
    """5,000 cancels of one merchant are carried out together; a pause of another goes beside them."""
    await installation.configure("m2")
    emit = (
        "INSERT INTO webhook.outbox (merchant_id, type, object) "
        "SELECT 'm1', 'charge.created', '{}' FROM generate_series(1, 5000) RETURNING id"
    )
    events = [row["id"] for row in await installation.producer.fetch(emit)]
    await installation.start()
    cancel = "INSERT INTO webhook.control (command, event_id, requested_by) SELECT 'cancel', id, 'a test' "
    await installation.admin.execute(f"{cancel} FROM unnest($1::uuid[]) AS event (id)", events)
    row = await installation.do("pause", "m2")
    assert row["status"] == "done"
    assert row["handled_at"] - row["created_at"] < timedelta(seconds=AT_ONCE)
    await until_equal(lambda: installation.count("failed_reason = 'cancelled'"), len(events))
    figures = await installation.admin.fetchrow(
        "SELECT max(handled_at) - min(handled_at) AS took, count(*) FROM webhook.control "
        "WHERE command = 'cancel' AND status = 'done' AND NOT (result ->> 'in_flight')::boolean"
    )
    assert figures is not None
    assert figures["count"] == len(events)
    print(f"pause {row['handled_at'] - row['created_at']}, {len(events)} cancels {figures['took']}")


async def test_a_command_says_who_asks(installation: Installation) -> None:
    for asker in (None, "", "  "):
        with pytest.raises((asyncpg.NotNullViolationError, asyncpg.CheckViolationError)):
            await installation.admin.execute(
                "INSERT INTO webhook.control (command, requested_by) VALUES ('pause', $1)", asker
            )


async def test_the_log_says_who_asked_for_what_of_whom_and_where(installation: Installation) -> None:
    await installation.configure("m1")
    daemon = await installation.start()
    [started] = daemon.log("daemon.started")
    row = await installation.owner.fetchrow("SELECT installation, current_database() FROM webhook.state")
    assert row is not None
    assert (started["installation"], repr(row[1]) in started["database"]) == (row[0], True)
    await installation.until_true("SELECT true FROM webhook.dispatcher WHERE owner = $1", started["owner"])

    await installation.do("pause", "m1")
    await installation.do("test_event", "m1")
    await installation.do("recover", "nobody", since="2026-11-20T00:00:00Z")
    event = await installation.emit("m1")
    await installation.do("cancel", event_id=event.id)
    await installation.do("retry", event_id=event.id, force=1)
    await until(lambda: len(daemon.log("control.handled")) == 5)
    pause, test, recover, cancel, retry = daemon.log("control.handled")
    told = [(entry["command"], entry["status"], entry["merchant_id"]) for entry in (pause, test, recover)]
    assert told == [
        ("pause", "done", "m1"),
        ("test_event", "done", "m1"),
        ("recover", "rejected", "nobody"),
    ]
    assert (cancel["requested_by"], cancel["subjects"]) == (["a test"], ["m1"])
    assert (retry["status"], retry["event_id"]) == ("rejected", str(event.id))
    assert {entry["requested_by"] for entry in (pause, test, recover, retry)} == {"a test"}
