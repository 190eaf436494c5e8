"""What an endpoint does not want goes into the log without a state, in its turn and under the fence."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
import pytest

from tests.integration.api_harness import api_pool, token_of
from tests.integration.storage_harness import GATED, LAPSED, LEASE, Daemon, StorageHarness, answered
from webhook_dispatcher.dispatch.attempt import pass_over
from webhook_dispatcher.domain.claim import Lease
from webhook_dispatcher.domain.event import Event, State
from webhook_dispatcher.domain.record import LaneTurn, Record
from webhook_dispatcher.storage.api.deliveries import NEWEST, Deliveries, Filter
from webhook_dispatcher.storage.controls import PostgresControls

HOLD_ROW = "SELECT FROM webhook.outbox WHERE seq = $1 FOR UPDATE"
FILTER = "UPDATE webhook.endpoint SET types = $1 WHERE merchant_id = 'm'"
STATE = "SELECT compatible_from FROM webhook.state"
OLDER = """
INSERT INTO webhook.dispatcher (
    owner, host, version, started_at, beat_at, lanes, attempts_in_flight, is_ready, reasons, faults
)
VALUES ('o', 'old-host', '0.9', clock_timestamp(), clock_timestamp() - $1::interval, 1, 1, true, '{}', '{}')
"""
UNWANTED = """
INSERT INTO webhook.delivery_log (
    seq, event_id, merchant_id, type, created_at, object, attempts, finished_at
)
SELECT
    nextval('webhook.outbox_seq_seq'), gen_random_uuid(), 'm', 'charge.created', clock_timestamp(), '{}', 0,
    clock_timestamp()
FROM generate_series(1, $1)
"""


async def passed_over(
    storage: StorageHarness, *, events: int = 1, lease: timedelta = LEASE
) -> tuple[Daemon, Lease, list[Event], list[Record]]:
    """Let a daemon judge that the merchant's events are not wanted; nothing is written yet."""
    await storage.configure("m")
    await storage.db.execute(FILTER, ["charge.failed"])
    await storage.insert("m", *["{}"] * events)
    here = await storage.daemon("here")
    held, run = await here.claim("m", lease=lease)
    at = await storage.now()
    return here, held, run, [pass_over(event, held.epoch, at) for event in run]


async def written(here: Daemon, held: Lease, records: Sequence[Record], *, is_over: bool = True) -> list[int]:
    turn = LaneTurn(held, is_over, max(record.event.seq for record in records))
    return sorted((await here.records.write(records, [turn], LEASE)).seqs)


async def test_it_goes_into_the_log_as_no_delivery_and_the_lane_goes_on(storage: StorageHarness) -> None:
    await storage.configure("$platform")
    here, held, run, records = await passed_over(storage, events=2)
    before = await storage.owed(run[0].seq)
    assert before is not None
    assert await written(here, held, records) == [run[0].seq, run[1].seq]
    row = await storage.logged(run[0].seq)
    assert row is not None
    assert (row["state"], row["failed_reason"], row["attempts"], row["last_outcome"]) == (None, None, 0, None)
    assert [row[name] for name in ("xid", "object", "created_at", "type")] == [
        before[name] for name in ("xid", "object", "created_at", "type")
    ]
    assert ((await storage.lane("m"))["from_seq"], (await storage.lane("m"))["is_leased"]) == (
        run[1].seq,
        False,
    )
    assert (await storage.lane("m"))["failing_since"] is None
    counts = {
        view: await storage.db.fetchval(f"SELECT count(*) FROM webhook.{view}")
        for view in ("deliveries", "finished", "logged", "charges", "attempts", "unreported_failure")
    }
    assert counts == {
        **{"deliveries": 0, "finished": 0, "attempts": 0, "unreported_failure": 0},
        **{"logged": 2, "charges": 2},
    }
    # Written again, as after a COMMIT whose answer was lost, it changes nothing.
    everything = await storage.everything()
    assert await written(here, held, records) == []
    assert await storage.everything() == everything
    assert await here.records.read_unwritten(records) == frozenset()


