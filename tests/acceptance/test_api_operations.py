"""What a merchant does through the Partner API, with a real daemon and receiver."""

import base64
import re
import time
from typing import Any
from uuid import uuid4

import pytest

from tests.acceptance.api_merchant import Merchant, Reply, command_path, start_api
from tests.acceptance.installation import OLDER, SEALS, Installation
from tests.waiting import until_found
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.api.operations.models import BLOCKED_REASON
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.local.behaviour import Behaviour

CHARGE = '{"id":"ch_1","amount":1.10,"status":"SUCCEEDED"}'


async def configured(installation: Installation, merchant: Merchant, merchant_id: str) -> None:
    """Configure the merchant's own webhook, once a daemon has published what seals secrets."""
    await installation.until_true(SEALS)
    reply = await merchant.ask("PUT", "/v1/webhook", {"url": installation.receiver.url(merchant_id)})
    assert (reply.status, reply.headers["Cache-Control"]) == (201, "no-store")
    installation.receiver.secrets[merchant_id] = Secret(reply.data["secret"])


async def test_a_merchant_sets_its_webhook_up_and_follows_its_deliveries(installation: Installation) -> None:
    await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        none = await merchant.ask("GET", "/v1/webhook")
        assert (none.status, none.code) == (404, codes.NOT_CONFIGURED)
        await configured(installation, merchant, "m1")
        sent = await installation.emit("m1", CHARGE, "charge.succeeded")
        [arrival] = await installation.arrived(1)

        listed = await merchant.ask("GET", "/v1/deliveries?limit=10")
        assert [found["eventId"] for found in listed.data] == [str(sent.id)]
        await installation.settled(sent.id, "delivered", 1)
        shown = await merchant.ask("GET", f"/v1/deliveries/{sent.id}")
        assert (shown.data["state"], shown.data["attempts"]) == ("delivered", 1)
        assert [attempt["outcome"] for attempt in shown.data["attemptLog"]] == ["delivered"]
        assert b'"payload":' + arrival.body + b"}" in shown.body
        charge = await merchant.ask("GET", "/v1/charges/ch_1")
        assert b'"data":' + CHARGE.encode() + b"," in charge.body

        tested = await merchant.carried_out("/v1/webhook/test")
        assert (tested.status, tested.data["outcome"]) == (200, "delivered")
        rotated = await merchant.ask("POST", "/v1/webhook/secret", {"overlapSeconds": 60})
        assert rotated.data["secret"].startswith("whsec_")
        assert rotated.headers["Cache-Control"] == "no-store"
        assert rotated.data["previousSecretUntil"]

        assert (await merchant.carried_out("/v1/webhook/pause")).data == {"paused": True}
        assert (await merchant.ask("GET", "/v1/webhook")).data["paused"] is True
        assert (await merchant.carried_out("/v1/webhook/resume")).data == {"paused": False}
        assert (await merchant.ask("DELETE", "/v1/webhook")).data == {"removed": True, "failed": 0}
        assert (await merchant.ask("DELETE", "/v1/webhook")).code == codes.NOT_CONFIGURED
    people = await installation.admin.fetch(
        "SELECT DISTINCT person FROM webhook.audit WHERE person LIKE 'api:%'"
    )
    assert [row["person"] for row in people] == [f"api:{merchant.client_id}"]


