"""What the benchmarks run on: one Postgres, one receiver, and processes whose processor time is counted.

Everything but the process under test stays up from the first run to the last; every run has a database of
its own, copied from a template, so that nothing is left of the run before.
"""

import asyncio
import base64
import json
import os
import resource
import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import asyncpg

from benchmarks.processes import (
    Child,
    Usage,
    cpu_seconds,
    end,
    find_api_port,
    find_console_port,
    find_ops_port,
    until,
)
from webhook_dispatcher.domain.signing import KEY_BYTES, SECRET_RANDOM_BYTES, Keyring, Secret
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.chosen_indexes import ChosenIndexes

SERVER = {
    # As on a small dedicated server, and the same for everybody who is measured.
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
}
LOOPBACK = {"EGRESS_ALLOW_NETWORKS": "127.0.0.0/8", "EGRESS_ALLOW_HTTP": "true"}
"""What the receiver's URLs take."""
START_DEADLINE = 30.0


class Receiver:
    """The receiver's process."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.ports: dict[str, int] = child.read()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def url(self, scheme: str = "http", how: str = "hook") -> str:
        """Return the root of the URLs that are answered like this."""
        return f"{scheme}://127.0.0.1:{self.ports[scheme]}/{how}/"

    def _get(self, name: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['http']}/-/{name}", timeout=60) as answer:
            read: bytes = answer.read()
        return read

    def reset(self) -> None:
        """Forget what has arrived."""
        self._get("reset")

    def hold(self) -> None:
        """Answer nothing any more."""
        self._get("hold")

    def let_go(self) -> None:
        """Answer again what arrives from now on."""
        self._get("let-go")

    def stats(self) -> dict[str, Any]:
        """Return how many requests there were, and when the first and the last."""
        found: dict[str, Any] = json.loads(self._get("stats"))
        return found

    def arrivals(self, *, last: bool = False) -> dict[str, float]:
        """Return when each event arrived first, or last."""
        lines = self._get("arrivals").decode().splitlines()
        return {
            event_id: float(moment)
            for event_id, moment in (line.split() for line in (lines if last else reversed(lines)))
        }

    def await_requests(self, number: int, patience: float) -> dict[str, Any]:
        """Return the stats as soon as so many requests have arrived."""
        found: dict[str, Any] = until(
            lambda: stats if (stats := self.stats())["requests"] >= number else None, patience
        )
        return found


class Program:
    """A command of webhook-dispatcher that goes on; port: what `find_port` found in its log."""

    def __init__(
        self,
        python: Path,
        command: Sequence[str],
        environ: Mapping[str, str],
        log: Path,
        within: Sequence[str] = (),
        find_port: Callable[[Path], int | None] = find_ops_port,
    ) -> None:
        self._log = log
        own = {name: text for name, text in os.environ.items() if not name.startswith("WEBHOOK_")}
        with log.open("wb") as err:
            self.process = subprocess.Popen(
                [*within, python, "-m", "webhook_dispatcher", *command],
                env={**own, **{f"WEBHOOK_{name}": text for name, text in environ.items()}},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
            )
        try:
            self.port: int = until(lambda: self._look(find_port), START_DEADLINE)
        except BaseException:
            end(self.process)
            raise

    def _look(self, find_port: Callable[[Path], int | None]) -> int | None:
        if self.process.poll() is not None:
            raise SystemExit(f"it did not start; its log ends:\n{self._log.read_text()[-3000:]}")
        return find_port(self._log)


class Daemon(Program):
    """A webhook-dispatcher at work; port: of its metrics."""

    def metrics(self) -> str:
        """Return what /metrics says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def gauge(self, name: str) -> float:
        """Read one metric without labels."""
        lines = self.metrics().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


