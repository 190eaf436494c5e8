"""Scenario: live events while a night's deliveries are sent again by `recover --all`.

The log is filled by a drain, so what is sent again are deliveries as a daemon left them; each run has a copy.
Lags count from the moment at which the command was given until it was done, or all was committed without one.
"""

import json
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.contest import Figure, Run, Runs, Section, by_turns, percentile
from benchmarks.lags import LOAD, MERCHANTS
from benchmarks.ours import deliver, fill
from benchmarks.processes import Child, until
from benchmarks.rig import Rig
from benchmarks.sets import Bench

REPLAYED = 100_000
BYTES = 1_000
WARM_UP = 2 * LOAD
"""Events that have arrived before anything counts."""
ALONE = 240.0
"""Seconds of load where nothing is sent again: as long as a replay takes, with as many checkpoints."""
PATIENCE = 900.0
"""Seconds that a replay, or what arrives after it, may take."""
WITHOUT, BESIDE = f"{LOAD}/s alone", f"{LOAD}/s beside a replay"

NOW = """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
RECOVER = """
INSERT INTO webhook.control (command, args, requested_by)
VALUES ('recover', json_build_object('since', '2020-01-01T00:00:00.000Z', 'until', $1::text), 'a benchmark')
RETURNING id
"""
ENDED = """
SELECT
    status, (result ->> 'recovered')::bigint AS recovered,
    extract(epoch FROM handled_at - created_at) AS seconds
FROM webhook.control WHERE id = $1 AND status NOT IN ('pending', 'running')
"""


def replays(bench: Bench) -> Section:
    """Measure lags with and without a replay, by turns."""
    rig, events = bench.rig, bench.events(REPLAYED)
    with rig.another_receiver("--log") as logging:
        template = make_night(rig, logging.url(), events)
        bench.tell(f"  {events:,} deliveries are in the log")
        contestants: dict[str, Callable[[], Run]] = {
            WITHOUT: lambda: _run(bench, template, 0),
            BESIDE: lambda: _run(bench, template, events),
        }
        runs = by_turns(bench.rounds, bench.beside_before(contestants), bench.tell)
        rig.execute(f"DROP DATABASE {template}")
    return Section(
        "Lag while a night is sent again: `recover --all`",
        f"Poisson arrivals over {MERCHANTS:,} merchants, one transaction each, alone and while {events:,} "
        "deliveries of these merchants, all delivered before, are sent again.",
        runs,
        _figures(runs),
    )


def _figures(runs: Runs) -> tuple[Figure, ...]:
    ratios = [
        beside.value("p99 ms") / alone.value("p99 ms")
        for beside, alone in zip(runs.of[BESIDE], runs.of[WITHOUT], strict=True)
    ]
    return (
        Figure("p50 ms beside a replay ÷ alone", runs.ratio(BESIDE, "p50 ms", WITHOUT)),
        Figure("p99 ms beside a replay ÷ alone", runs.ratio(BESIDE, "p99 ms", WITHOUT), most=1.5),
        Figure("… of one round, at least", min(ratios)),
        Figure("… of one round, at most", max(ratios)),
        Figure("sent again a second", runs.median(BESIDE, "replayed/s")),
    )


def make_night(rig: Rig, url: str, events: int) -> str:
    """Make a template whose log holds so many deliveries."""
    name = rig.make_template("night", url, MERCHANTS)
    fill(rig, name, events, MERCHANTS, BYTES)
    deliver(rig, name, events, patience=PATIENCE)
    rig.execute("VACUUM ANALYZE", database=name)
    rig.execute("CHECKPOINT")
    return name


def _run(bench: Bench, template: str, replayed: int) -> Run:
    """Let a producer commit events, and send so many deliveries again meanwhile, if any."""
    rig, log = bench.rig, bench.rig.folder / "produced.log"
    with rig.database(template) as database, rig.daemon(database) as daemon:
        rig.receiver.reset()
        night_ends = rig.query(NOW, database=database)[0][0]
        produce = ["produce", "--dsn", rig.postgres.dsn("webhook_producer", database), "--log", str(log)]
        produce += ["--rate", str(LOAD), "--seconds", str(PATIENCE), "--merchants", str(MERCHANTS)]
        child = Child("benchmarks.ourselves", *produce, log=rig.folder / "producer.log")
        try:
            rig.receiver.await_requests(WARM_UP, PATIENCE)
            used, since = rig.usage(daemon.process.pid), time.monotonic()
            shows = _replay(rig, database, night_ends, replayed) if replayed else {}
            time.sleep(0 if replayed else ALONE * bench.scale)
            end = time.monotonic()
            child.signal(signal.SIGTERM)
            events = int(child.read()["events"])
        finally:
            child.end()
        rig.receiver.await_requests(events + replayed, PATIENCE)
        each = (rig.usage(daemon.process.pid) - used).each(events - WARM_UP + replayed)
        shows = lags_between(rig, log, since, end) | shows
    bench.tell("    " + ", ".join(f"{name} {value:.4g}" for name, value in shows.items()))
    rate = (events - WARM_UP + replayed) / (end - since)
    return Run(rate, each.worker, each.postgres, each.receiver, shows)


def _replay(rig: Rig, database: str, night_ends: str, events: int) -> dict[str, float]:
    """Send again what finished before the load, as `recover --all` does, and wait until that is done."""
    command = rig.query(RECOVER, night_ends, database=database)[0][0]
    [ended] = until(lambda: rig.query(ENDED, command, database=database), PATIENCE, every=0.5)
    if (ended["status"], ended["recovered"]) != ("done", events):
        raise SystemExit(f"the replay of {events} deliveries ended like this: {ended}")
    return {"replay s": float(ended["seconds"]), "replayed/s": events / float(ended["seconds"])}


def lags_between(rig: Rig, log: Path, since: float, end: float) -> dict[str, float]:
    """Return what the lags were of what a producer committed between two moments, by its log."""
    arrived = rig.receiver.arrivals()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lags = [
        1000 * (arrived[line["event_id"]] - line["committed_at"])
        for line in lines
        if since <= line["committed_at"] < end
    ]
    return {"p50 ms": statistics.median(lags), "p99 ms": percentile(lags, 0.99), "worst ms": max(lags)}
