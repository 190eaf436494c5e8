"""Scenarios of producers: from an event's commit to its request's arrival, and what inserts cost."""

import json
import statistics

from benchmarks.contest import Figure, Run, Section, by_turns, percentile
from benchmarks.drains import OURS
from benchmarks.processes import Child
from benchmarks.rig import Rig
from benchmarks.sets import Bench

MERCHANTS = 1_000
WARM_UP = 1.0
"""Seconds at the beginning that do not count."""
LOAD = 500


def lags_of(
    rig: Rig,
    worker: int,
    producer: str,
    dsn: str,
    rate: int,
    seconds: float,
    *,
    merchants: int = MERCHANTS,
    warm_up: float = WARM_UP,
    patience: float = 60.0,
    copies: int = 1,
) -> Run:
    """Let a producer commit events, and compare its log with what arrived within so many more seconds.

    copies: requests for each event, of which the last counts; rate and costs are for each of them.
    """
    log = rig.folder / "produced.log"
    produce = ["produce", "--dsn", dsn, "--rate", str(rate), "--seconds", str(seconds)]
    produce += ["--merchants", str(merchants), "--log", str(log)]
    rig.receiver.reset()
    before = rig.usage(worker)
    child = Child(producer, *produce, log=rig.folder / "producer.log")
    said = child.read()
    child.end()
    events = int(said["events"])
    rig.receiver.await_requests(events * copies, patience)
    used = (rig.usage(worker) - before).each(events * copies)
    arrived = rig.receiver.arrivals(last=copies > 1)
    lags = []
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    start = min(line["committed_at"] for line in lines)
    for line in lines:
        if line["committed_at"] >= start + warm_up:
            lags.append(1000 * (arrived[line["event_id"]] - line["committed_at"]))
    shows = {"p50 ms": statistics.median(lags), "p99 ms": percentile(lags, 0.99), "worst ms": max(lags)}
    return Run(events * copies / said["seconds"], used.worker, used.postgres, used.receiver, shows)


def ours(bench: Bench, template: str, rate: int, seconds: float) -> Run:
    """Measure a daemon."""
    rig = bench.rig
    with rig.database(template) as database, rig.daemon(database) as daemon:
        dsn = rig.postgres.dsn("webhook_producer", database)
        return lags_of(rig, daemon.process.pid, "benchmarks.ourselves", dsn, rate, seconds)


def pgqueuer(bench: Bench, rate: int, seconds: float) -> Run:
    """Measure pgqueuer, which listens for notifications."""
    rig, module = bench.rig, "benchmarks.rivals.pgqueuer"
    with rig.database() as database:
        dsn = rig.postgres.dsn(database=database)
        Child(module, "prepare", "--dsn", dsn, log=rig.folder / "rival.log").finish()
        worker = Child(
            module, "work", "--dsn", dsn, "--url", rig.receiver.url(), log=rig.folder / "rival.log"
        )
        try:
            worker.read()
            worker.go()
            return lags_of(rig, worker.pid, module, dsn, rate, seconds)
        finally:
            worker.end()


def steady(bench: Bench) -> Section:
    """Measure lags at 500 events a second by turns, and ours at other loads."""
    rig = bench.rig
    seconds = 8.0 * bench.scale
    with rig.another_receiver("--log") as logging:
        template = rig.template(logging.url(), MERCHANTS)
        runs = by_turns(
            bench.rounds,
            {
                f"{OURS}, {LOAD}/s": lambda: ours(bench, template, LOAD, seconds),
                f"pgqueuer, {LOAD}/s": lambda: pgqueuer(bench, LOAD, seconds),
            },
            bench.tell,
        )
        for rate in (100, 2_000):
            runs.of[f"{OURS}, {rate}/s"] = [ours(bench, template, rate, seconds)]
    us, them = f"{OURS}, {LOAD}/s", f"pgqueuer, {LOAD}/s"
    return Section(
        "Lag: from commit to the request's arrival",
        f"Poisson arrivals over {MERCHANTS:,} merchants, one transaction each. pgqueuer's producers notify.",
        runs,
        (
            Figure("p50 ms at 500/s", runs.median(us, "p50 ms"), most=20),
            Figure("p99 ms at 500/s", runs.median(us, "p99 ms"), most=60),
            Figure("p99 ÷ pgqueuer's", runs.ratio(us, "p99 ms", them), most=1.0),
        ),
    )


