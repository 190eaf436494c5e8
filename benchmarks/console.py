"""Scenarios: live events while three people click through the console, and what its pages take after a month.

Beside the load, each run has a database with deliveries in its log, a daemon and a console; the people are
the difference. Lags count while they click. What pages take is measured without load, by one person who does
not pause, in a log of millions; with another checkout, its console takes turns.
"""

import asyncio
import secrets
import signal
import time
from collections.abc import Callable

import asyncpg

from benchmarks.contest import Figure, Run, Section, by_turns, spread
from benchmarks.lags import LOAD, MERCHANTS
from benchmarks.processes import Child
from benchmarks.replays import PATIENCE, WARM_UP, lags_between, make_night
from benchmarks.rig import Rig
from benchmarks.sets import Bench, beside_the_past
from tests.integration.console_history import MERCHANTS as MERCHANTS_OF_A_MONTH
from tests.integration.console_history import fill
from webhook_dispatcher.domain.account import CODE_CHARACTERS, Role, SignInCode
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.console import accounts

LOGGED = 100_000
HISTORY = 5_000_000
PEOPLE = 3
SECONDS = 60.0
AT_REST = 20.0
"""Seconds in which pages are measured without load."""
WITHOUT, BESIDE = f"{LOAD}/s alone", f"{LOAD}/s beside {PEOPLE} people"
PAGES = "1 person, without load"
BARE = "account"
LEASE_LANES = """
UPDATE webhook.lane SET owner = 'd1', lease_until = clock_timestamp() + interval '1 day'
WHERE merchant_id LIKE '%03'
"""
"""Dispatchers that work hold lanes."""
KINDS = ("overview", "merchants", "failing", "merchant", "deliveries", "delivery", "health")


def console(bench: Bench) -> Section:
    """Measure lags with and without the people, by turns."""
    rig = bench.rig
    with rig.another_receiver("--log") as logging:
        template = make_night(rig, logging.url(), bench.events(LOGGED))
        contestants: dict[str, Callable[[], Run]] = {
            WITHOUT: lambda: _loaded(bench, template, 0),
            BESIDE: lambda: _loaded(bench, template, PEOPLE),
        }
        runs = by_turns(bench.rounds, contestants, bench.tell)
        rig.execute(f"DROP DATABASE {template}")
    return Section(
        "The console: three people beside the load",
        f"Poisson arrivals over {MERCHANTS:,} merchants, one transaction each, "
        f"for {SECONDS * bench.scale:.0f} s. People go round overview, merchants, those that fail, a "
        "merchant, deliveries, a delivery, health and account, a second apart.",
        runs,
        [spread(runs, "p99 beside three people ÷ alone", BESIDE, "p99 ms", WITHOUT, most=1.1)],
    )


def pages(bench: Bench) -> Section:
    """Measure what pages take in a log of a month."""
    rig, rows = bench.rig, bench.events(HISTORY)
    with rig.database() as database:
        asyncio.run(_fill(rig.postgres.dsn(database=database), rows))
        bench.tell(f"  {rows:,} rows")
        contestants = bench.beside_before({PAGES: lambda: _at_rest(bench, database)})
        runs = by_turns(bench.rounds, contestants, bench.tell)
    before = {PAGES: ("rate", "worker", "postgres", *(f"{kind} ms" for kind in KINDS))}
    return Section(
        "The console: what its pages take after a month",
        f"{rows:,} deliveries of {MERCHANTS_OF_A_MONTH:,} merchants in 31 partitions; one person looks at "
        f"page after page for {AT_REST * bench.scale:.0f} s. Of each kind of page, the median.",
        runs,
        [
            Figure(f"{kind} ÷ bare page", runs.ratio(PAGES, f"{kind} ms", PAGES, f"{BARE} ms"), most=5)
            for kind in KINDS
        ]
        if bench.before is None
        else beside_the_past(runs, "Pages, ", before),
        undrawn=tuple(runs.of),
    )


