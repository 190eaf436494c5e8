"""Scenario of recording: how long after a merchant's answer its record is committed.

The receiver answers in the moment it notes a request. A record is committed when another connection can see
it: one asks for its snapshot over and over, and the first that shows the record's transaction counts, so that
the time is never too short. (`pg_xact_commit_timestamp` is taken before the flush to disk.)
"""

import asyncio
import json
import statistics
import time
from bisect import bisect_left
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import asyncpg

from benchmarks import drains
from benchmarks.contest import Figure, Run, Section, by_turns, percentile
from benchmarks.processes import Child, until
from benchmarks.rig import Rig
from benchmarks.sets import Bench

MERCHANTS = 1_000
ROWS = 10
"""Events in each of the producer's transactions: with one, what producing costs would be most of the load."""
FLOOD = 1e6
"""Events a second that a producer is asked for who is to commit as fast as it can."""
SHARE = 0.5
"""Load, as a part of saturation."""
SECONDS = 10.0
WARM_UP = 1.0
"""Seconds at the beginning that do not count."""
LOOK_EVERY = 0.001
"""Seconds between an answer to the question for the snapshot and the next question."""
PATIENCE = 60.0
"""Seconds within which what was produced is to be recorded."""
COUNT = "SELECT count(*) FROM webhook.delivery_log"
RECORDS = "SELECT event_id::text, xmin::text::bigint FROM webhook.delivery_log"
Snapshot = tuple[int, int, Collection[int]]


class Commits:
    """When each transaction was first seen to be committed, on the machine's monotonic clock."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, Snapshot]] = []

    async def watch(self, dsn: str, over: Event) -> None:
        """Ask for the snapshot until it is over."""
        connection = await asyncpg.connect(dsn)
        statement = await connection.prepare("SELECT pg_current_snapshot()")
        is_last = False
        while not is_last:
            is_last = over.is_set()  # before the question, so that the last answer is from after the end
            snapshot = await statement.fetchval()
            self._seen.append((time.monotonic(), snapshot))
            await asyncio.sleep(LOOK_EVERY)
        await connection.close()

    def moment(self, transaction: int) -> float:
        """Return when a transaction was seen first."""
        at = bisect_left(self._seen, True, key=lambda seen: _shows(seen[1], transaction))
        return self._seen[at][0]


def _shows(snapshot: Snapshot, transaction: int) -> bool:
    oldest, following, running = snapshot
    return transaction < oldest or (transaction < following and transaction not in running)


@contextmanager
def watching(dsn: str) -> Iterator[Commits]:
    """Watch commits for as long as it is entered."""
    commits, over = Commits(), Event()
    thread = Thread(target=lambda: asyncio.run(commits.watch(dsn, over)))
    thread.start()
    try:
        yield commits
    finally:
        over.set()
        thread.join()


def measure(rig: Rig, template: str, rate: float, seconds: float) -> Run:
    """Let a producer commit events at this rate, and compare what was answered with what was recorded."""
    log = rig.folder / "produced.log"
    with rig.database(template) as database, rig.daemon(database) as daemon:
        rig.receiver.reset()
        before = rig.usage(daemon.process.pid)
        with watching(rig.postgres.dsn(database=database)) as commits:
            said = produce(rig, database, log, rate, seconds, MERCHANTS, ROWS)
            events = int(said["events"])
            until(lambda: rig.query(COUNT, database=database)[0][0] == events, PATIENCE)
        used = (rig.usage(daemon.process.pid) - before).each(events)
        records = rig.query(RECORDS, database=database)
    answered = rig.receiver.arrivals()
    start = min(answered.values()) + WARM_UP
    took = [
        1000 * (commits.moment(transaction) - answered[event_id])
        for event_id, transaction in records
        if answered[event_id] >= start
    ]
    shows = {"p50 ms": statistics.median(took), "p99 ms": percentile(took, 0.99), "worst ms": max(took)}
    lines = map(json.loads, log.read_text().splitlines())
    late = [1000 * (line["committed_at"] - line["due_at"]) for line in lines]
    shows["producer's p99 ms"] = percentile(late, 0.99)
    return Run(events / said["seconds"], used.worker, used.postgres, used.receiver, shows)


def produce(
    rig: Rig, database: str, log: Path, rate: float, seconds: float, merchants: int, rows: int
) -> dict[str, Any]:
    """Commit events at a mean rate, so many in a transaction; return what the producer says of it."""
    command = ["produce", "--dsn", rig.postgres.dsn("webhook_producer", database), "--log", str(log)]
    command += ["--rate", str(rate), "--seconds", str(seconds)]
    command += ["--merchants", str(merchants), "--rows", str(rows)]
    child = Child("benchmarks.ourselves", *command, log=rig.folder / "producer.log")
    try:
        return child.read()
    finally:
        child.end()


def flood(rig: Rig, template: str, events: int) -> Run:
    """Let a producer commit events as fast as it can, and measure until the last has arrived."""
    log = rig.folder / "produced.log"
    with rig.database(template) as database, rig.daemon(database) as daemon:
        rig.receiver.reset()
        before = rig.usage(daemon.process.pid)
        events = int(produce(rig, database, log, FLOOD, events / FLOOD, MERCHANTS, ROWS)["events"])
        stats = rig.receiver.await_requests(events, PATIENCE)
        used = (rig.usage(daemon.process.pid) - before).each(events)
    start = min(json.loads(line)["committed_at"] for line in log.read_text().splitlines())
    return Run(events / (stats["last_at"] - start), used.worker, used.postgres, used.receiver)


def recording(bench: Bench) -> Section:
    """Measure saturation by a flood, then records at half of it: by turns, since machines are not steady."""
    rig, events = bench.rig, bench.events(20_000)
    with rig.another_receiver("--log") as logging:
        template = rig.template(logging.url(), MERCHANTS)
        floods: list[Run] = []

        def run() -> Run:
            floods.append(flood(rig, template, events))
            return measure(rig, template, SHARE * floods[-1].rate, SECONDS * bench.scale)

        name = f"{drains.OURS}, at half of saturation"
        runs = by_turns(bench.rounds, {name: run}, bench.tell)
    runs.of["saturation: a flood"] = floods
    return Section(
        "Recording: from a merchant's answer to the commit of its record",
        f"Poisson arrivals of transactions of {ROWS} events, over {MERCHANTS:,} merchants, at half of what "
        "arrived a second in the flood before, from first commit to last arrival.",
        runs,
        (
            Figure("answer to commit, p50 ms", runs.median(name, "p50 ms")),
            Figure("answer to commit, p99 ms", runs.median(name, "p99 ms"), most=50),
            Figure("load ÷ saturation", runs.ratio(name, "rate", "saturation: a flood"), least=0.45),
        ),
    )
