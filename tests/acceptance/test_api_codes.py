"""Every code that can leave, from a real process before the sample charge service, in each language.

The catalogue decides what is tested: a code that has no way to come about here fails. What partners were told
of codes, statuses and ranges stands here once more, in numbers of its own. Source: Partner API 2.3, 7.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from tests.acceptance.api_charges import (
    POOR,
    REJECTED,
    bound_card,
    charge,
    confirmed_card,
    misbehave,
    recipients,
)
from tests.acceptance.api_merchant import Merchant, PartnerApi, Reply, start_api
from tests.acceptance.charge_service import ChargeServiceProcess
from tests.acceptance.installation import Installation
from tests.acceptance.raw_http import asked
from tests.servers.database import Database, free_port
from tests.waiting import until
from webhook_dispatcher import words
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.api.catalogue import CATALOGUE, RANGES, message
from webhook_dispatcher.domain.language import LANGUAGES, Language

pytestmark = pytest.mark.asyncio(loop_scope="module")

IMPATIENT = ("tests.acceptance.impatient_api", "api")
"""Asked alone for what nobody answers, or what does not end: all else may take its time."""
LIMITS = "key=0/PT1M client=0/PT1M address=0/PT1M card=1/PT15M"
NOBODY = {"clientId": "x" * 22, "clientSecret": "y" * 43}

STATUSES = {
    **{-1007: 422, -2006: 422, -3004: 409, -3006: 422, -3007: 409, -6004: 422, -8004: 422, -8006: 403},
    **{-9002: 422, -9004: 422, -10001: 401, -10002: 401, -10003: 401, -11001: 400, -11002: 422},
    **{-11003: 409, -11005: 429, -12004: 422},
}
"""Partner API 7.3, row by row."""
TYPES = {
    **{(-1001, -1009): "validation", (-2001, -2009): "shares", (-3001, -3007): "charge"},
    **{(-4001, -4004): "business", (-5001, -5006): "merchant", (-6001, -6007): "recipient"},
    **{(-7001, -7002): "customer", (-8001, -8008): "card", (-9001, -9009): "provider"},
    **{(-10001, -10003): "authentication", (-11001, -11005): "request", (-12001, -12004): "fiscal"},
    **{(-14001, -14005): "webhook"},
}
"""Partner API 7.2, row by row; the labels but for `validation` are our choice."""
NEVER = (*range(-13016, -13000), *range(-15005, -15000))
"""Partner API 7.2: ranges of other products."""
OURS_ALONE = (-10001, -10002, -10003, -11004, -14005, codes.NO_SUCH_PATH, codes.INTERNAL, 0, 7, -77, -1000)
"""What the charge service cannot tell a client: it is about credentials, about us, or published nowhere."""
EXTRA = {-9004: {"failureReason"}, codes.INVALID_URL: {"reason"}}
EXTRA |= {codes.STATE_FORBIDS: {"cause"}, codes.BODY_TOO_LARGE: {"maxBytes"}}
"""What else is told in `error`."""
COMES_AGAIN = {codes.STILL_RUNNING, codes.LIMIT_EXCEEDED, -16011, -16012, codes.UNAVAILABLE}
"""Codes that say when to try again."""


@dataclass(frozen=True, kw_only=True)
class Told(Reply):
    """An answer, and what was asked: method and path. Names of headers are in small letters."""

    asked: str


@dataclass(frozen=True)
class Stage:
    """What all ways to be refused start from. ids: by what stands in braces in their paths."""

    installation: Installation
    service: ChargeServiceProcess
    api: PartnerApi
    impatient: PartnerApi
    clients: Mapping[str, Merchant]
    ids: Mapping[str, str]
    used: Mapping[str, object]


Given = Mapping[str, str]
"""Headers that all requests are sent with: a language and a request id."""
Way = Callable[[Stage, Given], Coroutine[Any, Any, Told]]
Body = object | Callable[[Stage], object]


def ask(
    method: str,
    path: str,
    body: Body = None,
    *,
    who: str = "merchant",
    key: str | None = "",
    how: str | None = None,
    **headers: str,
) -> Way:
    """Ask as one of the stage's clients; how: what the charge service does wrong meanwhile."""

    async def way(stage: Stage, given: Given) -> Told:
        if how is not None:
            await misbehave(stage.service, how)
        found = body(stage) if callable(body) else body
        reply = await stage.clients[who].ask(
            method, path.format_map(stage.ids), found, key, **{**given, **headers}
        )
        named = {name.lower(): each for name, each in reply.headers.items()}
        return Told(reply.status, named, reply.body, asked=f"{method} {path}")

    return way


