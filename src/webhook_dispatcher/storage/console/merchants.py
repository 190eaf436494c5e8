"""Merchants, listed and one by one: console_merchants.sql and fares.sql, bound.

A list is of lanes: each merchant that has, or had, an endpoint or events has one. By id it is read from an
index. There is no index of who fails, is behind, or has most events: these are found among a bounded number
of lanes, of owed, or of the newest, events, and `MerchantPage.is_complete` says whether that was all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

from webhook_dispatcher.domain.delivery import AttemptView
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.domain.merchant import MerchantFacts
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.api.event_types import filter_types
from webhook_dispatcher.storage.console import positions
from webhook_dispatcher.storage.console.filters import EARLIEST, LATEST, check_text
from webhook_dispatcher.storage.console.reading import MAX_COUNTED, ask_as
from webhook_dispatcher.storage.fares import fails, find_whoever_failed, read_fares
from webhook_dispatcher.storage.statements import CONSOLE, Ask, load

MAX_LIMIT = 100
MAX_WAITING = 1_000
"""Up to here a list counts what waits for a merchant."""
MAX_LANES_LOOKED_AT = 10_000
MAX_EVENTS_LOOKED_AT = 10_000
MAX_LANES_THAT_FAILED = 100_000
"""Among so many it is looked for those of which an attempt failed: one after the other, without an index."""
MAX_JUDGED = 1_000
"""Merchants whose latest attempts are looked at, at once."""
MAX_FAILED_LOOKED_AT = 2_000
FAILED_WITHIN = timedelta(hours=24)
LATEST_ATTEMPTS = 20
"""Attempts that the page of one merchant shows."""
MAX_KEYS = 100
_LAST_ENDPOINT = 999
"""Of all lanes of a merchant, that of this number sorts last."""
_LAST = "\U0010ffff"
"""The last of all characters: ids that begin with a prefix lie between it and the prefix with this."""
_STATEMENTS = {**load("console_merchants"), **load("fares", CONSOLE)}


class MerchantOrder(StrEnum):
    """In which order a list is. FAILING, BEHIND and PAUSED list those alone; VOLUME the busiest first."""

    ID = "id"
    BEHIND = "behind"
    FAILING = "failing"
    VOLUME = "volume"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class MerchantRow(MerchantFacts):
    """One merchant in a list. waiting, waiting_for_retry: up to MAX_WAITING + 1.

    failed: deliveries that failed in the last 24 hours, as far as these were looked at. volume: its events
        among the newest that were looked at; None where the list is in another order. What failed latest and
        waiting_for_retry are of those that fail, where these alone are listed.
    """

    failed: int
    volume: int | None = None


@dataclass(frozen=True, slots=True)
class MerchantPage:
    """Some merchants. now: the database's clock.

    next: as of DeliveryPage. is_complete: all that the order is about was looked at; without, the list is of
        the oldest waiting, or newest, alone. failed_is_cut: more failed in 24 hours than were looked at.
    looked_at: how many events `volume` is out of.
    """

    now: datetime
    merchants: Sequence[MerchantRow]
    next: str | None = None
    is_complete: bool = True
    failed_is_cut: bool = False
    looked_at: int | None = None


@dataclass(frozen=True, slots=True)
class ApiKeyRow:
    """A key of the Partner API, without what could prove it."""

    client_id: str
    merchant_id: str
    name: str
    created_at: datetime
    created_by: str
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


@dataclass(frozen=True, slots=True)
class ApiKeyPage:
    """Some keys of all merchants, the newest first. next: as of DeliveryPage."""

    keys: Sequence[ApiKeyRow]
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MerchantAttempt(AttemptView):
    """One of the latest attempts at a merchant. type: None where the delivery is gone.

    endpoint: its number, where the merchant has several.
    """

    event_id: UUID
    endpoint: int | None
    type: str | None
    charge_id: str | None


@dataclass(frozen=True, slots=True)
class MerchantEndpoint:
    """One of a merchant's endpoints.

    types: those that are sent; None: all. at_once: how many events are attempted at once, in the order of
    each charge; None: one, in the order of the merchant.
    """

    number: int
    name: str | None
    url: str
    types: Sequence[str] | None
    at_once: int | None
    secret_created_at: datetime
    previous_secret_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merchant(MerchantFacts):
    """All that the page of one merchant shows.

    waiting, waiting_for_retry: up to MAX_COUNTED + 1. everything_is_paused: for all merchants.
    configured: its endpoints; `fares` says how one fares.
    """

    now: datetime
    endpoint_removed_at: datetime | None
    everything_is_paused: bool
    configured: Sequence[MerchantEndpoint]
    api_keys: Sequence[ApiKeyRow]
    latest_attempts: Sequence[MerchantAttempt]

    def configuration(self, number: int) -> MerchantEndpoint | None:
        """Return the endpoint of this number; None where there is none."""
        return next((each for each in self.configured if each.number == number), None)

    def fares(self, number: int) -> MerchantFacts:
        """Say how the endpoint of this number fares: as the merchant does, where it is the only one.

        What is not routed yet is number 1's.
        """
        found = next((each for each in self.endpoints if each.endpoint == number), None)
        if found is None or number != 1:
            return found or self
        others = [each for each in self.endpoints if each is not found]
        return replace(
            found,
            waiting=self.waiting - sum(each.waiting for each in others),
            waiting_for_retry=self.waiting_for_retry - sum(each.waiting_for_retry for each in others),
        )


class Merchants:
    """Reads as `storage.console.deliveries` does; SessionOver where the session does not hold any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self,
        session: bytes,
        order: MerchantOrder = MerchantOrder.ID,
        prefix: str = "",
        after: str | None = None,
        limit: int = 50,
    ) -> MerchantPage:
        """Return at most `limit` merchants (1 to 100), from a page's `next` on.

        prefix: what their ids begin with. Errors: FilterRefused, before anything is asked.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"limit: must be 1 to {MAX_LIMIT}, not {limit}")
        check_text("prefix", prefix)
        [clock] = await self._ask(session, "show_now")
        looked = await self._find(session, order, prefix, after, limit + 1)
        found = [
            row for row in looked if order is not MerchantOrder.FAILING or row["is_suspended"] or fails(row)
        ]
        merchants = dict[str, dict[str, Any]]()
        for row in found:
            # Of one that has several endpoints that fail, the first.
            merchants.setdefault(row["merchant_id"], row)
        found = list(merchants.values())
        shown = found[:limit]
        # Of those that were judged perhaps few fail: the list goes on behind the last of them.
        more = shown[-1:] if len(found) > limit else looked[MAX_JUDGED - 1 :]
        rows, failed_is_cut = await self._fares(session, shown, in_full=order is MerchantOrder.FAILING)
        if order is MerchantOrder.FAILING:
            rows = [row for row in rows if not _was_named(row, _moment(after))]
        return MerchantPage(
            now=clock["now"],
            merchants=rows,
            next=_place(order, more[0]) if more else None,
            is_complete=all(row.get("is_complete", True) for row in looked),
            failed_is_cut=failed_is_cut,
            looked_at=found[0]["looked_at"] if found and order is MerchantOrder.VOLUME else None,
        )

    async def get(self, session: bytes, merchant_id: str) -> Merchant | None:
        """Return one merchant; None where it never had an endpoint or an event. Errors: FilterRefused."""
        check_text("merchant_id", merchant_id)
        rows = await self._ask(session, "show_merchant", merchant_id)
        if not rows:
            return None
        [fares] = await read_fares(partial(self._ask, session), [merchant_id], MAX_COUNTED + 1)
        endpoints = await self._ask(session, "show_endpoints", merchant_id)
        made = await self._ask(session, "show_latest_attempts", merchant_id, LATEST_ATTEMPTS)
        return Merchant(
            **fares,
            **rows[0],
            configured=[MerchantEndpoint(**row) for row in endpoints],
            api_keys=await self.api_keys(session, merchant_id),
            latest_attempts=[MerchantAttempt(**row) for row in made],
        )

    async def api_keys(self, session: bytes, merchant_id: str) -> Sequence[ApiKeyRow]:
        """Return a merchant's keys, the newest first, at most MAX_KEYS."""
        return [ApiKeyRow(**row) for row in await self._ask(session, "show_api_keys", merchant_id, MAX_KEYS)]

    async def types(self, merchant_id: str) -> Sequence[str]:
        """Return the types that the filter of a merchant may name; they are nobody's secret."""
        return await filter_types(self._database, merchant_id)

    async def all_api_keys(self, session: bytes, after: str | None = None, limit: int = 50) -> ApiKeyPage:
        """Return at most `limit` keys of all merchants, from a page's `next` on. Errors: FilterRefused."""
        [before] = positions.read(after, int) if after is not None else [positions.MAX_NUMBER]
        rows = await self._ask(session, "show_all_api_keys", before, limit + 1)
        numbers = [row.pop("id") for row in rows]
        more = positions.write(numbers[limit - 1]) if len(rows) > limit else None
        return ApiKeyPage([ApiKeyRow(**row) for row in rows[:limit]], more)

    async def of_key(self, session: bytes, client_id: str) -> str | None:
        """Return the merchant whose API key this is; None where there is no such key."""
        rows = await self._ask(session, "show_merchant_of_key", client_id)
        return rows[0]["merchant_id"] if rows else None

    async def _find(
        self, session: bytes, order: MerchantOrder, prefix: str, after: str | None, most: int
    ) -> Sequence[dict[str, Any]]:
        """Find whom a page is of, in its order."""
        match order:
            case MerchantOrder.ID | MerchantOrder.PAUSED:
                name = "show_merchants_by_id" if order is MerchantOrder.ID else "show_paused_merchants"
                [known] = positions.read(after, str) if after is not None else [""]
                return await self._ask(session, name, known, prefix, prefix + _LAST, most)
            case MerchantOrder.FAILING:
                place = *_moment(after), prefix
                return await find_failing(partial(self._ask, session), *place)
            case MerchantOrder.BEHIND:
                place = *_moment(after), prefix
                bounds = MAX_LANES_LOOKED_AT, MAX_EVENTS_LOOKED_AT
                return await self._ask(session, "show_merchants_behind", *place, *bounds, most)
            case MerchantOrder.VOLUME:
                sample = _sample(after)
                return await self._ask(
                    session, "show_merchants_by_volume", *sample, prefix, MAX_EVENTS_LOOKED_AT, most
                )

    async def _fares(
        self, session: bytes, found: Sequence[dict[str, Any]], in_full: bool
    ) -> tuple[Sequence[MerchantRow], bool]:
        """Read how merchants fare, in their order, and whether more failed than was looked at."""
        merchants = [row["merchant_id"] for row in found]
        if not merchants:
            return [], False
        fares = await read_fares(partial(self._ask, session), merchants, MAX_WAITING + 1, in_full)
        failed = await self._ask(session, "show_failed_of", merchants, FAILED_WITHIN, MAX_FAILED_LOOKED_AT)
        failed_of = {row["merchant_id"]: row["failed"] for row in failed}
        rows = [
            MerchantRow(**fare, failed=failed_of.get(row["merchant_id"], 0), volume=row.get("volume"))
            for row, fare in zip(found, fares, strict=True)
        ]
        return rows, any(row["is_cut"] for row in failed)

    async def _ask(self, session: bytes, name: str, *arguments: object) -> Sequence[dict[str, Any]]:
        return await ask_as(self._database, _STATEMENTS[name], session, *arguments)


