"""Who is suspended, how one that is is tried, and what lifts it: the statements, on a real Postgres."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import asyncpg
import pytest

from tests.integration.storage_harness import LAPSED, LEASE, StorageHarness, answered
from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.claim import START, ClaimedRetry
from webhook_dispatcher.domain.event import render_instant
from webhook_dispatcher.domain.lane import merchant_of
from webhook_dispatcher.domain.record import LaneTurn
from webhook_dispatcher.storage.claims import PostgresClaims
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.storage.suspension import PostgresSuspensions

AFTER = timedelta(hours=2)
INTERVAL = timedelta(hours=1)
ATTEMPTS = (
    "INSERT INTO webhook.attempt_log "
    "(event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome) "
    "SELECT CASE WHEN $2 THEN gen_random_uuid() ELSE $5 END, webhook.lane_of($1, 1::smallint), n, 'manual', "
    "clock_timestamp() - n * interval '1 second', 5, $4 FROM generate_series(1, $3::integer) AS n"
)


async def configure(storage: StorageHarness, *merchants: str) -> None:
    await storage.db.executemany(
        "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) "
        "VALUES ($1, 'https://x/', '\\x00', 'k1')",
        [(merchant,) for merchant in merchants],
    )


async def fail(
    storage: StorageHarness,
    merchant: str = "m",
    *,
    since: timedelta = timedelta(hours=3),
    events: int = 20,
    attempts_each_one: bool = True,
    last: timedelta = timedelta(),
    outcome: str = "timeout",
) -> None:
    """Let a merchant with an endpoint have failed for so long, and so many events be tried."""
    await configure(storage, merchant)
    await storage.db.execute(
        "UPDATE webhook.lane SET failing_since = clock_timestamp() - $2::interval, failures_in_a_row = 20, "
        "last_success_at = clock_timestamp() - $2::interval - interval '1 day', "
        "last_failure_at = clock_timestamp() - $3::interval "
        "WHERE merchant_id = webhook.lane_of($1, 1::smallint)",
        merchant, since, last,
    )  # fmt: skip
    await storage.db.execute(ATTEMPTS, merchant, attempts_each_one, events, outcome, uuid4())


async def suspending(storage: StorageHarness) -> PostgresSuspensions:
    return PostgresSuspensions((await storage.daemon("suspending")).pool)


async def suspend(storage: StorageHarness) -> list[str]:
    suspended = await (await suspending(storage)).suspend(AFTER, INTERVAL, 100)
    return [lane.lane for lane in suspended]


async def suspended(storage: StorageHarness, merchant: str = "m") -> StorageHarness:
    """Have a merchant that is suspended, whose interval is over."""
    await fail(storage, merchant)
    assert await suspend(storage) == [merchant]
    await end_rest(storage, merchant)
    return storage


async def end_rest(storage: StorageHarness, merchant: str = "m") -> None:
    """Let the interval be over."""
    await storage.db.execute(
        "UPDATE webhook.lane SET wait_until = clock_timestamp() - interval '1 second' WHERE merchant_id = $1",
        merchant,
    )


async def trials(claims: PostgresClaims) -> list[ClaimedRetry]:
    picked = await claims.pick_trials(100, INTERVAL)
    return await claims.claim_trials(picked, LEASE, ()) if picked else []


async def seconds_to_rest(storage: StorageHarness, merchant: str = "m") -> float:
    left = (
        "SELECT extract(EPOCH FROM greatest(wait_until, 'epoch') - clock_timestamp())::double precision "
        "FROM webhook.lane WHERE merchant_id = $1"
    )
    seconds: float = await storage.db.fetchval(left, merchant)
    return seconds


@asynccontextmanager
async def holding_lane(storage: StorageHarness, merchant: str = "m") -> AsyncIterator[asyncpg.Connection]:
    """Keep a lane locked."""
    other = await storage.session()
    async with other.transaction():
        await other.execute("SELECT FROM webhook.lane WHERE merchant_id = $1 FOR UPDATE", merchant)
        yield other


# Who is suspended


async def test_a_merchant_that_has_failed_for_long_with_twenty_events_is_suspended(
    storage: StorageHarness,
) -> None:
    await fail(storage)
    (due,) = await storage.insert_due("m", -10)
    assert await suspend(storage) == ["m"]
    lane = await storage.lane("m")
    assert lane["suspended_at"] is not None
    assert not lane["paused"]
    assert lane["retry_at"].year == 9999, "no look for due retries meets it"
    assert 0 < await seconds_to_rest(storage) - INTERVAL.total_seconds() + 60 <= 60
    assert await suspend(storage) == [], "once"
    assert await storage.db.fetchval("SELECT max(seq) FROM webhook.outbox") == due, "nobody is told"


@pytest.mark.parametrize(
    "short",
    [
        {"events": 19},
        {"events": 300, "attempts_each_one": False},
        {"since": timedelta(hours=1, minutes=59)},
        {"last": timedelta(minutes=2)},
        {"outcome": "unsendable"},
    ],
    ids=["nineteen events", "one event by hand", "not for long enough", "no fresh failure", "never sent"],
)
async def test_who_has_not_failed_enough_is_not(storage: StorageHarness, short: dict[str, object]) -> None:
    await fail(storage, **short)  # type: ignore[arg-type]
    assert await suspend(storage) == []


@pytest.mark.parametrize(
    "spared",
    [
        "UPDATE webhook.lane SET paused = true",
        "UPDATE webhook.state SET paused = true",
        "ALTER TABLE webhook.endpoint DISABLE TRIGGER USER; DELETE FROM webhook.endpoint",
    ],
    ids=["paused", "everything paused", "no endpoint"],
)
async def test_who_is_paused_or_has_no_endpoint_is_not(storage: StorageHarness, spared: str) -> None:
    await fail(storage)
    await storage.db.execute(spared)
    assert await suspend(storage) == []


@pytest.mark.also_with_two_endpoints
async def test_the_platform_is_never_suspended_and_is_told_of_others(storage: StorageHarness) -> None:
    await fail(storage, "$platform")
    await fail(storage)
    (suspended,) = await (await suspending(storage)).suspend(AFTER, INTERVAL, 100)
    assert (merchant_of(suspended.lane), suspended.is_reported) == ("m", True)
    told = await storage.db.fetchrow(
        "SELECT webhook.merchant_of(merchant_id) AS merchant_id, type, object FROM webhook.outbox"
    )
    assert told is not None
    lane = await storage.lane("m")
    find = "SELECT id FROM webhook.endpoint WHERE merchant_id = $1"
    endpoint = await storage.db.fetchval(find, lane["merchant_id"])
    assert (told["merchant_id"], told["type"]) == ("$platform", "endpoint.suspended")
    assert json.loads(told["object"]) == {
        "merchantId": "m",
        "endpointId": str(endpoint),
        "failingSince": render_instant(lane["failing_since"]),
        "lastSuccessAt": render_instant(lane["last_success_at"]),
        "suspendedAt": render_instant(lane["suspended_at"]),
    }
    assert lane["reported_failing_since"] == lane["failing_since"]


async def test_a_leased_lane_is_recalled_and_its_holder_does_not_end_the_rest(
    storage: StorageHarness,
) -> None:
    await fail(storage)
    await storage.insert("m")
    here = await storage.daemon("here")
    lease, _ = await here.claim("m")
    assert await suspend(storage) == ["m"]
    assert (await here.claims.read_recalls()).lanes == {"m"}
    await here.records.write([], [LaneTurn(lease, True, 0, None)], LEASE)
    assert await seconds_to_rest(storage) > 3000
    assert await here.lease("m") == []


async def test_a_lane_that_somebody_holds_is_left_out_and_nobody_waits(storage: StorageHarness) -> None:
    await fail(storage, "held")
    await fail(storage, "free")
    async with asyncio.timeout(MAX_WAIT), holding_lane(storage, "held"):
        assert await suspend(storage) == ["free"]
    assert await suspend(storage) == ["held"]
    await storage.db.execute("UPDATE webhook.lane SET failing_since = NULL")
    await end_rest(storage, "held")
    await storage.insert_due("held", -1)
    here = await storage.daemon("here")
    async with asyncio.timeout(MAX_WAIT), holding_lane(storage, "held"):
        assert await (await suspending(storage)).lift(10) == ["free"]
        assert await trials(here.claims) == []
        assert await (await suspending(storage)).lift_all(10) == []


async def test_of_dispatchers_that_find_the_same_merchant_one_suspends_it(storage: StorageHarness) -> None:
    await fail(storage)
    await configure(storage, "$platform")
    suspended = await asyncio.gather(*[suspend(storage) for _ in range(8)])
    assert sorted(merchant for merchants in suspended for merchant in merchants) == ["m"]
    assert (
        await storage.db.fetchval("SELECT count(*) FROM webhook.outbox WHERE type = 'endpoint.suspended'")
        == 1
    )


# How one that is suspended is tried


async def test_pending_only_its_first_event_is_leased_for_one_try_an_interval(
    storage: StorageHarness,
) -> None:
    await suspended(storage)
    first, _ = await storage.insert("m", "{}", "{}")
    here = await storage.daemon("here")
    assert await trials(here.claims) == [], "what is in order goes first"
    lease, run = await here.claim("m")
    assert lease.is_suspended
    now = await storage.now()
    rest = now + INTERVAL
    written = await here.records.write(
        [answered(run[0], lease.epoch, now, None)], [LaneTurn(lease, True, first, rest)], LEASE
    )
    assert written.released == ("m",)
    assert await here.lease("m") == []
    assert await trials(here.claims) == []
    assert (await storage.lane("m"))["retry_at"].year == 9999, "the failed one is not looked for"
    await end_rest(storage)
    (again,) = await here.lease("m")
    assert again.is_suspended


async def test_retries_only_one_of_them_is_claimed_an_interval(storage: StorageHarness) -> None:
    await suspended(storage)
    later, first = await storage.insert_due("m", -5, -10)
    here = await storage.daemon("here")
    assert [retry.event.seq for retry in await trials(here.claims)] == [first]
    assert await seconds_to_rest(storage) > 3000
    assert await trials(here.claims) == []
    await end_rest(storage)
    assert [retry.event.seq for retry in await trials(here.claims)] == [], "one in flight is enough"
    await storage.db.execute(
        "UPDATE webhook.outbox SET due_at = now() + interval '1 day', claim = NULL WHERE seq = $1", first
    )
    await end_rest(storage)
    assert [retry.event.seq for retry in await trials(here.claims)] == [later]


async def test_a_holder_whose_lease_has_lapsed_does_not_end_the_rest_after_a_retry(
    storage: StorageHarness,
) -> None:
    await suspended(storage)
    await storage.insert_due("m", -5)
    here = await storage.daemon("here")
    (lease,) = await here.lease("m", lease=LAPSED)
    assert len(await trials(here.claims)) == 1
    assert (await here.records.write([], [LaneTurn(lease, True)], LEASE)).released == ("m",)
    assert await seconds_to_rest(storage) > 3000


async def test_a_retry_is_not_tried_before_its_time_and_then_at_once(storage: StorageHarness) -> None:
    await suspended(storage)
    await storage.insert_due("m", 600)
    here = await storage.daemon("here")
    assert await trials(here.claims) == []
    assert 500 < await seconds_to_rest(storage) <= 600


async def test_mixed_only_what_is_in_order_is_tried(storage: StorageHarness) -> None:
    await suspended(storage)
    await storage.insert("m")
    await storage.insert_due("m", -10)
    here = await storage.daemon("here")
    assert await trials(here.claims) == []
    (lease,) = await here.lease("m")
    assert lease.is_suspended


async def test_of_what_owes_nothing_nothing_is_looked_for_until_the_interval_is_over(
    storage: StorageHarness,
) -> None:
    await suspended(storage)
    here = await storage.daemon("here")
    assert await trials(here.claims) == []
    assert await seconds_to_rest(storage) > 3000


async def test_no_look_for_due_retries_finds_one_that_is_suspended_and_mending_does_not_undo_it(
    storage: StorageHarness,
) -> None:
    await suspended(storage)
    await storage.insert_due("m", -10)  # lowers retry_at, as an operator's edit would
    here = await storage.daemon("here")
    assert await here.claims.find_due(START, 10) == []
    assert await here.claims.claim_longest_due(10, 2, 10, LEASE) == []
    assert await here.claims.claim_due_of(["m"], 2, 10, LEASE) == []
    await storage.db.execute("UPDATE webhook.lane SET retry_at = 'infinity'")
    assert await here.claims.mend_retries("", 10) == [("m", False)]
    assert (await storage.lane("m"))["retry_at"].year == 9999


async def test_the_look_for_due_retries_does_not_walk_ten_thousand_who_are_suspended(
    storage: StorageHarness,
) -> None:
    await storage.db.execute(
        "INSERT INTO webhook.lane (merchant_id, failing_since, suspended_at, wait_until, retry_at) "
        "SELECT 's' || n, clock_timestamp() - interval '1 day', clock_timestamp(), "
        "clock_timestamp() + interval '1 hour', 'infinity' FROM generate_series(1, 10000) AS n; "
        "INSERT INTO webhook.outbox (merchant_id, type, object, attempts, due_at) "
        "SELECT 's' || n, 'charge.created', '{}', 1, clock_timestamp() FROM generate_series(1, 10000) AS n"
    )
    await storage.insert_due("other", -1)
    here = await storage.daemon("here")
    merchants = [f"s{n}" for n in range(1, 10_001)]
    async with PostgresControls(here.pool).transaction() as transaction:
        await transaction.wake_lanes(dict.fromkeys(merchants))
    await storage.db.execute("VACUUM ANALYZE webhook.lane")
    looks = {
        "due": "SELECT * FROM webhook.lane WHERE lane.retry_at <= clock_timestamp() "
        "AND lane.retry_at < 'infinity' AND NOT lane.paused AND suspended_at IS NULL",
        "suspend": "SELECT * FROM webhook.lane WHERE failing_since <= now() AND suspended_at IS NULL",
        "trials": "SELECT * FROM webhook.lane WHERE suspended_at IS NOT NULL AND wait_until <= now() "
        "ORDER BY wait_until LIMIT 200",
        "lift": "SELECT * FROM webhook.lane WHERE suspended_at IS NOT NULL AND (failing_since IS NULL "
        "OR failing_since > suspended_at)",
    }
    for name, look in looks.items():
        (plan,) = json.loads(await storage.db.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {look}"))
        assert plan["Plan"].get("Rows Removed by Filter", 0) + plan["Plan"]["Actual Rows"] <= 1, (name, plan)
    claimed = await here.claims.claim_longest_due(10, 2, 10, LEASE)
    assert [retry.event.merchant_id for retry in claimed] == ["other"]


async def test_a_daemon_of_the_version_before_leases_a_rested_lane_and_sends(storage: StorageHarness) -> None:
    await suspended(storage)
    await storage.insert("m")
    leased = await storage.db.fetchval(
        "UPDATE webhook.lane SET epoch = epoch + 1, lease_until = clock_timestamp() + interval '30 seconds', "
        "owner = 'old', recalled = false WHERE merchant_id = 'm' AND lease_until < clock_timestamp() "
        "AND wait_until <= clock_timestamp() AND NOT paused RETURNING epoch"
    )
    assert leased is not None


@pytest.mark.parametrize(
    ("change", "is_tried_at_once"),
    [
        ("key_id = 'k2', secret = '\\x01'", False),
        ("secret = '\\x01', secret_created_at = clock_timestamp() + interval '1 s'", True),
    ],
    ids=["rekeyed", "another secret"],
)
async def test_only_what_may_help_it_ends_the_rest(
    storage: StorageHarness, change: str, is_tried_at_once: bool
) -> None:
    """`endpoint rekey` goes through all merchants: it must not have each of them attempted."""
    await fail(storage)
    assert await suspend(storage) == ["m"]
    await storage.db.execute(f"UPDATE webhook.endpoint SET {change}")
    assert (await seconds_to_rest(storage) < 0) is is_tried_at_once
    assert await (await suspending(storage)).lift(10) == []


# What lifts it


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE webhook.lane SET last_success_at = clock_timestamp(), failing_since = NULL",
        "UPDATE webhook.lane SET last_success_at = clock_timestamp(), failing_since = clock_timestamp()",
        "UPDATE webhook.endpoint SET url = 'https://other/'",
        "DELETE FROM webhook.endpoint",
    ],
    ids=["a success", "a success and a failure", "another URL", "no endpoint"],
)
async def test_a_suspension_is_lifted_by(storage: StorageHarness, change: str) -> None:
    await suspended(storage)
    await storage.insert_due("m", -10)
    await storage.db.execute("UPDATE webhook.lane SET wait_until = clock_timestamp() + interval '1 hour'")
    suspensions = await suspending(storage)
    assert await suspensions.lift(10) == []
    await storage.db.execute(change)
    assert await suspensions.lift(10) == ["m"]
    lane = await storage.lane("m")
    assert lane["suspended_at"] is None
    assert await seconds_to_rest(storage) < 0
    here = await storage.daemon("here")
    assert len(await here.claims.claim_longest_due(10, 2, 10, LEASE)) == 1, "its retries are due at once"


async def test_a_success_of_its_trial_lifts_it(storage: StorageHarness) -> None:
    await suspended(storage)
    (seq,) = await storage.insert("m")
    here = await storage.daemon("here")
    lease, run = await here.claim("m")
    now = await storage.now()
    await here.records.write(
        [answered(run[0], lease.epoch, now, 200)], [LaneTurn(lease, True, seq, now + INTERVAL)], LEASE
    )
    assert await (await suspending(storage)).lift(10) == ["m"]
    assert await seconds_to_rest(storage) < 0


async def test_one_that_is_tried_just_now_is_not_made_to_wait_once_it_is_lifted(
    storage: StorageHarness,
) -> None:
    await suspended(storage)
    await storage.insert("m")
    here = await storage.daemon("here")
    lease, _ = await here.claim("m")
    await storage.db.execute("UPDATE webhook.lane SET failing_since = NULL")
    assert await (await suspending(storage)).lift(10) == ["m"]
    rest = await storage.now() + INTERVAL
    await here.records.write([], [LaneTurn(lease, True, 0, rest)], LEASE)
    assert await seconds_to_rest(storage) < 0


async def test_where_nobody_is_to_be_suspended_all_are_lifted(storage: StorageHarness) -> None:
    await suspended(storage, "m1")
    await suspended(storage, "m2")
    suspensions = await suspending(storage)
    assert len(await suspensions.lift_all(1)) == 1
    assert len(await suspensions.lift_all(10)) == 1
    assert await suspensions.lift_all(10) == []


async def test_resuming_a_merchant_lifts_it_and_lets_it_begin_anew(storage: StorageHarness) -> None:
    await suspended(storage)
    here = await storage.daemon("here")
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.read_suspension("m", 1) == (await storage.lane("m"))["suspended_at"]
        await transaction.pause("m", True)
    lane = await storage.lane("m")
    assert (lane["paused"], lane["suspended_at"] is None) == (True, False), "both hold"
    async with PostgresControls(here.pool).transaction() as transaction:
        await transaction.pause("m", False)
        assert await transaction.read_suspension("m", 1) is None
    lane = await storage.lane("m")
    assert (lane["paused"], lane["suspended_at"], lane["failing_since"]) == (False, None, None)
    assert lane["failures_in_a_row"] == 0
    assert await seconds_to_rest(storage) < 0
    assert await suspend(storage) == []


async def test_resuming_one_that_is_not_suspended_leaves_how_it_fares(storage: StorageHarness) -> None:
    await fail(storage)
    here = await storage.daemon("here")
    before = await storage.lane("m")
    async with PostgresControls(here.pool).transaction() as transaction:
        await transaction.pause("m", False)
    assert await storage.lane("m") == before
