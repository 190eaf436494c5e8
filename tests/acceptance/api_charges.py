"""What a merchant asks of the sample charge service, and how that is made to fail."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import aiohttp
from aiohttp import web

from tests.acceptance.api_merchant import Merchant
from tests.acceptance.charge_service import ChargeServiceProcess

Handler = Callable[[web.Request], Awaitable[web.Response]]
CARD = "4111111111111111"
REJECTED, POOR = "4000000000000002", "4000000000000004"
"""Cards by their numbers: one that the bank takes, one that it rejects, and one without money."""


async def misbehave(service: ChargeServiceProcess, how: str, times: int = 1) -> None:
    """Have the next requests to the charge service go wrong."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{service.url}/misbehaviour", json={"how": how, "times": times}) as response,
    ):
        assert response.status == 204


async def bound_card(merchant: Merchant, number: str = CARD) -> str:
    """Bind a card, and return its id."""
    reply = await merchant.ask("POST", "/v1/cards", {"number": number})
    assert (reply.status, reply.data["status"]) == (201, "PENDING")
    card: str = reply.data["id"]
    return card


async def confirmed_card(merchant: Merchant, number: str = CARD) -> str:
    """Bind a card and confirm it."""
    card = await bound_card(merchant, number)
    reply = await merchant.ask("POST", f"/v1/cards/{card}/confirm", {"code": number[-6:]})
    assert (reply.status, reply.data["status"]) == (200, "ACTIVE")
    return card


def charge(card: str, **changes: object) -> dict[str, object]:
    """Return what makes a charge that nothing is wrong with, but for the changes."""
    wanted = {"externalId": str(uuid4()), "cardId": card, "amount": 100, "currency": "UZS"}
    return {**wanted, "recipients": recipients(), **changes}


def recipients(name: str = "r1", share: int = 10_000) -> list[dict[str, object]]:
    """Return one recipient with a share."""
    return [{"id": name, "share": share}]


@asynccontextmanager
async def recording(answer: Handler) -> AsyncIterator[str]:
    """Be a charge service that answers everything alike; yields its URL."""
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
