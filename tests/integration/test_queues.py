"""Whose a command is, which commands it waits for, and what an operator's later one makes of a merchant's."""

import asyncio
import base64
from contextlib import AsyncExitStack
from uuid import UUID

import asyncpg
import pytest

from tests.integration.api_bearers import bearer
from tests.integration.storage_harness import Daemon, StorageHarness
from tests.waiting import until
from webhook_dispatcher.app import run
from webhook_dispatcher.domain.command import Queue
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage.claims import PostgresClaims
from webhook_dispatcher.storage.controls import OVERTAKEN, PostgresCommandTransaction, PostgresControls
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

ASK = (
    "INSERT INTO webhook.control (command, merchant_id, event_id, requested_by) "
    "VALUES ($1, $2, $3, $4) RETURNING id"
)
OWN = "SELECT webhook.own_command($1, $2, $3, NULL, NULL)"
IS_OPERATORS = "SELECT is_operators FROM webhook.control WHERE id = $1"


@pytest.fixture
async def here(storage: StorageHarness) -> Daemon:
    await storage.configure("a", "b")
    return await storage.daemon("here")


class People:
    """Operators, and merchants through the Partner API, each connected as what they are."""

    def __init__(self, storage: StorageHarness, admin: asyncpg.Connection, api: asyncpg.Connection) -> None:
        self._storage, self._admin, self._api = storage, admin, api
        self._tokens: dict[str, bytes] = {}

    async def operator(self, command: str, merchant: str | None = None, event: UUID | None = None) -> int:
        # It names who a merchant's commands name: that must not matter.
        return int(await self._admin.fetchval(ASK, command, merchant, event, "api:client-a"))

    async def merchant(self, merchant: str, command: str, event: UUID | None = None) -> int:
        if merchant not in self._tokens:
            self._tokens[merchant] = await bearer(self._storage.db, merchant)
        return int(await self._api.fetchval(OWN, self._tokens[merchant], command, event))


@pytest.fixture
async def people(storage: StorageHarness) -> "People":
    admin = await storage.session(user="webhook_admin")
    return People(storage, admin, await storage.session(user="webhook_api"))


async def take_up(here: Daemon, queue: Queue, *except_ids: int, limit: int = 100) -> list[int]:
    async with PostgresControls(here.pool).transaction() as transaction:
        return [command.id for command in await transaction.next_commands(queue, except_ids, limit)]


async def finish(storage: StorageHarness, *commands: int) -> None:
    await storage.db.execute("UPDATE webhook.control SET status = 'done' WHERE id = ANY($1)", commands)


async def emit(storage: StorageHarness, merchant: str) -> UUID:
    [seq] = await storage.insert(merchant)
    event: UUID = await storage.db.fetchval("SELECT id FROM webhook.outbox WHERE seq = $1", seq)
    return event


async def test_who_is_connected_makes_a_command_an_operators(storage: StorageHarness, people: People) -> None:
    assert await storage.db.fetchval(IS_OPERATORS, await people.operator("pause", "a"))
    assert not await storage.db.fetchval(IS_OPERATORS, await people.merchant("a", "pause"))
    admin = await storage.session(user="webhook_admin")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await admin.execute(
            "INSERT INTO webhook.control (command, requested_by, is_operators) VALUES ('pause', 'x', true)"
        )


async def test_a_member_of_the_operators_role_is_an_operator(storage: StorageHarness) -> None:
    login = f"anna_{storage.database.name}"
    await storage.db.execute(f"CREATE ROLE {login} LOGIN; GRANT webhook_admin TO {login}")
    try:
        anna = await storage.session(user=login)
        command = await anna.fetchval(ASK, "pause", "a", None, "anna")
        assert await storage.db.fetchval(IS_OPERATORS, command)
        await anna.close()
    finally:
        await storage.db.execute(f"DROP ROLE {login}")


@pytest.mark.parametrize("command", ["pause", "resume"])
async def test_an_operators_brake_waits_for_no_merchants_command(
    storage: StorageHarness, here: Daemon, people: People, command: str
) -> None:
    event = await emit(storage, "a")
    for _ in range(5):
        await people.merchant("a", "pause")
        await people.merchant("b", "pause")
    first = await people.operator(command, "a")
    second = await people.operator("cancel", event=event)
    everything = await people.operator(command)
    if command == "pause":
        assert await take_up(here, Queue.BRAKES) == [everything, first]
        assert await take_up(here, Queue.BRAKES, limit=1) == [everything]
    else:
        assert await take_up(here, Queue.BRAKES) == [first], "everything is resumed after operators' commands"
    await finish(storage, first)
    await finish(storage, second)
    assert await take_up(here, Queue.BRAKES) == [everything]


async def test_a_brake_goes_after_an_operators_earlier_command_of_the_same_merchant(
    storage: StorageHarness, here: Daemon, people: People
) -> None:
    await people.merchant("a", "pause")
    url = await people.operator("set_url", "a")
    resume, other = await people.operator("resume", "a"), await people.operator("resume", "b")
    assert await take_up(here, Queue.BRAKES) == [other]
    assert await take_up(here, Queue.OPERATORS) == [url], (
        "it waits for no merchant's, so that the brake does not"
    )
    await finish(storage, url)
    assert await take_up(here, Queue.BRAKES) == [resume, other]