async def test_a_merchant_says_which_types_it_wants_and_reads_the_others(installation: Installation) -> None:
    daemon = await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:

        async def put(**body: object) -> Reply:
            return await merchant.ask("PUT", "/v1/webhook", body)

        failed = ["charge.failed"]
        assert (await put(types=failed)).code == codes.NOT_CONFIGURED
        await configured(installation, merchant, "m1")
        assert (await merchant.ask("GET", "/v1/webhook")).data["types"] is None
        for body, field in (({}, "url"), ({"types": []}, "types"), ({"types": ["webhook.test"]}, "types.0")):
            refused = await put(**body)
            assert (refused.code, refused.json["error"]["details"][0]["field"]) == (
                codes.VALIDATION_FAILED,
                field,
            )
        changed = await put(types=failed)
        assert (changed.status, changed.data["types"]) == (200, failed)
        other = f"{installation.receiver.url('m1')}?other"
        assert (await put(url=other)).data["types"] == failed
        assert (await merchant.ask("GET", "/v1/webhook")).data["types"] == failed
        await installation.until_true("SELECT NOT EXISTS (SELECT FROM webhook.lane WHERE recalled)")
        unwanted = await installation.emit("m1", CHARGE, "charge.succeeded")
        sent = await installation.emit("m1", "{}", "charge.failed")
        await installation.settled(sent.id, "delivered", 1)

        listed = await merchant.ask("GET", "/v1/deliveries")
        assert [found["eventId"] for found in listed.data] == [str(sent.id)]
        assert (await merchant.ask("GET", f"/v1/deliveries/{unwanted.id}")).code == codes.DELIVERY_NOT_FOUND
        again = await merchant.carried_out(f"/v1/deliveries/{unwanted.id}/retry")
        assert again.code == codes.DELIVERY_NOT_FOUND
        assert b'"data":' + CHARGE.encode() + b"," in (await merchant.ask("GET", "/v1/charges/ch_1")).body
        tested = await merchant.carried_out("/v1/webhook/test")
        assert tested.data["outcome"] == "delivered"
        assert (await put(types=None)).data["types"] is None
        daemon.terminate()
        await daemon.ended()
        await installation.owner.execute(OLDER)
        assert (await put(types=failed)).code == codes.UNAVAILABLE


async def test_a_merchant_has_several_charges_sent_at_once_in_the_order_of_each(
    installation: Installation,
) -> None:
    daemon = await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        url = installation.receiver.url("m1")
        await installation.until_true(SEALS)

        async def put(**body: object) -> Reply:
            return await merchant.ask("PUT", "/v1/webhook", {"url": url, **body})

        made = await put(order="charge")
        assert (made.status, made.data["order"], made.data["atOnce"]) == (201, "charge", 8)
        assert made.data["secret"].startswith("whsec_")
        wrong: list[tuple[dict[str, object], str]] = [
            ({"atOnce": 4}, "atOnce"),
            ({"order": "merchant", "atOnce": 4}, "atOnce"),
            ({"order": "charge", "atOnce": 33}, "atOnce"),
            ({"order": "charge", "atOnce": 1}, "atOnce"),
            ({"order": "any"}, "order"),
        ]
        for body, field in wrong:
            refused = await put(**body)
            assert [detail["field"] for detail in refused.json["error"]["details"]] == [field]
        assert (await put(order="charge", atOnce=32)).data["atOnce"] == 32
        assert (await put()).data["order"] == "charge"
        assert (await put(order="charge")).data["atOnce"] == 32
        shown = (await merchant.ask("GET", "/v1/webhook")).data
        assert (shown["order"], shown["atOnce"]) == ("charge", 32)
        alone = await merchant.ask("PUT", "/v1/webhook", {"order": "merchant"})
        assert (alone.data["atOnce"], alone.data["url"]) == (None, url)
        daemon.terminate()
        await daemon.ended()
        await installation.owner.execute(OLDER)
        other = await merchant.ask("PUT", "/v1/webhook", {"url": f"{url}?other", "order": "charge"})
        assert other.code == codes.UNAVAILABLE
        assert (await merchant.ask("GET", "/v1/webhook")).data["url"] == url, "nothing was changed"


async def test_who_removes_a_webhook_is_told_how_many_events_fail(installation: Installation) -> None:
    await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await configured(installation, merchant, "m1")
        assert (await merchant.carried_out("/v1/webhook/pause")).status == 200
        owed = await installation.emit_each(["m1", "m1", "m2"], 1)
        assert (await merchant.ask("GET", "/v1/webhook")).data["waiting"] == 2
        key = str(uuid4())
        for _ in range(2):
            removed = await merchant.ask("DELETE", "/v1/webhook", key=key)
            assert removed.data == {"removed": True, "failed": 2}
    for event in owed[:2]:
        assert (await installation.settled(event.id, "failed", 0))["failed_reason"] == "not_configured"


