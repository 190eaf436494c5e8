"""`account` against a real database, as webhook_admin; the console's side sees what it did."""

import asyncio
import hashlib
import io
import json
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import asyncpg
import pytest

from tests.integration.console_harness import HERE
from tests.servers.database import Database
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain import password
from webhook_dispatcher.domain.account import SignInCode
from webhook_dispatcher.domain.password import PasswordParameters, prove
from webhook_dispatcher.storage.console.sessions import Sessions, SignIn, SignInOutcome

T = TypeVar("T")
CHEAP = (8192, 1, 2)
"""What new passwords get here; what they get otherwise, test_password.py knows."""
WORDS, OTHERS = "correct horse battery", "тўғри от батарея"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    database: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Run `account …` with these bytes on standard input; its passwords are proved cheaply."""
    settings = database.settings("webhook_admin")
    monkeypatch.setattr(
        password,
        "PasswordParameters",
        partial(PasswordParameters, memory_kib=CHEAP[0], passes=CHEAP[1], parallelism=CHEAP[2]),
    )

    def run(*line: str, given: bytes | str = b"") -> tuple[int, str, str]:
        environ = {f"WEBHOOK_{key}": value for key, value in settings.items()}
        raw = given.encode() if isinstance(given, str) else given
        stdin = SimpleNamespace(buffer=io.BytesIO(raw), isatty=lambda: False)
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdin", stdin)
            code = main(["account", *line], CliContext(environ))
        return code, *capsys.readouterr()

    return run


def asked(database: Database, ask: Callable[[Sessions], Coroutine[Any, Any, T]]) -> T:
    """Ask as the console does."""

    async def run() -> T:
        connection = await database.connect("webhook_console")
        try:
            return await ask(Sessions(connection))
        finally:
            await connection.close()

    return asyncio.run(run())


def sign_in(database: Database, name: str, words: str) -> SignIn:
    """Sign in as the console does, argon2id and all."""

    async def run(sessions: Sessions) -> SignIn:
        proof = prove(words, await sessions.parameters(name))
        return await sessions.sign_in(name, proof, secrets.token_bytes(32), HERE)

    return asked(database, run)


def listed(command: Command) -> list[dict[str, Any]]:
    return [
        {key: one[key] for key in ("name", "role", "has_password", "is_by_proxy", "is_disabled")}
        for one in json.loads(command("list", "--json")[1])
    ]


async def stored(database: Database) -> list[asyncpg.Record]:
    db = await database.connect()
    rows: list[asyncpg.Record] = await db.fetch("SELECT * FROM webhook.account ORDER BY name")
    await db.close()
    return rows


def test_an_account_is_added_by_a_line_of_standard_input_and_signs_in(
    database: Database, command: Command
) -> None:
    added = command("add", "Anna", "--role", "operator", "--requested-by", "ana", given=f"{WORDS}\r\nmore")
    assert added == (0, "anna: operator added\n", "")
    assert sign_in(database, "anna", WORDS).outcome is SignInOutcome.SIGNED_IN
    assert sign_in(database, "anna", f"{WORDS}\r").outcome is SignInOutcome.REFUSED
    (row,) = asyncio.run(stored(database))
    assert (row["created_by"], row["memory_kib"], row["passes"], row["parallelism"]) == ("ana", *CHEAP)
    for secret in (row["salt"], row["verifier"]):
        assert secret.hex() not in command("list", "--json")[1]
    again = command("add", "anna", "--role", "viewer", given=OTHERS)
    assert (again[0], again[1]) == (1, "")
    assert "there is an account 'anna' already: see `account list`" in again[2]
    assert sign_in(database, "anna", WORDS).outcome is SignInOutcome.SIGNED_IN


def test_two_accounts_of_one_password_have_nothing_in_common(database: Database, command: Command) -> None:
    for name in ("anna", "vera"):
        assert command("add", name, "--role", "viewer", given=WORDS)[0] == 0
    anna, vera = asyncio.run(stored(database))
    assert anna["salt"] != vera["salt"]
    assert anna["verifier"] != vera["verifier"]


def test_a_password_that_is_not_taken_is_told_why_and_nobody_is_added(
    database: Database, command: Command
) -> None:
    for given, said in (
        (b"", "at least 12 characters"),
        (b"short\n", "at least 12 characters"),
        (b"x" * 300 + b"\n", "at most 256 characters"),
        (b"correct\x07horse battery\n", "printable characters"),
        (b"correct \xff horse battery\n", "no UTF-8"),
    ):
        code, out, err = command("add", "anna", "--role", "viewer", given=given)
        assert (code, out, said in err) == (2, "", True), given
    assert asyncio.run(stored(database)) == []


def test_bad_usage_is_refused_and_no_password_is_taken_as_an_argument(command: Command) -> None:
    for line in (
        ["add", "anna"],
        ["add", "anna", "--role", "admin"],
        ["add", "an na", "--role", "viewer"],
        ["add", "cli:anna", "--role", "viewer"],
        ["add", "anna", WORDS, "--role", "viewer"],
        ["password", "anna", WORDS],
        ["password", "anna", "--password", WORDS],
        ["role", "anna"],
        ["role", "anna", "boss"],
        ["code"],
    ):
        code, out, err = command(*line, given=WORDS)
        assert (code, out, "--help" in err) == (2, "", True), line


def test_an_account_that_there_is_not_is_an_error(command: Command) -> None:
    for line in ("password anna", "role anna viewer", "disable anna", "enable anna", "code anna"):
        code, out, err = command(*line.split(), given=WORDS)
        assert (code, out) == (1, ""), line
        assert "there is no account 'anna'; `account list` shows them all" in err


def test_an_accounts_life(database: Database, command: Command) -> None:
    assert command("add", "anna", "--role", "operator", given=WORDS)[0] == 0
    assert command("role", "anna", "viewer") == (0, "anna: viewer\n", "")
    assert command("role", "anna", "viewer") == (0, "anna: viewer, as before\n", "")
    set_ = command("password", "anna", given=OTHERS)
    assert set_ == (0, "anna: password set; the sessions from before have ended\n", "")
    assert sign_in(database, "anna", WORDS).outcome is SignInOutcome.REFUSED
    assert sign_in(database, "anna", OTHERS).outcome is SignInOutcome.SIGNED_IN
    assert command("disable", "anna") == (0, "anna: disabled; its sessions have ended\n", "")
    assert sign_in(database, "anna", OTHERS).outcome is SignInOutcome.DISABLED
    code, out, err = command("code", "anna")
    assert (code, out) == (1, "")
    assert "`account enable anna` lets it sign in again" in err
    assert command("enable", "anna") == (0, "anna: may sign in\n", "")
    assert sign_in(database, "anna", OTHERS).outcome is SignInOutcome.SIGNED_IN
    anna = {"name": "anna", "role": "viewer", "has_password": True, "is_by_proxy": False}
    assert listed(command) == [{**anna, "is_disabled": False}]
    _, table, _ = command("list")
    assert table.split()[:3] == ["name", "role", "has_password"]


def test_a_code_signs_in_as_it_is_printed(database: Database, command: Command) -> None:
    added = command("add", "anna", "--role", "viewer", "--no-password")
    assert added == (0, "anna: viewer added; `account code anna` signs this person in\n", "")
    code, out, err = command("code", "anna")
    assert (code, err) == (0, "signs anna in at the console, once, within sixty seconds\n")
    typed = SignInCode.parse(out.lower())
    assert typed is not None
    made = json.loads(command("code", "anna", "--json")[1])
    assert made.keys() == {"name", "code", "expires_at"}
    told = SignInCode.parse(made["code"])
    assert told is not None
    for one in (typed, told):
        by_code = partial(
            Sessions.sign_in_by_code, code_hash=one.hash, session_hash=secrets.token_bytes(32), browser=HERE
        )
        signed = asked(database, by_code)
        assert (signed.outcome, signed.name) == (SignInOutcome.SIGNED_IN, "anna")


def test_whom_a_proxy_signs_in_has_no_password(database: Database, command: Command) -> None:
    added = command("add", "Anna@corp.uz", "--role", "operator", "--by-proxy")
    assert added == (0, "anna@corp.uz: operator added; the proxy signs this person in\n", "")
    code, out, err = command("password", "anna@corp.uz", given=WORDS)
    assert (code, out) == (1, "")
    assert "a proxy signs 'anna@corp.uz' in: the account may have no password" in err
    session = hashlib.sha256(b"").digest()
    signed = asked(database, lambda sessions: sessions.sign_in_by_proxy("anna@corp.uz", session, HERE))
    assert signed.outcome is SignInOutcome.SIGNED_IN


def test_the_audit_names_who_did_it_and_holds_no_secret(database: Database, command: Command) -> None:
    command("add", "anna", "--role", "operator", "--requested-by", "ana", given=WORDS)
    command("password", "anna", "--requested-by", "bob", given=OTHERS)
    code = command("code", "anna")[1].strip()

    async def read() -> list[asyncpg.Record]:
        db = await database.connect()
        rows: list[asyncpg.Record] = await db.fetch("SELECT * FROM webhook.audit ORDER BY id")
        await db.close()
        return rows

    rows = asyncio.run(read())
    assert [(row["role"], row["person"], row["action"]) for row in rows[:2]] == [
        ("webhook_admin", "ana", "account added"),
        ("webhook_admin", "bob", "password set"),
    ]
    assert rows[2]["person"].startswith("cli:")
    (account,) = asyncio.run(stored(database))
    for secret in (WORDS, OTHERS, code, account["verifier"].hex(), account["salt"].hex()):
        assert secret not in str(rows)


def test_another_role_of_the_database_is_told_whom_to_connect_as(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {f"WEBHOOK_{key}": value for key, value in database.settings("webhook_console").items()}
    assert main(["account", "list"], CliContext(environ)) == 1
    assert "connect as webhook_admin" in capsys.readouterr().err
