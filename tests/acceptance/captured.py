"""A request of ours as a receiver gets it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from uuid import UUID

from tests.integration.raw_receiver import OK, RawReceiver, answering
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.signing import Secret, signature
from webhook_dispatcher.domain.verdict import Answer
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

EVENT = Event(
    seq=1,
    id=UUID("0e4f2e66-3f0c-4f6f-8f7e-2d1a5b0c9d3e"),
    merchant_id="merchant-1",
    type="charge.succeeded",
    created_at=datetime(2026, 11, 20, 8, 15, 30, 123456, UTC),
    object='{"id":"ch_1",  "amount":1.10,"rate":1e3,"name":"\\u00e9 é","tags":[ ]}'.encode(),
)


@dataclass(frozen=True)
class CapturedRequest:
    """The raw body, the signature header and the secret of its merchant."""

    body: bytes
    header: str
    secret: str


async def capture(secret: str, unix_seconds: int) -> CapturedRequest:
    """Send one signed event to a local receiver and return what arrived."""
    policy = EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True)
    body = EVENT.body()
    headers = {"Service-Signature": signature(body, (Secret(secret),), unix_seconds)}
    async with (
        RawReceiver(answering(OK)) as receiver,
        Sender(Guard(policy), timedelta(seconds=5), "webhook-dispatcher/test") as sender,
    ):
        assert await sender.post(receiver.url(), headers, body) == Answer(200)
    [request] = receiver.requests
    return CapturedRequest(request.body, request.headers["service-signature"], secret)
