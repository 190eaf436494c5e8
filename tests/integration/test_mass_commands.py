"""What recover and skip find, and do to what they find. Source: contract 3, `recover`, `skip`."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.integration.storage_harness import LAPSED, LEASE, Daemon, StorageHarness, answered
from tests.servers.database import Database
from webhook_dispatcher.domain.command import LONG_AGO, Recover, RetryFailed, Skip
from webhook_dispatcher.domain.errors import LeaseLost, StorageUnavailable
from webhook_dispatcher.domain.event import PLATFORM, State, Trigger
from webhook_dispatcher.domain.mass_command import Matches
from webhook_dispatcher.domain.ports import CommandTransaction
from webhook_dispatcher.storage import mass_commands
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.storage.previews import COUNT_LIMIT, MERCHANTS_SHOWN

pytestmark = pytest.mark.also_with_two_endpoints

LOG = """
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, state, failed_reason, attempts, finished_at
)
VALUES (
    nextval('webhook.outbox_seq_seq'), gen_random_uuid(), $1, $2, clock_timestamp() - interval '1 hour', $3,
    $4, $5, $6, clock_timestamp() - $7::interval
)
RETURNING seq
"""
OWE_NOTICE = """
INSERT INTO webhook.outbox (merchant_id, type, object, attempts, due_at)
VALUES ('$platform', 'delivery.failed', '{}', 1, clock_timestamp() + interval '1 hour') RETURNING seq
"""
Transaction = Callable[[], AbstractAsyncContextManager[CommandTransaction]]


@pytest.fixture
async def here(storage: StorageHarness) -> Daemon:
    await storage.configure("m", "n")
    return await storage.daemon("here")


@pytest.fixture
def transaction(here: Daemon) -> Transaction:
    return PostgresControls(here.pool).transaction


async def log(
    storage: StorageHarness,
    merchant: str = "m",
    kind: str = "delivered",
    *,
    ago: float = 10,
    event_type: str = "charge.created",
    text: str = "{}",
    attempts: int = 1,
) -> int:
    """Write a finished delivery, so many minutes ago; a kind that is no state is a reason to have failed."""
    state = "delivered" if kind == "delivered" else "failed"
    reason = None if kind == "delivered" else "exhausted" if kind == "failed" else kind
    values = merchant, event_type, text, state, reason, attempts, timedelta(minutes=ago)
    return int(await storage.db.fetchval(LOG, *values))


async def command(storage: StorageHarness, merchant: str | None = "m", **changes: object) -> Recover:
    now = await storage.now()
    facts = {"since": now - timedelta(minutes=30), "until": now, "limit": 1000, "retries": 7} | changes
    return Recover(merchant, **facts)  # type: ignore[arg-type]


async def look_through(transaction: Transaction, wanted: Recover, most: int = 1000) -> list[int]:
    """Go through all looks; return what was found."""
    seqs: list[int] = []
    reached = 0
    while True:
        async with transaction() as opened:
            found = await opened.find_finished(wanted, reached, most)
        seqs += found.seqs
        reached = found.reached
        if found.is_over:
            return seqs


async def test_what_has_finished_within_the_range_is_found_oldest_first(
    storage: StorageHarness, transaction: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mass_commands, "LOOK", 3)
    await log(storage, ago=31)
    wanted = [await log(storage, kind=kind) for kind in ("delivered", "failed", "not_configured", "failed")]
    await log(storage, ago=-1)
    for kind in ("cancelled", "skipped"):
        await log(storage, kind=kind)
    await log(storage, event_type="webhook.test")
    await log(storage, "without endpoint")
    other = await log(storage, "n")
    for merchant, found in (("m", wanted), (None, [*wanted, other])):
        for most in (1, 2, 1000):
            assert await look_through(transaction, await command(storage, merchant), most) == found


class Looks:
    """A connection that notes how many rows each look may go on."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.rows: list[int] = []

    async def fetch(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        self.rows.append(arguments[-2])
        return list(await self._connection.fetch(statement, *arguments))


async def test_a_look_goes_far_only_where_little_matches(storage: StorageHarness) -> None:
    await storage.configure("m")
    for kind in ["cancelled"] * 50 + ["delivered"] * 10:
        await log(storage, kind=kind)
    for merchant in ("m", None):
        wanted, short = await command(storage, merchant), 10 * mass_commands.SHORT_LOOK
        looks = Looks(storage.db)
        transaction = mass_commands.PostgresMassTransaction(looks)  # type: ignore[arg-type]
        found = await transaction.find_finished(wanted, 0, 10)
        assert (len(found.seqs), looks.rows) == (10, [short, mass_commands.LOOK])
        looks.rows.clear()
        again = await transaction.find_finished(wanted, found.seqs[0] - 1, 10)
        assert (again.seqs, looks.rows) == (found.seqs, [short])


async def test_a_range_from_the_beginning_of_time_is_no_error(
    storage: StorageHarness, transaction: Transaction
) -> None:
    await log(storage)
    for instant in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        wanted = await command(storage, since=instant, until=instant)
        assert await look_through(transaction, wanted) == []


async def test_states_types_and_charges_are_chosen(storage: StorageHarness, transaction: Transaction) -> None:
    delivered = await log(storage, text='{"id": "ch_1"}')
    failed = await log(storage, kind="failed", event_type="charge.failed")
    skipped = await log(storage, kind="skipped")

    async def chosen(merchant: str | None = "m", **changes: object) -> list[int]:
        return await look_through(transaction, await command(storage, merchant, **changes))

    assert await chosen(states=("failed",)) == [failed]
    assert await chosen(states=("delivered", "skipped")) == [delivered, skipped]
    assert await chosen(types=("charge.failed",)) == [failed]
    for merchant in ("m", None):
        assert await chosen(merchant, charge="ch_1") == [delivered]


async def test_days_before_the_range_are_not_read(storage: StorageHarness, transaction: Transaction) -> None:
    async with transaction() as opened:
        wanted = await command(storage)
        yesterday = wanted.until - timedelta(days=1)
        for _ in range(5):
            await log(storage, ago=24 * 60)
        now = [await log(storage, ago=0)]
        since = datetime.combine(wanted.until, datetime.min.time(), tzinfo=UTC)
        today = await command(storage, None, since=since)
        found = await opened.find_finished(today, 0, 10)
        assert (list(found.seqs), found.looked) == (now, 1)
        both = await opened.find_finished(await command(storage, None, since=yesterday), 0, 10)
        assert both.looked == 6


async def reopen(transaction: Transaction, wanted: Recover) -> tuple[Matches, tuple[int, ...]]:
    async with transaction() as opened:
        found = await opened.find_finished(wanted, 0, 1000)
        made_due = await opened.reopen_all(found)
        await opened.wake_lanes(made_due.heads)
    return found, made_due.seqs


async def test_what_was_delivered_is_sent_again_beside_the_order_and_stays_delivered(
    storage: StorageHarness, here: Daemon, transaction: Transaction
) -> None:
    replayed, failed = await log(storage), await log(storage, kind="failed")
    (first,) = await storage.insert("m")
    assert (await reopen(transaction, await command(storage)))[1] == (replayed, failed)
    rows = [await storage.owed(seq) for seq in (replayed, failed)]
    assert [(row["trigger"], row["on_failure"]) for row in rows if row] == [
        ("replay", "delivered"),
        ("manual", "failed"),
    ]
    _, in_order = await here.claim("m")
    assert [event.seq for event in in_order] == [first], "the order of first attempts is as it was"
    claimed = await here.claims.claim_due_of([await here.lane_of("m")], 10, 10, LEASE)
    by_seq = {retry.event.seq: retry for retry in claimed}
    assert set(by_seq) == {replayed, failed}
    event = by_seq[replayed].event
    assert (event.trigger, event.on_failure) == (Trigger.REPLAY, State.DELIVERED)
    record = answered(event, by_seq[replayed].claim, await storage.now(), 503, is_retry=True)
    await here.records.write([record._replace(state=State.DELIVERED, due_at=None)], [], LEASE)
    (attempt,) = await storage.attempts(event)
    assert attempt["trigger"] == "replay"
    row = await storage.logged(replayed)
    assert row is not None
    assert (row["state"], row["failed_reason"], row["attempts"]) == ("delivered", None, 2)
    assert await look_through(transaction, await command(storage)) == [replayed]
    before = await command(storage, until=row["finished_at"])
    assert await look_through(transaction, before) == [], "what finished since the command is not taken again"


async def test_what_was_never_attempted_goes_back_to_its_place_in_the_order(
    storage: StorageHarness, here: Daemon, transaction: Transaction
) -> None:
    early = await log(storage, kind="skipped", attempts=0)
    (later,) = await storage.insert("m")
    await reopen(transaction, await command(storage, states=("skipped",)))
    assert [event.seq for event in (await here.claim("m"))[1]] == [early, later]


async def test_what_is_owed_already_or_lost_is_left_out(
    storage: StorageHarness, transaction: Transaction
) -> None:
    owed, lost, good = await log(storage), await log(storage, text="null"), await log(storage)
    again = "INSERT INTO webhook.outbox (id, merchant_id, type, object) SELECT event_id, 'm', type, object "
    await storage.db.execute(again + "FROM webhook.delivery_log WHERE seq = $1", owed)
    found, made_due = await reopen(transaction, await command(storage))
    assert (list(found.seqs), made_due) == ([owed, lost, good], (good,))
    assert [(await storage.logged(seq)) is None for seq in (owed, lost, good)] == [False, False, True]


async def test_what_is_sent_again_is_noted_chunk_by_chunk_with_its_transaction(
    storage: StorageHarness, transaction: Transaction
) -> None:
    for seqs in ([7, 3], [5]):
        async with transaction() as opened:
            await opened.note_chunk(9, seqs)

    async def fail() -> None:
        async with transaction() as opened:
            await opened.note_chunk(9, [8])
            raise StorageUnavailable("it is rolled back")

    with pytest.raises(StorageUnavailable):
        await fail()
    async with transaction() as opened:
        await opened.note_chunk(2, [1])
    rows = await storage.db.fetch("SELECT command_id, place, seqs FROM webhook.command_chunk ORDER BY 1, 2")
    assert [tuple(row) for row in rows] == [(2, 0, [1]), (9, 0, [7, 3]), (9, 2, [5])]


async def test_waiting_retries_are_found_and_run_now_but_not_those_in_flight(
    storage: StorageHarness, here: Daemon, transaction: Transaction
) -> None:
    waiting, also, due = await storage.insert_due("m", 3600, 60, -1)
    (elsewhere,) = await storage.insert_due("n", 3600)
    await storage.insert_due("without endpoint", 3600)
    await storage.insert("m")
    async with transaction() as opened:
        found = await opened.find_waiting(await command(storage), 0, 10)
        assert (list(found.seqs), list(found.kinds)) == ([waiting, also], ["pending_retry"] * 2)
        assert (found.looked, found.is_over) == (6, True)
        everybodys = await opened.find_waiting(await command(storage, None), 0, 10)
        assert list(everybodys.seqs) == [waiting, also, elsewhere]
        early = await command(storage, until=LONG_AGO)
        assert list((await opened.find_waiting(early, 0, 10)).seqs) == []
    await storage.db.execute("UPDATE webhook.outbox SET claim = 7 WHERE seq = $1", also)
    async with transaction() as opened:
        made_due = await opened.run_all_now(found)
        await opened.wake_lanes(made_due.heads)
    assert made_due.seqs == (waiting,)
    claimed = await here.claims.claim_due_of([await here.lane_of("m")], 10, 10, LEASE)
    assert {(retry.event.seq, str(retry.event.trigger)) for retry in claimed} == {
        (waiting, "manual"),
        (due, "schedule"),
    }


async def skip(transaction: Transaction, wanted: Skip) -> dict[str, int]:
    async with transaction() as opened:
        return dict(await opened.skip(await opened.find_skippable(wanted, 0, 1000)))


async def test_what_was_delivered_and_is_sent_again_meanwhile_is_not_skipped(
    storage: StorageHarness, transaction: Transaction
) -> None:
    (seq,) = await storage.insert_due("m", 3600)
    wanted = Skip("m", await storage.now())
    async with transaction() as opened:
        found = await opened.find_skippable(wanted, 0, 10)
        assert found.seqs == [seq]
        await storage.db.execute("UPDATE webhook.outbox SET on_failure = 'delivered'")
        assert await opened.skip(found) == {}
        assert not (await opened.find_skippable(wanted, 0, 10)).seqs
    assert await storage.owed(seq) is not None


async def test_what_is_owed_and_old_is_skipped_and_its_lane_recalled(
    storage: StorageHarness, here: Daemon, transaction: Transaction
) -> None:
    (lease,) = await here.lease("m")
    old = [*await storage.insert("m"), *await storage.insert_due("m", 3600)]
    (elsewhere,) = await storage.insert("n")
    before = await storage.now()
    (young,) = await storage.insert("m")
    again = await log(storage)
    await reopen(transaction, await command(storage))
    assert await skip(transaction, Skip("m", before)) == {"charge.created": 2}
    for seq in old:
        row = await storage.logged(seq)
        assert row is not None
        assert (row["state"], row["failed_reason"]) == ("failed", "skipped")
    for seq in (elsewhere, young, again):
        assert await storage.owed(seq) is not None
    assert (await storage.lane("m"))["recalled"]
    assert lease.lane == await here.lane_of("m")
    assert await skip(transaction, Skip(None, before)) == {"charge.created": 1}
    assert await storage.lane("n"), "made, so that nobody leases it meanwhile"


OWE = """
INSERT INTO webhook.outbox (merchant_id, type, object, created_at, attempts, due_at)
VALUES (
    $1, $2, $3, clock_timestamp() - make_interval(mins => $4),
    CASE WHEN $5 THEN 1 ELSE 0 END, CASE WHEN $5 THEN clock_timestamp() + interval '1 hour' END
)
RETURNING seq
"""
WRONG = "charge.failed"
OF_CHARGE = '{"id": "ch_1"}'


@pytest.mark.parametrize(
    ("merchant", "ago", "which", "taken"),
    [
        ("m", (60, 0), {"types": (WRONG,)}, "bcd"),
        (None, (60, 0), {"types": (WRONG,)}, "bcde"),
        (None, (60, 0), {"types": (WRONG, "charge.created")}, "abcde"),
        (None, (60, 0), {"types": ("charge.reversed",)}, ""),
        (None, (60, 0), {"charge": "ch_1"}, "ace"),
        ("m", (60, 0), {"types": (WRONG,), "charge": "ch_1"}, "c"),
        (None, (25, 15), {}, "bc"),
        ("m", (25, 15), {"types": (WRONG,), "charge": "ch_1"}, "c"),
    ],
)
async def test_a_skip_takes_what_its_preview_counted_and_nothing_else(
    storage: StorageHarness,
    here: Daemon,
    transaction: Transaction,
    admin: Administration,
    merchant: str | None,
    ago: tuple[int, int],
    which: dict[str, Any],
    taken: str,
) -> None:
    owed = {
        "a": ("m", "charge.created", OF_CHARGE, 30, False),
        "b": ("m", WRONG, '{"id": "ch_2"}', 20, False),
        "c": ("m", WRONG, OF_CHARGE, 20, True),
        "d": ("m", WRONG, "{}", 10, False),
        "e": ("n", WRONG, OF_CHARGE, 10, False),
        "f": ("$platform", "delivery.failed", "{}", 20, True),
    }
    seqs = {name: await storage.db.fetchval(OWE, *values) for name, values in owed.items()}
    now = await storage.now()
    since, before = (now - timedelta(minutes=minutes) for minutes in ago)
    wanted = Skip(merchant, before, since, **which)
    preview = await admin.preview_skip(wanted)
    kinds = Counter("pending_retry" if owed[name][4] else "pending" for name in taken)
    assert (preview.kinds, preview.total) == (kinds, len(taken))
    assert preview.types == Counter(owed[name][1] for name in taken)
    assert preview.merchants == Counter(owed[name][0] for name in taken)
    assert await skip(transaction, wanted) == preview.types
    left = {row["seq"] for row in await storage.db.fetch("SELECT seq FROM webhook.outbox")}
    assert left == {seq for name, seq in seqs.items() if name not in taken}


@pytest.mark.parametrize(
    ("status", "state", "reason"), [(200, "delivered", None), (503, "failed", "skipped")]
)
async def test_what_was_in_flight_when_it_was_skipped_counts(
    storage: StorageHarness,
    here: Daemon,
    transaction: Transaction,
    status: int,
    state: str,
    reason: str | None,
) -> None:
    (seq,) = await storage.insert("m")
    lease, (event,) = await here.claim("m")
    await skip(transaction, Skip("m", await storage.now()))
    record = answered(event, lease.epoch, await storage.now(), status)
    assert (await here.records.write([record], [], LEASE)).seqs == frozenset()
    assert await here.records.write_late(record)
    row = await storage.logged(seq)
    assert row is not None
    assert (row["state"], row["failed_reason"], row["attempts"], row["last_status"]) == (
        state,
        reason,
        1,
        status,
    )


async def test_a_mass_retry_takes_what_failed_by_itself_within_its_range_up_to_its_limit(
    storage: StorageHarness, transaction: Transaction
) -> None:
    for kind in ("skipped", "cancelled", "delivered"):
        await log(storage, kind=kind)
    await log(storage, kind="failed", event_type="webhook.test")
    await log(storage, kind="failed", ago=31)
    first, second = [await log(storage, kind="failed", ago=ago) for ago in (20, 10)]
    other = await log(storage, "n", "failed", ago=15)
    until = await storage.now()
    for merchant, most, taken in (("m", 1, [first]), ("m", 10, [second]), (None, 10, [other]), ("m", 10, [])):
        wanted = RetryFailed(merchant, until - timedelta(minutes=30), until, most)
        begin = wanted.since, -1
        async with transaction() as opened:
            assert await opened.count_failed(wanted) == len(taken)
            chunk = await opened.reopen_failed(wanted, begin, most)
            assert list(chunk.seqs if chunk else ()) == taken
            assert taken or await opened.skip_failed(wanted, begin) is None


@pytest.fixture
async def admin(database: Database) -> AsyncIterator[Administration]:
    connection = await database.connect("webhook_admin")
    yield Administration(connection)
    await connection.close()


async def test_a_preview_counts_what_the_command_finds(
    storage: StorageHarness, here: Daemon, transaction: Transaction, admin: Administration
) -> None:
    for kind in ("delivered", "delivered", "failed", "cancelled", "skipped"):
        await log(storage, kind=kind, text='{"id": "ch_1"}')
    await log(storage, ago=31)
    await log(storage, event_type="webhook.test")
    await log(storage, "without endpoint")
    await log(storage, "n", event_type="charge.failed")
    await storage.insert_due("m", 3600, -1)
    wanted = await command(storage, None)
    preview = await admin.preview_recovery(wanted)
    assert dict(preview.kinds) == {"delivered": 3, "failed": 1, "pending_retry": 1}
    assert (preview.total, preview.has_more) == (5, False)
    assert list(preview.merchants.items()) == [("m", 4), ("n", 1)]
    found = await look_through(transaction, wanted)
    async with transaction() as opened:
        waiting = (await opened.find_waiting(wanted, 0, 1000)).seqs
    assert preview.total == len(found) + len(waiting)
    only_m = await admin.preview_recovery(await command(storage, "m"))
    skipped = await admin.preview_recovery(await command(storage, None, states=("skipped",)))
    assert (only_m.waiting, skipped.waiting) == (0, 1), "what waits is told of where it is not asked for"
    of_type = await admin.preview_recovery(await command(storage, None, types=("charge.failed",)))
    of_charge = await admin.preview_recovery(await command(storage, None, charge="ch_1"))
    assert [preview.total for preview in (only_m, skipped, of_type, of_charge)] == [4, 1, 1, 3]


@pytest.mark.parametrize(
    ("leave_out", "kinds"),
    [
        ((), {"failed": 2, "pending_retry": 4}),
        (("last_attempts",), {"failed": 2, "pending_retry": 2}),
        (("failing",), {"failed": 1, "pending_retry": 3}),
        (("last_attempts", "failing"), {"failed": 1, "pending_retry": 2}),
    ],
)
@pytest.mark.parametrize("merchant", [None, "m"])
async def test_last_attempts_and_who_fails_now_are_left_out_where_that_is_asked(
    storage: StorageHarness,
    here: Daemon,
    transaction: Transaction,
    admin: Administration,
    merchant: str | None,
    leave_out: tuple[str, ...],
    kinds: dict[str, int],
) -> None:
    await storage.insert_due("m", 3600, 3600, 3600)
    await storage.db.execute("UPDATE webhook.outbox SET attempts = 7 WHERE seq >= 2")
    await storage.db.execute("UPDATE webhook.outbox SET attempts_by_hand = 1 WHERE seq = 2")
    await storage.insert_due("n", 3600)
    await storage.db.execute("UPDATE webhook.outbox SET attempts = 9 WHERE seq > 3")
    for name in ("m", "n"):
        await log(storage, name, "failed")
    failing = (
        "UPDATE webhook.lane SET failing_since = clock_timestamp() + $2 "
        "WHERE webhook.merchant_of(merchant_id) = $1"
    )
    await storage.db.execute(failing, "n", timedelta())
    states = "failed", "pending_retry"
    wanted = await command(
        storage, merchant, states=states, leave_out=leave_out, created_at=await storage.now()
    )
    await storage.db.execute(failing, "m", timedelta(hours=1))  # only since then
    found = await look_through(transaction, wanted)
    async with transaction() as opened:
        waiting = (await opened.find_waiting(wanted, 0, 1000)).seqs
    await storage.db.execute(failing, "m", None)
    preview = await admin.preview_recovery(wanted)
    assert preview.kinds == {"failed": len(found), "pending_retry": len(waiting)}
    if merchant is None:
        assert preview.kinds == kinds
        assert (preview.last_attempts, preview.failing, preview.failing_merchants) == (2, 2, 1)
    else:
        assert preview.kinds == {"failed": 1, "pending_retry": 2 if "last_attempts" in leave_out else 3}
        assert (preview.last_attempts, preview.failing, preview.failing_merchants) == (1, 0, 0)


async def test_a_preview_counts_what_was_written_in_the_range_and_given_up_after_it(
    storage: StorageHarness, here: Daemon, admin: Administration
) -> None:
    for kind in ("failed", "delivered", "skipped"):
        await log(storage, kind=kind, ago=10)
    for merchant, kind in (("n", "failed"), ("without endpoint", "failed")):
        await log(storage, merchant, kind, ago=10)
    await storage.db.execute(
        "UPDATE webhook.delivery_log SET created_at = finished_at - interval '10 minutes'"
    )
    early = await log(storage, kind="failed", ago=10)
    await storage.db.execute(
        "UPDATE webhook.delivery_log SET created_at = finished_at - interval '1 hour' WHERE seq = $1", early
    )
    now = await storage.now()
    night = {"since": now - timedelta(minutes=30), "until": now - timedelta(minutes=15)}
    preview = await admin.preview_recovery(await command(storage, "m", **night))
    assert (preview.total, preview.given_up_later) == (0, 1)
    of_all = await admin.preview_recovery(await command(storage, None, **night))
    assert of_all.given_up_later == 2, "m's and n's"
    of_delivered = await admin.preview_recovery(await command(storage, "m", **night, states=("delivered",)))
    to_now = await admin.preview_recovery(await command(storage, "m"))
    assert [of_delivered.given_up_later, to_now.given_up_later] == [0, 0]


async def test_a_preview_is_bounded(
    storage: StorageHarness, admin: Administration, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = MERCHANTS_SHOWN + 5
    insert = "INSERT INTO webhook.outbox (merchant_id, type, object) SELECT $1, 'charge.created', '{}' FROM "
    for number in range(many):
        await storage.db.execute(insert + "generate_series(1, $2)", f"m{number:02}", number + 1)
    preview = await admin.preview_skip(Skip(None, await storage.now()))
    assert (preview.total, preview.more_merchants) == (sum(range(many + 1)), 5)
    assert list(preview.merchants)[:2] == ["m24", "m23"]
    monkeypatch.setattr("webhook_dispatcher.storage.administration.COUNT_LIMIT", 9)
    assert (await admin.preview_skip(Skip("m11", await storage.now()))).kinds == {"pending": 10}
    await storage.db.execute("UPDATE webhook.outbox SET created_at = created_at WHERE merchant_id < 'm03'")
    first = await admin.preview_skip(Skip(None, await storage.now()))
    assert first.merchants == {"m03": 4, "m02": 3, "m01": 2, "m00": 1}, "those that it would give up first"
    assert COUNT_LIMIT == 100_000


async def test_a_running_mass_command_is_stopped_and_that_is_audited(
    storage: StorageHarness, transaction: Transaction, admin: Administration
) -> None:
    ask = "INSERT INTO webhook.control (command, requested_by) VALUES ($1, 'ops') RETURNING id"
    recover, pause = await storage.db.fetchval(ask, "recover"), await storage.db.fetchval(ask, "pause")
    async with transaction() as opened:
        assert not await opened.is_stopping(recover)
        await opened.mark_running(recover, LEASE, {})
    assert await admin.stop_command(recover, "ana")
    assert not await admin.stop_command(pause, "ana")
    async with transaction() as opened:
        assert await opened.is_stopping(recover)
    audit = "SELECT person, action, before FROM webhook.audit ORDER BY id DESC LIMIT 1"
    assert [tuple(row) for row in await storage.db.fetch(audit)] == [
        ("ana", "command stopped", f'{{"id": {recover}}}')
    ]
    await storage.db.execute("UPDATE webhook.control SET status = 'done' WHERE id = $1", recover)
    assert not await admin.stop_command(recover, "ana")
    await storage.db.execute("SET ROLE webhook_observer")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await storage.db.execute("SELECT webhook.stop_command(1, 'x')")


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("retry_failed", {"matched": 0, "retried": 0, "stopped": True}),
        ("recover", {"matched": {}, "recovered": 0, "stopped": True}),
        ("skip", {"skipped": 0, "stopped": True}),
    ],
)
async def test_a_mass_command_that_has_not_begun_is_stopped_at_once(
    storage: StorageHarness,
    transaction: Transaction,
    admin: Administration,
    name: str,
    result: dict[str, Any],
) -> None:
    ask = "INSERT INTO webhook.control (command, requested_by) VALUES ($1, 'ops') RETURNING id"
    command = await storage.db.fetchval(ask, name)
    assert await admin.stop_command(command, "ana")
    assert not await admin.stop_command(command, "ana"), "it has ended"
    async with transaction() as opened:
        assert not await opened.take(command)
    [row] = await storage.db.fetch("SELECT * FROM webhook.control")
    assert (row["status"], json.loads(row["result"])) == ("done", result)
    assert row["handled_at"] is not None


