"""What the console's pages are shown with: merchants of every kind, and deliveries in every state."""

import json
from uuid import UUID

from tests.acceptance.installation import Installation
from webhook_dispatcher.local.behaviour import Behaviour

CALM, REFUSING, SLOW, PAUSED, NEW = "acme", "books", "corner-café", "delta", "echo"
TYPES = ("charge.created", "charge.succeeded", "charge.split_completed", "charge.fiscal_registered")


def charge(number: int, amount: int = 125_000) -> str:
    """Return a charge as the charge service writes it."""
    return json.dumps(
        {
            "id": f"ch_{number:06d}",
            "amount": amount,
            "currency": "UZS",
            "status": "succeeded",
            "externalId": f"order-{number}",
            "recipients": [{"share": 7000, "name": "Acme"}, {"share": 3000, "name": "Marketplace"}],
        }
    )


async def fill(installation: Installation) -> dict[str, UUID]:
    """Have merchants of every kind; returns one event of each, by the merchant."""
    await installation.configure(CALM, REFUSING, PAUSED)
    await installation.configure(SLOW, url=installation.receiver.url(SLOW))
    installation.receiver.behave(REFUSING, Behaviour(503))
    events = {}
    for number in range(12):
        for place, merchant_id in enumerate((CALM, REFUSING, SLOW)):
            kind = TYPES[number % len(TYPES)]
            sent = await installation.emit(merchant_id, charge(number * 10 + place), kind)
            events[merchant_id] = sent.id
    await installation.all_delivered(24)
    await installation.do("pause", PAUSED)
    events[PAUSED] = (await installation.emit(PAUSED, charge(990))).id
    events[NEW] = (await installation.emit(NEW, charge(991))).id
    await installation.do("test_event", CALM)
    await installation.do("retry", event_id=events[REFUSING])
    return events
