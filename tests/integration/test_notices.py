"""What the platform is told: which failures are kept for it, and what becomes of them. Source: contract 1."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.integration.storage_harness import (
    LEASE,
    Daemon,
    StorageHarness,
    answered,
    cancel,
    exhausted,
    find_delivery,
    unsent,
)
from webhook_dispatcher.domain.claim import DueRow
from webhook_dispatcher.domain.command import Skip
from webhook_dispatcher.domain.event import PLATFORM, Event, FailedReason, State, render_instant
from webhook_dispatcher.domain.ports import Reported, TestLog
from webhook_dispatcher.domain.record import Attempt, Record
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.storage.notices import MAX_MERCHANTS, MAX_OWED, PostgresNotices
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

pytestmark = pytest.mark.also_with_two_endpoints

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
NOTHING = {"delivery.failed": 0, "endpoint.failing": 0, "endpoint.recovered": 0}
ENDPOINT = (
    "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ($1, 'https://x/', '\\x00', 'k1')"
)
UNREPORTED = "SELECT count(*) FROM webhook.unreported_failure"
MANY_FAILED = """
INSERT INTO webhook.unreported_failure (finished_at, seq, event_id, merchant_id, reason)
SELECT clock_timestamp() - interval '1 hour', n, gen_random_uuid(), 'm' || n % $2, 'exhausted'
FROM generate_series(1, $1) AS n
"""
OWE_NOTICES = """
INSERT INTO webhook.outbox (merchant_id, type, object, due_at)
SELECT merchant_id, 'delivery.failed', '{}', CASE WHEN n % 3 = 0 THEN clock_timestamp() END
FROM webhook.endpoint CROSS JOIN generate_series(1, $1) AS n
WHERE webhook.merchant_of(merchant_id) = '$platform'
"""


@pytest.fixture
async def here(storage: StorageHarness) -> Daemon:
    await storage.db.execute(ENDPOINT, PLATFORM)
    return await storage.daemon("here")


async def report(daemon: Daemon) -> Reported:
    return await PostgresNotices(daemon.pool).report(HOUR)


async def notices(storage: StorageHarness, notice_type: str) -> list[dict[str, Any]]:
    query = (
        "SELECT object FROM webhook.outbox "
        "WHERE webhook.merchant_of(merchant_id) = $1 AND type = $2 AND object::text <> '{}' ORDER BY seq"
    )
    return [json.loads(row["object"]) for row in await storage.db.fetch(query, PLATFORM, notice_type)]


async def unreported(storage: StorageHarness) -> int:
    return int(await storage.db.fetchval(UNREPORTED))


async def give_up(
    storage: StorageHarness,
    daemon: Daemon,
    merchant: str,
    ago: timedelta,
    reasons: Sequence[FailedReason] = (FailedReason.EXHAUSTED,),
) -> list[Record]:
    """Have a merchant's events fail for good, the first so long ago and one every 10 ms, in one batch."""
    await storage.insert(merchant, *["{}"] * len(reasons))
    lease, events = await daemon.claim(merchant)
    start = await storage.now() - ago
    records = [
        _failed(event, lease.epoch, start + place * timedelta(milliseconds=10), reason)
        for place, (event, reason) in enumerate(zip(events, reasons, strict=True))
    ]
    await daemon.records.write(records, [], LEASE)
    return records


def _failed(event: Event, fence: int, at: datetime, reason: FailedReason) -> Record:
    if reason is FailedReason.EXHAUSTED:
        return exhausted(answered(event, fence, at, 500))
    return unsent(event, fence, at, reason)


async def test_failures_are_told_together_for_each_merchant(storage: StorageHarness, here: Daemon) -> None:
    exhausted_ones = [FailedReason.EXHAUSTED] * 11
    told = await give_up(storage, here, "m", 2 * HOUR, [FailedReason.NOT_CONFIGURED, *exhausted_ones])
    (other,) = await give_up(storage, here, "n", HOUR, [FailedReason.UNSENDABLE])
    assert await report(here) == Reported(NOTHING | {"delivery.failed": 2}, has_more=False)
    assert await notices(storage, "delivery.failed") == [
        {
            "merchantId": "m",
            "count": 12,
            "since": render_instant(told[0].at),
            "until": render_instant(told[-1].at),
            "reasons": {"exhausted": 11, "not_configured": 1},
            "eventIds": [str(record.event.id) for record in told[:10]],
        },
        {
            "merchantId": "n",
            "count": 1,
            "since": render_instant(other.at),
            "until": render_instant(other.at),
            "reasons": {"unsendable": 1},
            "eventIds": [str(other.event.id)],
        },
    ]
    assert (await unreported(storage), (await report(here)).written) == (0, NOTHING)


