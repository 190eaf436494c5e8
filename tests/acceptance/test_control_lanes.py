"""Control commands and changes that concern a merchant as a whole, and runs that are in memory already."""

import asyncio
import time
from datetime import timedelta
from functools import partial

import pytest

from tests.acceptance.installation import Installation
from tests.acceptance.supervised_processes import asked, start_processes
from tests.waiting import Yardstick, until, until_found
from webhook_dispatcher.local.arrivals import Arrival, out_of_order
from webhook_dispatcher.local.behaviour import Behaviour

STEADY = Behaviour(delay=timedelta(seconds=0.05))
HEEDED = 1.0
"""Seconds after a command was handled within which it is heeded everywhere."""


async def start_two(installation: Installation) -> None:
    first, second = installation.spawn(), installation.spawn()
    await first.logged("daemon.started")
    await second.logged("daemon.started")


async def handled_at(installation: Installation, row: dict[str, object]) -> float:
    """Return when a command was handled, on the monotonic clock."""
    ago = await installation.owner.fetchval("SELECT clock_timestamp() - $1::timestamptz", row["handled_at"])
    return time.monotonic() - float(ago.total_seconds())


def later_than(arrivals: list[Arrival], moment: float) -> list[Arrival]:
    return [arrival for arrival in arrivals if arrival.started_at > moment]


EVERYTHING = pytest.mark.slow(
    "acceptance/test_control_lanes.py::test_pause_is_heeded_within_a_second_and_order_kept_after_resume"
)


@pytest.mark.parametrize(
    "merchant_id",
    [pytest.param("m1", id="a merchant"), pytest.param(None, id="everything", marks=EVERYTHING)],
)
async def test_pause_is_heeded_within_a_second_and_order_kept_after_resume(
    installation: Installation, merchant_id: str | None
) -> None:
    await installation.configure("m1", "m2")
    installation.receiver.behave("m1", STEADY)
    installation.receiver.behave("m2", STEADY)
    await start_two(installation)
    # More than is sent before the pause; a run of them is in a daemon's memory by then.
    sent = await installation.emit_each(["m1", "m2"], 60)
    await installation.arrived(3, "m1")
    with Yardstick() as machine:
        row = await installation.do("pause", merchant_id)
        handled = await handled_at(installation, row)
        # Longer than any interval at which a daemon would look again.
        await until(lambda: time.monotonic() > handled + HEEDED + 0.75)
    assert row["status"] == "done"
    assert row["handled_at"] - row["created_at"] < timedelta(seconds=machine.allows(HEEDED))
    paused = ["m1"] if merchant_id else ["m1", "m2"]
    for name in paused:
        assert later_than(installation.receiver.of(name), handled + machine.allows(HEEDED)) == []
        assert 3 <= len(installation.receiver.of(name)) < 60
    views = await installation.admin.fetch("SELECT merchant_id, paused FROM webhook.endpoints ORDER BY 1")
    assert [view["paused"] for view in views] == [bool(merchant_id), False]
    if merchant_id:
        assert later_than(installation.receiver.of("m2"), handled + HEEDED) != []

    assert (await installation.do("resume", merchant_id))["status"] == "done"
    await installation.all_delivered(120)
    assert out_of_order(installation.receiver.arrivals, {str(event.id): event.seq for event in sent}) == []
    assert len(installation.receiver.arrivals) == 120


async def test_a_pause_of_everything_can_be_seen(installation: Installation) -> None:
    await installation.configure("m1")
    daemon = await start_processes(installation, 2)
    note = "everything is paused by an operator"

    async def shows(gauge: str, notes: int) -> bool:
        code, text = await asked(daemon, "/readyz")
        metrics = (await asked(daemon, "/metrics"))[1]
        return (code, text.count(note), f"webhook_paused {gauge}\n" in metrics) == (200, notes, True)

    await until_found(partial(shows, "0.0", 0))
    await installation.do("pause")
    await until_found(partial(shows, "1.0", 2))
    refused = await installation.do("test_event", "m1")
    assert refused["error_message"] == "everything is paused: resume it first"
    for line in (["endpoint", "list"], ["check"]):
        said = await asyncio.to_thread(installation.command, *line)
        assert "everything is paused (since " in said.stdout
        assert ", by a test)" in said.stdout
    await installation.do("resume")
    await until_found(partial(shows, "0.0", 0))


