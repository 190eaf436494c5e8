"""Signing in at the console by password, code or proxy: who is refused, alike, and who is locked, exactly."""

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import ip_address

import pytest

from tests.integration.console_harness import HERE, Console, browser, open_console, proof_of, verifier_of
from tests.servers.database import Database
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.domain.password import PasswordParameters
from webhook_dispatcher.storage.connection import create_pool
from webhook_dispatcher.storage.console import accounts
from webhook_dispatcher.storage.console.accounts import CodeState, PasswordSet
from webhook_dispatcher.storage.console.sessions import Browser, Sessions, SignIn, SignInOutcome

PATIENCE = timedelta(seconds=20)
QUARTER = timedelta(minutes=15)
REFUSED, LOCKED, SIGNED_IN = SignInOutcome.REFUSED, SignInOutcome.LOCKED, SignInOutcome.SIGNED_IN
PASS_TIME = (
    "UPDATE webhook.sign_in_failure SET failed_at = "
    "ARRAY(SELECT at - $1::interval FROM unnest(failed_at) AS at ORDER BY at)"
)


@pytest.fixture
async def console(database: Database) -> AsyncIterator[Console]:
    async with open_console(database) as console:
        yield console


def code_hash(text: str = "code") -> bytes:
    return hashlib.sha256(text.encode()).digest()


async def test_the_right_password_begins_a_session_of_twelve_hours(console: Console) -> None:
    token = secrets.token_bytes(32)
    signed = await console.sessions.sign_in("oleg", proof_of("oleg"), token, HERE)
    assert (signed.outcome, signed.name, signed.retry_after) == (SIGNED_IN, "oleg", None)
    row = await console.db.fetchrow("SELECT * FROM webhook.console_session")
    assert row is not None
    assert (row["hash"], row["address"], row["agent"]) == (token, HERE.address, "Firefox")
    assert row["expires_at"] - row["began_at"] == timedelta(hours=12)
    assert row["expires_at"] == signed.expires_at
    last = "SELECT last_sign_in_at FROM webhook.account WHERE name = 'oleg'"
    assert await console.db.fetchval(last) == row["began_at"]
    after = {"by": "password", "address": "192.0.2.1", "agent": "Firefox"}
    assert await console.audit() == [("webhook_console", "oleg", "signed in", None, after)]


async def test_what_a_browser_calls_itself_is_cut(console: Console) -> None:
    await console.sign_in(at=Browser(ip_address("2001:db8::1"), "x" * 5000))
    assert await console.db.fetchval("SELECT agent FROM webhook.console_session") == "x" * 200
    assert len(str((await console.audit())[0])) < 500


async def test_names_that_there_are_not_are_answered_as_those_that_there_are(console: Console) -> None:
    known, unknown = await console.fail("oleg"), await console.fail("nobody", browser("192.0.2.9"))
    assert known == unknown == SignIn(REFUSED)
    for parameters in [await console.sessions.parameters(name) for name in ("oleg", "nobody", "", "no'body")]:
        assert len(parameters.salt) == 16
        assert (parameters.memory_kib, parameters.passes, parameters.parallelism) == (65536, 3, 4)
    once = await console.sessions.parameters("nobody")
    assert once == await console.sessions.parameters("nobody"), "each time the same"
    assert once.salt != (await console.sessions.parameters("nobody2")).salt
    assert (await console.sessions.parameters("oleg")).salt == verifier_of("oleg").parameters.salt
    # Nobody who knows the schema alone can compute it.
    await console.db.execute("UPDATE webhook.sign_in_key SET key = sha256('other')")
    assert once.salt != (await console.sessions.parameters("nobody")).salt
    # The lock tells nothing either.
    said = {}
    for place, name in enumerate(("olga", "noone")):
        said[name] = [(await console.fail(name, browser(f"198.51.100.{place}"))).outcome for _ in range(11)]
    assert said["olga"] == said["noone"] == [REFUSED] * 10 + [LOCKED]


