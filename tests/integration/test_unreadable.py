"""Rows that the database cannot read any more: what is refused, what finds them, and what operators do."""

from datetime import timedelta
from secrets import token_bytes

import pytest

from tests.integration.storage_harness import LEASE, StorageHarness, answered, find_delivery, seqs
from tests.servers.damage import PAGE, damaging, documented, large_object
from webhook_dispatcher.app.clock import SystemClock
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.domain.claim import DueRow
from webhook_dispatcher.domain.command import LONG_AGO, Code, CommandRejected, Queue, RetryFailed, Skip
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.event import State, Trigger
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.telemetry.metrics import Metrics

PLACES = 2


async def insert_damaged(storage: StorageHarness, merchant: str, *, is_stuck: bool = False) -> int:
    async with damaging(storage.db, is_stuck=is_stuck):
        [seq] = await storage.insert(merchant, large_object())
    return seq


async def insert_damaged_due(storage: StorageHarness, merchant: str, *, on_failure: str | None = None) -> int:
    async with damaging(storage.db):
        [seq] = await storage.insert_due(merchant, -15)
        await storage.db.execute(
            "UPDATE webhook.outbox SET object = $2, on_failure = $3 WHERE seq = $1",
            seq,
            large_object(),
            on_failure,
        )
    return seq


def ask(merchant: str) -> tuple[str, int, int, int]:
    return merchant, 0, 20, 1 << 20


async def test_a_damaged_event_is_refused_with_all_that_is_read_with_it_and_can_be_named(
    storage: StorageHarness,
) -> None:
    daemon = await storage.daemon("d")
    await storage.insert("well")
    seq = await insert_damaged(storage, "ill")
    with pytest.raises(StatementRefused) as refused:
        await daemon.runs(ask("well"), ask("ill"))
    assert refused.value.is_damage
    assert refused.value.is_row_fault
    following = await daemon.claims.read_next("ill", 0)
    assert following is not None
    assert (following.seq, following.object) == (seq, b"")
    assert await daemon.claims.read_next("ill", seq) is None


async def test_only_a_damaged_row_proves_to_be_unreadable(storage: StorageHarness) -> None:
    records = (await storage.daemon("d")).records
    well, odd = await storage.insert("m", large_object(), "{}")
    await storage.db.execute("ALTER TABLE webhook.outbox DROP CONSTRAINT event_can_be_sent")
    await storage.db.execute("UPDATE webhook.outbox SET object = '[]' WHERE seq = $1", odd)
    ill, stuck = await insert_damaged(storage, "m"), await insert_damaged(storage, "m", is_stuck=True)
    gone = stuck + 1
    damaged = [seq for seq in (well, odd, ill, stuck, gone) if await records.is_unreadable(seq)]
    assert damaged == [ill, stuck]
    await storage.db.execute("REVOKE SELECT ON webhook.outbox FROM webhook_dispatcher")
    with pytest.raises(StatementRefused):
        await records.is_unreadable(ill)


async def test_one_damaged_due_row_refuses_a_whole_claim_and_all_others_are_claimed_without_it(
    storage: StorageHarness,
) -> None:
    claims = (await storage.daemon("d")).claims
    merchants = [f"m{number}" for number in range(7)]
    bad = [await insert_damaged_due(storage, "m3") for _ in range(PLACES)]
    due = [(await storage.insert_due(merchant, -0.5))[0] for merchant in merchants]
    with pytest.raises(StatementRefused):
        await claims.claim_longest_due(200, PLACES, 200, LEASE)
    named = await claims.name_due(merchants, PLACES, [])
    assert sorted(row.seq for row in named if row.lane == "m3") == bad
    assert len(named) == len(bad) + 6
    for row in named:
        if row.seq in bad:
            with pytest.raises(StatementRefused) as refused:
                await claims.try_rows([row])
            assert refused.value.is_damage
    await claims.try_rows([row for row in named if row.seq not in bad])
    claimed = await claims.claim_longest_due(200, PLACES, 200, LEASE, bad)
    assert sorted(seqs([retry.event for retry in claimed])) == due
    assert (await storage.lane("m0"))["retry_at"] > await storage.now() + timedelta(seconds=20)
    looked_at_again = (await storage.lane("m3"))["retry_at"] - await storage.now()
    assert timedelta(0) < looked_at_again < timedelta(seconds=1), "behind what is due, and before it lapses"


