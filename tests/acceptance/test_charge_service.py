"""The sample charge service by itself: what it does reaches its merchants through a real daemon."""

import json
from datetime import timedelta
from typing import Any

from tests.acceptance.charge_service import ChargeServiceProcess
from tests.acceptance.installation import Installation
from tests.unit.builders import PUBLISHED
from tests.waiting import MAX_WAIT
from webhook_dispatcher.api.charge_service.upstream import Upstream, UpstreamRequest
from webhook_dispatcher.api.charge_service.upstream_answers import Forwarded, Reply

MERCHANT = "m1"
GOOD, POOR = "4111111111111111", "4111111111110004"


def connected(service: ChargeServiceProcess) -> Upstream:
    return Upstream(service.url, PUBLISHED, "test/1", timeout=timedelta(seconds=MAX_WAIT))


async def post(upstream: Upstream, template: str, key: str, body: dict[str, Any], **ids: str) -> Reply:
    asked = UpstreamRequest("POST", template, MERCHANT, "r1", "en", ids, (), json.dumps(body).encode(), key)
    return await upstream.forward(asked)


async def active_card(upstream: Upstream, number: str) -> str:
    """Bind and confirm a card; the same number always by the same keys."""
    bound = await post(upstream, "/v1/cards", f"bind {number}", {"number": number})
    assert isinstance(bound, Forwarded)
    card_id: str = json.loads(bound.data)["id"]
    code = {"code": number[-6:]}
    confirmed = await post(upstream, "/v1/cards/{id}/confirm", f"confirm {number}", code, id=card_id)
    assert isinstance(confirmed, Forwarded)
    return card_id


async def charge(upstream: Upstream, number: str, key: str) -> Reply:
    card_id = await active_card(upstream, number)
    wanted = {"externalId": key, "cardId": card_id, "amount": 1990, "currency": "UZS", "fiscal": True}
    recipients = [{"id": "rcp_1", "share": 7000}, {"id": "Łucja Żak", "share": 3000}]
    return await post(upstream, "/v1/charges", key, {**wanted, "recipients": recipients})


async def test_a_repeat_after_it_was_killed_writes_no_event_twice(installation: Installation) -> None:
    answers = []
    for _ in range(2):
        with ChargeServiceProcess(installation.database.dsn("webhook_producer")) as service:
            async with connected(service) as upstream:
                answers.append(await charge(upstream, GOOD, "k1"))
                service.kill()
    assert [type(answer) for answer in answers] == [Forwarded, Forwarded]
    assert await installation.count("true") == 4