async def test_an_unknown_name_takes_the_parameters_of_an_account_and_keeps_them(console: Console) -> None:
    """What a proof costs would tell names apart, where accounts have been given other parameters."""
    await accounts.set_password(console.admin, "vera", verifier_of("vera", memory_kib=19456), "cli:ana")
    names = [f"name{number}" for number in range(60)]
    costs = {name: (await console.sessions.parameters(name)).memory_kib for name in names}
    assert Counter(costs.values()).keys() == {65536, 19456}
    assert costs == {name: (await console.sessions.parameters(name)).memory_kib for name in names}
    # An account without a password is as one that there is not.
    assert await accounts.add(console.admin, "petr", Role.VIEWER, None, "cli:ana", is_by_proxy=True)
    assert len((await console.sessions.parameters("petr")).salt) == 16
    assert (await console.fail("petr")).outcome is REFUSED


async def test_the_first_unknown_name_costs_what_a_new_password_does(console: Console) -> None:
    await console.db.execute("TRUNCATE webhook.account CASCADE")
    parameters = await console.sessions.parameters("anna")
    assert parameters == PasswordParameters(parameters.salt)


async def test_the_stored_verifier_proves_nothing(console: Console) -> None:
    stored = await console.db.fetchval("SELECT verifier FROM webhook.account WHERE name = 'oleg'")
    assert (await console.sessions.sign_in("oleg", stored, bytes(32), HERE)).outcome is REFUSED
    for proof in (b"", bytes(32), None):
        signed = await console.sessions.sign_in("oleg", proof, bytes(32), HERE)  # type: ignore[arg-type]
        assert signed.outcome is REFUSED
        signed = await console.sessions.sign_in("nobody", proof, bytes(32), HERE)  # type: ignore[arg-type]
        assert signed.outcome is REFUSED


async def test_ten_wrong_passwords_lock_a_name_for_everybody_until_the_first_is_old(console: Console) -> None:
    refused = [await console.fail(at=browser(f"192.0.2.{number}")) for number in range(10)]
    assert [one.outcome for one in refused] == [REFUSED] * 10
    assert [one.retry_after for one in refused[:9]] == [None] * 9
    assert timedelta(minutes=14, seconds=50) < (refused[9].retry_after or QUARTER * 2) <= QUARTER
    locked = await console.try_(at=browser("203.0.113.1"))
    assert locked.outcome is LOCKED, "though it is the right one"
    assert locked.retry_after is not None
    assert locked.retry_after.total_seconds().is_integer()
    assert (await console.try_("olga")).outcome is SIGNED_IN, "nobody else is"
    audit = await console.audit()
    assert [row[:3] for row in audit[:10]] == [("webhook_console", None, "sign-in refused")] * 10
    assert [row[4]["locked_seconds"] for row in audit[:10]] == [None] * 9 + [900]
    assert {row[4]["account"] for row in audit[:10]} == {"oleg"}
    assert len(audit) == 11, "what is locked is not written down: it could go on for ever"
    await console.db.execute(PASS_TIME, QUARTER - timedelta(seconds=5))
    assert (await console.try_()).retry_after == timedelta(seconds=5)
    await console.db.execute(PASS_TIME, timedelta(seconds=5))
    assert (await console.try_()).outcome is SIGNED_IN


async def test_thirty_wrong_passwords_lock_an_address_whatever_the_names(console: Console) -> None:
    said = [(await console.fail(f"n{number}")).outcome for number in range(31)]
    assert said == [REFUSED] * 30 + [LOCKED]
    rows = await console.db.fetchval("SELECT count(*) FROM webhook.sign_in_failure")
    assert (await console.fail("another")).outcome is LOCKED
    assert await console.db.fetchval("SELECT count(*) FROM webhook.sign_in_failure") == rows
    assert (await console.try_()).outcome is LOCKED
    assert (await console.try_(at=browser("192.0.2.2"))).outcome is SIGNED_IN
    code = await console.sessions.sign_in_by_code(code_hash(), bytes(32), HERE)
    assert code.outcome is LOCKED
    assert code.retry_after is not None


async def test_of_ipv6_the_network_of_a_person_counts(console: Console) -> None:
    for number in range(30):
        at = browser(f"2001:db8:1:2::{number + 1}")
        assert (await console.fail(f"n{number}", at)).outcome is REFUSED
    assert (await console.try_(at=browser("2001:db8:1:2:ffff::1"))).outcome is LOCKED
    assert (await console.try_(at=browser("2001:db8:1:3::1"))).outcome is SIGNED_IN
    assert (await console.try_(at=Browser(None, "by a socket"))).outcome is SIGNED_IN


