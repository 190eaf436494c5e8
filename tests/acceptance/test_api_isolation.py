"""What is another merchant's is not there, by whatever route: each that the program routes to is asked.

A route that is added and not covered here fails a test, and so does a parameter or a query field.
"""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from tests.acceptance.api_charges import recording
from tests.acceptance.api_fleet import FLEET, fleet
from tests.acceptance.api_fleet import pooler as pooler
from tests.acceptance.api_merchant import Merchant, Reply, start_api
from tests.acceptance.installation import SEALS, Installation
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.api.calls import ForwardedOperation, Operation
from webhook_dispatcher.api.program import compose
from webhook_dispatcher.api.validation import Nothing
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.transport.guard import EgressPolicy


def routed(upstream: str | None = None) -> tuple[Operation, ...]:
    """Return all that the program finds an operation for, put together as it does that itself."""
    return tuple(compose({}, RateLimits(), EgressPolicy(), upstream).operations)


OPERATIONS, FORWARDING = routed(), routed("http://127.0.0.1:9")
UNLIMITED = "key=0/PT1M client=0/PT1M address=0/PT1M card=0/PT1M"
CHARGE = '{"id":"ch_of_the_first","amount":1.10,"note":"of the first alone"}'
WINDOW = {"since": "2026-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"}


@dataclass(frozen=True)
class Foreign:
    """Values that are the first merchant's, and such as nobody has, for what an operation is asked by.

    path: its parameter; query: fields that name something. body: what the operation takes otherwise.
    """

    path: str | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    body: object = None


NOTHING = Foreign()
"""An operation that is asked by nothing but the token."""
COVERED: Mapping[str, Foreign] = {
    "issueToken": Foreign(body={"clientId": "x" * 22, "clientSecret": "y" * 43}),
    "readCharge": Foreign("charge"),
    "readWebhook": NOTHING,
    "putWebhook": Foreign(body={"url": "http://127.0.0.1:9/second"}),
    "rotateSecret": Foreign(body={}),
    "testWebhook": NOTHING,
    "pauseWebhook": NOTHING,
    "resumeWebhook": NOTHING,
    "listDeliveries": Foreign(query={"charge": "charge", "endpoint": "endpoint", "event": "event"}),
    "listEvents": NOTHING,
    "retryDeliveries": Foreign(body=WINDOW),
    "readDelivery": Foreign("event"),
    "retryDelivery": Foreign("event"),
    "readCommand": Foreign("command"),
    "listWebhooks": NOTHING,
    "readWebhookById": Foreign("endpoint"),
    "putWebhookById": Foreign("endpoint", body={"url": "https://example.com/stolen"}),
    "rotateSecretById": Foreign("endpoint", body={}),
    "testWebhookById": Foreign("endpoint"),
    "pauseWebhookById": Foreign("endpoint"),
    "resumeWebhookById": Foreign("endpoint"),
    "deleteWebhookById": Foreign("endpoint"),
    "addWebhook": Foreign(body={"url": "https://example.com/another"}),
    "deleteWebhook": NOTHING,
}
"""In the order in which the second merchant asks: its own webhook is made first, and removed last."""
FOR_EVERYBODY = {"readDocument", "showDocument"}
"""What shows nobody's things, and says the same to whoever asks."""
NAMES_NOTHING = {"limit", "cursor", "state", "type", "since", "until"}
"""Fields of queries whose values are nobody's. Cursors have a test of their own."""
STANDING = """
SELECT
    (SELECT to_jsonb(endpoint) FROM webhook.endpoint WHERE merchant_id = 'm1') AS endpoint,
    (SELECT jsonb_agg(d ORDER BY seq) FROM webhook.deliveries AS d WHERE merchant_id = 'm1') AS deliveries,
    (SELECT jsonb_agg(control ORDER BY id) FROM webhook.control WHERE subject = 'm1') AS commands,
    (SELECT array_agg(client_id || revoked_at) FROM webhook.api_key WHERE merchant_id = 'm1') AS keys
"""


def test_every_route_is_covered() -> None:
    """Whoever adds one says here by what it could be asked for another merchant's things."""
    by_name = {operation.name: operation for operation in OPERATIONS}
    assert set(by_name) == set(COVERED) | FOR_EVERYBODY
    ours = {operation.name for operation in FORWARDING if not isinstance(operation, ForwardedOperation)}
    assert ours == set(by_name) - {"readCharge"}, "the charge service has it then"
    for name, foreign in COVERED.items():
        operation = by_name[name]
        assert operation.template.count("{") == (foreign.path is not None), name
        fields = set() if operation.takes_body else set(operation.input.model_fields)
        assert fields - NAMES_NOTHING == set(foreign.query), name
        has_body = operation.takes_body and operation.input is not Nothing
        assert has_body == (foreign.body is not None), name


