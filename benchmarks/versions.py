"""This checkout's daemon beside another's, by turns: `--before PYTHON` names the interpreter of the other."""

import time
from collections.abc import Callable

from benchmarks import lags
from benchmarks.contest import Figure, Run, Section, Unmeasurable, by_turns
from benchmarks.drains import ours
from benchmarks.sets import Bench, beside_the_past

DRAIN, IDLE = "drain", "idle"
RATES = (100, 500)
MERCHANTS = 5_000
SETTLING = 2.0
"""Seconds after the start of an idle daemon that do not count."""


def versions(bench: Bench) -> Section:
    """Measure a drain, lags at two loads and an idle daemon, of both checkouts."""
    if bench.before is None:
        raise Unmeasurable("--before names no other checkout's interpreter")
    rig, events, seconds = bench.rig, bench.events(30_000), max(3.0, 8.0 * bench.scale)
    with rig.another_receiver("--log") as logging:
        template = rig.template(logging.url(), MERCHANTS)

        def lag(rate: int) -> Callable[[], Run]:
            return lambda: lags.ours(bench, template, rate, seconds)

        contestants: dict[str, Callable[[], Run]] = {
            DRAIN: lambda: ours(rig, template, events, MERCHANTS),
            IDLE: lambda: idle(bench, template, seconds),
            **{_lag(rate): lag(rate) for rate in RATES},
        }
        runs = by_turns(bench.rounds, bench.beside_before(contestants), bench.tell)
    shown = {
        DRAIN: ("rate", "worker", "postgres", "WAL bytes"),
        **{_lag(rate): ("p50 ms", "p99 ms", "worker", "postgres") for rate in RATES},
        IDLE: ("% of a core", "% of Postgres"),
    }
    return Section(
        "Versions: this daemon beside another checkout's",
        f"{events:,} events of {MERCHANTS:,} merchants; idle and Poisson arrivals for {seconds:.0f} s.",
        runs,
        [
            Figure("idle: daemon's % of a core", runs.median(IDLE, "% of a core"), most=3),
            *beside_the_past(runs, "", shown),
        ],
    )


def idle(bench: Bench, template: str, seconds: float) -> Run:
    """Measure what a daemon without events costs, itself and its server, in per cent of a core."""
    rig = bench.rig
    with rig.database(template) as database, rig.daemon(database) as daemon:
        time.sleep(SETTLING)
        before, start = rig.usage(daemon.process.pid), time.monotonic()
        time.sleep(seconds)
        used, took = rig.usage(daemon.process.pid) - before, time.monotonic() - start
    shows = {"% of a core": 100 * used.worker / took, "% of Postgres": 100 * used.postgres / took}
    return Run(0.0, shows=shows)


def _lag(rate: int) -> str:
    return f"lag at {rate}/s"
