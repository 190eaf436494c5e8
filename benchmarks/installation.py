"""What the benchmark runs on: an embedded Postgres, receivers, tarpits, and a daemon for each run.

All are processes of their own. The daemon has a mount namespace of its own too, in which /etc/resolv.conf
names the dead name server: so it looks names up as it always does, and no query leaves the machine.
"""

import asyncio
import base64
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.merchants import NAMELESS, urls
from benchmarks.processes import cpu_seconds, end, find_ops_port
from webhook_dispatcher.domain.endpoint import SECRET_RANDOM_BYTES, Secret
from webhook_dispatcher.domain.keyring import KEY_BYTES, Keyring
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema

TEMPLATE = "webhook_template"
ENDPOINT = "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ($1, $2, $3, $4)"
OUTCOMES = (
    "SELECT split_part(merchant_id, '-', 1) AS kind, outcome::text, count(*) FROM webhook.attempts "
    "GROUP BY 1, 2 ORDER BY 1, 2"
)
OWN_RESOLVER = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'
START_DEADLINE = 20.0
LOOK_EVERY = 0.02


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon at work."""

    process: subprocess.Popen[bytes]
    ops_port: int

    def gauge(self, name: str) -> float:
        """Read one metric without labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ops_port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def cpu_seconds(self) -> float:
        """Return how much of the processor it has used."""
        return cpu_seconds(self.process.pid)


class Installation:
    """Everything but the daemon stays up from the first run to the last."""

    def __init__(self, folder: Path, max_lanes: int) -> None:
        self._folder = folder
        self._max_lanes = max_lanes
        self._key = f"k1:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"
        self._stack = ExitStack()
        self._arrived: dict[str, float] = {}
        self._read_up_to = 0

    def __enter__(self) -> "Installation":
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        folder = self._folder
        self.receiver_log = folder / "arrivals.log"
        self._tarpits = self._python(
            "benchmarks.tarpits", "--ca-file", str(folder / "tarpits.pem"), stdout=subprocess.PIPE
        )
        receiver = self._python(
            "webhook_dispatcher.local.receiver",
            *("--log", str(self.receiver_log), "--ca-file", str(folder / "receiver.pem")),
            stdout=subprocess.PIPE,
        )
        ports = json.loads(_first_line(self._tarpits))
        endpoints = urls(_first_line(receiver), ports)
        (folder / "ca.pem").write_text(
            "".join((folder / name).read_text() for name in ("tarpits.pem", "receiver.pem"))
        )
        (folder / "resolv.conf").write_text(f"nameserver 127.0.0.1:{ports[NAMELESS]}\n")
        self.postgres = self._stack.enter_context(EmbeddedPostgres(folder / "data"))
        asyncio.run(self._prepare(endpoints))

    def _python(self, module: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-m", module, *arguments], **options)
        self._stack.callback(end, process)
        return process

    async def _prepare(self, endpoints: Mapping[str, str]) -> None:
        await self._execute(f"CREATE DATABASE {TEMPLATE}")
        await schema.migrate(self.postgres.dsn(database=TEMPLATE))
        keyring = Keyring.parse(self._key)
        rows = []
        for merchant_id, url in endpoints.items():
            sealed = keyring.seal(merchant_id, Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES)))
            rows.append((merchant_id, url, sealed.sealed, sealed.key_id))
        connection = await asyncpg.connect(self.postgres.dsn(database=TEMPLATE))
        await connection.executemany(ENDPOINT, rows)
        await connection.close()

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.postgres.dsn())
        await connection.execute(statement)
        await connection.close()

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """Make a fresh database and drop it afterwards."""
        asyncio.run(self._execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
        asyncio.run(self._execute("CHECKPOINT"))
        yield name
        asyncio.run(self._execute(f"DROP DATABASE {name} WITH (FORCE)"))

    @contextmanager
    def daemon(self, database: str) -> Iterator[Daemon]:
        """Run a daemon; what it has in flight at the end is cut off."""
        settings = {
            "DATABASE_URL": self.postgres.dsn("webhook_dispatcher", database),
            "SECRET_KEYS": self._key,
            "EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
            "EGRESS_CA_FILE": str(self._folder / "ca.pem"),
            "OPS_ADDRESS": "127.0.0.1:0",
            "MAX_LANES": str(self._max_lanes),
            "SHUTDOWN_GRACE": "PT0S",
        }
        own = {name: text for name, text in os.environ.items() if not name.startswith("WEBHOOK_")}
        namespaces = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
        command = ["unshare", *namespaces, "--", "sh", "-c", OWN_RESOLVER, "sh"]
        command += [str(self._folder / "resolv.conf"), sys.executable, "-m", "webhook_dispatcher", "run"]
        log_file = self._folder / f"{database}.log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                command,
                env=own | {f"WEBHOOK_{name}": text for name, text in settings.items()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        try:
            yield Daemon(process, _ops_port(process, log_file))
        finally:
            end(process)

    def arrivals(self) -> Mapping[str, float]:
        """Return when each event first arrived at the healthy receiver, as far as it has been logged."""
        with self.receiver_log.open("rb") as log:
            log.seek(self._read_up_to)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read_up_to += len(line)
                arrival = json.loads(line)
                self._arrived.setdefault(arrival["event_id"], arrival["started_at"])
        return self._arrived

    def outcomes(self, database: str) -> dict[str, dict[str, int]]:
        """Count attempts by kind of merchant and outcome."""

        async def read() -> list[asyncpg.Record]:
            connection = await asyncpg.connect(self.postgres.dsn(database=database))
            try:
                return list(await connection.fetch(OUTCOMES))
            finally:
                await connection.close()

        found: dict[str, dict[str, int]] = {}
        for row in asyncio.run(read()):
            found.setdefault(row["kind"], {})[row["outcome"]] = row["count"]
        return found

    def caught(self) -> dict[str, int]:
        """Stop the tarpits and return how many connections, requests and queries they got."""
        self._tarpits.terminate()
        counts: dict[str, int] = json.loads(_first_line(self._tarpits))
        return counts


def _first_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def _ops_port(process: subprocess.Popen[bytes], log_file: Path) -> int:
    deadline = time.monotonic() + START_DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        if (port := find_ops_port(log_file)) is not None:
            return port
        time.sleep(LOOK_EVERY)
    raise SystemExit(
        "the daemon did not start (it needs `unshare` of util-linux and the right to a mount namespace); "
        f"its log ends:\n{log_file.read_text()[-2000:]}"
    )
