"""Databases of tests: whatever was written to one, it is emptied and used again; a new one costs far more."""

import asyncio

from tests.servers.database import Database
from tests.servers.reused import Databases

WRITE = """
INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m1', 'charge.created', '{}');
INSERT INTO webhook.audit (person, action) VALUES ('grace', 'pause');
"""
COUNT = "SELECT (SELECT count(*) FROM webhook.outbox) + (SELECT count(*) FROM webhook.audit)"


async def count(database: Database, write: str) -> int:
    connection = await database.connect()
    try:
        await connection.execute(write)
        rows: int = await connection.fetchval(COUNT)
        return rows
    finally:
        await connection.close()


def test_a_database_that_was_written_to_is_emptied_and_used_again(reused: Databases) -> None:
    with reused.one() as database:
        assert asyncio.run(count(database, WRITE)) == 2
    with reused.one() as again:
        assert (again.name, asyncio.run(count(again, "SELECT"))) == (database.name, 0)
