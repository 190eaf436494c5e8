"""Taking commands up: whose turn it is, what goes together, and that a command is not withdrawn as well."""

import asyncio
from uuid import UUID, uuid4

import pytest

from tests.integration.storage_harness import GATED, LEASE, Daemon, StorageHarness
from webhook_dispatcher.domain.command import Code, CommandRejected, HandledCommand, Queue, WaitingCommand
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.ports import CommandTransaction
from webhook_dispatcher.storage.controls import PostgresControls

ASK = (
    "INSERT INTO webhook.control (command, merchant_id, event_id, args, requested_by) "
    "VALUES ($1, $2, $3, $4, 'ops') RETURNING id"
)
WITHDRAW = "SELECT webhook.withdraw_command($1, 'ops')"
FROM_HERE = "ALTER TABLE webhook.control DISABLE TRIGGER command_is_received"


async def ask(
    storage: StorageHarness,
    command: str,
    merchant: str | None = None,
    event: UUID | None = None,
    args: str = "{}",
) -> int:
    return int(await storage.db.fetchval(ASK, command, merchant, event, args))


async def emit(storage: StorageHarness, merchant: str, count: int = 1) -> list[UUID]:
    """Commit events that are owed in order, and return their ids."""
    seqs = await storage.insert(merchant, *["{}"] * count)
    rows = await storage.db.fetch("SELECT id FROM webhook.outbox WHERE seq = ANY($1) ORDER BY seq", seqs)
    return [row["id"] for row in rows]


async def look(
    here: Daemon, *except_ids: int, queue: Queue = Queue.BRAKES, limit: int = 100
) -> list[WaitingCommand]:
    async with PostgresControls(here.pool).transaction() as transaction:
        return await transaction.next_commands(queue, except_ids, limit)


async def ids(here: Daemon, *except_ids: int) -> list[int]:
    """Return those of all queues that may be taken up."""
    looks = [await look(here, *except_ids, queue=queue) for queue in Queue]
    return sorted(command.id for found in looks for command in found)


async def finish(storage: StorageHarness, *commands: int) -> None:
    await storage.db.execute("UPDATE webhook.control SET status = 'done' WHERE id = ANY($1)", commands)


async def subject(storage: StorageHarness, command: int) -> str:
    return str(await storage.db.fetchval("SELECT subject FROM webhook.control WHERE id = $1", command))


async def test_the_first_command_of_each_merchant_is_next(storage: StorageHarness, here: Daemon) -> None:
    [event] = await emit(storage, "a")
    first = await ask(storage, "cancel", event=event)
    second = await ask(storage, "pause", "a")
    other = await ask(storage, "pause", "b")
    unknown = await ask(storage, "cancel", event=uuid4())
    assert await ids(here) == [first, other, unknown]
    await finish(storage, first)
    assert await ids(here) == [second, other, unknown]
    assert [command.id for command in await look(here, limit=1)] == [second, unknown], "one of either kind"


async def test_only_a_pause_or_resume_of_everything_is_waited_for_by_all(
    storage: StorageHarness, here: Daemon
) -> None:
    mass = await ask(storage, "retry_failed", args='{"since": "2026-01-01T00:00Z"}')
    before = await ask(storage, "test_event", "a")
    everything = await ask(storage, "pause")
    after, brake = await ask(storage, "test_event", "b"), await ask(storage, "pause", "c")
    assert await ids(here) == [mass, before, everything, brake], "a brake waits for nobody"
    assert await ids(here, everything) == [mass, before, after, brake], "one postponed holds nobody else up"
    await finish(storage, everything)
    assert await ids(here) == [mass, before, after, brake]


async def test_everything_is_resumed_after_what_was_asked_for_before(
    storage: StorageHarness, here: Daemon
) -> None:
    [event] = await emit(storage, "a")
    before, mass = await ask(storage, "cancel", event=event), await ask(storage, "retry_failed")
    everything = await ask(storage, "resume")
    after = await ask(storage, "test_event", "b")
    assert await ids(here) == [before, mass]
    await finish(storage, before)
    assert await ids(here) == [mass]
    assert await ids(here, mass) == [everything], "what was postponed is not waited for"
    await finish(storage, mass)
    assert await ids(here) == [everything]
    await finish(storage, everything)
    assert await ids(here) == [after]


async def test_everything_is_resumed_after_what_is_being_skipped(
    storage: StorageHarness, here: Daemon
) -> None:
    skip, everything = await ask(storage, "skip", args='{"all": true}'), await ask(storage, "resume")
    assert await ids(here) == [skip]
    await storage.db.execute(
        "UPDATE webhook.control SET status = 'running', running_until = 'infinity' WHERE id = $1", skip
    )
    assert await ids(here) == []
    await finish(storage, skip)
    assert await ids(here) == [everything]