async def test_signing_in_does_not_forget_what_was_wrong_before(console: Console) -> None:
    """Else who guesses would begin anew whenever the person has signed in."""
    for _ in range(9):
        await console.fail()
    await console.sign_in()
    assert (await console.fail()).retry_after is not None
    assert (await console.try_()).outcome is LOCKED


async def test_failures_that_lie_ahead_do_not_lock_for_ever(console: Console) -> None:
    for _ in range(10):
        await console.fail()
    await console.db.execute(PASS_TIME, -timedelta(days=1))
    assert (await console.try_()).outcome is SIGNED_IN, "the clock was set back by a day"


async def test_a_name_that_is_none_is_not_written_down(console: Console) -> None:
    await console.fail("hunter2 is my password")
    (row,) = await console.audit()
    assert row == (
        "webhook_console",
        None,
        "sign-in refused",
        None,
        {"account": None, "address": "192.0.2.1", "locked_seconds": None},
    )


async def test_of_wrong_passwords_at_once_over_sixteen_connections_ten_are_looked_at(
    console: Console,
) -> None:
    async def other_program() -> Counter[SignInOutcome]:
        async with create_pool(
            console.storage.database.dsn("webhook_console"),
            application_name="console",
            command_timeout=PATIENCE,
            size=8,
        ) as pool:
            sessions = Sessions(pool)
            tries = [
                sessions.sign_in("oleg", proof_of("wrong"), secrets.token_bytes(32), browser(f"192.0.2.{n}"))
                for n in range(40)
            ]
            return Counter([signed.outcome for signed in await asyncio.gather(*tries)])

    counted = await asyncio.gather(other_program(), other_program())
    assert sum(counted, Counter()) == {REFUSED: 10, LOCKED: 70}
    failed = "SELECT cardinality(failed_at) FROM webhook.sign_in_failure WHERE subject = 'name oleg'"
    assert await console.db.fetchval(failed) == 10


async def test_who_guesses_at_once_waits_for_the_try_before(console: Console) -> None:
    """The row is locked until a try is counted: the eleventh is not looked at while the tenth is."""
    for _ in range(9):
        await console.fail()
    other = await console.storage.database.connect("webhook_console")
    async with other.transaction():
        assert (await Sessions(other).sign_in("oleg", bytes(32), bytes(32), HERE)).outcome is REFUSED
        late = asyncio.ensure_future(console.try_())
        await console.storage.until_waiting("console", late)
    assert (await late).outcome is LOCKED
    await other.close()


async def test_a_disabled_account_is_told_so_by_the_right_password_alone(console: Console) -> None:
    await console.disable("oleg")
    assert (await console.fail()).outcome is REFUSED
    assert await console.try_() == SignIn(SignInOutcome.DISABLED)
    assert await console.db.fetchval("SELECT count(*) FROM webhook.console_session") == 0


async def test_a_code_signs_in_once_within_sixty_seconds_even_who_is_locked(console: Console) -> None:
    made = await accounts.create_code(console.admin, "vera", code_hash(), "cli:ana")
    assert made.state is CodeState.MADE
    assert made.expires_at is not None
    left = made.expires_at - await console.storage.now()
    assert timedelta(seconds=50) < left <= timedelta(seconds=60)
    for _ in range(10):
        await console.fail("vera")
    token = secrets.token_bytes(32)
    signed = await console.sessions.sign_in_by_code(code_hash(), token, HERE)
    assert (signed.outcome, signed.name) == (SIGNED_IN, "vera")
    person = await console.sessions.person(token, is_active=False)
    assert person is not None
    assert person.name == "vera"
    again = await console.sessions.sign_in_by_code(code_hash(), secrets.token_bytes(32), HERE)
    assert again.outcome is REFUSED
    actions = [(row[0], row[1], row[2]) for row in await console.audit() if row[2] != "sign-in refused"]
    assert actions == [
        ("webhook_admin", "cli:ana", "sign-in code made"),
        ("webhook_console", "vera", "signed in"),
    ]


async def test_a_code_that_is_over_or_none_is_refused_and_counts_for_its_address(console: Console) -> None:
    await accounts.create_code(console.admin, "oleg", code_hash(), "cli:ana")
    await console.db.execute("UPDATE webhook.sign_in_code SET expires_at = clock_timestamp()")
    for text in ("code", *(f"guess {number}" for number in range(29))):
        said = await console.sessions.sign_in_by_code(code_hash(text), secrets.token_bytes(32), HERE)
        assert said.outcome is REFUSED, text
    assert said.retry_after is not None
    said = await console.sessions.sign_in_by_code(code_hash("new"), secrets.token_bytes(32), HERE)
    assert said.outcome is LOCKED


