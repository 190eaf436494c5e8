"""Scenario: what finding and claiming work costs beside millions of rows, and how much memory a daemon takes.

Claims are compared between five million rows and fifty thousand that are alike: each run is full, and its
rows lie far apart, in both. Memory is the most that the daemon ever had resident, with as many attempts in
flight as it may have: merchants are answered at once until they are known as quick, then nobody is
answered until attempts have timed out. Of long bodies more are in flight where merchants are owed one each;
where it is several, some are in memory that wait for their turn.
"""

import time

from benchmarks import claims
from benchmarks.bodies import SMALLEST
from benchmarks.contest import Figure, Run, Runs, Section
from benchmarks.ours import FILL, fill, texts
from benchmarks.processes import peak_memory
from benchmarks.rig import names
from benchmarks.sets import Bench

MERCHANTS = 5_000
FEW_MERCHANTS = 2_500
OWED = 5_000_000
FEW = 50_000
CHUNK = 250_000
LANES = 100
"""In one claim."""
MAX_LANES = 2_000
LONG = 262_144
LONG_OWED = 4_000
DEAD = 400_000
HELD = 12.0
"""Seconds without answers: longer than an attempt's time-out."""

MUCH, LITTLE = "beside many rows", "beside few"
SHORT_BODIES = "in flight, 1 KB"
LONG_BODIES = {"in flight, 256 KiB, one each": 1, "in flight, 256 KiB, two each": 2}
IDLE = "idle poll beside 400,000 dead rows"


def large(bench: Bench) -> Section:
    """Measure claims, memory, and an idle poll."""
    rig = bench.rig
    template = rig.template(rig.receiver.url(), MERCHANTS)
    runs = Runs()
    with rig.database(template) as much:
        _pile(bench, much)
        with rig.database(template) as little:
            fill(rig, little, FEW, FEW_MERCHANTS, 1_000)
            runs.of = _claims(bench, much, little)
        runs.of[SHORT_BODIES] = [_in_flight(bench, much, 4 * MERCHANTS)]
    for name, each in LONG_BODIES.items():
        with rig.database(template) as database:
            fill(rig, database, LONG_OWED, LONG_OWED // each, LONG)
            bench.tell("  long bodies are owed")
            runs.of[name] = [_in_flight(bench, database, LONG_OWED // 3)]
    with rig.database(template) as database:
        runs.of[IDLE] = [_idle(bench, database)]
    return Section(
        "Large databases",
        f"A claim of {LANES} lanes with full runs, and full looks for arrivals and for merchants, by "
        f"EXPLAIN, beside {bench.events(OWED):,} rows and beside {FEW:,}; a daemon of {MAX_LANES:,} lanes "
        "whose attempts are no longer answered, with 1 KB beside the many rows; a poll that finds nothing.",
        runs,
        _figures(runs),
    )


def _figures(runs: Runs) -> tuple[Figure, ...]:
    ratios = [
        Figure(f"{what} {MUCH} ÷ {LITTLE}", runs.ratio(MUCH, what, LITTLE), most=1.5)
        for what in ("claim: buffers", "claim: ms", "looks: buffers", "looks: ms")
    ]
    return (
        *ratios,
        Figure(f"{SHORT_BODIES}: attempts", runs.median(SHORT_BODIES, "in flight"), least=MAX_LANES),
        Figure(f"{SHORT_BODIES}: MB", runs.median(SHORT_BODIES, "MB"), most=250),
        *(Figure(f"{name}: attempts", runs.median(name, "in flight")) for name in LONG_BODIES),
        *(Figure(f"{name}: MB", runs.median(name, "MB"), most=500) for name in LONG_BODIES),
        Figure(f"{IDLE}: buffers", runs.median(IDLE, "looks: buffers"), most=10),
    )


def _pile(bench: Bench, database: str) -> None:
    """Owe millions: the first and the last, which are those that will be read, of 1 KB, the others less."""
    rig, owed = bench.rig, bench.events(OWED)
    ends, between = texts(1_000), texts(SMALLEST)
    for done in range(0, owed, CHUNK):
        is_end = done == 0 or done + CHUNK >= owed
        rig.execute(FILL, CHUNK, MERCHANTS, ends if is_end else between, database=database)
        bench.tell(f"  {done + CHUNK:,} of {owed:,} rows")
    rig.execute("VACUUM ANALYZE webhook.outbox", database=database)
    rig.execute("CHECKPOINT")


def _claims(bench: Bench, much: str, little: str) -> dict[str, list[Run]]:
    asked = {much: _spread(MERCHANTS), little: _spread(FEW_MERCHANTS)}
    runs = {}
    for name, costs in zip((MUCH, LITTLE), claims.measure(bench.rig, asked).values(), strict=True):
        for statement, cost in costs.items():
            bench.tell(f"  {name}: {statement}: {cost.buffers:.0f} buffers, {cost.milliseconds:.3g} ms")
        looks = costs["read_arrivals"] + costs["sweep_lanes"]
        claim = costs["lease_lanes"] + costs["read_runs"]
        rate = 1000 * costs["read_runs"].rows / claim.milliseconds
        runs[name] = [Run(rate, shows={**_shown("claim", claim), **_shown("looks", looks)})]
    return runs


def _spread(merchants: int) -> list[str]:
    return names(merchants)[:: merchants // LANES]


def _shown(what: str, cost: claims.Cost) -> dict[str, float]:
    return {f"{what}: buffers": cost.buffers, f"{what}: ms": cost.milliseconds}


def _idle(bench: Bench, database: str) -> Run:
    rig = bench.rig
    fill(rig, database, DEAD, MERCHANTS, SMALLEST)
    with rig.old_transaction(database):
        rig.execute("DELETE FROM webhook.outbox", database=database)
        cost = claims.idle_poll(rig, database)
    return Run(0.0, shows=_shown("looks", cost))


def _in_flight(bench: Bench, database: str, warm_up: int) -> Run:
    """Let a daemon work until so many events have arrived, then take the answers away."""
    rig = bench.rig
    rig.receiver.reset()
    with rig.daemon(database, MAX_LANES=str(MAX_LANES)) as daemon:
        arrived = rig.receiver.await_requests(warm_up, 120.0)
        rig.receiver.hold()
        try:
            flying, ends = 0.0, time.monotonic() + HELD
            while time.monotonic() < ends:
                flying = max(flying, daemon.gauge("webhook_attempts_in_flight"))
                time.sleep(0.1)
        finally:
            rig.receiver.let_go()
        memory = peak_memory(daemon.process.pid)
    rate = arrived["requests"] / (arrived["last_at"] - arrived["first_at"])
    return Run(rate, shows={"in flight": flying, "MB": memory / 1e6})
