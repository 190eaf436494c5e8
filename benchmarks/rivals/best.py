"""Finds a rival's best settings where the benchmark runs: drains the same backlog with each of a grid.

Every drain has a database of its own; the best few are tried again. Prints a JSON line for each drain, and at
last the settings whose median is the fastest.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

Settings = Mapping[str, str | int | float]

GRIDS: dict[str, tuple[Settings, ...]] = {
    "pgqueuer": (
        # Limited by pgqueuer itself.
        *({"batch": batch, "concurrency": 4 * batch, "in-flight": 0} for batch in (50, 100, 400)),
        # Taken ahead, and limited in the handler.
        *(
            {"batch": batch, "concurrency": taken, "in-flight": in_flight}
            for batch in (100, 500, 1_000)
            for taken in (0, 4 * batch)
            for in_flight in (50, 100, 200)
        ),
        # Several queue managers, as its own benchmark has.
        *({"workers": workers, "batch": 250, "concurrency": 1_000, "in-flight": 100} for workers in (2, 5)),
        {"driver": "pool", "batch": 500, "concurrency": 2_000, "in-flight": 100},
    ),
    "procrastinate": (
        *(
            {"workers": workers, "concurrency": concurrency, "pool": pool}
            for workers in (1, 4, 8, 16)
            for concurrency in (4, 16)
            for pool in (4, 16)
        ),
        {"workers": 8, "concurrency": 8, "pool": 8},
        {"workers": 8, "concurrency": 8, "pool": 8, "delete": ""},
    ),
}
ORDERED_GRIDS: dict[str, tuple[Settings, ...]] = {
    "pgqueuer": tuple(
        {"batch": batch, "concurrency": max(200, 2 * batch), "in-flight": 0}
        for batch in (25, 50, 100, 250, 500)
    ),
    "procrastinate": tuple(
        {"workers": workers, "concurrency": 8, "pool": 8, "poll": poll}
        for workers in (1, 4, 8)
        for poll in (0.01, 0.05)
    ),
}
EVENTS = {"pgqueuer": 20_000, "procrastinate": 5_000}
DATABASE = "rival_best"


def drain(options: argparse.Namespace, settings: Settings) -> float:
    """Drain one backlog and return events a second."""
    module = f"benchmarks.rivals.{options.rival}"
    asyncio.run(_recreate(options.dsn))
    dsn = urlunsplit(urlsplit(options.dsn)._replace(path=f"/{DATABASE}"))
    events = ("--events", str(options.events))
    _run(module, "prepare", "--dsn", dsn)
    size = ("--merchants", str(options.merchants), "--bytes", str(options.bytes))
    _run(module, "fill", "--dsn", dsn, *events, *size, *(["--ordered"] if options.ordered else []))
    if options.ordered and options.rival == "pgqueuer":
        settings = {**settings, "ordered": options.merchants}
    if options.tune_collector:
        settings = {**settings, "tune-collector": ""}
    seen = _work(module, "work", "--dsn", dsn, "--url", options.url, *events, *arguments(settings))
    rate: float = seen["events"] / seen["seconds"]
    cpu = 1e6 * seen["cpu_seconds"] / seen["events"]
    _say({"settings": dict(settings), "events_per_second": round(rate), "cpu_us_per_event": round(cpu)})
    return rate


def arguments(settings: Settings) -> list[str]:
    """Return settings as `work` takes them; an empty one is a flag."""
    return [word for name, text in settings.items() for word in (f"--{name}", str(text)) if word]


async def _recreate(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
    await connection.execute(f"CREATE DATABASE {DATABASE}")
    await connection.execute("CHECKPOINT")
    await connection.close()


def _run(*command: str) -> None:
    subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.DEVNULL)


def _work(*command: str) -> dict[str, Any]:
    with subprocess.Popen(
        [sys.executable, "-m", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.write(b"go\n")
        process.stdin.flush()
        line = process.stdout.readline()
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    seen: dict[str, Any] = json.loads(line)
    return seen


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    """Try everything once, then the best few again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rival", choices=GRIDS)
    parser.add_argument("--dsn", required=True, help="as a superuser; any database but rival_best")
    parser.add_argument("--url", required=True)
    parser.add_argument("--events", type=int, help="in each drain (default: 20,000, procrastinate 5,000)")
    parser.add_argument("--ordered", action="store_true", help="with each merchant's events in order")
    parser.add_argument(
        "--tune-collector", action="store_true", help="the garbage collector as webhook-dispatcher's"
    )
    parser.add_argument("--merchants", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=1_000)
    parser.add_argument("--finalists", type=int, default=4)
    parser.add_argument("--again", type=int, default=2, help="further drains of each finalist")
    options = parser.parse_args()
    options.events = options.events or EVENTS[options.rival]
    grid = (ORDERED_GRIDS if options.ordered else GRIDS)[options.rival]
    rates = [(drain(options, settings), settings) for settings in grid]
    rates.sort(key=lambda found: found[0], reverse=True)
    finals = []
    for rate, settings in rates[: options.finalists]:
        again = [drain(options, settings) for _ in range(options.again)]
        finals.append((statistics.median([rate, *again]), settings))
    rate, settings = max(finals, key=lambda found: found[0])
    _say({"rival": options.rival, "best": dict(settings), "events_per_second": round(rate)})


if __name__ == "__main__":
    main()