def raw(line: str, *more: str, body: bytes = b"") -> Way:
    """Send what no client sends by itself."""

    async def way(stage: Stage, given: Given) -> Told:
        lines = [f"{line} HTTP/1.1", "Host: api", f"Authorization: Bearer {stage.clients['merchant'].token}"]
        lines += [*(f"{name}: {each}" for name, each in given.items()), *more, "", ""]
        reply = await asked(stage.impatient.port, "\r\n".join(lines).encode() + body)
        return Told(reply.status, reply.headers, reply.body, asked=line)

    return way


def bad_charge(**changes: object) -> Body:
    return lambda stage: charge(stage.ids["card"], **changes)


def charge_of(card: str) -> Body:
    return lambda stage: charge(stage.ids[card])


async def twice_at_once(stage: Stage, given: Given) -> Told:
    """Send the same request twice while the charge service does not answer: the second one is told so."""
    again = ask("POST", "/v1/charges", charge(stage.ids["card"]), key=str(uuid4()))
    await misbehave(stage.service, "hang")
    both = {asyncio.create_task(again(stage, given)) for _ in range(2)}
    done, [hanging] = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    hanging.cancel()
    return done.pop().result()


JSON = "Content-Type: application/json"
PUT = "PUT /v1/webhook"
REVERSE = "/v1/charges/{%s}/reverse"

