"""Copies of an event, one for each endpoint: what they become, and where they are owed again."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from tests.integration.storage_harness import (
    LAPSED,
    LEASE,
    Daemon,
    StorageHarness,
    answered,
    exhausted,
    find_delivery,
)
from webhook_dispatcher.dispatch.control import mass_cancel
from webhook_dispatcher.domain.claim import DueRow
from webhook_dispatcher.domain.command import LONG_AGO, Recover, RetryFailed, Skip
from webhook_dispatcher.domain.event import PLATFORM, State
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.domain.record import Record, Sent
from webhook_dispatcher.storage import lost
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.controls import PostgresControls

FIRST, SECOND = lane_named("m", 1), lane_named("m", 2)
ROUTE = """
WITH moved AS (DELETE FROM webhook.outbox WHERE merchant_id = 'm' AND due_at IS NULL RETURNING *),
logged AS (
    INSERT INTO webhook.delivery_log (
        seq, event_id, merchant_id, type, created_at, object, attempts, finished_at, xid
    )
    SELECT seq, id, merchant_id, type, created_at, object, 0, clock_timestamp(), xid FROM moved
)
INSERT INTO webhook.outbox (id, merchant_id, type, created_at, object, copy_of, xid)
SELECT
    CASE number WHEN 1 THEN id ELSE webhook.delivery_id(id, number) END,
    webhook.lane_named('m', number), type, created_at, object, id, NULL