async def test_a_due_row_that_can_be_read_and_not_be_claimed_stops_its_own_lane_alone(
    storage: StorageHarness,
) -> None:
    claims = (await storage.daemon("d")).claims
    [bad] = await storage.insert_due("ill", -20)
    good = await storage.insert_due("well", -1)
    await storage.db.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'index contains unexpected zero page' USING ERRCODE = 'XX002'; END $$; "
        "CREATE TRIGGER refuse BEFORE UPDATE ON webhook.outbox "
        f"FOR EACH ROW WHEN (OLD.seq = {bad}) EXECUTE FUNCTION refuse()"
    )
    unreadable = Unreadable(claims, Instruments.of(SystemClock(), Metrics("test")))
    claimed = await unreadable.claim_longest_due(200, PLACES, 200, LEASE)
    assert seqs([retry.event for retry in claimed]) == good
    assert not await unreadable.claim_longest_due(200, PLACES, 200, LEASE)
    assert (await storage.lane("ill"))["retry_at"] > await storage.now() + timedelta(seconds=10)
    await storage.db.execute("DROP TRIGGER refuse ON webhook.outbox")
    await storage.db.execute("UPDATE webhook.lane SET retry_at = '-infinity' WHERE merchant_id = 'ill'")
    claimed = await unreadable.claim_longest_due(200, PLACES, 200, LEASE)
    assert seqs([retry.event for retry in claimed]) == [bad]


async def test_a_lane_whose_row_in_order_is_left_alone_is_looked_at_when_something_is_due(
    storage: StorageHarness,
) -> None:
    claims = (await storage.daemon("d")).claims
    [in_order] = await storage.insert("m")
    due = await storage.insert_due("m", -1)
    claimed = await claims.claim_longest_due(200, PLACES, 200, LEASE, [in_order])
    assert seqs([retry.event for retry in claimed]) == due
    assert (await storage.lane("m"))["retry_at"] > await storage.now() + LEASE / 2


async def test_a_due_row_that_breaks_a_rule_is_closed_with_its_object(storage: StorageHarness) -> None:
    claims = (await storage.daemon("d")).claims
    [seq] = await storage.insert_due("m", -1)
    [later] = await storage.insert_due("m", 60)
    await storage.db.execute("ALTER TABLE webhook.outbox DROP CONSTRAINT event_can_be_sent")
    await storage.db.execute("UPDATE webhook.outbox SET object = '[]'")
    rows = [DueRow("m", number, (await storage.owed(number))["id"]) for number in (seq, later)]  # type: ignore[index]
    with pytest.raises(StatementRefused) as refused:
        await claims.try_rows(rows[:1])
    assert (refused.value.is_row_fault, refused.value.is_damage) == (True, False)
    assert [await claims.close_row(row) for row in rows] == [(State.FAILED, "charge.created"), None]
    logged = await storage.logged(seq)
    assert logged is not None
    assert (logged["object"], logged["failed_reason"], logged["attempts"]) == ("[]", "unsendable", 1)
    assert await storage.owed(later) is not None


async def test_lanes_whose_due_rows_cannot_be_named_are_looked_at_later(storage: StorageHarness) -> None:
    claims = (await storage.daemon("d")).claims
    await storage.insert_due("m", -1)
    await claims.look_later(["m"], timedelta(seconds=15))
    assert (await storage.lane("m"))["retry_at"] > await storage.now() + timedelta(seconds=10)
    assert await claims.claim_longest_due(200, PLACES, 200, LEASE) == []


