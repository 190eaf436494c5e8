"""A burst after a quiet hour, and several processes: whether plans do for what comes later.

The outbox was drained and vacuumed, so statistics call it empty, and the daemon plans under them: then a
burst. A daemon that is started behind the burst plans under what is there.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.contest import Figure, Run, Runs, Section, by_turns
from benchmarks.ours import FILL, drain, texts
from benchmarks.processes import Child, cpu_seconds, until
from benchmarks.rig import Daemon, Rig
from benchmarks.sets import Bench, in_the_past

FEW = 50
"""Events before and after the vacuum: the daemon asks, and plans, everything that a delivery needs."""
VACUUM = "VACUUM (TRUNCATE off, ANALYZE) webhook.outbox"
BURSTS = ((20_000, 5_000), (200_000, 5_000), (10_000, 20))
"""How many events, for how many merchants."""
MAX_BEFORE = 20_000
"""Events; another checkout's daemon may deliver some hundreds a second: a larger burst would take minutes."""
PRODUCERS = 32
OF_PRODUCERS = "µs producers"
PATIENCE = 900.0


def _insert(rig: Rig, database: str, events: int, merchants: int) -> None:
    rig.execute(FILL, events, merchants, texts(1_000), database=database)


def _await_empty(rig: Rig, database: str) -> None:
    until(lambda: not rig.query("SELECT FROM webhook.outbox LIMIT 1", database=database), PATIENCE)


def _measure(rig: Rig, database: str, daemon: Daemon, events: int, begin: Callable[[], object]) -> Run:
    """Let something begin, and see at what rate so many events arrive until all is recorded."""
    rig.receiver.reset()
    before = rig.usage(daemon.process.pid)
    begin()
    stats = rig.receiver.await_requests(events, PATIENCE)
    _await_empty(rig, database)
    used = (rig.usage(daemon.process.pid) - before).each(events)
    seconds = stats["last_at"] - stats["first_at"]
    return Run(events / seconds, used.worker, used.postgres, used.receiver)


def _burst(rig: Rig, template: str, events: int, merchants: int) -> Run:
    """Commit a burst behind the back of a daemon that has seen quiet times."""
    with rig.database(template) as database, rig.daemon(database) as daemon:
        for after in (VACUUM, "SELECT 1"):
            rig.receiver.reset()
            _insert(rig, database, FEW, min(FEW, merchants))
            rig.receiver.await_requests(FEW, PATIENCE)
            _await_empty(rig, database)
            rig.execute(after, database=database)
        # Paused until all is there: what inserting costs is not in what delivering costs.
        rig.execute("UPDATE webhook.state SET paused = true", database=database)
        _insert(rig, database, events, merchants)
        go = "UPDATE webhook.state SET paused = false"
        return _measure(rig, database, daemon, events, lambda: rig.execute(go, database=database))


def _started_afterwards(rig: Rig, template: str, events: int, merchants: int) -> Run:
    drained = drain(rig, template, events, merchants, patience=PATIENCE)
    used = drained.usage.each(events)
    return Run(drained.rate, used.worker, used.postgres, used.receiver)


def quiet_hour(bench: Bench) -> Section:
    """Compare bursts for a daemon that runs already with backlogs for one that is started."""
    rig = bench.rig
    contestants: dict[str, Callable[[], Run]] = {}
    pairs = []
    for number, merchants in BURSTS:
        events = bench.events(number)
        template = rig.template(rig.receiver.url(), merchants)
        name = f"{events:,} events, {merchants:,} merchants"
        pair = (f"{name}: runs already", f"{name}: started afterwards")
        pairs.append(pair)
        both = {
            how: partial(run, rig, template, events, merchants)
            for how, run in zip(pair, (_burst, _started_afterwards), strict=True)
        }
        contestants |= bench.beside_before(both) if number <= MAX_BEFORE else both
    runs = by_turns(min(bench.rounds, 3), contestants, bench.tell)
    figures = _compared(runs, pairs, least=0.9)
    return Section(
        "A burst after a quiet hour",
        f"{FEW} events, `{VACUUM}`, {FEW} events, then all in one transaction.",
        runs,
        figures,
    )


def _compared(runs: Runs, pairs: Sequence[tuple[str, str]], least: float) -> list[Figure]:
    """Compare rates, and what Postgres needs for an event, within each pair; also as they were before."""
    figures = []
    for one, other in pairs:
        figures.append(Figure(f"{one} ÷ {other}", runs.ratio(one, "rate", other), least=least))
        figures.append(Figure("the same: µs of Postgres", runs.ratio(one, "postgres", other), most=1.3))
        if (before := in_the_past(one)) in runs.of:
            ratio = runs.ratio(before, "rate", in_the_past(other))
            figures.append(Figure("the same, before", ratio))
    return figures


def _produced(bench: Bench, template: str, merchants: int, processes: int) -> Run:
    """Deliver what 32 producers commit meanwhile."""
    rig, events = bench.rig, bench.events(40_000) // PRODUCERS * PRODUCERS
    with rig.database(template) as database, rig.daemon(database, PROCESSES=str(processes)) as daemon:
        dsn = rig.postgres.dsn("webhook_producer", database)
        command = ["--dsn", dsn, "--table", "outbox", "--writers", str(PRODUCERS), "--events", str(events)]
        command += ["--merchants", str(merchants)]
        producers = Child("benchmarks.inserting", *command, log=rig.folder / "inserting.log")
        try:
            producers.read()
            before = cpu_seconds(producers.pid)
            run = _measure(rig, database, daemon, events, producers.go)
            used = 1e6 * (cpu_seconds(producers.pid) - before) / events
            return replace(run, shows={OF_PRODUCERS: used})
        finally:
            producers.end()


def two_processes(bench: Bench) -> Section:
    """Compare two processes with one, at few and many merchants, while producers commit and in a drain."""
    rig = bench.rig
    contestants: dict[str, Callable[[], Run]] = {}
    pairs = []
    for merchants in (500, 5_000):
        template = rig.template(rig.receiver.url(), merchants)
        for kind, how in (("32 producers", _produced), ("drain", _drained)):
            one, two = (f"{kind}, {merchants:,} merchants: {processes}" for processes in (1, 2))
            pairs.append((two, one))
            both = {
                name: partial(how, bench, template, merchants, processes)
                for processes, name in enumerate((one, two), 1)
            }
            # The other checkout is measured where two processes were seen to be slower than one.
            contestants |= bench.beside_before(both) if how is _produced and merchants == 500 else both
    runs = by_turns(min(bench.rounds, 3), contestants, bench.tell)
    figures = _compared(runs, pairs, least=1.4)
    figures += [Figure(f"all cores ÷ what was used: {one}", _spare(runs, one)) for _, one in pairs]
    explanation = "Producers, receiver and database share the machine's cores, and nobody gets more."
    return Section("Two processes", explanation, runs, figures)


def _drained(bench: Bench, template: str, merchants: int, processes: int) -> Run:
    events = bench.events(40_000)
    drained = drain(bench.rig, template, events, merchants, settings={"PROCESSES": str(processes)})
    used = drained.usage.each(events)
    return Run(drained.rate, used.worker, used.postgres, used.receiver)


def _spare(runs: Runs, contestant: str) -> float:
    """Return how many times as fast a contestant could be if it had all of the machine's cores."""
    parts = ["worker", "postgres", "receiver"]
    parts += [OF_PRODUCERS] if OF_PRODUCERS in runs.of[contestant][0].shows else []
    used = sum(runs.median(contestant, part) for part in parts)
    return (os.cpu_count() or 1) * 1e6 / used / runs.median(contestant)
