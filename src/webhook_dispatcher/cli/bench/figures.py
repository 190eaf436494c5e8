"""What `bench` measures: events are inserted, a daemon delivers them, then both go on at a modest rate."""

import asyncio
import itertools
import secrets
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

import asyncpg

from webhook_dispatcher.cli.bench.own_database import connected
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.domain.signing import SECRET_RANDOM_BYTES, Keyring, Secret
from webhook_dispatcher.local.arrivals import Arrival
from webhook_dispatcher.local.program_process import ProgramProcess
from webhook_dispatcher.local.receiver import Receiver
from webhook_dispatcher.local.scratch import scratch_dir

MERCHANTS, WRITERS, RATE, OBJECT_BYTES = 500, 16, 100, 1_000
LOOK_SECONDS, PATIENCE_SECONDS = 0.02, 300
INSERT = """
INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, 'charge.succeeded', $2) RETURNING id::text
"""
OWED = "SELECT EXISTS (SELECT FROM webhook.outbox)"
DELIVERED = "SELECT count(*) FROM webhook.deliveries WHERE state = 'delivered'"
OUTBOX_BYTES = "SELECT pg_total_relation_size('webhook.outbox')"
LOG_BYTES = """
SELECT sum(pg_total_relation_size(relid))::bigint
FROM unnest(ARRAY['webhook.delivery_log', 'webhook.attempt_log']) AS log, pg_partition_tree(log::regclass)
"""
Figures = Mapping[str, str | float | None]


class Load:
    """Events on their way. sent: when the INSERT of each began; arrived: when its request first did."""

    def __init__(self, connections: Sequence[asyncpg.Connection]) -> None:
        self.sent: dict[str, float] = {}
        self.arrived: dict[str, float] = {}
        self._connections = connections
        self._numbers = itertools.count()

    def arrive(self, arrival: Arrival) -> None:
        """Note a request."""
        self.arrived.setdefault(arrival.event_id, arrival.started_at)

    async def insert(self, seconds: float, rate: float | None = None) -> float:
        """Commit one event after the other on each connection, and return how long it took.

        rate: events a second, all together; None: as fast as the server goes.
        """
        start = time.monotonic()

        async def write(first: int, connection: asyncpg.Connection) -> None:
            for turn in itertools.count(first, WRITERS):
                if rate is not None:
                    await asyncio.sleep(start + turn / rate - time.monotonic())
                if time.monotonic() >= start + seconds:
                    return
                await self._insert(connection)

        await asyncio.gather(*itertools.starmap(write, enumerate(self._connections)))
        return time.monotonic() - start

    async def _insert(self, connection: asyncpg.Connection) -> None:
        number, sent_at = next(self._numbers), time.monotonic()
        text = f'{{"id":"ch_{number}","object":"charge","note":"'
        text += secrets.token_hex(OBJECT_BYTES)[: OBJECT_BYTES - len(text) - 2] + '"}'
        self.sent[await connection.fetchval(INSERT, f"m-{number % MERCHANTS}", text)] = sent_at


async def measure(
    dsn: str, asking: asyncpg.Connection, keyring: Keyring, seconds: int, environ: Mapping[str, str]
) -> Figures:
    """Insert for so many seconds, deliver that, go on at a modest rate for as many; return figures by name.

    asking: a connection to the same database. environ: of the daemon.
    """
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_dir("webhook-bench-"))
        load = Load([await stack.enter_async_context(connected(dsn)) for _ in range(WRITERS)])
        receiver = await stack.enter_async_context(Receiver(keep=False, on_arrival=load.arrive))
        await _configure(asking, receiver, keyring)
        outbox, logs, wal = (
            await asking.fetchval(OUTBOX_BYTES),
            await asking.fetchval(LOG_BYTES),
            [await _wal(asking)],
        )
        took = await load.insert(seconds)
        events = len(load.sent)
        outbox = await asking.fetchval(OUTBOX_BYTES) - outbox
        wal.append(await _wal(asking))
        daemon = stack.enter_context(ProgramProcess("run", environ, folder, folder / "log"))
        await _delivered(daemon, load, asking)
        wal.append(await _wal(asking))
        logs = await asking.fetchval(LOG_BYTES) - logs
        moments = sorted(load.arrived.values())
        await load.insert(seconds, RATE)
        await _delivered(daemon, load, asking)
        deliveries, version = await asking.fetchval(DELIVERED), await asking.fetchval("SHOW server_version")
    if deliveries != len(load.sent):
        raise UserError(f"{len(load.sent)} events were inserted, and {deliveries} delivered")
    sent = list(load.sent.items())[events:]
    lags = sorted(1000 * (load.arrived[event_id] - sent_at) for event_id, sent_at in sent)
    by_insert, by_delivery = (b and a and (b - a) // events for a, b in itertools.pairwise(wal))
    return {
        "server": f"PostgreSQL {version}",
        "inserts": len(load.sent),
        "deliveries": deliveries,
        "inserts_per_second": round(events / took),
        "deliveries_per_second": round((events - 1) / (moments[-1] - moments[0])),
        f"lag_p50_ms_at_{RATE}_per_second": round(statistics.median(lags), 1),
        f"lag_p99_ms_at_{RATE}_per_second": round(lags[int(0.99 * len(lags))], 1),
        "wal_bytes_per_insert": by_insert,
        "wal_bytes_per_delivery": by_delivery,
        "outbox_bytes_per_event": outbox // events,
        "log_bytes_per_event": logs // events,
    }


async def _configure(asking: asyncpg.Connection, receiver: Receiver, keyring: Keyring) -> None:
    rows = []
    for merchant in (f"m-{number}" for number in range(MERCHANTS)):
        sealed = keyring.seal(merchant, Secret.from_random(secrets.token_bytes(SECRET_RANDOM_BYTES)))
        rows.append((merchant, receiver.url(merchant), sealed.sealed, sealed.key_id))
    columns = ["merchant_id", "url", "secret", "key_id"]
    await asking.copy_records_to_table("endpoint", schema_name="webhook", records=rows, columns=columns)


async def _wal(asking: asyncpg.Connection) -> int | None:
    """Return how much the server has written, or None: Aurora, for one, does not say."""
    try:
        written: int = await asking.fetchval("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
    except asyncpg.PostgresError:
        return None
    return written


async def _delivered(daemon: ProgramProcess, load: Load, asking: asyncpg.Connection) -> None:
    """Wait until all has arrived and is recorded; UserError says why it does not."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(load.arrived) < len(load.sent) or await asking.fetchval(OWED):
        if daemon.code is not None or time.monotonic() > deadline:
            raise UserError(f"{len(load.arrived)} of {len(load.sent)} events arrived: {daemon.log_tail()}")
        await asyncio.sleep(LOOK_SECONDS)
