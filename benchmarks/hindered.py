"""Scenario: drains beside what hinders: retries that wait, and an old transaction that keeps dead rows.

Retries are of the merchants that are served: their lanes are among those with a retry to come, and every
table and index that a delivery touches is as large as can be. They are spread over the twelve hours of the
schedule, and lanes say so, as the daemon would have left them.

The old transaction has an id, as one that writes: so the daemon cannot know either that no number below its
own will appear any more. Everything that is deleted or changed while it lasts stays in tables and indexes;
`DEAD` rows at the head of the hot merchant's queue have been so from the beginning.
"""

from benchmarks.bodies import SMALLEST
from benchmarks.contest import Figure, Run, Section, by_turns
from benchmarks.drains import shown
from benchmarks.ours import deliver, fill, texts
from benchmarks.rig import Rig, names
from benchmarks.sets import Bench

MERCHANTS = 5_000
HOT = names(MERCHANTS + 1)[-1]
OWED = 1_000_000
DEAD = 100_000

RETRIES = """
INSERT INTO webhook.outbox (merchant_id, type, object, attempts, due_at, last_status, last_outcome)
SELECT
    'm-' || lpad((number % $2)::text, 6, '0'), 'charge.succeeded', ($3::json[])[1 + number % 100],
    1 + number % 8, clock_timestamp() + interval '1 hour' + number % 39600 * interval '1 second',
    500, 'status'
FROM generate_series(0, $1 - 1) AS number
"""
POSTPONED_LANES = """
UPDATE webhook.lane SET from_seq = postponed.last_seq, retry_at = postponed.first_due_at
FROM (
    SELECT merchant_id, max(seq) AS last_seq, min(due_at) AS first_due_at
    FROM webhook.outbox
    GROUP BY merchant_id
) AS postponed
WHERE lane.merchant_id = postponed.merchant_id
"""
HOT_ROWS = """
INSERT INTO webhook.outbox (merchant_id, type, object)
SELECT $2, 'charge.succeeded', ($3::json[])[1 + number % 100]
FROM generate_series(0, $1 - 1) AS number
"""
DELIVERED_HOT_ROWS = """
WITH delivered AS (
    DELETE FROM webhook.outbox WHERE merchant_id = $1 AND due_at IS NULL AND seq <= $2 RETURNING seq
)
UPDATE webhook.lane SET from_seq = (SELECT max(seq) FROM delivered) WHERE merchant_id = $1
"""
DEAD_ROWS = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'outbox'"


def hindered(bench: Bench) -> Section:
    """Drain 5,000 merchants without hindrance, and beside each kind of it."""
    rig = bench.rig
    events, owed, dead = bench.events(24_000), bench.events(OWED), bench.events(DEAD)
    free = rig.template(rig.receiver.url(), MERCHANTS)
    postponed = _with_retries(bench, owed)
    hot = _with_hot_merchant(bench, owed + dead)
    without, retries, old = "without", "beside retries", "beside an old transaction"
    runs = by_turns(
        bench.rounds,
        {
            without: lambda: _drain(rig, free, events),
            retries: lambda: _drain(rig, postponed, events),
            old: lambda: _drain_beside_old_transaction(rig, hot, events, dead),
        },
        bench.tell,
    )
    for template in (postponed, hot):
        rig.execute(f"DROP DATABASE {template}")
    return Section(
        f"Drain: {MERCHANTS:,} merchants beside what hinders",
        f"{events:,} events of {SMALLEST} bytes, of a quarter more that are owed; beside {owed:,} retries of "
        f"the same merchants that wait for hours; and beside a merchant that owes {owed:,} events and is "
        f"served, too, {dead:,} of its rows being dead already, while a transaction that began before that "
        "is held open.",
        runs,
        (
            Figure("beside waiting retries ÷ without", runs.ratio(retries, "rate", without), least=0.85),
            Figure("beside an old transaction ÷ without", runs.ratio(old, "rate", without), least=0.7),
        ),
    )


def _with_retries(bench: Bench, number: int) -> str:
    rig = bench.rig
    template = rig.make_template("postponed", rig.receiver.url(), MERCHANTS)
    rig.execute(RETRIES, number, MERCHANTS, texts(SMALLEST), database=template)
    rig.execute(POSTPONED_LANES, database=template)
    rig.execute("VACUUM ANALYZE webhook.outbox, webhook.lane", database=template)
    bench.tell(f"  {number:,} retries are made")
    return template


def _with_hot_merchant(bench: Bench, number: int) -> str:
    rig = bench.rig
    template = rig.make_template("hot", rig.receiver.url(), MERCHANTS + 1)
    rig.execute(HOT_ROWS, number, HOT, texts(SMALLEST), database=template)
    rig.execute("VACUUM ANALYZE webhook.outbox", database=template)
    bench.tell(f"  {number:,} events of one merchant are made")
    return template


def _fill(rig: Rig, database: str, events: int) -> None:
    """Owe more than is measured, so that nobody's figure has an end in it at which few merchants are left."""
    fill(rig, database, events + events // 4, MERCHANTS, SMALLEST)


def _drain(rig: Rig, template: str, events: int) -> Run:
    with rig.database(template) as database:
        _fill(rig, database, events)
        return _counted(rig, database, events)


def _drain_beside_old_transaction(rig: Rig, template: str, events: int, dead: int) -> Run:
    with rig.database(template) as database:
        _fill(rig, database, events)
        with rig.old_transaction(database):
            rig.execute(DELIVERED_HOT_ROWS, HOT, dead, database=database)
            return _counted(rig, database, events)


def _counted(rig: Rig, database: str, events: int) -> Run:
    run = shown(deliver(rig, database, events, leaves_some=True))
    dead_rows = rig.query(DEAD_ROWS, database=database)[0][0]
    return Run(run.rate, run.worker, run.postgres, run.receiver, {**run.shows, "dead rows": dead_rows})