async def test_the_outcome_of_a_row_that_was_quarantined_meanwhile_is_written_late(
    storage: StorageHarness,
) -> None:
    daemon = await storage.daemon("d")
    async with damaging(storage.db):
        [seq] = await storage.insert("m", large_object())
        lease, [event] = await daemon.claim("m")
    record = answered(event, lease.epoch, await storage.now(), 200)
    with pytest.raises(StatementRefused) as refused:
        await daemon.records.write([record], [], LEASE)
    assert refused.value.is_damage
    assert await daemon.records.read_unwritten([record]) == {seq}
    await (await storage.session()).execute(documented("quarantine", seq))
    assert (await daemon.records.write([record], [], LEASE)).seqs == frozenset()
    assert await daemon.records.read_unwritten([record]) == frozenset()
    assert await daemon.records.write_late(record)
    logged = await storage.logged(seq)
    assert logged is not None
    assert (logged["state"], logged["failed_reason"], logged["object"]) == ("delivered", None, "null")
    assert len(await storage.attempts(event)) == 1


@pytest.mark.parametrize("is_stuck", [False, True], ids=["", "with its remains"])
async def test_the_documented_statements_restore_a_row_or_move_it_out_of_the_way(
    storage: StorageHarness, is_stuck: bool
) -> None:
    daemon = await storage.daemon("d")
    restored, quarantined = [await insert_damaged(storage, "m", is_stuck=is_stuck) for _ in range(2)]
    [behind] = await storage.insert("m")
    operator = await storage.session()
    statements = [documented("restore", restored), documented("quarantine", quarantined)]
    if is_stuck:
        for statement in statements:
            with pytest.raises(Exception, match="tuple concurrently deleted"):
                await operator.execute(statement)
        assert "`tuple concurrently deleted`" in PAGE
        await storage.db.execute(documented("clear"))
    for statement in statements:
        await operator.execute(statement)
    events = await daemon.read("m")
    assert [(event.seq, event.object) for event in events] == [(restored, b'{"id":"ch_1"}'), (behind, b"{}")]
    logged = await storage.logged(quarantined)
    assert logged is not None
    assert (logged["object"], logged["state"], logged["failed_reason"]) == ("null", "failed", "unsendable")


async def test_what_was_delivered_stays_so_when_it_is_quarantined(storage: StorageHarness) -> None:
    seq = await insert_damaged_due(storage, lane_named("m", 2), on_failure="delivered")
    await (await storage.session()).execute(documented("quarantine", seq))
    logged = await storage.logged(seq)
    assert logged is not None
    assert (logged["state"], logged["failed_reason"]) == ("delivered", None)
    assert (logged["merchant_id"], logged["endpoint"]) == ("m", 2)


async def test_a_quarantined_event_is_not_sent_by_hand_and_a_mass_retry_passes_it_over(
    storage: StorageHarness,
) -> None:
    daemon = await storage.daemon("d")
    await storage.db.execute(
        "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ('m', 'https://m', '', 'k')"
    )
    lost = await insert_damaged_due(storage, "m")
    await (await storage.session()).execute(documented("quarantine", lost))
    logged = await storage.logged(lost)
    assert logged is not None
    controls = PostgresControls(daemon.pool)
    async with controls.transaction() as transaction:
        delivery = await find_delivery(transaction, logged["event_id"])
        with pytest.raises(CommandRejected, match="could not be read") as rejected:
            await transaction.reopen(delivery)
        assert rejected.value.code is Code.WRONG_STATE
        await transaction.pause(None, False)  # the transaction goes on
    command = RetryFailed("m", LONG_AGO, await storage.now() + timedelta(hours=1), 100)
    with pytest.raises(StatementRefused) as refused:
        async with controls.transaction() as transaction:
            await transaction.reopen_failed(command, (LONG_AGO, -1), 100)
    assert refused.value.is_row_fault
    assert await storage.owed(lost) is None
    async with controls.transaction() as transaction:
        passed = await transaction.skip_failed(command, (LONG_AGO, -1))
        assert passed is not None
        assert (passed.matched, passed.retried, passed.reached[1]) == (1, 0, lost)
        assert await transaction.skip_failed(command, passed.reached) is None


