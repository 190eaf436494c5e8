"""Outcomes whose fence has fallen: the attempt is a fact, a 2xx closes, a failure changes nothing."""

import asyncpg
import pytest

from tests.integration.storage_harness import (
    LAPSED,
    LEASE,
    Daemon,
    StorageHarness,
    answered,
    cancel,
    exhausted,
)
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.storage.controls import PostgresControls

HOLD_ROW = "SELECT FROM webhook.outbox WHERE seq = $1 FOR UPDATE"
HOLD_LANE = (
    "SELECT FROM webhook.lane WHERE merchant_id = (SELECT merchant_id FROM webhook.outbox WHERE seq = $1) "
    "FOR UPDATE"
)
STANDING = ("state", "failed_reason", "attempts", "last_status", "last_outcome")


async def _late(storage: StorageHarness, here: Daemon, status: int | None) -> Record:
    """Answer an event under a lease that another daemon has taken over meanwhile."""
    await storage.insert("m")
    old, (event,) = await here.claim("m", lease=LAPSED)
    await (await storage.daemon("there")).lease("m")
    return answered(event, old.epoch, await storage.now(), status)


async def _cancelled(storage: StorageHarness, here: Daemon, status: int | None) -> Record:
    """Answer an event that was cancelled while it was in flight."""
    await storage.insert("m")
    lease, (event,) = await here.claim("m")
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await cancel(transaction, event.id)
    record = answered(event, lease.epoch, await storage.now(), status)
    assert (await here.records.write([record], [], LEASE)).seqs == frozenset()
    assert await here.records.read_unwritten([record]) == frozenset()
    return record


def _found(row: asyncpg.Record | None, *columns: str) -> tuple[object, ...]:
    assert row is not None
    return tuple(row[column] for column in columns)


async def test_late_2xx_closes_a_delivery_that_waits_for_its_first_attempt(
    storage: StorageHarness, here: Daemon
) -> None:
    record = await _late(storage, here, 200)
    assert await here.records.write_late(record)
    seq = record.event.seq
    assert await storage.owed(seq) is None
    assert _found(await storage.logged(seq), *STANDING) == ("delivered", None, 1, 200, "delivered")
    assert [attempt["outcome"] for attempt in await storage.attempts(record.event)] == ["delivered"]


async def test_late_2xx_closes_a_delivery_that_was_failed_meanwhile(
    storage: StorageHarness, here: Daemon
) -> None:
    """The next holder's attempt failed: for now, and then for good."""
    for is_exhausted in (False, True):
        record = await _late(storage, here, 200)
        seq = record.event.seq
        failure = answered(record.event, (await storage.lane("m"))["epoch"], record.at, 503)
        failure = exhausted(failure) if is_exhausted else failure
        assert (await here.records.write([failure], [], LEASE)).seqs == {seq}
        assert await here.records.write_late(record)
        assert await storage.owed(seq) is None
        assert _found(await storage.logged(seq), *STANDING) == ("delivered", None, 1, 200, "delivered")
        await storage.db.execute("UPDATE webhook.lane SET lease_until = '-infinity'")


async def test_late_2xx_of_a_retry_closes_what_another_has_claimed(
    storage: StorageHarness, here: Daemon
) -> None:
    (seq,) = await storage.insert_due("m", -1)
    (old,) = await here.claims.claim_longest_due(10, 2, 10, LAPSED)
    (new,) = await here.claims.claim_longest_due(10, 2, 10, LEASE)
    at = await storage.now()
    assert await here.records.write_late(answered(old.event, old.claim, at, 200, is_retry=True))
    failure = answered(new.event, new.claim, at, None, is_retry=True)
    assert (await here.records.write([failure], [], LEASE)).seqs == frozenset()
    assert await here.records.write_late(failure)
    assert _found(await storage.logged(seq), *STANDING) == ("delivered", None, 2, 200, "delivered")


async def test_late_failure_of_a_lost_lease_is_dropped(storage: StorageHarness, here: Daemon) -> None:
    record = await _late(storage, here, 503)
    before, lane = await storage.owed(record.event.seq), await storage.lane("m")
    assert await here.records.write_late(record)
    assert await storage.owed(record.event.seq) == before
    assert await storage.lane("m") == lane
    assert [attempt["status"] for attempt in await storage.attempts(record.event)] == [503]


