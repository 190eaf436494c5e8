"""What operators change by the console, as webhook_console, on a real server; and what nobody else can."""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

import pytest

from tests.integration.console_harness import Console, open_console, proof_of, verifier_of
from tests.servers.database import Database
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.domain.command import CommandName
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.signing import Keyring, SealedSecret, SealingKey, Secret
from webhook_dispatcher.storage import keys
from webhook_dispatcher.storage.api.endpoints import AddOutcome, PutOutcome, Removal, Rotated, Rotation
from webhook_dispatcher.storage.connection import create_pool
from webhook_dispatcher.storage.console import accounts
from webhook_dispatcher.storage.console.actions import Actions
from webhook_dispatcher.storage.console.database import IdleTooLong, NotAllowed, SessionOver
from webhook_dispatcher.storage.console.sessions import Sessions

K1, K2 = Keyring({"k1": b"1" * 32}), Keyring({"k2": b"2" * 32, "k1": b"1" * 32})
SECRET, NEWER = Secret("whsec_0123456789abcdef0123"), Secret("whsec_0123456789abcdef4567")
URL = "https://merchant.com/hooks"
HOUR = timedelta(hours=1)
HASH = hashlib.sha256(b"a secret").digest()
CHANGEABLE = ("endpoint", "control", "audit", "lane", "sealing_key", "api_key", "account", "state")


def sealed(keyring: Keyring = K1, merchant: str = "m1", secret: Secret = SECRET) -> SealedSecret:
    key_id = keyring.sealing_id
    return SealingKey(key_id, keyring.public_half(key_id)).seal(merchant, secret)


async def state(console: Console) -> dict[str, list[str]]:
    """Return every row that a function could have changed."""
    return {
        table: [row[0] for row in await console.db.fetch(f"SELECT t::text FROM webhook.{table} t ORDER BY 1")]
        for table in CHANGEABLE
    }


@pytest.fixture
async def console(database: Database) -> AsyncIterator[Console]:
    async with open_console(database) as console:
        await keys.confirm_sealing_key(console.db, K1)
        yield console


Change = Callable[[Actions, bytes], Awaitable[object]]
CHANGES: dict[str, Change] = {
    "console_put_endpoint": lambda actions, session: actions.put_endpoint(
        session, "m1", f"{URL}/new", sealed()
    ),
    "console_add_endpoint": lambda actions, session: actions.add_endpoint(
        session, "m1", URL, sealed(), "refunds", ["charge.reversed"]
    ),
    "console_set_order": lambda actions, session: actions.set_order(session, "m1", 8),
    "console_rotate_secret": lambda actions, session: actions.rotate_secret(
        session, "m1", sealed(secret=NEWER), HOUR
    ),
    "console_remove_endpoint": lambda actions, session: actions.remove_endpoint(session, "m1"),
    "console_command": lambda actions, session: actions.give_command(
        session, CommandName.PAUSE, merchant_id="m1"
    ),
    "console_withdraw_command": lambda actions, session: actions.withdraw_command(session, 1),
    "console_stop_command": lambda actions, session: actions.stop_command(session, 1),
    "console_create_api_key": lambda actions, session: actions.create_api_key(
        session, "m1", "another", HASH, "shop"
    ),
    "console_revoke_api_key": lambda actions, session: actions.revoke_api_key(session, "client"),
}
OWN = {
    "console_sign_out",
    "console_revoke_session",
    "console_revoke_sessions",
    "console_preferences",
    "console_change_password",
}
ASKING = {"console_person", "console_reader"}
SIGNING_IN = {"console_sign_in", "console_sign_in_by_code", "console_sign_in_by_proxy"}


async def with_something_to_change(console: Console) -> None:
    """Let every function of CHANGES find something: an endpoint, a command that waits, a key."""
    oleg = await console.sign_in()
    assert await console.actions.put_endpoint(oleg, "m1", URL, sealed()) is PutOutcome.CREATED
    args = {"since": "2026-11-01T00:00:00Z"}
    number = await console.actions.give_command(oleg, CommandName.RETRY_FAILED, merchant_id="m1", args=args)
    assert number == 1
    await console.actions.create_api_key(oleg, "m1", "client", HASH, "shop")


async def test_no_function_that_changes_something_was_forgotten(console: Console) -> None:
    ours = await console.db.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'webhook'::regnamespace AND provolatile = 'v' "
        "AND prosecdef AND has_function_privilege('webhook_console', oid, 'EXECUTE')"
    )
    assert {name for (name,) in ours} == CHANGES.keys() | OWN | ASKING | SIGNING_IN