async def test_whose_event_it_is_and_whether_that_is_paused(
    storage: StorageHarness, here: Daemon, admin: Administration
) -> None:
    await storage.insert("m")
    event = await storage.db.fetchval("SELECT id FROM webhook.outbox")
    assert here.name == "here"
    for paused, everything in [(False, False), (True, False), (True, True)]:
        await storage.db.execute("UPDATE webhook.lane SET paused = $1", paused)
        await storage.db.execute("UPDATE webhook.state SET paused = $1", everything)
        found = await admin.find_pause_of(event)
        assert found is not None
        assert (found.merchant_id, found.merchant_is_paused, found.everything_is_paused) == (
            "m",
            paused,
            everything,
        )
    assert await admin.find_pause_of(await storage.db.fetchval("SELECT gen_random_uuid()")) is None
    again = await storage.db.fetchval("UPDATE webhook.outbox SET id = $1 RETURNING id", uuid4())
    for merchant in ("before", "m", "after"):
        old = await log(storage, merchant)
        await storage.db.execute("UPDATE webhook.delivery_log SET event_id = $1 WHERE seq = $2", again, old)
    for whose in ("m", "after"):
        reused = await admin.find_pause_of(again)
        assert reused is not None
        assert reused.merchant_id == whose, "what is owed, then the latest"
        await storage.db.execute("DELETE FROM webhook.outbox")


