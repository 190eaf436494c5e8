"""What sequences number: events in their order, and nothing twice.

Sequences do not come over by logical replication, and one with a CACHE gives each session numbers of its own.
"""

from collections.abc import Callable

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.domain.errors import SchemaMismatch
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

_NUMBERS = load("numbers")
_LOCK = "LOCK TABLE webhook.outbox, webhook.control, webhook.audit, webhook.api_key, webhook.account"


async def check(connection: asyncpg.Connection | asyncpg.Pool | PoolConnectionProxy) -> None:
    """Raise SchemaMismatch where numbers would be given again, or out of order."""
    with translated():
        rows = await connection.fetch(_NUMBERS["read_sequences"].text)
    faults = [fault for row in rows for fault in _faults(row)]
    if faults:
        raise SchemaMismatch("; ".join(faults))


async def mend(connection: asyncpg.Connection, tell: Callable[[str], None]) -> None:
    """Let each sequence go on behind what is there, and give one number at a time; tell: what was wrong.

    connection: of the schema's owner. Nobody numbers anything meanwhile.
    """
    with translated():
        if not any(_faults(row) for row in await connection.fetch(_NUMBERS["read_sequences"].text)):
            return
        async with connection.transaction():
            await connection.execute(f"{_LOCK} IN SHARE ROW EXCLUSIVE MODE")
            for row in await connection.fetch(_NUMBERS["read_sequences"].text):
                for fault in _faults(row):
                    tell(f"mending: {fault}")
                if row["cached"] > 1:
                    await connection.execute(f"ALTER SEQUENCE webhook.{row['sequence']} CACHE 1")
                    tell("sessions that have numbers of it already must end: reconnect the producers")
                if row["highest"] > row["given"]:
                    await connection.execute(
                        _NUMBERS["advance_sequence"].text, row["sequence"], row["highest"]
                    )


def _faults(row: asyncpg.Record) -> list[str]:
    faults = []
    if row["highest"] > row["given"]:
        faults.append(
            f"webhook.{row['column_name']} goes up to {row['highest']}, and its sequence is at {row['given']}"
            ", as after logical replication"
        )
    if row["cached"] > 1:
        faults.append(f"the sequence of webhook.{row['column_name']} has CACHE {row['cached']}, out of order")
    return faults
