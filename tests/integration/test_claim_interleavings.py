"""Claims that were tried and are wrong, and ours under the same schedule.

Each test first shows the wrong form to break order, isolation or I1 on real connections, so that the
schedule is known to be one that matters; then it runs the shipped statements through it.
"""

import asyncio

import asyncpg

from tests.integration.storage_harness import GATED, LAPSED, LEASE, StorageHarness, answered, seqs
from webhook_dispatcher.domain.record import LaneTurn
from webhook_dispatcher.storage.statements import load

CLAIMING = load("claiming")

CLAIM_A_ROW = """
SELECT seq FROM webhook.outbox WHERE merchant_id = $1 AND due_at IS NULL
ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED
"""
CLAIM_WHERE_NONE_IS_IN_FLIGHT = """
UPDATE webhook.outbox SET claim = seq
WHERE seq = (
    SELECT mine.seq FROM webhook.outbox AS mine
    WHERE mine.merchant_id = $1 AND mine.claim IS NULL AND NOT EXISTS (
        SELECT FROM webhook.outbox AS earlier
        WHERE earlier.merchant_id = mine.merchant_id AND earlier.seq < mine.seq
        AND earlier.claim IS NOT NULL
    )
    ORDER BY mine.seq LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING seq
"""
CLAIM_AND_READ = """
WITH free AS MATERIALIZED (
    SELECT merchant_id FROM webhook.lane
    WHERE merchant_id = ANY($1) AND lease_until < clock_timestamp()
    ORDER BY merchant_id FOR NO KEY UPDATE SKIP LOCKED
),
leased AS (
    UPDATE webhook.lane SET epoch = epoch + 1, lease_until = clock_timestamp() + interval '30 s'
    FROM free WHERE lane.merchant_id = free.merchant_id
    RETURNING lane.merchant_id
)
SELECT run.merchant_id, run.seq FROM leased CROSS JOIN LATERAL (
    SELECT outbox.merchant_id, outbox.seq FROM webhook.outbox
    WHERE outbox.merchant_id = leased.merchant_id AND outbox.due_at IS NULL
    ORDER BY outbox.seq LIMIT 20 /* row locks */
) AS run
ORDER BY run.seq
"""
CLAIM_AND_WAIT_FOR_ROWS = CLAIM_AND_READ.replace("/* row locks */", "FOR UPDATE")
CLAIM_AND_SKIP_ROWS = CLAIM_AND_READ.replace("/* row locks */", "FOR UPDATE SKIP LOCKED")
LEASE_FOR_A_RETRY = """
UPDATE webhook.lane SET epoch = epoch + 1, lease_until = clock_timestamp() + interval '30 s', owner = $2
WHERE merchant_id = $1 AND lease_until < clock_timestamp() RETURNING merchant_id
"""
HOLD_ROW = "SELECT FROM webhook.outbox WHERE seq = $1 FOR UPDATE"


async def _claimed(connection: asyncpg.Connection, statement: str, *arguments: object) -> list[int]:
    return [row["seq"] for row in await connection.fetch(statement, *arguments)]


async def test_second_claimer_gets_nothing_while_the_first_has_row_1(storage: StorageHarness) -> None:
    first, second = await storage.insert("m", "{}", "{}")
    one, other = await storage.session(), await storage.session()
    async with one.transaction():
        assert await _claimed(one, CLAIM_A_ROW, "m") == [first]
        assert await _claimed(other, CLAIM_A_ROW, "m") == [second]  # sent while row 1 is in flight

    here, there = await storage.daemon("here"), await storage.daemon("there")
    await here.lease("m", lease=LAPSED)
    async with one.transaction():
        [row] = await one.fetch(CLAIMING["lease_lanes"].text, ["m"], [1], LEASE, "here")
        assert row["epoch"] is not None
        assert await there.lease("m") == []
    assert await there.lease("m") == []
    assert seqs(await here.read("m")) == [first, second]


async def test_claim_on_a_stale_snapshot_does_not_overtake(storage: StorageHarness) -> None:
    first, second = await storage.insert("m", "{}", "{}")
    await storage.hang_door("outbox", "lane")
    slow, quick = await storage.session(application_name=GATED), await storage.session()
    claim = _claimed(slow, CLAIM_WHERE_NONE_IS_IN_FLIGHT, "m")
    async with storage.held_at_the_door(claim) as late:
        assert await _claimed(quick, CLAIM_WHERE_NONE_IS_IN_FLIGHT, "m") == [first]
    assert await late == [second]  # both are in flight

    await slow.close()
    here, there = await storage.daemon("here"), await storage.daemon("there", application_name=GATED)
    await here.lease("m", lease=LAPSED)
    async with storage.held_at_the_door(there.lease("m")) as stale:
        (held,) = await here.lease("m")
    assert await stale == []
    assert (await storage.lane("m"))["epoch"] == held.epoch


