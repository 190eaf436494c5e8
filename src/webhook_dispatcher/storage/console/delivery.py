"""One delivery and its story: console_delivery.sql, bound.

The facts are those that `explain` has (`storage.insight.EventFacts`), read by a person's session: so a story
is told alike to both. Operators alone get the payload and what merchants answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from webhook_dispatcher.domain.event import Trigger
from webhook_dispatcher.domain.signing import SealedSecret
from webhook_dispatcher.storage.administration import AttemptView, EndpointChange
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.console.commands import LOOK
from webhook_dispatcher.storage.console.reading import ask_as
from webhook_dispatcher.storage.insight import (
    LATEST,
    MAX_AHEAD,
    MAX_ATTEMPTS,
    MAX_OVERTAKING,
    Circumstances,
    CommandFacts,
    DeliveryFacts,
    EventFacts,
    Overtaking,
    Pause,
    Predecessor,
    Surroundings,
    was_sent_in_order,
)
from webhook_dispatcher.storage.statements import load

MAX_PREDECESSORS = 20
"""Attempts among which the one is looked for that an event waited behind."""
MAX_PAUSES = 50
MAX_CHANGES = 50
MAX_BY_HAND = 5
"""For how many attempts that people asked for, the latest, the mass command behind them is looked up."""
MAX_CHUNKS = 400
MAX_DELIVERIES = 20
"""Deliveries of one event id that are listed. There is one, unless the id was used again after its end."""
WITHHELD = SealedSecret("withheld", b"")
"""Stands where a merchant has a secret: the console's role sees none."""
_STATEMENTS = load("console_delivery")


@dataclass(frozen=True, slots=True)
class Story:
    """One delivery, all that is known of it and around it, and its payload.

    facts.circumstances.secret: WITHHELD, or None without an endpoint.
    payload: the producer's bytes; None for viewers. others: numbers of further deliveries of the same id.
    """

    facts: EventFacts
    around: Surroundings
    payload: bytes | None
    others: Sequence[int]


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
        found = await self._ask("show_events_deliveries", session, event_id, MAX_DELIVERIES)
        chosen = [row for row in found if seq in (None, row["seq"])]
        if not chosen:
            return None
        delivery = DeliveryFacts(**chosen[-1])
        payloads = await self._ask("show_payload", session, event_id, delivery.seq)
        facts = await self._gather(session, delivery)
        return Story(
            facts=facts,
            around=await self._look_around(session, facts),
            payload=payloads[0]["object"].encode() if payloads else None,
            others=[row["seq"] for row in found if row["seq"] != delivery.seq],
        )

    async def explain_unfound(self, session: bytes, event_id: UUID) -> NotFound:
        """Return what there is to say of an event that `get` did not find."""
        [kept] = await self._ask("show_kept", session)
        return NotFound(**kept, commands=await self._commands(session, event_id))

    async def _gather(self, session: bytes, delivery: DeliveryFacts) -> EventFacts:
        merchant = delivery.merchant_id
        [circumstances] = await self._ask("show_circumstances", session, merchant, delivery.seq, MAX_AHEAD)
        now: datetime = circumstances["now"]
        made = await self._ask("show_attempts", session, delivery.event_id, MAX_ATTEMPTS)
        attempts = [AttemptView(**row) for row in made]
        latest = await self._ask("show_attempts_before", session, merchant, now, LATEST)
        pauses = {row.pop("scope"): Pause(**row) for row in await self._ask("show_pauses", session, merchant)}
        return EventFacts(
            delivery=delivery,
            attempts=attempts,
            commands=await self._commands(session, delivery.event_id),
            circumstances=_circumstances(circumstances),
            merchant_pause=pauses.get(merchant),
            general_pause=pauses.get(""),
            overtaken_by=await self._overtaking(session, delivery, attempts, now),
            latest=[AttemptView(**row) for row in latest],
        )

    async def _look_around(self, session: bytes, facts: EventFacts) -> Surroundings:
        delivery = facts.delivery
        merchant, until = delivery.merchant_id, delivery.finished_at or facts.circumstances.now
        period = merchant, delivery.created_at, until
        rows = [
            *await self._ask("show_commands_around", session, *period, MAX_PAUSES, LOOK),
            *await self._sent_by(session, facts),
        ]
        changes = await self._ask("show_changes", session, *period, MAX_CHANGES)
        return Surroundings(
            await self._predecessor(session, facts),
            sorted({CommandFacts(**row) for row in rows}, key=lambda command: command.id),
            [EndpointChange(**row) for row in changes],
        )

    async def _predecessor(self, session: bytes, facts: EventFacts) -> Predecessor | None:
        delivery = facts.delivery
        if not facts.attempts or not was_sent_in_order(delivery, facts.attempts):
            return None
        place = delivery.merchant_id, delivery.seq, delivery.created_at, facts.attempts[0].started_at
        rows = await self._ask("show_predecessor", session, *place, MAX_PREDECESSORS)
        return Predecessor(**rows[0]) if rows else None

    async def _sent_by(self, session: bytes, facts: EventFacts) -> Sequence[dict[str, Any]]:
        """Find the mass commands that sent it again."""
        asked = [attempt.started_at for attempt in facts.attempts if attempt.trigger != Trigger.SCHEDULE]
        if facts.delivery.trigger not in (None, Trigger.SCHEDULE):
            asked.append(facts.circumstances.now)
        if not asked:
            return []
        place = facts.delivery.seq, asked[-MAX_BY_HAND:]
        return await self._ask("show_commands_that_sent", session, *place, MAX_CHUNKS)

    async def _commands(self, session: bytes, event_id: UUID) -> list[CommandFacts]:
        rows = await self._ask("show_commands_about", session, event_id, MAX_ATTEMPTS)
        return [CommandFacts(**row) for row in rows]

    async def _overtaking(
        self, session: bytes, delivery: DeliveryFacts, attempts: Sequence[AttemptView], now: datetime
    ) -> Overtaking | None:
        if not was_sent_in_order(delivery, attempts):
            return None
        first = attempts[0].started_at if attempts else now
        place = delivery.merchant_id, delivery.seq, delivery.created_at
        rows = await self._ask("show_overtaking", session, *place, first, MAX_OVERTAKING)
        return Overtaking(**rows[0]) if rows else None

    async def _ask(self, name: str, session: bytes, *arguments: object) -> Sequence[dict[str, Any]]:
        return await ask_as(self._database, _STATEMENTS[name], session, *arguments)


def _circumstances(row: dict[str, Any]) -> Circumstances:
    has_endpoint = row["url"] is not None
    return Circumstances(**row, secret=WITHHELD if has_endpoint else None)