FROM moved CROSS JOIN unnest('{1, 2}'::smallint[]) AS number
ORDER BY seq, number
RETURNING copy_of
"""
WAIT = """
INSERT INTO webhook.outbox (merchant_id, type, object, attempts, due_at)
VALUES ($1, 'charge.created', '{}', 1, 'infinity') RETURNING seq
"""
ALONE = "DELETE FROM webhook.endpoint WHERE merchant_id = $1"
LOGGED = """
SELECT event_id, seq, merchant_id, endpoint, state, failed_reason, copy_of, xid
FROM webhook.delivery_log WHERE copy_of IS NOT NULL ORDER BY seq
"""
OWED = "SELECT merchant_id, copy_of, xid, due_at FROM webhook.outbox ORDER BY seq"


@pytest.fixture
async def here(storage: StorageHarness) -> Daemon:
    """Give a merchant, and the platform, two endpoints each."""
    for merchant in ("m", PLATFORM):
        await storage.db.execute(
            "INSERT INTO webhook.lane (merchant_id, routed_at) VALUES ($1, clock_timestamp()), ($2, NULL)",
            merchant,
            lane_named(merchant, 1),
        )
        await storage.configure(*(lane_named(merchant, number) for number in (1, 2)))
    return await storage.daemon("here")


async def route(storage: StorageHarness) -> UUID:
    """Write an event, and have it routed; return its id."""
    await storage.insert("m", '{"id": "ch_1"}')
    event_id: UUID = await storage.db.fetchval(ROUTE)
    return event_id


async def _answer(storage: StorageHarness, here: Daemon, lease: timedelta, status: int) -> list[Record]:
    records = []
    for lane in (FIRST, SECOND):
        held, [event] = await here.claim(lane, lease=lease)
        records.append(answered(event, held.epoch, await storage.now(), status))
    return records


async def recorded(storage: StorageHarness, here: Daemon) -> None:
    records = [exhausted(record) for record in await _answer(storage, here, LEASE, 500)]
    assert len((await here.records.write(records, [], LEASE)).seqs) == 2


async def recorded_late(storage: StorageHarness, here: Daemon) -> None:
    records = await _answer(storage, here, LAPSED, 200)
    await (await storage.daemon("there")).lease(FIRST, SECOND)
    for record in records:
        assert await here.records.write_late(record)


async def cancelled(storage: StorageHarness, here: Daemon) -> None:
    event_id = await storage.db.fetchval("SELECT copy_of FROM webhook.outbox LIMIT 1")
    async with PostgresControls(here.pool).transaction() as transaction:
        result = await mass_cancel.cancel(transaction, {1: event_id})
    assert result.handled[0].rejection is None


async def skipped(storage: StorageHarness, here: Daemon) -> None:
    async with PostgresControls(here.pool).transaction() as transaction:
        found = await transaction.find_skippable(Skip("m", await storage.now()), 0, 10)
        assert sum((await transaction.skip(found)).values()) == 2


async def closed(storage: StorageHarness, here: Daemon) -> None:
    await storage.db.execute("UPDATE webhook.outbox SET due_at = clock_timestamp() - interval '1 second'")
    for row in await storage.db.fetch("SELECT merchant_id, seq, id FROM webhook.outbox"):
        assert await here.claims.close_row(DueRow(row["merchant_id"], row["seq"], row["id"]))


Move = Callable[[StorageHarness, Daemon], Awaitable[None]]
WAYS: dict[Move, str | None] = {
    recorded: "exhausted",
    recorded_late: None,
    cancelled: "cancelled",
    skipped: "skipped",
    closed: "unsendable",
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_what_a_copy_becomes_is_its_merchants_and_its_endpoints(
    storage: StorageHarness, here: Daemon, way: Move
) -> None:
    event_id = await route(storage)
    await way(storage, here)
    state = "failed" if WAYS[way] else "delivered"
    assert [tuple(row)[2:] for row in await storage.db.fetch(LOGGED)] == [
        ("m", number, state, WAYS[way], event_id, None) for number in (1, 2)
    ]
    ids = await storage.db.fetchval("SELECT webhook.delivery_ids($1)", event_id)
    assert {row["event_id"] for row in await storage.db.fetch(LOGGED)} < set(ids)
    untold = await storage.db.fetch("SELECT event_id, merchant_id FROM webhook.unreported_failure")
    assert [tuple(row) for row in untold] == [(event_id, "m")] * (2 if way in (recorded, closed) else 0)
    if way in (recorded, recorded_late):
        lanes = await storage.db.fetch("SELECT merchant_id FROM webhook.attempt_log ORDER BY merchant_id")
        assert [row["merchant_id"] for row in lanes] == [FIRST, SECOND], "an endpoint's own attempts"


async def retried(storage: StorageHarness, here: Daemon) -> None:
    rows = await storage.db.fetch("SELECT event_id FROM webhook.delivery_log WHERE state = 'failed'")
    async with PostgresControls(here.pool).transaction() as transaction:
        found = await transaction.find_deliveries([row["event_id"] for row in rows])
        for delivery in {each.seq: each for deliveries in found.values() for each in deliveries}.values():
            await transaction.reopen(delivery)
            await transaction.wake_lanes({delivery.lane: None})


async def retried_together(storage: StorageHarness, here: Daemon) -> None:
    wanted = RetryFailed("m", LONG_AGO, await storage.now(), 10)
    async with PostgresControls(here.pool).transaction() as transaction:
        chunk = await transaction.reopen_failed(wanted, (LONG_AGO, -1), 10)
        assert chunk is not None
        await transaction.wake_lanes(chunk.heads)


async def recovered(storage: StorageHarness, here: Daemon) -> None:
    wanted = Recover("m", LONG_AGO, await storage.now(), 10, retries=7)
    async with PostgresControls(here.pool).transaction() as transaction:
        due = await transaction.reopen_all(await transaction.find_finished(wanted, 0, 10))
        await transaction.wake_lanes(due.heads)


@pytest.mark.parametrize("way", [retried, retried_together, recovered], ids=lambda way: way.__name__)
@pytest.mark.parametrize("is_direct", [False, True])
async def test_what_is_sent_again_is_owed_in_the_lane_of_its_endpoint(
    storage: StorageHarness, here: Daemon, way: Move, is_direct: bool
) -> None:
    """What was sent before there were several endpoints is an event, and is owed where events are."""
    (before,) = await storage.insert("m")
    await storage.finish(before, state="failed")
    event_id = await route(storage)
    await recorded(storage, here)
    await storage.db.execute("UPDATE webhook.lane SET lease_until = '-infinity', retry_at = 'infinity'")
    if is_direct:
        await storage.db.execute(ALONE, SECOND)
        await storage.db.execute("SELECT webhook.become_direct('m')")
        assert (await storage.lane("m"))["routed_at"] is None
    await way(storage, here)
    owed = [tuple(row)[:2] for row in await storage.db.fetch(OWED)]
    if is_direct and way is not retried:
        assert owed == [("m", None), ("m", event_id)], (
            "the second endpoint is gone, and with it what it failed"
        )
    else:
        first = "m" if is_direct else FIRST
        assert owed == [("m", None), (first, event_id), (SECOND, event_id)]
    woken = await storage.db.fetch(
        "SELECT merchant_id FROM webhook.lane WHERE retry_at < 'infinity' AND merchant_id ~ '^m' ORDER BY 1"
    )
    assert {lane for lane, _ in owed} <= {row["merchant_id"] for row in woken}


async def test_a_command_for_an_event_is_for_all_its_deliveries_and_one_for_a_delivery_for_that(
    storage: StorageHarness, here: Daemon
) -> None:
    event_id = await route(storage)
    second = await storage.db.fetchval("SELECT webhook.delivery_id($1, 2::smallint)", event_id)
    async with PostgresControls(here.pool).transaction() as transaction:
        found = await transaction.find_deliveries([event_id, second])
        assert [each.lane for each in found[event_id]] == [FIRST, SECOND]
        assert found[second] == found[event_id][1:]
        both = await mass_cancel.cancel(transaction, {1: second, 2: event_id, 3: event_id})
    assert [command.rejection is None for command in both.handled] == [True, True, False]
    assert await storage.db.fetchval("SELECT count(*) FROM webhook.outbox") == 0


@pytest.mark.parametrize("number", [1, 2])
async def test_a_command_for_an_endpoint_is_for_its_delivery_alone(
    storage: StorageHarness, here: Daemon, number: int
) -> None:
    event_id = await route(storage)
    async with PostgresControls(here.pool).transaction() as transaction:
        await mass_cancel.cancel(transaction, {1: event_id}, number)
    assert [row["merchant_id"] for row in await storage.db.fetch(OWED)] == [lane_named("m", 3 - number)]


@pytest.mark.parametrize(("number", "lanes"), [(None, [FIRST, SECOND]), (1, [FIRST]), (2, [SECOND])])
async def test_a_merchant_is_paused_with_all_its_lanes_and_an_endpoint_with_its_own(
    storage: StorageHarness, here: Daemon, number: int | None, lanes: list[str]
) -> None:
    await storage.configure("m2")
    await storage.db.execute("UPDATE webhook.lane SET lease_until = 'infinity'")
    for is_paused, paused in ((True, lanes), (False, [])):
        async with PostgresControls(here.pool).transaction() as transaction:
            await transaction.pause("m", is_paused, number)
        rows = await storage.db.fetch("SELECT merchant_id FROM webhook.lane WHERE paused ORDER BY 1")
        assert [row["merchant_id"] for row in rows] == paused
    recalled = await storage.db.fetch("SELECT merchant_id FROM webhook.lane WHERE recalled ORDER BY 1")
    assert [row["merchant_id"] for row in recalled] == lanes


async def test_what_waits_for_a_retry_is_recovered_wherever_its_endpoint_was(
    storage: StorageHarness, here: Daemon
) -> None:
    """What was to be retried when the second endpoint came lies in the merchant's lane until it is due."""
    waiting = [await storage.db.fetchval(WAIT, lane) for lane in ("m", FIRST, SECOND)]
    await storage.db.execute(WAIT, lane_named("m", 3))
    wanted = Recover("m", LONG_AGO, await storage.now(), 10, retries=7)
    async with PostgresControls(here.pool).transaction() as transaction:
        assert list((await transaction.find_waiting(wanted, 0, 10)).seqs) == waiting


