"""All that a run consists of, set up and taken down: database, name server, receiver, daemons, writers."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import asyncpg

from lab.chaos.evidence import Life
from lab.chaos.fleet import Fleet, Victim
from lab.chaos.heartbeat import Heartbeat
from lab.chaos.kinds import NotHitError
from lab.chaos.labels import label_of, lane_of, merchant_of
from lab.chaos.link import Link
from lab.chaos.merchants import (
    PLATFORM_ADDRESS,
    SHARED_ADDRESS,
    Further,
    Merchant,
    make_merchants,
    other_address,
)
from lab.chaos.names import Names, name_of
from lab.chaos.quiet import Quiet
from lab.chaos.receiver import Setting, SharedHost
from lab.chaos.resolv_conf import ResolvConf
from lab.chaos.server import Server
from lab.chaos.writers import LEDGER, Writers
from tests.acceptance.installation import make_key
from tests.acceptance.processes import environment
from tests.servers import programs
from tests.servers.database import free_port
from webhook_dispatcher.domain.event import KNOWN_TYPES, PLATFORM
from webhook_dispatcher.domain.signing import SECRET_RANDOM_BYTES, Keyring, Secret
from webhook_dispatcher.local.confinement import death_signal

SECRETS_EACH = 5
DEAR = 5
"""Merchants who can be dear. The first connection to each takes no turn: many at once stall a daemon."""
PLAIN = 1
"""Daemons that reach the database without TLS."""
ADD_ENDPOINT = """
SELECT added.result
FROM
    (
        SELECT greatest(2, 1 + max(webhook.endpoint_of(merchant_id))) AS number
        FROM webhook.lane
        WHERE webhook.merchant_of(merchant_id) = $1
    ) AS next,
    webhook.add_endpoint($1, $2 || '.' || next.number || $3, $4, $5, NULL, $6, $7) AS added
WHERE NOT EXISTS (SELECT FROM webhook.endpoint WHERE right(url, length($3)) = $3)
"""
"""Once, however often it is asked for: $3 ends its URL, and no other's."""
ADDED = (
    "SELECT merchant_id AS lane, id, url, since_seq FROM webhook.endpoint WHERE right(url, length($1)) = $1"
)
GIVEN = "SELECT last_value - (NOT is_called)::integer AS seq FROM webhook.outbox_seq_seq"
REMOVE_ENDPOINTS = "DELETE FROM webhook.endpoint WHERE merchant_id = ANY($1)"
ADDED_WITHIN = 30.0
"""Seconds in which a lane that is sent from is free for a moment, other faults of the time included."""
SET_ENDPOINT = """
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id, types, at_once)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (merchant_id) DO NOTHING
"""
PATIENCE = 20.0
"""Seconds for a statement of ours while the database is away."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a run is, on which Postgres, and with which settings (seconds).

    alone: the part of the merchants' faults during which nothing else is done.
    has_notices: the platform is told what fails, and who fails for too long is suspended.
    has_clock: the server has a clock of its own, which is set an hour forward and back.
    """

    daemons: int = 3
    merchants: int = 200
    rate: float = 75.0
    alone: float = 0.5
    lease: float = 2.5
    attempt_timeout: float = 0.8
    schedule: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0)
    grace: float = 3.0
    has_notices: bool = True
    has_clock: bool = False
    failing_after: float = 5.0
    suspend_after: float = 12.0
    suspension_interval: float = 6.0
    programs: Path = field(default_factory=programs)
    server_settings: Mapping[str, str] = field(default_factory=dict)

    def durations(self) -> dict[str, float]:
        """Return settings of the daemons that are shorter than settings may be."""
        if not self.has_notices:
            return {}
        return {
            "failing_after": self.failing_after,
            "suspend_after": self.suspend_after,
            "suspension_interval": self.suspension_interval,
        }

    def notes(self) -> dict[str, str]:
        """Say it for the report."""
        return {
            "daemons": str(self.daemons),
            "merchants": str(self.merchants),
            "load": f"{self.rate:g} events/s",
            "lease": f"{self.lease:g} s (default 30 s)",
            "attempt time-out": f"{self.attempt_timeout:g} s (default 10 s)",
            "retry schedule": ", ".join(f"{delay:g} s" for delay in self.schedule),
            "statement time-out": "2 s (default 10 s)",
            "notices and suspension": f"failing after {self.failing_after:g} s, suspended after "
            f"{self.suspend_after:g} s, then tried every {self.suspension_interval:g} s"
            if self.has_notices
            else "off",
            "settings of the server": ", ".join(
                f"{name} = {value}" for name, value in self.server_settings.items()
            )
            or "as they come",
        }