@pytest.mark.parametrize("name", CHANGES)
async def test_an_operators_session_changes_something(console: Console, name: str) -> None:
    await with_something_to_change(console)
    session = await console.sign_in("olga")
    before = await state(console)
    assert await CHANGES[name](console.actions, session) not in (False, None) or name == (
        "console_create_api_key"
    )
    assert await state(console) != before
    assert (await console.audit())[-1][:2] == ("webhook_console", "olga")


async def test_nobody_elses_changes_anything(console: Console) -> None:
    await with_something_to_change(console)
    over, ended, idle = [await console.sign_in() for _ in range(3)]
    await console.pass_time(over, 12 * HOUR)
    await console.sessions.sign_out(ended)
    await console.pass_time(idle, HOUR / 4)
    viewer, disabled = await console.sign_in("vera"), await console.sign_in("olga")
    await console.disable("olga")
    before = await state(console)
    for session, refusal in (
        *((session, SessionOver) for session in (over, ended, disabled, b"", bytes(32), over[:31], None)),
        (viewer, NotAllowed),
        (idle, IdleTooLong),
    ):
        for name, change in CHANGES.items():
            with pytest.raises(refusal, match=r"sign in again|account role NAME operator"):
                raise AssertionError(name, await change(console.actions, session))  # type: ignore[arg-type]
    assert await state(console) == before


async def test_an_endpoint_is_configured_by_an_operator_as_by_its_merchant(console: Console) -> None:
    oleg = await console.sign_in()
    actions = console.actions
    key = await actions.sealing_key()
    assert key is not None
    assert key.key_id == "k1"
    assert await actions.put_endpoint(oleg, "m1", URL, None) is PutOutcome.NOT_CONFIGURED
    assert await actions.put_endpoint(oleg, "m1", URL, sealed(K2)) is PutOutcome.KEY_IS_OLD
    assert await actions.put_endpoint(oleg, "m1", URL, key.seal("m1", SECRET)) is PutOutcome.CREATED
    assert await actions.put_endpoint(oleg, "m1", URL, None) is PutOutcome.UNCHANGED
    assert await actions.put_endpoint(oleg, "m1", f"{URL}/new", None) is PutOutcome.CHANGED
    row = await console.db.fetchrow("SELECT * FROM webhook.endpoint")
    assert row is not None
    assert (row["merchant_id"], row["url"], row["key_id"]) == ("m1", f"{URL}/new", "hpke1:k1")
    assert K1.open("m1", SealedSecret(row["key_id"], row["secret"])).revealed == SECRET.revealed
    rotated = await actions.rotate_secret(oleg, "m1", sealed(secret=NEWER), HOUR)
    assert rotated.result is Rotation.ROTATED
    assert rotated.previous_until is not None
    row = await console.db.fetchrow("SELECT * FROM webhook.endpoint")
    assert row is not None
    assert K1.open("m1", SealedSecret(row["key_id"], row["secret"])).revealed == NEWER.revealed
    assert (
        K1.open("m1", SealedSecret(row["previous_key_id"], row["previous_secret"])).revealed
        == SECRET.revealed
    )
    assert await actions.rotate_secret(oleg, "m1", sealed(), None) == Rotated(Rotation.ROTATED)
    assert await actions.rotate_secret(oleg, "m2", sealed(), None) == Rotated(Rotation.NOT_CONFIGURED)
    assert await actions.remove_endpoint(oleg, "m2") is Removal.NOT_CONFIGURED
    assert await actions.remove_endpoint(oleg, "m1") is Removal.REMOVED
    done = [row[:3] for row in await console.audit()][1:]
    actions_done = ("endpoint set", "url changed", "secret rotated", "secret rotated", "endpoint removed")
    assert done == [("webhook_console", "oleg", action) for action in actions_done]


async def test_each_of_several_endpoints_is_changed_by_its_number(console: Console) -> None:
    oleg = await console.sign_in()
    actions = console.actions

    async def add() -> AddOutcome:
        return (await actions.add_endpoint(oleg, "m1", URL, sealed(), None, None)).result

    assert [await add() for _ in range(17)] == [AddOutcome.CREATED] * 16 + [AddOutcome.TOO_MANY]
    assert await actions.put_endpoint(oleg, "m1", f"{URL}/2", None, number=2) is PutOutcome.CHANGED
    assert await actions.set_order(oleg, "m1", 8, 2) is PutOutcome.CHANGED
    rotated = await actions.rotate_secret(oleg, "m1", sealed(secret=NEWER), HOUR, number=2)
    assert rotated.result is Rotation.ROTATED
    assert await actions.remove_endpoint(oleg, "m1", 3) is Removal.REMOVED
    for number in (3, 17):
        put = await actions.put_endpoint(oleg, "m1", URL, sealed(), number=number)
        assert put is PutOutcome.NOT_CONFIGURED, "a number is given once"
    # As a console of version 25 says it.
    for query in (
        f"SELECT webhook.console_put_endpoint($1, 'm1', '{URL}/1', NULL, NULL)",
        f"SELECT webhook.console_put_endpoint($1, 'm1', '{URL}/1', NULL, NULL, '{{charge.failed}}', false)",
        "SELECT webhook.console_set_order($1, 'm1', 4)",
        "SELECT webhook.console_remove_endpoint($1, 'm1')",
    ):
        assert await console.pool.fetchval(query, oleg) in ("changed", True)
    rows = await console.db.fetch(
        "SELECT webhook.endpoint_of(merchant_id) AS number, url, at_once, previous_until IS NOT NULL "
        "FROM webhook.endpoint ORDER BY number LIMIT 2"
    )
    assert [tuple(row) for row in rows] == [(2, f"{URL}/2", 8, True), (4, URL, None, False)]


