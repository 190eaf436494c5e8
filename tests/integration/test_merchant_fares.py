"""How a merchant fares as its lane says: last success, failing since, how often."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from tests.integration.storage_harness import LEASE, Daemon, StorageHarness, answered, unsent
from webhook_dispatcher.domain.event import Event, FailedReason
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.records import PostgresRecords

SECOND = timedelta(seconds=1)
CONFIGURE = """
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ('m', 'https://m/', 'sealed', 'k')
"""
COLUMNS = ("last_success_at", "failing_since", "failures_in_a_row")


async def fares(storage: StorageHarness, start: datetime) -> tuple[float | None, float | None, int]:
    """Return what the lane says, in seconds from `start`."""
    lane = await storage.lane("m")
    since = [None if lane[name] is None else (lane[name] - start).total_seconds() for name in COLUMNS[:2]]
    return since[0], since[1], lane[COLUMNS[2]]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([[200]], (0, None, 0)),
        ([[500]], (None, 0, 1)),
        ([[500, 500], [500]], (None, 0, 3)),
        ([[500], [200]], (1, None, 0)),
        ([[200, 500, 500]], (0, 1, 2)),
        ([[500, 200, 500]], (1, 2, 1)),
        ([[500], [500, 200, 500], [500]], (2, 3, 2)),
        ([[None, None], [200, 200]], (3, None, 0)),
    ],
)
async def test_outcomes_in_order_say_since_when_a_merchant_fails(
    storage: StorageHarness,
    here: Daemon,
    batches: Sequence[Sequence[int | None]],
    expected: tuple[float | None, float | None, int],
) -> None:
    """Statuses (None: a time-out) of attempts that end one second apart, batch by batch."""
    await storage.insert("m", *["{}"] * sum(map(len, batches)))
    lease, events = await here.claim("m")
    start = await storage.now()
    remaining = list(enumerate(events))
    for batch in batches:
        part, remaining = remaining[: len(batch)], remaining[len(batch) :]
        records = [
            answered(event, lease.epoch, start + place * SECOND, status)
            for (place, event), status in zip(part, batch, strict=True)
        ]
        await here.records.write(records, [], LEASE)
    assert await fares(storage, start) == expected


async def _failed(storage: StorageHarness, here: Daemon) -> tuple[Record, datetime]:
    await storage.insert("m")
    lease, (event,) = await here.claim("m")
    start = await storage.now()
    return answered(event, lease.epoch, start, 500), start


async def test_an_attempt_that_could_not_be_made_says_nothing_of_its_merchant(
    storage: StorageHarness, here: Daemon
) -> None:
    record, start = await _failed(storage, here)
    assert record.attempt is not None
    attempt = record.attempt._replace(status=None, outcome=Outcome.UNSENDABLE)
    await here.records.write([record._replace(attempt=attempt)], [], LEASE)
    assert await fares(storage, start) == (None, None, 0)


async def test_a_batch_that_is_written_again_counts_nothing_twice(
    storage: StorageHarness, here: Daemon
) -> None:
    record, start = await _failed(storage, here)
    for _ in range(2):
        await here.records.write([record], [], LEASE)
    assert await fares(storage, start) == (None, 0, 1)


async def _retry(storage: StorageHarness, here: Daemon) -> tuple[Event, int]:
    await storage.insert_due("m", 0)
    (claimed,) = await here.claims.claim_longest_due(1, 2, 10, LEASE)
    return claimed.event, claimed.claim


@pytest.mark.parametrize(("status", "expected"), [(200, (5, None, 0)), (500, (None, 0, 2))])
async def test_a_retry_counts_as_well(
    storage: StorageHarness, here: Daemon, status: int, expected: tuple[float | None, float | None, int]
) -> None:
    record, start = await _failed(storage, here)
    await here.records.write([record], [], LEASE)
    event, claim = await _retry(storage, here)
    await here.records.write([answered(event, claim, start + 5 * SECOND, status, is_retry=True)], [], LEASE)
    assert await fares(storage, start) == expected


async def test_what_is_written_late_does_not_end_failures_that_came_after_it(
    storage: StorageHarness, here: Daemon
) -> None:
    record, start = await _failed(storage, here)
    await here.records.write([record], [], LEASE)
    event, claim = await _retry(storage, here)
    await here.records.write([answered(event, claim, start - 5 * SECOND, 200, is_retry=True)], [], LEASE)
    assert await fares(storage, start) == (-5, 0, 1)


async def test_what_was_not_sent_says_nothing(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert("m")
    lease, (event,) = await here.claim("m")
    start = await storage.now()
    await here.records.write([unsent(event, lease.epoch, start, FailedReason.UNSENDABLE)], [], LEASE)
    assert await fares(storage, start) == (None, None, 0)


@pytest.mark.also_with_two_endpoints
async def test_the_view_of_endpoints_shows_it(storage: StorageHarness, here: Daemon) -> None:
    await storage.db.execute(CONFIGURE)
    record, start = await _failed(storage, here)
    await here.records.write([record], [], LEASE)
    row = await storage.db.fetchrow("SELECT * FROM webhook.endpoints WHERE merchant_id = 'm' AND number = 1")
    assert row is not None
    assert [row[name] for name in COLUMNS] == [None, start, 1]


async def test_a_late_success_between_two_failures_leaves_the_later_one(
    storage: StorageHarness, here: Daemon
) -> None:
    record, start = await _failed(storage, here)
    await here.records.write([record], [], LEASE)
    for seconds, status in ((15, 500), (5, 200)):
        event, claim = await _retry(storage, here)
        ended = start + seconds * SECOND
        await here.records.write([answered(event, claim, ended, status, is_retry=True)], [], LEASE)
    assert await fares(storage, start) == (5, 15, 1)


async def test_failures_from_before_a_known_success_do_not_count(
    storage: StorageHarness, here: Daemon
) -> None:
    record, start = await _failed(storage, here)
    for seconds, status in ((30, 200), (25, 500), (40, 500)):
        event, claim = await _retry(storage, here)
        ended = start + seconds * SECOND
        await here.records.write([answered(event, claim, ended, status, is_retry=True)], [], LEASE)
    assert await fares(storage, start) == (30, 40, 1)
    await here.records.write([record], [], LEASE)
    assert await fares(storage, start) == (30, 40, 1)


@pytest.mark.also_with_two_endpoints
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("UPDATE webhook.endpoint SET url = 'https://other/'", (None, None, 0)),
        ("UPDATE webhook.endpoint SET secret = 'other'", (None, 0, 1)),
        ("DELETE FROM webhook.endpoint", (None, None, 0)),
    ],
)
async def test_another_url_begins_anew(
    storage: StorageHarness, here: Daemon, change: str, expected: tuple[float | None, float | None, int]
) -> None:
    await storage.db.execute(CONFIGURE)
    record, start = await _failed(storage, here)
    await here.records.write([record], [], LEASE)
    await storage.db.execute(change)
    assert await fares(storage, start) == expected


async def test_what_was_delivered_late_ends_failures_before_it(storage: StorageHarness, here: Daemon) -> None:
    record, start = await _failed(storage, here)
    await here.records.write([record], [], LEASE)
    event, claim = await _retry(storage, here)
    late = answered(event, claim, start + SECOND, 200, is_retry=True)
    await storage.db.execute("UPDATE webhook.outbox SET claim = claim + 1 WHERE claim IS NOT NULL")
    assert (await here.records.write([late], [], LEASE)).seqs == frozenset()
    assert await here.records.write_late(late)
    assert await fares(storage, start) == (1, None, 0)


async def test_a_success_makes_no_new_entries_in_the_indexes_of_lanes(
    storage: StorageHarness, here: Daemon
) -> None:
    """Every first attempt is recorded in its lane: a column that each outcome changes must be in no index."""
    await storage.insert("m", "{}", "{}")
    lease, events = await here.claim("m")
    updated = (
        "SELECT pg_stat_get_xact_tuples_updated('webhook.lane'::regclass) "
        "- pg_stat_get_xact_tuples_hot_updated('webhook.lane'::regclass)"
    )
    connection = await storage.session()
    async with connection.transaction():
        before = await connection.fetchval(updated)
        for event in events:
            record = answered(event, lease.epoch, await storage.now(), 200)
            # In this transaction, which counts by itself: a connection has what it asks of a pool.
            written = await PostgresRecords(connection).write([record], [], LEASE)  # type: ignore[arg-type]
            assert written.seqs == {event.seq}
        assert await connection.fetchval(updated) == before


@pytest.mark.parametrize(("statuses", "free"), [([], None), ([500, 200], 1), ([200, 500], "leased_at")])
async def test_a_lease_says_since_when_its_merchants_own_events_let_it_be(
    storage: StorageHarness, here: Daemon, statuses: Sequence[int], free: int | str | None
) -> None:
    await storage.insert("m", *["{}"] * 3)
    lease, events = await here.claim("m", lease=timedelta(0))
    start = await storage.now()
    records = [
        answered(event, lease.epoch, start + place * SECOND, status)
        for place, (event, status) in enumerate(zip(events, statuses, strict=False))
    ]
    await here.records.write(records, [], timedelta(0))
    (again,) = await here.lease("m")
    lane = await storage.lane("m")
    ends = [record.attempt.finished_at for record in records if record.attempt is not None]
    assert again.free_since == (ends[free] if isinstance(free, int) else free and lane[free])