async def prepared(
    installation: Installation, first: Merchant, merchant_id: str = "m1"
) -> tuple[dict[str, str], list[str]]:
    """Let the first merchant have one of everything: ids by kind, and texts that none but it may see."""
    await installation.until_true(SEALS)
    made = await first.ask("PUT", "/v1/webhook", {"url": installation.receiver.url(merchant_id)})
    assert made.status == 201
    sent = await installation.emit(merchant_id, CHARGE)
    await installation.settled(sent.id, "delivered", 1)
    assert (await first.carried_out("/v1/webhook/pause")).status == 200
    owed = await installation.emit(merchant_id, CHARGE)
    command = await installation.admin.fetchval("SELECT max(id) FROM webhook.control")
    ids = {"event": str(sent.id), "charge": "ch_of_the_first", "command": str(command)}
    ids["endpoint"] = made.data["id"]
    marks = [str(sent.id), str(owed.id), "ch_of_the_first", "of the first alone", '"m1"', made.data["url"]]
    return ids, [*marks, made.data["secret"], first.client_id, str(first.token)]


def filled(operation: Operation, ids: Mapping[str, str]) -> list[str]:
    """Return the path of an operation, asked by these: by each field of its query alone."""
    foreign = COVERED[operation.name]
    path = operation.template
    if foreign.path is not None:
        path = path[: path.index("{")] + ids[foreign.path] + path[path.index("}") + 1 :]
    return [f"{path}?{name}={ids[kind]}" for name, kind in foreign.query.items()] or [path]


def without_meta(reply: Reply, always: set[str]) -> tuple[int, str, Mapping[str, str]]:
    """Return all that may not tell what is another's from what is not there; always: what meta has anyway."""
    body: dict[str, Any] = reply.json
    meta = body.pop("meta")
    assert set(meta) <= {"requestId", "timestamp", "processingTimeMs", *always}, "a next cursor would tell"
    changing = {"x-request-id", "date", "ratelimit", "content-length"}
    headers = {name: text for name, text in reply.headers.items() if name.lower() not in changing}
    return reply.status, json.dumps(body), headers


@pytest.mark.parametrize("ways", [1, 2], ids=["asked", "asked with the first's own idempotency keys"])
async def test_what_is_anothers_is_as_if_it_were_not_there(installation: Installation, ways: int) -> None:
    await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as first, api.merchant("m2") as second:
        ids, marks = await prepared(installation, first)
        key = None
        if ways == 2:
            key = "the same"
            assert (await first.ask("POST", "/v1/webhook/secret", {}, key)).status == 200
        before = await installation.owner.fetchrow(STANDING)
        nobodys = {"event": str(uuid4()), "charge": "ch_of_nobody", "command": "9" * 15}
        nobodys["endpoint"] = str(uuid4())
        by_name = {operation.name: operation for operation in OPERATIONS}
        for name, foreign in COVERED.items():
            operation = by_name[name]
            given = {} if operation.idempotency == "none" else {"key": key or ""}
            for pair in zip(filled(operation, ids), filled(operation, nobodys), strict=True):
                replies = [
                    await second.ask(operation.method, path, foreign.body, **given)
                    for path in dict.fromkeys(pair)
                ]
                always = {"nextCursor"} if name == "listEvents" else set()
                told = {json.dumps(without_meta(reply, always)) for reply in replies}
                assert len(told) == 1, f"{name}: {told}"
                if foreign.path:
                    assert replies[0].status == 404, name
                for reply in replies:
                    assert [mark for mark in marks if mark.encode() in reply.body] == [], name
                    assert "Idempotent-Replayed" not in reply.headers or reply is not replies[0], name
        for name in FOR_EVERYBODY:
            shown, again = [(await each.ask("GET", by_name[name].template)).body for each in (first, second)]
            assert shown == again, name
            assert [mark for mark in marks if mark.encode() in shown] == [], name
        assert await installation.owner.fetchrow(STANDING) == before, "what is the first's was changed"


def with_more(body: object, name: str) -> dict[str, object]:
    """Return what an operation takes, and a field more."""
    return {**(body if isinstance(body, dict) else {}), name: "m1"}


