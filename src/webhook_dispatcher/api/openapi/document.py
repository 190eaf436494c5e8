"""The OpenAPI document: made from the table of operations, the models that validate, and the catalogue.

It is strict: every status is there, with every code that it may come with, and no object has a member that is
not named. Which codes an operation may be refused with follows from its row. What is forwarded is the charge
service's to describe: its bodies are any object here, its answers any JSON, its errors those of the published
ranges. Programs generate clients from it: an error's words are examples alone, since they may be mended, and
every list says what its items are, also one that is always empty.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.api import request_ids
from webhook_dispatcher.api.calls import FORM, ForwardedOperation, Operation, PublicOperation
from webhook_dispatcher.api.catalogue import CATALOGUE, message
from webhook_dispatcher.api.openapi.sent import WebhookEvent, webhooks
from webhook_dispatcher.api.operations.auth import OAuthError, OAuthToken
from webhook_dispatcher.api.operations.commands import Accepted
from webhook_dispatcher.api.operations.models import EXAMPLE_ID, INSTANT
from webhook_dispatcher.api.validation import MAX_DETAILS, MAX_FIELD, Nothing
from webhook_dispatcher.domain.language import DEFAULT, LANGUAGES
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names
from webhook_dispatcher.version import PUBLIC_VERSION
from webhook_dispatcher.web.router import PARAMETER

Object = dict[str, Any]
Mode = Literal["validation", "serialization"]

ALWAYS = (
    codes.VALIDATION_FAILED,
    codes.MALFORMED_REQUEST,
    codes.HEAD_TOO_LARGE,
    codes.UNKNOWN_EXPECTATION,
    codes.TOO_SLOW,
    codes.INTERNAL,
    codes.UNAVAILABLE,
)
WITH_BODY = (codes.NOT_JSON, codes.BODY_TOO_LARGE, codes.WRONG_CONTENT_TYPE)
WITH_CREDENTIALS = (codes.TOKEN_MISSING, codes.INVALID_TOKEN, codes.KEY_REVOKED)
WITH_UPSTREAM = (codes.NOT_FOUND, codes.UPSTREAM_AWAY, codes.UPSTREAM_TOO_SLOW)
WITH_KEY = (codes.KEY_MISSING, codes.KEY_REUSED, codes.STILL_RUNNING)
WITHOUT_OPERATION = {"NoSuchPath": codes.NO_SUCH_PATH, "MethodNotAllowed": codes.METHOD_NOT_ALLOWED}
"""What is answered where no operation has that path, or that method."""
WITH_REASON = (codes.INVALID_URL, codes.STATE_FORBIDS)
"""Codes that may come with `error.reason`, in words."""
AGAIN = ("Idempotent-Replayed",)
IN_META: Mapping[str, Object] = {"nextCursor": {"type": "string"}, "delayedSince": INSTANT}
"""What the `meta` of a list may hold besides."""

INTRODUCTION = """\
Every answer is an envelope: `success`, `data` or `error`, and `meta`. Branch on `error.code`, never on the \
message, which is in Uzbek, Russian or English by `Accept-Language`. An error's `details` name each field \
that is not valid. This document and its page are not in the envelope.
"""
TAGS: Mapping[str, str] = {
    "auth": "Access tokens.",
    "webhook": "Where events are sent, and how that fares: of the first endpoint, or the only one.",
    "webhooks": "All endpoints, each with its URL, its secret and the events that it wants.",
    "deliveries": "What was sent, what came of it, and sending it again.",
    "events": "All events, in an order that skips nothing.",
    "charges": "Charges.",
    "commands": "What became of something that takes a while.",
    "cards": "Cards.",
    "recipients": "Recipients of shares.",
    "customers": "Customers.",
    "merchants": "Merchants, and the profiles by which receipts are issued.",
}
"""Operations by the first part of their path behind the version."""
UUID: Object = {"type": "string", "format": "uuid", "examples": [EXAMPLE_ID]}
NAME = {"type": "string", "minLength": 1, "maxLength": 255}
PARAMETERS: Mapping[str, Object] = {
    "eventId": UUID | {"description": "An event's id, or a delivery's."},
    "endpointId": UUID,
    "id": NAME,
    "externalUserId": {**NAME, "examples": ["user-17"]},
}
HEADERS: Mapping[str, Object] = {
    "RequestId": {
        "description": "The id by which support finds the request; the client's own, if it is fit.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,128}$"},
    },
    "Content-Language": {
        "description": "The language of messages.",
        "required": True,
        "schema": {"type": "string", "enum": [*LANGUAGES]},
    },
    "WWW-Authenticate": {
        "description": "How to authenticate.",
        "required": True,
        "schema": {"type": "string", "examples": ["Bearer"]},
    },
    "Retry-After": {
        "description": "Seconds after which to try again.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "Allow": {"description": "The methods of this path.", "required": True, "schema": {"type": "string"}},
    "Idempotent-Replayed": {
        "description": "This answer was given before.",
        "schema": {"type": "string", "const": "true"},
    },
    "RateLimit-Policy": {"description": "The limits that counted.", "schema": {"type": "string"}},
    "RateLimit": {"description": "What is left of each.", "schema": {"type": "string"}},
}
KEY = "|".join(
    (
        # Bare: up to 255 characters, blanks within them alone; it may hold quotes, or begin with one.
        r"[!#-~]([ -~]{0,253}[!-~])?",
        r'"([!#-~]|[ -~]{1,253}[!-~])?',
        # Quoted: the key is what stands between the quotes, where \" is a quote and \\ a backslash.
        r'"([ !#-\[\]-~]|\\["\\]){1,255}"',
    )
)
"""What may stand in the header Idempotency-Key, as `idempotency.key_of` reads it."""
REQUEST_HEADERS: Mapping[str, Object] = {
    "Accept-Language": {
        "name": "Accept-Language",
        "in": "header",
        "description": "Languages of messages, by weight: there are uz, ru and en; English where none fits.",
        "schema": {"type": "string"},
        "example": "ru-RU, en;q=0.5",
    },
    "RequestId": {
        "name": request_ids.HEADER,
        "in": "header",
        "description": "An id of the client's for this request; what is not of this form is replaced.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,128}$"},
        "example": "order-1001.attempt-2",
    },
    "RequiredKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": True,
        "description": "A new one for each thing that is to be done. The same again has no second effect "
        "and the first answer, with `meta.replayed`, for 24 hours; a refusal is not kept.",
        "schema": {"type": "string", "pattern": f"^({KEY})$"},
        "example": "7d8f2f0a-5f3e-4a53-9d3c-1f0c5f6f5b0e",
    },
}
LINKS: Mapping[tuple[str, int], Sequence[tuple[str, str, str]]] = {
    ("listDeliveries", 200): (
        ("readDelivery", "eventId", "$response.body#/data/0/deliveryId"),
        ("retryDelivery", "eventId", "$response.body#/data/0/deliveryId"),
    ),
    ("listEvents", 200): (("readDelivery", "eventId", "$response.body#/data/0/id"),),
    ("readDelivery", 200): (("retryDelivery", "eventId", "$response.body#/data/deliveryId"),),
    ("retryDelivery", 200): (("readDelivery", "eventId", "$response.body#/data/eventId"),),
    ("testWebhook", 200): (("readDelivery", "eventId", "$response.body#/data/eventId"),),
    ("testWebhookById", 200): (("readDelivery", "eventId", "$response.body#/data/eventId"),),
    ("listWebhooks", 200): (("readWebhookById", "endpointId", "$response.body#/data/0/id"),),
    ("addWebhook", 201): (
        ("testWebhookById", "endpointId", "$response.body#/data/id"),
        ("putWebhookById", "endpointId", "$response.body#/data/id"),
    ),
}
"""From an operation's answer to operations that take a value of it."""
COMMAND_LINK = ("readCommand", "id", "$response.body#/data/commandId")


