"""Rows that the database cannot read any more: what is refused, and how the statements get past them."""

from datetime import datetime, timedelta
from secrets import token_bytes

import pytest

from tests.integration.damage import damaging, large_object
from tests.integration.workbench import LEASE, Workbench, seqs, unsent
from webhook_dispatcher.domain.claim import RunAsk
from webhook_dispatcher.domain.command import LONG_AGO, Code, CommandRejected, RetryFailed
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.event import Event, FailedReason, State, Trigger
from webhook_dispatcher.domain.record import LaneTurn, Record
from webhook_dispatcher.storage.controls import PostgresControls

PLACES = 2


async def insert_damaged(bench: Workbench, merchant: str, *, is_stuck: bool = False) -> int:
    async with damaging(bench.db, is_stuck=is_stuck):
        [seq] = await bench.insert(merchant, large_object())
    return seq


async def insert_damaged_due(bench: Workbench, merchant: str, *, is_stuck: bool = False) -> int:
    async with damaging(bench.db, is_stuck=is_stuck):
        [seq] = await bench.insert_due(merchant, -1)
        await bench.db.execute("UPDATE webhook.outbox SET object = $2 WHERE seq = $1", seq, large_object())
    return seq


def ask(merchant: str, after: int = 0, most: int = 20) -> RunAsk:
    return RunAsk(merchant, after, most, 1 << 20)


