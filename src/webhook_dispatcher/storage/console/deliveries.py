"""The delivery log, of one merchant or of all: console_deliveries.sql, bound.

Newest first, by number; what failed at all merchants, by when it failed. A page looks at a bounded number of
deliveries, whatever is asked for: one that is short, or empty, may have a next one all the same, and says how
far it got. A delivery keeps its number while it moves from the outbox to the log and back, and is in one of
the two for each statement: no page skips it, and none repeats it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from webhook_dispatcher.domain.delivery import DeliveryView
from webhook_dispatcher.domain.event import KNOWN_TYPES, State, is_own_type
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.api.charges import is_possible
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.api.event_types import all_types
from webhook_dispatcher.storage.console import positions
from webhook_dispatcher.storage.console.filters import (
    FilterRefused,
    Refusal,
    check_choice,
    check_range,
    check_text,
)
from webhook_dispatcher.storage.console.reading import ask_as
from webhook_dispatcher.storage.statements import load

MAX_LIMIT = 100
LOOK = 5_000
"""Deliveries that one page looks at, at most."""
NEWEST = positions.MAX_NUMBER
_STATES = frozenset(map(str, State))
_OUTCOMES = frozenset(map(str, Outcome))
_STATEMENTS = load("console_deliveries")


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries are wanted: those that match all.

    outcome, status: of the latest attempt. since ≤ time < until: the time is `created_at`, or `finished_at`
        where `of_end`. endpoint: the number of one of the merchant's, who is named then.
    """

    merchant_id: str | None = None
    state: str | None = None
    type: str | None = None
    outcome: str | None = None
    status: int | None = None
    charge_id: str | None = None
    event_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    of_end: bool = False
    endpoint: int | None = None

    @property
    def is_few(self) -> bool:
        """Tell whether it is about one event, or one charge: all of these are found at once."""
        return self.event_id is not None or self.charge_id is not None

    @property
    def is_by_end(self) -> bool:
        """Tell whether the list is in the order in which deliveries failed."""
        return self.state == State.FAILED and self.merchant_id is None and not self.is_few

    def check(self) -> None:
        """Raise FilterRefused where something in it cannot be. Which types are one's own it does not know."""
        check_text("merchant_id", self.merchant_id)
        if self.endpoint is not None and self.merchant_id is None:
            raise FilterRefused("endpoint", Refusal.WHOSE)
        check_text("charge_id", self.charge_id)
        check_choice("state", self.state, _STATES)
        if self.type is not None and not is_own_type(self.type):
            check_choice("type", self.type, KNOWN_TYPES)
        check_choice("outcome", self.outcome, _OUTCOMES)
        if self.status is not None and not 0 <= self.status <= 999:
            raise FilterRefused("status", Refusal.UNKNOWN)
        check_range(self.since, self.until)


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Some deliveries, the newest first.

    next: where to go on, for `list` and for a URL; None where there are no more.
    looked_back_to: the time (as the filter's) of the last delivery looked at, where the look ended before
        the page was full: nothing newer is missing from it.
    is_unindexed: a charge was asked for, and this installation does not index charges.
    """

    deliveries: Sequence[DeliveryView]
    next: str | None = None
    looked_back_to: datetime | None = None
    is_unindexed: bool = False


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a list: below a number, and before an end where the list is by ends."""

    seq: int = NEWEST
    finished_at: datetime | None = None


class Deliveries:
    """Reads on a pool whose sessions plan once (`storage.session.PLANNED_ONCE`); errors are ours.

    All raise SessionOver (`storage.console.reading`) where the session does not hold any more.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def types(self) -> Sequence[str]:
        """Return the types that a filter may name; they are nobody's secret."""
        return await all_types(self._database)

    async def list(
        self, session: bytes, wanted: DeliveryFilter, after: str | None = None, limit: int = 50
    ) -> DeliveryPage:
        """Return at most `limit` deliveries (1 to 100), from a page's `next` on.

        Errors: FilterRefused, before anything is asked.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"limit: must be 1 to {MAX_LIMIT}, not {limit}")
        wanted.check()
        place = _read(after, wanted)
        if wanted.is_few:
            return await self._few(session, wanted, place, limit)
        name, arguments = await self._question(session, wanted, place)
        of_merchant = () if name != "show_deliveries_of_merchant" else (wanted.endpoint,)
        rows = await self._ask(name, session, *arguments, LOOK, limit + 1, wanted.of_end, *of_merchant)
        return _page(rows, limit, wanted.is_by_end)

    async def _question(
        self, session: bytes, wanted: DeliveryFilter, place: _Place
    ) -> tuple[str, tuple[object, ...]]:
        conditions = wanted.type, wanted.outcome, wanted.status, wanted.since, wanted.until
        if wanted.is_by_end:
            end = place.finished_at or (wanted.until if wanted.of_end else None)
            return "show_failed_deliveries", (end, place.seq, *conditions)
        first, last = await self._numbers(session, wanted)
        numbers = min(place.seq, last), first
        if wanted.merchant_id is not None:
            return "show_deliveries_of_merchant", (wanted.merchant_id, *numbers, wanted.state, *conditions)
        return "show_deliveries", (*numbers, wanted.state, *conditions)

    async def _numbers(self, session: bytes, wanted: DeliveryFilter) -> tuple[int, int]:
        """Say between which numbers events of a range of time are; what ended then may be of long before."""
        since = None if wanted.of_end else wanted.since
        if since is None and wanted.until is None:
            return 0, NEWEST
        [row] = await self._ask("show_numbers", session, since, wanted.until, wanted.merchant_id)
        return row["first_seq"], row["end_seq"]

    async def _few(self, session: bytes, wanted: DeliveryFilter, place: _Place, limit: int) -> DeliveryPage:
        charge_id = None if wanted.event_id is not None else wanted.charge_id
        if charge_id is not None and not is_possible(charge_id):
            return DeliveryPage([])
        found = wanted.event_id, charge_id, wanted.merchant_id, place.seq, wanted.state
        conditions = wanted.type, wanted.outcome, wanted.status, wanted.since, wanted.until
        end = limit + 1, wanted.of_end, wanted.endpoint
        rows = await self._ask("show_few_deliveries", session, *found, *conditions, *end)
        page = _page(rows, limit, is_by_end=False)
        if wanted.charge_id is not None and not rows:
            [row] = await self._ask("is_charge_shown", session)
            return DeliveryPage([], is_unindexed=not row["is_indexed"])
        return page

    async def _ask(self, name: str, session: bytes, *arguments: object) -> Sequence[dict[str, Any]]:
        return await ask_as(self._database, _STATEMENTS[name], session, *arguments)


def _page(rows: Sequence[Mapping[str, Any]], limit: int, is_by_end: bool) -> DeliveryPage:
    """Make a page of what matches.

    The next goes on behind its last delivery, or where it is not full, behind the last that was looked at.
    """
    matching = [_delivery(row) for row in rows if row["is_match"]]
    if len(matching) > limit:
        return DeliveryPage(matching[:limit], _written(matching[limit - 1], is_by_end))
    last = next((_delivery(row) for row in rows if row["is_last_looked_at"]), None)
    if last is None:
        return DeliveryPage(matching)
    return DeliveryPage(
        matching, _written(last, is_by_end), last.finished_at if is_by_end else last.created_at
    )


def _delivery(row: Mapping[str, Any]) -> DeliveryView:
    return DeliveryView(**{name: value for name, value in row.items() if not name.startswith("is_")})


def _written(delivery: DeliveryView, is_by_end: bool) -> str:
    """Write the place behind a delivery."""
    if not is_by_end or delivery.finished_at is None:
        return positions.write(delivery.seq)
    return positions.write(delivery.seq, positions.number_of(delivery.finished_at))


def _read(after: str | None, wanted: DeliveryFilter) -> _Place:
    if after is None:
        return _Place()
    if not wanted.is_by_end:
        [seq] = positions.read(after, int)
        return _Place(int(seq))
    seq, end = map(int, positions.read(after, int, int))
    return _Place(seq, positions.instant_of(end))
