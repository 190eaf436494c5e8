"""A merchant's program on the client that openapi-python-client makes (test_generated_clients.py)."""

import json
import os
import time
import uuid

from partner_api import AuthenticatedClient, Client
from partner_api.api.auth import issue_token
from partner_api.api.deliveries import list_deliveries, read_delivery, retry_delivery
from partner_api.api.webhook import put_webhook
from partner_api.models import (
    IssueTokenResponse200Type0,
    ListDeliveriesResponse200,
    ListDeliveriesState,
    PutWebhookResponse201,
    ReadDeliveryResponse404,
    RetryDeliveryResponse200,
    RetryDeliveryResponse202,
    TokenRequest,
    WebhookUrl,
)


def main() -> None:
    """Fetch a token, set the webhook, find what failed, ask for what is not there, and have it sent again."""
    base = os.environ["API"]
    asked = TokenRequest(os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"])
    issued = issue_token.sync(client=Client(base, raise_on_unexpected_status=True), body=asked)
    assert isinstance(issued, IssueTokenResponse200Type0), issued
    client = AuthenticatedClient(base, issued.data.access_token, raise_on_unexpected_status=True)
    put = put_webhook.sync(client=client, body=WebhookUrl(os.environ["WEBHOOK_URL"]))
    assert isinstance(put, PutWebhookResponse201), put
    while True:
        page = list_deliveries.sync(client=client, state=ListDeliveriesState.FAILED, limit=1)
        assert isinstance(page, ListDeliveriesResponse200), page
        if page.data:
            break
        time.sleep(0.05)
    unknown = read_delivery.sync(uuid.uuid4(), client=client, accept_language="uz")
    assert isinstance(unknown, ReadDeliveryResponse404), unknown
    event_id = page.data[0].event_id
    retried = retry_delivery.sync(event_id, client=client, idempotency_key="again")
    assert isinstance(retried, (RetryDeliveryResponse200, RetryDeliveryResponse202)), retried
    print(json.dumps({"secret": put.data.secret[:6], "eventId": str(event_id), "code": unknown.error.code}))


main()