async def test_a_filter_that_changes_while_it_is_being_written_keeps_it_owed(storage: StorageHarness) -> None:
    """The statement has its snapshot, of before the change, and then waits for the lane."""
    await storage.hang_door("lane")
    _, held, [event], records = await passed_over(storage)
    late = await storage.daemon("here", application_name=GATED)
    writing = late.records.write(records, [LaneTurn(held, True, event.seq)], LEASE)
    async with storage.held_at_the_door(writing) as pending:
        await storage.db.execute(FILTER, None)
    done = await pending
    assert (done.seqs, done.recalled, done.released) == (frozenset(), ("m",), ())
    assert await late.records.read_unwritten(records) == frozenset(), "another session judges it"
    assert await storage.owed(event.seq) is not None
    assert (await storage.lane("m"))["from_seq"] < event.seq


async def test_a_recalled_lane_writes_what_was_attempted_and_nothing_that_was_passed_over(
    storage: StorageHarness,
) -> None:
    here, held, [sent, unwanted], records = await passed_over(storage, events=2)
    await storage.db.execute(FILTER, None)
    outcome = answered(sent, held.epoch, await storage.now(), 200)
    assert await written(here, held, [outcome, records[1]]) == [sent.seq]
    assert await storage.owed(unwanted.seq) is not None
    # Its holder learns that, and releases the lane; the next one reads it.
    released = await here.records.write([], [LaneTurn(held, True, unwanted.seq)], LEASE)
    assert released.released == ("m",)
    [again], _ = await here.lease("m"), None
    assert [event.seq for event in await here.read("m", after=again.from_seq)] == [unwanted.seq]


async def test_a_locked_row_is_written_later_and_not_passed_by(storage: StorageHarness) -> None:
    here, held, run, records = await passed_over(storage, events=3)
    operator = await storage.session()
    async with operator.transaction():
        await operator.execute(HOLD_ROW, run[1].seq)
        assert await written(here, held, records) == [run[0].seq, run[2].seq]
        assert await here.records.read_unwritten(records) == {run[1].seq}
        lane = await storage.lane("m")
        assert (lane["from_seq"], lane["is_leased"]) == (run[0].seq, True)
    assert await written(here, held, records[1:2]) == [run[1].seq]


async def test_under_a_lost_epoch_nothing_is_passed_over(storage: StorageHarness) -> None:
    here, held, [event], records = await passed_over(storage, lease=LAPSED)
    await storage.db.execute(FILTER, None)
    there = await storage.daemon("there")
    [other] = await there.lease("m")
    assert await written(here, held, records) == []
    assert (await here.records.read_unwritten(records), await here.records.write_late(records[0])) == (
        frozenset(),
        True,
    )
    sent = answered(event, other.epoch, await storage.now(), 200)
    assert await written(there, other, [sent]) == [event.seq]
    row = await storage.logged(event.seq)
    assert row is not None
    assert row["state"] == State.DELIVERED


@pytest.mark.parametrize(("status", "state"), [(200, "delivered"), (500, None)])
async def test_an_answer_that_comes_after_it_was_passed_over(
    storage: StorageHarness, status: int, state: str | None
) -> None:
    """Its sender lost the lane, and who has it goes by a newer filter. What was accepted is a delivery."""
    here, held, [event], _ = await passed_over(storage, lease=LAPSED)
    at = await storage.now()
    there = await storage.daemon("there")
    [other] = await there.lease("m")
    assert await written(there, other, [pass_over(event, other.epoch, at)]) == [event.seq]
    outcome = answered(event, held.epoch, at, status)
    assert await written(here, held, [outcome]) == []
    assert await here.records.write_late(outcome)
    row = await storage.logged(event.seq)
    assert row is not None
    assert (row["state"], len(await storage.attempts(event))) == (state, 1)


