"""Pitfalls of claims and order, each with the interleaving that springs it: eighteen that are known.

Where it means something the wrong form is shown to break first, then the shipped one is put through the same.
Those that have their test elsewhere (files of this folder; `unit/` is the one beside it):

 1 rows claimed with SKIP LOCKED    test_claim_interleavings: second_claimer_gets_nothing_*
 2 head of what is pending          here
 3 a reader's lock                  test_claim_interleavings: row_held_by_an_operator_is_not_overtaken; here
 4 a stale snapshot                 test_claim_interleavings: claim_on_a_stale_snapshot_does_not_overtake
 5 number before commit             test_finding_lanes; unit/test_tail; here
 6 a batch claimed at once          unit/test_follower: nothing_starts_after_the_end; here
 7 a lock held by a connection      here
 8 a frozen holder is invisible     here
 9 an outcome without fence         test_record_interleavings: zombies_failure_*; test_recording_late
10 a fence does not stop the POST   here
11 an old row set back              here
12 ordering by what changes         test_claiming_retries: earliest_due_goes_first; here
13 IN (SELECT ... SKIP LOCKED)      test_claiming_retries: claim_takes_no_more_than_asked, cap_holds_*
14 a backlog that is scanned        test_claim_cost
15 retries against first attempts   test_claim_interleavings: hanging_retry_does_not_hold_new_events_up
16 a lease shorter than an attempt  unit/test_settings; test_claim_model (what starts ends within its lease)
17 cancelled near the commit        unit/test_recorder: a_cancelled_statement_is_written_again; here
18 notifications                    here
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from math import inf
from pathlib import Path

import pytest

from tests.conftest import Database
from tests.integration.claim_model import World
from tests.integration.model_daemon import LEASE as MODEL_LEASE
from tests.integration.workbench import GATED, LAPSED, LEASE, Workbench, answered, seqs
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.finding import Tail
from webhook_dispatcher.domain.record import LaneTurn
from webhook_dispatcher.storage import statements

MARK_HEAD_OF_PENDING = """
UPDATE webhook.outbox SET claim = 1 WHERE seq = (
    SELECT seq FROM webhook.outbox WHERE merchant_id = $1 AND claim IS NULL ORDER BY seq LIMIT 1
) RETURNING seq
"""
HOLD_HEAD = """
SELECT seq FROM webhook.outbox WHERE merchant_id = $1 ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED
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
async def world(database: Database) -> AsyncIterator[World]:
    """Three daemons that are stepped by hand; a and b are owed 1, 2, 3 and 4, 5, 6."""
    async with AsyncExitStack() as stack:
        world = World(database, stack)
        await world.prepare()
        await world.begin()
        yield world
        for daemon in world.daemons:
            await daemon.crash()


def sent(world: World, slot: int, merchant: str = "a") -> list[int]:
    """Return what one daemon began to send to a merchant."""
    daemon = world.daemons[slot]
    return [
        request.event.seq
        for request in world.facts.requests
        if request.daemon is daemon and request.event.merchant_id == merchant
    ]


async def start(world: World, slot: int) -> None:
    for part in ("sweep", "look"):
        await world.step(world.daemons[slot], part)


async def test_2_what_is_in_flight_is_still_the_head(bench: Workbench) -> None:
    first, second = await bench.insert("m", "{}", "{}")
    assert await bench.db.fetchval(MARK_HEAD_OF_PENDING, "m") == first
    assert await bench.db.fetchval(MARK_HEAD_OF_PENDING, "m") == second  # beside it
    await bench.db.execute("UPDATE webhook.outbox SET claim = NULL")

    here, there = await bench.daemon("here"), await bench.daemon("there")
    await here.claim("m")
    assert await there.lease("m") == []
    await bench.db.execute("UPDATE webhook.lane SET lease_until = clock_timestamp()")
    assert seqs((await there.claim("m"))[1]) == [first, second]


async def test_3_a_lock_on_the_key_alone_hides_no_lane(bench: Workbench) -> None:
    (due,) = await bench.insert_due("m", -1)
    (new,) = await bench.insert("m")
    here, reader = await bench.daemon("here"), await bench.session()
    async with reader.transaction():
        await reader.execute(SHARE_KEY, "m")  # as a row that refers to it would
        assert await bench.db.fetchval(LEASE_FOR_UPDATE, "m") is None
        lease, events = await here.claim("m")
        assert seqs(events) == [new]
        (retry,) = await here.claims.claim_longest_due(10, 2, 10, LEASE)
        at = await bench.now()
        records = [
            answered(events[0], lease.epoch, at, 200),
            answered(retry.event, retry.claim, at, 200, is_retry=True),
        ]
        written = await here.records.write(records, [LaneTurn("m", lease.epoch, True, new)], LEASE)
        assert (written.seqs, written.released) == (frozenset({due, new}), ("m",))


