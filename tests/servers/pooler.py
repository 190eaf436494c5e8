"""A real PgBouncer in transaction mode before the test server, with few server connections that all share."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest

from tests.waiting import MAX_WAIT
from webhook_dispatcher.local.binaries import wheel_programs
from webhook_dispatcher.local.confinement import choose

PORT = 6432
START_DEADLINE = MAX_WAIT
STOP_DEADLINE = MAX_WAIT
# When the tests are killed it goes too; the SIGINT it would get otherwise makes it wait for its clients.
DIES_AT_ONCE = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
ROLES = (
    "postgres",
    "webhook_dispatcher",
    "webhook_admin",
    "webhook_producer",
    "webhook_observer",
    "webhook_api",
    "webhook_console",
)
CONFIGURATION = """\
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr =
listen_port = {listen_port}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users.txt
admin_users = postgres
pool_mode = {mode}
default_pool_size = {pool_size}
max_client_conn = 1000
ignore_startup_parameters = {ignored}
server_login_retry = 0.1
"""


def find_pgbouncer() -> str | None:
    """Return the program, if it is installed: daemons are often not on an ordinary user's PATH."""
    return shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))


class Pooler:
    """A pgbouncer that lives as long as this object is entered, on a socket in a folder of its own.

    pool_size: server connections for each user and database. ignored: as `ignore_startup_parameters` has it.
    configuration: what its file says instead, with this port; files: what stands beside it.
    """

    def __init__(
        self,
        server_dsn: str,
        *,
        pool_size: int = 2,
        mode: str = "transaction",
        ignored: str = "",
        port: int = PORT,
        configuration: str = CONFIGURATION,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self._server = parse_qs(urlsplit(server_dsn).query)
        self._pool_size = pool_size
        self._mode = mode
        self._ignored = ignored
        self._port = port
        self._configuration = configuration
        self._files = files or {}
        self._process: subprocess.Popen[bytes] | None = None

    def dsn(self, user: str = "webhook_dispatcher", database: str = "postgres") -> str:
        """Return the URL that leads through it."""
        place = urlencode({"host": str(self._folder), "port": self._port})
        return f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?{place}"

    @property
    def log(self) -> str:
        """What it has said so far."""
        return (self._folder / "pgbouncer.log").read_text()

    def counts(self, database: str) -> tuple[int, int]:
        """Return how many transactions and how many queries it has passed on to a database so far."""
        # Its console speaks simple queries alone.
        psql = [
            str(wheel_programs() / "psql"),
            self.dsn("postgres", "pgbouncer"),
            "-XAtc",
            "SHOW STATS_TOTALS",
        ]
        lines = subprocess.run(psql, capture_output=True, text=True, check=True).stdout.splitlines()
        [[transactions, queries]] = [
            line.split("|")[1:3] for line in lines if line.startswith(f"{database}|")
        ]
        return int(transactions), int(queries)

    def __enter__(self) -> Self:
        program = find_pgbouncer()
        if program is None:
            raise RuntimeError("pgbouncer is not installed (Debian: apt-get install pgbouncer)")
        # As the test server runs, which as root is `nobody` in a namespace: it reaches that server's socket.
        confinement = choose(wheel_programs())
        # Not below pytest's own folder: another user may not pass there.
        self._folder = Path(tempfile.mkdtemp(prefix="webhook-pooler-"))
        configuration = self._folder / "pgbouncer.ini"
        configuration.write_text(
            self._configuration.format(
                host=self._server["host"][0],
                port=self._server["port"][0],
                listen_port=self._port,
                folder=self._folder,
                mode=self._mode,
                pool_size=self._pool_size,
                ignored=self._ignored,
            )
        )
        (self._folder / "users.txt").write_text("".join(f'"{role}" ""\n' for role in ROLES))
        for name, text in self._files.items():
            (self._folder / name).write_bytes(text)
        confinement.own(self._folder)
        with (self._folder / "pgbouncer.log").open("wb") as log:
            command = [*DIES_AT_ONCE, program, str(configuration)]
            self._process = confinement.spawn(command, os.environ, log)
        try:
            self._await()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _await(self) -> None:
        assert self._process is not None
        ends = time.monotonic() + START_DEADLINE
        while True:
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(str(self._folder / f".s.PGSQL.{self._port}"))
                except OSError:
                    if self._process.poll() is not None or time.monotonic() > ends:
                        raise RuntimeError(f"pgbouncer did not start:\n{self.log}") from None
                else:
                    return
            time.sleep(0.01)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            # SIGTERM ends it at once; SIGINT would wait for clients.
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def pooler_if_asked(server_dsn: str, pool_size: int = 10) -> Iterator[Pooler | None]:
    """Run one before a server while entered, if TEST_POOLER asks for it; by default as large as we advise."""
    wanted = os.environ.get("TEST_POOLER", "")
    if wanted not in ("", "transaction"):
        raise pytest.UsageError(f"TEST_POOLER: must be transaction, or unset, not {wanted!r}")
    if not wanted:
        yield None
        return
    with Pooler(server_dsn, pool_size=pool_size) as started:
        yield started
