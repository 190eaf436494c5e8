"""The command line as a whole: exit codes, one line for what is wrong, help with examples."""

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.unit.fakes.administration import FakeAdministration
from webhook_dispatcher.cli import main
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.errors import (
    ConfigurationError,
    DispatcherError,
    SchemaMismatch,
    StatementRefused,
    StorageUnavailable,
    UnknownKey,
    UserError,
)
from webhook_dispatcher.storage.administration import Administration

DATABASE = {"WEBHOOK_DATABASE_URL": "postgresql://u:sesame@db/charges"}


def failing(error: DispatcherError) -> CliContext:
    @asynccontextmanager
    async def fail(dsn: str, pooled: bool) -> AsyncIterator[Administration]:
        if error:
            raise error
        yield FakeAdministration()

    return CliContext(DATABASE, open_administration=fail)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        *((UserError("no"), 1), (StatementRefused("23514", "no"), 1), (UnknownKey("k1", "no"), 1)),
        *((ConfigurationError("no"), 2), (SchemaMismatch("no"), 3), (StorageUnavailable("no"), 4)),
    ],
)
def test_errors_have_exit_code(error: DispatcherError, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["endpoint", "list"], failing(error)) == code
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"webhook-dispatcher: {error}\n")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        *(("", "Missing command"), ("nonsense", "'nonsense'"), ("endpoint set", "'MERCHANT'")),
        ("endpoint set m1", "give a URL, --types or --order"),
        ("endpoint set m1 https://merchant.com/ --at-once 8", "goes with --order charge"),
        ("endpoint set m1 --order merchant --at-once 8", "goes with --order charge"),
        ("endpoint set m1 --order charge --at-once 33", "less than or equal to 32"),
        ("endpoint show ''", "1 to 128 printable characters"),
        ("endpoint rotate-secret m1 --overlap 24x", "ISO 8601"),
        ("endpoint rotate-secret m1 --overlap PT0S", "longer than PT0S"),
        ("deliveries list --state lost", "--state"),
        ("deliveries list --since yesterday", "2026-11-20T08:15:00Z"),
        ("deliveries list --limit 0", "--limit"),
        ("deliveries show 123", "UUID"),
        ("deliveries retry-failed", "give --merchant, --since or both"),
        ("pause", "either a merchant or --all"),
        ("resume m1 --all", "either a merchant or --all"),
        ("run --fast", "--fast"),
        ("names set", "give --header-prefix, --user-agent or --signatures"),
        ("names set --header-prefix Acme", "a hyphen last, such as Acme-"),
        ("names set --header-prefix wEbHook-", "begins the headers of Standard Webhooks"),
        ("names set --user-agent 'Acme\n/2'", "1 to 256 printable ASCII characters"),
        ("names set --signatures standard", "'standard' is neither service nor service,standard"),
        ("listen --header-prefix webhook-", "begins the headers of Standard Webhooks"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(line: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line), CliContext(DATABASE)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("webhook-dispatcher: ")
    assert err.count("\n") == 1
    assert named in err
    assert "--help)" in err


def test_bad_configuration_is_a_line_per_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"], CliContext({"WEBHOOK_LEASE": "30"})) == 2
    assert main(["run"], CliContext({"WEBHOOK_LEASE": "30", "WEBHOOK_LANES": "2"})) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1] for line in lines] == [" WEBHOOK_LANES", " WEBHOOK_LEASE"]


@pytest.mark.parametrize("line", ["run", "migrate", "endpoint list", "deliveries list"])
def test_without_a_database_url_nothing_starts(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split(), CliContext({})) == 2
    assert capsys.readouterr().err.startswith("webhook-dispatcher: WEBHOOK_DATABASE_URL: not set")


@pytest.mark.parametrize(
    "line", ["run", "endpoint set m1 https://merchant.com/", "endpoint rotate-secret m1", "endpoint rekey"]
)
def test_without_keys_nothing_that_needs_them_starts(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split(), CliContext(DATABASE)) == 2
    assert capsys.readouterr().err.startswith("webhook-dispatcher: WEBHOOK_SECRET_KEYS: not set")


def test_embedded_and_a_database_url_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--embedded"], CliContext(DATABASE)) == 2
    assert "--embedded" in capsys.readouterr().err
