"""One delivery, its attempts and what stands around it: attempts.sql and delivery.sql, for whoever asks."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import TypeVar
from uuid import UUID

from webhook_dispatcher.domain.command import CommandFacts
from webhook_dispatcher.domain.delivery import (
    MAX_AHEAD,
    AttemptView,
    Circumstances,
    DeliveryFacts,
    EventFacts,
    Neighbour,
    Pause,
    Route,
    overtaking,
    predecessor,
    was_sent_in_order,
)
from webhook_dispatcher.domain.lane import MAX_ENDPOINTS, lane_named
from webhook_dispatcher.domain.record import ROUTED, UNWANTED
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.statements import Ask, Role, Statement, load

MAX_ATTEMPTS = 100
MAX_NEIGHBOURS = 50
"""Attempts before its own first one, among which those are that overtook it, or that it waited behind."""
BEFORE = timedelta(hours=1)
"""How long before an event was written the attempt may have begun that it waited for."""
LATEST = 5
MAX_ROWS = 1 + MAX_ENDPOINTS
"""Of an event: itself, and its deliveries at once."""
T = TypeVar("T")


def questions(role: Role) -> Mapping[str, Statement]:
    """Read what DeliveryReader asks, by name."""
    return {**load("attempts", role), **load("delivery", role)}


async def read_attempts(ask: Ask, event_id: UUID, most: int | None) -> list[AttemptView]:
    """Return the first attempts of an event, without what was answered."""
    return [AttemptView(**row) for row in await ask("read_attempts", event_id, most)]


async def read_answered_attempts(ask: Ask, event_id: UUID, most: int | None) -> list[AttemptView]:
    """Return the first attempts of an event, with how the answers begin for who may see that."""
    made = await read_attempts(ask, event_id, most)
    if all(attempt.outcome == Outcome.DELIVERED for attempt in made):
        return made
    kept = await ask("read_excerpts", event_id, most)
    excerpts = {(row["attempt"], row["started_at"]): row["response_excerpt"] for row in kept}
    return [
        replace(attempt, response_excerpt=excerpts.get((attempt.attempt, attempt.started_at)))
        for attempt in made
    ]


class DeliveryReader:
    """Reads what is known of a delivery. unread: parts that were refused, each with why."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.unread: dict[str, str] = {}

    async def find(self, events: Sequence[UUID], most: int) -> list[DeliveryFacts]:
        """Return the deliveries of events, by seq; of an event that was routed it and its copies."""
        found = [DeliveryFacts(**row) for row in await self._ask("read_deliveries", events, most, [])]
        if not any(each.state == UNWANTED or each.copy_of == each.event_id for each in found):
            return found
        merchants = list({each.merchant_id for each in found})
        rows = await self._ask("read_deliveries", events, most * MAX_ROWS, merchants)
        found = [DeliveryFacts(**row) for row in rows]
        routed = {each.copy_of for each in found}
        return [
            replace(each, state=ROUTED) if each.state == UNWANTED and each.event_id in routed else each
            for each in found
        ]

    async def part(self, name: str, read: Awaitable[T], nothing: T) -> T:
        """Read a part. A reader for whom one that is refused costs no other returns nothing instead."""
        return await read

    async def gather(self, delivery: DeliveryFacts) -> EventFacts:
        """Return everything that is known of one delivery."""
        merchant, number = delivery.merchant_id, delivery.endpoint
        lanes = [lane_named(merchant, number), *([merchant] if number == 1 else [])]
        if number is None:
            lanes += [lane_named(merchant, 1)]
        owed_in = lanes[0] if delivery.finished_at is None else None
        [row] = await self._ask("read_circumstances", lanes, delivery.seq, MAX_AHEAD, owed_in)
        now = Circumstances(**row)
        # A routed event's attempts, and the commands about it, are told of with its first copy.
        is_sent = delivery.state != ROUTED
        attempts = await self.part("attempts", self._attempts(delivery.event_id), []) if is_sent else []
        pauses = await self.part("pauses", self.pauses(now.lane), {})
        ids = [delivery.event_id, *([delivery.copy_of] if delivery.copy_of else [])]
        commands: Sequence[CommandFacts] = []
        if is_sent:
            commands = await self.part("commands", self.commands_about(*ids, endpoint=number), [])
        neighbours: Sequence[Neighbour] = []
        if not self.unread and was_sent_in_order(delivery, attempts):
            first = attempts[0].started_at if attempts else now.now
            neighbours = await self.part("order", self._neighbours(delivery, now.lane, first), [])
        if now.at_once is not None:
            neighbours = [other for other in neighbours if other.charge_id == delivery.charge_id]
        return EventFacts(
            delivery=delivery,
            attempts=attempts,
            commands=commands,
            circumstances=now,
            merchant_pause=pauses.get(now.lane),
            general_pause=pauses.get(""),
            overtaken_by=overtaking(delivery, neighbours),
            predecessor=predecessor(delivery, neighbours) if attempts else None,
            latest=await self.part("latest attempts", self._latest(now.lane, now.now), []),
            route=None if is_sent else await self.part("route", self._route(delivery), None),
            unread=self.unread,
        )

    async def _attempts(self, event_id: UUID) -> list[AttemptView]:
        return await read_answered_attempts(self._ask, event_id, MAX_ATTEMPTS)

    async def _route(self, event: DeliveryFacts) -> Route:
        copies = await self.find([event.event_id], MAX_ROWS)
        to = sorted({copy.endpoint for copy in copies if copy.endpoint is not None})
        rows = await self._ask("read_endpoints_since", event.merchant_id, event.created_at)
        return Route(to, [row["number"] for row in rows if row["number"] not in to])

    async def _latest(self, lane: str, before: datetime) -> list[AttemptView]:
        rows = await self._ask("read_latest_attempts", lane, before, LATEST)
        return [AttemptView(**row) for row in rows]

    async def _neighbours(self, delivery: DeliveryFacts, lane: str, first: datetime) -> list[Neighbour]:
        since = delivery.created_at - BEFORE
        rows = await self._ask("read_neighbours", lane, since, first, MAX_NEIGHBOURS)
        return [Neighbour(**row) for row in rows]

    async def pauses(self, lane: str = "") -> dict[str, Pause]:
        """Say which commands paused a lane and (under an empty name) everything."""
        rows = [dict(row) for row in await self._ask("read_pauses", lane)]
        return {row.pop("scope"): Pause(**row) for row in rows}

    async def commands_about(self, *ids: UUID, endpoint: int | None = None) -> list[CommandFacts]:
        """Return the commands about an event, or a delivery of it, in order; not those to other endpoints."""
        rows = await self._ask("read_commands_about", ids, MAX_ATTEMPTS, endpoint)
        return [CommandFacts(**row) for row in rows]

    async def kept(self) -> tuple[date | None, bool]:
        """Say since which day finished deliveries are kept, and whether charges are indexed."""
        [row] = await self._ask("read_kept")
        return row["kept_since"], row["has_charge_index"]