async def test_5_what_is_committed_behind_the_cursor_is_neither_lost_nor_passed(bench: Workbench) -> None:
    here, slow = await bench.daemon("here"), await bench.database.connect("webhook_producer")
    tail = Tail()
    tail.observe(await here.claims.read_arrivals(0, 10), 0.0)
    transaction = slow.transaction()
    await transaction.start()
    early = await slow.fetchval(INSERT, "m")
    (later,) = await bench.insert("m")
    cursor = max(row["seq"] for row in await bench.db.fetch(READ_BEHIND, 0))
    seen = tail.observe(await here.claims.read_arrivals(tail.cursor or 0, 10), 1.0)
    assert [arrival.seq for arrival in seen] == [later]
    for now in (2.0, 3.0):  # however often it looks: its transaction is open
        tail.observe(await here.claims.read_arrivals(tail.cursor or 0, 10), now)
        assert tail.stable < early
    await transaction.commit()
    await slow.close()

    assert await bench.db.fetch(READ_BEHIND, cursor) == []  # a cursor alone never sees it
    found = await here.claims.read_gaps(tail.due_gaps(4.0), 10)
    assert [arrival.seq for arrival in found] == [early]
    assert seqs((await here.claim("m"))[1]) == [early, later]


@pytest.mark.parametrize("trusts_for_ever", [True, False])
async def test_6_a_run_in_memory_ends_with_its_lease(world: World, trusts_for_ever: bool) -> None:
    await start(world, 0)
    world.arrive()
    await world.freeze(world.daemons[0])
    await world.answer(0, 0)
    if trusts_for_ever:
        for visit in world.daemons[0].dispatcher._sessions.values():
            visit.trusted_until = visit.expires_at = inf
    await world.pass_time(MODEL_LEASE.total_seconds() + 1)
    if trusts_for_ever:
        with pytest.raises(AssertionError, match="two trusted holders"):
            await start(world, 1)
        with pytest.raises(AssertionError, match="2 before the end of 1"):
            await world.thaw(0)
        assert sent(world, 0) == [1, 2]  # and so on, beside its successor
        return
    await start(world, 1)
    await world.thaw(0)
    assert sent(world, 0) == [1]
    for _ in range(4):
        await world.serve(world.daemons[1])
        await world.step(world.daemons[0], "record")
    assert sent(world, 0) == [1]
    await world.finish()


async def test_7_a_lost_connection_gives_nothing_away(bench: Workbench) -> None:
    first, _ = await bench.insert("m", "{}", "{}")
    holder, other = await bench.session(application_name="holder"), await bench.session()
    await holder.execute("BEGIN")
    assert await holder.fetchval(HOLD_HEAD, "m") == first  # and now it is sent, which takes its time
    await _terminate(bench, "holder")
    assert await other.fetchval(HOLD_HEAD, "m") == first  # sent by another while that is under way

    here, there = await bench.daemon("here", application_name="holder"), await bench.daemon("there")
    lease, (event, _) = await here.claim("m")
    await _terminate(bench, "holder")
    assert await there.lease("m") == []
    record = answered(event, lease.epoch, await bench.now(), 200)
    assert (await here.records.write([record], [], LEASE)).seqs == {first}


async def _terminate(bench: Workbench, name: str) -> None:
    """End a daemon's sessions, and see them gone."""
    which = "FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()"
    await bench.db.execute(f"SELECT pg_terminate_backend(pid) {which}", name)
    async with asyncio.timeout(MAX_WAIT):
        while await bench.db.fetchval(f"SELECT EXISTS (SELECT {which})", name):
            await bench.db.execute("SELECT pg_sleep(0.002)")


async def test_8_a_frozen_holder_holds_no_lock_and_its_lane_lapses(bench: Workbench) -> None:
    first, second = await bench.insert("m", "{}", "{}")
    frozen, other = await bench.session(), await bench.session()
    await frozen.execute("BEGIN")
    assert await frozen.fetchval(HOLD_HEAD, "m") == first
    assert await other.fetchval(HOLD_HEAD, "m") == second  # row 1 is not there, and nobody is told
    await frozen.execute("ROLLBACK")

    here, there = await bench.daemon("here", application_name="frozen"), await bench.daemon("there")
    await here.claim("m", lease=LAPSED)
    assert not await bench.db.fetch(
        "SELECT FROM pg_stat_activity WHERE application_name = 'frozen' AND xact_start IS NOT NULL"
    )
    (probe,) = await there.claims.sweep("", 10)
    assert (probe.head_seq, probe.is_free) == (first, True)
    assert seqs((await there.claim("m"))[1]) == [first, second]


