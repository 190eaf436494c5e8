"""What the product's own statements for finding and claiming work cost: buffers and time, by EXPLAIN.

The texts are the shipped ones, prepared by name in a session as the daemon opens it, with one plan for all
values as there (docs/adr/0013). Each execution is rolled back; caches are warm when counting begins.
"""

import asyncio
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import asyncpg

from benchmarks.rig import Rig
from webhook_dispatcher.dispatch.dispatcher import MAX_ARRIVALS
from webhook_dispatcher.dispatch.sweep import SWEEP_PAGE
from webhook_dispatcher.dispatch.worker import RUN, RUN_BYTES
from webhook_dispatcher.storage.connection import connect
from webhook_dispatcher.storage.session import PLANNED_ONCE
from webhook_dispatcher.storage.statements import load

CLAIMING = load("claiming")
WARM_UPS = 6
COUNTED = 21
LAST_SEQ = "SELECT last_value FROM webhook.outbox_seq_seq"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one execution read, how long it took, and the rows it brought."""

    buffers: float
    milliseconds: float
    rows: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.buffers + other.buffers, self.milliseconds + other.milliseconds, self.rows + other.rows
        )


Costs = Mapping[str, Cost]
"""By the statement's name."""


def measure(rig: Rig, merchants: Mapping[str, Sequence[str]]) -> Mapping[str, Costs]:
    """Measure full looks, and a claim of these merchants' lanes with full runs, in databases by turns."""

    async def run() -> Mapping[str, Costs]:
        sessions = {database: await _open(rig, database) for database in merchants}
        asked = {
            database: _claim(await session.fetchval(LAST_SEQ), merchants[database])
            for database, session in sessions.items()
        }
        found: dict[str, dict[str, Cost]] = {database: {} for database in merchants}
        for name in next(iter(asked.values())):
            costs = await _by_turns(name, {sessions[each]: asked[each][name] for each in sessions})
            for database, cost in zip(sessions, costs, strict=True):
                found[database][name] = cost
        for session in sessions.values():
            await session.close()
        return found

    return asyncio.run(run())


def idle_poll(rig: Rig, database: str) -> Cost:
    """Measure a look for arrivals when there are none."""

    async def run() -> Cost:
        session = await _open(rig, database)
        values = str(await session.fetchval(LAST_SEQ)), str(MAX_ARRIVALS)
        (cost,) = await _by_turns("read_arrivals", {session: values})
        await session.close()
        return cost

    return asyncio.run(run())


def _claim(last_seq: int, merchants: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the values of each statement's parameters, as SQL."""
    lanes, named = len(merchants), f"ARRAY{list(merchants)}"
    return {
        "read_arrivals": (str(last_seq - MAX_ARRIVALS), str(MAX_ARRIVALS)),
        "sweep_lanes": ("''", str(SWEEP_PAGE)),
        "lease_lanes": (named, _each(last_seq, lanes), "interval '30 seconds'", "'benchmark'"),
        "read_runs": (named, _each(0, lanes), _each(RUN, lanes), _each(RUN_BYTES, lanes)),
    }


def _each(value: int, lanes: int) -> str:
    return f"array_fill({value}::bigint, ARRAY[{lanes}])"


async def _open(rig: Rig, database: str) -> asyncpg.Connection:
    dsn = rig.postgres.dsn("webhook_dispatcher", database)
    return await connect(
        dsn, application_name="benchmark", command_timeout=timedelta(minutes=5), planning=PLANNED_ONCE
    )


async def _by_turns(name: str, values: Mapping[asyncpg.Connection, Sequence[str]]) -> Sequence[Cost]:
    statement = CLAIMING[name]
    types = ", ".join(sqltype for _, sqltype in statement.parameters)
    for session in values:
        await session.execute(f"PREPARE {name} ({types}) AS {statement.text}")
    rounds = [
        [await _explained(session, name, own) for session, own in values.items()]
        for _ in range(WARM_UPS + COUNTED)
    ]
    return [_median(costs) for costs in zip(*rounds[WARM_UPS:], strict=True)]


def _median(costs: Iterable[Cost]) -> Cost:
    found = [(cost.buffers, cost.milliseconds, cost.rows) for cost in costs]
    return Cost(*map(statistics.median, zip(*found, strict=True)))


async def _explained(session: asyncpg.Connection, name: str, values: Sequence[str]) -> Cost:
    transaction = session.transaction()
    await transaction.start()
    text = await session.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE {name} ({', '.join(values)})"
    )
    await transaction.rollback()
    (executed,) = json.loads(text)
    plan = executed["Plan"]
    buffers = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return Cost(buffers, executed["Planning Time"] + executed["Execution Time"], plan["Actual Rows"])
