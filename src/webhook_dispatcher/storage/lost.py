"""Events that were sent, and that the database lacks since another server took over: lost.sql, bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from webhook_dispatcher.domain.record import Sent
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

_STATEMENTS = load("lost")

Connection = asyncpg.Connection | asyncpg.Pool | PoolConnectionProxy


@dataclass(frozen=True, slots=True)
class Lost:
    """What was noted of all of them. noted_at: of the latest; is_recent: that was within a day."""

    events: int
    merchants: int
    first_seq: int
    last_seq: int
    first_sent_at: datetime
    last_sent_at: datetime
    noted_at: datetime
    is_recent: bool


@dataclass(frozen=True, slots=True)
class LostEvent:
    """What was noted of one. sent_at: the end of its latest attempt, by the clock of the server before."""

    merchant_id: str
    sent_at: datetime
    is_delivered: bool
    noted_at: datetime


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