async def test_the_platform_is_left_out_of_what_is_done_to_all(
    storage: StorageHarness, here: Daemon, transaction: Transaction, admin: Administration
) -> None:
    await storage.configure(PLATFORM)
    logged = {name: await log(storage, name, "failed") for name in ("m", PLATFORM)}
    waiting = {name: (await storage.insert_due(name, 3600))[0] for name in ("m", PLATFORM) if name == "m"}
    waiting[PLATFORM] = await storage.db.fetchval(OWE_NOTICE)
    for merchant, names in ((None, ["m"]), (PLATFORM, [PLATFORM])):
        wanted = await command(storage, merchant, until=await storage.now() + timedelta(minutes=1))
        assert await look_through(transaction, wanted) == [logged[name] for name in names]
        skip = Skip(merchant, wanted.until)
        async with transaction() as opened:
            assert (await opened.find_waiting(wanted, 0, 10)).seqs == [waiting[name] for name in names]
            assert (await opened.find_skippable(skip, 0, 10)).seqs == [waiting[name] for name in names]
        assert (await admin.preview_recovery(wanted)).merchants == dict.fromkeys(names, 2)
        assert (await admin.preview_skip(skip)).merchants == dict.fromkeys(names, 1)


async def test_a_late_answer_to_an_earlier_attempt_does_not_end_what_is_sent_again(
    storage: StorageHarness, here: Daemon, transaction: Transaction
) -> None:
    (seq,) = await storage.insert("m")
    old, (event,) = await here.claim("m", lease=LAPSED)
    sent_at = await storage.now()
    there = await storage.daemon("there")
    (new,) = await there.lease("m")
    (same,) = await there.read("m")
    await there.records.write([answered(same, new.epoch, await storage.now(), 200)], [], LEASE)
    _, reopened = await reopen(transaction, await command(storage, "m"))
    assert reopened == (seq,)
    assert await here.records.write_late(answered(event, old.epoch, sent_at, 200)), "it is settled"
    assert await storage.owed(seq) is not None
    again = event._replace(attempts=1)
    assert await here.records.write_late(answered(again, old.epoch, await storage.now(), 200))
    assert await storage.owed(seq) is None, "the attempt of the replay itself ends it, however late"


async def test_who_lost_a_command_cannot_end_it_while_another_carries_it_out(
    storage: StorageHarness, transaction: Transaction
) -> None:
    ask = "INSERT INTO webhook.control (command, args, requested_by) VALUES ('skip', '{}', 'a') RETURNING id"
    asked = await storage.db.fetchval(ask)
    async with transaction() as mine:
        lapsed = await mine.mark_running(asked, timedelta(), {})
    async with transaction() as theirs:
        held = await theirs.mark_running(asked, LEASE, {})
    with pytest.raises(LeaseLost):
        async with transaction() as mine:
            await mine.finish(asked, {}, lapsed)
    async with transaction() as theirs:
        await theirs.finish(asked, {}, held)