async def test_a_failed_delivery_is_sent_again_by_its_merchant(installation: Installation) -> None:
    await installation.start(RETRY_SCHEDULE="PT0.05S")
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await configured(installation, merchant, "m1")
        installation.receiver.behave("m1", Behaviour(503))
        sent = await installation.emit("m1", CHARGE)
        await installation.settled(sent.id, "failed", 2)
        failed = await merchant.ask("GET", "/v1/deliveries?state=failed")
        assert [found["failedReason"] for found in failed.data] == ["exhausted"]
        installation.receiver.behave("m1", Behaviour())
        retried = await merchant.carried_out(f"/v1/deliveries/{sent.id}/retry")
        assert retried.data == {"eventId": str(sent.id), "inFlight": False}
        await installation.settled(sent.id, "delivered", 3)
        number = await installation.admin.fetchval("SELECT max(id) FROM webhook.control")
        path = await command_path(installation, number)
        assert (await merchant.ask("GET", path)).data["result"] == {"inFlight": False}
        again = await merchant.carried_out(f"/v1/deliveries/{sent.id}/retry")
        assert (again.status, again.code) == (409, codes.STATE_FORBIDS)
        assert again.json["error"]["cause"] == codes.STATE
        window = {"since": "2026-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"}
        mass = await merchant.ask("POST", "/v1/deliveries/retry", window)
        assert mass.status == 202

        async def is_done() -> bool:
            reply = await merchant.ask("GET", f"/v1/commands/{mass.data['commandId']}")
            return bool(reply.data["status"] == "done" and reply.data["result"]["retried"] == 0)

        await until_found(is_done)
        again = await merchant.ask("POST", "/v1/deliveries/retry", window, key="k1")
        await until_found(is_done)
        for _ in range(2):
            repeated = await merchant.ask("POST", "/v1/deliveries/retry", window, key="k1")
            assert (repeated.status, repeated.data["commandId"]) == (202, again.data["commandId"])
        far = {"since": "0001-01-01T00:00:00+14:00", "until": "9999-12-31T23:59:59-14:00"}
        refused = await merchant.ask("POST", "/v1/deliveries/retry", far)
        assert refused.code == codes.VALIDATION_FAILED
        assert [detail["field"] for detail in refused.json["error"]["details"]] == ["since", "until"]


async def test_too_many_commands_are_told_from_a_state_that_forbids(installation: Installation) -> None:
    api = await start_api(installation)
    window = {"since": "2026-01-01T00:00:00Z", "until": "2099-01-01T00:00:00Z"}
    async with api.merchant("m1") as merchant:
        assert (await merchant.ask("POST", "/v1/deliveries/retry", window)).status == 202
        refused = await merchant.ask("POST", "/v1/deliveries/retry", window)
    assert (refused.code, refused.headers["Retry-After"]) == (codes.STATE_FORBIDS, "1")
    assert refused.json["error"]["cause"] == codes.TOO_MANY_COMMANDS


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("type=charge.suceeded", "type"),
        ("since=2026-02-01T00:00:00Z&until=2026-01-01T00:00:00Z", "until"),
        ("since=2026-01-01T00:00:00Z&until=2026-01-01T02:00:00%2B02:00", "until"),
    ],
)
async def test_a_filter_that_can_find_nothing_is_refused(
    installation: Installation, query: str, field: str
) -> None:
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        refused = await merchant.ask("GET", f"/v1/deliveries?{query}")
        assert refused.code == codes.VALIDATION_FAILED
        assert [detail["field"] for detail in refused.json["error"]["details"]] == [field]
        good = "since=2026-01-01T00:00:00Z&until=2026-01-01T00:00:01Z&type=webhook.test"
        assert (await merchant.ask("GET", f"/v1/deliveries?{good}")).data == []


async def form(merchant: Merchant, text: str, basic: str | None = None) -> tuple[Reply, Any]:
    """Ask for a token as a client of OAuth 2.0 does."""
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept-Language": "ru"}
    if basic is not None:
        headers["Authorization"] = f"Basic {base64.b64encode(basic.encode()).decode()}"
    reply = await merchant.ask("POST", "/v1/auth/token", text.encode(), key=None, **headers)
    assert reply.headers["Cache-Control"] == "no-store"
    return reply, reply.json