async def test_a_merchants_command_goes_after_those_of_operators_that_came_before(
    storage: StorageHarness, here: Daemon, people: People
) -> None:
    before = await people.merchant("a", "pause")
    pause = await people.operator("pause", "a")
    after, other = await people.merchant("a", "resume"), await people.merchant("b", "pause")
    assert await take_up(here, Queue.MERCHANTS) == [before, other]
    await finish(storage, before)
    assert await take_up(here, Queue.MERCHANTS) == [other]
    await finish(storage, pause)
    assert await take_up(here, Queue.MERCHANTS) == [after, other]
    everything = await people.operator("pause")
    later = await people.merchant("b", "resume")
    await finish(storage, other)
    assert await take_up(here, Queue.MERCHANTS) == [after], "nor before a pause of everything"
    await finish(storage, everything)
    assert await take_up(here, Queue.MERCHANTS) == [after, later]


async def test_what_would_undo_an_operators_brake_is_rejected(
    storage: StorageHarness, here: Daemon, people: People
) -> None:
    event, kept = await emit(storage, "a"), await emit(storage, "a")
    overtaken = [
        await people.merchant("a", "resume"),
        await people.merchant("a", "pause"),
        await people.merchant("a", "retry", event),
    ]
    left = [
        await people.merchant("a", "retry", kept),
        await people.merchant("a", "test_event"),
        await people.merchant("b", "resume"),
    ]
    brakes = [await people.operator("pause", "a"), await people.operator("cancel", event=event)]
    left += [await people.merchant("a", "resume"), await people.merchant("a", "retry", event)]
    async with PostgresControls(here.pool).transaction() as transaction:
        await transaction.reject_overtaken([*brakes, *left])
    rows = await storage.db.fetch("SELECT * FROM webhook.control WHERE status <> 'pending' ORDER BY id")
    assert [row["id"] for row in rows] == overtaken
    assert {(row["status"], row["error_code"], row["error_message"]) for row in rows} == {
        ("rejected", -14004, OVERTAKEN)
    }
    assert all(row["handled_at"] for row in rows)


async def test_a_brake_of_one_endpoint_undoes_nothing_that_was_asked_for_another(
    storage: StorageHarness, here: Daemon, people: People
) -> None:
    event = await emit(storage, "a")
    asked: dict[int | None, list[int]] = {}
    for number in (None, 1, 2):
        asked[number] = [await people.merchant("a", "resume"), await people.merchant("a", "retry", event)]
    asked[0] = [await people.operator("pause", "a"), await people.operator("cancel", event=event)]
    everywhere = [await people.operator("pause", "a"), await people.operator("cancel", event=event)]
    of_one = (
        "UPDATE webhook.control SET args = jsonb_build_object('endpoint', $2::integer) WHERE id = ANY($1)"
    )
    for number, commands in asked.items():
        if number is not None:
            await storage.db.execute(of_one, commands, number or 2)
    left = (
        "SELECT array_agg(id ORDER BY id) FROM webhook.control WHERE status = 'pending' AND NOT is_operators"
    )
    for brakes, kept in ((asked[0], asked[1]), (everywhere, None)):
        async with PostgresControls(here.pool).transaction() as transaction:
            await transaction.reject_overtaken(brakes)
        assert await storage.db.fetchval(left) == kept


async def test_everything_is_paused_while_all_other_connections_are_busy(
    storage: StorageHarness, people: People
) -> None:
    settings = load_settings(
        {
            "WEBHOOK_DATABASE_URL": storage.database.dsn(),
            "WEBHOOK_SECRET_KEYS": f"k1:{base64.b64encode(bytes(32)).decode()}",
            "WEBHOOK_OPS_ADDRESS": "127.0.0.1:0",
        }
    )
    async with AsyncExitStack() as stack:
        daemon = await stack.enter_async_context(run.running(settings))
        claims, upkeep = daemon._dispatcher._claims, daemon._gauges._upkeep
        assert isinstance(claims, PostgresClaims)
        assert isinstance(upkeep, PostgresUpkeep)
        async with AsyncExitStack() as busy:
            for pool in (claims._pool, upkeep._pool):
                for _ in range(pool.get_max_size()):
                    await busy.enter_async_context(pool.acquire())
            command = await people.operator("pause")
            await until(daemon.notes)
            status = await storage.db.fetchval("SELECT status FROM webhook.control WHERE id = $1", command)
            assert status == "done"


async def test_a_brake_waits_for_what_is_being_carried_out_and_a_merchants_command_does_not(
    storage: StorageHarness, here: Daemon
) -> None:
    braking = await storage.daemon("there", application_name="braking")
    async with PostgresControls(braking.pool).transaction() as second:
        async with PostgresControls(here.pool).transaction() as first:
            assert await first.lock_control()
            assert not await second.lock_control()
            assert isinstance(second, PostgresCommandTransaction)
            await second.connection.execute("SET LOCAL lock_timeout = 0")
            waiting = asyncio.ensure_future(second.await_control())
            await storage.until_waiting("braking", waiting)
        await waiting
    async with PostgresControls(here.pool).transaction() as first:
        assert await first.lock_control()
        with pytest.raises(StorageUnavailable, match="lock timeout"):
            async with PostgresControls(braking.pool).transaction() as second:
                await second.await_control()
