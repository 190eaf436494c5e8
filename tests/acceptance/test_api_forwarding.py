"""What is forwarded, with the real program before the real sample charge service."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from tests.acceptance.api_charges import (
    CARD,
    bound_card,
    charge,
    confirmed_card,
    misbehave,
    recipients,
)
from tests.acceptance.api_merchant import Merchant, PartnerApi, start_api
from tests.acceptance.charge_service import ChargeServiceProcess
from tests.acceptance.installation import Installation
from tests.acceptance.processes import http_get
from tests.servers.database import free_port
from tests.waiting import until_equal
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.api.charge_service import forwarded

IMPATIENT = ("tests.acceptance.impatient_api", "api")
AT_AN_END = "UPDATE webhook.api_request SET asked_until = clock_timestamp() WHERE asked_until IS NOT NULL"


@asynccontextmanager
async def forwarding(
    installation: Installation, **options: Any
) -> AsyncIterator[tuple[ChargeServiceProcess, PartnerApi]]:
    """Run the charge service, and an API before it."""
    with ChargeServiceProcess(installation.database.dsn("webhook_producer")) as service:
        yield service, await start_api(installation, API_UPSTREAM=service.url, **options)


def at(api: PartnerApi, merchant: Merchant) -> Merchant:
    """Return the merchant as a client of another process."""
    return replace(merchant, base=f"http://127.0.0.1:{api.port}")


def path_of(template: str) -> str:
    return re.sub(r"{\w+}", "x", template)


def body_for(method: str) -> object:
    return {} if method in ("POST", "PUT", "PATCH") else None


async def charges_made(installation: Installation) -> int:
    count = "SELECT count(*) FROM webhook.outbox WHERE type = 'charge.created'"
    made: int = await installation.owner.fetchval(count)
    return made


async def test_without_a_charge_service_its_operations_are_not_there(installation: Installation) -> None:
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        for method, template, *_ in forwarded.ROWS:
            if template != "/v1/charges/{id}":
                reply = await merchant.ask(method, path_of(template), body_for(method))
                assert (reply.status, reply.code) == (404, codes.NO_SUCH_PATH)
        assert (await merchant.ask("GET", "/v1/charges/x")).code == codes.NOT_FOUND


async def test_a_charge_service_that_is_away_is_no_reason_not_to_be_ready(installation: Installation) -> None:
    api = await start_api(installation, API_UPSTREAM=f"http://127.0.0.1:{free_port()}")
    async with api.merchant("m1") as merchant:
        for method, template, *_ in forwarded.ROWS:
            reply = await merchant.ask(method, path_of(template), body_for(method), key="k1")
            assert (reply.status, reply.code) == (502, codes.UPSTREAM_AWAY)
            assert int(reply.headers["Retry-After"]) >= 1
        # Nothing was sent, so the key is free for another body.
        other = await merchant.ask("POST", "/v1/charges", {"another": 1}, key="k1")
        assert other.code == codes.UPSTREAM_AWAY
    assert (await http_get(api.ops_port, "/readyz"))[0] == 200
    _, text = await http_get(api.ops_port, "/metrics")
    count = len(forwarded.ROWS) + 1
    assert f'webhook_api_upstream_requests_total{{outcome="away"}} {count}.0' in text


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ("hang-after-acting", 504, codes.UPSTREAM_TOO_SLOW),
        ("die-after-acting", 502, codes.UPSTREAM_AWAY),
        ("break-off-after-acting", 502, codes.UPSTREAM_AWAY),
        ("500-after-acting", 500, codes.INTERNAL),
        ("503-after-acting", 502, codes.UPSTREAM_AWAY),
        ("not-json-after-acting", 500, codes.INTERNAL),
        ("503", 502, codes.UPSTREAM_AWAY),
    ],
)
async def test_what_nobody_knows_of_is_asked_again_and_has_one_effect(
    installation: Installation, how: str, status: int, code: int
) -> None:
    async with forwarding(installation) as (service, api), api.merchant("m1") as merchant:
        wanted, asking = charge(await confirmed_card(merchant)), merchant
        if how == "hang-after-acting":  # all other answers come, however long that takes
            impatient = await start_api(installation, program=IMPATIENT, API_UPSTREAM=service.url)
            asking = at(impatient, merchant)
        await misbehave(service, how)
        doubtful = await asking.ask("POST", "/v1/charges", wanted, key="k1")
        assert (doubtful.status, doubtful.code) == (status, code)
        other = await merchant.ask("POST", "/v1/charges", {**wanted, "amount": 2}, key="k1")
        assert (other.status, other.code) == (422, codes.KEY_REUSED)
        again = await merchant.ask("POST", "/v1/charges", wanted, key="k1")
        assert (again.status, again.data["externalId"]) == (201, wanted["externalId"])
        assert "Idempotent-Replayed" not in again.headers
        replayed = await merchant.ask("POST", "/v1/charges", wanted, key="k1")
        assert (replayed.status, replayed.data) == (201, again.data)
        assert replayed.headers["Idempotent-Replayed"] == "true"
        assert await charges_made(installation) == 1


async def test_what_has_no_effect_leaves_the_key_and_every_refusal_binds_it(
    installation: Installation,
) -> None:
    async with forwarding(installation) as (service, api), api.merchant("m1") as merchant:
        card = await confirmed_card(merchant)
        invalid = await merchant.ask("POST", "/v1/charges", charge(card, amount=0), key="k1")
        assert invalid.code == -1007
        strange = {f"{number:02}{'x' * 200}": 1 for number in range(60)}
        bounded = await merchant.ask("POST", "/v1/charges", charge(card, **strange))
        assert {len(each["field"]) for each in bounded.json["error"]["details"]} == {200}
        assert len(bounded.json["error"]["details"]) == 50
        await misbehave(service, "too-many")
        many = await merchant.ask("POST", "/v1/charges", charge(card), key="k1")
        assert (many.status, many.code, many.headers["Retry-After"]) == (429, -11005, "17")
        assert (await merchant.ask("POST", "/v1/charges", charge(card), key="k1")).status == 201
        short = charge(card, recipients=recipients(share=1))
        refused = [
            await merchant.ask("POST", "/v1/charges", short, key="k2", **{"Accept-Language": language})
            for language in ("uz", "ru")
        ]
        assert refused[0].json["error"] == refused[1].json["error"]
        assert refused[1].headers["Content-Language"] == "uz"
        assert refused[1].headers["Idempotent-Replayed"] == "true"
        assert (await merchant.ask("POST", "/v1/charges", charge(card), key="k2")).code == codes.KEY_REUSED
        assert (await merchant.ask("POST", "/v1/charges", charge(card), key=None)).code == codes.KEY_MISSING


async def test_a_process_that_is_killed_while_it_asks_leaves_one_effect(installation: Installation) -> None:
    async with forwarding(installation) as (service, api), api.merchant("m1") as merchant:
        other = await start_api(installation, API_UPSTREAM=service.url)
        wanted = charge(await confirmed_card(merchant))
        await misbehave(service, "hang-after-acting")
        asking = asyncio.create_task(merchant.ask("POST", "/v1/charges", wanted, key="k1"))
        await until_equal(lambda: charges_made(installation), 1)
        api.daemon.kill()
        with pytest.raises(aiohttp.ClientError):
            await asking
        at_other = at(other, merchant)
        running = await at_other.ask("POST", "/v1/charges", wanted, key="k1")
        assert (running.status, running.code) == (409, codes.STILL_RUNNING)
        assert running.headers["Retry-After"] == "1"
        await installation.owner.execute(AT_AN_END)
        assert (await at_other.ask("POST", "/v1/charges", wanted, key="k1")).status == 201
        assert await charges_made(installation) == 1


async def test_attempts_at_a_card_are_counted_by_merchant_and_card(installation: Installation) -> None:
    limits = "card=3/PT15M key=30/PT1M"
    async with (
        forwarding(installation, API_LIMITS=limits) as (service, api),
        api.merchant("owner") as owner,
        api.merchant("stranger") as stranger,
    ):
        card = await bound_card(owner)
        path, wrong = f"/v1/cards/{card}/confirm", {"code": "000000"}
        for _ in range(5):
            assert (await stranger.ask("POST", path, wrong)).code == codes.CARD_OF_ANOTHER
        # What may have been tried counts, for the stranger alone.
        await misbehave(service, "500", 3)
        tried = [await stranger.ask("POST", path, wrong) for _ in range(4)]
        assert [reply.status for reply in tried] == [500, 500, 500, 429]
        # None of these was an attempt: no key, no JSON, no such id, a replay.
        assert (await owner.ask("POST", path, wrong, key=None)).code == codes.KEY_MISSING
        assert (await owner.ask("POST", path, b"{")).code == codes.NOT_JSON
        first = await owner.ask("POST", path, wrong, key="k1")
        assert (first.code, first.headers["RateLimit"].split(", ")[1]) == (-9003, '"card";r=2')
        assert first.headers["RateLimit-Policy"] == '"key";q=30;w=60, "card";q=3;w=900'
        for _ in range(3):
            assert (await owner.ask("POST", path, wrong, key="k1")).headers["Idempotent-Replayed"] == "true"
        assert (await owner.ask("POST", path, {"code": "1"}, key="k1")).code == codes.KEY_REUSED
        encoded = f"/v1/cards/%{ord(card[0]):x}{card[1:]}/confirm"
        assert [(await owner.ask("POST", target, wrong)).code for target in (encoded, path)] == [-9003] * 2
        for target in (path, encoded):
            refused = await owner.ask("POST", target, {"code": CARD[-6:]})
            assert (refused.status, refused.code) == (429, codes.LIMIT_EXCEEDED)
            assert 800 < int(refused.headers["Retry-After"]) <= 900
        known = await owner.ask("POST", path, wrong, key="k1")
        assert (known.code, known.json["meta"]["replayed"]) == (-9003, True), "though the limit is full"
        shown = await owner.ask("GET", f"/v1/cards/{card}")
        # What is refused for the card takes nothing of the key's: ten requests were let in before.
        assert shown.headers["RateLimit"] == '"key";r=19'
        assert (await owner.ask("POST", f"/v1/cards/{await bound_card(owner)}/confirm", wrong)).code == -9003
