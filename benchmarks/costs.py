"""Scenario of costs: what an event asks of the daemon and of Postgres, for docs/operate/scaling.md."""

import time
from collections.abc import Callable

from benchmarks.contest import Run, Section, by_turns
from benchmarks.drains import without_page_images
from benchmarks.ours import WAL, fill
from benchmarks.processes import until
from benchmarks.recording import produce
from benchmarks.rig import Daemon, Rig
from benchmarks.sets import Bench

MERCHANTS = 5_000
STEADY_MERCHANTS = 1_000
SECONDS = 8.0
PATIENCE = 120.0
SIZES = """
SELECT coalesce(parent.relname, own.relname) AS name, sum(pg_total_relation_size(own.oid))::bigint AS bytes
FROM pg_class AS own
LEFT JOIN pg_inherits ON inhrelid = own.oid
LEFT JOIN pg_class AS parent ON parent.oid = inhparent
WHERE own.relnamespace = 'webhook'::regnamespace AND own.relkind = 'r'
GROUP BY 1
"""
IS_EMPTY = "SELECT NOT EXISTS (SELECT FROM webhook.outbox)"


def backlog(rig: Rig, template: str, events: int) -> Run:
    """Deliver a backlog, and see how large an event's rows are."""
    with rig.database(template) as database:
        rig.execute("UPDATE webhook.state SET paused = true", database=database)
        empty = _sizes(rig, database)
        fill(rig, database, events, MERCHANTS, 1_000)
        full = _sizes(rig, database)

        def deliver() -> int:
            rig.execute("UPDATE webhook.state SET paused = false", database=database)
            return events

        with rig.daemon(database) as daemon:
            run = _measure(rig, database, daemon, deliver)
        finished = _sizes(rig, database)
    rows = {"outbox row": full["outbox"] - empty["outbox"]}
    rows |= {f"{log} row": finished[log] - empty[log] for log in ("delivery_log", "attempt_log")}
    shows = {**run.shows, **{name: bytes_ / events for name, bytes_ in rows.items()}}
    return Run(run.rate, run.worker, run.postgres, run.receiver, shows)


def steady(rig: Rig, template: str, rate: int, rows: int, seconds: float) -> Run:
    """Deliver what a producer commits meanwhile."""
    with rig.database(template) as database, rig.daemon(database) as daemon:
        log = rig.folder / "produced.log"

        def deliver() -> int:
            said = produce(rig, database, log, rate, seconds, STEADY_MERCHANTS, rows)
            return int(said["events"])

        return _measure(rig, database, daemon, deliver)


def idle(rig: Rig, template: str, seconds: int) -> Run:
    """Deliver nothing."""

    def deliver() -> int:
        time.sleep(seconds)
        return seconds

    with rig.database(template) as database, rig.daemon(database) as daemon:
        return _measure(rig, database, daemon, deliver)


def _measure(rig: Rig, database: str, daemon: Daemon, deliver: Callable[[], int]) -> Run:
    """Measure what is used until everything is recorded, for each event (or whatever `deliver` returns)."""
    counts = _counts(daemon)
    wal, used, started = rig.query(WAL)[0][0], rig.usage(daemon.process.pid), time.monotonic()
    number = deliver()
    until(lambda: rig.query(IS_EMPTY, database=database)[0][0], PATIENCE)
    seconds = time.monotonic() - started
    each = (rig.usage(daemon.process.pid) - used).each(number)
    shows = {"WAL bytes": (rig.query(WAL)[0][0] - wal) / number}
    for name, count in _counts(daemon).items():
        if count > counts[name]:
            shows[f"a {name}"] = number / (count - counts[name])
    return Run(number / seconds, each.worker, each.postgres, each.receiver, shows)


def _counts(daemon: Daemon) -> dict[str, float]:
    """Return how many claims and records there were."""
    lines = dict(line.rsplit(" ", 1) for line in daemon.metrics().splitlines() if not line.startswith("#"))
    return {name: float(lines[f"webhook_{name}_duration_seconds_count"]) for name in ("claim", "record")}


def _sizes(rig: Rig, database: str) -> dict[str, int]:
    return {row["name"]: row["bytes"] for row in rig.query(SIZES, database=database)}


def costs(bench: Bench) -> Section:
    """Measure a backlog, two steady loads, and a daemon that has nothing to do."""
    rig, events, seconds = bench.rig, bench.events(40_000), SECONDS * bench.scale
    many = rig.template(rig.receiver.url(), MERCHANTS)
    few = rig.template(rig.receiver.url(), STEADY_MERCHANTS)
    contestants = {
        f"backlog of {events:,}": lambda: backlog(rig, many, events),
        "2,500/s, ten in a transaction": lambda: steady(rig, few, 2_500, 10, seconds),
        "500/s, one in a transaction": lambda: steady(rig, few, 500, 1, seconds),
        "idle: for each second": lambda: idle(rig, few, max(1, round(seconds))),
    }
    with without_page_images(rig):
        runs = by_turns(min(bench.rounds, 3), contestants, bench.tell)
    return Section(
        "Costs of an event",
        "1 KB. Events in a claim and in a record; rows in bytes with their indexes; the log's WAL without "
        "full-page images, with the producer's INSERT where there is one.",
        runs,
        (),
        undrawn=("idle: for each second",),
    )
