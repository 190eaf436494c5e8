"""What a merchant's token changes and asks for, as webhook_api, on a real server; and what it cannot."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.integration.api_bearers import bearer, revoke
from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.domain.command import CommandName, CommandStatus
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.signing import Keyring, SealedSecret, SealingKey, Secret
from webhook_dispatcher.storage import keys
from webhook_dispatcher.storage.api.database import TokenEnded
from webhook_dispatcher.storage.api.endpoints import (
    Added,
    AddOutcome,
    CommandOutcome,
    Endpoints,
    NewCommand,
    PutOutcome,
    Removal,
    Rotation,
)
from webhook_dispatcher.storage.api.requests import Requests
from webhook_dispatcher.storage.api.tokens import Bearer
from webhook_dispatcher.storage.connection import connect
from webhook_dispatcher.storage.statements import Statement, load

K1, K2 = Keyring({"k1": b"1" * 32}), Keyring({"k2": b"2" * 32, "k1": b"1" * 32})
SECRET, NEWER = Secret("whsec_0123456789abcdef0123"), Secret("whsec_0123456789abcdef4567")
HOUR = timedelta(hours=1)
URL = "https://merchant.com/hooks"
SINCE, UNTIL = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
CHANGEABLE = (
    "endpoint",
    "control",
    "audit",
    "lane",
    "sealing_key",
    "outbox",
    "state",
    "api_request",
    "api_kept_bytes",
)
PATIENCE = timedelta(seconds=20)
REQUEST = bytes(32)


@dataclass
class Api:
    """Two merchants with a token each, seen from a connection of webhook_api's. db: the superuser's."""

    storage: StorageHarness
    db: asyncpg.Connection
    endpoints: Endpoints
    m1: bytes
    m2: bytes

    async def put(self, token: bytes | None = None, url: str = URL, keyring: Keyring = K1) -> PutOutcome:
        return await self.endpoints.put(token or self.m1, url, sealed(keyring))

    async def state(self) -> dict[str, list[str]]:
        """Return every row that a function could have changed."""
        return {
            table: [
                row[0] for row in await self.db.fetch(f"SELECT t::text FROM webhook.{table} t ORDER BY 1")
            ]
            for table in CHANGEABLE
        }


def sealed(keyring: Keyring, merchant: str = "m1", secret: Secret = SECRET) -> SealedSecret:
    key_id = keyring.sealing_id
    return SealingKey(key_id, keyring.public_half(key_id)).seal(merchant, secret)


async def session(storage: StorageHarness) -> asyncpg.Connection:
    return await connect(
        storage.database.dsn("webhook_api"), application_name="api", command_timeout=PATIENCE
    )


@pytest.fixture
async def api(storage: StorageHarness) -> AsyncIterator[Api]:
    db = storage.db
    connection = await session(storage)
    await keys.confirm_sealing_key(db, K1)
    yield Api(storage, db, Endpoints(connection), await bearer(db, "m1"), await bearer(db, "m2"))
    await connection.close()


async def test_a_token_configures_its_own_merchant_and_the_audit_names_its_key(api: Api) -> None:
    assert await api.endpoints.read(api.m1) is None
    assert await api.endpoints.put(api.m1, URL, None) is PutOutcome.NOT_CONFIGURED
    assert await api.put() is PutOutcome.CREATED
    shown = await api.endpoints.read(api.m1)
    assert shown is not None
    assert (shown.url, shown.paused, shown.failures_in_a_row) == (URL, False, 0)
    assert await api.endpoints.read(api.m2) is None
    row = await api.db.fetchrow("SELECT * FROM webhook.endpoint")
    assert row is not None
    assert (row["merchant_id"], row["key_id"]) == ("m1", "hpke1:k1")
    assert K1.open("m1", SealedSecret(row["key_id"], row["secret"])).revealed == SECRET.revealed
    assert await api.endpoints.put(api.m1, f"{URL}/new", None) is PutOutcome.CHANGED
    rotated = await api.endpoints.rotate(api.m1, sealed(K1, secret=NEWER), HOUR)
    assert rotated.result is Rotation.ROTATED
    assert rotated.previous_until is not None
    at_once = await api.endpoints.rotate(api.m1, sealed(K1), None)
    assert (at_once.result, at_once.previous_until) == (Rotation.ROTATED, None)
    assert await api.endpoints.remove(api.m2) is Removal.NOT_CONFIGURED
    assert await api.endpoints.remove(api.m1) is Removal.REMOVED
    assert await api.endpoints.remove(api.m1) is Removal.NOT_CONFIGURED
    audit = await api.db.fetch("SELECT role, person, action, merchant_id FROM webhook.audit ORDER BY id")
    actions = ["endpoint set", "url changed", "secret rotated", "secret rotated", "endpoint removed"]
    assert [tuple(row) for row in audit] == [
        ("webhook_api", "api:client-m1", action, "m1") for action in actions
    ]


async def add(api: Api, token: bytes, url: str = URL, name: str | None = None) -> Added:
    return await api.endpoints.add(token, url, sealed(K1), None, None, name)


async def test_a_token_names_each_of_its_endpoints_and_no_others(api: Api) -> None:
    first, second, foreign = [
        (await add(api, token, name=name)).id
        for token, name in ((api.m1, None), (api.m1, "refunds"), (api.m2, None))
    ]
    endpoints, before = api.endpoints, await api.state()
    for other in (foreign, uuid4()):
        refused = [
            await endpoints.put(api.m1, f"{URL}/new", sealed(K1), None, "x", other),
            await endpoints.set_order(api.m1, 8, other),
            (await endpoints.rotate(api.m1, sealed(K1), None, endpoint=other)).result,
            await endpoints.remove(api.m1, other),
        ]
        assert refused == ["not_configured"] * 4
        for command in (CommandName.PAUSE, CommandName.TEST_EVENT):
            given = await endpoints.ask(api.m1, command, endpoint=other)
            assert given.result is CommandOutcome.NOT_FOUND
        mass = await endpoints.ask(api.m1, CommandName.RETRY_FAILED, None, SINCE, UNTIL, other)
        assert mass.result is CommandOutcome.NOT_FOUND
        assert await endpoints.read(api.m1, other) is None
    assert await api.state() == before
    assert await endpoints.put(api.m1, f"{URL}/2", None, ["charge.failed"], "", second) is PutOutcome.CHANGED
    assert await endpoints.set_order(api.m1, 8, second) is PutOutcome.CHANGED
    rotated = await endpoints.rotate(api.m1, sealed(K1, secret=NEWER), HOUR, endpoint=second)
    assert rotated.result is Rotation.ROTATED
    shown = [
        (each.number, each.id, each.name, each.url, each.types, each.at_once)
        for each in await endpoints.list(api.m1)
    ]
    assert shown == [
        (1, first, None, URL, None, None),
        (2, second, None, f"{URL}/2", ["charge.failed"], 8),
    ]
    asked = [
        await endpoints.ask(api.m1, CommandName.PAUSE, endpoint=endpoint)
        for endpoint in (None, first, second)
    ]
    asked.append(await endpoints.ask(api.m1, CommandName.RETRY_FAILED, None, SINCE, UNTIL, second))
    asked.append(await endpoints.ask(api.m2, CommandName.PAUSE, endpoint=foreign))
    args = await api.db.fetch("SELECT args ->> 'endpoint' FROM webhook.control ORDER BY id")
    assert [number for (number,) in args] == ["1", "1", "2", "2", None]
    assert {given.result for given in asked} == {CommandOutcome.GIVEN}
    assert await endpoints.remove(api.m1) is Removal.REMOVED
    assert await endpoints.read(api.m1) is None
    assert await api.put() is PutOutcome.CREATED
    assert [each.number for each in await endpoints.list(api.m1)] == [1, 2]
    assert await endpoints.remove(api.m1, second) is Removal.REMOVED
    further = await add(api, api.m1)
    assert [each.number for each in await endpoints.list(api.m1) if each.id == further.id] == [3]


async def test_a_second_endpoint_waits_for_the_first_ones_lane_and_a_17th_is_refused(api: Api) -> None:
    await api.put()
    await api.db.execute("UPDATE webhook.lane SET lease_until = 'infinity'")
    assert await add(api, api.m1) == Added(AddOutcome.SENDING)
    assert await api.db.fetchval("SELECT recalled FROM webhook.lane")
    await api.db.execute("UPDATE webhook.lane SET lease_until = '-infinity'")
    results = [(await add(api, api.m1)).result for _ in range(16)]
    assert results == [AddOutcome.CREATED] * 15 + [AddOutcome.TOO_MANY]
    old = SealedSecret("hpke1:k0", bytes(97))
    assert (await api.endpoints.add(api.m2, URL, old, None, None, None)).result is AddOutcome.KEY_IS_OLD


async def test_programs_of_version_25_go_on_with_number_1(api: Api) -> None:
    """What these statements were; without an id they are about it."""
    await api.put()
    await add(api, api.m1)
    connection, secret = await session(api.storage), sealed(K1)
    for text, *values in (
        ("SELECT webhook.own_put_endpoint($1, $2, NULL, NULL, NULL, true)", f"{URL}/new"),
        ("SELECT webhook.own_set_order($1, $2)", 8),
        (
            "SELECT r.* FROM webhook.own_rotate_secret($1, $2, $3, NULL, false) AS r",
            *(secret.sealed, secret.key_id),
        ),
        ("SELECT webhook.own_command($1, 'pause', NULL, NULL, NULL)",),
        (
            "SELECT own.url FROM webhook.bearer($1) AS me CROSS JOIN LATERAL ("
            "SELECT url FROM webhook.own_endpoint WHERE merchant_id = me.merchant_id LIMIT 1) AS own",
        ),
        ("SELECT webhook.own_remove_endpoint($1)",),
    ):
        assert (await connection.fetch(text, api.m1, *values))[0][0] not in ("not_configured", None, False)
    await connection.close()
    assert await api.db.fetchval("SELECT args ->> 'endpoint' FROM webhook.control") == "1"
    assert [each.number for each in await api.endpoints.list(api.m1)] == [2]


async def test_a_put_that_changes_nothing_writes_nothing_and_a_second_secret_is_not_taken(api: Api) -> None:
    assert await api.put() is PutOutcome.CREATED
    before = await api.state(), await api.db.fetchval("SELECT xmin FROM webhook.endpoint")
    assert await api.put() is PutOutcome.UNCHANGED
    assert await api.endpoints.put(api.m1, URL, None) is PutOutcome.UNCHANGED
    assert await api.put(keyring=K2) is PutOutcome.UNCHANGED, "no secret is stored: no key is asked for"
    assert (await api.state(), await api.db.fetchval("SELECT xmin FROM webhook.endpoint")) == before
    assert await api.endpoints.put(api.m1, f"{URL}2", sealed(K1, secret=NEWER)) is PutOutcome.CHANGED
    row = await api.db.fetchrow("SELECT secret, key_id FROM webhook.endpoint")
    assert row is not None
    assert K1.open("m1", SealedSecret(row["key_id"], row["secret"])).revealed == SECRET.revealed


async def test_of_two_that_configure_at_once_one_creates(api: Api) -> None:
    other = await session(api.storage)
    async with other.transaction():
        assert await Endpoints(other).put(api.m1, URL, sealed(K1)) is PutOutcome.CREATED
        late = asyncio.ensure_future(api.put(url=f"{URL}/late"))
        await api.storage.until_waiting("api", late)
    assert await late is PutOutcome.CHANGED
    await other.close()


Change = Callable[[Endpoints, bytes], Awaitable[object]]
CHANGES: dict[str, tuple[Change, ...]] = {
    "own_add_endpoint": (lambda endpoints, token: endpoints.add(token, URL, sealed(K1), None, None, None),),
    "own_put_endpoint": (
        lambda endpoints, token: endpoints.put(token, f"{URL}/stolen", None),
        lambda endpoints, token: endpoints.put(token, f"{URL}/stolen", sealed(K1)),
    ),
    "own_set_order": (lambda endpoints, token: endpoints.set_order(token, 8),),
    "own_rotate_secret": (
        lambda endpoints, token: endpoints.rotate(token, sealed(K1), None),
        lambda endpoints, token: endpoints.rotate(token, sealed(K1), HOUR),
    ),
    "own_remove_endpoint": (lambda endpoints, token: endpoints.remove(token),),
    "own_command": (
        *(
            lambda endpoints, token, name=name: endpoints.ask(token, name)
            for name in (CommandName.PAUSE, CommandName.RESUME, CommandName.TEST_EVENT)
        ),
        lambda endpoints, token: endpoints.ask(token, CommandName.RETRY_FAILED, None, SINCE, UNTIL),
        lambda endpoints, token: endpoints.ask(token, CommandName.RETRY, UUID(int=1)),
    ),
    "own_begin_request": (lambda endpoints, token: requests(endpoints, token).begin(REQUEST),),
    "own_kept_full_for": (lambda endpoints, token: requests(endpoints, token).begin(REQUEST),),
    "own_keep_request": (
        lambda endpoints, token: requests(endpoints, token).claim(REQUEST, REQUEST, HOUR),
        lambda endpoints, token: requests(endpoints, token).keep_command(REQUEST, REQUEST, 1, "en"),
    ),
}


def requests(endpoints: Endpoints, token: bytes) -> Requests:
    """Return what keeps the answers to a token's requests."""
    return Requests(endpoints._database, Bearer(token, 1, "client-m1", "m1"))


