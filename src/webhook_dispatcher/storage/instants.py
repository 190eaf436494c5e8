"""Instants as Python can hold them, whatever a timestamptz holds.

Postgres has `infinity`, and years from 4713 BC to 294276. What lies beyond Python's years 1 to 9999 is read
as the latest or earliest instant that Python knows, so every instant that comes from the database is aware,
and can be compared and shown. The driver's own decoder refuses the whole result for one such value, or gives
a naive instant that compares with nothing.
"""

from datetime import UTC, datetime, timedelta

import asyncpg

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)


def decode(stored: tuple[int]) -> datetime:
    """Make an aware instant of microseconds since 2000; the lowest and highest number are the infinities."""
    try:
        return _EPOCH + timedelta(microseconds=stored[0])
    except OverflowError:
        return _LATEST if stored[0] > 0 else _EARLIEST


def encode(instant: datetime) -> tuple[int]:
    """Make microseconds since 2000 of an aware instant; TypeError for a naive one."""
    return ((instant - _EPOCH) // _MICROSECOND,)


async def read_any_instant(connection: asyncpg.Connection) -> None:
    """Have a connection decode like this. Asks the server nothing: the type is one of its own."""
    await connection.set_type_codec(
        "timestamptz", schema="pg_catalog", encoder=encode, decoder=decode, format="tuple"
    )