@dataclass(slots=True)
class Book:
    """What operators did that the judge must know, beyond the commands that are kept in the database.

    by_hand: what `retry_failed` may attempt, by event. withdrawn: commands that were taken back in time;
    in_force: those of them that had an effect all the same. filters: what endpoints wanted, all that held.
    lives, gaps, endpoint_ids, by_charge: as the evidence has them.
    """

    deleted: set[str] = field(default_factory=set)
    by_hand: Counter[str] = field(default_factory=Counter)
    unconfigured: set[str] = field(default_factory=set)
    withdrawn: set[int] = field(default_factory=set)
    in_force: set[int] = field(default_factory=set)
    filters: dict[str, set[frozenset[str]]] = field(default_factory=dict)
    lives: dict[str, list[Life]] = field(default_factory=dict)
    gaps: dict[str, list[Life]] = field(default_factory=dict)
    endpoint_ids: dict[str, str] = field(default_factory=dict)
    by_charge: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)

    def further(self, merchants: Iterable[str]) -> list[str]:
        """Return which endpoints with a number these merchants have now."""
        wanted = set(merchants)
        return [
            name
            for name, lives in self.lives.items()
            if merchant_of(name) in wanted and lives[-1].removed_by == float("inf")
        ]

    def end(self, name: str, begin: float, end: float = float("inf")) -> None:
        """Note between which numbers an endpoint with a number was removed."""
        *earlier, last = self.lives[name]
        begin = min(begin, last.removed_from)
        self.lives[name] = [*earlier, replace(last, removed_from=begin, removed_by=end)]


