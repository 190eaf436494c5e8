"""Records that were tried and are wrong, and ours under the same schedule.

As in test_claim_interleavings: the wrong form is shown to break, then the shipped statements are not.
"""

import asyncio

import asyncpg
import pytest

from tests.integration.storage_harness import (
    GATED,
    LAPSED,
    LEASE,
    Daemon,
    StorageHarness,
    answered,
    cancel,
    find_delivery,
)
from webhook_dispatcher.domain.ports import Reopened
from webhook_dispatcher.domain.record import LaneTurn, Record
from webhook_dispatcher.storage.controls import PostgresControls

MARK_BY_EPOCH = """
UPDATE webhook.outbox SET last_outcome = $3
FROM webhook.lane
WHERE outbox.seq = $1 AND lane.merchant_id = outbox.merchant_id AND lane.epoch = $2
"""
FINISH_WAITING_FOR_ROWS = """
WITH owed AS MATERIALIZED (
    SELECT seq FROM webhook.outbox WHERE seq = ANY($1) ORDER BY seq FOR UPDATE
)
DELETE FROM webhook.outbox USING owed WHERE outbox.seq = owed.seq
"""
RELEASE_WITH_WHAT_COMES = """
UPDATE webhook.lane SET lease_until = '-infinity', from_seq = $3 WHERE merchant_id = $1 AND epoch = $2
"""
HOLD_ROW = "SELECT FROM webhook.outbox WHERE seq = $1 FOR UPDATE"
HOLD_LANE = "SELECT FROM webhook.lane WHERE merchant_id = $1 FOR UPDATE"


async def test_zombies_failure_is_not_written_over_the_holders_success(storage: StorageHarness) -> None:
    await storage.hang_door("lane")
    (wrong,) = await storage.insert("wrong")
    slow, quick = await storage.session(application_name=GATED), await storage.session()
    here = await storage.daemon("here")
    (zombie,) = await here.lease("wrong", lease=LAPSED)
    mark = slow.execute(MARK_BY_EPOCH, wrong, zombie.epoch, "timeout")
    async with storage.held_at_the_door(mark) as late:
        (holder,) = await here.lease("wrong")
        await quick.execute(MARK_BY_EPOCH, wrong, holder.epoch, "delivered")
    await late
    owed = await storage.owed(wrong)
    assert owed is not None
    assert owed["last_outcome"] == "timeout"  # the success is lost

    await slow.close()
    frozen = await storage.daemon("frozen", application_name=GATED)
    (right,) = await storage.insert("right")
    (old,) = await here.lease("right", lease=LAPSED)
    (event,) = await here.read("right")
    at = await storage.now()
    failure = answered(event, old.epoch, at, None)
    write = frozen.records.write([failure], [LaneTurn(old, True)], LEASE)
    async with storage.held_at_the_door(write) as late:
        (new,) = await here.lease("right")
        success = answered(event, new.epoch, at, 200)
        assert (await here.records.write([success], [], LEASE)).seqs == {right}
    written = await late
    assert (written.seqs, written.lost, written.released) == (frozenset(), ("right",), ())
    logged = await storage.logged(right)
    assert logged is not None
    assert (logged["state"], logged["last_outcome"]) == ("delivered", "delivered")
    assert (await storage.lane("right"))["is_leased"]


async def test_zombies_failure_does_not_take_the_row_from_under_its_holder(storage: StorageHarness) -> None:
    """The same with the success still in flight: the row stays in order, and the holder's."""
    await storage.hang_door("lane")
    (seq,) = await storage.insert("m")
    here, frozen = await storage.daemon("here"), await storage.daemon("frozen", application_name=GATED)
    (old,) = await here.lease("m", lease=LAPSED)
    (event,) = await here.read("m")
    at = await storage.now()
    write = frozen.records.write([answered(event, old.epoch, at, None)], [], LEASE)
    async with storage.held_at_the_door(write) as late:
        (new,) = await here.lease("m")
    assert (await late).seqs == frozenset()
    owed = await storage.owed(seq)
    assert owed is not None
    assert (owed["due_at"], owed["attempts"]) == (None, 0)
    assert (await here.records.write([answered(event, new.epoch, at, 200)], [], LEASE)).seqs == {seq}


async def _two_hundred_in_flight(
    storage: StorageHarness, here: Daemon
) -> tuple[list[Record], list[LaneTurn]]:
    merchants = [f"m{number:02}" for number in range(20)]
    await storage.db.execute(
        "INSERT INTO webhook.outbox (merchant_id, type, object) "
        "SELECT merchant_id, 'charge.created', '{}' FROM unnest($1::text[]) AS merchant_id, "
        "generate_series(1, 10)",
        merchants,
    )
    leases = await here.lease(*merchants)
    at = await storage.now()
    records = [
        answered(event, lease.epoch, at, 200) for lease in leases for event in await here.read(lease.lane)
    ]
    return records, [LaneTurn(lease, True) for lease in leases]