async def test_no_command_finds_it(storage: StorageHarness) -> None:
    here, held, [event], records = await passed_over(storage)
    await written(here, held, records)
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.find_deliveries([event.id]) == {}
    # Whose it is, is whose delivery had the same id before.
    await storage.db.execute(
        """
        INSERT INTO webhook.delivery_log (
            seq, event_id, merchant_id, type, created_at, object, state, attempts, finished_at
        )
        VALUES (0, $1, 'other', 'charge.created', clock_timestamp(), '{}', 'delivered', 1, clock_timestamp())
        """,
        event.id,
    )
    retry = "INSERT INTO webhook.control (command, event_id, requested_by) VALUES ('retry', $1, 'ana')"
    assert await storage.db.fetchval(f"{retry} RETURNING subject", event.id) == "other"


async def test_a_page_of_deliveries_looks_at_no_more_rows_for_what_was_not_wanted(
    storage: StorageHarness,
) -> None:
    """2,500 newer ones that nobody wanted are three pages of 1,000 rows; behind them is the delivery."""
    token_hash = await token_of(storage.db, "m")
    [seq] = await storage.insert("m")
    await storage.finish(seq)
    await storage.db.execute(UNWANTED, 2_500)
    async with api_pool(storage.database) as pool:
        pages = [await Deliveries(pool).list(token_hash, Filter(), NEWEST, 20)]
        while pages[-1].position is not None:
            pages.append(await Deliveries(pool).list(token_hash, Filter(), pages[-1].position, 20))
    assert [[delivery.seq for delivery in page.deliveries] for page in pages] == [[], [], [seq]]


@pytest.mark.parametrize("types", [[], ["charge.failed", None], ["charge,failed"], ["x" * 65], ["-"], [""]])
async def test_a_filter_that_names_nothing_is_refused(
    storage: StorageHarness, types: list[str | None]
) -> None:
    await storage.configure("m")
    with pytest.raises(asyncpg.CheckViolationError, match="types_are_1_to_64_names"):
        await storage.db.execute(FILTER, types)


async def test_older_dispatchers_are_seen_before_and_refused_as_long_as_there_is_a_filter(
    storage: StorageHarness,
) -> None:
    await storage.configure("m", "n")
    before = await storage.db.fetchval(STATE)
    await storage.db.execute(OLDER, timedelta(seconds=5))
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match=r"old-host \(0\.9\)"):
        await storage.db.execute(FILTER, ["charge.failed"])
    await storage.db.execute("UPDATE webhook.endpoint SET url = url || 'x'")
    assert await storage.db.fetchval(STATE) == before, "without a filter everybody is served"
    await storage.db.execute("UPDATE webhook.dispatcher SET beat_at = beat_at - interval '1 minute'")
    await storage.db.execute("UPDATE webhook.endpoint SET types = '{charge.failed}'")
    assert await storage.db.fetchval(STATE) == 23
    await storage.db.execute(FILTER, None)
    assert await storage.db.fetchval(STATE) == 23
    await storage.db.execute("DELETE FROM webhook.endpoint WHERE merchant_id = 'n'")
    assert await storage.db.fetchval(STATE) == before
    assert await storage.db.fetchval(
        "SELECT array_agg(action ORDER BY id) FROM webhook.audit WHERE merchant_id = 'm'"
    ) == ["endpoint set", "url changed", "types changed", "types changed"]


async def test_the_last_two_filters_that_go_at_once_serve_older_programs_again(
    storage: StorageHarness,
) -> None:
    await storage.configure("m", "n")
    before = await storage.db.fetchval(STATE)
    await storage.db.execute("UPDATE webhook.endpoint SET types = '{charge.failed}'")
    one, other = await storage.session(user="postgres"), await storage.session(user="postgres")
    async with one.transaction():
        await one.execute(FILTER, None)
        removing = asyncio.ensure_future(
            other.execute("UPDATE webhook.endpoint SET types = NULL WHERE merchant_id = 'n'")
        )
        await storage.until_waiting("session", removing)
    await removing
    assert await storage.db.fetchval(STATE) == before