async def test_a_minute_that_is_not_over_is_waited_for(storage: StorageHarness, here: Daemon) -> None:
    await give_up(storage, here, "m", -MINUTE)
    assert (await report(here)).written == NOTHING
    await storage.db.execute(
        "UPDATE webhook.unreported_failure SET finished_at = finished_at - interval '2 min'"
    )
    assert (await report(here)).written["delivery.failed"] == 1


async def test_any_merchant_id_arrives_as_it_is(storage: StorageHarness, here: Daemon) -> None:
    merchants = ('a"b', "a\\b", "a'b", "a\\u0041", "$1", "Zoë 😀", '"},{"')
    for merchant in merchants:
        await give_up(storage, here, merchant, HOUR)
        await storage.db.execute(ENDPOINT, merchant)
        await fail(storage, here, merchant, -7200, -3600, -1)
    await report(here)
    for merchant in merchants:
        await succeed(storage, here, merchant)
    await report(here)
    for notice_type in NOTHING:
        told = [notice["merchantId"] for notice in await notices(storage, notice_type)]
        assert sorted(told) == sorted(merchants), notice_type


async def test_what_two_daemons_tell_at_once_is_told_once(storage: StorageHarness, here: Daemon) -> None:
    there = await storage.daemon("there")
    failures, merchants = 2_000, 40
    for _ in range(5):
        await storage.db.execute("TRUNCATE webhook.unreported_failure, webhook.outbox")
        await storage.db.execute(MANY_FAILED, failures, merchants)
        await asyncio.gather(*[report(daemon) for daemon in (here, there, here, there)])
        told = await notices(storage, "delivery.failed")
        assert (len(told), sum(notice["count"] for notice in told)) == (merchants, failures)


async def test_while_one_reports_nobody_else_does_or_waits(storage: StorageHarness, here: Daemon) -> None:
    there = await storage.daemon("there")
    await storage.db.execute(MANY_FAILED, 10, 1)
    holder = await storage.session()
    async with holder.transaction():
        await holder.execute("SELECT FROM webhook.endpoint FOR NO KEY UPDATE")
        async with asyncio.timeout(5):
            assert await report(there) == Reported({}, has_more=False)
    assert (await report(there)).written["delivery.failed"] == 1


async def test_nothing_is_written_while_each_endpoint_of_the_platform_is_owed_a_thousand(
    storage: StorageHarness, here: Daemon
) -> None:
    await give_up(storage, here, "m", HOUR)
    await storage.db.execute(OWE_NOTICES, MAX_OWED)
    assert (await report(here), await unreported(storage)) == (Reported({}, has_more=False), 1)
    # A second one that wants none of them, and is owed none, changes nothing.
    await storage.db.execute("DELETE FROM webhook.outbox WHERE merchant_id LIKE E'%\\x1f2'")
    await storage.db.execute(
        "UPDATE webhook.endpoint SET types = '{endpoint.suspended}' WHERE merchant_id LIKE E'$platform\\x1f2'"
    )
    assert await report(here) == Reported({}, has_more=False)
    await storage.db.execute("DELETE FROM webhook.outbox WHERE seq = (SELECT max(seq) FROM webhook.outbox)")
    await give_up(storage, here, "m", HOUR / 2)
    assert (await report(here)).written["delivery.failed"] == 1
    assert [notice["count"] for notice in await notices(storage, "delivery.failed")] == [2]


async def test_a_step_tells_of_so_many_merchants_and_leaves_the_rest_to_the_next(
    storage: StorageHarness, here: Daemon
) -> None:
    merchants = MAX_MERCHANTS + 20
    await storage.db.execute(MANY_FAILED, 2 * merchants, merchants)
    assert await report(here) == Reported(NOTHING | {"delivery.failed": MAX_MERCHANTS}, has_more=True)
    assert await report(here) == Reported(NOTHING | {"delivery.failed": 20}, has_more=False)
    assert {notice["count"] for notice in await notices(storage, "delivery.failed")} == {2}