@pytest.mark.parametrize(("merchant", "args"), [("a", "{}"), (None, '{"all": true}')])
async def test_a_merchant_is_resumed_after_what_is_being_skipped_of_it(
    storage: StorageHarness, here: Daemon, merchant: str | None, args: str
) -> None:
    skip, resume = await ask(storage, "skip", merchant, args=args), await ask(storage, "resume", "a")
    other, pause = await ask(storage, "skip", "c"), await ask(storage, "pause", "b")
    assert await ids(here) == [skip, other, pause], "nor before it has begun"
    await storage.db.execute(
        "UPDATE webhook.control SET status = 'running', running_until = 'infinity' WHERE id = ANY($1)",
        [skip, other],
    )
    assert await ids(here) == [pause]
    await finish(storage, skip)
    assert await ids(here) == [resume, pause]


async def test_what_is_postponed_is_left_out_with_its_merchants_later_ones(
    storage: StorageHarness, here: Daemon
) -> None:
    first, _, other = [await ask(storage, "pause", merchant) for merchant in ("a", "a", "b")]
    assert await ids(here, first) == [other]


async def test_a_running_command_is_next_when_its_lease_has_ended(
    storage: StorageHarness, here: Daemon
) -> None:
    running, later = await ask(storage, "retry_failed", "a"), await ask(storage, "pause", "a")
    run = (
        "UPDATE webhook.control SET status = 'running', running_until = clock_timestamp() + $2 WHERE id = $1"
    )
    await storage.db.execute(run, running, LEASE)
    assert await ids(here) == [later]
    async with PostgresControls(here.pool).transaction() as transaction:
        assert not await transaction.take(running)
    await storage.db.execute(run, running, -LEASE)
    assert await ids(here) == [running, later]
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await transaction.take(running)


async def test_a_command_without_subject_is_not_lost(storage: StorageHarness, here: Daemon) -> None:
    await storage.db.execute(FROM_HERE)
    [event] = await emit(storage, "a")
    first, second = await ask(storage, "cancel", event=event), await ask(storage, "pause", "a")
    found = await look(here, queue=Queue.MERCHANTS)
    assert found == [WaitingCommand(first)], "not with others: it is not known whose it is"
    assert await ids(here) == [first]
    await finish(storage, first)
    assert await ids(here) == [second]


async def test_whose_a_command_is(storage: StorageHarness) -> None:
    [event] = await emit(storage, "owner")
    unknown = uuid4()
    whose = {
        ("cancel", None, event): "owner",
        ("retry", "somebody else", event): "owner",
        ("retry", None, unknown): f"event {unknown}",
        ("retry", None, None): "command {id}",
        ("set_url", "a", event): "a",
        ("pause", None, event): "",
        ("pause", "x" * 100_000, None): "x" * 128,
        ("what is that", None, None): "command {id}",
    }
    for key, expected in whose.items():
        command = await ask(storage, *key)
        assert await subject(storage, command) == expected.format(id=command), key
    await storage.db.execute("DELETE FROM webhook.outbox")
    log = (
        "INSERT INTO webhook.delivery_log (seq, event_id, merchant_id, type, created_at, object, state, "
        "attempts, finished_at) VALUES (9, $1, 'past', 'charge.created', now(), '{}', 'delivered', 1, now())"
    )
    await storage.db.execute(log, event)
    assert await subject(storage, await ask(storage, "retry", event=event)) == "past"


async def test_a_merchants_name_that_does_not_fit_an_index_is_no_error(storage: StorageHarness) -> None:
    noise = "SELECT string_agg(chr(33 + (random() * 90)::int), '') FROM generate_series(1, 10000)"
    command = await ask(storage, "pause", await storage.db.fetchval(noise))
    assert await storage.db.fetchval(WITHDRAW, command)


async def take(here: Daemon, *subjects: str, each: int = 100, except_ids: tuple[int, ...] = ()) -> list[int]:
    async with PostgresControls(here.pool).transaction() as transaction:
        taken = await transaction.take_cancels(subjects, each, except_ids)
        return sorted(command.id for command in taken)


async def test_cancels_go_together_up_to_the_first_command_of_another_kind(
    storage: StorageHarness, here: Daemon
) -> None:
    events = await emit(storage, "a", 4)
    one, two = [await ask(storage, "cancel", event=event) for event in events[:2]]
    await ask(storage, "pause", "a")
    await ask(storage, "cancel", event=events[2])
    [other] = [await ask(storage, "cancel", event=event) for event in await emit(storage, "b")]
    assert [command.is_plain_cancel for command in await look(here)] == [True, True]
    assert await take(here, "a", "b") == [one, two, other]
    assert await take(here, "a", "b", each=1) == [one, other]
    assert await take(here, "a", "b", except_ids=(two,)) == [one, other]
    assert await take(here, "a", "b", except_ids=(one,)) == [other]


@pytest.mark.parametrize("args", ["[]", "null", '{"a": 1}', "1"])
async def test_a_cancel_with_arguments_or_without_event_goes_alone(
    storage: StorageHarness, here: Daemon, args: str
) -> None:
    [event] = await emit(storage, "a")
    await ask(storage, "cancel", event=event, args=args)
    await ask(storage, "cancel", "b")
    assert [command.is_plain_cancel for command in await look(here)] == [False, False]
    assert await take(here, "a", "b") == []


