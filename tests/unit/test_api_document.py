"""The OpenAPI document: what is in it, that it is strict, and its page."""

import base64
import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

import jsonschema_rs
import orjson
import pytest
import schemathesis
from jsonschema_rs import meta
from multidict import CIMultiDict, CIMultiDictProxy

from webhook_dispatcher.api import validation
from webhook_dispatcher.api.calls import Head, Operation, Request, Response
from webhook_dispatcher.api.catalogue import CATALOGUE
from webhook_dispatcher.api.charge_service import forwarded
from webhook_dispatcher.api.openapi import document as made
from webhook_dispatcher.api.openapi.document_page import page
from webhook_dispatcher.api.openapi.published import POLICY, published
from webhook_dispatcher.api.operations.table import table
from webhook_dispatcher.api.shares import Databases
from webhook_dispatcher.api.validation import Nothing
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.domain.signing import Secret, signature, standard_headers
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.web.router import PARAMETER

OPERATIONS = table(Databases({}), RateLimits(), Guard(EgressPolicy()))
DOCUMENT = made.document(OPERATIONS)
SCHEMAS = DOCUMENT["components"]["schemas"]
DESCRIBED = {
    operation["operationId"]: (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
OF_THE_CHARGE_SERVICE = {
    -2006,
    -3004,
    -3006,
    -3007,
    -6004,
    -8004,
    -8006,
    -9002,
    -9004,
    -12004,
    -16011,
    -16012,
}
"""Codes that leave only where there is a charge service behind."""
FREE = {"CommandAnswer.result", "WholeDeliveryAnswer.payload", "EventData.object"}
FREE |= {"WebhookData.object", "TokenForm", "ForwardedBody"}
"""What is a charge's or a command's own, and has any members."""


def objects(schema: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Find each object that a schema describes, with where it stands."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield name, schema
        for key, each in schema.items():
            below = f"{name}.{key}" if key not in ("properties", "anyOf", "items") else name
            yield from objects(each, below)
    elif isinstance(schema, list):
        for each in schema:
            yield from objects(each, name)


def test_it_is_valid_openapi_of_valid_schemas() -> None:
    schemathesis.openapi.from_dict(DOCUMENT).validate()
    for schema in SCHEMAS.values():
        meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    named = re.findall(r'"#/components/(\w+)/([^"]+)"', orjson.dumps(DOCUMENT).decode())
    assert named
    assert [name for kind, name in named if name not in DOCUMENT["components"][kind]] == []


def test_every_operation_of_the_table_is_in_it_and_none_else() -> None:
    assert {name: (method.upper(), path) for name, (method, path, _) in DESCRIBED.items()} == {
        operation.name: (operation.method, operation.template) for operation in OPERATIONS
    }


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_is_described_whole(operation: Any) -> None:
    described = DESCRIBED[operation.name][2]
    assert described["summary"].endswith(".")
    parameters = {each.get("name") for each in described["parameters"]}
    assert set(PARAMETER.findall(operation.template)) <= parameters
    assert {int(status) for status in described["responses"] if status < "3"} == set(operation.statuses)
    assert ("requestBody" in described) == (operation.takes_body and operation.input is not Nothing)
    assert (described.get("security") == []) == (operation.limit == "token")
    references = {each["$ref"].rpartition("/")[2] for each in described["parameters"] if "$ref" in each}
    key = {"required": {"RequiredKey"}, "accepted": {"AcceptedKey"}, "none": set()}[operation.idempotency]
    assert references == {"Accept-Language", "RequestId", *key}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_code_stands_at_its_status_and_nowhere_else(operation: Any) -> None:
    found = {}
    for status, response in DESCRIBED[operation.name][2]["responses"].items():
        schema = response["content"]["application/json"]["schema"]
        error = schema.get("oneOf", [schema])[0]["properties"].get("error", {})
        for each in error.get("oneOf", ()):
            found[int(each["$ref"].rpartition("/Error")[2])] = int(status)
    assert found == {code: CATALOGUE[code].status for code in made.refusals_of(operation)}


def test_every_code_that_may_leave_is_in_it() -> None:
    errors = {int(name.removeprefix("Error")) for name in SCHEMAS if name.startswith("Error-")}
    assert errors == set(CATALOGUE) - OF_THE_CHARGE_SERVICE


def test_what_clients_are_generated_from_says_all_they_need() -> None:
    described = made.document(forwarded.instead(OPERATIONS, forwarded.operations(wrong_handler)))
    lists = [schema for schema in walked(described) if schema.get("type") == "array"]
    assert len(lists) > 30
    assert [schema for schema in lists if "items" not in schema] == []
    errors = [schema for name, schema in described["components"]["schemas"].items() if "Error-" in name]
    for error in errors:
        assert error["properties"]["message"].keys() == {"type", "examples"}, "its words may be mended"
    tags = {tag["name"] for tag in described["tags"]}
    operations = [each for methods in described["paths"].values() for each in methods.values()]
    assert {tag for each in operations for tag in each["tags"]} == tags
    bodies = [each["requestBody"]["content"] for each in operations if "requestBody" in each]
    assert all(content["schema"].get("$ref") for body in bodies for content in body.values())


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("names", [DEFAULT_NAMES, Names("Acme-", None, ("service", "standard"))])
def test_what_a_receiver_is_sent_is_as_the_document_says(count: int, names: Names) -> None:
    event = Event(
        1, UUID(int=1), "m1", "charge.created", datetime(2026, 11, 20, tzinfo=UTC), b'{"id":"ch_1"}'
    )
    secrets = tuple(Secret.from_random(bytes([number] * 32)) for number in range(count))
    sent = event.headers(signature(event.body(), secrets, 1_766_000_000), names)
    if names.has_standard:
        sent |= standard_headers(str(event.id), event.body(), secrets, 1_766_000_000)
    del sent["Content-Type"]  # an OpenAPI document names it with the body
    webhook = made.document(OPERATIONS, names)["webhooks"]["event"]["post"]
    schemas = {each["name"]: each["schema"] for each in webhook["parameters"]}
    assert schemas.keys() == sent.keys()
    assert all(jsonschema_rs.is_valid(schemas[name], value) for name, value in sent.items())
    body = webhook["requestBody"]["content"]["application/json"]["schema"]
    assert jsonschema_rs.is_valid({**DOCUMENT, **body}, orjson.loads(event.body()))
    assert not jsonschema_rs.is_valid({**DOCUMENT, **body}, {"id": str(event.id)})


def walked(schema: Any) -> Iterator[Any]:
    """Give every object that a document holds."""
    yield from ([schema] if isinstance(schema, dict) else [])
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from walked(each)


def test_no_object_has_members_that_are_not_named() -> None:
    inline = {
        f"{name} {status}": response
        for name, (_, _, operation) in DESCRIBED.items()
        for status, response in operation["responses"].items()
    }
    found = [each for name, schema in {**SCHEMAS, **inline}.items() for each in objects(schema, name)]
    assert len(found) > 100
    opened = {name for name, schema in found if schema.get("additionalProperties") is not False}
    assert opened == FREE | {"readCharge 200.content.application/json.schema.data"}


def examples_of(fields: Any) -> dict[str, Any]:
    return {name: field["examples"][0] for name, field in fields.items() if "examples" in field}


def test_what_is_sent_has_examples_that_are_taken() -> None:
    for operation in OPERATIONS:
        bodies = (operation.input, getattr(operation, "form", None)) if operation.takes_body else ()
        for model in filter(None, bodies):
            if model is Nothing:
                continue
            fields = SCHEMAS[model.__name__]["properties"]
            example = examples_of(fields)
            assert {name for name, field in fields.items() if "const" not in field} <= {*example, "scope"}
            constants = {name: field["const"] for name, field in fields.items() if "const" in field}
            validation.from_json(model, orjson.dumps(example | constants), "en")
        parameters = {
            each["name"]: each["schema"]
            for each in DESCRIBED[operation.name][2]["parameters"]
            if "in" in each
        }
        if not operation.takes_body and operation.input is not Nothing:
            example = examples_of(parameters)
            assert parameters.keys() - example.keys() == {"limit", "cursor"}
            validation.from_strings(operation.input, example, "en")


def test_links_lead_to_operations_and_their_parameters() -> None:
    links = [
        link
        for _, _, operation in DESCRIBED.values()
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]
    assert len(links) > len(made.LINKS)
    assert all(key[0] in DESCRIBED for key in made.LINKS)
    for link in links:
        there = {each.get("name") for each in DESCRIBED[link["operationId"]][2]["parameters"]}
        assert set(link["parameters"]) <= there


async def test_its_page_shows_all_of_it_and_fetches_nothing() -> None:
    shown = page(DOCUMENT)
    assert all(f'id="{name}"' in shown for name in (*DESCRIBED, *SCHEMAS))
    assert {target for target in re.findall(r'href="([^"]*)"', shown) if target[0] != "#"} == {
        "/openapi.json"
    }
    assert all(f'id="{name}"' in shown for name in re.findall(r'href="#([^"]*)"', shown))
    assert not re.search(r"<script|<img|<link|\bsrc=|\bon\w+=|@import|url\(|style=", shown)
    [style] = re.findall("<style>(.*?)</style>", shown, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in POLICY
    assert POLICY.startswith("default-src 'none';")


def test_what_is_forwarded_is_described_as_the_charge_services() -> None:
    with_upstream = forwarded.instead(OPERATIONS, forwarded.operations(wrong_handler))
    described = made.document(with_upstream)
    schemathesis.openapi.from_dict(described).validate()
    assert {(operation.method.lower(), operation.template) for operation in with_upstream} == {
        (method, template) for template, methods in described["paths"].items() for method in methods
    }
    answers = described["paths"]["/v1/charges"]["post"]["responses"]
    error = answers["4XX"]["content"]["application/json"]["schema"]["properties"]["error"]
    assert error == {"anyOf": [{"$ref": "#/components/schemas/UpstreamError"}]}
    assert {"502", "504"} <= answers.keys()
    assert "links" not in answers["202"], "it is no command of ours"
    operations = [each for methods in described["paths"].values() for each in methods.values()]
    assert [each["operationId"] for each in operations if not each["summary"].endswith(".")] == []
    declined = {"code": -9004, "type": "provider", "message": "no", "details": [], "failureReason": "funds"}
    upstream = {**described, "$ref": "#/components/schemas/UpstreamError"}
    assert jsonschema_rs.is_valid(upstream, declined)


async def wrong_handler(asked: Request) -> Response:
    raise AssertionError("it is only described")


def test_what_is_published_asks_for_nothing() -> None:
    shown = published(OPERATIONS)
    assert {operation.template for operation in shown} == {"/openapi.json", "/docs"}
    assert {(operation.limit, operation.idempotency) for operation in shown} == {("none", "none")}


class Counted(tuple[Operation, ...]):
    """Operations that count how often somebody goes through them."""

    walks = 0

    def __iter__(self) -> Iterator[Operation]:
        self.walks += 1
        return super().__iter__()


async def test_the_document_is_made_once_when_somebody_asks_for_it() -> None:
    operations = Counted(OPERATIONS)
    shown, _ = published(operations)
    assert operations.walks == 0
    headers = CIMultiDictProxy(CIMultiDict[str]())
    head = Head(shown, {}, "r1", "en", headers, "/openapi.json", IPv4Address("192.0.2.1"))
    first, made = await shown.handler(head, Nothing()), operations.walks
    assert made > 0
    assert await shown.handler(head, Nothing()) == first
    assert operations.walks == made


async def test_the_document_is_made_anew_when_events_are_sent_by_other_names() -> None:
    names = [Names()]
    as_json, as_page = published(OPERATIONS, lambda: names[-1])
    headers = CIMultiDictProxy(CIMultiDict[str]())
    head = Head(as_json, {}, "r1", "en", headers, "/openapi.json", IPv4Address("192.0.2.1"))
    for prefix in ("Acme-", "Service-"):
        names.append(Names(prefix))
        assert f"{prefix}Signature".encode() in (await as_json.handler(head, Nothing())).data
        assert (await as_page.handler(head, Nothing())).data.startswith(b"<!doctype html>")