async def test_without_a_live_token_nothing_is_changed_and_nothing_seen(api: Api) -> None:
    await api.put()
    await api.db.execute(
        "INSERT INTO webhook.outbox (id, merchant_id, type, object) "
        "VALUES ($1, 'm1', 'charge.created', '{}')",
        UUID(int=1),
    )
    command = (await api.endpoints.ask(api.m1, CommandName.PAUSE)).id
    assert command is not None
    expired = await bearer(api.db, "m1", "expired", hours=-1)
    revoked = await bearer(api.db, "m1", "revoked")
    await revoke(api.db, "revoked")
    before = await api.state()
    for token in (b"", bytes(32), b"\xff" * 32, api.m1[:31], api.m1 + b"\x00", expired, revoked, None):
        for changes in CHANGES.values():
            for change in changes:
                with pytest.raises(TokenEnded):
                    await change(api.endpoints, token)  # type: ignore[arg-type]
        with pytest.raises(TokenEnded):
            await api.endpoints.read(token)  # type: ignore[arg-type]
        with pytest.raises(TokenEnded):
            await api.endpoints.command(token, command)  # type: ignore[arg-type]
    assert await api.state() == before
    assert await api.endpoints.command(api.m1, command), "the token of before goes on"


async def test_no_function_that_changes_something_was_forgotten(api: Api) -> None:
    ours = await api.db.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'webhook'::regnamespace AND provolatile = 'v' "
        "AND proname LIKE 'own\\_%' AND has_function_privilege('webhook_api', oid, 'EXECUTE')"
    )
    assert {name for (name,) in ours} == CHANGES.keys()


