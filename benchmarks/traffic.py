"""The charge service of the isolation benchmark, in a process of its own: one transaction for each event.

Events of healthy merchants come at random moments at a fixed mean rate, whatever the daemon does. They are
the same ones in every run, those of the bad merchants besides or not. Writes a line for each:
`event_id merchant_id asked_at committed_at`, on the machine's monotonic clock.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from random import Random
from typing import IO

import asyncpg
import uvloop

from benchmarks.merchants import HEALTHY, bad_names, names
from webhook_dispatcher.local.charges import Charge

INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, $2, $3) RETURNING id"
WRITERS = 8
BAD_PERIOD = 8.0
"""Seconds between two events of a bad merchant: less than an attempt takes, so that its lane stays busy."""
ATTEMPT = 10.0
"""Seconds over which the bad merchants begin, so that their attempts end spread over as many."""


class Writers:
    """A few connections; each event takes one for its transaction."""

    def __init__(self, connections: Sequence[asyncpg.Connection], log: IO[str], texts: Sequence[str]) -> None:
        self._free: asyncio.Queue[asyncpg.Connection] = asyncio.Queue()
        for connection in connections:
            self._free.put_nowait(connection)
        self._log = log
        self._texts = cycle(texts)

    async def write(self, merchant_id: str) -> None:
        """Commit one event and note when."""
        connection = await self._free.get()
        asked_at = time.monotonic()
        event_id = await connection.fetchval(INSERT, merchant_id, "charge.created", next(self._texts))
        committed_at = time.monotonic()
        self._free.put_nowait(connection)
        self._log.write(f"{event_id} {merchant_id} {asked_at} {committed_at}\n")

    async def follow(self, plan: Sequence[tuple[float, str]]) -> None:
        """Write each event at its moment."""
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for moment, merchant_id in plan:
                await asyncio.sleep(max(0.0, started + moment - time.monotonic()))
                group.create_task(self.write(merchant_id))

    async def flood(self, seconds: float, random: Random) -> None:
        """Write events of healthy merchants as fast as can be."""
        ends = time.monotonic() + seconds
        merchants = names(HEALTHY)

        async def one() -> None:
            while time.monotonic() < ends:
                await self.write(random.choice(merchants))

        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(one())


def plan(
    rate: float, seconds: float, *, with_bad: bool, together: bool, seed: int
) -> list[tuple[float, str]]:
    """Return moments and merchants: Poisson arrivals of the healthy, a steady trickle of each bad one."""
    random, merchants = Random(seed), names(HEALTHY)
    events = []
    moment = random.expovariate(rate)
    while moment < seconds:
        events.append((moment, random.choice(merchants)))
        moment += random.expovariate(rate)
    for merchant_id in bad_names() if with_bad else ():
        moment = 0.0 if together else random.uniform(0, ATTEMPT)
        while moment < seconds:
            events.append((moment, merchant_id))
            moment += BAD_PERIOD
    return sorted(events)


async def run(options: argparse.Namespace) -> None:
    """Connect, write everything, and leave."""
    random = Random(options.seed)
    texts = [Charge(random, "m", datetime.now(UTC)).step()[1] for _ in range(100)]
    connections = [await asyncpg.connect(options.dsn) for _ in range(WRITERS)]
    with options.log.open("w") as log:
        writers = Writers(connections, log, texts)
        if options.rate is None:
            await writers.flood(options.seconds, random)
        else:
            events = plan(
                options.rate,
                options.seconds,
                with_bad=options.bad,
                together=options.together,
                seed=options.seed,
            )
            await writers.follow(events)
    for connection in connections:
        await connection.close()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True, help="as webhook_producer")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, help="events of healthy merchants a second; none: a flood")
    parser.add_argument("--bad", action="store_true", help="events of the bad merchants besides")
    parser.add_argument("--together", action="store_true", help="all bad merchants begin in one moment")
    parser.add_argument("--seed", type=int, default=1)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