async def _count_owed(connection: asyncpg.Connection) -> int:
    count: int = await connection.fetchval("SELECT count(*) FROM webhook.outbox")
    return count


async def test_row_that_somebody_holds_keeps_back_neither_batch_nor_order(storage: StorageHarness) -> None:
    here = await storage.daemon("here")
    records, turns = await _two_hundred_in_flight(storage, here)
    held = records[93].event
    every = {record.event.seq for record in records}
    operator, stalled = await storage.session(), await storage.session(application_name="stalled")
    async with operator.transaction():
        await operator.execute(HOLD_ROW, held.seq)
        finish = asyncio.ensure_future(stalled.execute(FINISH_WAITING_FOR_ROWS, sorted(every)))
        pid = await storage.until_waiting("stalled", finish)
        assert await _count_owed(storage.db) == 200  # nothing is recorded beside the one row
        await storage.db.execute("SELECT pg_cancel_backend($1)", pid)
        await asyncio.gather(finish, return_exceptions=True)

        written = await here.records.write(records, turns, LEASE)
        assert written.seqs == every - {held.seq}
        assert await _count_owed(storage.db) == 1
        assert written.kept == (held.merchant_id,)  # its outcome is still to be written
        assert len(written.released) == 19
        assert await here.records.read_unwritten([records[93]]) == {held.seq}
    again = await here.records.write([records[93]], [turns[9]], LEASE)
    assert (again.seqs, again.released) == (frozenset({held.seq}), (held.merchant_id,))
    assert await _count_owed(storage.db) == 0


async def test_lane_that_somebody_holds_keeps_back_only_its_own_outcomes(storage: StorageHarness) -> None:
    here = await storage.daemon("here")
    records, turns = await _two_hundred_in_flight(storage, here)
    operator = await storage.session()
    async with operator.transaction():
        await operator.execute(HOLD_LANE, "m07")
        written = await here.records.write(records, turns, LEASE)
        assert len(written.seqs) == 190
        assert {*written.kept, *written.released, *written.lost}.isdisjoint({"m07"})
        unwritten = await here.records.read_unwritten(records[70:80])
        assert unwritten == {record.event.seq for record in records[70:80]}
    again = await here.records.write(records[70:80], turns[7:8], LEASE)
    assert (len(again.seqs), again.released) == (10, ("m07",))


async def test_lane_is_not_released_before_its_last_outcome(storage: StorageHarness) -> None:
    """A lane released beside an outcome that was locked out is sent from the start by the next holder."""
    here, there = await storage.daemon("here"), await storage.daemon("there")
    operator = await storage.session()
    for merchant, is_ours in (("wrong", False), ("right", True)):
        (seq,) = await storage.insert(merchant)
        lease, (event,) = await here.claim(merchant)
        record = answered(event, lease.epoch, await storage.now(), 200)
        async with operator.transaction():
            await operator.execute(HOLD_ROW, seq)
            if is_ours:
                await here.records.write([record], [LaneTurn(lease, True)], LEASE)
                assert await there.lease(merchant) == []
                assert (await storage.lane(merchant))["from_seq"] < seq
            else:
                await here.records.write([record], [], LEASE)
                await storage.db.execute(RELEASE_WITH_WHAT_COMES, merchant, lease.epoch, seq)
                (next_holder,) = await there.lease(merchant)
                assert next_holder.from_seq == 0
                assert [event.seq for event in await there.read(merchant)] == [seq]  # an answered event


async def test_record_after_a_lapsed_lease_does_not_pass_what_was_put_back_in_order(
    storage: StorageHarness,
) -> None:
    first, second = await storage.insert("m", "{}", "{}")
    here = await storage.daemon("here")
    controls = PostgresControls(here.pool)
    cancelled = (await here.read("m"))[0].id
    async with controls.transaction() as transaction:
        await cancel(transaction, cancelled)
    # The holder is frozen, or the database was away: the lease has lapsed, and nobody else has claimed it.
    lease, [event] = await here.claim("m", lease=LAPSED)
    async with controls.transaction() as transaction:
        delivery = await find_delivery(transaction, cancelled)
        assert delivery is not None
        assert await transaction.reopen(delivery) is Reopened.IN_ORDER
        await transaction.wake_lanes({"m": first})
    turn = LaneTurn(lease, True, second)
    await here.records.write([answered(event, lease.epoch, await storage.now(), 200)], [turn], LEASE)
    assert (await storage.lane("m"))["from_seq"] < first


@pytest.mark.parametrize("change", ["endpoint", "pause"])
async def test_holder_whose_lease_has_lapsed_is_recalled_too(storage: StorageHarness, change: str) -> None:
    await storage.insert("m")
    here = await storage.daemon("here")
    await here.claim("m", lease=LAPSED)
    if change == "endpoint":
        await storage.db.execute(
            "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) "
            "VALUES ('m', 'https://m.example', $1, 'k')",
            b"sealed",
        )
    else:
        async with PostgresControls(here.pool).transaction() as transaction:
            await transaction.pause("m", True)
    assert (await storage.lane("m"))["recalled"]