async def test_what_another_token_left_in_the_session_opens_nothing(api: Api) -> None:
    await api.put()
    other = await session(api.storage)
    async with other.transaction():
        await Endpoints(other).read(api.m1)
        refused = Endpoints(other).put(b"\x00" * 32, URL, None)
        with pytest.raises(TokenEnded):
            await refused
    await other.execute("SELECT set_config('webhook.person', 'somebody', false)")
    with pytest.raises(TokenEnded):
        await Endpoints(other).read(b"\x00" * 32)
    assert await Endpoints(other).put(api.m1, f"{URL}2", None) is PutOutcome.CHANGED
    person = "SELECT person FROM webhook.audit ORDER BY id DESC LIMIT 1"
    assert await api.db.fetchval(person) == "api:client-m1"
    await other.close()


async def test_a_tokens_commands_are_its_merchants_and_no_others(api: Api) -> None:
    await api.storage.insert("m1")
    await api.storage.insert("m2")
    events = {row["merchant_id"]: row["id"] for row in await api.db.fetch("SELECT * FROM webhook.outbox")}
    pause = await api.endpoints.ask(api.m1, CommandName.PAUSE)
    retry = await api.endpoints.ask(api.m1, CommandName.RETRY, events["m1"])
    mass = await api.endpoints.ask(api.m1, CommandName.RETRY_FAILED, None, SINCE, UNTIL)
    assert {given.result for given in (pause, retry, mass)} == {CommandOutcome.GIVEN}
    rows = await api.db.fetch(
        "SELECT id, command, merchant_id, event_id, args, requested_by, subject FROM webhook.control "
        "ORDER BY id"
    )
    period = '{"since": "2026-11-01T00:00:00+00:00", "until": "2026-11-02T00:00:00+00:00"}'
    assert [tuple(row) for row in rows] == [
        (pause.id, "pause", "m1", None, "{}", "api:client-m1", "m1"),
        (retry.id, "retry", None, events["m1"], "{}", "api:client-m1", "m1"),
        (mass.id, "retry_failed", "m1", None, period, "api:client-m1", "m1"),
    ]
    before = await api.state()
    foreign = await api.endpoints.ask(api.m1, CommandName.RETRY, events["m2"])
    assert (
        foreign
        == await api.endpoints.ask(api.m1, CommandName.RETRY, uuid4())
        == NewCommand(CommandOutcome.NOT_FOUND)
    )
    assert await api.endpoints.ask(api.m1, CommandName.RETRY) == foreign, "nor without an event"
    assert await api.state() == before
    assert pause.id is not None
    assert await api.endpoints.command(api.m2, pause.id) is None
    shown = await api.endpoints.command(api.m1, pause.id)
    assert shown is not None
    assert (shown.command, shown.status, shown.result) == ("pause", CommandStatus.PENDING, None)