class Rig:
    """Postgres and a receiver, for as long as it is entered.

    bin_dir: the server's programs, if not those of the wheel.
    options: the server's settings; none for a server as it is installed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        receiver: Sequence[str] = (),
        durable: bool = True,
        bin_dir: Path | None = None,
        options: Mapping[str, str] = SERVER,
    ) -> None:
        self.folder = folder
        self._receiver_options = receiver
        self._durable = durable
        self._bin_dir = bin_dir
        self._options = options
        self._python = Path(sys.executable)
        self._stack = ExitStack()
        self._key = f"k1:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"
        self._runs = 0
        self._templates: dict[tuple[str, int], str] = {}

    def __enter__(self) -> Self:
        _raise_open_files()
        try:
            self.postgres = self._stack.enter_context(
                EmbeddedPostgres(
                    self.folder / "data", durable=self._durable, options=self._options, bin_dir=self._bin_dir
                )
            )
            self.receiver = self.start_receiver(*self._receiver_options)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_receiver(self, *options: str) -> Receiver:
        """Start a receiver; it ends with the rig."""
        child = Child("benchmarks.receiver", *options, log=self.folder / "receiver.log")
        self._stack.callback(child.end)
        return Receiver(child)

    @contextmanager
    def another_receiver(self, *options: str) -> Iterator[Receiver]:
        """Let a receiver with other options take the place of the rig's."""
        usual, self.receiver = self.receiver, self.start_receiver(*options)
        try:
            yield self.receiver
        finally:
            self.receiver = usual

    @contextmanager
    def another_checkout(self, python: Path) -> Iterator[None]:
        """Run the daemons of another checkout, named by the interpreter of its virtual environment."""
        usual, self._python = self._python, python
        try:
            yield
        finally:
            self._python = usual

    def execute(self, statement: str, *arguments: object, database: str = "postgres") -> None:
        """Run one statement as the superuser."""
        self.query(statement, *arguments, database=database)

    def query(self, statement: str, *arguments: object, database: str = "postgres") -> list[asyncpg.Record]:
        """Run one statement as the superuser and return its rows."""

        async def run() -> list[asyncpg.Record]:
            connection = await asyncpg.connect(self.postgres.dsn(database=database))
            try:
                return list(await connection.fetch(statement, *arguments))
            finally:
                await connection.close()

        return asyncio.run(run())

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """Make a fresh database and drop it afterwards."""
        self._runs += 1
        name = f"run_{self._runs}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        try:
            yield name
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def template(self, root: str, merchants: int) -> str:
        """Return a database with so many merchants below a root; it is made when it is asked for first."""
        key = (root, merchants)
        if key not in self._templates:
            self._templates[key] = self.make_template(f"template_{len(self._templates)}", root, merchants)
        return self._templates[key]

    @contextmanager
    def old_transaction(self, database: str) -> Iterator[None]:
        """Hold a transaction open that sees all rows of this moment, and has an id as one that writes."""
        with asyncio.Runner() as runner:
            connection = runner.run(asyncpg.connect(self.postgres.dsn(database=database)))
            runner.run(connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ"))
            runner.run(connection.execute("SELECT pg_current_xact_id()"))
            try:
                yield
            finally:
                runner.run(connection.close())

    def make_template(self, name: str, root: str | Mapping[str, str], merchants: int) -> str:
        """Make a database with the schema and an endpoint for each merchant, with its URL below `root`."""
        self.execute(f"CREATE DATABASE {name}")
        # With all that may be chosen: the limits hold for an installation with the Partner API.
        asyncio.run(schema.migrate(self.postgres.dsn(database=name), ChosenIndexes(feed=True)))
        keyring = Keyring.parse(self._key)
        rows = []
        for merchant_id in names(merchants):
            sealed = keyring.seal(merchant_id, Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES)))
            url = root[merchant_id] if isinstance(root, Mapping) else root + merchant_id
            rows.append((merchant_id, url, sealed.sealed, sealed.key_id))

        async def copy() -> None:
            connection = await asyncpg.connect(self.postgres.dsn(database=name))
            columns = ["merchant_id", "url", "secret", "key_id"]
            await connection.copy_records_to_table(
                "endpoint", schema_name="webhook", records=rows, columns=columns
            )
            await connection.execute("VACUUM ANALYZE webhook.endpoint, webhook.lane")
            await connection.close()

        asyncio.run(copy())
        return name

    @contextmanager
    def daemon(
        self, database: str, *command: str, within: Sequence[str] = (), **settings: str
    ) -> Iterator[Daemon]:
        """Run a daemon with its settings as they come, but for loopback.

        within: the beginning of its command, which says where it runs (naming.py).
        """
        environ = {
            "DATABASE_URL": self.postgres.dsn("webhook_dispatcher", database),
            "SECRET_KEYS": self._key,
            **LOOPBACK,
            "OPS_ADDRESS": "127.0.0.1:0",
            **settings,
        }
        log = self.folder / f"{database}.log"
        daemon = Daemon(self._python, command or ("run",), environ, log, within)
        try:
            yield daemon
        finally:
            end(daemon.process)
            log.unlink()

    @contextmanager
    def api(self, database: str, **settings: str) -> Iterator[Program]:
        """Run the Partner API with its settings as they come; port: where it serves."""
        environ = {
            "DATABASE_URL": self.postgres.dsn("webhook_api", database),
            "API_ADDRESS": "127.0.0.1:0",
            "API_OPS_ADDRESS": "127.0.0.1:0",
            **settings,
        }
        self._runs += 1
        log = self.folder / f"api_{self._runs}.log"
        api = Program(self._python, ("api",), environ, log, find_port=find_api_port)
        try:
            yield api
        finally:
            end(api.process)
            log.unlink()

    @contextmanager
    def console(self, database: str) -> Iterator[Program]:
        """Run the console with its settings as they come, but for loopback; port: where it serves."""
        environ = {
            "DATABASE_URL": self.postgres.dsn("webhook_console", database),
            "CONSOLE_ADDRESS": "127.0.0.1:0",
            **LOOPBACK,
        }
        self._runs += 1
        log = self.folder / f"console_{self._runs}.log"
        console = Program(self._python, ("console",), environ, log, find_port=find_console_port)
        try:
            yield console
        finally:
            end(console.process)
            log.unlink()

    def usage(self, worker: int) -> Usage:
        """Return what everybody has used of the processor so far."""
        assert self.postgres.pid is not None
        return Usage(cpu_seconds(worker), cpu_seconds(self.postgres.pid), cpu_seconds(self.receiver.pid))


def names(merchants: int, first: int = 0) -> list[str]:
    """Return the merchants' ids."""
    return [f"m-{number:06}" for number in range(first, first + merchants)]


def _raise_open_files() -> None:
    """Let all processes of the benchmark have as many as may be."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
