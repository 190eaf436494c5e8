"""The bare loop, without a database: as fast as one process of aiohttp on uvloop signs and posts.

It is the limit of what any of the others can reach with this client, on this machine.
"""

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path

import uvloop

from benchmarks.rivals.posting import Event, Poster, backlog, poster
from benchmarks.rivals.run import Run


async def work(options: argparse.Namespace) -> None:
    """Post prepared events, a few at a time."""
    run = Run(options.events)
    events = list(backlog(options.events, 1 if options.serial else options.merchants, options.bytes))
    async with poster(options.url, options.ca_file) as bare:
        await run.start()
        remaining = iter(events)
        concurrency = 1 if options.serial else options.concurrency
        posting = [asyncio.create_task(_post(bare, remaining, run)) for _ in range(concurrency)]
        await run.until_over(posting)
    run.report()


async def _post(bare: Poster, remaining: Iterator[Event], run: Run) -> None:
    for event in remaining:
        await bare.post(event)
        run.finished()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    command = parser.add_subparsers(required=True).add_parser("work")
    command.add_argument("--url", required=True)
    command.add_argument("--events", type=int, required=True)
    command.add_argument("--merchants", type=int, default=100)
    command.add_argument("--bytes", type=int, default=1_000)
    command.add_argument("--concurrency", type=int, default=64)
    command.add_argument("--ca-file", type=Path)
    command.add_argument("--serial", action="store_true", help="one after the other, to one merchant")
    uvloop.run(work(parser.parse_args()))


if __name__ == "__main__":
    main()