async def test_an_event_id_that_another_merchant_has_used_since_is_not_found(api: Api) -> None:
    logged = (
        "INSERT INTO webhook.delivery_log (seq, event_id, merchant_id, type, created_at, object, state, "
        "failed_reason, attempts, finished_at) "
        "VALUES ($1, $2, $3, 'charge.created', clock_timestamp(), '{}', "
        "'failed', 'exhausted', 1, clock_timestamp())"
    )
    event = uuid4()
    await api.db.execute(logged, 1, event, "m1")
    await api.db.execute(logged, 2, event, "m2")
    assert (await api.endpoints.ask(api.m1, CommandName.RETRY, event)).result is CommandOutcome.NOT_FOUND
    assert (await api.endpoints.ask(api.m2, CommandName.RETRY, event)).result is CommandOutcome.GIVEN


async def test_ten_commands_may_be_open_and_one_that_goes_through_many(api: Api) -> None:
    async def mass(token: bytes) -> CommandOutcome:
        return (await api.endpoints.ask(token, CommandName.RETRY_FAILED, None, SINCE, UNTIL)).result

    # What operators ask for does not count.
    await api.db.execute(
        "INSERT INTO webhook.control (command, merchant_id, requested_by) "
        "SELECT 'pause', 'm1', 'ana' FROM generate_series(1, 20)"
    )
    assert [await mass(api.m1), await mass(api.m1), await mass(api.m2)] == ["given", "too_many", "given"]
    nine = [(await api.endpoints.ask(api.m1, CommandName.TEST_EVENT)).result for _ in range(10)]
    assert nine == [CommandOutcome.GIVEN] * 9 + [CommandOutcome.TOO_MANY]
    before = await api.state()
    assert (await api.endpoints.ask(api.m1, CommandName.PAUSE)).result is CommandOutcome.TOO_MANY
    assert await api.state() == before
    # Running ones are open; those that have ended are not.
    finish = (
        "UPDATE webhook.control SET status = $1, running_until = clock_timestamp() "
        "WHERE command = 'retry_failed' AND merchant_id = 'm1'"
    )
    await api.db.execute(finish, "running")
    assert await mass(api.m1) is CommandOutcome.TOO_MANY
    await api.db.execute(finish, "done")
    assert await mass(api.m1) is CommandOutcome.GIVEN


