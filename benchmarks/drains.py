"""Scenarios that drain a backlog: how fast, and at what cost, beside the bare loop and the rivals."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from benchmarks.contest import Figure, Run, Section, by_turns
from benchmarks.ours import Drained, deliver, drain, fill
from benchmarks.processes import Child, Usage
from benchmarks.rig import Rig
from benchmarks.sets import Bench

CONCURRENCY = 100
OURS, BARE, LIMIT = "webhook-dispatcher", "bare loop", "the receiver's limit"
TUNED = "pgqueuer, collector tuned"
AT_ONCE = 8
HANGS = '{"id":"ch_hangs"}'
IN_ORDER, BY_CHARGE, ONE_HANGS = "one after the other", "by charge", "by charge, one hangs"


def ours(
    rig: Rig,
    template: str,
    events: int,
    merchants: int,
    size: int = 1_000,
    within: Sequence[str] = (),
    **settings: str,
) -> Run:
    """Drain by one `webhook-dispatcher run`."""
    return shown(drain(rig, template, events, merchants, size, settings, within=within))


def shown(drained: Drained) -> Run:
    """Say of a drain what the tables show."""
    used = drained.usage.each(drained.events)
    shows = {"WAL bytes": drained.wal / drained.events, "MB": drained.memory / 1e6}
    return Run(drained.rate, used.worker, used.postgres, used.receiver, shows)


def bare(
    rig: Rig,
    events: int,
    merchants: int,
    *options: str,
    url: str | None = None,
    within: Sequence[str] = (),
) -> Run:
    """Post as many from one process without a database."""
    command = ["work", "--url", url or rig.receiver.url(), "--events", str(events)]
    command += ["--merchants", str(merchants), *options]
    return _work(rig, "none", command, events, within)


def prepared(rig: Rig, events: int) -> Run:
    """Write prepared requests: what the receiver can take."""
    return _work(rig, "prepared", ["work", "--url", rig.receiver.url(), "--events", str(events)], events)


def rival(rig: Rig, name: str, events: int, merchants: int, *options: str) -> Run:
    """Drain by one process of a rival, at its best settings."""
    with rig.database() as database:
        dsn = rig.postgres.dsn(database=database)
        for command in (
            ["prepare", "--dsn", dsn],
            ["fill", "--dsn", dsn, "--events", str(events), "--merchants", str(merchants)],
        ):
            child = Child(f"benchmarks.rivals.{name}", *command, log=rig.folder / f"{name}.log")
            child.finish()
        rig.execute("VACUUM ANALYZE", database=database)
        rig.execute("CHECKPOINT")
        command = ["work", "--dsn", dsn, "--url", rig.receiver.url(), "--events", str(events), *options]
        return _work(rig, name, command, events)


def _work(rig: Rig, name: str, command: list[str], events: int, within: Sequence[str] = ()) -> Run:
    child = Child(f"benchmarks.rivals.{name}", *command, log=rig.folder / f"{name}.log", within=within)
    try:
        child.read()
        rig.receiver.reset()
        before = rig.usage(child.pid)
        child.go()
        done = child.read()
        used: Usage = (rig.usage(child.pid) - before).each(events)
        stats = rig.receiver.stats()
    finally:
        child.end()
    if stats["requests"] != events:
        raise SystemExit(f"{name}: {stats['requests']} requests for {events} events")
    seconds = stats["last_at"] - stats["first_at"]
    return Run(events / seconds, 1e6 * done["cpu_seconds"] / events, used.postgres, used.receiver)


def many_merchants(bench: Bench) -> Section:
    """Drain 5,000 merchants over plain HTTP, beside everybody."""
    rig, merchants = bench.rig, 5_000
    events = bench.events(45_000)
    template = rig.template(rig.receiver.url(), merchants)

    def pgqueuer(*options: str) -> Run:
        return rival(rig, "pgqueuer", events * 2 // 5, merchants, *options)

    runs = by_turns(
        bench.rounds,
        {
            BARE: lambda: bare(rig, events, merchants, "--concurrency", str(CONCURRENCY)),
            OURS: lambda: ours(rig, template, events, merchants),
            "pgqueuer": pgqueuer,
            TUNED: lambda: pgqueuer("--tune-collector"),
            "procrastinate": lambda: rival(rig, "procrastinate", events // 15, merchants),
            LIMIT: lambda: prepared(rig, events * 3),
        },
        bench.tell,
    )
    fastest = max(runs.median(contestant) for contestant in runs.of if contestant != LIMIT)
    return Section(
        "Drain: 5,000 merchants, 1 KB, plain HTTP, one process",
        f"{events:,} events; pgqueuer two fifths, procrastinate a fifteenth of them. The last is no "
        "drain, but what the receiver can answer.",
        runs,
        (
            Figure("drain ÷ bare loop", runs.ratio(OURS, "rate", BARE), least=0.70),
            Figure("drain ÷ pgqueuer", runs.ratio(OURS, "rate", "pgqueuer"), least=1.8),
            Figure(f"drain ÷ {TUNED}", runs.ratio(OURS, "rate", TUNED), least=1.8),
            Figure("drain ÷ procrastinate", runs.ratio(OURS, "rate", "procrastinate"), least=18),
            Figure("daemon CPU ÷ bare loop's", runs.ratio(OURS, "worker", BARE), most=1.35),
            Figure("Postgres CPU ÷ bare loop's", runs.ratio(OURS, "postgres", BARE, "worker"), most=0.45),
            Figure("receiver's limit ÷ the fastest", runs.median(LIMIT) / fastest, least=2),
        ),
        undrawn=(LIMIT,),
    )


def over_tls(bench: Bench) -> Section:
    """Drain over TLS with kept connections."""
    rig, merchants = bench.rig, 5_000
    events = bench.events(45_000)
    ca_file = str(bench.ca_file)
    url = rig.receiver.url("https")
    template = rig.template(url, merchants)
    runs = by_turns(
        bench.rounds,
        {
            BARE: lambda: bare(
                rig, events, merchants, "--ca-file", ca_file, "--concurrency", str(CONCURRENCY), url=url
            ),
            OURS: lambda: ours(rig, template, events, merchants, EGRESS_CA_FILE=ca_file),
        },
        bench.tell,
    )
    return Section(
        "Drain: 5,000 merchants, 1 KB, HTTPS, kept connections",
        f"{events:,} events.",
        runs,
        (
            Figure("HTTPS: drain ÷ bare loop", runs.ratio(OURS, "rate", BARE), least=0.70),
            Figure("HTTPS: daemon CPU ÷ bare loop's", runs.ratio(OURS, "worker", BARE)),
        ),
    )


def one_merchant(bench: Bench) -> Section:
    """Drain one merchant whose receiver takes 5 ms."""
    rig = bench.rig
    events = bench.events(600)
    with rig.another_receiver("--delay-ms", "5") as slow:
        template = rig.template(slow.url(), 1)
        runs = by_turns(
            bench.rounds,
            {
                "bare serial loop": lambda: bare(rig, events, 1, "--serial"),
                OURS: lambda: ours(rig, template, events, 1),
            },
            bench.tell,
        )
    return Section(
        "Drain: one merchant, receiver at 5 ms",
        f"{events:,} events, one after the other.",
        runs,
        (
            Figure(
                "one merchant ÷ bare serial loop", runs.ratio(OURS, "rate", "bare serial loop"), least=0.85
            ),
        ),
    )


def by_charge(bench: Bench) -> Section:
    """Drain one merchant whose receiver takes 200 ms, in its order and in the order of each charge."""
    rig = bench.rig
    events = bench.events(50)

    def run(template: str, count: int, at_once: int | None, hanging: int = 0) -> Run:
        with rig.database(template) as database:
            rig.execute("UPDATE webhook.endpoint SET at_once = $1", at_once, database=database)
            for _ in range(hanging):
                rig.execute(
                    "INSERT INTO webhook.outbox (merchant_id, type, object) "
                    "SELECT merchant_id, 'charge.created', $1 FROM webhook.endpoint",
                    HANGS,
                    database=database,
                )
            fill(rig, database, count, 1, 1_000)
            return shown(deliver(rig, database, hanging + count, leaves_some=True))

    with rig.another_receiver("--delay-ms", "200", "--hangs-on", HANGS) as slow:
        template = rig.template(slow.url(), 1)
        runs = by_turns(
            bench.rounds,
            {
                IN_ORDER: lambda: run(template, events, None),
                BY_CHARGE: lambda: run(template, AT_ONCE * events, AT_ONCE),
                ONE_HANGS: lambda: run(template, AT_ONCE * events, AT_ONCE, hanging=2),
            },
            bench.tell,
        )
    return Section(
        f"Drain: one merchant, receiver at 200 ms, order by charge, {AT_ONCE} at once",
        f"{events:,} events one after the other, {AT_ONCE * events:,} by charge; two more of what hangs.",
        runs,
        (
            Figure("by charge ÷ one after the other", runs.ratio(BY_CHARGE, "rate", IN_ORDER), least=6),
            Figure("one hangs ÷ none", runs.ratio(ONE_HANGS, "rate", BY_CHARGE), least=0.9),
        ),
    )


@contextmanager
def without_page_images(rig: Rig) -> Iterator[None]:
    """Keep whole pages out of the write-ahead log: how many there are is a matter of checkpoints."""
    rig.execute("ALTER SYSTEM SET full_page_writes = off")
    rig.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        rig.execute("ALTER SYSTEM RESET full_page_writes")
        rig.execute("SELECT pg_reload_conf()")


def write_ahead_log(bench: Bench) -> Section:
    """Measure what a delivery adds to the write-ahead log."""
    rig = bench.rig
    events = bench.events(20_000)
    template = rig.template(rig.receiver.url(), 5_000)
    with without_page_images(rig):
        runs = by_turns(1, {OURS: lambda: ours(rig, template, events, 5_000)}, bench.tell)
    return Section(
        "Write-ahead log of a delivery",
        "1 KB, without full-page images and the producer's own insert.",
        runs,
        (Figure("WAL bytes per event", runs.median(OURS, "WAL bytes"), most=2_500),),
    )


def processes(bench: Bench) -> Section:
    """Drain by one, two and four processes on the same two cores."""
    rig, merchants = bench.rig, 5_000
    events = bench.events(40_000)
    template = rig.template(rig.receiver.url(), merchants)

    def run(number: int) -> Run:
        return ours(rig, template, events, merchants, PROCESSES=str(number))

    runs = by_turns(
        min(bench.rounds, 3),
        {f"{number} processes": partial(run, number) for number in (1, 2, 4)},
        bench.tell,
    )
    return Section(
        "Drain: several processes",
        "Receiver, database and all processes share the machine's cores.",
        runs,
        (Figure("two processes ÷ one", runs.ratio("2 processes", "rate", "1 processes")),),
    )