async def test_the_platform_may_have_an_endpoint_and_what_is_no_merchant_none(console: Console) -> None:
    oleg = await console.sign_in()
    put = console.actions.put_endpoint
    assert await put(oleg, "$platform", URL, sealed(merchant="$platform")) is PutOutcome.CREATED
    for merchant in ("", "m\n", "x" * 129):
        with pytest.raises(StatementRefused, match="merchant_id_has_1_to_128_printable_characters"):
            await put(oleg, merchant, URL, sealed(merchant=merchant))
    for url in ("", "x" * 4097):
        with pytest.raises(StatementRefused, match="this is no URL"):
            await put(oleg, "m1", url, sealed())
    for overlap in (timedelta(0), timedelta(days=31)):
        with pytest.raises(StatementRefused, match="the overlap is not within 30 days"):
            await console.actions.rotate_secret(oleg, "$platform", sealed(merchant="$platform"), overlap)


async def test_commands_are_asked_for_and_taken_back_in_the_persons_name(console: Console) -> None:
    oleg, olga = await console.sign_in(), await console.sign_in("olga")
    actions = console.actions
    event = UUID(int=7)
    first = await actions.give_command(oleg, CommandName.RETRY, event_id=event)
    args = {"since": "2026-11-01T00:00:00Z", "states": ["failed"]}
    second = await actions.give_command(olga, CommandName.RECOVER, merchant_id="m1", args=args)
    rows = await console.db.fetch("SELECT * FROM webhook.control ORDER BY id")
    assert [(row["id"], row["command"], row["event_id"], row["requested_by"]) for row in rows] == [
        (first, "retry", event, "oleg"),
        (second, "recover", None, "olga"),
    ]
    assert all(row["is_operators"] for row in rows), "they wait for no merchant's"
    assert rows[1]["args"] == '{"since": "2026-11-01T00:00:00Z", "states": ["failed"]}'
    assert await actions.withdraw_command(olga, first)
    assert not await actions.withdraw_command(olga, first)
    assert await actions.stop_command(oleg, second)
    assert not await actions.stop_command(oleg, 99)
    taken = await console.db.fetchval("SELECT error_message FROM webhook.control WHERE id = $1", first)
    assert taken == "withdrawn by olga"
    audit = [(row[1], row[2]) for row in await console.audit() if row[2] != "signed in"]
    assert audit == [
        ("oleg", "command retry"),
        ("olga", "command recover"),
        ("olga", "command withdrawn"),
        ("oleg", "command stopped"),
    ]


async def test_api_keys_are_made_and_revoked_in_the_persons_name(console: Console) -> None:
    oleg = await console.sign_in()
    await console.actions.create_api_key(oleg, "m1", "client", HASH, "shop")
    row = await console.db.fetchrow("SELECT * FROM webhook.api_key")
    assert row is not None
    assert (row["created_by"], row["merchant_id"], row["secret_hash"]) == ("oleg", "m1", HASH)
    said = [await console.actions.revoke_api_key(oleg, name) for name in ("client", "client", "none")]
    assert said == [True, False, None]
    with pytest.raises(StatementRefused, match="the platform has no API key"):
        await console.actions.create_api_key(oleg, "$platform", "other", HASH, "shop")


async def test_the_person_is_the_sessions_whatever_the_connection_says(console: Console) -> None:
    oleg = await console.sign_in()
    connection = await console.storage.database.connect("webhook_console")
    await connection.execute("SELECT set_config('webhook.person', 'olga', false)")
    await connection.execute("SELECT set_config('webhook.console_session', $1, false)", oleg.hex())
    assert await Actions(connection).put_endpoint(oleg, "m1", URL, sealed()) is PutOutcome.CREATED
    assert (await console.audit())[-1][:3] == ("webhook_console", "oleg", "endpoint set")
    with pytest.raises(SessionOver):
        await Actions(connection).remove_endpoint(bytes(32), "m1")
    await connection.close()