async def test_of_two_mass_commands_at_once_the_second_waits_and_is_refused(api: Api) -> None:
    other = await session(api.storage)
    ask = (CommandName.RETRY_FAILED, None, SINCE, UNTIL)
    async with other.transaction():
        assert (await Endpoints(other).ask(api.m1, *ask)).result is CommandOutcome.GIVEN
        assert (await api.endpoints.ask(api.m2, *ask)).result is CommandOutcome.GIVEN, "nobody else waits"
        late = asyncio.ensure_future(api.endpoints.ask(api.m1, *ask))
        await api.storage.until_waiting("api", late)
    assert (await late).result is CommandOutcome.TOO_MANY
    await other.close()


async def test_a_command_does_not_wait_for_ever_for_another_of_its_merchant(api: Api) -> None:
    other = await session(api.storage)
    await other.execute("SET lock_timeout = 0")
    async with other.transaction():
        assert (await Endpoints(other).ask(api.m1, CommandName.PAUSE)).result is CommandOutcome.GIVEN
        assert (await api.endpoints.ask(api.m1, CommandName.RESUME)).result is CommandOutcome.TOO_MANY
        assert (await api.endpoints.ask(api.m2, CommandName.PAUSE)).result is CommandOutcome.GIVEN
    assert (await api.endpoints.ask(api.m1, CommandName.RESUME)).result is CommandOutcome.GIVEN
    await other.close()