async def test_set_url_is_heeded_by_a_run_in_memory_within_a_second(installation: Installation) -> None:
    await installation.configure("m1")
    installation.receiver.behave("m1", STEADY)
    await start_two(installation)
    sent = await installation.emit_each(["m1"], 80)
    await installation.arrived(3, "m1")
    with Yardstick() as machine:
        row = await installation.do("set_url", "m1", url=installation.receiver.url("m1-moved"))
        handled = await handled_at(installation, row)
        await installation.all_delivered(80)
    assert row["status"] == "done"
    assert later_than(installation.receiver.of("m1"), handled + machine.allows(HEEDED)) == []
    moved = installation.receiver.of("m1-moved")
    assert moved != []
    assert [arrival.event_id for arrival in [*installation.receiver.of("m1"), *moved]] == [
        str(event.id) for event in sent
    ]
    assert (await installation.admin.fetchval("SELECT url FROM webhook.endpoints")).endswith("/m1-moved")


async def test_commands_are_taken_up_once_in_order_by_whichever_daemon(installation: Installation) -> None:
    await installation.configure("m1")
    await start_two(installation)
    urls = [installation.receiver.url(f"m1-{number}") for number in range(20)]
    asked = []
    for url in urls:
        asked.append(await installation.ask("set_url", "m1", url=url))
        asked.append(await installation.ask("test_event", "m1"))
    for command in asked:
        assert (await installation.handled(command))["status"] == "done"
    taken_up = "SELECT status, handled_at FROM webhook.control WHERE command = 'set_url' ORDER BY id"
    table = await installation.admin.fetch(taken_up)
    assert {row["status"] for row in table} == {"done"}
    assert [row["handled_at"] for row in table] == sorted(row["handled_at"] for row in table)
    assert await installation.admin.fetchval("SELECT url FROM webhook.endpoints") == urls[-1]
    tests = [arrival.event_id for arrival in installation.receiver.arrivals]
    assert len(tests) == len(set(tests)) == 20


async def test_removed_endpoint_fails_what_is_owed_and_the_next_endpoint_starts_anew(
    installation: Installation,
) -> None:
    await installation.configure("m1")
    installation.receiver.behave("m1", Behaviour(status=500), Behaviour(delay=timedelta(seconds=0.5)))
    await installation.start(RETRY_SCHEDULE="PT2S")
    retried, in_flight, waiting = await installation.emit_each(["m1"], 3)
    await installation.arrived(2)
    await installation.admin.execute("DELETE FROM webhook.endpoint WHERE merchant_id = 'm1'")
    assert (await installation.settled(in_flight.id, "delivered", 1))["failed_reason"] is None
    assert (await installation.settled(waiting.id, "failed", 0))["failed_reason"] == "not_configured"
    assert (await installation.settled(retried.id, "failed", 1))["failed_reason"] == "not_configured"

    held = await installation.emit("m1")
    await installation.configure("m1")
    await installation.settled(held.id, "delivered", 1)
    assert len(installation.receiver.arrivals) == 3


async def test_events_of_a_merchant_without_endpoint_are_held_and_then_fail(
    installation: Installation,
) -> None:
    await installation.start()
    held = await installation.emit_each(["m1"], 3)
    old = await installation.owner.fetchval(
        "INSERT INTO webhook.outbox (merchant_id, type, object, created_at) "
        "VALUES ('m2', 'charge.created', '{}', clock_timestamp() - interval '25 hours') RETURNING id"
    )
    assert (await installation.settled(old, "failed", 0))["failed_reason"] == "not_configured"
    assert await installation.count("state = 'pending' AND attempts = 0") == 3
    await installation.configure("m1", "m2")
    await installation.all_delivered(3)
    assert [arrival.event_id for arrival in installation.receiver.arrivals] == [
        str(event.id) for event in held
    ]
