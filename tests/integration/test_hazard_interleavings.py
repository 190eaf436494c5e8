"""Pitfalls of claims and order, each with the interleaving that springs it: eighteen that are known.

Where it means something the wrong form is shown to break first, then the shipped one is put through the same.
Those that have their test elsewhere (files of this folder; `unit/` and `acceptance/` are beside it):

 1 rows claimed with SKIP LOCKED    test_claim_interleavings: second_claimer_gets_nothing_*
 2 head of what is pending          test_claiming: lapsed_lane_goes_to_the_next_under_another_epoch
 3 a reader's lock                  test_claim_interleavings: row_held_by_an_operator_is_not_overtaken; here
 4 a stale snapshot                 test_claim_interleavings: claim_on_a_stale_snapshot_does_not_overtake
 5 number before commit             test_finding_lanes; unit/test_tail; here
 6 a batch claimed at once          unit/test_follower: nothing_starts_after_the_end; here
 7 a lock held by a connection      acceptance/test_nothing_held
 8 a frozen holder is invisible     acceptance/test_nothing_held; test_finding_lanes: sweep_tells_*
 9 an outcome without fence         test_record_interleavings: zombies_failure_*; test_recording_late
10 a fence does not stop the POST   acceptance/test_frozen
11 an old row set back              here
12 ordering by what changes         test_claiming_retries: earliest_due_goes_first; here
13 IN (SELECT ... SKIP LOCKED)      test_claiming_retries: claim_takes_no_more_than_asked, cap_of_a_*
14 a backlog that is scanned        test_claim_cost
15 retries against first attempts   test_claim_interleavings: hanging_retry_does_not_hold_new_events_up
16 a lease shorter than an attempt  unit/test_settings; test_claim_model (what starts ends within its lease)
17 cancelled near the commit        unit/test_recorder: a_cancelled_statement_is_written_again;
                                    test_recording: batch_whose_commit_was_lost_*
18 notifications                    here
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from math import inf
from pathlib import Path

import pytest

from tests.integration.claim_model.daemon import LEASE as MODEL_LEASE
from tests.integration.claim_model.model import ClaimModel
from tests.integration.storage_harness import GATED, LEASE, StorageHarness, answered, seqs
from tests.servers.database import Database
from webhook_dispatcher.dispatch.finding import Tail
from webhook_dispatcher.domain.record import LaneTurn
from webhook_dispatcher.storage import statements

MARK_HEAD_OF_PENDING = """
UPDATE webhook.outbox SET claim = 1 WHERE seq = (
    SELECT seq FROM webhook.outbox WHERE merchant_id = $1 AND claim IS NULL ORDER BY seq LIMIT 1
) RETURNING seq
"""
LEASE_FOR_UPDATE = "SELECT merchant_id FROM webhook.lane WHERE merchant_id = $1 FOR UPDATE SKIP LOCKED"
SHARE_KEY = "SELECT FROM webhook.lane WHERE merchant_id = $1 FOR KEY SHARE"
CLAIM_EARLIEST = """
UPDATE webhook.outbox SET claim = 1 WHERE seq IN (
    SELECT seq FROM webhook.outbox WHERE merchant_id = $1 AND due_at <= clock_timestamp()
    ORDER BY due_at LIMIT 1
) RETURNING seq
"""
READ_BEHIND = "SELECT seq FROM webhook.outbox WHERE seq > $1 ORDER BY seq"
INSERT = (
    "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, 'charge.created', '{}') RETURNING seq"
)
SOURCES = Path(statements.__file__).parent / "sql"


@pytest.fixture
async def model(database: Database) -> AsyncIterator[ClaimModel]:
    """Three daemons that are stepped by hand; a and b are owed 1, 2, 3 and 4, 5, 6."""
    async with AsyncExitStack() as stack:
        model = ClaimModel(database, stack)
        await model.prepare()
        await model.begin()
        yield model
        for daemon in model.daemons:
            await daemon.crash()


def sent(model: ClaimModel, slot: int, merchant: str = "a") -> list[int]:
    """Return what one daemon began to send to a merchant."""
    daemon = model.daemons[slot]
    return [
        request.event.seq
        for request in model.facts.requests
        if request.daemon is daemon and request.event.merchant_id == merchant
    ]


async def start(model: ClaimModel, slot: int) -> None:
    for part in ("sweep", "look"):
        await model.step(model.daemons[slot], part)


async def test_3_a_lock_on_the_key_alone_hides_no_lane(storage: StorageHarness) -> None:
    (due,) = await storage.insert_due("m", -1)
    (new,) = await storage.insert("m")
    here, reader = await storage.daemon("here"), await storage.session()
    async with reader.transaction():
        await reader.execute(SHARE_KEY, "m")  # as a row that refers to it would
        assert await storage.db.fetchval(LEASE_FOR_UPDATE, "m") is None
        lease, events = await here.claim("m")
        assert seqs(events) == [new]
        (retry,) = await here.claims.claim_longest_due(10, 2, 10, LEASE)
        at = await storage.now()
        records = [
            answered(events[0], lease.epoch, at, 200),
            answered(retry.event, retry.claim, at, 200, is_retry=True),
        ]
        written = await here.records.write(records, [LaneTurn(lease, True, new)], LEASE)
        assert (written.seqs, written.released) == (frozenset({due, new}), ("m",))


async def test_5_what_is_committed_behind_the_cursor_is_neither_lost_nor_passed(
    storage: StorageHarness,
) -> None:
    here, slow = await storage.daemon("here"), await storage.database.connect("webhook_producer")
    tail = Tail()
    tail.observe(await here.claims.read_arrivals(0, 10), 0.0)
    transaction = slow.transaction()
    await transaction.start()
    early = await slow.fetchval(INSERT, "m")
    (later,) = await storage.insert("m")
    cursor = max(row["seq"] for row in await storage.db.fetch(READ_BEHIND, 0))
    seen = tail.observe(await here.claims.read_arrivals(tail.cursor or 0, 10), 1.0)
    assert [arrival.seq for arrival in seen] == [later]
    for now in (2.0, 3.0):  # however often it looks: its transaction is open
        tail.observe(await here.claims.read_arrivals(tail.cursor or 0, 10), now)
        assert tail.stable < early
    await transaction.commit()
    await slow.close()

    assert await storage.db.fetch(READ_BEHIND, cursor) == []  # a cursor alone never sees it
    found = await here.claims.read_gaps(tail.due_gaps(4.0), 10)
    assert [arrival.seq for arrival in found] == [early]
    assert seqs((await here.claim("m"))[1]) == [early, later]


@pytest.mark.parametrize("trusts_for_ever", [True, False])
async def test_6_a_run_in_memory_ends_with_its_lease(model: ClaimModel, trusts_for_ever: bool) -> None:
    await start(model, 0)
    model.arrive()
    await model.freeze(model.daemons[0])
    await model.answer(0, 0)
    if trusts_for_ever:
        for session in model.daemons[0].dispatcher._sessions.values():
            session.trusted_until = session.expires_at = inf
    await model.pass_time(MODEL_LEASE.total_seconds() + 1)
    if trusts_for_ever:
        with pytest.raises(AssertionError, match="two trusted holders"):
            await start(model, 1)
        with pytest.raises(AssertionError, match="2 before the end of 1"):
            await model.thaw(0)
        assert sent(model, 0) == [1, 2]  # and so on, beside its successor
        return
    await start(model, 1)
    await model.thaw(0)
    assert sent(model, 0) == [1]
    for _ in range(4):
        await model.serve(model.daemons[1])
        await model.step(model.daemons[0], "record")
    assert sent(model, 0) == [1]
    await model.finish()


async def test_11_an_old_one_sent_again_stands_beside_the_order(
    storage: StorageHarness, model: ClaimModel
) -> None:
    first, _ = await storage.insert("m", "{}", "{}")
    await storage.db.execute(
        "UPDATE webhook.outbox SET claim = 1 WHERE merchant_id = 'm' AND seq <> $1", first
    )
    assert (
        await storage.db.fetchval(MARK_HEAD_OF_PENDING, "m") == first
    )  # set back to pending, beside the second
    await storage.db.execute("DELETE FROM webhook.outbox WHERE merchant_id = 'm'")

    daemon = model.daemons[0]
    await model.serve(daemon)
    model.arrive()
    assert sent(model, 0) == [1, 2]  # the second is in flight
    await model.command(daemon, "retry", 0, '{"force": true}')
    await model.step(daemon, "retry")
    again = model.facts.requests[-1]
    assert (again.event.seq, again.is_retry) == (1, True)
    await model.answer_all(daemon)  # the third waits for the second, and for nothing else
    assert sent(model, 0) == [1, 2, 1, 3]
    await model.finish()


async def test_12_a_row_that_was_put_off_meanwhile_is_not_claimed(storage: StorageHarness) -> None:
    await storage.hang_door("outbox")
    (due,) = await storage.insert_due("m", -1)
    put_off = "UPDATE webhook.outbox SET due_at = clock_timestamp() + interval '1 h' WHERE seq = $1"
    slow = await storage.session(application_name=GATED)
    async with storage.held_at_the_door(slow.fetchval(CLAIM_EARLIEST, "m")) as late:
        await storage.db.execute(put_off, due)
    assert await late == due  # an hour early

    await slow.close()
    await storage.db.execute("UPDATE webhook.outbox SET claim = NULL, due_at = clock_timestamp()")
    there = await storage.daemon("there", application_name=GATED)
    async with storage.held_at_the_door(there.claims.claim_longest_due(10, 2, 10, LEASE)) as claim:
        await storage.db.execute(put_off, due)
    assert await claim == []
    lane, owed = await storage.lane("m"), await storage.owed(due)
    assert owed is not None
    assert lane["retry_at"] == owed["due_at"]


async def test_18_nobody_notifies(storage: StorageHarness) -> None:
    assert "notify" not in "".join(path.read_text() for path in SOURCES.glob("*.sql")).lower()
    functions = await storage.db.fetchval(
        "SELECT string_agg(prosrc, ' ') FROM pg_proc WHERE pronamespace = 'webhook'::regnamespace"
    )
    assert "notify" not in functions.lower()
    assert await storage.db.fetch("SELECT FROM pg_trigger WHERE tgrelid = 'webhook.outbox'::regclass") == []