@pytest.mark.parametrize("number", [1, 2])
async def test_a_command_for_many_is_for_one_endpoint_alone_where_it_is_named(
    storage: StorageHarness, here: Daemon, number: int
) -> None:
    await route(storage)
    retries = [await storage.db.fetchval(WAIT, lane) for lane in ("m", FIRST, SECOND)]
    own = retries[:2] if number == 1 else retries[2:]
    [unrouted] = await storage.insert("m")
    now = await storage.now()
    wanted = Recover("m", LONG_AGO, now, 10, retries=7, endpoint=number)
    skip = Skip("m", now, endpoint=number)
    async with (
        administration(storage.database.dsn("webhook_admin")) as admin,
        PostgresControls(here.pool).transaction() as transaction,
    ):
        assert list((await transaction.find_waiting(wanted, 0, 10)).seqs) == own
        of_retries = replace(wanted, states=(str(State.PENDING_RETRY),))
        assert (await admin.preview_recovery(of_retries)).total == len(own)
        assert (await admin.preview_skip(skip)).total == 1 + len(own)
        found = await transaction.find_skippable(skip, 0, 10)
        assert found.seqs[1:] == own
        await transaction.skip(found)
    left = {row["seq"] for row in await storage.db.fetch("SELECT seq FROM webhook.outbox")}
    assert unrouted in left
    assert left.isdisjoint(found.seqs)
    # What is given up before it is routed is no endpoint's: sent again, it would be routed.
    event_id = await storage.id_of(unrouted)
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.cancel((await transaction.find_deliveries([event_id]))[event_id])
    await storage.db.execute(
        "UPDATE webhook.delivery_log SET failed_reason = 'exhausted' WHERE state = 'failed'"
    )
    async with (
        administration(storage.database.dsn("webhook_admin")) as admin,
        PostgresControls(here.pool).transaction() as transaction,
    ):
        for each in (1, 2):
            later = replace(wanted, until=await storage.now(), endpoint=each)
            expected = len(found.seqs) if each == number else 0
            assert len((await transaction.find_finished(later, 0, 10)).seqs) == expected
            preview = await admin.preview_recovery(replace(later, states=(str(State.FAILED),)))
            assert (preview.total, preview.given_up_later) == (expected, 0)
            preview = await admin.preview_recovery(replace(later, until=now))
            assert preview.given_up_later == expected
            together = RetryFailed("m", LONG_AGO, later.until, 10, each)
            assert await transaction.count_failed(together) == expected


