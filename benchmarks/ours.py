"""webhook-dispatcher's side of the benchmarks: fill the outbox, let a daemon drain it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.bodies import DIFFERENT, body
from benchmarks.processes import Usage, peak_memory, until
from benchmarks.rig import Rig

FILL = """
INSERT INTO webhook.outbox (merchant_id, type, object)
SELECT 'm-' || lpad((number % $2)::text, 6, '0'), 'charge.succeeded', ($3::json[])[1 + number % 100]
FROM generate_series(0, $1 - 1) AS number
"""
WAL = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
"""Not from pg_stat_wal, to which a session adds what it wrote once a second at most."""


@dataclass(frozen=True, slots=True)
class Drained:
    """One drain: events a second at the receiver, processor seconds, WAL and memory in bytes."""

    events: int
    seconds: float
    usage: Usage
    wal: int
    memory: int

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


def texts(size: int) -> list[str]:
    """Return the objects that backlogs are made of."""
    return [body(size, number) for number in range(DIFFERENT)]


def fill(rig: Rig, database: str, events: int, merchants: int, size: int) -> None:
    """Commit a backlog, round the merchants."""
    rig.execute(FILL, events, merchants, texts(size), database=database)
    rig.execute("VACUUM ANALYZE webhook.outbox", database=database)
    rig.execute("CHECKPOINT")


def drain(
    rig: Rig,
    template: str,
    events: int,
    merchants: int,
    size: int = 1_000,
    settings: Mapping[str, str] | None = None,
    patience: float = 300.0,
    within: Sequence[str] = (),
) -> Drained:
    """Deliver a backlog by one `run`, from the moment it is let go until everything is recorded."""
    with rig.database(template) as database:
        fill(rig, database, events, merchants, size)
        drained = deliver(rig, database, events, settings, patience, within=within)
    if drained.events != events:
        raise SystemExit(f"{drained.events} requests for {events} events")
    return drained


def deliver(
    rig: Rig,
    database: str,
    events: int,
    settings: Mapping[str, str] | None = None,
    patience: float = 300.0,
    *,
    leaves_some: bool = False,
    within: Sequence[str] = (),
) -> Drained:
    """Deliver a backlog by one `run`, from the moment it is let go until everything is recorded.

    leaves_some: more is owed than is waited for; it ends at the moment when so many have arrived.
    """
    rig.execute("UPDATE webhook.state SET paused = true", database=database)
    with rig.daemon(database, within=within, **(settings or {})) as daemon:
        rig.receiver.reset()
        wal = rig.query(WAL)[0][0]
        before = rig.usage(daemon.process.pid)
        rig.execute("UPDATE webhook.state SET paused = false", database=database)
        rig.receiver.await_requests(events, patience)
        if not leaves_some:
            until(lambda: _is_empty(rig, database), patience)
        used = rig.usage(daemon.process.pid) - before
        stats = rig.receiver.stats()
        memory = peak_memory(daemon.process.pid)
        wal = rig.query(WAL)[0][0] - wal
    return Drained(stats["requests"], stats["last_at"] - stats["first_at"], used, wal, memory)


def _is_empty(rig: Rig, database: str) -> bool:
    return not rig.query("SELECT FROM webhook.outbox LIMIT 1", database=database)
