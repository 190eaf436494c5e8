"""Scenario: what several endpoints of a merchant cost: each event is routed, and delivered to each of them.

Everything is for each delivery, so that one endpoint, which is not routed, can be compared with several. A
lag is that of the last of an event's deliveries, at the first two endpoints where a third hangs.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.contest import Figure, Run, Runs, Section, by_turns
from benchmarks.drains import shown
from benchmarks.lags import lags_of
from benchmarks.ours import deliver, fill
from benchmarks.rig import Rig
from benchmarks.sets import Bench

MERCHANTS = 1_000
ENDPOINTS = {1: None, 2: 1.5, 3: 1.4, 16: None}
"""And how many times a direct delivery's µs one may take."""
DELIVERIES = 20_000
RATE = 100
SECONDS = 8.0
LONG = 262_144
LONG_EVENTS = 50
DURATION = re.compile(r"duration: ([0-9.]+) ms")
ADD = """
SELECT added.result
FROM webhook.endpoint, webhook.add_endpoint(
    webhook.merchant_of(merchant_id), coalesce($1, url), secret, key_id, NULL, NULL, NULL
) AS added
WHERE coalesce(webhook.endpoint_of(merchant_id), 1) = 1 AND webhook.merchant_of(merchant_id) LIKE $2
"""
TENTH = "%0"
ANSWERS, HANGS = (f"2 endpoints, {RATE}/s, a tenth's third {does}" for does in ("answers", "hangs"))


def _add(rig: Rig, database: str, endpoints: int, third: str | None = None) -> None:
    """Give each merchant so many in all, at the same URL, and a tenth of them another at the third's."""
    urls = [(None, "%")] * (endpoints - 1) + ([] if third is None else [(third, TENTH)])
    for url, merchants in urls:
        results = {row["result"] for row in rig.query(ADD, url, merchants, database=database)}
        assert results == {"created"}, results
    rig.execute("VACUUM ANALYZE webhook.endpoint, webhook.lane", database=database)


def _drain(rig: Rig, template: str, endpoints: int, events: int, size: int = 1_000) -> Run:
    with rig.database(template) as database:
        _add(rig, database, endpoints)
        # As many lanes with as many deliveries each.
        fill(rig, database, events, min(events, MERCHANTS // endpoints), size)
        run = shown(deliver(rig, database, events * endpoints))
    return Run(
        run.rate, run.worker, run.postgres, run.receiver, {"events": run.rate / endpoints, **run.shows}
    )


def _lag(rig: Rig, template: str, endpoints: int, seconds: float, third: str | None = None) -> Run:
    with rig.database(template) as database:
        _add(rig, database, endpoints, third)
        with rig.daemon(database) as daemon:
            dsn = rig.postgres.dsn("webhook_producer", database)
            about = daemon.process.pid, "benchmarks.ourselves", dsn, RATE, seconds
            return lags_of(rig, *about, merchants=MERCHANTS, copies=endpoints)


def _long(rig: Rig, template: str, endpoints: int) -> Run:
    """Drain the longest bodies, and find the longest statement."""
    with longest_statements(rig) as longest:
        run = _drain(rig, template, endpoints, LONG_EVENTS, LONG)
    shows = {**run.shows, "longest ms": longest("routes AS")}
    return Run(run.rate, run.worker, run.postgres, run.receiver, shows)


@contextmanager
def longest_statements(rig: Rig) -> Iterator[Callable[..., float]]:
    """Let statements be logged; what is given tells the ms of the longest that has one of these texts."""
    rig.execute("ALTER SYSTEM SET log_min_duration_statement = '5ms'")
    rig.execute("SELECT pg_reload_conf()")
    log = rig.postgres.log_file
    before = log.stat().st_size

    def longest(*texts: str) -> float:
        told = log.read_bytes()[before:].decode(errors="replace").split("LOG:")
        asked = [statement for statement in told if any(text in statement for text in texts)]
        return max((float(found[1]) for one in asked if (found := DURATION.search(one))), default=0.0)

    try:
        yield longest
    finally:
        rig.execute("ALTER SYSTEM RESET log_min_duration_statement")
        rig.execute("SELECT pg_reload_conf()")


def routes(bench: Bench) -> Section:
    """Drain backlogs, and measure lags, with one endpoint, which is direct, and with several."""
    rig, deliveries, seconds = bench.rig, bench.events(DELIVERIES), max(3.0, SECONDS * bench.scale)
    contestants: dict[str, Callable[[], Run]] = {}
    with rig.another_receiver("--log") as logging:
        template = rig.template(logging.url(), MERCHANTS)
        for number in ENDPOINTS:
            contestants[_named(number)] = lambda n=number: _drain(rig, template, n, deliveries // n)  # type: ignore[misc]
            contestants[_steady(number)] = lambda n=number: _lag(rig, template, n, seconds)  # type: ignore[misc]
        third = rig.start_receiver()
        urls = third.url(), third.url(how="hang")
        contestants[ANSWERS] = lambda: _lag(rig, template, 2, seconds, urls[0])
        contestants[HANGS] = lambda: _lag(rig, template, 2, seconds, urls[1])
        runs = by_turns(bench.rounds, contestants, bench.tell)
        runs.of["16 endpoints, 256 KiB"] = [_long(rig, template, 16)]
    direct = _microseconds(runs, 1)
    return Section(
        "Several endpoints",
        f"Backlogs of {deliveries:,} deliveries of 1 KB in {MERCHANTS:,} lanes, and {RATE} events a "
        "second. Rates are deliveries a second; figures are for each delivery.",
        runs,
        [
            Figure(
                f"µs a delivery, {number} endpoints ÷ direct", _microseconds(runs, number) / direct, most=most
            )
            for number, most in ENDPOINTS.items()
            if number > 1
        ]
        + [
            Figure(
                f"{part[:3]} beside a third that hangs ÷ that answers",
                runs.ratio(HANGS, part, ANSWERS),
                most=most,
            )
            for part, most in (("p50 ms", None), ("p99 ms", 1.3))
        ],
        undrawn=("16 endpoints, 256 KiB",),
    )


def _microseconds(runs: Runs, number: int) -> float:
    """Return what a delivery takes of the daemon and of Postgres."""
    return runs.median(_named(number), "worker") + runs.median(_named(number), "postgres")


def _named(number: int) -> str:
    return "direct" if number == 1 else f"{number} endpoints"


def _steady(number: int) -> str:
    return f"{_named(number)}, {RATE}/s"