async def test_without_an_endpoint_nothing_is_kept(storage: StorageHarness) -> None:
    daemon = await storage.daemon("here")
    await give_up(storage, daemon, "m", HOUR)
    await storage.db.execute(ENDPOINT, "m")
    await fail(storage, daemon, "m", -7200, -3600, -1)
    await _close(storage, daemon, "m")
    assert (await report(daemon), await unreported(storage)) == (Reported({}, has_more=False), 0)
    await storage.db.execute(ENDPOINT, PLATFORM)
    assert (await report(daemon)).written["delivery.failed"] == 0


async def _close(storage: StorageHarness, daemon: Daemon, merchant: str) -> None:
    (seq,) = await storage.insert_due(merchant, -1)
    row = await storage.owed(seq)
    assert row is not None
    assert await daemon.claims.close_row(DueRow(row["merchant_id"], seq, row["id"])) == (
        State.FAILED,
        "charge.created",
    )


async def test_a_row_that_is_closed_because_it_cannot_be_claimed_is_told(
    storage: StorageHarness, here: Daemon
) -> None:
    await _close(storage, here, "m")
    await storage.db.execute(
        "UPDATE webhook.unreported_failure SET finished_at = finished_at - interval '1 min'"
    )
    await report(here)
    (notice,) = await notices(storage, "delivery.failed")
    assert notice["reasons"] == {"unsendable": 1}


async def test_a_batch_that_is_written_again_counts_once(storage: StorageHarness, here: Daemon) -> None:
    records = await give_up(storage, here, "m", HOUR)
    await here.records.write(records, [], LEASE)
    assert await unreported(storage) == 1
    await report(here)
    await here.records.write(records, [], LEASE)
    assert (await unreported(storage), (await report(here)).written["delivery.failed"]) == (0, 0)


async def test_what_fails_again_after_a_retry_by_hand_is_told_again(
    storage: StorageHarness, here: Daemon
) -> None:
    (record,) = await give_up(storage, here, "m", HOUR)
    async with PostgresControls(here.pool).transaction() as opened:
        found = await find_delivery(opened, record.event.id)
        await opened.reopen(found)
        await opened.wake_lanes({await here.lane_of("m"): None})
    (claimed,) = await here.claims.claim_longest_due(9, 2, 10, LEASE)
    again = answered(claimed.event, claimed.claim, await storage.now() - MINUTE, 500, is_retry=True)
    await here.records.write([exhausted(again)], [], LEASE)
    await report(here)
    (notice,) = await notices(storage, "delivery.failed")
    assert (notice["count"], notice["eventIds"]) == (2, [str(record.event.id)])


async def test_what_the_platform_does_not_take_makes_no_notice(storage: StorageHarness, here: Daemon) -> None:
    await storage.db.execute(OWE_NOTICES, 6)
    lease, events = await here.claim(PLATFORM)
    records = [
        _failed(event, lease.epoch, await storage.now() - HOUR, FailedReason.EXHAUSTED) for event in events
    ]
    await here.records.write(records, [], LEASE)
    await storage.db.execute(
        "UPDATE webhook.lane SET failing_since = clock_timestamp() - interval '2 h', "
        "last_failure_at = clock_timestamp() WHERE webhook.merchant_of(merchant_id) = '$platform'"
    )
    await storage.db.execute(
        "UPDATE webhook.attempt_log SET started_at = clock_timestamp() "
        "WHERE webhook.merchant_of(merchant_id) = '$platform'"
    )
    row = await storage.db.fetchrow("SELECT * FROM webhook.outbox WHERE due_at IS NOT NULL LIMIT 1")
    assert row is not None
    await here.claims.close_row(DueRow(row["merchant_id"], row["seq"], row["id"]))
    assert (await unreported(storage), (await report(here)).written) == (0, NOTHING)