async def _fill(url: str, rows: int) -> None:
    """Make a database what it is after a month."""
    await schema.migrate(url)
    connection = await asyncpg.connect(url)
    await fill(connection, rows)
    await connection.execute(LEASE_LANES)
    await connection.execute("CHECKPOINT")
    await connection.close()


def _loaded(bench: Bench, template: str, people: int) -> Run:
    """Let a producer commit events, and so many people click meanwhile."""
    rig, log, seconds = bench.rig, bench.rig.folder / "produced.log", SECONDS * bench.scale
    with rig.database(template) as database, rig.daemon(database) as daemon, rig.console(database) as served:
        rig.receiver.reset()
        produce = ["produce", "--dsn", rig.postgres.dsn("webhook_producer", database), "--log", str(log)]
        produce += ["--rate", str(LOAD), "--seconds", str(PATIENCE), "--merchants", str(MERCHANTS)]
        clicking = _people(rig, database, served.port, people, seconds) if people else None
        producer = Child("benchmarks.ourselves", *produce, log=rig.folder / "producer.log")
        try:
            rig.receiver.await_requests(WARM_UP, PATIENCE)
            used, since = rig.usage(daemon.process.pid), time.monotonic()
            before = rig.receiver.stats()["requests"]
            shows = _clicked(clicking) if clicking else {}
            time.sleep(0 if clicking else seconds)
            end = time.monotonic()
            counted = rig.receiver.stats()["requests"] - before
            each = (rig.usage(daemon.process.pid) - used).each(counted)
            producer.signal(signal.SIGTERM)
            events = int(producer.read()["events"])
        finally:
            producer.end()
        rig.receiver.await_requests(events, PATIENCE)
        shows = lags_between(rig, log, since, end) | shows
    bench.tell("    " + ", ".join(f"{name} {value:.4g}" for name, value in shows.items()))
    return Run(counted / (end - since), each.worker, each.postgres, each.receiver, shows)


def _at_rest(bench: Bench, database: str) -> Run:
    """Let one person look at page after page, while nothing else goes on."""
    seconds = AT_REST * bench.scale
    rig = bench.rig
    with rig.console(database) as served:
        person = _people(rig, database, served.port, 1, seconds, pause=0)
        before = rig.usage(served.process.pid)
        shows = _clicked(person)
        each = (rig.usage(served.process.pid) - before).each(int(shows["pages"]))
    bench.tell("    " + ", ".join(f"{name} {value:.4g}" for name, value in shows.items()))
    return Run(shows["pages"] / seconds, each.worker, each.postgres, shows=shows)


def _people(rig: Rig, database: str, port: int, people: int, seconds: float, pause: float = 1.0) -> Child:
    """Have so many people signed in, who wait to be let go."""
    codes = asyncio.run(_codes(rig.postgres.dsn("webhook_admin", database), people))
    options = ["--port", str(port), "--seconds", str(seconds), "--pause", str(pause)]
    options += [option for code in codes for option in ("--code", code)]
    child = Child("benchmarks.clicking", *options, log=rig.folder / "clicking.log")
    child.read()
    return child


def _clicked(people: Child) -> dict[str, float]:
    """Let them go, and return what they saw."""
    try:
        people.go()
        said = people.read()
    finally:
        people.end()
    return {"pages": said["pages"], **{f"{kind} ms": took for kind, took in said["median ms"].items()}}


async def _codes(admin_url: str, people: int) -> list[str]:
    """Make an account and a code for each."""
    codes = [SignInCode.from_random(secrets.token_bytes(CODE_CHARACTERS)) for _ in range(people)]
    async with administration(admin_url) as admin:
        for number, code in enumerate(codes):
            name = f"person-{number}"
            await accounts.add(admin.connection, name, Role.OPERATOR, None, "a benchmark")
            await accounts.create_code(admin.connection, name, code.hash, "a benchmark")
    return [code.shown for code in codes]