async def find_failing(
    ask: Ask, place_at: datetime = EARLIEST, after: str = "", prefix: str = "", with_suspended: bool = True
) -> Sequence[dict[str, Any]]:
    """Return at most MAX_JUDGED merchants that may fail, from a place on."""
    place = place_at, after, prefix, with_suspended
    return await find_whoever_failed(ask, MAX_LANES_THAT_FAILED, MAX_JUDGED, *place)


def _moment(after: str | None) -> tuple[datetime, str]:
    """Read behind which instant, and which merchant of that instant, a list goes on."""
    if after is None:
        return EARLIEST, ""
    number, merchant_id = positions.read(after, int, str)
    return positions.instant_of(int(number)), lane_named(str(merchant_id), _LAST_ENDPOINT)


def _was_named(row: MerchantRow, place: tuple[datetime, str]) -> bool:
    """Tell whether a merchant fails at another endpoint too, for which an earlier page has named it."""
    return any(
        (each.failing_since or each.suspended_at or LATEST, lane_named(each.merchant_id, each.endpoint))
        <= place
        for each in row.endpoints
        if each.fails or each.suspended_at
    )


def _sample(after: str | None) -> Sequence[int | str]:
    """Read below which number a sample is, and behind which volume and merchant a list goes on."""
    if after is None:
        return positions.MAX_NUMBER, positions.MAX_NUMBER, ""
    return positions.read(after, int, int, str)


def _place(order: MerchantOrder, last: Mapping[str, Any]) -> str:
    """Write the place behind a merchant."""
    merchant_id: str = last["merchant_id"]
    match order:
        case MerchantOrder.ID | MerchantOrder.PAUSED:
            return positions.write(merchant_id)
        case MerchantOrder.FAILING:
            return positions.write(positions.number_of(last["place_at"]), merchant_id)
        case MerchantOrder.BEHIND:
            return positions.write(positions.number_of(last["oldest_waiting_at"]), merchant_id)
        case MerchantOrder.VOLUME:
            return positions.write(last["newest_seq"] + 1, last["volume"], merchant_id)