def document(operations: Sequence[Operation], names: Names = DEFAULT_NAMES) -> Object:
    """Make the document of these operations, and of events as they are sent by these names."""
    paths: dict[str, Object] = defaultdict(dict)
    for operation in operations:
        paths[operation.template][operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Partner API", "version": PUBLIC_VERSION, "description": INTRODUCTION},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": [{"name": name, "description": TAGS[name]} for name in dict.fromkeys(map(_tag, operations))],
        "paths": dict(paths),
        "webhooks": webhooks(names),
        "components": {
            "schemas": _models(operations)
            | _errors(operations)
            | {"Meta": _meta(), "ErrorDetail": ERROR_DETAIL, "ForwardedBody": FORWARDED_BODY},
            "responses": {name: _refusals([code], None) for name, code in WITHOUT_OPERATION.items()},
            "parameters": {
                **REQUEST_HEADERS,
                "AcceptedKey": REQUEST_HEADERS["RequiredKey"] | {"required": False},
            },
            "headers": dict(HEADERS),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def refusals_of(operation: Operation) -> tuple[int, ...]:
    """Return every code that an operation may be refused with."""
    found = [*ALWAYS, *operation.refusals]
    if "{" in operation.template:
        found.append(codes.NO_SUCH_PATH)
    if operation.limit in ("key", "card"):
        found += WITH_CREDENTIALS
    if operation.limit != "none":
        found.append(codes.LIMIT_EXCEEDED)
    if operation.takes_body:
        found += WITH_BODY
    if operation.idempotency != "none":
        found += WITH_KEY
    if _is_forwarded(operation):
        found += WITH_UPSTREAM
    return tuple(sorted(set(found), reverse=True))


def _operation(operation: Operation) -> Object:
    described: Object = {
        "operationId": operation.name,
        "tags": [_tag(operation)],
        "summary": operation.summary,
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.limit == "token":
        described["security"] = []
    if operation.takes_body and operation.input is not Nothing:
        form = _form(operation) or operation.input
        content = {
            kind: {"schema": _ref("schemas", form if kind == FORM else operation.input)}
            for kind in operation.content_types
        }
        described["requestBody"] = {"required": True, "content": content}
    elif operation.takes_body and _is_forwarded(operation):
        body = {"schema": _ref("schemas", "ForwardedBody")}
        described["requestBody"] = {"content": dict.fromkeys(operation.content_types, body)}
    return described


def _is_forwarded(operation: Operation) -> bool:
    return isinstance(operation, ForwardedOperation)


def _form(operation: Operation) -> type[BaseModel] | None:
    return operation.form if isinstance(operation, PublicOperation) else None


def _tag(operation: Operation) -> str:
    return operation.template.split("/")[2]


def _parameters(operation: Operation) -> list[Object]:
    found: list[Object] = [
        {"name": name, "in": "path", "required": True, "schema": PARAMETERS[name]}
        for name in PARAMETER.findall(operation.template)
    ]
    if not operation.takes_body:
        # A field of the query may be left out, and is never null.
        query = _input(operation.input.model_json_schema(by_alias=True))["properties"]
        found += [{"name": name, "in": "query", "required": False, "schema": query[name]} for name in query]
    if operation.idempotency != "none":
        found.append(_ref("parameters", f"{operation.idempotency.capitalize()}Key"))
    return [*found, _ref("parameters", "Accept-Language"), _ref("parameters", "RequestId")]


def _responses(operation: Operation) -> Object:
    by_status: dict[int, list[int]] = defaultdict(list)
    for code in refusals_of(operation):
        by_status[CATALOGUE[code].status or 422].append(code)
    successes = {str(status): _success(operation, status) for status in operation.statuses}
    refused = {str(status): _refusals(found, operation) for status, found in sorted(by_status.items())}
    others = {"4XX": _refusals((), operation)} if _is_forwarded(operation) else {}
    return successes | refused | others


def _success(operation: Operation, status: int) -> Object:
    """Describe the envelope of a success."""
    is_command = status == 202 and not _is_forwarded(operation)
    data: Object = {} if _is_forwarded(operation) else {"type": "object"}
    if (model := _answer_at(operation, status)) is not None:
        data = _ref("schemas", model)
    meta = _ref("schemas", "Meta")
    if operation.is_list:
        data = {"type": "array", "items": data}
        meta = _meta({name: IN_META[name] for name in ("nextCursor", *operation.meta)})
    response = _response(
        "A daemon carries it out: ask for the command." if is_command else operation.summary,
        _either(operation, _closed({"success": {"const": True}, "data": data, "meta": meta}), OAuthToken),
        [*_limit_headers(operation), *(AGAIN if operation.idempotency != "none" else ())],
    )
    links = (COMMAND_LINK,) if is_command else LINKS.get((operation.name, status), ())
    if links:
        response["links"] = {
            name: {"operationId": name, "parameters": {parameter: value}} for name, parameter, value in links
        }
    return response


def _answer_at(operation: Operation, status: int) -> type[BaseModel] | None:
    if status == 202 and not _is_forwarded(operation):
        return Accepted
    return (operation.created if status == 201 else None) or operation.answer


def _refusals(found: Sequence[int], operation: Operation | None) -> Object:
    """Describe the envelope of errors that share a status."""
    errors = [_ref("schemas", f"Error{code}") for code in found]
    statuses = {CATALOGUE[code].status for code in found}
    kind = "oneOf"
    if operation is not None and _is_forwarded(operation) and statuses <= set(range(400, 500)):
        errors, kind = [*errors, _ref("schemas", "UpstreamError")], "anyOf"
    headers = [*(_limit_headers(operation) if operation else ())]
    headers += [name for status, name in ((401, "WWW-Authenticate"), (405, "Allow")) if status in statuses]
    if statuses & {409, 429, 503}:
        headers.append("Retry-After")
    if operation is not None and operation.idempotency != "none":
        headers += AGAIN
    refused = _closed({"success": {"const": False}, "error": {kind: errors}, "meta": _ref("schemas", "Meta")})
    return _response(
        "\n".join(f"{code}: {message(code, DEFAULT)}" for code in found) or "The charge service refuses it.",
        _either(operation, refused, OAuthError),
        headers,
    )


def _either(operation: Operation | None, schema: Object, of_form: type[BaseModel]) -> Object:
    """Describe an answer: in the envelope, or to who asks with a form in that form's own way."""
    if operation is None or _form(operation) is None:
        return schema
    return {"oneOf": [schema, _ref("schemas", of_form)]}


def _limit_headers(operation: Operation) -> tuple[str, ...]:
    return ("RateLimit-Policy", "RateLimit") if operation.limit != "none" else ()


def _response(description: str, schema: Object, headers: Sequence[str]) -> Object:
    named = {name: _ref("headers", name) for name in ("Content-Language", *headers)}
    return {
        "description": description,
        "headers": {request_ids.HEADER: _ref("headers", "RequestId"), **named},
        "content": {"application/json": {"schema": schema}},
    }


def _errors(operations: Sequence[Operation]) -> Object:
    """Describe one error for each code that a client may get."""
    leaving = {code for operation in operations for code in refusals_of(operation)}
    leaving |= set(WITHOUT_OPERATION.values())
    errors = {f"Error{code}": _error(code) for code in sorted(leaving, reverse=True)}
    if any(map(_is_forwarded, operations)):
        errors["UpstreamError"] = _upstream_error()
    return errors


def _upstream_error() -> Object:
    """Describe an error of the charge service's; it may have further members, such as failureReason."""
    text, details = {"type": "string"}, {"type": "array", "items": _ref("schemas", "ErrorDetail")}
    return {
        "type": "object",
        "properties": {"code": {"type": "integer"}, "type": text, "message": text, "details": details},
        "required": ["code", "type", "message", "details"],
    }


def _error(code: int) -> Object:
    entry = CATALOGUE[code]
    text = {"type": "string"}
    bounds = {"minItems": 1, "maxItems": MAX_DETAILS} if code == codes.VALIDATION_FAILED else {"maxItems": 0}
    error = _closed(
        {
            "code": {"const": code},
            "type": {"const": entry.type},
            "message": text | {"examples": [message(code, language) for language in LANGUAGES]},
            "details": {"type": "array", **bounds, "items": _ref("schemas", "ErrorDetail")},
        }
    )
    if code in WITH_REASON:
        error["properties"]["reason"] = text
    if code in codes.CAUSES:
        error["properties"]["cause"] = text | {"examples": [*codes.CAUSES[code]]}
    if code == codes.BODY_TOO_LARGE:
        error["properties"]["maxBytes"] = {"type": "integer", "minimum": 1}
    return error | {"description": message(code, DEFAULT)}


def _meta(more: Object | None = None) -> Object:
    """Describe `meta`. more: further members, each of which may be left out."""
    described = _closed(
        {
            "requestId": {"type": "string", "minLength": 1, "maxLength": 128},
            "timestamp": INSTANT,
            "processingTimeMs": {"type": "integer", "minimum": 0},
        }
    )
    described["properties"] |= {"replayed": {"type": "boolean"}, **(more or {})}
    return described


def _closed(properties: Object) -> Object:
    """Describe an object that has these members and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


ERROR_DETAIL = _closed({"field": {"type": "string", "maxLength": MAX_FIELD}, "message": {"type": "string"}})
FORWARDED_BODY = {
    "type": "object",
    "additionalProperties": True,
    "description": "An object of the charge service's, which says what its members are.",
}


def _models(operations: Sequence[Operation]) -> Object:
    """Describe what bodies, answers and events hold, by their models' names."""
    used: dict[tuple[type[BaseModel], Mode], None] = {
        (Accepted, "serialization"): None,
        (WebhookEvent, "serialization"): None,
        (OAuthToken, "serialization"): None,
        (OAuthError, "serialization"): None,
    }
    for operation in operations:
        if operation.takes_body and operation.input is not Nothing:
            used[operation.input, "validation"] = None
        if (form := _form(operation)) is not None:
            used[form, "validation"] = None
        for model in (operation.answer, operation.created):
            if model is not None:
                used[model, "serialization"] = None
    _, made = models_json_schema([*used], by_alias=True, ref_template="#/components/schemas/{model}")
    request = {model.__name__ for model, mode in used if mode == "validation"}
    return {
        name: _input(schema) if name in request else _untitled(schema)
        for name, schema in made["$defs"].items()
    }


def _input(schema: Object) -> Object:
    """Describe what is sent to us: a field that may be left out is left out, and not null."""
    described: Object = _untitled(schema)
    for name, field in described["properties"].items():
        kinds = [kind for kind in field.get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1:
            examples = {"examples": field["examples"]} if "examples" in field else {}
            described["properties"][name] = kinds[0] | examples
    return described


def _untitled(schema: Any) -> Any:
    """Leave out the titles, which repeat the names."""
    if isinstance(schema, list):
        return [_untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _untitled(each) for name, each in schema.items() if name != "title" or not isinstance(each, str)
    }


def _ref(kind: str, named: str | type[BaseModel]) -> Object:
    return {"$ref": f"#/components/{kind}/{named if isinstance(named, str) else named.__name__}"}