class Testbed:
    """What faults work on."""

    def __init__(self, scale: Scale, seed: int, folder: Path) -> None:
        self.scale = scale
        self.seed = seed
        self.random = Random(seed)
        self.folder = folder
        self.book = Book()
        self.stopped = asyncio.Event()
        self.key = make_key("k1")
        self.keyring = Keyring.parse(self.key)
        self.cast: dict[str, Merchant] = make_merchants(scale.merchants, scale.rate, self.random)
        self.merchants = list(self.cast)
        self.book.filters = {
            name: {frozenset(merchant.types)} for name, merchant in self.cast.items() if merchant.types
        }
        self.book.by_charge = {name for name, merchant in self.cast.items() if merchant.at_once}
        self.hosted = [name for name, merchant in self.cast.items() if merchant.is_hosted]
        self.dear = self.hosted[:DEAR]
        self.movable = {
            name: merchant.address
            for name, merchant in self.cast.items()
            if merchant.is_named and merchant.is_sound and not merchant.is_hosted
        }
        """Merchants whose names may move, with their addresses now."""
        self.secrets: dict[str, list[Secret]] = {
            name: [Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES)) for _ in range(SECRETS_EACH)]
            for name in (*self.merchants, PLATFORM)
        }
        self.server: Server
        self.names: Names
        self.resolv_conf: ResolvConf | None = None
        """Where the daemons read who their name server is, if that can be had."""
        self.fleet: Fleet
        self.writers: Writers
        self.quiet = Quiet()
        self.heartbeat = Heartbeat()
        self._port = free_port()
        self._receiver: subprocess.Popen[str]
        self._borrowed: set[str] = set()
        self._numbers = count(1)

    @property
    def lease(self) -> float:
        """Return the lease in seconds."""
        return self.scale.lease

    @property
    def attempt_timeout(self) -> float:
        """Return the attempts' time-out in seconds."""
        return self.scale.attempt_timeout

    @property
    def grace(self) -> float:
        """Return how long a stopping daemon may take, in seconds."""
        return self.scale.grace

    @property
    def _ca_file(self) -> Path:
        return self.folder / "shared-host.pem"

    @property
    def arrivals_file(self) -> Path:
        """Return the receiver's log."""
        return self.folder / "arrivals.jsonl"

    async def wait(self, seconds: float) -> None:
        """Pause, unless the run is stopped."""
        try:
            async with asyncio.timeout(seconds):
                await self.stopped.wait()
        except TimeoutError:
            return

    @contextmanager
    def borrow(self, count: int, among: Sequence[str] | None = None) -> Iterator[list[str]]:
        """Give merchants that no other fault holds at the moment. among: only some come into question."""
        free = [name for name in among or self.merchants if merchant_of(name) not in self._borrowed]
        if len(free) < count:
            raise NotHitError("all merchants are taken")
        taken = self.random.sample(free, count)
        merchants = set(map(merchant_of, taken))
        self._borrowed |= merchants
        try:
            yield taken
        finally:
            self._borrowed -= merchants

    def complain(self, text: str, victim: Victim | None = None) -> None:
        """Note what no run should show and no judge can see from outside."""
        tail = "" if victim is None else "\n" + victim.log_file.read_text(errors="replace")[-1500:]
        self.book.complaints.append(text + tail)

    def url(self, merchant_id: str) -> str:
        """Return where a merchant is reached: some by name, the others by address."""
        if merchant_id == PLATFORM:
            return f"http://{PLATFORM_ADDRESS}:{self._port}/{PLATFORM}"
        merchant = self.cast[merchant_id]
        scheme = "https" if merchant.is_hosted else "http"
        host = name_of(merchant_id) if merchant.is_named else merchant.address
        return f"{scheme}://{host}:{self._port}/{merchant_id}"

    async def set_endpoint(self, merchant_id: str) -> None:
        """Give a merchant an endpoint with one of its secrets, unless it has one."""
        secret = self.random.choice(self.secrets[merchant_id])
        await self.server.execute(SET_ENDPOINT, *self._endpoint(merchant_id, secret), patience=PATIENCE)

    def _endpoint(self, merchant_id: str, secret: Secret) -> tuple[object, ...]:
        sealed = self.keyring.seal(merchant_id, secret)
        about = merchant_id, self.url(merchant_id), sealed.sealed, sealed.key_id
        if merchant_id == PLATFORM:
            return *about, None, None
        merchant = self.cast[merchant_id]
        return *about, merchant.types, merchant.at_once

    async def add_endpoint(self, merchant_id: str, further: Further) -> str:
        """Give a merchant another endpoint with one of its secrets; return its label."""
        sealed = self.keyring.seal(merchant_id, self.random.choice(self.secrets[merchant_id]))
        mark = f"?added={next(self._numbers)}"
        about = sealed.sealed, sealed.key_id, further.types, further.at_once
        ends = time.monotonic() + ADDED_WITHIN
        while True:
            said = await self.server.fetch(
                ADD_ENDPOINT, merchant_id, self.url(merchant_id), mark, *about, patience=PATIENCE
            )
            added = await self.server.fetch(ADDED, mark, patience=PATIENCE)
            if added:
                break
            if time.monotonic() > ends:
                raise NotHitError(
                    f"no endpoint was added to {merchant_id}: {[row['result'] for row in said]}"
                )
            await asyncio.sleep(0.1)
        name = label_of(added[0]["lane"])
        if f"/{name}?" not in added[0]["url"]:
            self.complain(f"{name} has the URL {added[0]['url']}")
        book = self.book
        book.lives.setdefault(name, []).append(Life(added[0]["since_seq"]))
        book.endpoint_ids[str(added[0]["id"])] = name
        # Of that name there may have been another, which a failover has lost.
        if further.types or name in book.filters:
            book.filters.setdefault(name, set()).add(frozenset(further.types or KNOWN_TYPES))
        if further.at_once:
            book.by_charge.add(name)
        return name

    async def remove_endpoints(self, names: Sequence[str]) -> None:
        """Take endpoints with a number away; what they are owed fails."""
        self.book.unconfigured.update(names)
        began = await self.given()
        for name in names:
            self.book.end(name, began)
        await self.server.execute(REMOVE_ENDPOINTS, list(map(lane_of, names)), patience=PATIENCE)
        ended = await self.given()
        for name in names:
            self.book.end(name, began, ended)

    async def given(self) -> int:
        """Return the last number that an event or a copy was given."""
        [row] = await self.server.fetch(GIVEN, patience=PATIENCE)
        return int(row["seq"])

    def behave(self, merchants: Iterable[str], behaviour: Mapping[str, float | bool]) -> None:
        """Let merchants do this with each request from now on."""
        self._order({"behave": {name: [behaviour] for name in merchants}})

    def behave_as_ever(self, merchants: Iterable[str]) -> None:
        """Let merchants do what they always do."""
        known = {name: merchant.behaviours for name, merchant in self.cast.items()}
        self._order({"behave": {name: known.get(name) for name in merchants}})

    def accept_everywhere(self) -> None:
        """Let merchants who never accept anything do so from now on."""
        self.behave([name for name, merchant in self.cast.items() if merchant.is_hopeless], {})

    def turn_shared_host(self, how: SharedHost) -> None:
        """Let the host that many merchants share be like this from now on."""
        self._order({"shared_host": how})

    def move(self, merchants: Iterable[str], left_behind: Mapping[str, float | bool]) -> dict[str, str]:
        """Let names lead to other addresses, for good; return those. left_behind: what the old ones do."""
        moved = {name: other_address(self.movable[name]) for name in merchants}
        self.movable |= moved
        self._order({"moved": moved, "left_behind": left_behind})
        self.names.move(moved)
        return moved

    def _order(self, order: Mapping[str, Any]) -> None:
        assert self._receiver.stdin is not None
        self._receiver.stdin.write(f"{json.dumps(order)}\n")
        self._receiver.stdin.flush()

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Set everything up; leaving takes it down, whatever happened."""
        async with AsyncExitStack() as stack:
            self.server = await stack.enter_async_context(self._server())
            self.names = await stack.enter_async_context(Names(self._addresses()))
            self._name_the_name_server(stack)
            self._receive(stack)
            await self._configure()
            shares = {name: merchant.share for name, merchant in self.cast.items()}
            by_charge = frozenset(name for name, merchant in self.cast.items() if merchant.is_by_charge)
            self.writers = Writers(
                self.server.dsn("webhook_producer"),
                shares,
                self.scale.rate,
                Random(self.random.random()),
                by_charge,
            )
            victims = []
            for slot in range(1, self.scale.daemons + 1):
                root_file = self.folder / f"database-{slot}.pem" if slot > PLAIN else None
                link = await stack.enter_async_context(Link(self.server.socket, root_file))
                victims.append(Victim(slot, link, self._settings(link), self.scale.durations(), self.folder))
            self.fleet = Fleet(victims)
            stack.callback(self.fleet.end)
            await asyncio.gather(*(victim.start() for victim in victims))
            yield

    def _name_the_name_server(self, stack: AsyncExitStack) -> None:
        if self.server.can_mount:
            with suppress(subprocess.CalledProcessError):
                self.resolv_conf = ResolvConf(self.folder, self.names.address)
                stack.callback(self.resolv_conf.close)

    def _addresses(self) -> dict[str, str]:
        return {name: merchant.address for name, merchant in self.cast.items() if merchant.is_named}

    def _server(self) -> Server:
        return Server(
            self.folder / "database", self.scale.programs, self.scale.server_settings, self.scale.has_clock
        )

    def _settings(self, link: Link) -> dict[str, str]:
        scale = self.scale
        return {
            "DATABASE_URL": link.dsn("webhook_dispatcher", "webhook"),
            "SECRET_KEYS": self.key,
            "EGRESS_ALLOW_NETWORKS": "127.0.0.0/8",
            "EGRESS_ALLOW_HTTP": "true",
            "EGRESS_ALLOW_HOSTS": ",".join(map(name_of, self._addresses())),
            "EGRESS_CA_FILE": str(self._ca_file),
            **({} if self.resolv_conf else {"EGRESS_NAMESERVERS": self.names.address}),
            "OPS_ADDRESS": "127.0.0.1:0",
            "RETRY_SCHEDULE": ",".join(f"PT{delay}S" for delay in scale.schedule),
            "LEASE": f"PT{scale.lease}S",
            "ATTEMPT_TIMEOUT": f"PT{scale.attempt_timeout}S",
            "SHUTDOWN_GRACE": f"PT{scale.grace}S",
            "MAX_LANES": "100",
        }

    def _receive(self, stack: AsyncExitStack) -> None:
        """Start the receiver: a process of its own, so that nothing of ours slows it down."""
        setting = Setting(
            port=self._port,
            addresses=[
                PLATFORM_ADDRESS,
                *(merchant.address for merchant in self.cast.values() if not merchant.is_hosted),
                *map(other_address, self.movable.values()),
            ],
            shared_address=SHARED_ADDRESS,
            hosted=self.hosted,
            names=[name_of(name) for name in self.hosted],
            dear=self.dear,
            dear_names=[name_of(name) for name in self.dear],
            ca_file=str(self._ca_file),
            log=str(self.arrivals_file),
            secrets={name: [s.revealed.decode() for s in kept] for name, kept in self.secrets.items()},
            behaviours={name: merchant.behaviours for name, merchant in self.cast.items()},
        )
        file = self.folder / "receiver.json"
        file.write_text(json.dumps(asdict(setting)))
        self._receiver = subprocess.Popen(
            [sys.executable, "-m", "lab.chaos.receiver", str(file)],
            env=environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=death_signal(os.getpid()),  # it goes with us, however we go
        )
        stack.callback(_stop, self._receiver)
        assert self._receiver.stdout is not None
        if not self._receiver.stdout.readline():
            raise RuntimeError("the receiver did not start")

    async def _configure(self) -> None:
        """Make the ledger, and an endpoint for each merchant; one for the platform, if it is to be told."""
        superuser = await asyncpg.connect(self.server.dsn("postgres"))
        try:
            await superuser.execute(LEDGER)
            for name in (*self.merchants, *([PLATFORM] if self.scale.has_notices else [])):
                await superuser.execute(SET_ENDPOINT, *self._endpoint(name, self.secrets[name][0]))
        finally:
            await superuser.close()
        for name, merchant in self.cast.items():
            for further in merchant.further:
                await self.add_endpoint(name, further)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait(10)
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()
