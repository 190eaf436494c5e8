"""What dead merchants cost with suspension and without: attempts spent on them, and the lag of the others.

    python -m benchmarks.suspending

Days are seconds here: the schedule, how long nothing may have been accepted, and the interval. In each run,
without suspension and with it by turns, the same merchants are dead from the beginning and have the same
events. At the end of a run with suspension one of them comes back, and all its events are to arrive in order.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.installation import Installation, Sent
from tests.acceptance.processes import RUN
from tests.servers.database import Database
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.local.postgres import EmbeddedPostgres
from webhook_dispatcher.storage import schema

MERCHANTS, DEAD = 1_000, 200
DEAD_RATE, LIVE_RATE = 40, 60
"""Events a second of all the dead, and of all the others."""
BACKLOG = 22
"""Events that each of the dead has at once: twenty are needed."""
SECONDS = 45
RUNS = 2
SCHEDULE = "PT1S,PT5S,PT10S,PT20S,PT20S,PT20S,PT20S"
SUSPENDING = ("tests.acceptance.impatient", "PT5S", "PT10S")
OFF, ON = "without suspension", "with suspension"
DOWN = Behaviour(status=503)
PATIENCE = 120.0
LATE = 20
"""The last seconds of a run: whoever is to be suspended has been by then."""
ATTEMPTS = """
SELECT count(*), count(*) FILTER (WHERE started_at > clock_timestamp() - $2 * interval '1 second')
FROM webhook.attempts WHERE merchant_id < $1
"""
LAGS = """
SELECT extract(EPOCH FROM attempts.started_at - deliveries.created_at)::double precision AS lag
FROM webhook.attempts
JOIN webhook.deliveries USING (event_id)
WHERE
    attempts.merchant_id >= $1 AND attempts.attempt = 1
    AND attempts.started_at > clock_timestamp() - $2 * interval '1 second'
"""
SUSPENDED = "SELECT count(*) FROM webhook.endpoints WHERE suspended_at IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Result:
    """What one run showed; lags in milliseconds, of its last seconds. late: attempts at the dead in those.

    came_back: in how many seconds one of the dead was sent everything, in order.
    """

    attempts: int
    late: int
    suspended: int
    median: float
    high: float
    came_back: float | None


def _name(number: int) -> str:
    return f"m{number:04}"


FIRST_LIVE = _name(DEAD)


async def _produce(installation: Installation, seconds: float) -> list[Sent]:
    """Write everybody's events in turn; return those of the first of the dead."""
    began, written = time.monotonic(), 0
    theirs: list[Sent] = []
    rate = DEAD_RATE + LIVE_RATE
    while (now := time.monotonic() - began) < seconds:
        while written < now * rate:
            turn, place = divmod(written, rate)
            if place < DEAD_RATE:
                number = (turn * DEAD_RATE + place) % DEAD
            else:
                number = DEAD + (turn * LIVE_RATE + place) % (MERCHANTS - DEAD)
            sent = await installation.emit(_name(number))
            theirs += [sent] if number == 0 else []
            written += 1
        await asyncio.sleep(0.005)
    return theirs


async def _come_back(installation: Installation, sent: Sequence[Sent]) -> float:
    """Let the first of the dead answer again, and see how long it takes until it has everything, in order."""
    merchant = sent[0].merchant_id
    began = time.monotonic()
    installation.receiver.behave(merchant, Behaviour())
    owed = f"merchant_id = '{merchant}' AND state <> 'delivered'"
    while await installation.count(owed):
        if time.monotonic() - began > PATIENCE:
            raise RuntimeError(f"{await installation.count(owed)} events of {merchant} are not delivered")
        await asyncio.sleep(0.05)
    order = list(dict.fromkeys(arrival.event_id for arrival in installation.receiver.of(merchant)))
    if order != [str(event.id) for event in sent]:
        raise RuntimeError("not all events have arrived, or not in order")
    return time.monotonic() - began


async def _run(database: Database, folder: Path, program: Sequence[str]) -> Result:
    async with Installation(database, folder) as installation:
        await installation.configure(*map(_name, range(MERCHANTS)))
        dead = [_name(number) for number in range(DEAD)]
        for merchant in dead:
            installation.receiver.behave(merchant, DOWN)
        daemon = installation.spawn(program, RETRY_SCHEDULE=SCHEDULE, LOG_LEVEL="info")
        await daemon.logged("daemon.started", PATIENCE)
        backlog = await installation.emit_each(dead, BACKLOG)
        theirs = [sent for sent in backlog if sent.merchant_id == dead[0]]
        theirs += await _produce(installation, SECONDS)
        [(attempts, late)] = await installation.owner.fetch(ATTEMPTS, FIRST_LIVE, LATE)
        lags = sorted(1000 * row["lag"] for row in await installation.owner.fetch(LAGS, FIRST_LIVE, LATE))
        suspended = await installation.owner.fetchval(SUSPENDED)
        back = await _come_back(installation, theirs) if program is not RUN else None
        daemon.terminate()
        await daemon.ended(PATIENCE)
        return Result(attempts, late, suspended, statistics.median(lags), lags[int(0.99 * len(lags))], back)


def _told(name: str, results: Sequence[Result]) -> str:
    def spread(values: Sequence[float], unit: str = "") -> str:
        return f"{statistics.median(values):,.0f}{unit} ({min(values):,.0f} to {max(values):,.0f})"

    back = [result.came_back for result in results if result.came_back is not None]
    said = [
        f"{spread([result.attempts for result in results])} attempts at the dead",
        f"{spread([result.late for result in results])} of them in the last {LATE} s",
        f"{spread([result.suspended for result in results])} suspended at the end",
        f"lag of the others: median {spread([result.median for result in results], ' ms')}",
        f"99 % {spread([result.high for result in results], ' ms')}",
        *([f"one came back, all in order, in {spread(back, ' s')}"] if back else []),
    ]
    return f"{name}: " + "; ".join(said)


def main() -> None:
    """Run both by turns, and print what they showed."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    results: dict[str, list[Result]] = {OFF: [], ON: []}
    with (
        tempfile.TemporaryDirectory(prefix="webhook-bench-") as folder,
        EmbeddedPostgres(Path(folder) / "data", durable=False, max_connections=100) as server,
    ):
        for run in range(RUNS):
            for name, program in ((OFF, RUN), (ON, SUSPENDING)):
                place = Path(folder) / f"run{run}{len(program)}"
                place.mkdir()
                database = Database(server, f"bench_{run}_{len(program)}")
                asyncio.run(_create(server, database.name))
                results[name].append(asyncio.run(_run(database, place, program)))
                print(name, results[name][-1], flush=True)
    for name, found in results.items():
        print(_told(name, found))


async def _create(server: EmbeddedPostgres, name: str) -> None:
    connection = await Database(server, "postgres").connect()
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    await schema.migrate(server.dsn(database=name))


if __name__ == "__main__":
    main()
