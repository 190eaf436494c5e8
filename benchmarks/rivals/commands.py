"""The command line that all rivals with a database share: prepare, fill, work, produce."""

import argparse
import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import islice
from pathlib import Path
from random import Random
from typing import Protocol

import asyncpg
import uvloop

from benchmarks.rivals.posting import Event, Poster, backlog, make_event, merchant, poster
from benchmarks.rivals.run import Run, say

WRITERS = 8
CHUNK = 1_000
"""Events that are enqueued in one statement while a backlog is filled."""

Enqueue = Callable[[list[Event]], Awaitable[None]]


class Rival(Protocol):
    """What a rival brings."""

    def add_arguments(self, command: argparse.ArgumentParser, *, is_work: bool) -> None:
        """Add the settings that it is tried with, for `work` or for what enqueues."""

    async def prepare(self, dsn: str) -> None:
        """Install its schema, with the settings it recommends."""

    def enqueuing(self, dsn: str, options: argparse.Namespace) -> AbstractAsyncContextManager[Enqueue]:
        """Open a connection; what is entered commits events in one transaction each time it is called."""

    async def work(self, dsn: str, events: Poster, run: Run, options: argparse.Namespace) -> None:
        """Connect, start the run, and work until it is over."""


def main(rival: Rival, description: str | None) -> None:
    """Read the command line and do what it says."""
    options = _parser(rival, description).parse_args()
    uvloop.run(COMMANDS[options.command](rival, options))


async def prepare(rival: Rival, options: argparse.Namespace) -> None:
    """Make an empty database a rival's."""
    await rival.prepare(options.dsn)
    say({"prepared": True})


async def fill(rival: Rival, options: argparse.Namespace) -> None:
    """Enqueue a backlog, then leave the database as one that has been running would be."""
    events = backlog(options.events, options.merchants, options.bytes)
    async with rival.enqueuing(options.dsn, options) as enqueue:
        for chunk in _chunks(events, CHUNK):
            await enqueue(chunk)
    connection = await asyncpg.connect(options.dsn)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()
    say({"events": options.events})


def _chunks(events: Iterable[Event], size: int) -> Iterator[list[Event]]:
    remaining = iter(events)
    while chunk := list(islice(remaining, size)):
        yield chunk


async def work(rival: Rival, options: argparse.Namespace) -> None:
    """Post what is enqueued, and say how long that took."""
    run = Run(options.events, tunes_collector=options.tune_collector)
    async with poster(options.url) as events:
        await rival.work(options.dsn, events, run, options)
    run.report()


async def produce(rival: Rival, options: argparse.Namespace) -> None:
    """Commit events at random moments at a mean rate, a transaction each time, over a few connections.

    SIGTERM ends it before its time; what it says is of the events that were committed.
    """
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    random = Random(options.seed)
    moments = list(_moments(random, options.rate / options.rows, options.seconds))
    batches = [
        [
            make_event(
                merchant(options.first + random.randrange(options.merchants)), options.bytes, number + row
            )
            for row in range(options.rows)
        ]
        for number in range(0, len(moments) * options.rows, options.rows)
    ]
    committed = 0
    with options.log.open("w") as log:
        async with _writers(rival, options) as free:
            started = time.monotonic()

            async def write(events: list[Event], due_at: float) -> None:
                enqueue = await free.get()
                await enqueue(events)
                committed_at = time.monotonic()
                free.put_nowait(enqueue)
                for event in events:
                    line = {"event_id": event.event_id, "due_at": due_at, "committed_at": committed_at}
                    log.write(json.dumps(line) + "\n")

            async with asyncio.TaskGroup() as group:
                for events, moment in zip(batches, moments, strict=True):
                    await asyncio.sleep(max(0.0, started + moment - time.monotonic()))
                    if stop.is_set():
                        break
                    committed += len(events)
                    group.create_task(write(events, started + moment))
    say({"events": committed, "seconds": time.monotonic() - started})


def _moments(random: Random, rate: float, seconds: float) -> Iterator[float]:
    moment = random.expovariate(rate)
    while moment < seconds:
        yield moment
        moment += random.expovariate(rate)


@asynccontextmanager
async def _writers(rival: Rival, options: argparse.Namespace) -> AsyncIterator[asyncio.Queue[Enqueue]]:
    free: asyncio.Queue[Enqueue] = asyncio.Queue()
    async with AsyncExitStack() as stack:
        for _ in range(WRITERS):
            free.put_nowait(await stack.enter_async_context(rival.enqueuing(options.dsn, options)))
        yield free


COMMANDS = {"prepare": prepare, "fill": fill, "work": work, "produce": produce}


def _parser(rival: Rival, description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    commands = parser.add_subparsers(dest="command", required=True)
    found = {name: commands.add_parser(name) for name in COMMANDS}
    for command in found.values():
        command.add_argument("--dsn", required=True)
    for name in ("fill", "produce"):
        found[name].add_argument("--merchants", type=int, default=100)
        found[name].add_argument("--bytes", type=int, default=1_000, help="of the object in each body")
        rival.add_arguments(found[name], is_work=False)
    found["fill"].add_argument("--events", type=int, required=True)
    found["work"].add_argument("--url", required=True)
    found["work"].add_argument("--events", type=int, help="none: until standard input ends")
    found["work"].add_argument(
        "--tune-collector", action="store_true", help="the garbage collector as webhook-dispatcher's"
    )
    rival.add_arguments(found["work"], is_work=True)
    found["produce"].add_argument("--rate", type=float, required=True, help="events a second")
    found["produce"].add_argument("--rows", type=int, default=1, help="events in each transaction")
    found["produce"].add_argument("--seconds", type=float, required=True)
    found["produce"].add_argument("--first", type=int, default=0, help="the first merchant's number")
    found["produce"].add_argument("--seed", type=int, default=1)
    found["produce"].add_argument("--log", type=Path, required=True)
    return parser