async def test_a_client_of_oauth_is_answered_in_its_own_form(installation: Installation) -> None:
    api = await start_api(installation, API_LIMITS="client=10/PT1M")
    async with api.merchant("m1") as merchant:
        merchant.token = None
        pair = f"{merchant.client_id}:{merchant.client_secret}"
        grant = "grant_type=client_credentials"
        for text in (grant, f"{grant}&audience=x&client_id=&client_secret="):
            reply, token = await form(merchant, text, pair)
            assert (reply.status, reply.headers["Pragma"]) == (200, "no-cache")
            assert token.keys() == {"access_token", "token_type", "expires_in"}
            assert (token["token_type"], token["expires_in"]) == ("Bearer", 3600)
        merchant.token = token["access_token"]
        assert (await merchant.ask("GET", "/v1/deliveries")).status == 200
        merchant.token = None
        for text, basic, status, error in (
            (grant, f"{pair}x", 401, "invalid_client"),
            (f"{grant}&client_id=nobody&client_secret=s", None, 401, "invalid_client"),
            (f"{grant}&client_id=nobody", pair, 401, "invalid_client"),
            ("grant_type=password", pair, 400, "unsupported_grant_type"),
            ("scope=x", pair, 400, "invalid_request"),
            (f"{grant}&{grant}", pair, 400, "invalid_request"),
            (f"{grant}&scope=%ff", pair, 400, "invalid_request"),
            (f"{grant}&scope={'x' * 20_000}", pair, 413, "invalid_request"),
        ):
            reply, said = await form(merchant, text, basic)
            assert (reply.status, said["error"], len(said)) == (status, error, 2), text
            assert re.fullmatch(r"[ !#-\[\]-~]+", said["error_description"])
            assert ("Basic" in reply.headers.get("WWW-Authenticate", "")) == (status == 401)
        refusals = [await form(merchant, grant, f"{merchant.client_id}:wrong") for _ in range(10)]
        reply, said = refusals[-1]
        assert (reply.status, said["error"]) == (429, "temporarily_unavailable")
        assert int(reply.headers["Retry-After"]) > 0


async def test_the_same_request_has_one_effect_and_one_answer(installation: Installation) -> None:
    await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await configured(installation, merchant, "m1")
        assert (await merchant.ask("POST", "/v1/webhook/secret", {}, key=None)).code == codes.KEY_MISSING
        first = await merchant.ask("POST", "/v1/webhook/secret", {}, key="k 1")
        again = await merchant.ask("POST", "/v1/webhook/secret", {}, key='"k 1"')
        assert (again.status, again.data["secret"]) == (200, None)
        assert again.headers["Idempotent-Replayed"] == "true"
        assert first.data["secret"].startswith("whsec_")
        differs = await merchant.ask("POST", "/v1/webhook/secret", {"overlapSeconds": 1}, key="k 1")
        assert (differs.status, differs.code) == (422, codes.KEY_REUSED)
        invalid = {"overlapSeconds": -1}
        broken = await merchant.ask("POST", "/v1/webhook/secret", b"{", key="k2")
        assert broken.code == codes.NOT_JSON
        for _ in range(2):
            refused = await merchant.ask("POST", "/v1/webhook/secret", invalid, key="k2")
            assert (refused.code, "Idempotent-Replayed" in refused.headers) == (
                codes.VALIDATION_FAILED,
                False,
            )
        assert (await merchant.ask("POST", "/v1/webhook/secret", {}, key="k2")).status == 200


async def test_a_refusal_is_not_kept_and_an_answer_says_in_meta_that_it_was(
    installation: Installation,
) -> None:
    await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        for _ in range(2):
            refused = await merchant.ask("POST", "/v1/webhook/pause", key="k1")
            assert (refused.code, "replayed" in refused.json["meta"]) == (codes.NOT_CONFIGURED, False)
        await configured(installation, merchant, "m1")
        russian = {"Accept-Language": "ru"}
        paused = await merchant.ask("POST", "/v1/webhook/pause", key="k1", **russian)
        again = await merchant.ask("POST", "/v1/webhook/pause", key="k1")
        assert paused.data == again.data == {"paused": True}
        assert [reply.json["meta"].get("replayed") for reply in (paused, again)] == [None, True]
        assert again.headers["Content-Language"] == "ru"
        assert paused.json["meta"]["requestId"] != again.json["meta"]["requestId"]


