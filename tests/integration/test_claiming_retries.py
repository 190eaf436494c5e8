"""Claiming due rows outside the order: caps, plans, locks and the order of due times."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from tests.integration.storage_harness import LEASE, Daemon, StorageHarness, answered
from tests.waiting import until_found
from webhook_dispatcher.domain.claim import ClaimedRetry
from webhook_dispatcher.storage.claims import PostgresClaims
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.storage.session import session_settings
from webhook_dispatcher.storage.statements import load

RETRYING = load("retrying")
PLACES = 2


async def _claim(daemon: Daemon, *, most: int = 100, lease: timedelta = LEASE) -> list[ClaimedRetry]:
    claimed = await daemon.claims.claim_longest_due(100, PLACES, most, lease)
    return sorted(claimed, key=lambda retry: retry.event.seq)


def _seqs(claimed: list[ClaimedRetry]) -> list[int]:
    return [retry.event.seq for retry in claimed]


async def _retry_at_is_due_at_of(storage: StorageHarness, seq: int) -> bool:
    row = await storage.owed(seq)
    assert row is not None
    return bool(row["due_at"] == (await storage.lane("m"))["retry_at"])


async def test_due_row_is_claimed_with_a_token_and_a_lease(storage: StorageHarness, here: Daemon) -> None:
    (seq,) = await storage.insert_due("m", -1)
    (claimed,) = await _claim(here)
    assert (claimed.event.seq, claimed.event.attempts, claimed.event.trigger) == (seq, 1, "schedule")
    row = await storage.owed(seq)
    assert row is not None
    assert row["claim"] == claimed.claim
    assert row["due_at"] > await storage.now() + LEASE - timedelta(seconds=5)
    assert await _claim(here) == []


async def test_nothing_is_claimed_before_it_is_due(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert_due("m", 60)
    assert await _claim(here) == []
    await storage.db.execute("UPDATE webhook.lane SET retry_at = '-infinity'")
    assert await _claim(here) == []


async def test_cap_of_a_merchant_holds_over_two_daemons(storage: StorageHarness, here: Daemon) -> None:
    rows = await storage.insert_due("m", -5, -4, -3, -2)
    (other,) = await storage.insert_due("n", -1)
    there, one = await storage.daemon("there"), await storage.session()
    async with one.transaction():
        assert await one.fetch(RETRYING["lock_longest_due_lanes"].text, 100)
        assert await _claim(there) == []  # both lanes are being claimed
        await one.fetch(RETRYING["claim_retries"].text, ["m"], PLACES, 100, LEASE, [], "one")
        await one.execute(RETRYING["plan_retries"].text, ["m"], PLACES, [])
    assert _seqs(await _claim(there)) == [other]
    await storage.db.execute("UPDATE webhook.lane SET retry_at = '-infinity'")  # whatever was planned
    assert await _claim(there) == []
    flying = await storage.db.fetch("SELECT seq FROM webhook.outbox WHERE claim IS NOT NULL ORDER BY seq")
    assert [row["seq"] for row in flying] == [*rows[:2], other]


async def test_earliest_due_goes_first(storage: StorageHarness, here: Daemon) -> None:
    second, third, first = await storage.insert_due("m", -5, -1, -9)
    assert _seqs(await _claim(here)) == sorted([first, second])
    await storage.db.execute("UPDATE webhook.outbox SET due_at = '-infinity' WHERE seq = $1", first)
    await storage.db.execute("UPDATE webhook.lane SET retry_at = '-infinity'")
    assert _seqs(await _claim(here)) == [first]
    assert third not in _seqs(await _claim(here))


async def test_claim_takes_no_more_than_asked(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert_due("m", -1, -1)
    await storage.insert_due("n", -1, -1)
    assert len(await _claim(here, most=3)) == 3
    assert len(await _claim(here, most=3)) == 1


async def test_lane_at_its_cap_is_looked_at_when_a_claim_lapses(
    storage: StorageHarness, here: Daemon
) -> None:
    await storage.insert_due("m", -9, -8, -7)
    first, second = await _claim(here)
    assert await _retry_at_is_due_at_of(storage, first.event.seq) or await _retry_at_is_due_at_of(
        storage, second.event.seq
    )
    assert (await storage.lane("m"))["retry_at"] > await storage.now()


async def test_record_that_frees_a_place_lets_the_next_one_start(
    storage: StorageHarness, here: Daemon
) -> None:
    _, _, waiting = await storage.insert_due("m", -9, -8, -7)
    first, _ = await _claim(here)
    at = await storage.now()
    record = answered(first.event, first.claim, at, 200, is_retry=True)
    await here.records.write([record], [], LEASE)
    assert await _retry_at_is_due_at_of(storage, waiting)
    assert _seqs(await _claim(here)) == [waiting]


async def test_lane_below_its_cap_is_looked_at_when_its_next_row_is_due(
    storage: StorageHarness, here: Daemon
) -> None:
    _, later = await storage.insert_due("m", -9, 5)
    await _claim(here)
    assert await _retry_at_is_due_at_of(storage, later)


async def test_lane_with_nothing_due_is_not_looked_at_again(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert_due("m", -1)
    (claimed,) = await _claim(here)
    record = answered(claimed.event, claimed.claim, await storage.now(), 200, is_retry=True)
    await here.records.write([record], [], LEASE)
    await storage.db.execute("UPDATE webhook.lane SET retry_at = '-infinity'")
    assert await _claim(here) == []
    assert await storage.db.fetchval("SELECT retry_at = 'infinity' FROM webhook.lane")


async def test_row_held_by_an_operator_is_passed_over_and_found_later(
    storage: StorageHarness, here: Daemon
) -> None:
    held, free = await storage.insert_due("m", -9, -1)
    operator = await storage.session()
    async with operator.transaction():
        await operator.execute("SELECT FROM webhook.outbox WHERE seq = $1 FOR UPDATE", held)
        assert _seqs(await _claim(here)) == [free]
        assert await _retry_at_is_due_at_of(storage, held)
        assert await _claim(here) == []
    assert _seqs(await _claim(here)) == [held]


@pytest.mark.parametrize("merchant", ["m", None], ids=["one merchant", "everything"])
async def test_due_retries_wait_while_paused(
    storage: StorageHarness, here: Daemon, merchant: str | None
) -> None:
    (paused,) = await storage.insert_due("m", -1)
    (other,) = await storage.insert_due("n", -1)
    controls = PostgresControls(here.pool)
    async with controls.transaction() as transaction:
        await transaction.pause(merchant, True)
    assert _seqs(await _claim(here)) == ([] if merchant is None else [other])
    async with controls.transaction() as transaction:
        await transaction.pause(merchant, False)
    assert paused in _seqs(await _claim(here))


async def test_mending_finds_lanes_that_look_too_late_or_are_missing(
    storage: StorageHarness, here: Daemon
) -> None:
    (early,) = await storage.insert_due("early", 60)
    (gone,) = await storage.insert_due("gone", 30)
    await storage.insert_due("right", 60)
    await storage.insert("ordered")
    await storage.db.execute("UPDATE webhook.lane SET retry_at = 'infinity' WHERE merchant_id = 'early'")
    await storage.db.execute("DELETE FROM webhook.lane WHERE merchant_id = 'gone'")
    found = [*await here.claims.mend_retries("", 2), *await here.claims.mend_retries("gone", 2)]
    assert found == [("early", True), ("gone", True), ("right", False)]
    for merchant, seq in (("early", early), ("gone", gone)):
        row = await storage.owed(seq)
        assert row is not None
        assert (await storage.lane(merchant))["retry_at"] == row["due_at"]
    assert {is_mended for _, is_mended in await here.claims.mend_retries("", 10)} == {False}


async def test_mending_leaves_a_lane_that_somebody_holds(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert_due("m", 60)
    await storage.db.execute("UPDATE webhook.lane SET retry_at = 'infinity'")
    operator = await storage.session()
    async with operator.transaction():
        await operator.execute("SELECT FROM webhook.lane FOR UPDATE")
        assert await here.claims.mend_retries("", 10) == [("m", False)]
    assert await here.claims.mend_retries("", 10) == [("m", True)]


async def test_mending_a_lane_at_its_cap_does_no_harm(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert_due("m", -9, -8, -7)
    assert len(await _claim(here)) == PLACES
    await here.claims.mend_retries("", 10)
    assert await _claim(here) == []
    assert (await storage.lane("m"))["retry_at"] > await storage.now()


STUCK = """
SELECT wait_event = 'ClientWrite' OR state LIKE 'idle%' FROM pg_stat_activity
WHERE application_name = 'frozen' AND query_start > $1 AND left(query, 99) = left($2, 99)
"""
FREE = """
WITH lanes AS (SELECT FROM webhook.lane WHERE merchant_id > 'm' FOR NO KEY UPDATE SKIP LOCKED),
events AS (SELECT FROM webhook.outbox WHERE merchant_id > 'm' FOR NO KEY UPDATE SKIP LOCKED)
SELECT (SELECT count(*) FROM lanes) + (SELECT count(*) FROM events) = 2 * $1
"""


@pytest.mark.parametrize("is_trial", [False, True])
async def test_who_is_frozen_while_it_claims_keeps_nothing_locked_for_longer_than_a_statement_may_take(
    storage: StorageHarness, is_trial: bool
) -> None:
    lanes = [f"m{number}" for number in range(30)]
    seen = f"ALTER ROLE webhook_dispatcher IN DATABASE {storage.database.name} SET track_activities = on"
    await storage.db.execute(seen)
    quiet = {"client_min_messages": "warning"}  # the server's debug messages would fill the connection too
    settings = session_settings("frozen", timedelta(seconds=1)) | quiet
    pool = await asyncpg.create_pool(storage.database.dsn(), min_size=1, max_size=1, server_settings=settings)
    claims = PostgresClaims(pool, "frozen")

    async def claim(of: list[str]) -> list[ClaimedRetry]:
        if is_trial:
            return await claims.claim_trials(of, LEASE, ())
        return await claims.claim_due_of(of, 1, 100, LEASE)

    await storage.insert_due("m", -1)
    assert len(await claim(["m"])) == 1  # its statements are prepared now
    for lane in lanes:
        await storage.insert_due(lane, -1)
    await storage.db.execute(
        "UPDATE webhook.outbox SET object = json_build_object('x', repeat('x', 200000)) WHERE due_at < $1",
        await storage.now(),
    )
    async with pool.acquire() as connection:
        transport = connection._con._transport  # type: ignore[attr-defined]

        def freeze(query: asyncpg.connection.LoggedQuery) -> None:
            if query.query == RETRYING["lock_due_lanes_of"].text:
                transport.pause_reading()

        connection.add_query_logger(freeze)
    if is_trial:
        transport.pause_reading()
    since = await storage.now()
    claiming = asyncio.ensure_future(claim(lanes))
    try:
        await until_found(lambda: storage.db.fetchval(STUCK, since, RETRYING["claim_retries"].text))
        await until_found(lambda: storage.db.fetchval(FREE, len(lanes)))
    finally:
        pool.terminate()
        await asyncio.gather(claiming, return_exceptions=True)
