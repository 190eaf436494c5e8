"""A daemon on the server that users have: Debian's PostgreSQL 15 as it comes, with JIT on."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.contest import Figure, Run, Section, Unmeasurable, by_turns
from benchmarks.lags import lags_of
from benchmarks.ours import drain
from benchmarks.processes import Child, cpu_seconds
from benchmarks.report import server_facts
from benchmarks.rig import Rig
from benchmarks.sets import Bench

PROGRAMS = Path("/usr/lib/postgresql/15/bin")
MERCHANTS = 500
SETTLED = 3.0
"""Seconds after which a daemon that has just started has nothing more to do."""
IDLE, LOAD, KILLS, KILLED_AT, EVERY = 15.0, 100, 6, 150, 4.0
AS_IT_COMES, WITHOUT = "JIT as it comes", "JIT off by server"
LEASE = 30
"""Seconds for which a killed daemon's lanes wait at most."""
IDLE_SHARE, LEFT = "idle: Postgres, % of a core", "s until all arrived"
PATIENCE = 300.0


def idle(rig: Rig, template: str) -> float:
    """Return the percentage of a core that Postgres uses for a daemon that has nothing to do."""
    assert rig.postgres.pid is not None
    with rig.database(template) as database, rig.daemon(database):
        time.sleep(SETTLED)
        before = cpu_seconds(rig.postgres.pid)
        time.sleep(IDLE)
        return 100 * (cpu_seconds(rig.postgres.pid) - before) / IDLE


def lags(rig: Rig, template: str, seconds: float) -> Mapping[str, float]:
    """Return the lags under a steady load."""
    with rig.database(template) as database, rig.daemon(database) as daemon:
        dsn = rig.postgres.dsn("webhook_producer", database)
        producer = "benchmarks.ourselves"
        return lags_of(rig, daemon.process.pid, producer, dsn, LOAD, seconds, merchants=MERCHANTS).shows


def after_kills(rig: Rig, template: str) -> float:
    """Return the seconds from a producer's end to the last arrival, where the daemon was killed meanwhile."""
    log = rig.folder / "produced.log"
    with rig.database(template) as database:
        rig.receiver.reset()
        produce = ["produce", "--dsn", rig.postgres.dsn("webhook_producer", database), "--log", str(log)]
        produce += ["--rate", str(KILLED_AT), "--seconds", str(KILLS * EVERY), "--merchants", str(MERCHANTS)]
        child = Child("benchmarks.ourselves", *produce, log=rig.folder / "producer.log")
        try:
            for _ in range(KILLS):
                with rig.daemon(database) as daemon:
                    child.has_spoken(EVERY)
                    daemon.process.kill()
            with rig.daemon(database):
                events = int(child.read()["events"])
                return _seconds_until_all_arrived(rig, events)
        finally:
            child.end()


def _seconds_until_all_arrived(rig: Rig, events: int) -> float:
    start = time.monotonic()
    while len(rig.receiver.arrivals()) < events:
        if time.monotonic() > start + PATIENCE:
            raise SystemExit(f"{events} events were not delivered within {PATIENCE:.0f} s")
        time.sleep(0.2)
    return time.monotonic() - start


def measured(bench: Bench, rig: Rig, template: str) -> Run:
    """Measure everything once."""
    shows = {IDLE_SHARE: idle(rig, template)}
    shows |= lags(rig, template, 10.0 * bench.scale)
    shows |= {LEFT: after_kills(rig, template)}
    events = bench.events(20_000)
    drained = drain(rig, template, events, MERCHANTS)
    used = drained.usage.each(events)
    return Run(drained.rate, used.worker, used.postgres, used.receiver, shows)


@contextmanager
def without_jit(rig: Rig) -> Iterator[None]:
    """Switch JIT off for the whole server."""
    rig.execute("ALTER SYSTEM SET jit = off")
    rig.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        rig.execute("ALTER SYSTEM RESET jit")
        rig.execute("SELECT pg_reload_conf()")


def stock(bench: Bench) -> Section:
    """Measure a daemon on Debian's 15 as it comes, by turns with JIT switched off."""
    if not (PROGRAMS / "postgres").is_file():
        raise Unmeasurable(f"there is no {PROGRAMS / 'postgres'} (Debian: apt-get install postgresql-15)")
    folder = bench.rig.folder / "stock"
    folder.mkdir()
    with Rig(folder, receiver=("--log",), bin_dir=PROGRAMS, options={}) as rig:
        template = rig.template(rig.receiver.url(), MERCHANTS)

        def switched_off() -> Run:
            with without_jit(rig):
                return measured(bench, rig, template)

        contestants = {AS_IT_COMES: lambda: measured(bench, rig, template), WITHOUT: switched_off}
        runs = by_turns(bench.rounds, replace(bench, rig=rig).beside_before(contestants), bench.tell)
        facts = server_facts(rig.postgres.dsn())
    return Section(
        "Debian's PostgreSQL 15 as it comes",
        f"{facts}, its own settings. A drain; Postgres beside an idle daemon; lags at {LOAD}/s; and, with a "
        f"daemon killed {KILLS} times at {KILLED_AT}/s, the time from the last event to its arrival.",
        runs,
        (
            Figure("15: drain ÷ with JIT off", runs.ratio(AS_IT_COMES, "rate", WITHOUT), least=0.95),
            Figure("15: p50 ms ÷ with JIT off", runs.ratio(AS_IT_COMES, "p50 ms", WITHOUT), most=1.1),
            Figure("15: p99 ms ÷ with JIT off", runs.ratio(AS_IT_COMES, "p99 ms", WITHOUT), most=1.2),
            Figure(
                "15: Postgres idle, % of a core",
                runs.median(AS_IT_COMES, IDLE_SHARE),
                most=3,
            ),
            Figure("15: s until all arrived after six kills", runs.median(AS_IT_COMES, LEFT), most=LEASE),
        ),
    )
