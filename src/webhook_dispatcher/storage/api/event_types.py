"""Types of event of one's own: event_types.sql, bound. Whatever lists types, or checks one, asks here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from webhook_dispatcher.domain.endpoint import choices
from webhook_dispatcher.domain.event import EVENT_TYPES
from webhook_dispatcher.storage.api.database import Database, ask
from webhook_dispatcher.storage.statements import load

_TYPES = load("event_types")


@dataclass(frozen=True, slots=True)
class OwnType:
    """One of them. charge_path: where in an event's object the id of its charge stands."""

    name: str
    charge_path: str
    created_at: datetime
    retired_at: datetime | None


async def own_types(database: Database) -> list[OwnType]:
    """Return one's own types by name, retired ones too."""
    return [OwnType(**row) for row in await ask(database, _TYPES["list_event_types"])]


async def all_types(database: Database) -> tuple[str, ...]:
    """Return the names of all types, ours first: what a list of deliveries may be asked for."""
    return (*EVENT_TYPES, *(own.name for own in await own_types(database)))


async def filter_types(database: Database, merchant_id: str) -> tuple[str, ...]:
    """Return the types that the filter of a merchant may name."""
    return choices(merchant_id, [own.name for own in await own_types(database)])


async def add(
    database: Database, name: str, sample: str | None, charge_path: str | None, person: str
) -> Sequence[str]:
    """Let producers write a type, new or retired; None leaves what is known of it.

    Returns the older dispatchers that work, and would not send it: nothing was changed then.
    """
    [row] = await ask(database, _TYPES["add_event_type"], name, sample, charge_path, person)
    older: Sequence[str] = row["older"]
    return older


async def retire(database: Database, name: str, person: str) -> bool | None:
    """Let producers write a type no more; False when they might not before, None when there is none.

    Given again, in another transaction, older programs are served once nothing holds.
    """
    is_retired: bool | None = (await ask(database, _TYPES["retire_event_type"], name, person))[0][
        "is_retired"
    ]
    return is_retired


async def read_hold(database: Database) -> str | None:
    """Say what keeps older programs from being served, as webhook.event_types_hold; None: they are served."""
    hold: str | None = (await ask(database, _TYPES["read_hold"]))[0]["hold"]
    return hold
