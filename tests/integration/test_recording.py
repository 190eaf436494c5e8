"""Records written in batches: what becomes of rows, attempts and lanes, and under which fence."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from tests.integration.storage_harness import (
    LAPSED,
    LEASE,
    Daemon,
    StorageHarness,
    answered,
    exhausted,
    seqs,
    unsent,
)
from webhook_dispatcher.domain.claim import Lease
from webhook_dispatcher.domain.errors import PartitionMissing
from webhook_dispatcher.domain.event import FailedReason
from webhook_dispatcher.domain.record import LaneTurn, Record

MINUTE = timedelta(minutes=1)
HOLD_ROW = "SELECT FROM webhook.outbox WHERE seq = $1 FOR UPDATE"
HOLD_LANE = "SELECT FROM webhook.lane WHERE merchant_id = $1 FOR UPDATE"
CONFIGURE = """
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ($1, $2, '\\x00', 'k')
ON CONFLICT (merchant_id) DO UPDATE SET url = excluded.url
"""


def _found(row: asyncpg.Record | None, *columns: str) -> tuple[object, ...]:
    assert row is not None
    return tuple(row[column] for column in columns)


async def test_delivered_row_moves_to_the_log_with_its_attempt(storage: StorageHarness, here: Daemon) -> None:
    (seq,) = await storage.insert("m", '{"b": 1,  "a": 1.50}')
    lease, (event,) = await here.claim("m")
    at = await storage.now()
    record = answered(event, lease.epoch, at, 204)
    written = await here.records.write([record], [LaneTurn(lease, False, seq)], LEASE)
    assert (written.seqs, written.kept) == (frozenset({seq}), ("m",))
    assert await storage.owed(seq) is None
    log = await storage.logged(seq)
    columns = ("event_id", "state", "failed_reason", "attempts", "last_status", "last_outcome")
    assert _found(log, *columns) == (event.id, "delivered", None, 1, 204, "delivered")
    assert _found(log, "object", "created_at", "finished_at") == (
        '{"b": 1,  "a": 1.50}',
        event.created_at,
        at,
    )
    (attempt,) = await storage.attempts(event)
    columns = ("merchant_id", "attempt", "trigger", "duration_ms", "status", "outcome")
    assert _found(attempt, *columns) == ("m", 1, "schedule", 120, 204, "delivered")
    assert attempt["started_at"] == at - timedelta(milliseconds=120)
    assert (await storage.lane("m"))["from_seq"] == seq


async def test_failed_attempt_leaves_the_order_and_is_due_later(
    storage: StorageHarness, here: Daemon
) -> None:
    failed, following = await storage.insert("m", "{}", "{}")
    lease, (event, _) = await here.claim("m")
    at = await storage.now()
    record = answered(event, lease.epoch, at, 500)
    await here.records.write([record], [LaneTurn(lease, False, failed)], LEASE)
    columns = ("attempts", "due_at", "claim", "last_status", "last_outcome")
    assert _found(await storage.owed(failed), *columns) == (1, at + MINUTE, None, 500, "status")
    assert [attempt["outcome"] for attempt in await storage.attempts(event)] == ["status"]
    assert seqs(await here.read("m")) == [following]
    assert (await storage.lane("m"))["retry_at"] == at + MINUTE


async def test_last_failure_moves_the_row_to_the_log(storage: StorageHarness, here: Daemon) -> None:
    (seq,) = await storage.insert_due("m", -1)
    (claimed,) = await here.claims.claim_longest_due(10, 2, 10, LEASE)
    record = answered(claimed.event, claimed.claim, await storage.now(), None, is_retry=True)
    assert (await here.records.write([exhausted(record)], [], LEASE)).seqs == {seq}
    columns = ("state", "failed_reason", "attempts", "last_status", "last_outcome")
    assert _found(await storage.logged(seq), *columns) == ("failed", "exhausted", 2, None, "timeout")
    assert [attempt["attempt"] for attempt in await storage.attempts(claimed.event)] == [2]


async def test_row_that_was_not_sent_is_finished_or_handed_back(
    storage: StorageHarness, here: Daemon
) -> None:
    (unconfigured,) = await storage.insert("m")
    (retry,) = await storage.insert_due("m", -1)
    lease, (event,) = await here.claim("m")
    (claimed,) = await here.claims.claim_longest_due(10, 2, 10, LEASE)
    at = await storage.now()
    records = [
        unsent(event, lease.epoch, at, FailedReason.NOT_CONFIGURED),
        unsent(claimed.event, claimed.claim, at, None, is_retry=True),
    ]
    await here.records.write(records, [LaneTurn(lease, True, unconfigured)], LEASE)
    columns = ("state", "failed_reason", "attempts", "last_outcome")
    assert _found(await storage.logged(unconfigured), *columns) == ("failed", "not_configured", 0, None)
    assert _found(await storage.owed(retry), "attempts", "due_at", "claim") == (1, at, None)
    assert await storage.attempts(event) == await storage.attempts(claimed.event) == []


@pytest.mark.parametrize("outcome", ["delivered", "retried", "failed"])
async def test_batch_whose_commit_was_lost_changes_nothing_when_written_again(
    storage: StorageHarness, here: Daemon, outcome: str
) -> None:
    (seq,) = await storage.insert("m")
    lease, (event,) = await here.claim("m")
    record = answered(event, lease.epoch, await storage.now(), 200 if outcome == "delivered" else None)
    record = exhausted(record) if outcome == "failed" else record
    turn = LaneTurn(lease, False, seq)
    assert (await here.records.write([record], [turn], LEASE)).seqs == {seq}
    before = await storage.everything()

    assert (await here.records.write([record], [turn], LEASE)).seqs == frozenset()
    assert await here.records.read_unwritten([record]) == frozenset()
    assert await here.records.write_late(record)
    assert await storage.everything() == before


async def test_holder_whose_lease_was_taken_writes_nothing(storage: StorageHarness, here: Daemon) -> None:
    (seq,) = await storage.insert("m")
    old, (event,) = await here.claim("m", lease=LAPSED)
    there = await storage.daemon("there")
    (new,) = await there.lease("m")
    before = await storage.everything()
    record = answered(event, old.epoch, await storage.now(), None)
    written = await here.records.write([record], [LaneTurn(old, True, seq)], LEASE)
    assert (written.seqs, written.lost) == (frozenset(), ("m",))
    assert (written.kept, written.released) == ((), ())
    assert await storage.everything() == before
    lane = await storage.lane("m")
    assert (lane["is_leased"], lane["owner"], lane["epoch"]) == (True, "there", new.epoch)
    assert await here.records.read_unwritten([record]) == frozenset()


async def test_record_of_an_older_claim_of_a_retry_writes_nothing(
    storage: StorageHarness, here: Daemon
) -> None:
    (seq,) = await storage.insert_due("m", -1)
    (old,) = await here.claims.claim_longest_due(10, 2, 10, LAPSED)
    (new,) = await here.claims.claim_longest_due(10, 2, 10, LEASE)
    at = await storage.now()
    zombie = answered(old.event, old.claim, at, None, is_retry=True)
    assert (await here.records.write([zombie], [], LEASE)).seqs == frozenset()
    assert await here.records.read_unwritten([zombie]) == frozenset()
    assert _found(await storage.owed(seq), "claim", "attempts") == (new.claim, 1)

    record = answered(new.event, new.claim, at, 500, is_retry=True)
    assert await here.records.read_unwritten([record]) == {seq}
    assert (await here.records.write([record], [], LEASE)).seqs == {seq}
    assert _found(await storage.owed(seq), "claim", "attempts") == (None, 2)


async def _answers(storage: StorageHarness, here: Daemon, count: int) -> tuple[list[Record], Lease]:
    await storage.insert("m", *["{}"] * count)
    lease, events = await here.claim("m")
    at = await storage.now()
    return [answered(event, lease.epoch, at, 200) for event in events], lease


async def test_from_seq_never_passes_an_unwritten_row(storage: StorageHarness, here: Daemon) -> None:
    records, lease = await _answers(storage, here, 3)
    first, second, third = (record.event.seq for record in records)
    operator = await storage.session()
    async with operator.transaction():
        await operator.execute(HOLD_ROW, second)
        written = await here.records.write(records, [LaneTurn(lease, True, third)], LEASE)
        assert (written.seqs, written.kept) == (frozenset({first, third}), ("m",))
        assert (await storage.lane("m"))["from_seq"] == first
        # The caller knows what is unwritten from earlier batches, and says so by its reach.
        await here.records.write([], [LaneTurn(lease, False, first)], LEASE)
        assert (await storage.lane("m"))["from_seq"] == first
    written = await here.records.write([records[1]], [LaneTurn(lease, True, third)], LEASE)
    assert (written.seqs, written.released) == (frozenset({second}), ("m",))
    lane = await storage.lane("m")
    assert (lane["from_seq"], lane["is_leased"]) == (third, False)


async def test_from_seq_does_not_go_back_with_a_batch_that_comes_late(
    storage: StorageHarness, here: Daemon
) -> None:
    records, lease = await _answers(storage, here, 2)
    first, second = (record.event.seq for record in records)
    await here.records.write(records, [LaneTurn(lease, False, second)], LEASE)
    await here.records.write([], [LaneTurn(lease, False, first)], LEASE)
    assert (await storage.lane("m"))["from_seq"] == second


async def test_from_seq_of_a_recalled_lane_stays(storage: StorageHarness, here: Daemon) -> None:
    """A command may have put something back in order below what the holder has reached."""
    records, lease = await _answers(storage, here, 2)
    await storage.db.execute("UPDATE webhook.lane SET recalled = true, from_seq = 0")
    await here.records.write(records, [LaneTurn(lease, True, records[1].event.seq)], LEASE)
    lane = await storage.lane("m")
    assert (lane["from_seq"], lane["is_leased"], lane["recalled"]) == (0, False, False)


async def test_record_renews_the_lane(storage: StorageHarness, here: Daemon) -> None:
    (lease,) = await here.lease("m", lease=timedelta(milliseconds=1))
    written = await here.records.write([], [LaneTurn(lease, False)], timedelta(hours=1))
    assert written.kept == ("m",)
    assert (await storage.lane("m"))["lease_until"] > await storage.now() + timedelta(minutes=59)


async def test_lane_that_is_released_waits_as_long_as_told(storage: StorageHarness, here: Daemon) -> None:
    (lease,) = await here.lease("m")
    until = await storage.now() + MINUTE
    turn = LaneTurn(lease, True, 0, until)
    assert (await here.records.write([], [turn], LEASE)).released == ("m",)
    assert (await storage.lane("m"))["wait_until"] == until
    assert await here.lease("m") == []


async def test_wait_of_a_recalled_lane_is_dropped(storage: StorageHarness, here: Daemon) -> None:
    """The endpoint came while the holder, not knowing it, gave the lane back to wait for one."""
    (lease,) = await here.lease("m")
    await storage.db.execute(CONFIGURE, "m", "https://m.example")
    assert (await here.claims.read_recalls()).lanes == {"m"}
    kept = await here.records.write([], [LaneTurn(lease, False)], LEASE)
    assert (kept.kept, kept.recalled) == (("m",), ("m",))

    turn = LaneTurn(lease, True, 0, await storage.now() + MINUTE)
    assert (await here.records.write([], [turn], LEASE)).released == ("m",)
    assert (await here.claims.read_recalls()).lanes == frozenset()
    assert [lease.lane for lease in await here.lease("m")] == ["m"]


async def test_retry_at_comes_down_to_what_is_due_and_never_rises(
    storage: StorageHarness, here: Daemon
) -> None:
    records, lease = await _answers(storage, here, 3)
    at = records[0].at

    async def retry_at_with(record: Record, due_at: datetime) -> datetime:
        late = record._replace(state=None, due_at=due_at)
        await here.records.write([late], [LaneTurn(lease, False)], LEASE)
        found: datetime = (await storage.lane("m"))["retry_at"]
        return found

    assert await retry_at_with(records[0], at + 2 * MINUTE) == at + 2 * MINUTE
    assert await retry_at_with(records[1], at + 3 * MINUTE) == at + 2 * MINUTE
    assert await retry_at_with(records[2], at + MINUTE) == at + MINUTE


async def test_record_of_a_retry_leaves_the_lane_to_its_holder(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert_due("m", -1)
    (claimed,) = await here.claims.claim_longest_due(10, 2, 10, LEASE)
    await (await storage.daemon("there")).lease("m")
    before = await storage.lane("m")
    at = await storage.now() - 2 * MINUTE
    record = answered(claimed.event, claimed.claim, at, None, is_retry=True)
    await here.records.write([record], [], timedelta(hours=1))
    after = await storage.lane("m")
    assert after["retry_at"] == at + MINUTE
    changed = {name for name in before.keys() if after[name] != before[name]}  # noqa: SIM118 of a record
    assert changed == {"retry_at", "last_failure_at", "failing_since", "failures_in_a_row"}, (
        "how the merchant fares is noted"
    )


async def test_lane_deleted_by_an_operator_is_lost(storage: StorageHarness, here: Daemon) -> None:
    (gone, there) = await here.lease("gone", "there")
    turns = [LaneTurn(gone, True), LaneTurn(there, True)]
    await storage.db.execute("DELETE FROM webhook.lane WHERE merchant_id = 'gone'")
    written = await here.records.write([], turns, LEASE)
    assert (written.lost, written.released) == (("gone",), ("there",))


async def test_lane_held_by_an_operator_is_neither_kept_nor_lost(
    storage: StorageHarness, here: Daemon
) -> None:
    (lease,) = await here.lease("m")
    operator = await storage.session()
    async with operator.transaction():
        await operator.execute(HOLD_LANE, "m")
        written = await here.records.write([], [LaneTurn(lease, True)], LEASE)
        assert (written.kept, written.released, written.lost) == ((), (), ())
    assert (await here.records.write([], [LaneTurn(lease, True)], LEASE)).released == ("m",)


async def test_a_log_without_its_partition_is_no_fault_of_the_row(
    storage: StorageHarness, here: Daemon
) -> None:
    (seq,) = await storage.insert("m")
    lease, (event,) = await here.claim("m")
    record = answered(event, lease.epoch, datetime(2001, 1, 1, tzinfo=UTC), 204)
    with pytest.raises(PartitionMissing) as refused:
        await here.records.write([record], [LaneTurn(lease, False, seq)], LEASE)
    assert not refused.value.is_row_fault
    assert await storage.owed(seq) is not None


@pytest.mark.parametrize("merchant", ["m", "another"])
@pytest.mark.parametrize("is_retry", [False, True], ids=["in order", "retry"])
async def test_what_became_of_an_event_is_not_written_to_another_with_its_number(
    storage: StorageHarness, here: Daemon, merchant: str, is_retry: bool
) -> None:
    [seq] = await (storage.insert_due("m", -1) if is_retry else storage.insert("m"))
    if is_retry:
        (claimed,) = await here.claims.claim_longest_due(1, 1, 1, LEASE)
        event, fence = claimed.event, claimed.claim
    else:
        lease, (event,) = await here.claim("m")
        fence = lease.epoch
    await here.lease(merchant)
    await storage.db.execute(
        "UPDATE webhook.outbox SET id = gen_random_uuid(), merchant_id = $2 WHERE seq = $1", seq, merchant
    )
    record = answered(event, fence, await storage.now(), 200)._replace(is_retry=is_retry)
    assert (await here.records.write([record], [], LEASE)).seqs == frozenset()
    assert await here.records.read_unwritten([record]) == frozenset()
    assert await here.records.write_late(record), "it is settled: that event is not here"
    owed = await storage.db.fetch("SELECT seq FROM webhook.outbox")
    assert [row["seq"] for row in owed] == [seq]


async def test_a_lease_of_before_the_server_was_started_is_lost_and_moves_nothing(
    storage: StorageHarness, here: Daemon
) -> None:
    records, lease = await _answers(storage, here, 1)
    [seq] = [record.event.seq for record in records]
    before = lease.server_started_at - timedelta(microseconds=1)
    turn = LaneTurn(replace(lease, server_started_at=before), True, seq)
    written = await here.records.write(records, [turn], LEASE)
    assert (written.seqs, written.lost, written.released) == (frozenset({seq}), ("m",), ())
    assert (await storage.lane("m"))["from_seq"] == lease.from_seq
