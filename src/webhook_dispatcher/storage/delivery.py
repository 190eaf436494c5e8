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
    overtaking,
    predecessor,
    was_sent_in_order,
)
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.statements import Ask, Role, Statement, load

MAX_ATTEMPTS = 100
MAX_NEIGHBOURS = 50
"""Attempts before its own first one, among which those are that overtook it, or that it waited behind."""
BEFORE = timedelta(hours=1)
"""How long before an event was written the attempt may have begun that it waited for."""
LATEST = 5
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
        """Return the deliveries of events, in order of seq."""
        return [DeliveryFacts(**row) for row in await self._ask("read_deliveries", events, most)]

    async def part(self, name: str, read: Awaitable[T], nothing: T) -> T:
        """Read a part. A reader for whom one that is refused costs no other returns nothing instead."""
        return await read

    async def gather(self, delivery: DeliveryFacts) -> EventFacts:
        """Return everything that is known of one delivery."""
        merchant = delivery.merchant_id
        [row] = await self._ask("read_circumstances", merchant, delivery.seq, MAX_AHEAD)
        now = Circumstances(**row)
        attempts = await self.part("attempts", self._attempts(delivery.event_id), [])
        pauses = await self.part("pauses", self.pauses(merchant), {})
        commands = await self.part("commands", self.commands_about(delivery.event_id), [])
        neighbours: Sequence[Neighbour] = []
        if not self.unread and was_sent_in_order(delivery, attempts):
            first = attempts[0].started_at if attempts else now.now
            neighbours = await self.part("order", self._neighbours(delivery, first), [])
        if now.at_once is not None:
            neighbours = [other for other in neighbours if other.charge_id == delivery.charge_id]
        return EventFacts(
            delivery=delivery,
            attempts=attempts,
            commands=commands,
            circumstances=now,
            merchant_pause=pauses.get(merchant),
            general_pause=pauses.get(""),
            overtaken_by=overtaking(delivery, neighbours),
            predecessor=predecessor(delivery, neighbours) if attempts else None,
            latest=await self.part("latest attempts", self._latest(merchant, now.now), []),
            unread=self.unread,
        )

    async def _attempts(self, event_id: UUID) -> list[AttemptView]:
        return await read_answered_attempts(self._ask, event_id, MAX_ATTEMPTS)

    async def _latest(self, merchant_id: str, before: datetime) -> list[AttemptView]:
        rows = await self._ask("read_latest_attempts", merchant_id, before, LATEST)
        return [AttemptView(**row) for row in rows]

    async def _neighbours(self, delivery: DeliveryFacts, first: datetime) -> list[Neighbour]:
        since = delivery.created_at - BEFORE
        rows = await self._ask("read_neighbours", delivery.merchant_id, since, first, MAX_NEIGHBOURS)
        return [Neighbour(**row) for row in rows]

    async def pauses(self, merchant_id: str = "") -> dict[str, Pause]:
        """Say which commands paused a merchant and (under an empty name) everything."""
        rows = [dict(row) for row in await self._ask("read_pauses", merchant_id)]
        return {row.pop("scope"): Pause(**row) for row in rows}

    async def commands_about(self, event_id: UUID) -> list[CommandFacts]:
        """Return the commands about one event, in order."""
        return [CommandFacts(**row) for row in await self._ask("read_commands_about", event_id, MAX_ATTEMPTS)]

    async def kept(self) -> tuple[date | None, bool]:
        """Say since which day finished deliveries are kept, and whether charges are indexed."""
        [row] = await self._ask("read_kept")
        return row["kept_since"], row["has_charge_index"]