async def test_a_damaged_event_is_refused_with_all_that_is_read_with_it(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    await bench.insert("well")
    seq = await insert_damaged(bench, "ill")
    with pytest.raises(StatementRefused) as refused:
        await daemon.claims.read_runs([ask("well"), ask("ill")])
    assert refused.value.is_damage
    assert refused.value.blames_the_row
    suspect = await daemon.claims.read_suspect("ill", 0)
    assert suspect is not None
    assert (suspect.seq, suspect.object, suspect.is_unreadable) == (seq, b"", True)


def unreadable(event: Event, fence: int, at: datetime) -> Record:
    return Record(event, fence, False, None, State.FAILED, FailedReason.UNSENDABLE, None, at)


async def test_a_damaged_event_is_finished_without_its_object_under_its_fence(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    seq = await insert_damaged(bench, "m")
    [lease] = await daemon.lease("m")
    event = await daemon.claims.read_suspect("m", 0)
    assert event is not None
    now = await bench.now()
    stale = await daemon.records.write([unreadable(event, lease.epoch - 1, now)], [], LEASE)
    assert stale.seqs == frozenset()
    turn = LaneTurn("m", lease.epoch, True, seq)
    written = await daemon.records.write([unreadable(event, lease.epoch, now)], [turn], LEASE)
    assert written.seqs == {seq}
    assert written.released == ("m",)
    assert await bench.owed(seq) is None
    logged = await bench.logged(seq)
    assert logged is not None
    assert (logged["object"], logged["state"], logged["failed_reason"]) == ("null", "failed", "unsendable")
    assert (logged["attempts"], await bench.attempts(event)) == (0, [])
    assert (await bench.lane("m"))["from_seq"] == seq


async def test_only_a_damaged_row_proves_to_be_unreadable_and_nothing_is_deleted(bench: Workbench) -> None:
    records = (await bench.daemon("d")).records
    [well] = await bench.insert("m", large_object())
    ill = await insert_damaged(bench, "m")
    stuck = await insert_damaged(bench, "m", is_stuck=True)
    gone = stuck + 1
    assert [await records.is_unreadable(seq) for seq in (well, ill, stuck, gone)] == [
        False,
        True,
        True,
        False,
    ]
    assert [await records.is_stuck(seq) for seq in (well, ill, stuck, gone)] == [False, False, True, False]
    assert await bench.db.fetchval("SELECT count(*) FROM webhook.outbox") == 3
    await bench.db.execute("REVOKE SELECT ON webhook.outbox FROM webhook_dispatcher")
    with pytest.raises(StatementRefused):
        await records.is_unreadable(ill)


async def test_a_readable_event_keeps_its_object_in_the_same_statement(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    [first] = await bench.insert("m", '{"id":"ch_1"}')
    second = await insert_damaged(bench, "m")
    [lease] = await daemon.lease("m")
    [event] = (await daemon.claims.read_runs([ask("m", most=1)]))["m"]
    suspect = await daemon.claims.read_suspect("m", first)
    assert suspect is not None
    now = await bench.now()
    records = [unreadable(event, lease.epoch, now), unreadable(suspect, lease.epoch, now)]
    written = await daemon.records.write(records, [], LEASE)
    assert written.seqs == {first, second}
    kept, lost = await bench.logged(first), await bench.logged(second)
    assert kept is not None
    assert lost is not None
    assert (kept["object"], lost["object"]) == ('{"id":"ch_1"}', "null")


async def test_one_damaged_row_refuses_a_whole_claim_and_is_found_among_many(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    merchants = [f"m{number}" for number in range(7)]
    due = [(await bench.insert_due(merchant, -1))[0] for merchant in merchants]
    bad = await insert_damaged_due(bench, "m3")
    with pytest.raises(StatementRefused):
        await daemon.claims.claim_retries(200, PLACES, 200, LEASE)
    apart = await daemon.claims.claim_retries_apart(200, PLACES, 200, LEASE, may_close=10)
    assert sorted(seqs([retry.event for retry in apart.claimed])) == due
    assert [(row.event.seq, row.is_closed) for row in apart.unreadable] == [(bad, True)]
    logged = await bench.logged(bad)
    assert logged is not None
    assert (logged["object"], logged["state"], logged["failed_reason"]) == ("null", "failed", "unsendable")
    assert logged["attempts"] == 1
    assert await daemon.claims.claim_retries(200, PLACES, 200, LEASE) == []
    assert (await bench.lane("m3"))["retry_at"] > await bench.now()


async def test_claims_are_the_same_apart_with_nothing_damaged(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    due = await bench.insert_due("m", -3, -2, -1)
    apart = await daemon.claims.claim_retries_apart(200, PLACES, 200, LEASE, may_close=10)
    assert seqs([retry.event for retry in apart.claimed]) == due[:PLACES]
    assert apart.unreadable == ()


async def test_places_and_the_most_of_a_claim_hold_beside_a_damaged_row(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    await insert_damaged_due(bench, "m")
    due = await bench.insert_due("m", -0.9, -0.8, -0.7)
    others = [(await bench.insert_due(f"n{number}", -0.1))[0] for number in range(4)]
    apart = await daemon.claims.claim_retries_apart(200, PLACES, 4, LEASE, may_close=10)
    claimed = seqs([retry.event for retry in apart.claimed])
    assert len(claimed) == 4
    assert set(claimed) <= {*due[:PLACES], *others}


async def test_a_delivered_event_stays_so_when_it_cannot_be_read_again(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    seq = await insert_damaged_due(bench, "m")
    async with damaging(bench.db):
        await bench.db.execute(
            "UPDATE webhook.outbox SET object = $2, on_failure = 'delivered' WHERE seq = $1",
            seq,
            large_object(),
        )
    await daemon.claims.claim_retries_apart(200, PLACES, 200, LEASE, may_close=1)
    logged = await bench.logged(seq)
    assert logged is not None
    assert (logged["state"], logged["failed_reason"]) == ("delivered", None)


@pytest.mark.parametrize(("is_stuck", "may_close"), [(True, 10), (False, 0)])
async def test_a_row_that_cannot_or_may_not_be_finished_holds_up_no_other(
    bench: Workbench, is_stuck: bool, may_close: int
) -> None:
    daemon = await bench.daemon("d")
    bad = [await insert_damaged_due(bench, "m", is_stuck=is_stuck) for _ in range(PLACES)]
    due = await bench.insert_due("m", -0.5)  # a place stays free, which lets it be looked for at once
    apart = await daemon.claims.claim_retries_apart(200, PLACES, 200, LEASE, may_close)
    assert seqs([retry.event for retry in apart.claimed]) == due
    assert [(row.event.seq, row.is_closed) for row in apart.unreadable] == [(seq, False) for seq in bad]
    lane = await bench.lane("m")
    assert lane["retry_at"] > await bench.now(), "not looked for at every poll"
    assert lane["retry_at"] < await bench.now() + timedelta(minutes=1)


async def test_what_is_refused_for_want_of_rights_finishes_nothing(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    [seq] = await bench.insert_due("m", -1)
    await bench.db.execute("REVOKE USAGE ON SEQUENCE webhook.claim_token FROM webhook_dispatcher")
    with pytest.raises(StatementRefused) as refused:
        await daemon.claims.claim_retries(200, PLACES, 200, LEASE)
    assert not refused.value.blames_the_row
    with pytest.raises(StatementRefused):
        await daemon.claims.claim_retries_apart(200, PLACES, 200, LEASE, may_close=10)
    assert await bench.owed(seq) is not None


async def test_an_event_without_object_is_not_sent_by_hand(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    lost = await insert_damaged_due(bench, "m")
    await daemon.claims.claim_retries_apart(200, PLACES, 200, LEASE, may_close=10)
    logged = await bench.logged(lost)
    assert logged is not None
    controls = PostgresControls(daemon.pool)
    async with controls.transaction() as transaction:
        delivery = await transaction.find_delivery(logged["event_id"])
        with pytest.raises(CommandRejected, match="could not be read") as rejected:
            await transaction.reopen(delivery)
        assert rejected.value.code is Code.WRONG_STATE
        await transaction.pause(None, False)  # the transaction goes on
    assert await bench.owed(lost) is None


async def test_a_mass_retry_can_pass_over_what_it_is_refused(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    await bench.db.execute(
        "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ('m', 'https://m', '', 'k')"
    )
    good, lost = await bench.insert_due("m", -2), await insert_damaged_due(bench, "m")
    apart = await daemon.claims.claim_retries_apart(200, PLACES, 200, LEASE, may_close=10)
    now = await bench.now()
    [retry] = apart.claimed
    failed = unsent(retry.event, retry.claim, now, FailedReason.UNSENDABLE, is_retry=True)
    await daemon.records.write([failed], [], LEASE)
    controls = PostgresControls(daemon.pool)
    command = RetryFailed("m", LONG_AGO, await bench.now() + timedelta(hours=1), 100)
    with pytest.raises(StatementRefused) as refused:
        async with controls.transaction() as transaction:
            await transaction.reopen_failed(command, (LONG_AGO, -1), 100)
    assert refused.value.blames_the_row
    assert await bench.owed(lost) is None
    async with controls.transaction() as transaction:
        passed = await transaction.skip_failed(command, (LONG_AGO, -1))
        assert passed is not None
        assert (passed.matched, passed.retried, passed.reached[1]) == (1, 0, lost)
        chunk = await transaction.reopen_failed(command, passed.reached, 100)
        assert chunk is not None
        assert (chunk.matched, chunk.retried) == (1, 1)
        assert await transaction.skip_failed(command, chunk.reached) is None
    assert [await bench.owed(seq) is not None for seq in good] == [True]


async def test_an_endpoint_that_cannot_be_read_is_refused_with_all_that_are_read_with_it(
    bench: Workbench,
) -> None:
    daemon = await bench.daemon("d")
    put = "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ($1, 'https://m', $2, 'k')"
    await bench.db.execute(put, "well", b"secret")
    async with damaging(bench.db, "webhook.endpoint"):
        await bench.db.execute(put, "ill", token_bytes(8_000))
    with pytest.raises(StatementRefused) as refused:
        await daemon.claims.read_endpoints(["well", "ill"])
    assert refused.value.is_damage


async def test_what_only_an_edit_can_have_put_into_a_row_does_not_stop_the_read(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    await bench.insert("m")
    await bench.db.execute("UPDATE webhook.outbox SET trigger = 'whim', on_failure = 'pending'")
    [event] = (await daemon.claims.read_runs([ask("m")]))["m"]
    assert (event.trigger, event.on_failure) == (Trigger.SCHEDULE, None)


async def test_a_command_that_cannot_be_read_can_be_rejected_in_the_same_transaction(
    bench: Workbench,
) -> None:
    daemon = await bench.daemon("d")
    put = (
        "INSERT INTO webhook.control (command, args, requested_by) VALUES ('pause', $1, 'test') RETURNING id"
    )
    async with damaging(bench.db, "webhook.control"):
        unread = await bench.db.fetchval(put, large_object())
    later = await bench.db.fetchval(put, "{}")
    controls = PostgresControls(daemon.pool)
    async with controls.transaction() as transaction:
        assert await transaction.next_command([]) == unread
        with pytest.raises(StatementRefused) as refused:
            await transaction.read_command(unread)
        assert refused.value.blames_the_row
        await transaction.reject(unread, Code.MALFORMED, "it cannot be read")
        assert await transaction.next_command([]) == later
        assert (await transaction.read_command(later)).name == "pause"


async def test_a_row_that_cannot_even_be_named_blocks_its_own_lane_alone(bench: Workbench) -> None:
    daemon = await bench.daemon("d")
    await bench.db.execute("ALTER TABLE webhook.outbox DROP CONSTRAINT event_can_be_sent")
    [strange] = await bench.insert_due("ill", -1)
    await bench.insert("ill")
    due = await bench.insert_due("well", -1)
    async with damaging(bench.db):
        await bench.db.execute(
            "UPDATE webhook.outbox SET type = $1 WHERE merchant_id = 'ill'", large_object()
        )
    with pytest.raises(StatementRefused):
        await daemon.claims.read_runs([ask("ill")])
    with pytest.raises(StatementRefused):
        await daemon.claims.claim_retries(200, PLACES, 200, LEASE)
    apart = await daemon.claims.claim_retries_apart(200, PLACES, 200, LEASE, may_close=10)
    assert seqs([retry.event for retry in apart.claimed]) == due
    assert (apart.unreadable, list(apart.blocked)) == ((), ["ill"])
    claimed = await bench.db.fetchval("SELECT claim FROM webhook.outbox WHERE seq = $1", strange)
    assert claimed is None