async def test_commands_that_no_merchant_may_give_are_refused(api: Api) -> None:
    before = await api.state()
    for name, since, until in (
        *((name, None, None) for name in ("cancel", "skip", "recover", "set_url", "", "PAUSE", None)),
        *(("retry_failed", *times) for times in ((None, None), (SINCE, None), (UNTIL, SINCE))),
    ):
        with pytest.raises(StatementRefused, match="22023"):
            await api.endpoints.ask(api.m1, name, None, since, until)
        assert await api.state() == before, name


async def test_a_mass_retry_has_an_end(api: Api) -> None:
    ask = "SELECT webhook.own_command($1, 'retry_failed', NULL, clock_timestamp(), 'infinity')"
    with pytest.raises(asyncpg.InvalidParameterValueError, match="range of time"):
        await api.db.execute(ask, api.m1)


async def test_what_cannot_be_a_sealed_secret_is_not_stored(api: Api) -> None:
    for secret in (b"", bytes(71), bytes(1025), None):
        given = SealedSecret("hpke1:k1", secret)  # type: ignore[arg-type]
        with pytest.raises(StatementRefused, match="22023"):
            await api.endpoints.rotate(api.m1, given, None)
        if secret is not None:
            with pytest.raises(StatementRefused, match="22023"):
                await api.endpoints.put(api.m1, URL, given)
    assert await api.db.fetch("SELECT FROM webhook.endpoint") == []


async def test_an_overlap_has_bounds(api: Api) -> None:
    await api.put()
    for overlap in (timedelta(0), -HOUR, timedelta(days=31)):
        with pytest.raises(StatementRefused, match="22023"):
            await api.endpoints.rotate(api.m1, sealed(K1), overlap)


async def test_no_other_key_is_taken_least_of_all_one_of_the_dispatchers_own_form(api: Api) -> None:
    others = "k1", "hpke1:k2", "hpke2:k1", "hpke1:", "", None
    badly = [SealedSecret(key_id, sealed(K1).sealed) for key_id in others]  # type: ignore[arg-type]
    for each in badly:
        assert await api.endpoints.put(api.m1, URL, each) is PutOutcome.KEY_IS_OLD, each.key_id
    await api.put()
    for each in badly:
        assert (await api.endpoints.rotate(api.m1, each, None)).result is Rotation.KEY_IS_OLD, each.key_id


AGE = "UPDATE webhook.sealing_key SET confirmed_at = clock_timestamp() - $2::interval WHERE key_id = $1"