async def test_what_operators_end_themselves_makes_no_notice(storage: StorageHarness, here: Daemon) -> None:
    for _ in range(2):
        await storage.insert("m")
    first = await storage.db.fetchval("SELECT id FROM webhook.outbox ORDER BY seq LIMIT 1")
    async with PostgresControls(here.pool).transaction() as opened:
        assert await cancel(opened, first)
    async with PostgresControls(here.pool).transaction() as opened:
        found = await opened.find_skippable(Skip("m", await storage.now()), 0, 10)
        assert sum((await opened.skip(found)).values()) == 1
        await opened.log_test_event(await _test_log(storage))
    failed: Mapping[str, int] = Counter(
        row["type"]
        for row in await storage.db.fetch("SELECT type FROM webhook.deliveries WHERE state = 'failed'")
    )
    assert failed == {"charge.created": 2, "webhook.test": 1}
    assert await unreported(storage) == 0


async def test_the_platforms_test_event_is_retried_by_hand_as_any(
    storage: StorageHarness, here: Daemon
) -> None:
    test = await _test_log(storage, PLATFORM)
    async with PostgresControls(here.pool).transaction() as opened:
        await opened.log_test_event(test)
        assert await opened.reopen(await find_delivery(opened, test.event.id)) is not None
    (row,) = await storage.db.fetch(
        "SELECT webhook.merchant_of(merchant_id) AS merchant_id, type FROM webhook.outbox"
    )
    assert tuple(row) == (PLATFORM, "webhook.test")


async def _test_log(storage: StorageHarness, merchant: str = "m") -> TestLog:
    row = await storage.db.fetchrow("SELECT gen_random_uuid() AS id, clock_timestamp() AS now")
    assert row is not None
    event = Event(0, row["id"], merchant, "webhook.test", row["now"], b"{}")
    attempt = Attempt(1, row["now"], row["now"], 5, 500, Outcome.STATUS)
    return TestLog(event, attempt, State.FAILED)


async def test_what_is_never_told_is_forgotten(storage: StorageHarness, here: Daemon) -> None:
    await give_up(storage, here, "m", 2 * HOUR)
    await give_up(storage, here, "n", HOUR / 2)
    await PostgresUpkeep(here.pool).purge_unreported(HOUR)
    rows = await storage.db.fetch("SELECT merchant_id FROM webhook.unreported_failure")
    assert [row["merchant_id"] for row in rows] == ["n"]


async def fail(storage: StorageHarness, daemon: Daemon, merchant: str, *ended: float) -> datetime:
    """Have an event of its own fail for each of these ends, in seconds from now; return the first end."""
    return await _answer(storage, daemon, merchant, 500, ended)


async def succeed(storage: StorageHarness, daemon: Daemon, merchant: str, *ended: float) -> datetime:
    return await _answer(storage, daemon, merchant, 200, ended or (0,))


async def _answer(
    storage: StorageHarness, daemon: Daemon, merchant: str, status: int, ended: Sequence[float]
) -> datetime:
    await storage.insert(merchant, *["{}"] * len(ended))
    await storage.db.execute(
        "UPDATE webhook.lane SET lease_until = '-infinity' WHERE merchant_id = $1",
        await daemon.lane_of(merchant),
    )
    lease, events = await daemon.claim(merchant)
    now = await storage.now()
    records = [
        answered(event, lease.epoch, now + timedelta(seconds=seconds), status)
        for event, seconds in zip(events, ended, strict=True)
    ]
    await daemon.records.write(records, [], LEASE)
    return records[0].at


async def test_who_has_only_failed_for_long_is_told_and_recovers_by_a_success(
    storage: StorageHarness, here: Daemon
) -> None:
    await storage.db.execute(ENDPOINT, "m")
    accepted = await succeed(storage, here, "m", -7300)
    since = await fail(storage, here, "m", -7200, -3600, -1)
    assert await report(here) == Reported(NOTHING | {"endpoint.failing": 1}, has_more=False)
    find = "SELECT id FROM webhook.endpoint WHERE merchant_id = $1"
    endpoint = await storage.db.fetchval(find, await here.lane_of("m"))
    assert await notices(storage, "endpoint.failing") == [
        {
            "merchantId": "m",
            "endpointId": str(endpoint),
            "failingSince": render_instant(since),
            "lastSuccessAt": render_instant(accepted),
            "failuresInARow": 3,
        }
    ]
    await fail(storage, here, "m", 0)
    assert (await report(here)).written == NOTHING
    recovered = await succeed(storage, here, "m")
    assert await report(here) == Reported(NOTHING | {"endpoint.recovered": 1}, has_more=False)
    assert await notices(storage, "endpoint.recovered") == [
        {
            "merchantId": "m",
            "endpointId": str(endpoint),
            "failingSince": render_instant(since),
            "recoveredAt": render_instant(recovered),
        }
    ]
    assert (await report(here)).written == NOTHING


