"""What a merchant's receiver is sent, for the document's section `webhooks`. Source: contract 1."""

from typing import Any
from uuid import UUID

from webhook_dispatcher.api.operations.models import Instant
from webhook_dispatcher.api.validation import Model
from webhook_dispatcher.domain.event import CHARGE_TYPES, TEST_EVENT_TYPE
from webhook_dispatcher.domain.names import STANDARD_ID, STANDARD_SIGNATURE, STANDARD_TIMESTAMP, Names

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


def _standard_headers() -> list[dict[str, Any]]:
    about = "As Standard Webhooks has it; not there where your secret is no standard base64 behind `whsec_`."
    shapes = {
        STANDARD_ID: {"type": "string", "format": "uuid"},
        STANDARD_TIMESTAMP: {"type": "string", "pattern": "^[0-9]+$"},
        STANDARD_SIGNATURE: {"type": "string", "pattern": "^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)?$"},
    }
    return [_header(name, about, shape) | {"required": False} for name, shape in shapes.items()]


def webhooks(names: Names) -> dict[str, Any]:
    """Describe an event as it is sent by these names."""
    return {
        "event": {
            "post": {
                "operationId": "receiveEvent",
                "tags": ["webhook"],
                "summary": "An event, as it is sent to the URL of your webhook.",
                "security": [],
                "parameters": [
                    _header(
                        names.event_id,
                        "The event's id: an event may come more than once.",
                        {"type": "string", "format": "uuid"},
                    ),
                    _header(names.event_type, "Its type.", {"type": "string", "examples": [*TYPES]}),
                    _header(
                        names.signature,
                        "Seconds since 1970, and the HMAC-SHA256 of them, a dot and the body "
                        "by your secret; twice while two secrets are valid.",
                        {"type": "string", "pattern": "^t=[0-9]+(,v1=[0-9a-f]{64}){1,2}$"},
                    ),
                    *(_standard_headers() if names.has_standard else []),
                ],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/WebhookEvent"}}
                    },
                },
                "responses": {
                    "2XX": {"description": "Delivered, if it comes within ten seconds."},
                    "default": {"description": "Not delivered: it is sent again later."},
                },
            }
        }
    }
