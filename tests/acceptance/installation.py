"""A whole installation for one test: a database, daemons, a receiver and a producer, judged from outside."""

import asyncio
import base64
import json
import secrets
import subprocess
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import asyncpg

from tests.acceptance import forked
from tests.acceptance.lanes_names import names_lane
from tests.acceptance.processes import RUN, Daemon, environment
from tests.servers.database import Database
from tests.spent import spending
from tests.waiting import MAX_WAIT, until_found
from webhook_dispatcher.domain.signing import KEY_BYTES, SECRET_RANDOM_BYTES, Keyring, Secret
from webhook_dispatcher.local.arrivals import Arrival
from webhook_dispatcher.local.receiver import Receiver

INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, $2, $3) RETURNING id, seq"
INSERT_EACH = """
INSERT INTO webhook.outbox (merchant_id, type, object)
SELECT merchant_id, 'charge.created', '{}'
FROM generate_series(1, $2) AS turn, unnest($1::text[]) WITH ORDINALITY AS merchant (merchant_id, place)
ORDER BY turn, place
RETURNING id, seq
"""
ASK = (
    "INSERT INTO webhook.control (command, merchant_id, event_id, args, requested_by) "
    "VALUES ($1, $2, $3, $4, 'a test') RETURNING id"
)
HAS_LOOKED = """
SELECT true FROM pg_stat_activity
WHERE application_name = 'webhook-dispatcher claim' AND query_start > clock_timestamp() - interval '0.3 s'
"""
SEALS = "SELECT count(*) FROM webhook.current_sealing_key"
"""True once a daemon has published what secrets are sealed with."""
PATIENT = {"ATTEMPT_TIMEOUT": "PT1M", "LEASE": "PT2M", "SHUTDOWN_GRACE": "PT1M"}
"""Settings for requests that hang until the test has them answered."""
IN_SCALED_TIME = {"ATTEMPT_TIMEOUT": "PT25S"}
"""Settings where time is scaled: the usual ten seconds of an attempt would be one second of ours."""
OLDER = """
INSERT INTO webhook.dispatcher (
    owner, host, version, started_at, beat_at, lanes, attempts_in_flight, is_ready, reasons, faults
)
VALUES ('o', 'h', '0.9', clock_timestamp(), clock_timestamp(), 1, 1, true, '{}', '{}')
"""
"""A dispatcher of the schema before beats."""
ENDPOINT = "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ($1, $2, $3, $4)"


def make_key(key_id: str) -> str:
    """Make an encryption key as WEBHOOK_SECRET_KEYS has it."""
    return f"{key_id}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


@dataclass(frozen=True, slots=True)
class Sent:
    """An event as its producer knows it; `committed_at` on the monotonic clock, after the COMMIT's answer."""

    id: UUID
    seq: int
    merchant_id: str
    committed_at: float


