"""One delivery and its story: delivery.sql and console_delivery.sql, bound.

The facts are those that `explain` has, by the same questions, read by a person's session: so a story is told
alike to both. Operators alone get the payload and what merchants answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any
from uuid import UUID

from webhook_dispatcher.domain.command import CommandFacts
from webhook_dispatcher.domain.delivery import DeliveryFacts, EventFacts, Surroundings
from webhook_dispatcher.domain.endpoint import EndpointChange
from webhook_dispatcher.domain.event import Trigger
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.console.commands import LOOK
from webhook_dispatcher.storage.console.reading import ask_as
from webhook_dispatcher.storage.delivery import DeliveryReader, questions
from webhook_dispatcher.storage.statements import CONSOLE, load

MAX_PAUSES = 50
MAX_CHANGES = 50
MAX_BY_HAND = 5
"""For how many attempts that people asked for, the latest, the mass command behind them is looked up."""
MAX_CHUNKS = 400
MAX_DELIVERIES = 20
"""Deliveries of one event id that are listed. There is one, unless the id was used again after its end."""
_STATEMENTS = {**load("console_delivery"), **questions(CONSOLE)}


@dataclass(frozen=True, slots=True)
class Story:
    """One delivery, all that is known of it and around it, and its payload.

    payload: the producer's bytes; None for viewers. others: further deliveries of the event, to each of
        several endpoints, or of an id that was used again; where it was routed, that too.
    """

    facts: EventFacts
    around: Surroundings
    payload: bytes | None
    others: Sequence[DeliveryFacts]


@dataclass(frozen=True, slots=True)
class NotFound:
    """What there is to say of an event that is not found: kept_since, and which commands were about it."""

    kept_since: date | None
    has_charge_index: bool
    commands: Sequence[CommandFacts]


class Stories:
    """Reads as `storage.console.deliveries` does; SessionOver where the session does not hold any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, session: bytes, event_id: UUID, seq: int | None = None) -> Story | None:
        """Return a delivery of an event: the one of this number, else the latest."""
        reader = self._reader(session)
        found = await reader.find([event_id], MAX_DELIVERIES)
        chosen = [delivery for delivery in found if seq in (None, delivery.seq)]
        if not chosen:
            return None
        # Of an event that was routed, the first delivery has its id, and comes behind it.
        delivery = next((each for each in reversed(chosen) if each.event_id == event_id), chosen[-1])
        payloads = await self._ask(session, "show_payload", delivery.event_id, delivery.seq)
        facts = await reader.gather(delivery)
        return Story(
            facts=facts,
            around=await self._look_around(session, facts),
            payload=payloads[0]["object"].encode() if payloads else None,
            others=[other for other in found if other.seq != delivery.seq],
        )

    async def explain_unfound(self, session: bytes, event_id: UUID) -> NotFound:
        """Return what there is to say of an event that `get` did not find."""
        reader = self._reader(session)
        return NotFound(*await reader.kept(), commands=await reader.commands_about(event_id))

    async def _look_around(self, session: bytes, facts: EventFacts) -> Surroundings:
        delivery = facts.delivery
        merchant, until = delivery.merchant_id, delivery.finished_at or facts.circumstances.now
        # What is not routed is number 1's, as the only one is.
        period, endpoint = (merchant, delivery.created_at, until), delivery.endpoint or 1
        rows = [
            *await self._ask(session, "show_commands_around", *period, MAX_PAUSES, LOOK, endpoint),
            *await self._sent_by(session, facts),
        ]
        changes = await self._ask(session, "show_changes", *period, MAX_CHANGES, endpoint)
        return Surroundings(
            sorted({CommandFacts(**row) for row in rows}, key=lambda command: command.id),
            [EndpointChange(**row) for row in changes],
        )

    async def _sent_by(self, session: bytes, facts: EventFacts) -> Sequence[dict[str, Any]]:
        """Find the mass commands that sent it again."""
        asked = [attempt.started_at for attempt in facts.attempts if attempt.trigger != Trigger.SCHEDULE]
        if facts.delivery.trigger not in (None, Trigger.SCHEDULE):
            asked.append(facts.circumstances.now)
        if not asked:
            return []
        place = facts.delivery.seq, facts.delivery.copy_of, asked[-MAX_BY_HAND:]
        return await self._ask(session, "show_commands_that_sent", *place, MAX_CHUNKS)

    def _reader(self, session: bytes) -> DeliveryReader:
        return DeliveryReader(partial(self._ask, session))

    async def _ask(self, session: bytes, name: str, *arguments: object) -> Sequence[dict[str, Any]]:
        return await ask_as(self._database, _STATEMENTS[name], session, *arguments)
