"""webhook-dispatcher's producer, with the command line of the rivals' (`produce`)."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from benchmarks.bodies import EVENT_TYPE
from benchmarks.rivals.commands import Enqueue, main
from benchmarks.rivals.posting import Event, Poster
from benchmarks.rivals.run import Run

INSERT = """
INSERT INTO webhook.outbox (id, merchant_id, type, object)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::json[])
"""
_OBJECT = b'"object":'


class Ourselves:
    """What the shared command line asks for; the daemon itself is started by the rig."""

    def add_arguments(self, command: argparse.ArgumentParser, *, is_work: bool) -> None:
        """Add nothing."""

    async def prepare(self, dsn: str) -> None:
        """Leave the schema to the rig."""
        raise NotImplementedError(dsn)

    @asynccontextmanager
    async def enqueuing(self, dsn: str, options: argparse.Namespace) -> AsyncIterator[Enqueue]:
        """Open a producer's connection; each call is one transaction."""
        connection = await asyncpg.connect(dsn)

        async def enqueue(events: list[Event]) -> None:
            await connection.execute(
                INSERT,
                [event.event_id for event in events],
                [event.merchant_id for event in events],
                [EVENT_TYPE for _ in events],
                [_object(event.body) for event in events],
            )

        try:
            yield enqueue
        finally:
            await connection.close()

    async def work(self, dsn: str, events: Poster, run: Run, options: argparse.Namespace) -> None:
        """Leave the work to the daemon."""
        raise NotImplementedError(dsn)


def _object(body: bytes) -> str:
    """Take the object out of its envelope."""
    return body[body.index(_OBJECT) + len(_OBJECT) : -2].decode()


if __name__ == "__main__":
    main(Ourselves(), __doc__)
