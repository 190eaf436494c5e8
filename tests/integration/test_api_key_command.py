"""`api-key` against a real database, as webhook_admin."""

import asyncio
import hashlib
import json
from collections.abc import Callable

import asyncpg
import pytest

from tests.servers.database import Database
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.session import CliContext

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(database: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    settings = database.settings("webhook_admin")

    def run(*line: str, name: str | None = None) -> tuple[int, str, str]:
        environ = {f"WEBHOOK_{key}": value for key, value in settings.items()}
        if name is not None:
            environ["WEBHOOK_DATABASE_URL"] = f"{name}={environ['WEBHOOK_DATABASE_URL']}"
        code = main(["api-key", *line], CliContext(environ))
        return code, *capsys.readouterr()

    return run


async def stored(database: Database) -> list[asyncpg.Record]:
    db = await database.connect()
    rows: list[asyncpg.Record] = await db.fetch(
        "SELECT client_id, secret_hash, created_by, revoked_by FROM webhook.api_key"
    )
    await db.close()
    return rows


def test_the_secret_is_told_once_and_kept_as_a_hash(database: Database, command: Command) -> None:
    code, out, err = command("create", "m", "--name", "shop", "--requested-by", "ana")
    assert (code, err) == (0, "")
    told = dict(line.split() for line in out.splitlines()[1:])
    (row,) = asyncio.run(stored(database))
    assert row["client_id"] == told["clientId"]
    assert row["secret_hash"] == hashlib.sha256(told["clientSecret"].encode()).digest()
    assert row["created_by"] == "ana"
    for line in (["list"], ["list", "m"], ["list", "--json"], ["revoke", told["clientId"]]):
        code, out, err = command(*line)
        assert code == 0
        assert told["clientId"] in out
        assert told["clientSecret"] not in out + err


def test_programs_get_json(command: Command) -> None:
    made = json.loads(command("create", "m", "--name", "shop", "--json")[1])
    assert made.keys() == {"merchant_id", "name", "client_id", "client_secret"}
    (listed,) = json.loads(command("list", "m", "--json")[1])
    assert (listed["client_id"], listed["name"], listed["revoked_at"]) == (made["client_id"], "shop", None)
    assert json.loads(command("list", "another", "--json")[1]) == []


def test_a_key_is_revoked_for_good(command: Command) -> None:
    client_id = json.loads(command("create", "m", "--name", "shop", "--json")[1])["client_id"]
    assert command("revoke", client_id) == (0, f"{client_id}: revoked\n", "")
    assert command("revoke", client_id) == (0, f"{client_id}: was revoked before\n", "")
    (listed,) = json.loads(command("list", "--json")[1])
    assert listed["revoked_by"].startswith("cli:")


def test_a_key_that_there_is_not_is_an_error(command: Command) -> None:
    code, out, err = command("revoke", "A" * 22)
    assert (code, out) == (1, "")
    assert "there is no API key 'AAAAAAAAAAAAAAAAAAAAAA'" in err


def test_bad_usage_is_refused(command: Command) -> None:
    for line in (
        ["create", "m"],
        *(["create", "m", "--name", name] for name in (" ", "x" * 101)),
        ["revoke", "x"],
    ):
        assert command(*line)[0] == 2, line


def test_the_platform_gets_none(command: Command) -> None:
    code, _, err = command("create", "$platform", "--name", "shop")
    assert code == 1
    assert "the platform has no API key" in err


def test_a_client_id_names_its_database_where_it_has_a_name(command: Command) -> None:
    made = json.loads(command("create", "m", "--name", "shop", "--json", name="eu1")[1])
    assert made["client_id"].startswith("eu1.")
    assert command("revoke", made["client_id"], name="eu1")[0] == 0
    code, _, err = command("revoke", made["client_id"].replace("eu1", "eu2"), name="eu1")
    assert code == 2
    assert "no such database" in err