async def test_a_command_that_was_rejected_is_given_anew_by_the_same_key(installation: Installation) -> None:
    await installation.start(RETRY_SCHEDULE="PT0.05S")
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await configured(installation, merchant, "m1")
        installation.receiver.behave("m1", Behaviour(503))
        sent = await installation.emit("m1", CHARGE)
        await installation.settled(sent.id, "failed", 2)
        installation.receiver.behave("m1", Behaviour())
        assert (await merchant.ask("DELETE", "/v1/webhook")).status == 200
        path = f"/v1/deliveries/{sent.id}/retry"
        rejected = await merchant.carried_out(path, "k1")
        assert (rejected.code, "replayed" in rejected.json["meta"]) == (codes.NOT_CONFIGURED, False)
        await configured(installation, merchant, "m1")
        assert (await merchant.carried_out(path, "k1")).data["eventId"] == str(sent.id)
        await installation.settled(sent.id, "delivered", 3)


async def test_what_was_answered_is_told_though_the_limit_is_full(installation: Installation) -> None:
    await installation.start()
    api = await start_api(installation, API_LIMITS="key=2/PT1H")
    async with api.merchant("m1") as merchant:
        await configured(installation, merchant, "m1")
        first = await merchant.ask("POST", "/v1/webhook/secret", {}, key="k1")
        for _ in range(3):
            again = await merchant.ask("POST", "/v1/webhook/secret", {}, key="k1")
            assert again.data == {**first.data, "secret": None}
            assert again.headers["RateLimit"].startswith('"key";r=0')
            assert "Retry-After" not in again.headers
        for path, key in (("secret", "k2"), ("pause", "k1")):
            refused = await merchant.ask("POST", f"/v1/webhook/{path}", {}, key=key)
            assert (refused.status, refused.code) == (429, codes.LIMIT_EXCEEDED)
            assert int(refused.headers["Retry-After"]) > 3000
        assert (await merchant.ask("GET", "/v1/webhook")).status == 429


async def test_a_url_that_may_not_be_sent_to_is_refused_with_the_reason(installation: Installation) -> None:
    await installation.start()
    api = await start_api(installation, EGRESS_ALLOW_NETWORKS="", EGRESS_ALLOW_HTTP="false")
    async with api.merchant("m1") as merchant:
        for url in ("http://merchant.example/x", "https://127.0.0.1/x", "https://[::1]/", "ftp://x"):
            reply = await merchant.ask("PUT", "/v1/webhook", {"url": url})
            assert (reply.status, reply.code) == (422, codes.INVALID_URL)
            assert reply.json["error"]["reason"]


async def test_a_refused_address_is_told_to_operators_alone(installation: Installation) -> None:
    await installation.start()
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await configured(installation, merchant, "m1")
        await installation.owner.execute("UPDATE webhook.endpoint SET url = 'https://10.0.0.1/'")
        sent = await installation.emit("m1", CHARGE)
        await installation.settled(sent.id, "pending_retry", 1)
        tested = await merchant.ask("POST", "/v1/webhook/test")
        shown = await merchant.ask("GET", f"/v1/deliveries/{sent.id}")
        command = await installation.admin.fetchval("SELECT max(id) FROM webhook.control")
        asked = await merchant.ask("GET", await command_path(installation, command))
    told = [tested.data, *shown.data["attemptLog"], asked.data["result"]]
    assert [(answer["outcome"], answer["reason"]) for answer in told] == [("blocked", BLOCKED_REASON)] * 3
    operators = await installation.admin.fetch("SELECT reason FROM webhook.attempts")
    assert all("10.0.0.1 is not a public address" in row["reason"] for row in operators)


async def test_that_charges_are_not_indexed_is_not_said_at_each_request(installation: Installation) -> None:
    api = await start_api(installation, API_LIMITS="key=0/PT1M")
    await installation.owner.execute("UPDATE webhook.state SET has_charge_index = false")
    async with api.merchant("m1") as merchant:
        # More than the second for which other lines are thinned out.
        until_then = time.monotonic() + 1.2
        while time.monotonic() < until_then:
            for path in ("/v1/charges/c1", "/v1/deliveries?charge=c1"):
                assert (await merchant.ask("GET", path)).code == codes.UNAVAILABLE
    assert len(api.daemon.log("charges.not_indexed")) == 1