PLAIN_TABLE = """
CREATE TABLE webhook.plain (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    merchant_id text NOT NULL,
    type text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    object json NOT NULL
)
"""
NOTIFYING_TABLE = (
    "CREATE TABLE webhook.notifying (LIKE webhook.plain INCLUDING ALL)",
    "CREATE FUNCTION webhook.notify() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM pg_notify('webhook', ''); RETURN NULL; END $$",
    "CREATE TRIGGER notify AFTER INSERT ON webhook.notifying EXECUTE FUNCTION webhook.notify()",
)
LOCK_WAITS = """
SELECT count(*) FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND wait_event <> 'extend' AND datname = $1  -- any table that grows has that
"""


def _inserts(bench: Bench, template: str, table: str, rows: int, writers: int) -> Run:
    rig = bench.rig
    with rig.database(template) as database:
        rig.execute(PLAIN_TABLE, database=database)
        for statement in NOTIFYING_TABLE:
            rig.execute(statement, database=database)
        dsn = rig.postgres.dsn(database=database)
        command = ["--dsn", dsn, "--table", table, "--rows", str(rows), "--writers", str(writers)]
        child = Child(
            "benchmarks.inserting",
            *command,
            "--events",
            str(bench.events(4_000) * (12 if rows > 1 else 1)),
            log=rig.folder / "inserting.log",
        )
        child.read()
        before = rig.usage(child.pid)
        child.go()
        waits = 0
        while not child.has_spoken(0.02):
            waits += rig.query(LOCK_WAITS, database)[0][0]
        said = child.read()
        used = (rig.usage(child.pid) - before).each(said["events"])
        child.end()
    shows = {
        "ms a transaction": 1000 * said["seconds"] * writers * rows / said["events"],
        "lock waits": waits,
    }
    return Run(said["events"] / said["seconds"], used.worker, used.postgres, None, shows)


def inserts(bench: Bench) -> Section:
    """Measure what the outbox costs producers, beside a table with nothing but its primary key."""
    template = bench.rig.template(bench.rig.receiver.url(), 1)
    contestants = {}
    for rows, writers, name in ((1, 1, "single row"), (1, 8, "single row, 8 writers"), (100, 1, "100 rows")):
        for table in ("plain", "notifying", "outbox"):

            def run(table: str = table, rows: int = rows, writers: int = writers) -> Run:
                return _inserts(bench, template, table, rows, writers)

            contestants[f"{name}: {table}"] = run
    runs = by_turns(bench.rounds, contestants, bench.tell)
    cost = "ms a transaction"
    waits = max(run.value("lock waits") for run in runs.of["single row, 8 writers: outbox"])
    return Section(
        "Producers: inserts into the outbox, and into a plain table with its primary key",
        "1 KB each, each transaction flushed to disk, no daemon. `notifying` is the plain table with a "
        "trigger that notifies, as queues have that are woken by their producers.",
        runs,
        (
            Figure(
                "single insert ÷ plain",
                runs.ratio("single row: outbox", cost, "single row: plain"),
                most=1.35,
            ),
            Figure("100 rows ÷ plain", runs.ratio("100 rows: outbox", cost, "100 rows: plain")),
            Figure("lock waits between 8 producers", waits, most=0),
            *(
                Figure(
                    f"8 producers' commits, {table} ÷ plain",
                    runs.ratio(f"single row, 8 writers: {table}", "rate", "single row, 8 writers: plain"),
                )
                for table in ("outbox", "notifying")
            ),
        ),
    )
