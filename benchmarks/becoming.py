"""Scenario: a merchant with a million rows becomes routed, and direct again, under the load of others.

The merchant is paused, so that what is measured is the moving: half of the rows wait for their first attempts
and are routed, half are retries, of which every other is due. For the way back all of number 1's are
retries. Lags are the others'.
"""

import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.contest import Figure, Run, Runs, Section
from benchmarks.ours import texts
from benchmarks.processes import Child, until
from benchmarks.replays import lags_between
from benchmarks.rig import Daemon, Rig, names
from benchmarks.routes import ADD, RATE, longest_statements
from benchmarks.sets import Bench

ROWS = 1_000_000
OTHERS = 1_000
ALONE = 60.0
"""Seconds of load with nothing to move."""
PATIENCE = 3_000.0
"""Seconds that the producer goes on, at most, and that either way may take."""
[MERCHANT] = names(1, OTHERS)
FIRST, SECOND = f"{MERCHANT}\x1f1", f"{MERCHANT}\x1f2"
ROUTED, DIRECT = "becomes routed", "is direct again"
MOVES = ("left_lane AS", "to_lane")
"""What the statements that find and move retries say."""

FILL = """
INSERT INTO webhook.outbox (merchant_id, type, object, attempts, due_at)
SELECT
    $2, 'charge.succeeded', ($3::json[])[1 + number % 100], number % 2,
    CASE number % 4 WHEN 1 THEN clock_timestamp() WHEN 3 THEN clock_timestamp() + interval '1 day' END
FROM generate_series(0, $1 - 1) AS number
"""
PAUSE = "UPDATE webhook.lane SET paused = true WHERE merchant_id = $1"
ALL_FAILED = """
UPDATE webhook.outbox SET attempts = 1, due_at = clock_timestamp() + interval '1 day'
WHERE merchant_id = $1 AND due_at IS NULL
"""
FORGET = "DELETE FROM webhook.outbox WHERE merchant_id = $1"
REMOVE = "DELETE FROM webhook.endpoint WHERE merchant_id = $1"
OWED = "SELECT FROM webhook.outbox WHERE merchant_id = $1 LIMIT 1"


def becoming(bench: Bench) -> Section:
    """Measure how long both ways take, and the lags of others before and meanwhile."""
    rig, rows, runs = bench.rig, bench.events(ROWS), Runs()
    with rig.another_receiver("--log") as logging:
        template = rig.template(logging.url(), OTHERS + 1)
        with rig.database(template) as database:
            execute = partial(rig.execute, database=database)
            execute(FILL, rows, MERCHANT, texts(1_000))
            execute(PAUSE, MERCHANT)
            execute("VACUUM ANALYZE webhook.outbox")
            execute("CHECKPOINT")
            with rig.daemon(database) as daemon:
                stretches = _stretches(bench, database, rows, daemon)
            for name, run in stretches.items():
                runs.of[name] = [run]
    return Section(
        "A merchant becomes routed, and direct again",
        f"{rows:,} rows of 1 KB of one merchant, and {RATE} events a second of {OTHERS:,} others. Rates are "
        "rows moved a second; longest: of the statements that move retries.",
        runs,
        [
            *(Figure(f"s until one {way}", runs.median(way, "s")) for way in (ROUTED, DIRECT)),
            *(
                Figure(f"p99 ms of others while one {way} ÷ before", runs.ratio(way, "p99 ms", "before"))
                for way in (ROUTED, DIRECT)
            ),
        ],
    )


def _stretches(bench: Bench, database: str, rows: int, daemon: Daemon) -> dict[str, Run]:
    """Let others' events arrive: before, while the merchant becomes routed, and while it becomes direct."""
    rig, log = bench.rig, bench.rig.folder / "produced.log"
    execute = partial(rig.execute, database=database)
    rig.receiver.reset()
    produce = ["produce", "--dsn", rig.postgres.dsn("webhook_producer", database), "--log", str(log)]
    produce += ["--rate", str(RATE), "--seconds", str(PATIENCE), "--merchants", str(OTHERS)]
    child = Child("benchmarks.ourselves", *produce, log=rig.folder / "producer.log")
    measured: dict[str, tuple[float, float, Run]] = {}

    def measure(name: str, change: Callable[[], object]) -> None:
        before, since = rig.usage(daemon.process.pid), time.monotonic()
        with longest_statements(rig) as longest:
            change()
        end = time.monotonic()
        used = (rig.usage(daemon.process.pid) - before).each(rows)
        shows = {"s": end - since, "longest ms": longest(*MOVES)}
        measured[name] = since, end, Run(rows / (end - since), used.worker, used.postgres, None, shows)
        bench.tell(f"  {name}: {end - since:.1f} s")

    def leave(lane: str, change: str, *arguments: object) -> None:
        execute(change, *arguments)
        until(lambda: not rig.query(OWED, lane, database=database), PATIENCE, every=0.5)

    try:
        rig.receiver.await_requests(RATE, PATIENCE)
        measure("before", lambda: time.sleep(max(5.0, ALONE * bench.scale)))
        measure(ROUTED, lambda: leave(MERCHANT, ADD, None, MERCHANT))
        execute(FORGET, SECOND)
        execute(ALL_FAILED, FIRST)
        execute("VACUUM ANALYZE webhook.outbox")
        measure(DIRECT, lambda: leave(FIRST, REMOVE, SECOND))
        child.signal(signal.SIGTERM)
        events = int(child.read()["events"])
    finally:
        child.end()
    rig.receiver.await_requests(events, PATIENCE)
    return {name: _with_lags(rig, log, *stretch) for name, stretch in measured.items()}


def _with_lags(rig: Rig, log: Path, since: float, end: float, run: Run) -> Run:
    shows = {**run.shows, **lags_between(rig, log, since, end)}
    return Run(run.rate, run.worker, run.postgres, run.receiver, shows)
