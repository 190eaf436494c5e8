"""The OpenAPI document, held against what the real program answers."""

import os
import re

import pytest

from tests.acceptance.api_document import OWN
from tests.acceptance.api_fuzzing import ALONG_LINKS, BY_CHANCE, MERCHANT, QUICK, fuzz
from tests.acceptance.api_merchant import Merchant, PartnerApi, start_api
from tests.acceptance.broken_api import BREAKAGES
from tests.acceptance.charge_service import ChargeServiceProcess
from tests.acceptance.installation import Installation
from tests.acceptance.test_api_operations import CHARGE, configured
from tests.waiting import until_found
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.api.charge_service import forwarded
from webhook_dispatcher.local.behaviour import Behaviour

CASES = int(os.environ.get("API_CASES", "250"))
"""Requests that are made up, at the least; all other tests hold the answers that they get against it, too."""
ANSWERED = {operation.name for operation in OWN}
IS_QUICK = CASES <= 250
SEED = ("--seed=1",) if IS_QUICK else ()
"""Of few cases each run makes the same, so that chance decides nothing."""
MIN_LINKS, ROUNDS = 4, 20
"""Of the document's links so many are followed in one of so many rounds.

A round ends where the same requests were answered in another way, which is by chance.
"""
FORWARDED = [name for _, _, name, _ in forwarded.ROWS]
EXAMPLES = max(2, (CASES - 500) // len((*ANSWERED, *FORWARDED)))
"""Those of each operation, and the paths along links; there are hundreds of others in any case."""
CHANCED_UPON = {"retryDelivery", "createCharge", "readCharge", "reverseCharge"}
"""For these a failed delivery and a webhook, or a confirmed card, must be there just then.

test_api_operations.py and test_api_promises.py have them; of many requests the first alone is so rare.
"""
UNLIMITED = "client=0/PT1M address=0/PT1M card=0/PT15M key=0/PT1M"


NOTICED = pytest.mark.slow(
    "acceptance/test_api_document.py::test_whoever_asks_notices_answers_outside_the_document"
)
NOTICED_OF = {
    "readWebhook": ("GET", "/v1/webhook", None, "is a required property"),
    "deleteWebhook": ("DELETE", "/v1/webhook", None, "'since'"),
    "readCharge": ("GET", "/v1/charges/1", None, "203 is not in the document"),
    "rotateSecret": ("POST", "/v1/webhook/secret", {}, "17"),
    "putWebhook": ("PUT", "/v1/webhook", {"url": "https://merchant.example/"}, "-14004"),
}
"""What a merchant asks for, and what is then said of the answer."""
SAID_OF = {
    "readWebhook": '"paused" is a required property',
    "deleteWebhook": "('since' was unexpected)",
    "readCharge": "Received: 203",
    "rotateSecret": "17 is not valid under any of the schemas",
    "putWebhook": '"code":-14004,',
}
"""What schemathesis says of each."""


async def with_deliveries(installation: Installation, merchant: Merchant) -> None:
    """Have a delivery of each end."""
    await configured(installation, merchant, "m1")
    delivered = await installation.emit("m1", CHARGE)
    await installation.settled(delivered.id, "delivered", 1)
    installation.receiver.behave("m1", Behaviour(503))
    failed = await installation.emit("m1", CHARGE)
    await installation.settled(failed.id, "failed", 2)
    installation.receiver.behave("m1", Behaviour())


async def follow_links(api: PartnerApi, merchant: Merchant) -> None:
    """Go the ways that the document's links show, until enough of them were gone."""
    most = 0
    for _ in range(ROUNDS):
        found = await fuzz(api, merchant, EXAMPLES, phases=ALONG_LINKS)
        print(found.said)
        assert found.status == 0, found.said
        most = max(most, found.links)
        if most >= MIN_LINKS:
            return
    raise AssertionError(f"{most} links were followed at most")


@NOTICED
@pytest.mark.timeout(600 + CASES // 10)
async def test_no_made_up_request_is_answered_outside_the_document(installation: Installation) -> None:
    await installation.start(RETRY_SCHEDULE="PT0.05S")
    with ChargeServiceProcess(installation.database.dsn("webhook_producer")) as service:
        api = await start_api(installation, API_LIMITS=UNLIMITED, API_UPSTREAM=service.url)
        async with api.merchant(MERCHANT) as merchant:
            await with_deliveries(installation, merchant)
            found = await fuzz(api, merchant, EXAMPLES, *SEED, phases=QUICK if IS_QUICK else BY_CHANCE)
            print(found.said)
            assert (found.status, found.cases >= CASES) == (0, True), found.said
            if not IS_QUICK:
                await follow_links(api, merchant)
    lacking = {*ANSWERED, *FORWARDED} - found.succeeded
    assert lacking <= (CHANCED_UPON if IS_QUICK else {"retryDelivery"}), lacking


async def test_the_document_and_its_page_are_had_without_a_token(installation: Installation) -> None:
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        merchant.token = None
        document = await merchant.ask("GET", "/openapi.json")
        assert (document.status, document.headers["Content-Type"]) == (200, "application/json")
        assert (document.json["openapi"], len(document.json["paths"]) > 10) == ("3.1.0", True)
        shown = await merchant.ask("GET", "/docs")
        assert (shown.status, shown.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert shown.body.startswith(b"<!doctype html>")
        assert shown.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
        assert not {"RateLimit", "RateLimit-Policy"} & {*document.headers, *shown.headers}
        for text in (document, shown):
            assert text.headers["Content-Encoding"] == "gzip"
            size = int(text.headers["Content-Length"])
            assert size < len(text.body) / 5
        for tags in (document.headers["Etag"], f'"other", {document.headers["Etag"][2:]}', "*"):
            known = await merchant.ask("GET", "/openapi.json", **{"If-None-Match": tags})
            assert (known.status, known.body) == (304, b"")
            assert known.headers["Etag"] == document.headers["Etag"] != shown.headers["Etag"]
        other = {"If-None-Match": shown.headers["Etag"], "Accept-Encoding": "gzip;q=0, deflate"}
        plain = await merchant.ask("GET", "/openapi.json", **other)
        assert (plain.status, plain.body, plain.headers.get("Content-Encoding")) == (200, document.body, None)
        refused = await merchant.ask("POST", "/openapi.json")
        assert (refused.status, refused.code) == (405, codes.METHOD_NOT_ALLOWED)


async def test_a_mass_retry_is_told_again_when_it_has_ended(installation: Installation) -> None:
    await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await configured(installation, merchant, "m1")
        window = {"since": "2026-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"}
        given = await merchant.ask("POST", "/v1/deliveries/retry", window, key="once")

        async def has_ended() -> bool:
            command = await merchant.ask("GET", f"/v1/commands/{given.data['commandId']}")
            return bool(command.data["status"] == "done")

        await until_found(has_ended)
        again = await merchant.ask("POST", "/v1/deliveries/retry", window, key="once")
        assert (again.status, again.headers["Idempotent-Replayed"]) == (202, "true")
        assert again.data == {"commandId": given.data["commandId"], "status": "done"}


async def test_whoever_asks_notices_answers_outside_the_document(installation: Installation) -> None:
    api = await start_api(installation, program=("tests.acceptance.broken_api",))
    async with api.merchant("m1") as merchant:
        for name, (method, path, body, said) in NOTICED_OF.items():
            with pytest.raises(AssertionError, match=f"{name}: .*{re.escape(said)}"):
                print(name, await merchant.ask(method, path, body))


@NOTICED
async def test_five_answers_outside_the_document_are_found(installation: Installation) -> None:
    api = await start_api(installation, program=("tests.acceptance.broken_api",), API_LIMITS=UNLIMITED)
    chosen = (f"--include-operation-id={name}" for name in BREAKAGES)
    async with api.merchant("m1") as merchant:
        found = await fuzz(api, merchant, 2, *chosen, phases=(*BY_CHANCE, *ALONG_LINKS))
    assert found.status == 1
    unsaid = [name for name in BREAKAGES if SAID_OF[name] not in " ".join(found.said.split())]
    assert unsaid == [], found.said
