"""A Postgres of our own for laptops, the demo and tests: only the binaries of a wheel, no TCP.

It listens on a socket in a private folder, where everybody who can enter is trusted. It dies with us,
whatever kills us: the kernel sends it a fast shutdown when the thread that started it ends, so it is
started from the main thread. A data folder is held by one process at a time.

States: stopped, running; `start` and `stop` (or `with`) lead from one to the other.
"""

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import quote, urlencode

from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.local.binaries import initdb_options, major_version, wheel_programs
from webhook_dispatcher.local.confinement import NOBODY, Confinement, choose, interrupts_held_back

PORT = 5432
# sockaddr_un holds 108 bytes, the last of them a NUL.
SOCKET_PATH_LIMIT = 107
# Commas separate folders in Postgres's setting and in a connection URL.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")
MAX_START_SECONDS = 60.0
MAX_STOP_SECONDS = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
MAX_PREDECESSOR_SECONDS = 10.0
_POLL_SECONDS = 0.01


class EmbeddedPostgres:
    """A Postgres server that lives as long as this object is entered.

    durable: without, a crash of the machine (not of a process) may lose the data; quicker.
    bin_dir: programs of another version than the wheel's.
    options: further server settings; they win over ours.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        durable: bool = True,
        max_connections: int = 100,
        options: Mapping[str, str] | None = None,
        bin_dir: Path | None = None,
        confinement: Confinement | None = None,
    ) -> None:
        self._data_dir = data_dir.absolute()
        self._durable = durable
        self._options = {
            "listen_addresses": "",
            "port": str(PORT),
            "max_connections": str(max_connections),
            "timezone": "UTC",
            "log_timezone": "UTC",
            **({} if durable else {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}),
            **(options or {}),
        }
        self._bin_dir = bin_dir
        self._confinement = confinement
        self._socket_dir = self._data_dir / "socket"
        self._lock: IO[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        """Where the server writes its log, from its latest start on."""
        return self._data_dir / "postgres.log"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return None if self._server is None else self._server.pid

    def dsn(self, user: str = "postgres", database: str = "postgres") -> str:
        """Return a connection URL as asyncpg reads it."""
        place = urlencode({"host": str(self._socket_dir), "port": self._options["port"]})
        return f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?{place}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Make the database if there is none, and serve it."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("start an EmbeddedPostgres from the main thread: it dies with its thread")
        bin_dir = self._bin_dir or wheel_programs()
        confinement = self._confinement or choose(bin_dir)
        try:
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(self._data_dir)
            confinement.reach(self._data_dir)
            programs = confinement.programs(bin_dir, self._data_dir)
            version = major_version(bin_dir)
            self._make_database(programs, confinement, version)
            self._socket_dir = _make_socket_dir(self._data_dir)
            confinement.own(self._socket_dir)
            self._serve(programs, confinement)
        except OSError as error:
            self.stop()
            raise ConfigurationError(f"cannot keep a database in {self._data_dir}: {error}") from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Shut the server down, and leave the folder to others."""
        server, self._server = self._server, None
        if server is not None:
            _end(server)
            self._remove_distant_socket_dir()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    @property
    def _cluster(self) -> Path:
        return self._data_dir / "postgres"

    def _make_database(self, programs: Path, confinement: Confinement, version: int) -> None:
        """Run initdb, unless there is a database of this version already."""
        if self._cluster.exists():
            found = (self._cluster / "PG_VERSION").read_text().strip()
            if found != str(version):
                raise ConfigurationError(
                    f"{self._cluster} holds a database of PostgreSQL {found}, and this is {version}: "
                    "set WEBHOOK_DATA_DIR to another folder, or remove this one"
                )
            confinement.own(self._cluster)
            return
        # Renamed when complete: an initdb cut short leaves nothing that looks like a database.
        draft = self._data_dir / "postgres.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        confinement.own(draft)
        command = [str(programs / "initdb"), "-D", str(draft), "-U", "postgres", *initdb_options(version)]
        if not self._durable:
            command.append("--no-sync")
        with self._spawned(command, confinement) as initdb:
            if initdb.wait(MAX_START_SECONDS) != 0:
                raise ConfigurationError(f"initdb failed:\n{self._log_tail()}")
        draft.rename(self._cluster)

    def _serve(self, programs: Path, confinement: Confinement) -> None:
        """Start the server and wait until it accepts connections."""
        _await_predecessor(self._cluster)
        settings = {
            **self._options,
            "unix_socket_directories": str(self._socket_dir),
            "unix_socket_permissions": "0700",
        }
        command = [str(programs / "postgres"), "-D", str(self._cluster)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with self._spawned(command, confinement) as server:
            deadline = time.monotonic() + MAX_START_SECONDS
            while not _accepts_connections(self._cluster, server.pid):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise ConfigurationError(f"Postgres did not start; its log ends:\n{self._log_tail()}")
                time.sleep(_POLL_SECONDS)
            self._server = server

    @contextmanager
    def _spawned(self, command: list[str], confinement: Confinement) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program that writes to the log; end it if the block fails."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))
        }
        program: subprocess.Popen[bytes] | None = None
        try:
            with self.log_file.open("wb") as log, interrupts_held_back():
                program = confinement.spawn(command, environment, log)
            yield program
        except BaseException:
            if program is not None:
                _end(program)
            raise

    def _log_tail(self) -> str:
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-15:])

    def _remove_distant_socket_dir(self) -> None:
        if self._socket_dir.parent != self._data_dir:
            shutil.rmtree(self._socket_dir, ignore_errors=True)