@pytest.mark.parametrize(
    ("ended", "is_told"),
    [
        ((-7200, -3600, -1), True),
        ((-3500, -1800, -1), False),
        ((-7200, -3600, -300), False),
        ((-7200, -1), False),
    ],
    ids=["long and fresh", "not for long", "nothing fresh", "two events"],
)
async def test_failing_takes_time_a_fresh_failure_and_three_events(
    storage: StorageHarness, here: Daemon, ended: Sequence[float], is_told: bool
) -> None:
    await storage.db.execute(ENDPOINT, "m")
    await fail(storage, here, "m", *ended)
    assert (await report(here)).written["endpoint.failing"] == is_told
    assert [notice["lastSuccessAt"] for notice in await notices(storage, "endpoint.failing")] == [
        None
    ] * is_told


async def test_one_event_retried_thirty_times_says_nothing(storage: StorageHarness, here: Daemon) -> None:
    await storage.db.execute(ENDPOINT, "m")
    await storage.insert_due("m", -1)
    for _ in range(30):
        (claimed,) = await here.claims.claim_longest_due(1, 2, 10, LEASE)
        record = answered(claimed.event, claimed.claim, await storage.now() - MINUTE / 4, 500, is_retry=True)
        await here.records.write([record._replace(due_at=record.at - MINUTE)], [], LEASE)
    await storage.db.execute(
        "UPDATE webhook.lane SET failing_since = failing_since - interval '2 h' "
        "WHERE webhook.merchant_of(merchant_id) = 'm'"
    )
    assert (await report(here)).written["endpoint.failing"] == 0
    await fail(storage, here, "m", -1, 0)
    assert (await report(here)).written["endpoint.failing"] == 1


async def test_what_could_not_be_made_is_no_failure_of_a_merchant(
    storage: StorageHarness, here: Daemon
) -> None:
    await storage.db.execute(ENDPOINT, "m")
    await fail(storage, here, "m", -7200, -10)
    await storage.db.execute(
        "INSERT INTO webhook.attempt_log "
        "(event_id, merchant_id, attempt, trigger, started_at, duration_ms, outcome) "
        "VALUES (gen_random_uuid(), $1, 1, 'schedule', clock_timestamp() - interval '30 s', 5, 'unsendable')",
        await here.lane_of("m"),
    )
    assert (await report(here)).written["endpoint.failing"] == 0


async def test_a_merchant_without_an_endpoint_is_not_failing(storage: StorageHarness, here: Daemon) -> None:
    await fail(storage, here, "m", -7200, -3600, -1)
    assert (await report(here)).written["endpoint.failing"] == 0


@pytest.mark.parametrize(
    ("change", "written"),
    [("UPDATE webhook.endpoint SET url = 'https://other/' WHERE webhook.merchant_of(merchant_id) = 'm'", 1)]
    + [("DELETE FROM webhook.endpoint WHERE webhook.merchant_of(merchant_id) = 'm'", 0)],
    ids=["another URL", "removed"],
)
async def test_what_was_told_of_a_merchant_ends_with_its_endpoint(
    storage: StorageHarness, here: Daemon, change: str, written: int
) -> None:
    await storage.db.execute(ENDPOINT, "m")
    await fail(storage, here, "m", -7200, -3600, -1)
    await report(here)
    await storage.db.execute(change)
    assert (await report(here)).written == NOTHING
    await succeed(storage, here, "m")
    assert (await report(here)).written["endpoint.recovered"] == written


async def test_a_lane_that_somebody_holds_is_told_of_next_time(storage: StorageHarness, here: Daemon) -> None:
    await storage.db.execute(ENDPOINT, "m")
    await fail(storage, here, "m", -7200, -3600, -1)
    holder = await storage.session()
    async with holder.transaction():
        await holder.execute("SELECT FROM webhook.lane FOR NO KEY UPDATE")
        async with asyncio.timeout(5):
            assert (await report(here)).written["endpoint.failing"] == 0
    assert (await report(here)).written["endpoint.failing"] == 1
