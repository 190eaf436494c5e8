"""What a merchant reads of its deliveries: api_deliveries.sql and attempts.sql, bound.

No merchant's id gets here: each statement finds the merchant by the token's hash. An id that is another
merchant's and one that does not exist are the same: nothing is found. A token that has ended is TokenEnded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple
from uuid import UUID

import asyncpg

from webhook_dispatcher.domain.delivery import AttemptView
from webhook_dispatcher.storage.api.charges import Charges, is_possible
from webhook_dispatcher.storage.api.database import Database, ask, ask_own
from webhook_dispatcher.storage.delivery import read_attempts
from webhook_dispatcher.storage.statements import PARTNER_API, load

MAX_LIMIT = 100
MAX_ATTEMPTS = 1_000
NEWEST = 2**63 - 1
"""The position of a list's first page."""
_STATEMENTS = {**load("api_deliveries"), **load("attempts", PARTNER_API)}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which deliveries are wanted: those that match all. Times are of `created_at`, since ≤ it < until.

    endpoint: its number.
    """

    state: str | None = None
    type: str | None = None
    charge_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    endpoint: int | None = None
    event_id: UUID | None = None


class OwnDelivery(NamedTuple):
    """A delivery as it is shown to its merchant. A tuple: made for each row of a list.

    endpoint_id: None of the only one, of one that was removed, and while it is not known yet to whom it goes.
    """

    event_id: UUID
    delivery_id: UUID
    endpoint_id: UUID | None
    seq: int
    type: str
    created_at: datetime
    state: str
    failed_reason: str | None
    attempts: int
    next_attempt_at: datetime | None
    last_status: int | None
    last_outcome: str | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class WholeDelivery:
    """One delivery with its payload (the producer's bytes) and its attempts, the first of them first."""

    delivery: OwnDelivery
    object: bytes
    attempts: Sequence[AttemptView]


@dataclass(frozen=True, slots=True)
class Page:
    """Some deliveries, the newest first. position: from where to go on; None where there are no more.

    A page may be short, and even empty, and have a position: so many rows were looked at that do not match.
    """

    deliveries: Sequence[OwnDelivery]
    position: int | None


class Deliveries:
    """Reads on a pool, whose sessions plan once (`storage.session.PLANNED_ONCE`); errors are ours."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._charges = Charges(database)

    async def list(self, token_hash: bytes, wanted: Filter, position: int, limit: int) -> Page:
        """Return at most `limit` (1 to 100) deliveries below a position, which is NEWEST at first.

        Errors: ChargesNotIndexed where a charge is asked for and nothing was found for want of the index.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"limit: must be 1 to {MAX_LIMIT}, not {limit}")
        page = _page(await self._examined(token_hash, wanted, position, limit), limit)
        if wanted.charge_id is not None and wanted.event_id is None and not page.deliveries:
            await self._charges.refuse_unindexed()
        return page

    async def get(self, token_hash: bytes, delivery_id: UUID) -> WholeDelivery | None:
        """Return one delivery; an event's id is its first's. Of an id that was used again, the latest."""
        rows = await self._own(token_hash, "read_own_delivery", delivery_id)
        if not rows:
            return None
        text: str = rows[0]["object"]
        made = await read_attempts(partial(self._own, token_hash), delivery_id, MAX_ATTEMPTS)
        return WholeDelivery(_delivery(rows[0]), text.encode(), made)

    async def cursor_key(self) -> bytes:
        """Return what this database's cursors are encrypted with."""
        key: bytes = (await ask(self._database, _STATEMENTS["read_cursor_key"]))[0]["key"]
        return key

    async def _examined(
        self, token_hash: bytes, wanted: Filter, position: int, limit: int
    ) -> Sequence[asyncpg.Record]:
        of_any_state: list[object] = [wanted.type, wanted.since, wanted.until, wanted.endpoint]
        conditions = [wanted.state, *of_any_state]
        if wanted.charge_id is not None and not is_possible(wanted.charge_id):
            return []
        if wanted.event_id is not None:
            name, asked = "list_own_deliveries_of_event", [*conditions, wanted.charge_id, wanted.event_id]
        elif wanted.charge_id is not None:
            name, asked = "list_own_deliveries_of_charge", [*conditions, wanted.charge_id]
        elif wanted.state == "failed":
            name, asked = "list_own_failed", of_any_state
        else:
            name, asked = "list_own_deliveries", conditions
        return await self._own(token_hash, name, position, *asked, limit + 1)

    async def _own(self, token_hash: bytes, name: str, *arguments: object) -> Sequence[asyncpg.Record]:
        return await ask_own(self._database, _STATEMENTS[name], token_hash, *arguments)


def _page(examined: Sequence[asyncpg.Record], limit: int) -> Page:
    """Make a page of what matches.

    The next one goes on behind its last delivery, or where it is not full, behind the last that was examined.
    """
    end = next((row["seq"] for row in examined if row["is_last_examined"]), None)
    matching = [_delivery(row) for row in examined if row["is_match"]]
    if len(matching) > limit:
        return Page(matching[:limit], matching[limit - 1].seq)
    return Page(matching, end)


def _delivery(row: asyncpg.Record) -> OwnDelivery:
    return OwnDelivery(*row[: len(OwnDelivery._fields)])
