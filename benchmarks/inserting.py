"""Inserts events as fast as the database takes them: into the outbox, or a plain table."""

import argparse
import asyncio
import json
import sys
import time

import asyncpg
import uvloop

from benchmarks.bodies import EVENT_TYPE, body

SINGLE = "INSERT INTO webhook.{table} (merchant_id, type, object) VALUES ($1, $2, $3)"
BULK = """
INSERT INTO webhook.{table} (merchant_id, type, object)
SELECT * FROM unnest($1::text[], $2::text[], $3::json[])
"""


async def write(options: argparse.Namespace) -> None:
    """Connect, wait to be let go, insert, and say how long it took."""
    connections = [await asyncpg.connect(options.dsn) for _ in range(options.writers)]
    texts = [body(1_000, number) for number in range(100)]
    each = options.events // options.writers

    async def insert(connection: asyncpg.Connection, number: int) -> None:
        def merchant(event: int) -> str:
            spread = number + event * options.writers
            return f"m-{spread % options.merchants if options.merchants else number:06}"

        if options.rows == 1:
            statement = await connection.prepare(SINGLE.format(table=options.table))
            for event in range(each):
                await statement.fetch(merchant(event), EVENT_TYPE, texts[event % 100])
            return
        statement = await connection.prepare(BULK.format(table=options.table))
        for _ in range(each // options.rows):
            rows = options.rows
            await statement.fetch(
                [merchant(0)] * rows, [EVENT_TYPE] * rows, [texts[n % 100] for n in range(rows)]
            )

    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    started = time.monotonic()
    await asyncio.gather(*[insert(connection, number) for number, connection in enumerate(connections)])
    seconds = time.monotonic() - started
    for connection in connections:
        await connection.close()
    print(json.dumps({"events": each * options.writers, "seconds": seconds}), flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--table", choices=("outbox", "plain", "notifying"), required=True)
    parser.add_argument("--rows", type=int, default=1, help="in each transaction")
    parser.add_argument("--writers", type=int, default=1)
    parser.add_argument("--merchants", type=int, help="that single rows are for (default: one each writer)")
    parser.add_argument("--events", type=int, required=True)
    uvloop.run(write(parser.parse_args()))


if __name__ == "__main__":
    main()
