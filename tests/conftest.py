"""A real Postgres for the whole run, and a fresh migrated database for each test that asks for one."""

import asyncio
import itertools
import os
import secrets
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import asyncpg
import hypothesis
import pytest

from tests import servers
from tests.acceptance.pooler import Pooler
from tests.tools import lacking
from webhook_dispatcher.local.binaries import major_version
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.connection import create_pool
from webhook_dispatcher.storage.session import PLANNED_ONCE

TEMPLATE = "webhook_template"
_numbers = itertools.count(1)


def pytest_configure() -> None:
    """Choose the seed of the short run under faults, the same for all workers; properties take their time."""
    hypothesis.settings.register_profile(
        "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("unhurried")
    os.environ.setdefault("CHAOS_SEED", str(secrets.randbits(32)))


def pytest_report_header() -> list[str]:
    """Print that seed, and which server the tests run on."""
    return [
        f"chaos seed: {os.environ['CHAOS_SEED']} (CHAOS_SEED in the environment repeats it)",
        f"PostgreSQL {major_version(servers.programs())}, settings: {servers.wanted_settings()}",
    ]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do without a test that needs what is not there."""
    for mark in item.iter_markers("needs"):
        is_there, what = mark.args
        if not is_there:
            lacking(what)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why tests were skipped, a line for each reason, whatever -r asks for."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")


@dataclass(frozen=True, slots=True)
class Database:
    """One test's database; roles are those of the contract.

    pooler: what daemons and the command line go through, if the tests are run like that.
    """

    server: EmbeddedPostgres
    name: str
    pooler: Pooler | None = None

    def dsn(self, user: str = "webhook_dispatcher") -> str:
        """Return the URL to connect with as a role, or as the superuser `postgres`."""
        return self.server.dsn(user, self.name)

    def settings(self, user: str = "webhook_dispatcher") -> dict[str, str]:
        """Return the settings with which a program connects as a role, without their prefix."""
        if self.pooler is None:
            return {"DATABASE_URL": self.dsn(user)}
        return {"DATABASE_URL": self.pooler.dsn(user, self.name), "DATABASE_POOLER": "transaction"}

    async def connect(self, user: str = "postgres") -> asyncpg.Connection:
        """Open a connection; the caller closes it."""
        return await asyncpg.connect(self.dsn(user), server_settings=servers.settings_of_tests())

    def pool(
        self, application_name: str, size: int, command_timeout: timedelta
    ) -> AbstractAsyncContextManager[asyncpg.Pool]:
        """Keep connections as the daemon does that it claims and records by."""
        return create_pool(
            self.dsn(),
            application_name=application_name,
            command_timeout=command_timeout,
            size=size,
            planning=PLANNED_ONCE,
        )


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """Start the server that tests/servers names, with its settings."""
    # Not below pytest's own folder: as root without namespaces the server runs as nobody, who cannot pass.
    data_dir = Path(tempfile.mkdtemp(prefix="webhook-tests-"))
    server = EmbeddedPostgres(
        data_dir,
        durable=False,
        max_connections=200,
        options=servers.options(),
        bin_dir=servers.programs(),
    )
    with server:
        asyncio.run(_execute(server, f"CREATE DATABASE {TEMPLATE}"))
        asyncio.run(schema.migrate(server.dsn(database=TEMPLATE)))
        for statement in servers.defaults_of_roles():
            asyncio.run(_execute(server, statement))
        yield server
    shutil.rmtree(data_dir)


@pytest.fixture(scope="session")
def schema_only(postgres: EmbeddedPostgres) -> Database:
    """Give the template itself, for tests that write nothing and leave no connection behind."""
    return Database(postgres, TEMPLATE)


@pytest.fixture(scope="session")
def pooler(postgres: EmbeddedPostgres) -> Iterator[Pooler | None]:
    """Start a PgBouncer before the server when TEST_POOLER=transaction asks for it."""
    wanted = os.environ.get("TEST_POOLER", "")
    if wanted not in ("", "transaction"):
        raise pytest.UsageError(f"TEST_POOLER: must be transaction, or unset, not {wanted!r}")
    if not wanted:
        yield None
        return
    with Pooler(postgres.dsn()) as started:
        yield started


@pytest.fixture
def database(postgres: EmbeddedPostgres, pooler: Pooler | None) -> Iterator[Database]:
    """Make a migrated database for one test."""
    name = f"webhook_{next(_numbers)}"
    asyncio.run(_execute(postgres, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
    yield Database(postgres, name, pooler)
    asyncio.run(_execute(postgres, f"DROP DATABASE {name} WITH (FORCE)"))


async def _execute(server: EmbeddedPostgres, statement: str) -> None:
    connection = await asyncpg.connect(server.dsn())
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def process_exists(pid: int) -> bool:
    """Tell whether a process is there and not a zombie."""
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")