WAYS: Mapping[int, Way] = {
    -1007: ask("GET", "/v1/deliveries?limit=0"),
    -10001: ask("POST", "/v1/auth/token", NOBODY, who="stranger", key=None),
    -10002: ask("GET", "/v1/webhook", Authorization=f"Bearer {'A' * 43}"),
    -10003: ask("GET", "/v1/webhook", who="revoked"),
    -11001: ask("POST", "/v1/webhook/secret", {}, key=None),
    -11002: ask("POST", "/v1/charges", charge_of("card"), key="used"),
    -11003: twice_at_once,
    codes.TOKEN_MISSING: ask("GET", "/v1/webhook", who="stranger"),
    -11005: ask("POST", "/v1/cards/{card}/confirm", {"code": "000000"}),
    -2006: ask("POST", "/v1/charges", bad_charge(recipients=recipients(share=9_999))),
    -3004: ask("POST", "/v1/charges", lambda stage: stage.used),
    -3006: ask("POST", REVERSE % "yesterday", {}),
    -3007: ask("POST", REVERSE % "charge", {"version": 7}),
    -6004: ask("POST", "/v1/charges", bad_charge(recipients=recipients("rcp_new"))),
    -8004: ask("POST", "/v1/charges", charge_of("pending")),
    -8006: ask("POST", "/v1/charges", charge_of("foreign")),
    -9002: ask("POST", "/v1/charges", charge_of("rejected")),
    -9004: ask("POST", "/v1/charges", charge_of("poor")),
    -12004: ask("POST", "/v1/charges", lambda stage: charge(stage.ids["foreign"], fiscal=True), who="other"),
    codes.INVALID_URL: ask("PUT", "/v1/webhook", {"url": "ftp://merchant.example/"}),
    codes.NOT_CONFIGURED: ask("GET", "/v1/webhook", who="other"),
    codes.DELIVERY_NOT_FOUND: ask("GET", f"/v1/deliveries/{uuid4()}"),
    codes.STATE_FORBIDS: ask("POST", "/v1/deliveries/{delivered}/retry"),
    codes.NO_SUCH_PATH: ask("GET", "/charges/{charge}"),
    codes.METHOD_NOT_ALLOWED: ask("DELETE", "/v1/charges/{charge}"),
    codes.NOT_JSON: ask("POST", "/v1/charges", b"{"),
    codes.BODY_TOO_LARGE: raw(PUT, JSON, "Content-Length: 1048577"),
    codes.TOO_SLOW: raw(PUT, JSON, "Content-Length: 9", body=b'{"u'),
    codes.WRONG_CONTENT_TYPE: ask("PUT", "/v1/webhook", b"<url/>", **{"Content-Type": "text/xml"}),
    codes.MALFORMED_REQUEST: raw("GET /v1/charges/../webhook"),
    codes.HEAD_TOO_LARGE: raw("GET /v1/webhook", *(f"X-{number}: {'x' * 8000}" for number in range(5))),
    codes.UNKNOWN_EXPECTATION: raw("POST /v1/charges", JSON, "Expect: 200-ok", "Content-Length: 2"),
    codes.INTERNAL: ask("GET", "/v1/charges/{charge}", how="not-json"),
    codes.UPSTREAM_AWAY: ask("GET", "/v1/charges/{charge}", how="503"),
    codes.UPSTREAM_TOO_SLOW: ask("GET", "/v1/charges/{charge}", who="hurried", how="hang"),
    codes.UNAVAILABLE: ask("GET", "/v1/webhook", who="elsewhere"),
    codes.NOT_FOUND: ask("GET", "/v1/commands/999"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(shared_database: Database, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Have merchants who made a charge each way, before a process whose limit for a card is one attempt."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        installation = await enter(Installation(shared_database, tmp_path_factory.mktemp("codes")))
        yield await prepared(installation, stack)


async def prepared(installation: Installation, stack: AsyncExitStack) -> Stage:
    enter = stack.enter_async_context
    service = stack.enter_context(ChargeServiceProcess(installation.database.dsn("webhook_producer")))
    await installation.start()
    forwarding = {"API_UPSTREAM": service.url, "API_LIMITS": LIMITS}
    api = await start_api(installation, **forwarding)
    impatient = await start_api(installation, program=IMPATIENT, **forwarding)
    away = {
        "DATABASE_URL": f"postgresql://webhook_api@127.0.0.1:{free_port()}/none",
        "DATABASE_POOLER": "none",
    }
    elsewhere = await start_api(installation, **away)
    names = {"merchant": "m1", "other": "m-no-fiscal", "revoked": "m2"}
    clients = {who: await enter(api.merchant(merchant_id)) for who, merchant_id in names.items()}
    revoked = installation.command("api-key", "revoke", clients["revoked"].client_id)
    assert revoked.returncode == 0
    base = clients["merchant"].base
    clients["stranger"] = await enter(Merchant(base, "", ""))
    clients["elsewhere"] = await enter(Merchant(f"http://127.0.0.1:{elsewhere.port}", "", "", "A" * 43))
    merchant = clients["merchant"]
    clients["hurried"] = replace(merchant, base=f"http://127.0.0.1:{impatient.port}")
    cards = {
        "card": await confirmed_card(merchant),
        "pending": await bound_card(merchant),
        "rejected": await confirmed_card(merchant, REJECTED),
        "poor": await confirmed_card(merchant, POOR),
        "foreign": await confirmed_card(clients["other"]),
    }
    used = charge(cards["card"])
    made = await merchant.ask("POST", "/v1/charges", used, key="used")
    before = await merchant.ask("POST", "/v1/charges", charge(cards["card"], externalId="yesterday-1"))
    ids = {**cards, "charge": made.data["id"], "yesterday": before.data["id"]}
    await installation.configure("m1")
    delivered = await installation.emit("m1")
    await installation.settled(delivered.id, "delivered", 1)
    ids["delivered"] = str(delivered.id)
    return Stage(installation, service, api, impatient, clients, ids, used)


async def told_in(stage: Stage, way: Way, language: Language, code: int) -> Told:
    """Ask in a language, and hold all of the answer but its words against what was promised."""
    request_id, began, before = f"r-{uuid4()}", time.monotonic(), time.time()
    told = await way(stage, {"Accept-Language": language, "x-request-id": request_id})
    took, after = time.monotonic() - began, time.time()
    check_headers(told, code, language, request_id)
    assert set(told.json) == {"success", "error", "meta"}
    assert told.json["success"] is False
    meta = told.json["meta"]
    assert set(meta) == {"requestId", "timestamp", "processingTimeMs"}
    assert meta["requestId"] == request_id
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", meta["timestamp"])
    assert before - 0.001 <= datetime.fromisoformat(meta["timestamp"]).timestamp() <= after
    assert type(meta["processingTimeMs"]) is int
    assert 0 <= meta["processingTimeMs"] <= took * 1000
    check_error(told.json["error"], code)
    return told


def check_headers(told: Told, code: int, language: Language, request_id: str) -> None:
    headers = told.headers
    assert headers["content-type"] == "application/json"
    assert headers["content-language"] == language
    assert headers["vary"] == "Accept-Language"
    assert headers["x-request-id"] == request_id
    assert headers.get("www-authenticate") == ("Bearer" if told.status == 401 else None)
    assert ("allow" in headers) == (told.status == 405)
    assert headers["cache-control"] == "no-store"
    assert ("retry-after" in headers) == (code in COMES_AGAIN)
    if code in COMES_AGAIN:
        assert headers["retry-after"].isdecimal()
        assert int(headers["retry-after"]) >= 1


def check_error(error: Mapping[str, Any], code: int) -> None:
    assert set(error) == {"code", "type", "message", "details"} | EXTRA.get(code, set())
    assert type(error["code"]) is int
    assert error["code"] == code
    assert bool(error["details"]) == (code == -1007)
    for detail in error["details"]:
        assert set(detail) == {"field", "message"}
        assert detail["message"].endswith(".")
        assert re.fullmatch(r"\w+(\.\w+)*", detail["field"])


async def in_each_language(stage: Stage, way: Way, code: int) -> list[Told]:
    return [await told_in(stage, way, language, code) for language in LANGUAGES]


@pytest.mark.parametrize("code", CATALOGUE)
async def test_a_code_is_told_as_it_was_promised(stage: Stage, code: int) -> None:
    answers = await in_each_language(stage, WAYS[code], code)
    entry = CATALOGUE[code]
    assert {told.status for told in answers} == {STATUSES.get(code, entry.status)}
    assert {told.json["error"]["type"] for told in answers} == {type_of(code) or entry.type}
    messages = [told.json["error"]["message"] for told in answers]
    assert messages == [message(code, language) for language in LANGUAGES]
    assert len(set(messages)) == len(LANGUAGES)


def type_of(code: int) -> str | None:
    """Return the label of the published range that a code is in."""
    return next((label for (first, last), label in TYPES.items() if last <= code <= first), None)


async def test_what_is_published_is_what_there_is() -> None:
    """Each code that the catalogue has can be had here, and what partners were told is all there."""
    assert set(WAYS) == set(CATALOGUE)
    assert set(STATUSES) <= set(CATALOGUE)
    assert {(known.first, known.last): known.type for known in RANGES} == TYPES
    assert not [code for code in NEVER if type_of(code)]
    assert {code for code in CATALOGUE if type_of(code) is None} == {
        code for code in CATALOGUE if code <= codes.NO_SUCH_PATH
    }


@pytest.mark.parametrize("known", RANGES, ids=lambda known: known.type)
async def test_a_code_of_a_range_that_no_row_has_passes_with_the_words_of_its_range(
    stage: Stage, known: codes.CodeRange
) -> None:
    others = [code for code in range(known.last, known.first + 1) if code not in {*CATALOGUE, -14005}]
    for code in others:
        answers = []
        for language in LANGUAGES:
            way = ask("GET", "/v1/charges/{charge}", how=f"410/{code}")
            answers.append(await told_plainly(stage, way, language))
        key = code if code in codes.NOT_FOUND_BEHIND else known.type
        assert {told.status for told in answers} == {410}
        assert {told.json["error"]["code"] for told in answers} == {code}
        assert {told.json["error"]["type"] for told in answers} == {known.type}
        assert [told.json["error"]["message"] for told in answers] == [
            words.template(f"api.{key}", language) for language in LANGUAGES
        ]


async def told_plainly(stage: Stage, way: Way, language: Language) -> Told:
    told = await way(stage, {"Accept-Language": language})
    assert told.headers["content-language"] == language
    return told


@pytest.mark.parametrize("code", [*NEVER, *OURS_ALONE])
async def test_a_code_that_never_appears_is_the_internal_error_and_the_log_says_so(
    stage: Stage, code: int
) -> None:
    way = ask("GET", "/v1/charges/{charge}", how=f"422/{code}")
    answers = await in_each_language(stage, way, codes.INTERNAL)
    assert {told.status for told in answers} == {500}
    internal = [message(codes.INTERNAL, language) for language in LANGUAGES]
    assert [told.json["error"]["message"] for told in answers] == internal
    asked_for = {told.json["meta"]["requestId"] for told in answers}

    def logged() -> bool:
        lines = stage.api.daemon.log("upstream.broken")
        return asked_for == {
            line["request_id"]
            for line in lines
            if line["request_id"] in asked_for and line["reason"].endswith(f"the code {code}")
        }

    await until(logged)


async def test_what_the_table_says_besides_the_code_is_so(stage: Stage) -> None:
    """-3004 made no second charge, -3007 goes when the charge is read anew, -9004 says why."""
    merchant, count = stage.clients["merchant"], "SELECT count(*) FROM webhook.charges"
    wanted = charge(stage.ids["card"])
    assert (await merchant.ask("POST", "/v1/charges", wanted)).status == 201
    before = await stage.installation.owner.fetchval(count)
    assert (await merchant.ask("POST", "/v1/charges", wanted)).code == -3004
    assert await stage.installation.owner.fetchval(count) == before
    declined = await merchant.ask("POST", "/v1/charges", charge(stage.ids["poor"]))
    assert declined.json["error"]["failureReason"] == "insufficient_funds"
    made = await merchant.ask("POST", "/v1/charges", charge(stage.ids["card"]))
    path = f"/v1/charges/{made.data['id']}"
    assert (await merchant.ask("POST", f"{path}/reverse", {"version": 2})).code == -3007
    version = (await merchant.ask("GET", path)).data["version"]
    assert (await merchant.ask("POST", f"{path}/reverse", {"version": version})).status == 200