async def test_an_event_whose_charge_cannot_be_read_is_passed_over_by_a_mass_command_of_a_charge(
    storage: StorageHarness,
) -> None:
    daemon = await storage.daemon("d")
    ours = '{"id": "ch_1"}'
    first, *_ = await storage.insert("m", ours, *["{}"] * 5)
    async with damaging(storage.db):
        [lost] = await storage.insert("m", large_object())
    *_, last = await storage.insert("m", *["{}"] * 5, ours)
    found: list[int] = []
    passed_over, after, is_over = [], 0, False
    while not is_over:
        async with PostgresControls(daemon.pool).transaction() as transaction:
            wanted = Skip("m", await storage.now(), charge="ch_1")
            look = await transaction.find_skippable(wanted, after, 500)
            await transaction.pause(None, False)  # the transaction goes on
        found += look.seqs
        passed_over += [look.reached] if look.is_unreadable else []
        after, is_over = look.reached, look.is_over
    assert (found, passed_over) == ([first, last], [lost])


async def test_check_reads_what_lanes_wait_for_and_names_what_is_damaged(storage: StorageHarness) -> None:
    await storage.insert("waits for an endpoint")
    ill, behind = await insert_damaged(storage, "ill"), await insert_damaged(storage, "ill")
    elsewhere = await insert_damaged(storage, "has not been met yet")
    due = await insert_damaged_due(storage, "due")
    await storage.insert_due("due", -20)
    await storage.db.execute(
        "INSERT INTO webhook.lane (merchant_id, wait_until) VALUES "
        "('waits for an endpoint', clock_timestamp() + interval '1 day'), "
        "('ill', clock_timestamp() - interval '1 second'), ('has not been met yet', '-infinity')"
    )
    async with administration(storage.database.dsn()) as admin:
        found, looked_at = await admin.find_unreadable(100)
        assert [(row.merchant_id, row.seq) for row in found] == [("ill", ill), ("due", due)]
        assert all("missing chunk" in row.error for row in found)
        assert looked_at == 4
        assert (await admin.find_unreadable(1))[1] == 1
    assert {behind, elsewhere}.isdisjoint(row.seq for row in found)
    async with administration(storage.database.dsn("webhook_admin")) as admin:
        with pytest.raises(StatementRefused) as refused:
            await admin.find_unreadable(100)
        assert refused.value.sqlstate == "42501"


async def test_an_endpoint_that_cannot_be_read_is_refused_with_all_that_are_read_with_it(
    storage: StorageHarness,
) -> None:
    daemon = await storage.daemon("d")
    put = "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ($1, 'https://m', $2, 'k')"
    await storage.db.execute(put, "well", b"secret")
    async with damaging(storage.db, "webhook.endpoint"):
        await storage.db.execute(put, "ill", token_bytes(8_000))
    with pytest.raises(StatementRefused) as refused:
        await daemon.claims.read_endpoints(["well", "ill"])
    assert refused.value.is_damage


async def test_what_only_an_edit_can_have_put_into_a_row_does_not_stop_the_read(
    storage: StorageHarness,
) -> None:
    daemon = await storage.daemon("d")
    await storage.insert("m")
    await storage.db.execute("UPDATE webhook.outbox SET trigger = 'whim', on_failure = 'pending'")
    [event] = (await daemon.runs(ask("m")))["m"]
    assert (event.trigger, event.on_failure) == (Trigger.SCHEDULE, None)


async def test_a_command_that_cannot_be_read_can_be_rejected_in_the_same_transaction(
    storage: StorageHarness,
) -> None:
    daemon = await storage.daemon("d")
    put = (
        "INSERT INTO webhook.control (command, args, requested_by) VALUES ('pause', $1, 'test') RETURNING id"
    )
    async with damaging(storage.db, "webhook.control"):
        unread = await storage.db.fetchval(put, large_object())
    later = await storage.db.fetchval(put, "{}")
    controls = PostgresControls(daemon.pool)
    async with controls.transaction() as transaction:
        found = await transaction.next_commands(Queue.BRAKES, [], 9)
        assert [command.id for command in found] == [unread]
        assert await transaction.take(unread)
        with pytest.raises(StatementRefused) as refused:
            await transaction.read_command(unread)
        assert refused.value.is_row_fault
        await transaction.reject(unread, Code.MALFORMED, "it cannot be read")
        found = await transaction.next_commands(Queue.BRAKES, [], 9)
        assert [command.id for command in found] == [later]
        assert (await transaction.read_command(later)).name == "pause"