async def test_a_code_of_an_account_that_is_disabled_meanwhile_signs_nobody_in(console: Console) -> None:
    await accounts.create_code(console.admin, "oleg", code_hash(), "cli:ana")
    await console.disable("oleg")
    said = await console.sessions.sign_in_by_code(code_hash(), bytes(32), HERE)
    assert said == SignIn(SignInOutcome.DISABLED)
    assert await console.db.fetchval("SELECT count(*) FROM webhook.console_session") == 0
    assert (await accounts.create_code(console.admin, "oleg", code_hash("b"), "")).state == "disabled"
    assert (await accounts.create_code(console.admin, "nobody", code_hash("c"), "")).state == "unknown"


async def test_of_two_who_use_a_code_at_once_one_gets_a_session(console: Console) -> None:
    await accounts.create_code(console.admin, "oleg", code_hash(), "cli:ana")
    async with create_pool(
        console.storage.database.dsn("webhook_console"),
        application_name="other",
        command_timeout=PATIENCE,
        size=8,
    ) as pool:
        tries = [
            Sessions(pool).sign_in_by_code(code_hash(), secrets.token_bytes(32), browser(f"192.0.2.{n}"))
            for n in range(8)
        ]
        said = Counter([signed.outcome for signed in await asyncio.gather(*tries)])
    assert said == {SIGNED_IN: 1, REFUSED: 7}
    assert await console.db.fetchval("SELECT count(*) FROM webhook.console_session") == 1


async def test_a_proxy_signs_in_only_whom_no_password_does(console: Console) -> None:
    assert await accounts.add(console.admin, "petr@corp.uz", Role.OPERATOR, None, "cli:ana", is_by_proxy=True)
    token = secrets.token_bytes(32)
    signed = await console.sessions.sign_in_by_proxy("petr@corp.uz", token, HERE)
    assert (signed.outcome, signed.name) == (SIGNED_IN, "petr@corp.uz")
    person = await console.sessions.person(token, is_active=True)
    assert person is not None
    assert (person.is_by_proxy, person.may_change) == (True, True)
    for name in ("oleg", "nobody"):
        said = await console.sessions.sign_in_by_proxy(name, bytes(32), HERE)
        assert said == SignIn(REFUSED), "whoever holds the role's password could be anybody"
    given = await accounts.set_password(console.admin, "petr@corp.uz", verifier_of("petr"), "cli:ana")
    assert given is PasswordSet.BY_PROXY
    await console.disable("petr@corp.uz")
    assert (await console.sessions.sign_in_by_proxy("petr@corp.uz", bytes(32), HERE)).outcome == "disabled"


async def test_a_new_password_lifts_the_lock_and_ends_the_sessions(console: Console) -> None:
    token = await console.sign_in()
    for _ in range(10):
        await console.fail()
    changed = await accounts.set_password(console.admin, "oleg", verifier_of("new"), "cli:ana")
    assert changed is PasswordSet.CHANGED
    assert await console.sessions.person(token, is_active=True) is None
    assert (await console.sessions.sign_in("oleg", proof_of("oleg"), bytes(32), HERE)).outcome is REFUSED
    assert (await console.sessions.sign_in("oleg", proof_of("new"), bytes(32), HERE)).outcome is SIGNED_IN
    set_ = [row for row in await console.audit() if row[2] == "password set"]
    after = {"account": "oleg", "sessions_ended": 1}
    assert set_ == [("webhook_admin", "cli:ana", "password set", None, after)]
    unknown = await accounts.set_password(console.admin, "nobody", verifier_of("x"), "cli:ana")
    assert unknown is PasswordSet.UNKNOWN


async def test_a_password_that_is_replaced_while_it_is_compared_signs_nobody_in(console: Console) -> None:
    async with console.admin.transaction():
        await accounts.set_password(console.admin, "oleg", verifier_of("new"), "cli:ana")
        late = asyncio.ensure_future(console.try_())
        await console.storage.until_waiting("console", late)
    assert (await late).outcome is REFUSED
    assert await console.db.fetchval("SELECT count(*) FROM webhook.console_session") == 0
