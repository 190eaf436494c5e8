"""The database of a run: a Postgres of its own that can crash, on a disk that can be full."""

import asyncio
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import asyncpg

from lab.chaos.clock import own_clock
from tests.servers.scaled_time import living_in
from webhook_dispatcher.local.confinement import choose
from webhook_dispatcher.local.postgres import PORT, EmbeddedPostgres
from webhook_dispatcher.storage import schema

DATABASE = "webhook"
CONNECTIONS = 150
DISK = 2 * 2**30
"""Bytes that the database may take up on its disk: of memory, as far as it is used."""
SPARE = 32 * 2**10
"""Bytes that are left to it when its disk is full."""
PATIENCE = 30.0
LOOK_EVERY = 0.02
CLONE_NEWNS = 0x20000
OPERATOR = {
    "application_name": "operator",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "idle_session_timeout": "0",
    "jit": "off",
    "statement_timeout": "0",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "30s",
}
PASSING = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
)
"""What passes by itself: the server is away, stopping, starting or full; somebody holds a lock."""


class Server:
    """Runs while entered; the database `webhook` is made and migrated then.

    programs: the folder of the Postgres that runs. settings: of the server, beside its own defaults.
    has_clock: it has a clock of its own (libfaketime), which `set_clock` sets.
    can_mount: whether the database has a disk of its own, which can be full; the WAL is never on it.
    States: running, down (`crash`, `stop_fast`); `start` brings it back on the same folder and socket.
    """

    def __init__(
        self, folder: Path, programs: Path, settings: Mapping[str, str], has_clock: bool = False
    ) -> None:
        self._programs = programs
        self._clock = folder.absolute() / "clock" if has_clock else None
        self._postgres = EmbeddedPostgres(
            folder,
            durable=False,
            max_connections=CONNECTIONS,
            # What was committed outlives the server, if not the machine.
            options={"synchronous_commit": "on", "deadlock_timeout": "200ms", **settings},
            bin_dir=programs,
        )
        self._disk = folder.absolute() / "disk"
        self.can_mount = False

    async def __aenter__(self) -> Self:
        self.can_mount = self._mount()  # before the server starts: it sees what its parent sees
        try:
            self._disk.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.set_clock(0)
            self._start()
            await self.execute(f"CREATE DATABASE {DATABASE}", database="postgres")
            await schema.migrate(self.dsn("postgres"))
            if self.can_mount:
                await self._move_to_disk()
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._postgres.stop()
        if self.can_mount:
            subprocess.run(["umount", "--lazy", str(self._disk)], check=True)

    @property
    def socket(self) -> Path:
        """Return where it listens, whether it runs or not."""
        [folder] = parse_qs(urlsplit(self._postgres.dsn()).query)["host"]
        return Path(folder) / f".s.PGSQL.{PORT}"

    @property
    def log_file(self) -> Path:
        """Return the server's log, from its latest start on."""
        return self._postgres.log_file

    @property
    def is_running(self) -> bool:
        """Tell whether the process is there, starting or stopping perhaps."""
        pid = self._postgres.pid
        return pid is not None and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def dsn(self, user: str = "postgres", database: str = DATABASE) -> str:
        """Return the URL that leads to it directly."""
        return self._postgres.dsn(user, database)

    @asynccontextmanager
    async def connect(
        self, user: str = "postgres", *, patience: float = 0.0, database: str = DATABASE
    ) -> AsyncIterator[asyncpg.Connection]:
        """Open a direct connection, retrying for so many seconds while the server is away."""
        ends = time.monotonic() + patience
        while True:
            try:
                connection = await asyncpg.connect(
                    self.dsn(user, database), timeout=PATIENCE, server_settings=OPERATOR
                )
                break
            except PASSING:
                if time.monotonic() >= ends:
                    raise
            await asyncio.sleep(LOOK_EVERY)
        try:
            yield connection
        finally:
            connection.terminate()

    async def execute(self, sql: str, *args: object, patience: float = 0.0, database: str = DATABASE) -> str:
        """Run a statement as the superuser, again for so many seconds while it fails for a passing reason."""
        result = await self._run("execute", sql, args, patience, database)
        return str(result)

    async def fetch(self, sql: str, *args: object, patience: float = 0.0) -> list[asyncpg.Record]:
        """Run a query as the superuser, again for so many seconds while it fails for a passing reason."""
        rows = await self._run("fetch", sql, args, patience, DATABASE)
        return list(rows)

    async def _run(
        self, method: str, sql: str, args: tuple[object, ...], patience: float, database: str
    ) -> Any:
        ends = time.monotonic() + patience
        while True:
            try:
                left = max(0.0, ends - time.monotonic())
                async with self.connect(patience=left, database=database) as connection:
                    return await getattr(connection, method)(sql, *args)
            except PASSING:
                if time.monotonic() >= ends:
                    raise
            await asyncio.sleep(LOOK_EVERY)

    async def describe(self) -> str:
        """Name it for the report: its version, and whether it compiles what sessions ask for by default."""
        connection = await asyncpg.connect(self.dsn())  # as a user's, not as our operators'
        try:
            version = await connection.fetchval("SHOW server_version")
            is_wanted = await connection.fetchval("SHOW jit")
            is_used = await connection.fetchval("SELECT pg_jit_available()")
        finally:
            await connection.close()
        jit = "on" if is_used else "not available" if is_wanted == "on" else "off"
        return f"PostgreSQL {version}, JIT {jit}"

    async def crash(self) -> None:
        """End it at once, with nothing written that is not in the WAL (as `pg_ctl stop -m immediate`)."""
        await self._stop(signal.SIGQUIT)

    async def stop_fast(self) -> None:
        """End every session and stop in good order."""
        await self._stop(signal.SIGINT)

    async def _stop(self, request: signal.Signals) -> None:
        pid = self._postgres.pid
        assert pid is not None
        os.kill(pid, request)
        ends = time.monotonic() + PATIENCE
        while self.is_running and time.monotonic() < ends:
            await asyncio.sleep(LOOK_EVERY)
        self._postgres.stop()

    async def start(self) -> None:
        """Bring it back, unless it runs, and wait until it serves. Blocks the event loop meanwhile.

        The server dies with the thread that starts it, so that has to be ours.
        """
        if not self.is_running:
            self._postgres.stop()
            self._start()
        await self.until_ready()

    def _start(self) -> None:
        if self._clock is None:
            self._postgres.start()
            return
        with living_in(own_clock(self._clock)):
            self._postgres.start()

    def set_clock(self, seconds: int) -> None:
        """Put its clock off by so many seconds, if it has one of its own."""
        if self._clock is not None:
            self._clock.write_text(f"{seconds:+}")
            self._clock.chmod(0o644)

    async def copy(self) -> float:
        """Copy its files while it runs, as a base backup does; return from when on the copy lacks commits."""
        async with self.connect(patience=PATIENCE) as owner:
            await owner.fetchval("SELECT pg_backup_start('behind', true)")
            for folder, behind in self._folders():
                shutil.rmtree(behind, ignore_errors=True)
                await _copy(folder, behind)
            forgets_from = time.monotonic()
            label = await owner.fetchval("SELECT labelfile FROM pg_backup_stop(false)")
        wal = self._behind / "pg_wal"
        shutil.rmtree(wal)
        await _copy(self._cluster / "pg_wal", wal)
        (self._behind / "postmaster.pid").unlink()
        (self._behind / "backup_label").write_text(label)
        owned_as = self._cluster.stat()
        os.chown(self._behind / "backup_label", owned_as.st_uid, owned_as.st_gid)
        return forgets_from

    async def take_over(self) -> None:
        """Let the latest copy serve in place of the server, which has ended, at the same socket."""
        for folder, behind in self._folders():
            shutil.rmtree(folder)
            behind.rename(folder)
        await self.start()

    @property
    def _cluster(self) -> Path:
        return self._disk.with_name("postgres")

    @property
    def _behind(self) -> Path:
        return self._disk.with_name("postgres.behind")

    def _folders(self) -> list[tuple[Path, Path]]:
        """Return where its files are, and where the copies of them."""
        on_disk = [folder for folder in self._disk.glob("PG_*") if not folder.name.endswith(".behind")]
        return [
            (self._cluster, self._behind),
            *((folder, folder.with_name(f"{folder.name}.behind")) for folder in on_disk),
        ]

    async def until_ready(self) -> None:
        """Wait until it answers, and accepts writes."""
        await self.execute("SELECT 1", patience=PATIENCE)

    async def fill_disk(self) -> None:
        """Leave the database's disk with hardly a page."""
        for _ in range(50):
            place = os.statvfs(self._disk)
            used = (place.f_blocks - place.f_bfree) * place.f_frsize
            if self._resize(used + SPARE):
                return
            await asyncio.sleep(LOOK_EVERY)  # it has grown beyond that meanwhile
        raise RuntimeError("the disk does not hold still")

    def free_disk(self) -> None:
        """Give the disk its size back."""
        if not self._resize(DISK):
            raise RuntimeError("the disk cannot be made larger")

    def _resize(self, size: int) -> bool:
        command = ["mount", "-o", f"remount,size={size}", str(self._disk)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _mount(self) -> bool:
        """Mount the disk where only this process and what it starts see it; tell whether that is allowed.

        With the last of them it is gone, whatever ends them.
        """
        owner = choose(self._programs).owner
        if os.geteuid() != 0 or ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
            return False
        self._disk.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._disk.mkdir(exist_ok=True)
        options = f"size={DISK},mode=0700,uid={owner},gid={owner}"
        with suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, check=True)
            command = ["mount", "-t", "tmpfs", "-o", options, "chaos", str(self._disk)]
            subprocess.run(command, capture_output=True, check=True)
            return True
        return False

    async def _move_to_disk(self) -> None:
        location = str(self._disk).replace("'", "''")
        await self.execute(f"CREATE TABLESPACE disk LOCATION '{location}'", database="postgres")
        await self.execute(f"ALTER DATABASE {DATABASE} SET TABLESPACE disk", database="postgres")


async def _copy(folder: Path, to: Path) -> None:
    """Copy a folder with owners and links; what vanishes meanwhile the server does not need."""
    copying = await asyncio.create_subprocess_exec(
        "cp", "-a", str(folder), str(to), stderr=asyncio.subprocess.DEVNULL
    )
    await copying.wait()