async def current(api: Api) -> str | None:
    found = await api.endpoints.sealing_key()
    return found.key_id if found else None


async def test_a_key_that_was_added_or_taken_away_meanwhile_is_not_sealed_with(api: Api) -> None:
    assert await current(api) == "k1"
    before = sealed(K1)
    await keys.confirm_sealing_key(api.db, K2)
    assert await current(api) == "k2"
    assert await api.endpoints.put(api.m1, URL, before) is PutOutcome.KEY_IS_OLD
    assert await api.put(keyring=K2) is PutOutcome.CREATED
    assert (await api.endpoints.rotate(api.m1, before, None)).result is Rotation.KEY_IS_OLD
    # Dispatchers with the older settings go on for a while: the newer one stays.
    await api.db.execute(AGE, "k2", timedelta(minutes=4))
    assert await current(api) == "k2"
    # The newer one is in nobody's settings any more: it was taken back.
    await api.db.execute(AGE, "k2", timedelta(minutes=6))
    assert await current(api) == "k1"
    assert (await api.endpoints.rotate(api.m1, sealed(K2), None)).result is Rotation.KEY_IS_OLD
    assert (await api.endpoints.rotate(api.m1, before, None)).result is Rotation.ROTATED
    # The old one is removed, after `endpoint rekey`.
    await keys.confirm_sealing_key(api.db, K2)
    await api.db.execute("DELETE FROM webhook.sealing_key WHERE key_id = 'k1'")
    assert (await api.endpoints.rotate(api.m1, sealed(K1), None)).result is Rotation.KEY_IS_OLD
    assert (await api.endpoints.rotate(api.m1, sealed(K2), None)).result is Rotation.ROTATED


async def test_without_any_dispatcher_for_an_hour_nothing_is_sealed(api: Api) -> None:
    await api.db.execute(AGE, "k1", timedelta(minutes=59))
    assert await current(api) == "k1"
    await api.db.execute(AGE, "k1", timedelta(minutes=61))
    assert await current(api) is None
    assert await api.put() is PutOutcome.KEY_IS_OLD
    assert await keys.confirm_sealing_key(api.db, K1)
    assert await api.put() is PutOutcome.CREATED


async def test_a_key_stays_until_what_was_sealed_with_it_is_stored(api: Api) -> None:
    other = await session(api.storage)
    withdraw = "UPDATE webhook.sealing_key SET confirmed_at = '-infinity'"
    dispatcher = await api.storage.session(application_name="withdrawing")
    async with other.transaction():
        assert await Endpoints(other).put(api.m1, URL, sealed(K1)) is PutOutcome.CREATED
        withdrawing = asyncio.ensure_future(dispatcher.execute(withdraw))
        await api.storage.until_waiting("withdrawing", withdrawing)
    await withdrawing
    await keys.confirm_sealing_key(api.db, K1)
    # The other way round: what is being withdrawn is waited for, and its end counts.
    async with dispatcher.transaction():
        await dispatcher.execute(withdraw)
        late = asyncio.ensure_future(api.put(api.m2))
        await api.storage.until_waiting("api", late)
    assert await late is PutOutcome.KEY_IS_OLD
    await other.close()


READING = [
    statement
    for statement in load("api_endpoints").values()
    if re.search(r"FROM webhook\.own_\w+\n", statement.text)
]


@pytest.mark.parametrize("statement", READING, ids=lambda statement: statement.name)
async def test_what_reads_own_rows_asks_for_the_bearer_first(api: Api, statement: Statement) -> None:
    connection = await session(api.storage)
    values = ", ".join(["'\\x00'", *["1"] * (len(statement.parameters) - 1)])
    for mode in ("force_generic_plan", "force_custom_plan"):
        await connection.execute(f"SET plan_cache_mode = {mode}; PREPARE {mode} AS {statement.text}")
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE {mode}({values})")]
        assert plan[0].startswith("Nested Loop"), plan
        assert plan[1].strip().startswith("->  Function Scan on bearer"), plan
    await connection.close()
