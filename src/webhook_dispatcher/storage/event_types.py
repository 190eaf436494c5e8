"""Types of event of one's own: event_types.sql, bound. Whatever lists types, or checks one, asks here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from webhook_dispatcher.domain.event import EVENT_TYPES
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

_STATEMENTS = load("event_types")


class Connection(Protocol):
    """A connection, or what takes one."""

    async def fetch(self, text: str, *arguments: object) -> Sequence[Any]:
        """Return all rows."""
        ...


@dataclass(frozen=True, slots=True)
class OwnType:
    """One of them. charge_path: where in an event's object the id of its charge stands."""

    name: str
    charge_path: str
    created_at: datetime
    retired_at: datetime | None


async def own_types(connection: Connection) -> list[OwnType]:
    """Return one's own types by name, retired ones too."""
    return [OwnType(**row) for row in await _rows(connection, "list_event_types")]


async def all_types(connection: Connection) -> tuple[str, ...]:
    """Return the names of all types, ours first: what a list of deliveries may be asked for."""
    return (*EVENT_TYPES, *(own.name for own in await own_types(connection)))


async def read_sample(connection: Connection, name: str) -> bytes | None:
    """Return the object of a test of one's own type; None where there is no such type."""
    rows = await _rows(connection, "read_sample", name)
    return rows[0]["sample"].encode() if rows else None


async def add(
    connection: Connection, name: str, sample: str | None, charge_path: str | None, person: str
) -> Sequence[str]:
    """Let producers write a type, new or retired; None leaves what is known of it.

    Returns the older dispatchers that work, and would not send it: nothing was changed then.
    """
    [row] = await _rows(connection, "add_event_type", name, sample, charge_path, person)
    older: Sequence[str] = row["older"]
    return older


async def retire(connection: Connection, name: str, person: str) -> bool | None:
    """Let producers write a type no more; False when they might not before, None when there is none.

    Given again, in another transaction, older programs are served once nothing holds.
    """
    is_retired: bool | None = (await _rows(connection, "retire_event_type", name, person))[0]["is_retired"]
    return is_retired


async def read_hold(connection: Connection) -> str | None:
    """Say what keeps older programs from being served, as webhook.event_types_hold; None: they are served."""
    hold: str | None = (await _rows(connection, "read_hold"))[0]["hold"]
    return hold


async def _rows(connection: Connection, name: str, *arguments: object) -> Sequence[Any]:
    with translated():
        return await connection.fetch(_STATEMENTS[name].text, *arguments)
