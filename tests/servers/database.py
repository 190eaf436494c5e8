"""A database for each test on the server that all share, or a server of a test's own."""

import asyncio
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg

from tests import servers
from tests.servers.pooler import Pooler
from tests.spent import spending
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.chosen_indexes import ChosenIndexes
from webhook_dispatcher.storage.connection import create_pool
from webhook_dispatcher.storage.session import PLANNED_ONCE

TEMPLATE = "webhook_template"
MIGRATED = "TEST_MIGRATED_CLUSTER"
"""The variable that names the folder for the files of a server that has the template."""
Connect = Callable[..., Awaitable[asyncpg.Connection]]
"""Opens a connection to a test's database as a role, or as the superuser; it is closed after the test."""


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


async def execute(server: EmbeddedPostgres, statement: str) -> None:
    """Execute a statement as the superuser."""
    connection = await asyncpg.connect(server.dsn())
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def copy_database(server: EmbeddedPostgres, name: str, template: str = TEMPLATE) -> None:
    """Make a database like another that nobody uses.

    The server waits five seconds for closed sessions of that to go; on a busy machine some take longer.
    """
    statement = f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"
    for _ in range(12):
        with suppress(asyncpg.ObjectInUseError):
            return await execute(server, statement)
    await execute(server, statement)


@contextmanager
def running(server: EmbeddedPostgres) -> Iterator[None]:
    """Run a server while entered."""
    with spending("starting Postgres"):
        server.start()
    try:
        yield
    finally:
        with spending("starting Postgres"):
            server.stop()


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def template_server() -> Iterator[EmbeddedPostgres]:
    """Serve while entered, with the database of which those of tests are copies."""
    with _served(_migrated_cluster(), max_connections=200, options=servers.options()) as server:
        for statement in servers.defaults_of_roles():
            asyncio.run(execute(server, statement))
        yield server


@contextmanager
def own_server(options: Mapping[str, str]) -> Iterator[EmbeddedPostgres]:
    """Serve while entered, as initdb leaves it."""
    with _served(options={**servers.options(), **options}) as server:
        yield server


@contextmanager
def own_migrated(options: Mapping[str, str]) -> Iterator[Database]:
    """Have a migrated database on a server of its own while entered."""
    with _served(_migrated_cluster(), options={**servers.options(), **options}) as server:
        yield Database(server, TEMPLATE)


@contextmanager
def _served(cluster: Path | None = None, **chosen: Any) -> Iterator[EmbeddedPostgres]:
    """Serve while entered, from a copy of a cluster or from a new one."""
    # Not below pytest's own folder: as root without namespaces the server runs as nobody, who cannot pass.
    data_dir = Path(tempfile.mkdtemp(prefix="webhook-tests-"))
    try:
        if cluster is not None:
            shutil.copytree(cluster, data_dir / cluster.name)
        server = EmbeddedPostgres(data_dir, durable=False, bin_dir=servers.programs(), **chosen)
        with running(server):
            yield server
    finally:
        shutil.rmtree(data_dir)


def _migrated_cluster() -> Path:
    """Return the files of a server with the template, made once for all processes that run tests.

    initdb and migrating take 1.2 s of the processor.
    """
    folder = Path(os.environ[MIGRATED])
    made = folder / "postgres"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            server = EmbeddedPostgres(folder / "draft", durable=False, bin_dir=servers.programs())
            with running(server):
                with spending("making databases"):
                    asyncio.run(execute(server, f"CREATE DATABASE {TEMPLATE}"))
                with spending("migrating"):
                    # With all that may be chosen: tests of what is not there migrate a database of their own.
                    asyncio.run(schema.migrate(server.dsn(database=TEMPLATE), ChosenIndexes(feed=True)))
            (folder / "draft" / "postgres").rename(made)
    return made