class Installation:
    """What one test needs; everything is ended when it is left.

    admin: a connection as webhook_admin, for views and control. owner: one as the superuser.
    """

    admin: asyncpg.Connection
    owner: asyncpg.Connection
    producer: asyncpg.Connection

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self.key = make_key("k1")
        self.receiver = Receiver()
        self.daemons: list[Daemon] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.receiver)
        self.admin = await self._connect("webhook_admin")
        self.owner = await self._connect("postgres")
        self.producer = await self._connect("webhook_producer")
        return self

    async def _connect(self, user: str) -> asyncpg.Connection:
        connection = await self.database.connect(user)
        self._stack.push_async_callback(connection.close)
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for daemon in self.daemons:
            daemon.end()
        await self._stack.aclose()
        problems = [problem for daemon in self.daemons for problem in daemon.problems()]
        if kind is None and problems:
            raise AssertionError("a daemon's log holds what no run should leave there:\n" + "".join(problems))

    def settings(self, **changed: str) -> dict[str, str]:
        """Return a daemon's settings: quick retries, everything local allowed."""
        return {
            **self.database.settings("webhook_dispatcher"),
            "SECRET_KEYS": self.key,
            "EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
            "EGRESS_ALLOW_HTTP": "true",
            "OPS_ADDRESS": "127.0.0.1:0",
            "LOG_LEVEL": "debug",
            "RETRY_SCHEDULE": "PT1H",
            **changed,
        }

    def spawn(self, program: Sequence[str] = RUN, **changed: str) -> Daemon:
        """Start a daemon without waiting for it."""
        log_file = self.folder / f"daemon-{len(self.daemons) + 1}.log"
        daemon = Daemon.spawn(self.settings(**changed), log_file, self.folder, program)
        self.daemons.append(daemon)
        return daemon

    async def start(self, **changed: str) -> Daemon:
        """Start a daemon and wait until it works."""
        daemon = self.spawn(**changed)
        await daemon.logged("daemon.started")
        return daemon

    def command(self, *arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
        """Run one command of the command line as an admin."""
        return self.command_at(None, *arguments, **changed)

    def command_at(
        self, terminal: int | None, *arguments: str, **changed: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one command with this file as its standard input."""
        admin = self.database.settings("webhook_admin")
        with spending("running commands"):
            done = forked.run(
                ["webhook_dispatcher", *arguments],
                environment(self.settings(**(admin | changed))),
                self.folder,
                terminal,
            )
        assert not names_lane(done.stdout + done.stderr), done
        return done

    async def configure(self, *merchants: str, url: str | None = None) -> None:
        """Give merchants an endpoint at the receiver, or at a URL, and the receiver their secrets."""
        keyring = Keyring.parse(self.key)
        for merchant_id in merchants:
            secret = Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES))
            sealed = keyring.seal(merchant_id, secret)
            target = url or self.receiver.url(merchant_id)
            await self.admin.execute(ENDPOINT, merchant_id, target, sealed.sealed, sealed.key_id)
            self.receiver.secrets[merchant_id] = secret

    async def emit(self, merchant_id: str, text: str = "{}", event_type: str = "charge.created") -> Sent:
        """Write one event as the charge service does."""
        row = await self.producer.fetchrow(INSERT, merchant_id, event_type, text)
        assert row is not None
        return Sent(row["id"], row["seq"], merchant_id, time.monotonic())

    async def emit_each(self, merchants: Sequence[str], count: int) -> list[Sent]:
        """Write so many events of each merchant, turn about, and commit them together."""
        rows = await self.producer.fetch(INSERT_EACH, merchants, count)
        committed_at = time.monotonic()
        return [
            Sent(row["id"], row["seq"], merchant_id, committed_at)
            for row, merchant_id in zip(rows, [*merchants] * count, strict=True)
        ]

    async def delivery(self, event_id: UUID) -> asyncpg.Record:
        """Read a delivery as an admin sees it."""
        rows = await self.admin.fetch("SELECT * FROM webhook.deliveries WHERE event_id = $1", event_id)
        row: asyncpg.Record
        [row] = rows
        return row

    async def attempts(self, event_id: UUID) -> list[asyncpg.Record]:
        """Read a delivery's attempts in order of time."""
        query = "SELECT * FROM webhook.attempts WHERE event_id = $1 ORDER BY started_at"
        return list(await self.admin.fetch(query, event_id))

    async def settled(
        self, event_id: UUID, state: str, attempts: int, deadline: float = MAX_WAIT
    ) -> asyncpg.Record:
        """Wait until a delivery is in a state after so many attempts, and return it."""

        async def reached() -> asyncpg.Record | None:
            row = await self.delivery(event_id)
            return row if (row["state"], row["attempts"]) == (state, attempts) else None

        try:
            return await until_found(reached, deadline)
        except TimeoutError:
            raise AssertionError(
                f"wanted {state} after {attempts}: {await self.delivery(event_id)}"
            ) from None

    async def all_delivered(self, count: int, deadline: float = MAX_WAIT) -> None:
        """Wait until so many deliveries are delivered."""

        async def reached() -> bool:
            return await self.count("state = 'delivered'") >= count

        try:
            await until_found(reached, deadline)
        except TimeoutError:
            tally = await self.admin.fetch("SELECT state, count(*) FROM webhook.deliveries GROUP BY state")
            raise AssertionError(f"wanted {count} delivered: {tally}") from None

    async def until_true(self, query: str, *values: object, deadline: float = MAX_WAIT) -> None:
        """Wait until what the superuser asks for is true."""
        await until_found(lambda: self.owner.fetchval(query, *values), deadline)

    async def count(self, condition: str) -> int:
        """Count deliveries."""
        return int(await self.admin.fetchval(f"SELECT count(*) FROM webhook.deliveries WHERE {condition}"))

    async def ask(
        self, command: str, merchant_id: str | None = None, event_id: UUID | None = None, **args: Any
    ) -> int:
        """Insert a control command and return its id."""
        return int(await self.admin.fetchval(ASK, command, merchant_id, event_id, json.dumps(args)))

    async def handled(self, command_id: int, deadline: float = MAX_WAIT) -> dict[str, Any]:
        """Wait until a command is done or rejected, and return its row."""

        async def reached() -> asyncpg.Record | None:
            row = await self.admin.fetchrow("SELECT * FROM webhook.control WHERE id = $1", command_id)
            assert row is not None
            return row if row["status"] in ("done", "rejected") else None

        row = dict(await until_found(reached, deadline))
        return row | {"result": json.loads(row["result"] or "{}")}

    async def do(
        self, command: str, merchant_id: str | None = None, event_id: UUID | None = None, **args: Any
    ) -> dict[str, Any]:
        """Have a command carried out and return its row."""
        return await self.handled(await self.ask(command, merchant_id, event_id, **args))

    async def arrived(
        self, count: int, merchant_id: str | None = None, deadline: float = MAX_WAIT
    ) -> list[Arrival]:
        """Wait for so many requests (of one merchant), answered or not, and return them."""

        def wanted() -> list[Arrival]:
            return self.receiver.arrivals if merchant_id is None else self.receiver.of(merchant_id)

        with spending("waiting"):
            await self.receiver.wait_for(lambda _: len(wanted()) >= count, timedelta(seconds=deadline))
        return wanted()

    async def is_claiming_nothing(self) -> bool:
        """Tell whether daemons have stopped looking for arrivals, which they do forty times a second.

        Looks several times: a pooler gives a session to others in between, under their name.
        """
        for _ in range(10):
            if await self.owner.fetchval(HAS_LOOKED):
                return False
            await asyncio.sleep(0.03)
        return True

    async def has_no_leases(self) -> bool:
        """Tell whether no lane is held by anybody."""
        held = "SELECT count(*) FROM webhook.lane WHERE lease_until > clock_timestamp()"
        return not await self.owner.fetchval(held)
