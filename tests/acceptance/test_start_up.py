"""A command imports what it needs: what else is installed costs it no time."""

import json
import os
import subprocess
import sys

import pytest

from tests.servers.database import Database
from tests.waiting import MAX_WAIT
from webhook_dispatcher.cli.late import LateCommand
from webhook_dispatcher.cli.program import COMMANDS, DELIVERIES, ENDPOINT

PACKAGES_OF_A_DAEMON = {
    "aiodns",
    "aiohttp",
    "alembic",
    "cryptography",
    "httptools",
    "prometheus_client",
    "setuptools_scm",
    "sqlalchemy",
    "structlog",
    "uvloop",
    "yarl",
}
PACKAGES_OF_A_COMMAND = {"asyncio", "asyncpg", "rich"}
PACKAGES_OF_MIGRATE = {"alembic", "sqlalchemy", "mako"}
RUN_AND_LIST = """
import sys
from webhook_dispatcher.cli import main
code = main(sys.argv[1:])
import json
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
sys.exit(code)
"""
CLOCK = ("LD_PRELOAD", "DATEFUDGE", "TZ")
"""Variables by which the clock of the whole run may be set (lab/flaky)."""
LATE = {
    f"{group}{name}": command
    for group, commands in (("", COMMANDS), ("endpoint ", ENDPOINT), ("deliveries ", DELIVERIES))
    for name, command in commands.items()
    if isinstance(command, LateCommand)
}


HELP, NO_SETTINGS, READING = (
    pytest.mark.slow("acceptance/test_start_up.py::test_help_imports_nothing_that_a_command_needs"),
    pytest.mark.slow("acceptance/test_start_up.py::test_what_needs_no_settings_does_not_import_them"),
    pytest.mark.slow(
        "acceptance/test_start_up.py::test_a_reading_command_imports_nothing_that_only_a_daemon_needs"
    ),
)


def python(program: str, *arguments: str, environ: dict[str, str] | None = None) -> set[str]:
    """Run a program that ends by naming the packages it has imported, and return them."""
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={name: os.environ[name] for name in CLOCK if name in os.environ} | (environ or {}),
        capture_output=True,
        text=True,
        timeout=MAX_WAIT,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return set(json.loads(ended.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        pytest.param("--version", marks=HELP),
        "endpoint --help",
        pytest.param("deliveries --help", marks=HELP),
    ],
)
def test_help_imports_nothing_that_a_command_needs(line: str) -> None:
    imported = python(RUN_AND_LIST, *line.split())
    if line == "--version":
        imported -= {"setuptools_scm", "rich"}  # by which a checkout asks git
    assert "typer" in imported
    assert imported & (PACKAGES_OF_A_COMMAND | PACKAGES_OF_A_DAEMON | {"pydantic_settings"}) == set()
    # Typer imports it for options with values.
    assert "pydantic" not in imported or line.startswith(("endpoint", "deliveries"))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("migrate --sql", marks=NO_SETTINGS),
        "run --help",
        pytest.param("check --help", marks=NO_SETTINGS),
        pytest.param("explain --help", marks=NO_SETTINGS),
        "endpoint list --help",
        pytest.param("listen --help", marks=NO_SETTINGS),
    ],
)
def test_what_needs_no_settings_does_not_import_them(line: str) -> None:
    assert python(RUN_AND_LIST, *line.split()).isdisjoint({"pydantic_settings"})


@pytest.mark.parametrize(
    "line",
    [
        "endpoint list",
        pytest.param("endpoint list --json", marks=READING),
        pytest.param("deliveries list", marks=READING),
        "deliveries list --json",
    ],
)
def test_a_reading_command_imports_nothing_that_only_a_daemon_needs(database: Database, line: str) -> None:
    environ = {f"WEBHOOK_{name}": text for name, text in database.settings("webhook_admin").items()}
    imported = python(RUN_AND_LIST, *line.split(), environ=environ)
    assert "asyncpg" in imported
    assert imported & PACKAGES_OF_A_DAEMON == set()
    assert ("rich" in imported) == (line == "endpoint list"), "for tables alone: it takes long to import"


def test_check_and_the_daemon_import_nothing_that_only_migrate_needs(database: Database) -> None:
    environ = {f"WEBHOOK_{name}": text for name, text in database.settings("webhook_admin").items()}
    keys = "k1:a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
    imported = python(RUN_AND_LIST, "check", environ=environ | {"WEBHOOK_SECRET_KEYS": keys})
    assert imported & (PACKAGES_OF_MIGRATE | {"aiohttp", "uvloop"}) == set()
    listed = RUN_AND_LIST.replace("code = main(sys.argv[1:])", "import webhook_dispatcher.app; code = 0")
    assert python(listed) & PACKAGES_OF_MIGRATE == set()


@pytest.mark.parametrize("command", LATE.values(), ids=LATE)
def test_a_listed_command_says_of_itself_what_the_list_says(command: LateCommand) -> None:
    assert command.help is not None
    loaded = command.load()
    assert loaded.help.replace("\n", " ").startswith(command.help), loaded.help