async def test_deliveries_are_found_and_cancelled_as_one_by_one(
    storage: StorageHarness, here: Daemon
) -> None:
    await storage.insert_due("due", -1, 60)
    waiting = await emit(storage, "free", 2)
    await here.lease("free", "due")
    assert len(await here.claims.claim_longest_due(5, 1, 5, LEASE)) == 1
    due = await storage.db.fetch("SELECT id FROM webhook.outbox WHERE merchant_id = 'due' ORDER BY seq")
    events = [*waiting, *(row["id"] for row in due)]
    async with PostgresControls(here.pool).transaction() as transaction:
        found = [delivery for (delivery,) in (await transaction.find_deliveries(events)).values()]
        assert [delivery.is_in_flight for delivery in found] == [True, False, True, False]
        assert await transaction.find_deliveries([uuid4()]) == {}
        assert await transaction.cancel(found) == frozenset(delivery.seq for delivery in found)
        assert await transaction.cancel(found) == frozenset()
    assert await storage.db.fetchval("SELECT count(*) FROM webhook.outbox") == 0
    rows = await storage.db.fetch("SELECT state, failed_reason FROM webhook.delivery_log")
    assert {tuple(row) for row in rows} == {("failed", "cancelled")}
    assert [(await storage.lane(name))["recalled"] for name in ("free", "due")] == [True, True]
    async with PostgresControls(here.pool).transaction() as transaction:
        known = (await transaction.find_deliveries(events)).values()
        assert [delivery.state for (delivery,) in known] == [State.FAILED] * len(events)


async def test_commands_are_finished_together_each_in_its_own_way(
    storage: StorageHarness, here: Daemon
) -> None:
    done, rejected = await ask(storage, "cancel"), await ask(storage, "cancel")
    async with PostgresControls(here.pool).transaction() as transaction:
        rejection = CommandRejected(Code.NOT_FOUND, "unknown")
        await transaction.finish_all(
            [HandledCommand(done, {"in_flight": True}), HandledCommand(rejected, rejection=rejection)]
        )
    rows = await storage.db.fetch(
        "SELECT status, result, error_code, error_message, handled_at IS NOT NULL "
        "FROM webhook.control ORDER BY id"
    )
    assert [tuple(row) for row in rows] == [
        ("done", '{"in_flight": true}', None, None, True),
        ("rejected", None, -14003, "unknown", True),
    ]


async def status(storage: StorageHarness, command: int) -> str:
    return str(await storage.db.fetchval("SELECT status FROM webhook.control WHERE id = $1", command))


async def taken(transaction: CommandTransaction, command: int, event: UUID | None) -> bool:
    """Take a command, alone or (if it is a cancel of an event) with others."""
    if event is None:
        return await transaction.take(command)
    return command in [cancel.id for cancel in await transaction.take_cancels(["a"], 9, [])]


@pytest.mark.parametrize("together", [False, True])
async def test_a_command_that_is_taken_up_cannot_be_withdrawn(
    storage: StorageHarness, here: Daemon, together: bool
) -> None:
    [event] = await emit(storage, "a") if together else [None]
    command = await ask(storage, "cancel", event=event)
    admin = await storage.session(application_name="withdrawing")
    async with PostgresControls(here.pool).transaction() as transaction:
        assert await taken(transaction, command, event)
        withdrawal = admin.fetchval(WITHDRAW, command)

        waiting = asyncio.ensure_future(withdrawal)
        await storage.until_waiting("withdrawing", waiting)
        await transaction.finish(command, {})
    assert await waiting is False
    assert await status(storage, command) == "done"


@pytest.mark.parametrize("together", [False, True])
async def test_a_command_that_is_being_withdrawn_is_not_taken_up(
    storage: StorageHarness, here: Daemon, together: bool
) -> None:
    [event] = await emit(storage, "a") if together else [None]
    command = await ask(storage, "cancel", event=event)
    admin = await storage.session()
    async with admin.transaction():
        assert await admin.fetchval(WITHDRAW, command)
        async with PostgresControls(here.pool).transaction() as transaction:
            assert not await taken(transaction, command, event)
    async with PostgresControls(here.pool).transaction() as transaction:
        assert not await taken(transaction, command, event)
    assert await status(storage, command) == "withdrawn"
    said = await storage.db.fetchval("SELECT error_message FROM webhook.control WHERE id = $1", command)
    assert said == "withdrawn by ops"


@pytest.mark.parametrize("together", [False, True])
async def test_a_command_that_is_withdrawn_after_the_look_is_not_taken_up(
    storage: StorageHarness, together: bool
) -> None:
    """The statement that takes it has seen it pending, and is held before it locks the row."""
    [event] = await emit(storage, "a") if together else [None]
    command = await ask(storage, "cancel", event=event)
    await storage.hang_door("control")
    gated = await storage.daemon("gated", application_name=GATED)
    async with PostgresControls(gated.pool).transaction() as transaction:
        async with storage.held_at_the_door(taken(transaction, command, event)) as late:
            assert await storage.db.fetchval(WITHDRAW, command)
        assert not await late
    assert await status(storage, command) == "withdrawn"