@pytest.mark.parametrize("status", [None, 204], ids=["failure", "2xx"])
async def test_late_outcome_does_not_touch_a_delivered_one(
    storage: StorageHarness, here: Daemon, status: int | None
) -> None:
    record = await _late(storage, here, status)
    success = answered(record.event, (await storage.lane("m"))["epoch"], record.at, 200)
    await here.records.write([success], [], LEASE)
    before = await storage.logged(record.event.seq)
    assert await here.records.write_late(record)
    assert await storage.logged(record.event.seq) == before


async def test_late_2xx_beats_cancelled(storage: StorageHarness, here: Daemon) -> None:
    record = await _cancelled(storage, here, 200)
    assert await here.records.write_late(record)
    log = await storage.logged(record.event.seq)
    assert _found(log, *STANDING) == ("delivered", None, 1, 200, "delivered")
    assert len(await storage.attempts(record.event)) == 1


async def test_failure_of_a_cancelled_one_in_flight_counts(storage: StorageHarness, here: Daemon) -> None:
    record = await _cancelled(storage, here, 503)
    for _ in range(2):
        assert await here.records.write_late(record)
        log = await storage.logged(record.event.seq)
        assert _found(log, *STANDING) == ("failed", "cancelled", 1, 503, "status")
        assert [attempt["status"] for attempt in await storage.attempts(record.event)] == [503]


async def test_late_failure_says_nothing_new_of_an_attempt_that_was_counted(
    storage: StorageHarness, here: Daemon
) -> None:
    record = await _late(storage, here, 503)
    counted = answered(record.event, (await storage.lane("m"))["epoch"], record.at, None)
    await here.records.write([counted], [], LEASE)
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await cancel(transaction, record.event.id)
    assert await here.records.write_late(record)
    log = await storage.logged(record.event.seq)
    assert _found(log, *STANDING) == ("failed", "cancelled", 1, None, "timeout")


@pytest.mark.parametrize("hold", [HOLD_ROW, HOLD_LANE], ids=["row", "lane"])
async def test_late_2xx_of_what_somebody_holds_is_written_again(
    storage: StorageHarness, here: Daemon, hold: str
) -> None:
    record = await _late(storage, here, 200)
    operator = await storage.session()
    async with operator.transaction():
        await operator.execute(hold, record.event.seq)
        assert not await here.records.write_late(record)
        assert await storage.owed(record.event.seq) is not None
    assert await here.records.write_late(record)
    assert await storage.owed(record.event.seq) is None
    assert len(await storage.attempts(record.event)) == 1


async def test_late_2xx_written_again_changes_nothing(storage: StorageHarness, here: Daemon) -> None:
    record = await _late(storage, here, 200)
    assert await here.records.write_late(record)
    before = await storage.everything()
    assert await here.records.write_late(record)
    assert await storage.everything() == before


async def test_late_2xx_frees_the_place_that_another_attempt_takes_up(
    storage: StorageHarness, here: Daemon
) -> None:
    await storage.insert_due("m", -9)
    (old,) = await here.claims.claim_longest_due(10, 1, 10, LAPSED)
    assert await here.claims.claim_longest_due(10, 1, 10, LEASE)
    (waiting,) = await storage.insert_due("m", -8)
    assert await here.claims.claim_longest_due(10, 1, 10, LEASE) == []
    assert await here.records.write_late(
        answered(old.event, old.claim, await storage.now(), 200, is_retry=True)
    )
    assert [claimed.event.seq for claimed in await here.claims.claim_longest_due(10, 1, 10, LEASE)] == [
        waiting
    ]


async def test_late_2xx_closes_a_delivery_whose_lane_is_gone(storage: StorageHarness, here: Daemon) -> None:
    record = await _late(storage, here, 200)
    await storage.db.execute("DELETE FROM webhook.lane")
    assert await here.records.write_late(record)
    assert _found(await storage.logged(record.event.seq), *STANDING)[0] == "delivered"