def _lock(data_dir: Path) -> IO[bytes]:
    """Hold the folder for this process; the kernel releases it when the process dies."""
    lock = (data_dir / "lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ConfigurationError(
            f"{data_dir} is in use by another webhook-dispatcher: stop that one, or set WEBHOOK_DATA_DIR "
            "to another folder"
        ) from None
    return lock


def _make_socket_dir(data_dir: Path) -> Path:
    """Make the private folder of the socket: beside the data, or a short one where that is too long."""
    near = data_dir / "socket"
    if _fits(near):
        near.mkdir(mode=0o700, exist_ok=True)
        return near
    # Named after the data folder, so that one left behind by a kill is found and used again.
    name = f"webhook-{os.geteuid()}-{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]}"
    distant = Path(tempfile.gettempdir()) / name
    if not _fits(distant):
        distant = Path("/tmp") / name
    distant.mkdir(mode=0o700, exist_ok=True)
    found = distant.lstat()
    ours = {os.geteuid(), NOBODY} if os.geteuid() == 0 else {os.geteuid()}
    if distant.is_symlink() or found.st_mode & 0o077 or found.st_uid not in ours:
        raise ConfigurationError(f"{distant} is not a private folder of ours: remove it, or set TMPDIR")
    return distant


def _fits(socket_dir: Path) -> bool:
    path = os.fsencode(socket_dir / f".s.PGSQL.{PORT}")
    return len(path) <= SOCKET_PATH_LIMIT and _PLAIN_PATH.fullmatch(str(socket_dir)) is not None


def _await_predecessor(cluster: Path) -> None:
    """Wait for a server whose parent was killed to end; drop a pid file whose pid is someone else's now."""
    deadline = time.monotonic() + MAX_PREDECESSOR_SECONDS
    while (pid := _recorded_pid(cluster)) is not None:
        if not _serves(pid, cluster):
            (cluster / "postmaster.pid").unlink(missing_ok=True)
            return
        if time.monotonic() > deadline:
            raise ConfigurationError(
                f"{cluster} is in use by another Postgres (process {pid}): stop that one"
            )
        time.sleep(_POLL_SECONDS)


def _recorded_pid(cluster: Path) -> int | None:
    try:
        return abs(int((cluster / "postmaster.pid").read_text().split("\n", 1)[0]))
    except (FileNotFoundError, ValueError):
        return None


def _serves(pid: int, cluster: Path) -> bool:
    """Tell whether a process is a server of this database: Postgres works inside its data folder."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == cluster.resolve()
    except FileNotFoundError:
        return not Path("/proc/self").exists() and _is_alive(pid)
    except PermissionError:
        # Somebody else's. Root without the right to look may have started it as nobody.
        return os.geteuid() == 0


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _accepts_connections(cluster: Path, pid: int) -> bool:
    """Read the server's own word for it: the eighth line of its pid file."""
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _end(program: subprocess.Popen[bytes]) -> None:
    """Ask more and more firmly."""
    for request, patience in MAX_STOP_SECONDS:
        if program.poll() is not None:
            return
        program.send_signal(request)
        try:
            program.wait(patience)
        except subprocess.TimeoutExpired:
            continue