async def test_no_operation_lets_a_request_say_more_than_it_asks_for(installation: Installation) -> None:
    """Neither whose things it is about nor what else their rows hold: not in a body, not in a query."""
    await installation.start()
    api = await start_api(installation, API_LIMITS=UNLIMITED)
    async with api.merchant("m1") as first, api.merchant("m2") as second:
        await prepared(installation, first)
        # The second has all of it too, so that nothing but the field can be what is refused.
        own, _ = await prepared(installation, second, "m2")
        before = await installation.owner.fetchrow(STANDING)
        for name in COVERED:
            operation = next(each for each in OPERATIONS if each.name == name)
            for more in ("merchantId", "merchant_id", "requestedBy"):
                path = filled(operation, own)[0]
                asked = f"{path}{'&' if '?' in path else '?'}{more}=m1"
                replies = [await second.ask(operation.method, asked, COVERED[name].body)]
                if operation.takes_body:
                    replies.append(
                        await second.ask(operation.method, path, with_more(COVERED[name].body, more))
                    )
                for reply in replies:
                    assert (reply.status, reply.code) == (422, codes.VALIDATION_FAILED), (name, more)
                    assert [each["field"] for each in reply.json["error"]["details"]] == [more], (name, more)
        assert await installation.owner.fetchrow(STANDING) == before


def path_of(operation: Operation) -> str:
    return re.sub(r"{\w+}", "x", operation.template)


def body_of(operation: Operation) -> object:
    return {} if operation.takes_body else None


async def test_what_is_forwarded_is_asked_for_the_tokens_merchant_and_told_to_no_other(
    installation: Installation,
) -> None:
    """Two merchants ask the same with the same key: each is its own merchant's, and gets its own answer."""
    arrived: list[tuple[str, str | None]] = []

    async def note(request: web.Request) -> web.Response:
        merchant_id = request.headers["Service-Merchant-Id"]
        arrived.append((merchant_id, request.headers.get("Idempotency-Key")))
        return web.json_response({"of": merchant_id})

    async with recording(note) as url:
        api = await start_api(installation, API_UPSTREAM=url, API_LIMITS=UNLIMITED)
        async with api.merchant("m1") as first, api.merchant("m2") as second:
            for operation in (each for each in FORWARDING if isinstance(each, ForwardedOperation)):
                arrived.clear()
                told = [
                    (await merchant.ask(operation.method, path_of(operation), body_of(operation), key)).data
                    for merchant in (first, second)
                    for key in [None if operation.idempotency == "none" else "the same"]
                ]
                assert told == [{"of": "m1"}, {"of": "m2"}], operation.name
                assert [merchant_id for merchant_id, _ in arrived] == ["m1", "m2"], operation.name
                keys = {key for _, key in arrived}
                assert len(keys) == (1 if operation.idempotency == "none" else 2), operation.name


async def test_a_revoked_key_is_refused_by_each_operation(installation: Installation) -> None:
    """On four processes, each of which let it in before: from the revocation on, and none is forwarded."""
    arrived: list[str] = []

    async def note(request: web.Request) -> web.Response:
        arrived.append(request.path)
        return web.json_response({})

    everything = [operation for operation in FORWARDING if operation.limit in ("key", "card")]
    others = {operation.name for operation in FORWARDING} - {operation.name for operation in everything}
    assert others == FOR_EVERYBODY | {"issueToken"}
    async with (
        recording(note) as url,
        fleet(installation, API_UPSTREAM=url, API_LIMITS=UNLIMITED) as processes,
        processes.processes[0].merchant("m1") as merchant,
    ):
        clients = processes.everywhere(merchant, FLEET)
        let_in = [await client.ask("GET", "/v1/recipients") for client in clients]
        assert [reply.status for reply in let_in] == [200] * FLEET
        arrived.clear()
        revoke = "SELECT webhook.revoke_api_key($1, 'ana')"
        assert await installation.admin.fetchval(revoke, merchant.client_id)
        revoked_at = time.monotonic()
        asking = [
            client.ask(operation.method, path_of(operation), body_of(operation))
            for client in clients
            for operation in everything
        ]
        replies = await asyncio.gather(*asking, *(client.log_in() for client in clients))
        print(f"{len(replies)} requests in {time.monotonic() - revoked_at:.2f} s after the revocation")
    assert len(everything) > 25
    assert {(reply.status, reply.code) for reply in replies} == {(401, codes.KEY_REVOKED)}
    assert arrived == []
