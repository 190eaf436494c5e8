"""What a merchant's receiver is sent, for the document's section `webhooks`. Source: contract 1."""

from typing import Any
from uuid import UUID

from webhook_dispatcher.api.operations.models import Instant
from webhook_dispatcher.api.validation import Model
from webhook_dispatcher.domain.event import (
    CHARGE_TYPES,
    EVENT_ID_HEADER,
    EVENT_TYPE_HEADER,
    SIGNATURE_HEADER,
    TEST_EVENT_TYPE,
)

TYPES = (*CHARGE_TYPES, TEST_EVENT_TYPE)


class WebhookData(Model):
    """What the event is about: of a charge's event the charge, as `GET /v1/charges/{id}` returns it."""

    object: dict[str, Any]


class WebhookEvent(Model):
    """The body of a delivery. type: may be one that is not listed here yet: answer that with 2xx, too."""

    id: UUID
    type: str
    created_at: Instant
    data: WebhookData


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": True, "description": description, "schema": schema}


WEBHOOKS: dict[str, Any] = {
    "event": {
        "post": {
            "operationId": "receiveEvent",
            "tags": ["webhook"],
            "summary": "An event, as it is sent to the URL of your webhook.",
            "security": [],
            "parameters": [
                _header(
                    EVENT_ID_HEADER,
                    "The event's id: an event may come more than once.",
                    {"type": "string", "format": "uuid"},
                ),
                _header(EVENT_TYPE_HEADER, "Its type.", {"type": "string", "examples": [*TYPES]}),
                _header(
                    SIGNATURE_HEADER,
                    "Seconds since 1970, and the HMAC-SHA256 of them, a dot and the body "
                    "by your secret; twice while two secrets are valid.",
                    {"type": "string", "pattern": "^t=[0-9]+(,v1=[0-9a-f]{64}){1,2}$"},
                ),
            ],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/WebhookEvent"}}},
            },
            "responses": {
                "2XX": {"description": "Delivered, if it comes within ten seconds."},
                "default": {"description": "Not delivered: it is sent again later."},
            },
        }
    }
}
