"""Scenario: a filter that drops eight of nine events, beside an endpoint that wants all of them."""

from benchmarks.contest import Figure, Run, Section, by_turns
from benchmarks.drains import shown
from benchmarks.ours import Drained, deliver, fill
from benchmarks.rig import Rig
from benchmarks.sets import Bench

EVENTS, MERCHANTS, NINTH = 99_000, 1_000, 9
ALL, FILTERED = "all are wanted", "one of nine is wanted"
NINTHS = "UPDATE webhook.outbox SET type = 'charge.failed' WHERE seq % $1 = 0"
FILTER = "UPDATE webhook.endpoint SET types = '{charge.failed}'"


def filters(bench: Bench) -> Section:
    """Drain the same backlog with and without a filter; rates and costs are for each event, sent or not."""
    rig, events = bench.rig, bench.events(EVENTS) // NINTH * NINTH
    template = rig.template(rig.receiver.url(), MERCHANTS)
    runs = by_turns(
        bench.rounds,
        {
            ALL: lambda: _drain(rig, template, events, events),
            FILTERED: lambda: _drain(rig, template, events, events // NINTH, FILTER),
        },
        bench.tell,
    )
    return Section(
        "Filters",
        f"{events:,} events of 1 KB of {MERCHANTS:,} merchants; figures are for each, sent or not.",
        runs,
        [Figure("events/s, eight of nine dropped ÷ all sent", runs.ratio(FILTERED, "rate", ALL), least=1.0)],
    )


def _drain(rig: Rig, template: str, events: int, wanted: int, change: str | None = None) -> Run:
    with rig.database(template) as database:
        if change is not None:
            rig.execute(change, database=database)
        fill(rig, database, events, MERCHANTS, size=1_000)
        rig.execute(NINTHS, NINTH, database=database)
        rig.execute("VACUUM ANALYZE webhook.outbox, webhook.endpoint", database=database)
        rig.execute("CHECKPOINT")
        sent = deliver(rig, database, wanted)
    return shown(Drained(events, sent.seconds, sent.usage, sent.wal, sent.memory))