async def test_what_a_transaction_may_read_ends_with_it_and_with_the_session(console: Console) -> None:
    oleg = await console.sign_in()
    connection = await console.storage.database.connect("webhook_console")
    now = "SELECT webhook.current_person() || ' ' || webhook.current_person_role()"
    assert await connection.fetchval(now) is None
    async with connection.transaction():
        await connection.fetch("SELECT FROM webhook.console_reader($1)", oleg)
        assert await connection.fetchval(now) == "oleg operator"
        await console.set_role("oleg", Role.VIEWER)
        assert await connection.fetchval(now) == "oleg viewer"
        await console.sessions.sign_out(oleg)
        assert await connection.fetchval(now) is None
    assert await connection.fetchval(now) is None
    olga = await console.sign_in("olga")
    async with connection.transaction():
        await connection.fetch("SELECT FROM webhook.console_reader($1)", olga)
        assert not await connection.fetch("SELECT FROM webhook.console_reader($1)", oleg)
        assert await connection.fetchval(now) is None, "whoever came before is not read for"
    await connection.close()


@pytest.mark.parametrize("is_disabled", [True, False])
async def test_once_a_right_was_taken_nothing_more_comes_of_it(console: Console, is_disabled: bool) -> None:
    """A change that is under way is waited for: whoever takes the right knows that none follows."""
    oleg = await console.sign_in()
    connection = await console.storage.database.connect("webhook_console")

    async def take() -> None:
        await (console.disable("oleg") if is_disabled else console.set_role("oleg", Role.VIEWER))

    async with connection.transaction():
        await Actions(connection).give_command(oleg, CommandName.PAUSE, merchant_id="m1")
        taking = asyncio.ensure_future(take())
        await console.storage.until_waiting("admin", taking)
    await taking
    # The other way round: what takes the right is waited for, and counts.
    other = await console.sign_in("olga")
    async with console.admin.transaction():
        await accounts.set_disabled(console.admin, "olga", True, "cli:ana")
        late = asyncio.ensure_future(console.actions.give_command(other, CommandName.PAUSE, merchant_id="m1"))
        await console.storage.until_waiting("console", late)
    with pytest.raises(SessionOver):
        await late
    assert await console.db.fetchval("SELECT count(*) FROM webhook.control") == 1
    await connection.close()


async def test_two_changes_of_one_session_at_once_wait_for_nobody(console: Console) -> None:
    oleg = await console.sign_in()
    await console.pass_time(oleg, timedelta(minutes=2))
    connection = await console.storage.database.connect("webhook_console")
    async with connection.transaction():
        await Actions(connection).give_command(oleg, CommandName.PAUSE, merchant_id="m1")
        async with asyncio.timeout(10):
            await console.actions.give_command(oleg, CommandName.PAUSE, merchant_id="m2")
            assert await console.sessions.person(oleg, is_active=True)
    await connection.close()


async def test_whatever_locks_at_once_never_deadlocks(console: Console) -> None:
    """Each ends, refused or not: a deadlock would be StorageUnavailable."""
    tokens = [await console.sign_in() for _ in range(6)]
    new = verifier_of("oleg")

    async def act(token: bytes, number: int) -> None:
        merchant = f"m{number % 2}"
        steps: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: console.actions.put_endpoint(token, merchant, URL, sealed(merchant=merchant)),
            lambda: console.actions.give_command(token, CommandName.PAUSE, merchant_id=merchant),
            lambda: console.sessions.person(token, is_active=True),
            lambda: console.sessions.change_password(token, proof_of("oleg"), new),
            lambda: console.try_(),
            lambda: console.sessions.revoke_others(token),
            lambda: console.sessions.sign_out(token),
        )
        for step in steps[number % 3 :]:
            with suppress(SessionOver, NotAllowed):
                await step()

    async def administer() -> None:
        for role in (Role.VIEWER, Role.OPERATOR) * 3:
            await accounts.set_role(console.admin, "oleg", role, "cli:ana")
            await accounts.create_code(console.admin, "oleg", secrets.token_bytes(32), "cli:ana")
            await accounts.set_password(console.admin, "oleg", new, "cli:ana")

    async with (
        asyncio.timeout(30),
        create_pool(
            console.storage.database.dsn("webhook_console"),
            application_name="console",
            command_timeout=timedelta(seconds=20),
            size=8,
        ) as pool,
    ):
        console.sessions, console.actions = Sessions(pool), Actions(pool)
        for _ in range(5):
            await asyncio.gather(administer(), *(act(token, number) for number, token in enumerate(tokens)))
            await console.set_role("oleg", Role.VIEWER)
            await console.set_role("oleg", Role.OPERATOR)
            tokens = [await console.sign_in() for _ in range(6)]