async def test_rows_that_the_last_holder_has_just_finished_are_not_read_again(
    storage: StorageHarness,
) -> None:
    await storage.hang_door("lane")
    here, there = await storage.daemon("here"), await storage.daemon("there", application_name=GATED)
    slow = await storage.session(application_name=GATED)

    async def deliver_first_and_release(merchant: str) -> None:
        lease, (first, _) = await here.claim(merchant)
        record = answered(first, lease.epoch, await storage.now(), 200)
        written = await here.records.write([record], [LaneTurn(lease, True)], LEASE)
        assert written.released == (merchant,)

    finished, second = await storage.insert("wrong", "{}", "{}")
    await here.lease("wrong", lease=LAPSED)
    async with storage.held_at_the_door(_claimed(slow, CLAIM_AND_READ, ["wrong"])) as late:
        await deliver_first_and_release("wrong")
        assert (await storage.logged(finished)) is not None
    assert await late == [finished, second]  # a delivered event is sent again

    await slow.close()
    _, second = await storage.insert("right", "{}", "{}")
    await here.lease("right", lease=LAPSED)
    async with storage.held_at_the_door(there.lease("right")) as claim:
        await deliver_first_and_release("right")
    (lease,) = await claim
    assert seqs(await there.read("right", after=lease.from_seq)) == [second]
    assert seqs(await there.read("right", after=0)) == [second]


async def test_row_held_by_an_operator_stalls_no_lane(storage: StorageHarness) -> None:
    (free,) = await storage.insert("m1")
    (held,) = await storage.insert("m2")
    here = await storage.daemon("here")
    await here.lease("m1", "m2", lease=LAPSED)
    operator, stalled = await storage.session(), await storage.session(application_name="stalled")
    async with operator.transaction():
        await operator.execute(HOLD_ROW, held)
        claim = asyncio.ensure_future(_claimed(stalled, CLAIM_AND_WAIT_FOR_ROWS, ["m1", "m2"]))
        pid = await storage.until_waiting("stalled", claim)
        assert await here.lease("m1") == []  # stalled with m2, and nobody else can lease it
        await storage.db.execute("SELECT pg_cancel_backend($1)", pid)
        await asyncio.gather(claim, return_exceptions=True)

        assert [lease.lane for lease in await here.lease("m1", "m2")] == ["m1", "m2"]
        assert seqs(await here.read("m1") + await here.read("m2")) == [free, held]


async def test_row_held_by_an_operator_is_not_overtaken(storage: StorageHarness) -> None:
    first, second = await storage.insert("m", "{}", "{}")
    here, operator, wrong = await storage.daemon("here"), await storage.session(), await storage.session()
    await here.lease("m", lease=LAPSED)
    async with operator.transaction():
        await operator.execute(HOLD_ROW, first)
        assert await _claimed(wrong, CLAIM_AND_SKIP_ROWS, ["m"]) == [second]  # before the first
        await storage.db.execute("UPDATE webhook.lane SET lease_until = '-infinity'")

        lease, events = await here.claim("m")
        assert seqs(events) == [first, second]
        assert lease.from_seq < first


async def test_emptied_lane_is_known_to_whoever_leased_it(storage: StorageHarness) -> None:
    here, there, wrong = await storage.daemon("here"), await storage.daemon("there"), await storage.session()
    await here.lease("m", lease=LAPSED)
    assert await _claimed(wrong, CLAIM_AND_READ, ["m"]) == []
    assert (await storage.lane("m"))["is_leased"]  # by somebody who does not know it
    (seq,) = await storage.insert("m")
    assert await there.lease("m") == []
    await storage.db.execute("DELETE FROM webhook.outbox")
    await storage.db.execute("UPDATE webhook.lane SET lease_until = '-infinity'")

    (lease,) = await here.lease("m")
    assert await here.read("m", after=lease.from_seq) == []
    written = await here.records.write([], [LaneTurn(lease, True)], LEASE)
    assert written.released == ("m",)
    (seq,) = await storage.insert("m")
    assert seqs((await there.claim("m"))[1]) == [seq]


async def test_hanging_retry_does_not_hold_new_events_up(storage: StorageHarness) -> None:
    (retry,) = await storage.insert_due("m", -1)
    (new,) = await storage.insert("m")
    here, there, wrong = await storage.daemon("here"), await storage.daemon("there"), await storage.session()
    assert await wrong.fetch(LEASE_FOR_A_RETRY, "m", "wrong")
    assert await here.lease("m") == []  # for as long as the retry hangs
    await storage.db.execute("UPDATE webhook.lane SET lease_until = '-infinity', owner = NULL")

    (claimed,) = await there.claims.claim_longest_due(10, 2, 10, LEASE)
    assert claimed.event.seq == retry
    lease, events = await here.claim("m")
    assert seqs(events) == [new]
    # Nor does a first attempt that hangs hold retries up.
    (other,) = await storage.insert_due("m", -1)
    assert [found.event.seq for found in await there.claims.claim_longest_due(10, 2, 10, LEASE)] == [other]
    assert (await storage.lane("m"))["epoch"] == lease.epoch
