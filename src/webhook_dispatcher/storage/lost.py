"""Events that were sent, and that the database lacks since another server took over: lost.sql, bound."""

from collections.abc import Sequence
from uuid import UUID

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.domain.record import Sent
from webhook_dispatcher.domain.status import Lost, LostEvent
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

_STATEMENTS = load("lost")

Connection = asyncpg.Connection | asyncpg.Pool | PoolConnectionProxy


async def note(connection: Connection, sent: Sequence[Sent]) -> int:
    """Note those that are not in the database; return how many that were."""
    columns = list(zip(*sent, strict=True)) or [()] * len(Sent._fields)
    with translated():
        lost: int = await connection.fetchval(_STATEMENTS["note_lost"].text, *columns)
    return lost


async def read(connection: Connection) -> Lost | None:
    """Say what was noted, as long as it is kept."""
    with translated():
        row = await connection.fetchrow(_STATEMENTS["read_lost"].text)
    return None if row is None else Lost(**row)


async def find(connection: Connection, event_id: UUID) -> LostEvent | None:
    """Say what was noted of one event."""
    with translated():
        row = await connection.fetchrow(_STATEMENTS["find_lost"].text, event_id)
    return None if row is None else LostEvent(**row)
