"""Steady load for tests that break something, and what the receiver and the database say about it afterwards.

The receiver judges: what arrived, when, in which order. The database says what was owed, and how often it
believes to have tried.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Self

import asyncpg

from tests.acceptance.installation import INSERT, Installation, Sent
from tests.acceptance.processes import Daemon
from tests.waiting import MAX_WAIT, until_found
from webhook_dispatcher.local.arrivals import Arrival, first_arrivals, out_of_order

WRITERS = 4
RECONNECT = 0.05
PATIENCE = MAX_WAIT
HELD = (
    "SELECT merchant_id FROM webhook.lane "
    "WHERE split_part(owner, '/', 2) = $1 AND lease_until > clock_timestamp()"
)
FATES = "SELECT event_id, seq, merchant_id, state, attempts FROM webhook.deliveries"


class Load:
    """Producers that commit about `rate` events a second while entered, whatever becomes of the database.

    Each merchant has one writer, so that the order of `seq` is the order of commits.
    sent: what was committed; one whose COMMIT got no answer is missing here, and may be in the database.
    """

    def __init__(self, dsn: str, merchants: Sequence[str], rate: float, seed: int = 1) -> None:
        self.sent: list[Sent] = []
        self._dsn = dsn
        self._merchants = list(merchants)
        self._pause = WRITERS / rate
        self._seed = seed
        self._stopping = asyncio.Event()
        self._writers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for number in range(WRITERS):
            merchants = self._merchants[number::WRITERS]
            self._writers.append(asyncio.create_task(self._write(merchants, Random(self._seed + number))))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        await asyncio.gather(*self._writers)

    async def _write(self, merchants: Sequence[str], random: Random) -> None:
        while not self._stopping.is_set():
            try:
                connection = await asyncpg.connect(self._dsn)
            except (OSError, asyncpg.PostgresError, asyncpg.InternalClientError):
                await asyncio.sleep(RECONNECT)
                continue
            try:
                await self._write_on(connection, merchants, random)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
                continue  # the database has gone
            finally:
                connection.terminate()

    async def _write_on(
        self, connection: asyncpg.Connection, merchants: Sequence[str], random: Random
    ) -> None:
        while not self._stopping.is_set():
            merchant_id = random.choice(merchants)
            row = await connection.fetchrow(INSERT, merchant_id, "charge.created", "{}")
            assert row is not None
            self.sent.append(Sent(row["id"], row["seq"], merchant_id, time.monotonic()))
            await asyncio.sleep(random.expovariate(1 / self._pause))


@dataclass(frozen=True, slots=True)
class Fate:
    """What the database says about an event."""

    seq: int
    merchant_id: str
    state: str
    attempts: int


async def start_daemons(installation: Installation, count: int, **settings: str) -> list[Daemon]:
    """Start so many daemons at once and wait until all work; patiently, where other tests run beside."""
    daemons = [installation.spawn(**settings) for _ in range(count)]
    for daemon in daemons:
        await daemon.logged("daemon.started", PATIENCE)
    return daemons


async def fates(connection: asyncpg.Connection) -> dict[str, Fate]:
    """Read what became of every event, by its id."""
    rows = await connection.fetch(FATES)
    return {
        str(row["event_id"]): Fate(row["seq"], row["merchant_id"], row["state"], row["attempts"])
        for row in rows
    }


async def all_settled(connection: asyncpg.Connection, deadline: float) -> dict[str, Fate]:
    """Wait until nothing is owed any more, and return what became of every event."""

    async def nothing_is_owed() -> bool:
        return not await connection.fetchval("SELECT EXISTS (SELECT FROM webhook.outbox)")

    try:
        await until_found(nothing_is_owed, deadline)
    except TimeoutError:
        owed = await connection.fetch("SELECT merchant_id, seq, due_at, claim, attempts FROM webhook.outbox")
        raise AssertionError(f"still owed: {owed[:20]}") from None
    return await fates(connection)


async def held_by(connection: asyncpg.Connection, daemon: Daemon) -> frozenset[str]:
    """Return the merchants whose lanes a daemon holds."""
    return frozenset(row["merchant_id"] for row in await connection.fetch(HELD, str(daemon.process.pid)))


def check_promises(sent: Iterable[Sent], arrivals: Sequence[Arrival], known: Mapping[str, Fate]) -> None:
    """Assert that everything committed was delivered, in order, and that no success was forgotten."""
    committed = {str(event.id) for event in sent}
    forgotten = committed - known.keys()
    undelivered = [fate for fate in known.values() if fate.state != "delivered"]
    accepted = {arrival.event_id for arrival in arrivals if arrival.status == 200}
    unaccepted, invented = known.keys() - accepted, accepted - known.keys()
    overtaken = out_of_order(arrivals, {event_id: fate.seq for event_id, fate in known.items()})
    assert (len(forgotten), sorted(forgotten)[:5]) == (0, [])
    assert (len(undelivered), undelivered[:5]) == (0, [])
    assert (len(unaccepted), len(invented)) == (0, 0)
    assert (len(overtaken), overtaken[:3]) == (0, [])


def repetitions(arrivals: Iterable[Arrival], known: Mapping[str, Fate]) -> Counter[str]:
    """Count the requests beyond those that the database knows of as attempts, by event id."""
    requests = Counter(arrival.event_id for arrival in arrivals)
    return Counter(
        {
            event_id: extra
            for event_id, count in requests.items()
            if (extra := count - known[event_id].attempts) > 0
        }
    )


def waits_after(sent: Iterable[Sent], arrivals: Iterable[Arrival], moment: float) -> dict[str, float]:
    """Say for each merchant owed something at a moment in how many seconds its next first arrival came."""
    committed_at = {str(event.id): event.committed_at for event in sent}
    waits = {}
    for merchant_id, firsts in first_arrivals(arrivals).items():
        later = [arrival for arrival in firsts if arrival.started_at > moment]
        if later and committed_at.get(later[0].event_id, moment) <= moment:
            waits[merchant_id] = later[0].started_at - moment
    return waits
