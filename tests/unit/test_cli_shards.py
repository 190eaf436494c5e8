"""The command line where there are several databases: one is named, or all are gone through."""

import json
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.unit.fakes.administration import KEYS, FakeAdministration
from webhook_dispatcher.cli import daemon, main
from webhook_dispatcher.cli.session import Session
from webhook_dispatcher.domain.command import COMMANDS
from webhook_dispatcher.domain.errors import SchemaMismatch, StorageUnavailable
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.chosen_indexes import ChosenIndexes
from webhook_dispatcher.storage.inventory import Migrated

URLS = {"eu1": "postgresql://u:sesame@localhost/a", "eu2": "postgresql://u:sesame@localhost/b"}
ENVIRON = {
    "WEBHOOK_DATABASE_URL": " ".join(f"{name}={url}" for name, url in URLS.items()),
    "WEBHOOK_SECRET_KEYS": KEYS,
    "WEBHOOK_MAX_LANES": "1",
    "WEBHOOK_INSTALLATION": "prod-eu1",
}
EVENT = "0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11"
OF_ONE_DATABASE = [
    "endpoint set m1 https://merchant.com/",
    "endpoint show m1",
    "endpoint list",
    "endpoint rotate-secret m1",
    "endpoint rekey",
    "endpoint remove m1 --yes",
    "adopt --yes",
    "api-key create m1 --name shop",
    "api-key list",
    "api-key revoke Yc2mUTZkIhXnFQ0sLr1d_w",
    "deliveries list",
    f"deliveries show {EVENT}",
    *(f"{spec.cli.example} --no-wait" for spec in COMMANDS.values() if spec.cli is not None),
]


class Opened(Exception):
    """Somebody connected to a database."""


@asynccontextmanager
async def open_nothing(dsn: str, pooled: bool) -> AsyncIterator[Administration]:
    if dsn:
        raise Opened(dsn)
    yield FakeAdministration()


@pytest.mark.parametrize("line", OF_ONE_DATABASE)
def test_database_must_be_named(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(ENVIRON, open_nothing)
    assert main(shlex.split(line), session) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "webhook-dispatcher: there are several databases: choose one of eu1, eu2 by --shard\n"


@pytest.mark.parametrize("line", OF_ONE_DATABASE)
def test_named_database_is_the_one_that_is_opened(line: str) -> None:
    with pytest.raises(Opened, match="^" + URLS["eu2"]):
        main([*shlex.split(line), "--shard", "eu2"], Session(ENVIRON, open_nothing))


@pytest.mark.parametrize("line", OF_ONE_DATABASE)
def test_name_that_is_not_listed_is_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*shlex.split(line), "--shard", "us1"], Session(ENVIRON, open_nothing)) == 2
    assert capsys.readouterr().err == (
        "webhook-dispatcher: --shard us1: no such database; there are eu1, eu2\n"
    )


def test_check_goes_through_all_and_names_each(capsys: pytest.CaptureFixture[str]) -> None:
    databases = {name: FakeAdministration() for name in URLS}
    databases["eu2"].schema_problem = SchemaMismatch("the schema is of version 0")

    @asynccontextmanager
    async def opened(dsn: str, pooled: bool) -> AsyncIterator[Administration]:
        [name] = [name for name, url in URLS.items() if dsn.startswith(url)]
        async with databases[name].open(dsn, pooled) as administration:
            yield administration

    assert main(["check", "--json"], Session(ENVIRON, opened)) == 3
    found = json.loads(capsys.readouterr().out)
    schemas = {finding["shard"]: finding["problem"] for finding in found if finding["check"] == "schema"}
    assert schemas == {"eu1": None, "eu2": "the schema is of version 0"}
    assert [finding["shard"] for finding in found if finding["check"] == "configuration"] == [None]
    main(["check", "--shard", "eu1"], Session(ENVIRON, opened))
    assert "eu2" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("failing", "code"),
    [
        ({}, 0),
        ({"eu2": SchemaMismatch("no")}, 3),
        ({"eu1": StorageUnavailable("no"), "eu2": SchemaMismatch("no")}, 4),
    ],
)
def test_migrate_goes_on_after_a_failure(
    failing: dict[str, Exception],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {url: name for name, url in URLS.items()}

    async def migrate(
        dsn: str, indexes: ChosenIndexes, tell: Callable[[str], None], installation: str | None, paused: bool
    ) -> Migrated:
        if names[dsn] in failing:
            raise failing[names[dsn]]
        return Migrated(("0005_what_operators_ask",), None)

    monkeypatch.setattr(daemon, "_migrate", migrate)
    environ = ENVIRON | {"WEBHOOK_DATABASE_TLS": "waived"}
    assert main(["migrate"], Session(environ)) == code
    out, err = capsys.readouterr()
    done = [name for name in URLS if name not in failing]
    assert out == "".join(
        f"{name}: applied 0005_what_operators_ask\n{name}: the schema is up to date\n" for name in done
    )
    assert [line.split(": ")[1] for line in err.splitlines()] == list(failing)


def test_child_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"], Session({})) == 0
    assert "child" not in capsys.readouterr().out


def test_without_a_database_nothing_is_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"], Session({"WEBHOOK_PROCESSES": "2", "WEBHOOK_DATA_DIR": str(tmp_path)})) == 2
    assert capsys.readouterr().err.startswith("webhook-dispatcher: WEBHOOK_DATABASE_URL: not set")