async def test_an_event_that_was_routed_is_not_lost(storage: StorageHarness, here: Daemon) -> None:
    event_id = await route(storage)
    now = await storage.now()
    assert await lost.note(here.pool, [Sent(event_id, "m", 1, now, False)]) == 0
    await storage.db.execute("DELETE FROM webhook.delivery_log")
    assert await lost.note(here.pool, [Sent(event_id, "m", 1, now, False)]) == 0
    # The second endpoint was behind for longer than the log keeps.
    await storage.db.execute("DELETE FROM webhook.outbox WHERE id = $1", event_id)
    behind = Sent(event_id, "m", await storage.db.fetchval("SELECT seq FROM webhook.outbox"), now, True)
    assert await lost.note(here.pool, [behind]) == 0
    await storage.finish(behind.seq)
    assert await lost.note(here.pool, [behind]) == 0
    await storage.db.execute("DELETE FROM webhook.delivery_log")
    assert await lost.note(here.pool, [behind]) == 1


async def test_endpoints_are_found_by_their_numbers(storage: StorageHarness, here: Daemon) -> None:
    await storage.configure("direct")
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.require_endpoint("m") == FIRST
        assert await transaction.require_endpoint("m", 2) == SECOND
        assert await transaction.require_endpoint("direct", 1) == "direct"
    await storage.db.execute(ALONE, FIRST)
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.require_endpoint("m") == SECOND


async def test_what_was_given_up_before_it_was_routed_is_no_endpoints(
    storage: StorageHarness, here: Daemon
) -> None:
    [seq] = await storage.insert("m")
    event_id = await storage.id_of(seq)
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.cancel((await transaction.find_deliveries([event_id]))[event_id])
        assert (await find_delivery(transaction, event_id)).endpoint is None, "a retry routes it"
    await storage.db.execute("UPDATE webhook.delivery_log SET attempts = 1")
    async with PostgresControls(here.pool).transaction() as transaction:
        assert (await find_delivery(transaction, event_id)).endpoint == 1
    await storage.db.execute("UPDATE webhook.delivery_log SET attempts = 0")
    await storage.db.execute("UPDATE webhook.lane SET routed_at = NULL WHERE merchant_id = 'm'")
    async with PostgresControls(here.pool).transaction() as transaction:
        assert (await find_delivery(transaction, event_id)).endpoint == 1
