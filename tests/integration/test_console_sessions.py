"""What a session may do, and how it ends: by time, by its person, and by who administers the account."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.integration.console_harness import HERE, Console, browser, open_console, proof_of, verifier_of
from tests.servers.database import Database
from webhook_dispatcher.domain.account import Role
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.storage.console import accounts, expiry
from webhook_dispatcher.storage.console.database import SessionOver
from webhook_dispatcher.storage.console.sessions import (
    PasswordChange,
    PasswordOutcome,
    Person,
    Preferences,
    SignInOutcome,
)

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
REFUSED, LOCKED, CHANGED = PasswordOutcome.REFUSED, PasswordOutcome.LOCKED, PasswordOutcome.CHANGED
ACTED = "SELECT acted_at FROM webhook.console_session WHERE hash = $1"


@pytest.fixture
async def console(database: Database) -> AsyncIterator[Console]:
    async with open_console(database) as console:
        yield console


async def person(console: Console, token: bytes, *, is_active: bool = False) -> Person:
    found = await console.sessions.person(token, is_active=is_active)
    assert found is not None
    return found


async def is_over(console: Console, token: bytes) -> bool:
    """Tell whether everything that finds a person by a session says so."""
    reads = await console.pool.fetch("SELECT name FROM webhook.console_reader($1)", token)
    found = await console.sessions.person(token, is_active=True)
    assert bool(reads) == (found is not None)
    return found is None


async def test_a_session_says_whose_it_is_and_what_that_one_may(console: Console) -> None:
    oleg, vera = await console.sign_in(), await console.sign_in("vera")
    operator, viewer = await person(console, oleg), await person(console, vera)
    assert (operator.name, operator.role, operator.may_change) == ("oleg", Role.OPERATOR, True)
    assert (viewer.name, viewer.role, viewer.may_change) == ("vera", Role.VIEWER, False)
    assert viewer.changes_until is None
    assert operator.preferences == Preferences()
    for unknown in (b"", bytes(32), oleg[:31]):
        assert await is_over(console, unknown)


async def test_twelve_hours_end_a_session_whatever_it_does(console: Console) -> None:
    token = await console.sign_in()
    await console.pass_time(token, 12 * HOUR - MINUTE)
    await console.db.execute("UPDATE webhook.console_session SET acted_at = clock_timestamp()")
    there = await person(console, token)
    assert there.changes_until == there.expires_at, "nobody changes anything after the end"
    await console.pass_time(token, MINUTE)
    assert await is_over(console, token)


async def test_activity_is_written_once_a_minute_and_a_page_that_refreshes_is_none(console: Console) -> None:
    token = await console.sign_in()
    began = await console.db.fetchval(ACTED, token)
    await person(console, token, is_active=True)
    assert await console.db.fetchval(ACTED, token) == began, "within a minute"
    await console.pass_time(token, MINUTE)
    await person(console, token, is_active=False)
    assert await console.db.fetchval(ACTED, token) == began - MINUTE
    await person(console, token, is_active=True)
    assert await console.db.fetchval(ACTED, token) > began


async def test_fifteen_idle_minutes_end_the_right_to_change_for_good_and_nothing_else(
    console: Console,
) -> None:
    token = await console.sign_in()
    await console.pass_time(token, 14 * MINUTE)
    assert (await person(console, token)).may_change
    await console.pass_time(token, MINUTE)
    idle = await person(console, token, is_active=True)
    assert (idle.may_change, idle.is_idle) == (False, True)
    assert not (await person(console, token, is_active=True)).may_change, "no request revives it"
    assert not await is_over(console, token), "it may look"
    again = await console.sign_in()
    assert (await person(console, again)).may_change
    vera = await console.sign_in("vera")
    await console.pass_time(vera, HOUR)
    assert not (await person(console, vera)).is_idle, "a viewer's never could"


async def test_activity_waits_for_nobody(console: Console) -> None:
    token = await console.sign_in()
    await console.pass_time(token, 2 * MINUTE)
    async with console.db.transaction():
        await console.db.execute("SELECT FROM webhook.console_session WHERE hash = $1 FOR UPDATE", token)
        async with asyncio.timeout(10):
            assert (await person(console, token, is_active=True)).name == "oleg"


async def test_signing_out_ends_one_session_and_the_others_can_be_ended(console: Console) -> None:
    here, there, elsewhere = [await console.sign_in() for _ in range(3)]
    olga = await console.sign_in("olga")
    assert await console.sessions.sign_out(here)
    assert await is_over(console, here)
    assert not await console.sessions.sign_out(here)
    assert await console.sessions.revoke_others(there) == 1
    assert [await is_over(console, token) for token in (there, elsewhere, olga)] == [False, True, False]
    ended = [(row[1], row[2], row[4]) for row in await console.audit() if row[2] != "signed in"]
    assert ended == [("oleg", "signed out", None), ("oleg", "sessions ended", {"sessions": 1})]


async def test_a_person_sees_their_own_sessions_and_ends_one(console: Console) -> None:
    there = await console.sign_in(at=browser("198.51.100.7"))
    here, olga = await console.sign_in(), await console.sign_in("olga")
    first, second = await console.sessions.own(here)
    assert (first.is_this, first.address, first.agent) == (True, HERE.address, HERE.agent)
    assert (second.is_this, str(second.address)) == (False, "198.51.100.7")
    assert second.began_at <= first.began_at < first.expires_at
    assert {first.mark, second.mark} & {here, there} == set(), "a mark opens nothing"
    [of_another] = await console.sessions.own(olga)
    assert not await console.sessions.revoke(here, of_another.mark), "it is somebody else's"
    assert not await console.sessions.revoke(here, b"")
    assert await console.sessions.revoke(here, second.mark)
    assert not await console.sessions.revoke(here, second.mark), "it is over"
    assert [await is_over(console, token) for token in (here, there, olga)] == [False, True, False]
    assert [own.mark for own in await console.sessions.own(here)] == [first.mark]
    [(_, by, _, _, what)] = [row for row in await console.audit() if row[2] == "session ended"]
    assert (by, what["address"], what["agent"]) == ("oleg", "198.51.100.7", HERE.agent)
    for asked in (console.sessions.own(there), console.sessions.revoke(there, first.mark)):
        with pytest.raises(SessionOver):
            await asked


async def test_a_disabled_account_has_no_session_any_more_and_none_comes_back(console: Console) -> None:
    token = await console.sign_in()
    await console.disable("oleg")
    assert await is_over(console, token)
    assert not await accounts.set_disabled(console.admin, "oleg", True, "cli:ana"), "as before"
    assert await accounts.set_disabled(console.admin, "oleg", False, "cli:ana")
    assert await is_over(console, token)
    assert not await is_over(console, await console.sign_in())
    assert await accounts.set_disabled(console.admin, "nobody", True, "cli:ana") is None
    changes = [row for row in await console.audit() if row[1] == "cli:ana"]
    assert [(row[2], row[4]) for row in changes] == [
        ("account disabled", {"account": "oleg", "sessions_ended": 1}),
        ("account enabled", {"account": "oleg", "sessions_ended": 0}),
    ]


async def test_a_role_changes_for_sessions_that_go_on(console: Console) -> None:
    token = await console.sign_in()
    await console.set_role("oleg", Role.VIEWER)
    assert not (await person(console, token)).may_change
    assert await console.pool.fetchval("SELECT role FROM webhook.console_reader($1)", token) == "viewer"
    await console.set_role("oleg", Role.OPERATOR)
    assert (await person(console, token)).may_change
    assert await accounts.set_role(console.admin, "oleg", Role.OPERATOR, "cli:ana") is False
    assert await accounts.set_role(console.admin, "nobody", Role.OPERATOR, "cli:ana") is None
    changes = [row for row in await console.audit() if row[1] == "cli:ana"]
    roles = [{"account": "oleg", "role": role} for role in ("operator", "viewer", "operator")]
    assert [(row[2], row[3], row[4]) for row in changes] == [
        ("account role changed", roles[0], roles[1]),
        ("account role changed", roles[1], roles[2]),
    ]


async def test_preferences_are_the_persons_in_every_session(console: Console) -> None:
    here, there = await console.sign_in("vera"), await console.sign_in("vera")
    wanted = Preferences("uz", "Asia/Tashkent", "dark")
    await console.sessions.prefer(here, wanted)
    assert (await person(console, there)).preferences == wanted
    for wrong in (Preferences(theme="pink"), Preferences(language="<b>"), Preferences(time_zone="a b")):
        with pytest.raises(StatementRefused, match=r"theme_is_known|language_is_a_code|time_zone_is_a_name"):
            await console.sessions.prefer(here, wrong)
    await console.sessions.sign_out(here)
    with pytest.raises(SessionOver, match="sign in again"):
        await console.sessions.prefer(here, Preferences())
    assert (await person(console, there)).preferences == wanted


async def test_who_changes_the_password_proves_the_one_before_and_keeps_this_session(
    console: Console,
) -> None:
    here, there = await console.sign_in("vera"), await console.sign_in("vera")
    new = verifier_of("new")
    assert (await console.sessions.change_password(here, proof_of("guess"), new)).outcome is REFUSED
    assert not await is_over(console, there)
    assert await console.sessions.change_password(here, proof_of("vera"), new) == PasswordChange(CHANGED)
    assert [await is_over(console, token) for token in (here, there)] == [False, True]
    assert (await console.try_("vera")).outcome is SignInOutcome.REFUSED
    signed = await console.sessions.sign_in("vera", proof_of("new"), secrets.token_bytes(32), HERE)
    assert signed.outcome is SignInOutcome.SIGNED_IN
    with pytest.raises(SessionOver):
        await console.sessions.change_password(there, proof_of("new"), new)
    actions = [(row[1], row[2]) for row in await console.audit()]
    assert ("vera", "password change refused") in actions
    assert ("vera", "password changed") in actions


async def test_guesses_at_the_old_password_count_like_those_at_signing_in(console: Console) -> None:
    token = await console.sign_in()
    for _ in range(5):
        await console.fail(at=browser("198.51.100.1"))
    new = verifier_of("new")
    said = [await console.sessions.change_password(token, proof_of("guess"), new) for _ in range(6)]
    assert [one.outcome for one in said] == [REFUSED] * 5 + [LOCKED]
    locked = await console.sessions.change_password(token, proof_of("oleg"), new)
    assert locked.outcome is LOCKED
    assert locked.retry_after is not None
    assert (await console.try_(at=browser("198.51.100.2"))).outcome is SignInOutcome.LOCKED


async def test_who_has_no_password_cannot_change_it(console: Console) -> None:
    assert await accounts.add(console.admin, "petr", Role.VIEWER, None, "cli:ana", is_by_proxy=True)
    token = secrets.token_bytes(32)
    await console.sessions.sign_in_by_proxy("petr", token, HERE)
    said = await console.sessions.change_password(token, proof_of(""), verifier_of("new"))
    assert said == PasswordChange(PasswordOutcome.NO_PASSWORD)


async def test_accounts_are_added_once_and_shown_without_what_proves_them(console: Console) -> None:
    await console.sign_in()
    await console.sign_in()
    assert not await accounts.add(console.admin, "oleg", Role.VIEWER, None, "cli:ana")
    shown = await accounts.list_(console.admin)
    assert [(one.name, one.role, one.has_password, one.sessions) for one in shown] == [
        ("oleg", "operator", True, 2),
        ("olga", "operator", True, 0),
        ("vera", "viewer", True, 0),
    ]
    for name in ("Oleg", "", "o leg", "cli:oleg", "x" * 65, "-o"):
        with pytest.raises(StatementRefused, match="name_has_1_to_64_plain_characters"):
            await accounts.add(console.admin, name, Role.VIEWER, None, "cli:ana")
    with pytest.raises(StatementRefused, match="who_comes_by_a_proxy_has_no_password"):
        await accounts.add(
            console.admin, "petr", Role.VIEWER, verifier_of("petr"), "cli:ana", is_by_proxy=True
        )


async def test_upkeep_clears_away_what_is_over_and_nothing_else(console: Console) -> None:
    live, over = await console.sign_in(), await console.sign_in()
    await console.pass_time(over, 13 * HOUR)
    for code in (b"live", b"over"):
        await accounts.create_code(console.admin, "oleg", code.ljust(32), "cli:ana")
    await console.db.execute(
        "UPDATE webhook.sign_in_code SET expires_at = clock_timestamp() - interval '1 hour' WHERE hash = $1",
        b"over".ljust(32),
    )
    for number in range(25):
        await console.fail(f"old{number}")
    await console.db.execute(
        "UPDATE webhook.sign_in_failure SET expires_at = clock_timestamp() - interval '1 hour'"
    )
    await console.fail("recent", browser("198.51.100.1"))
    daemon = await console.storage.daemon("daemon")
    assert await expiry.clear(daemon.pool, chunk=10) == 2
    sessions = await console.db.fetch("SELECT hash FROM webhook.console_session")
    assert [row["hash"] for row in sessions] == [live]
    codes = await console.db.fetch("SELECT hash FROM webhook.sign_in_code")
    assert [row["hash"] for row in codes] == [b"live".ljust(32)]
    subjects = await console.db.fetch("SELECT subject FROM webhook.sign_in_failure ORDER BY subject")
    assert [row["subject"] for row in subjects] == ["address 198.51.100.1", "name recent"]
    assert await expiry.clear(daemon.pool) == 0