async def test_10_a_daemon_frozen_before_its_post_sends_once_more_and_only_a_repetition(
    world: World,
) -> None:
    await start(world, 0)
    await world.freeze(world.daemons[0])  # the lease was looked at, the request has not left
    await world.pass_time(MODEL_LEASE.total_seconds() + 1)
    for _ in range(2):
        await world.serve(world.daemons[1])
    arrived = [r for r in world.facts.requests if r.has_arrived and r.event.merchant_id == "a"]
    assert [request.event.seq for request in arrived] == [1, 2]
    await world.thaw(0)
    late = [r for r in world.facts.requests if r.daemon is world.daemons[0] and r.has_arrived]
    assert sorted(request.event.seq for request in late) == [1, 4]  # one for each of its lanes
    assert all(request.is_excused for request in late)
    await world.finish()


async def test_11_an_old_one_sent_again_stands_beside_the_order(bench: Workbench, world: World) -> None:
    first, _ = await bench.insert("m", "{}", "{}")
    await bench.db.execute("UPDATE webhook.outbox SET claim = 1 WHERE merchant_id = 'm' AND seq <> $1", first)
    assert (
        await bench.db.fetchval(MARK_HEAD_OF_PENDING, "m") == first
    )  # set back to pending, beside the second
    await bench.db.execute("DELETE FROM webhook.outbox WHERE merchant_id = 'm'")

    daemon = world.daemons[0]
    await world.serve(daemon)
    world.arrive()
    assert sent(world, 0) == [1, 2]  # the second is in flight
    await world.command(daemon, "retry", 0, '{"force": true}')
    await world.step(daemon, "retry")
    again = world.facts.requests[-1]
    assert (again.event.seq, again.is_retry) == (1, True)
    await world.answer_all(daemon)  # the third waits for the second, and for nothing else
    assert sent(world, 0) == [1, 2, 1, 3]
    await world.finish()


async def test_12_a_row_that_was_put_off_meanwhile_is_not_claimed(bench: Workbench) -> None:
    await bench.hang_door("outbox")
    (due,) = await bench.insert_due("m", -1)
    put_off = "UPDATE webhook.outbox SET due_at = clock_timestamp() + interval '1 h' WHERE seq = $1"
    slow = await bench.session(application_name=GATED)
    async with bench.held_at_the_door(slow.fetchval(CLAIM_EARLIEST, "m")) as late:
        await bench.db.execute(put_off, due)
    assert await late == due  # an hour early

    await slow.close()
    await bench.db.execute("UPDATE webhook.outbox SET claim = NULL, due_at = clock_timestamp()")
    there = await bench.daemon("there", application_name=GATED)
    async with bench.held_at_the_door(there.claims.claim_longest_due(10, 2, 10, LEASE)) as claim:
        await bench.db.execute(put_off, due)
    assert await claim == []
    lane, owed = await bench.lane("m"), await bench.owed(due)
    assert owed is not None
    assert lane["retry_at"] == owed["due_at"]


async def test_17_a_record_cancelled_near_its_commit_is_written_again_and_once(bench: Workbench) -> None:
    here = await bench.daemon("here")
    outcomes = set()
    for number in range(60):
        (seq,) = await bench.insert("m")
        lease, (event,) = await here.claim("m")
        record, turn = answered(event, lease.epoch, await bench.now(), 200), LaneTurn("m", lease.epoch, True)
        writing = asyncio.create_task(here.records.write([record], [turn], LEASE))
        await asyncio.wait([writing], timeout=number * 0.0001)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        outcomes.add((writing.cancelled(), await bench.owed(seq) is None))
        await here.records.write([record], [turn], LEASE)
        assert await bench.owed(seq) is None
        assert len(await bench.attempts(event)) == 1
        assert await bench.db.fetchval("SELECT count(*) FROM webhook.delivery_log WHERE seq = $1", seq) == 1
    assert (True, False) in outcomes  # cancelled, and not written


async def test_18_nobody_notifies(bench: Workbench) -> None:
    assert "notify" not in "".join(path.read_text() for path in SOURCES.glob("*.sql")).lower()
    functions = await bench.db.fetchval(
        "SELECT string_agg(prosrc, ' ') FROM pg_proc WHERE pronamespace = 'webhook'::regnamespace"
    )
    assert "notify" not in functions.lower()
    assert await bench.db.fetch("SELECT FROM pg_trigger WHERE tgrelid = 'webhook.outbox'::regclass") == []
