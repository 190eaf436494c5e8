"""The command line where there are several databases: one is named, or all are gone through."""

import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.unit.fakes.administration import KEYS, FakeAdministration
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.command import COMMANDS
from webhook_dispatcher.domain.errors import SchemaMismatch
from webhook_dispatcher.storage.administration import Administration

URLS = {"eu1": "postgresql://u:sesame@localhost/a", "eu2": "postgresql://u:sesame@localhost/b"}
ENVIRON = {
    "WEBHOOK_DATABASE_URL": " ".join(f"{name}={url}" for name, url in URLS.items()),
    "WEBHOOK_SECRET_KEYS": KEYS,
    "WEBHOOK_MAX_LANES": "1",
    "WEBHOOK_INSTALLATION": "prod-eu1",
}
EVENT = "0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11"
OF_ONE_DATABASE = [
    *("endpoint set m1 https://merchant.com/", "endpoint show m1", "endpoint list"),
    *("endpoint rotate-secret m1", "endpoint rekey", "endpoint remove m1 --yes", "adopt --yes"),
    *("api-key create m1 --name shop", "api-key list", "api-key revoke Yc2mUTZkIhXnFQ0sLr1d_w"),
    *("deliveries list", f"deliveries show {EVENT}"),
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
    session = CliContext(ENVIRON, open_nothing)
    assert main(shlex.split(line), session) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "webhook-dispatcher: there are several databases: choose one of eu1, eu2 by --shard\n"


@pytest.mark.parametrize("line", OF_ONE_DATABASE)
def test_named_database_is_the_one_that_is_opened(line: str) -> None:
    with pytest.raises(Opened, match="^" + URLS["eu2"]):
        main([*shlex.split(line), "--shard", "eu2"], CliContext(ENVIRON, open_nothing))


def test_check_goes_through_all_and_names_each(capsys: pytest.CaptureFixture[str]) -> None:
    databases = {name: FakeAdministration() for name in URLS}
    databases["eu2"].schema_problem = SchemaMismatch("the schema is of version 0")

    @asynccontextmanager
    async def opened(dsn: str, pooled: bool) -> AsyncIterator[Administration]:
        [name] = [name for name, url in URLS.items() if dsn.startswith(url)]
        async with databases[name].open(dsn, pooled) as administration:
            yield administration

    assert main(["check", "--json"], CliContext(ENVIRON, opened)) == 3
    found = json.loads(capsys.readouterr().out)
    schemas = {finding["shard"]: finding["problem"] for finding in found if finding["check"] == "schema"}
    assert schemas == {"eu1": None, "eu2": "the schema is of version 0"}
    assert [finding["shard"] for finding in found if finding["check"] == "configuration"] == [None]
    main(["check", "--shard", "eu1"], CliContext(ENVIRON, opened))
    assert "eu2" not in capsys.readouterr().out
