"""Cards and charges of all merchants, in memory, and the rules by which they are refused.

Nothing here waits. A change is made in two steps, so that what can fail comes first: `plan_…` checks
everything and returns a Change; the caller writes its events, and then has it applied. Between the two nobody
else may plan (service.py holds a lock; a real service has its transaction).

What decides about refusals can be chosen by the request; README.md has the table.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from examples.charge_service import problems
from examples.charge_service.problems import Problem, Refused

WHOLE = 10_000
"""Basis points."""
REJECTED_CARDS, POOR_CARDS = "0002", "0004"
"""How the numbers end of cards that the bank rejects, and of those without money."""
UNAPPROVED, UNKNOWN = "rcp_new", "rcp_unknown"
"""How the ids begin of recipients who may not receive money yet, and of those who are not there."""
OF_YESTERDAY = "yesterday-"
"""How the externalId begins of charges whose operating day is over."""
WITHOUT_FISCAL_PROFILE = "-no-fiscal"
"""How the ids end of merchants who have none."""
_NAMES = UUID("6f0e3f53-55d4-4bd2-9a42-6f4f4e1d2c5b")

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Event:
    """What a merchant is to learn. object: the charge as it was then."""

    id: UUID
    merchant_id: str
    type: str
    object: str


@dataclass(frozen=True)
class Change:
    """What is to be written and then applied. refused: with what to answer though it was written."""

    charge: Fields
    events: Sequence[Event]
    refused: Problem | None = None


@dataclass
class Ledger:
    """Who has which cards and charges. now: UTC."""

    now: Callable[[], datetime]
    _cards: dict[str, dict[str, Any]] = field(default_factory=dict)
    _charges: dict[tuple[str, str], Fields] = field(default_factory=dict)
    _external_ids: set[tuple[str, str]] = field(default_factory=set)

    def bind_card(self, merchant_id: str, number: str, key: str) -> Fields:
        """Add a card that is not confirmed yet; the bank sends its holder a code: the last six digits."""
        card_id = f"card_{name_of(key, 'card').hex[:20]}"
        self._cards[card_id] = {"merchant": merchant_id, "number": number, "status": "PENDING"}
        return self.card(merchant_id, card_id)

    def confirm_card(self, merchant_id: str, card_id: str, code: str) -> Fields:
        """Make a card active."""
        card = self._card(merchant_id, card_id)
        if code != card["number"][-6:]:
            raise Refused(problems.WRONG_CODE)
        card["status"] = "ACTIVE"
        return self.card(merchant_id, card_id)

    def card(self, merchant_id: str, card_id: str) -> Fields:
        """Show a card, without its number."""
        card = self._card(merchant_id, card_id)
        return {"id": card_id, "mask": f"**** {card['number'][-4:]}", "status": card["status"]}

    def remove_card(self, merchant_id: str, card_id: str) -> None:
        """Forget a card."""
        self._card(merchant_id, card_id)
        del self._cards[card_id]

    def charge(self, merchant_id: str, charge_id: str) -> Fields:
        """Show a charge; another merchant's is not there."""
        try:
            return self._charges[merchant_id, charge_id]
        except KeyError:
            raise Refused(problems.CHARGE_NOT_FOUND) from None

    def plan_charge(self, merchant_id: str, wanted: Fields, key: str) -> Change:
        """Check a new charge, let the bank decide, and say what comes of it."""
        self._check(merchant_id, wanted)
        charge: Fields = {
            "id": f"ch_{name_of(key, 'charge').hex[:20]}",
            "externalId": wanted["externalId"],
            "amount": wanted["amount"],
            "currency": wanted["currency"],
            "status": "CREATED",
            "split": {"status": "PENDING", "recipients": wanted["recipients"]},
            "createdAt": self._opened_at(wanted["externalId"]).isoformat(timespec="milliseconds"),
            "version": 1,
        }
        if self._cards[wanted["cardId"]]["number"].endswith(POOR_CARDS):
            reason = "insufficient_funds"
            failed = {"status": "FAILED", "failureReason": reason}
            return _changed(merchant_id, charge, {"created": {}, "failed": failed}, problems.declined(reason))
        steps: dict[str, Fields] = {
            "created": {},
            "succeeded": {"status": "SUCCEEDED"},
            "split_completed": {"split": {**charge["split"], "status": "COMPLETED"}},
        }
        if wanted["fiscal"]:
            steps["fiscal_registered"] = {"fiscal": {"status": "REGISTERED"}}
        return _changed(merchant_id, charge, steps)

    def plan_reversal(self, merchant_id: str, charge_id: str, version: int | None) -> Change:
        """Check a reversal. version: of the charge as the client saw it."""
        charge = self.charge(merchant_id, charge_id)
        if version not in (None, charge["version"]):
            raise Refused(problems.CHANGED_MEANWHILE)
        if charge["status"] != "SUCCEEDED":
            raise Refused(problems.NOT_REVERSIBLE)
        if datetime.fromisoformat(charge["createdAt"]).date() != self.now().date():
            raise Refused(problems.DAY_CLOSED)
        reversed_ = {"status": "REVERSED", "version": charge["version"] + 1}
        return _changed(merchant_id, charge, {"reversed": reversed_})

    def apply(self, merchant_id: str, change: Change) -> None:
        """Let a change be so, after its events were written."""
        self._charges[merchant_id, change.charge["id"]] = change.charge
        self._external_ids.add((merchant_id, change.charge["externalId"]))

    def _check(self, merchant_id: str, wanted: Fields) -> None:
        """Refuse what cannot be charged."""
        if (merchant_id, wanted["externalId"]) in self._external_ids:
            raise Refused(problems.EXTERNAL_ID_USED)
        _check_recipients(wanted["recipients"])
        card = self._card(merchant_id, wanted["cardId"])
        if card["status"] != "ACTIVE":
            raise Refused(problems.CARD_NOT_ACTIVE)
        if wanted["fiscal"] and merchant_id.endswith(WITHOUT_FISCAL_PROFILE):
            raise Refused(problems.NO_FISCAL_PROFILE)
        if card["number"].endswith(REJECTED_CARDS):
            raise Refused(problems.CARD_REJECTED)

    def _card(self, merchant_id: str, card_id: str) -> dict[str, Any]:
        card = self._cards.get(card_id)
        if card is None:
            raise Refused(problems.CARD_NOT_FOUND)
        if card["merchant"] != merchant_id:
            raise Refused(problems.CARD_OF_ANOTHER)
        return card

    def _opened_at(self, external_id: str) -> datetime:
        return self.now() - timedelta(days=1 if external_id.startswith(OF_YESTERDAY) else 0)


