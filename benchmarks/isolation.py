"""Measure how much merchants that hang slow the others down.

The lag of 100 healthy merchants, from the commit of an event to its arrival, under a fixed load: alone, and
beside 300 merchants that hang at each stage and 20 whose name servers are dead. See README.md.
"""

import argparse
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.installation import Installation
from benchmarks.merchants import BAD, COUNTS, HEALTHY
from webhook_dispatcher.local.scratch import scratch_dir

MOST_SHARE = 0.5
SHARE = 0.4
"""Of saturation, unless a load is given."""
WARM_UP = 11.0
"""Seconds before lags count: by then every bad merchant's first attempt hangs or has timed out."""
FLOOD = 6.0
FLOOD_WARM_UP = 2.0
ARRIVAL_DEADLINE = 15.0
WANTED_RATIO = 1.5
WANTED_IN_FLIGHT = 0.9
"""Of the bad merchants, at the end of a run: with fewer hanging it would show nothing."""
RESULTS = Path(__file__).parent / "results" / "isolation.json"

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Lags:
    """Quantiles in milliseconds. `from_insert_p99` includes the producer's own INSERT and COMMIT."""

    events: int
    p50: float
    p99: float
    most: float
    from_insert_p99: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run: with the bad merchants or without."""

    with_bad: bool
    lags: Lags
    missing: int
    in_flight: int
    daemon_cpu: float
    load_average: float
    attempts: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    """An event as its producer noted it."""

    event_id: str
    merchant_id: str
    asked_at: float
    committed_at: float


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def produce(dsn: str, log: Path, *arguments: str) -> list[Written]:
    """Run the producer to its end and return what it has committed."""
    command = [sys.executable, "-m", "benchmarks.traffic", "--dsn", dsn, "--log", str(log), *arguments]
    with subprocess.Popen(command) as process:
        try:
            if process.wait() != 0:
                raise SystemExit("the producer failed")
        finally:
            process.kill()
    lines = [line.split() for line in log.read_text().splitlines()]
    return [Written(line[0], line[1], float(line[2]), float(line[3])) for line in lines]


def await_arrivals(installation: Installation, events: Sequence[Written]) -> int:
    """Wait until all events have arrived; return how many have not in time."""
    deadline = time.monotonic() + ARRIVAL_DEADLINE
    while True:
        arrived = installation.arrivals()
        missing = sum(event.event_id not in arrived for event in events)
        if not missing or time.monotonic() > deadline:
            return missing
        time.sleep(0.1)


def saturation(installation: Installation) -> float:
    """Return the events a second that arrive while a producer writes as fast as it can."""
    with installation.database("saturation") as database, installation.daemon(database):
        dsn = installation.postgres.dsn("webhook_producer", database)
        log = installation.receiver_log.with_name("saturation.txt")
        events = produce(dsn, log, "--seconds", str(FLOOD))
        await_arrivals(installation, events)
        arrived = installation.arrivals()
        times = sorted(arrived[event.event_id] for event in events if event.event_id in arrived)
    starts = times[0] + FLOOD_WARM_UP
    counted = [moment for moment in times if moment >= starts]
    return len(counted) / (counted[-1] - starts)


def measure(installation: Installation, options: argparse.Namespace, *, with_bad: bool) -> Run:
    """Make one run on a fresh database with a fresh daemon."""
    load_average = os.getloadavg()[0]
    number = next(_numbers)
    with installation.database(f"run_{number}") as database, installation.daemon(database) as daemon:
        log = installation.receiver_log.with_name(f"written-{number}.txt")
        arguments = ["--rate", str(options.load), "--seconds", str(WARM_UP + options.seconds)]
        arguments += ["--bad"] if with_bad else []
        arguments += ["--together"] if options.together else []
        cpu, started = daemon.cpu_seconds(), time.monotonic()
        events = produce(installation.postgres.dsn("webhook_producer", database), log, *arguments)
        cpu = (daemon.cpu_seconds() - cpu) / (time.monotonic() - started)
        in_flight = int(daemon.gauge("webhook_attempts_in_flight"))
        healthy = [event for event in events if event.merchant_id.startswith(HEALTHY)]
        missing = await_arrivals(installation, healthy)
        attempts = installation.outcomes(database)
    lags = judge(installation, healthy)
    return Run(with_bad, lags, missing, in_flight, round(cpu, 3), load_average, attempts)


def judge(installation: Installation, healthy: Sequence[Written]) -> Lags:
    """Return the lags of what was committed after the warm-up."""
    arrived = installation.arrivals()
    starts = min(event.asked_at for event in healthy) + WARM_UP
    counted = [event for event in healthy if event.asked_at >= starts and event.event_id in arrived]
    lags = [1000 * (arrived[event.event_id] - event.committed_at) for event in counted]
    from_insert = [1000 * (arrived[event.event_id] - event.asked_at) for event in counted]
    return Lags(
        events=len(lags),
        p50=round(quantile(lags, 0.5), 1),
        p99=round(quantile(lags, 0.99), 1),
        most=round(max(lags), 1),
        from_insert_p99=round(quantile(from_insert, 0.99), 1),
    )


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show(run: Run) -> None:
    """Print one row of the table."""
    lags = run.lags
    say(
        f"{'with' if run.with_bad else 'without':8}{lags.events:8}"
        f"{lags.p50:9.1f}{lags.p99:9.1f}{lags.most:9.1f}{lags.from_insert_p99:12.1f}{run.in_flight:11}{run.daemon_cpu:11.0%}{run.load_average:8.2f}"
        + (f"  {run.missing} NOT ARRIVED" if run.missing else "")
    )


def faults(runs: Sequence[Run]) -> list[str]:
    """Say why the figures would mean nothing."""
    bad = sum(COUNTS[kind] for kind in BAD)
    found = []
    if any(run.missing for run in runs):
        found.append("events of healthy merchants did not arrive")
    if any(run.with_bad and run.in_flight < bad * WANTED_IN_FLIGHT for run in runs):
        found.append(f"fewer than {WANTED_IN_FLIGHT:.0%} of {bad} bad merchants were hanging at a run's end")
    if any(outcome != "delivered" for run in runs for outcome in run.attempts.get(HEALTHY, ())):
        found.append("attempts at healthy merchants failed")
    return found


def median_p99(runs: Sequence[Run], *, with_bad: bool) -> float:
    """Return the median of the runs of one kind."""
    return round(statistics.median(run.lags.p99 for run in runs if run.with_bad == with_bad), 1)


def summary(options: argparse.Namespace, saturated: float, runs: Sequence[Run]) -> dict[str, Any]:
    """Return everything that was found, as it is written to the results."""
    without, beside = median_p99(runs, with_bad=False), median_p99(runs, with_bad=True)
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processors": os.cpu_count(), "python": platform.python_version()},
        "merchants": COUNTS,
        "bad_merchants_begin": "together" if options.together else "spread",
        "max_lanes": options.max_lanes,
        "saturation_per_second": round(saturated),
        "load_per_second": options.load,
        "seconds": options.seconds,
        "median_p99_ms": {"without": without, "with": beside},
        "ratio": round(beside / without, 2),
        "faults": faults(runs),
        "runs": [asdict(run) for run in runs],
    }


def benchmark(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure saturation, then run without and with by turns."""
    with Installation(folder, options.max_lanes) as installation:
        saturated = saturation(installation)
        if options.load is None:
            options.load = max(10, round(SHARE * saturated, -1))
        if options.load > MOST_SHARE * saturated:
            raise SystemExit(f"{options.load}/s is more than half of saturation, {saturated:.0f}/s")
        say(
            f"saturation {saturated:.0f}/s, load {options.load:.0f}/s ({options.load / saturated:.0%}), "
            f"MAX_LANES {options.max_lanes}; milliseconds from commit to arrival:\n"
            f"{'bad':8}{'events':>8}{'p50':>9}{'p99':>9}{'max':>9}{'insert p99':>12}{'in flight':>11}"
            f"{'daemon cpu':>11}{'load':>8}"
        )
        runs = []
        for _ in range(options.runs):
            for with_bad in (False, True):
                runs.append(measure(installation, options, with_bad=with_bad))
                show(runs[-1])
        return summary(options, saturated, runs) | {"tarpits_caught": installation.caught()}


def main() -> None:
    """Read the command line, measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of each kind (default 5)")
    parser.add_argument("--seconds", type=float, default=12, help="measured in each run (default 12)")
    parser.add_argument("--load", type=float, help="events a second; at most half of saturation")
    parser.add_argument("--max-lanes", type=int, default=1000)
    parser.add_argument("--together", action="store_true", help="all bad merchants begin in one moment")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with scratch_dir("webhook-isolation-") as folder:
        found = benchmark(options, folder)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=2) + "\n")
    medians, ratio = found["median_p99_ms"], found["ratio"]
    say(
        f"median p99: {medians['without']} ms without, {medians['with']} ms with; ratio {ratio} "
        f"({'within' if ratio <= WANTED_RATIO else 'ABOVE'} {WANTED_RATIO}); all figures in {options.output}"
    )
    for fault in found["faults"]:
        say(f"these figures mean nothing: {fault}")
    raise SystemExit(1 if found["faults"] else 0)


if __name__ == "__main__":
    main()
