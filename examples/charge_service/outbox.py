"""Events go into `webhook.outbox`, in the transaction that changes the charge.

Here the charge is in memory, so the transaction holds the events alone, and the change is applied after it.
An event that is written again (the process was killed after the commit) has the same id, and is not inserted
twice.
"""

from collections.abc import Sequence
from typing import Protocol

import asyncpg

from examples.charge_service.ledger import Event

INSERT = """
INSERT INTO webhook.outbox (id, merchant_id, type, object) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO NOTHING
"""


class Outbox(Protocol):
    """Where events go."""

    async def write(self, events: Sequence[Event]) -> None:
        """Write all of them, or none."""


class NoOutbox:
    """For a service without a database: merchants are told nothing."""

    async def write(self, events: Sequence[Event]) -> None:
        """Forget them."""


class PostgresOutbox:
    """Written as the role `webhook_producer`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def write(self, events: Sequence[Event]) -> None:
        """Write all of them, or none."""
        async with self._pool.acquire() as connection, connection.transaction():
            # Here a charge service changes the charge itself, and keeps the Idempotency-Key with its answer.
            for event in events:
                await connection.execute(INSERT, event.id, event.merchant_id, event.type, event.object)