def to_json(value: object) -> str:
    """Write what is answered; an object as it is both answered and sent in events."""
    return json.dumps(value, ensure_ascii=False)


def _check_recipients(recipients: Sequence[Fields]) -> None:
    if sum(recipient["share"] for recipient in recipients) != WHOLE:
        raise Refused(problems.SHARES_DO_NOT_ADD_UP)
    for recipient in recipients:
        if recipient["id"].startswith(UNKNOWN):
            raise Refused(problems.RECIPIENT_NOT_FOUND)
        if recipient["id"].startswith(UNAPPROVED):
            raise Refused(problems.RECIPIENT_NOT_APPROVED)


def _changed(
    merchant_id: str, charge: Fields, steps: Mapping[str, Fields], refused: Problem | None = None
) -> Change:
    """Let a charge take its steps, each with an event.

    An event's id follows from the charge's and its type, so that writing it again writes nothing.
    """
    events = []
    for name, fields in steps.items():
        charge = {**charge, **fields}
        event_id = name_of(charge["id"], name)
        events.append(Event(event_id, merchant_id, f"charge.{name}", to_json(charge)))
    return Change(charge, events, refused)


def name_of(key: str, kind: str) -> UUID:
    """Make an id that the same key gives again."""
    return uuid5(_NAMES, f"{kind} {key}")
