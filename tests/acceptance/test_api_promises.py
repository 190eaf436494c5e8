"""What partners were told of the API, sentence by sentence, with the test that shows each.

Tests of sentences that no other module is about are here, with the limits that the program has by default.
"""

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.acceptance.api_charges import charge, confirmed_card
from tests.acceptance.api_merchant import Merchant, Reply, start_api
from tests.acceptance.charge_service import ChargeServiceProcess
from tests.acceptance.installation import Installation
from webhook_dispatcher.api import catalogue as codes

TESTS = Path(__file__).parents[1]
CODES = "acceptance/test_api_codes.py"
ALIASES = {
    "EACH_CODE": f"{CODES}::test_a_code_is_told_as_it_was_promised",
    "EACH_RANGE": f"{CODES}::test_a_code_of_a_range_that_no_row_has_passes_with_the_words_of_its_range",
    "NEVER": f"{CODES}::test_a_code_that_never_appears_is_the_internal_error_and_the_log_says_so",
}

PROMISES = """\
2.3 one envelope for every response
    EACH_CODE acceptance/test_api_promises.py::test_every_success_is_an_envelope
2.3 one envelope whatever is wrong
    acceptance/test_api_refusals.py::test_what_is_wrong_is_told_in_the_envelope
2.3 success is false for an error
    EACH_CODE
2.3 error.code is a negative whole number that stays
    EACH_CODE unit/test_api_catalogue.py
2.3 error.type is a label, `validation` for -1007
    EACH_CODE
2.3 error.message is for users, in uz, ru or en by Accept-Language
    EACH_CODE EACH_RANGE
2.3 error.details breaks a failed validation down by dotted paths
    acceptance/test_api_refusals.py::test_wrong_fields_are_named_by_dotted_paths
    integration/test_charge_service.py::test_1007_names_each_field
2.3 meta has a request id, an instant in UTC and a time in milliseconds
    EACH_CODE
2.3 a client may send its own x-request-id
    EACH_CODE acceptance/test_api_refusals.py::test_the_request_id_is_the_clients_where_it_is_fit
4.2 GET /v1/charges/{id} answers what events hold as data.object
    acceptance/test_api_promises.py::test_a_charge_is_read_as_its_events_have_it
    acceptance/test_api_operations.py::test_a_merchant_sets_its_webhook_up_and_follows_its_deliveries
4.2 POST /v1/auth/token: clientId and clientSecret for a token
    acceptance/test_api_promises.py::test_a_token_lives_an_hour
4.2 POST /v1/cards/{id}/confirm takes a code
    acceptance/test_api_forwarding.py::test_attempts_at_a_card_are_counted_by_merchant_and_card
    unit/test_settings.py::test_defaults_are_the_contracts
4.2 Idempotency-Key: missing, with another body, still running
    EACH_CODE acceptance/test_api_operations.py::test_the_same_request_has_one_effect_and_one_answer
5.1 a token lives an hour, and is used as often as one likes
    acceptance/test_api_promises.py::test_a_token_lives_an_hour
5.1 wrong credentials are -10001
    EACH_CODE
    integration/test_api_credentials.py::test_wrong_credentials_get_one_answer_and_take_one_statement
5.1 an invalid or expired token is -10002; a new one helps
    acceptance/test_api_promises.py::test_a_token_lives_an_hour
5.1 a revoked key is -10003
    EACH_CODE acceptance/test_api_isolation.py::test_a_revoked_key_is_refused_by_each_operation
5.1 limits are by client id, by IP address and by key
    acceptance/test_api_promises.py::test_a_client_has_thirty_tokens_a_minute_and_an_address_sixty
    acceptance/test_api_limits.py::test_no_window_of_a_key_a_client_or_an_address_has_more_than_its_limit
    unit/test_settings.py::test_defaults_are_the_contracts
7.1 branch on the code; the message has the client's language
    EACH_CODE
7.2 each range has its topic
    EACH_RANGE acceptance/test_api_codes.py::test_what_is_published_is_what_there_is
7.2 -13001 to -13016 and -15001 to -15005 never appear
    NEVER
7.3 code and status, row by row
    EACH_CODE
7.3 -1007 breaks down by field
    EACH_CODE integration/test_charge_service.py::test_1007_names_each_field
7.3 -11003: retry later
    EACH_CODE acceptance/test_api_idempotency.py
7.3 -11005: retry after Retry-After
    acceptance/test_api_limits.py::test_retry_after_is_true_both_ways
7.3 -3004 made no second charge; -3007: reload and retry; -9004: why
    acceptance/test_api_codes.py::test_what_the_table_says_besides_the_code_is_so
7.3 5xx is safe to retry with the same Idempotency-Key
    acceptance/test_api_forwarding.py::test_what_nobody_knows_of_is_asked_again_and_has_one_effect
    acceptance/test_api_idempotency.py
8 the token: 30 a minute for a client id, 60 for an IP address
    acceptance/test_api_promises.py::test_a_client_has_thirty_tokens_a_minute_and_an_address_sixty
    acceptance/test_api_limits.py::test_no_window_of_a_key_a_client_or_an_address_has_more_than_its_limit
8 confirming: 10 attempts for a card in 15 minutes, besides the shared limit
    acceptance/test_api_forwarding.py::test_attempts_at_a_card_are_counted_by_merchant_and_card
    unit/test_settings.py::test_defaults_are_the_contracts
8 all else: 600 a minute for a key
    acceptance/test_api_limits.py::test_no_window_of_a_key_a_client_or_an_address_has_more_than_its_limit
    unit/test_settings.py::test_defaults_are_the_contracts
8 429, -11005, Retry-After in seconds
    EACH_CODE acceptance/test_api_limits.py::test_retry_after_is_true_both_ways
8 a token lives an hour
    acceptance/test_api_promises.py::test_a_token_lives_an_hour
8 webhooks: ten seconds to answer, 300 s of tolerance, the schedule
    unit/test_settings.py::test_defaults_are_the_contracts
    acceptance/test_signature_verifiers.py::test_request_older_than_the_tolerance_is_refused
    acceptance/test_schedule.py::test_eight_attempts_at_their_distances_then_failed_and_one_more_by_hand
9 paths begin with /v1
    acceptance/test_api_promises.py::test_every_operation_is_below_v1_and_nothing_is_beside_it
"""
"""Section of the Partner API and a sentence in other words; below it its tests. A file is all that it has."""


def test_each_promise_names_tests_that_are_there() -> None:
    sentence, shown_by = "", dict[str, list[str]]()
    for line in PROMISES.splitlines():
        if line.startswith(" "):
            shown_by[sentence] += line.split()
        else:
            sentence, shown_by[line] = line, []
    assert {sentence.split()[0] for sentence in shown_by} == {
        *("2.3", "4.2", "5.1", "7.1", "7.2", "7.3", "8", "9")
    }
    for sentence, tests in shown_by.items():
        assert tests, sentence
        for named in tests:
            file, _, name = ALIASES.get(named, named).partition("::")
            assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8") or not name, (sentence, named)


@dataclass(frozen=True)
class Streak:
    """What came of asking until refused. seconds: since before the first."""

    passed: list[Reply]
    refused: Reply
    seconds: float

    def check(self, most: int, minutes: int) -> None:
        """No fewer are let through than were promised, and no more in the time that was."""
        assert len(self.passed) >= most
        assert len(self.passed) == most or self.seconds > minutes * 60
        assert (self.refused.status, self.refused.code) == (429, codes.LIMIT_EXCEEDED)
        assert 1 <= int(self.refused.headers["Retry-After"]) <= minutes * 60


async def until_refused(clients: Sequence[Merchant], method: str, path: str, body: object = None) -> Streak:
    """Ask one after the other, each as the next of the clients."""
    began, passed = time.monotonic(), list[Reply]()
    while True:
        client = clients[len(passed) % len(clients)]
        key = None if path == "/v1/auth/token" else ""
        credentials = {"clientId": client.client_id, "clientSecret": client.client_secret}
        reply = await client.ask(method, path, credentials if key is None else body, key)
        if reply.status == 429:
            return Streak(passed, reply, time.monotonic() - began)
        passed.append(reply)


def strangers(like: Merchant, count: int) -> list[Merchant]:
    return [
        replace(like, client_id=f"{number:022}", client_secret="y" * 43, token=None)
        for number in range(count)
    ]


async def test_a_client_has_thirty_tokens_a_minute_and_an_address_sixty(installation: Installation) -> None:
    api = await start_api(installation)
    async with Merchant(f"http://127.0.0.1:{api.port}", "", "") as nobody:
        first, *others = strangers(nobody, 4)
        of_one = await until_refused([first], "POST", "/v1/auth/token")
        of_one.check(30, 1)
        policies = '"client";q=30;w=60, "address";q=60;w=60'
        assert of_one.refused.headers["RateLimit-Policy"] == policies
        assert of_one.refused.headers["RateLimit"].startswith('"client";r=0;t=')
        others_passed = await until_refused(others, "POST", "/v1/auth/token")
        of_client, of_address = others_passed.refused.headers["RateLimit"].split(", ")
        assert of_address == f'"address";r=0;t={others_passed.refused.headers["Retry-After"]}'
        assert re.fullmatch('"client";r=[1-9][0-9]?', of_client)
        whole = Streak(
            [*of_one.passed, *others_passed.passed],
            others_passed.refused,
            of_one.seconds + others_passed.seconds,
        )
        whole.check(60, 1)


async def test_a_token_lives_an_hour(installation: Installation) -> None:
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        given = await merchant.log_in()
        ends = datetime.fromisoformat(given.data["expiresAt"])
        assert (given.data["tokenType"], given.data["expiresIn"]) == ("Bearer", 3600)
        assert timedelta(minutes=59) < ends - datetime.now(UTC) <= timedelta(hours=1)
        replies = await asyncio.gather(*(merchant.ask("GET", "/v1/deliveries") for _ in range(5)))
        assert {reply.status for reply in replies} == {200}
        await installation.owner.execute("UPDATE webhook.api_token SET expires_at = clock_timestamp()")
        expired = await merchant.ask("GET", "/v1/deliveries")
        assert (expired.status, expired.code) == (401, codes.INVALID_TOKEN)
        assert expired.headers["WWW-Authenticate"] == "Bearer"
        assert (await merchant.log_in()).status == 200
        assert (await merchant.ask("GET", "/v1/deliveries")).status == 200


async def test_every_success_is_an_envelope(installation: Installation) -> None:
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await installation.configure("m1")
        replies = [
            await merchant.log_in(),
            await merchant.ask("GET", "/v1/webhook"),
            await merchant.ask("GET", "/v1/deliveries"),
            await merchant.ask("DELETE", "/v1/webhook"),
        ]
        for reply in replies:
            meta = reply.json["meta"]
            assert (reply.status, set(reply.json)) == (200, {"success", "data", "meta"})
            assert set(meta) == {"requestId", "timestamp", "processingTimeMs"}
            assert meta["requestId"] in reply.headers.values()


@pytest.mark.parametrize("is_forwarded", [True, False], ids=["forwarded", "ours"])
async def test_a_charge_is_read_as_its_events_have_it(installation: Installation, is_forwarded: bool) -> None:
    await installation.start()
    await installation.configure("m1")
    with ChargeServiceProcess(installation.database.dsn("webhook_producer")) as service:
        forwarding = await start_api(installation, API_UPSTREAM=service.url)
        async with forwarding.merchant("m1") as merchant:
            made = await merchant.ask("POST", "/v1/charges", charge(await confirmed_card(merchant)))
            assert made.status == 201
            arrivals = await installation.arrived(3)
            if not is_forwarded:
                merchant.base = f"http://127.0.0.1:{(await start_api(installation)).port}"
            shown = await merchant.ask("GET", f"/v1/charges/{made.data['id']}")
    event = arrivals[-1].body
    assert json.loads(event)["type"] == "charge.split_completed"
    charge_of_event = event.partition(b'"object":')[2].removesuffix(b"}}")
    assert b'"data":' + charge_of_event + b',"meta":' in shown.body


async def test_every_operation_is_below_v1_and_nothing_is_beside_it(installation: Installation) -> None:
    with ChargeServiceProcess(installation.database.dsn("webhook_producer")) as service:
        api = await start_api(installation, API_UPSTREAM=service.url)
        async with api.merchant("m1") as merchant:
            document = (await merchant.ask("GET", "/openapi.json")).json
            assert len(document["paths"]) > 20
            for path, methods in document["paths"].items():
                assert path.startswith("/v1/")
                for method in methods:
                    for other in (path.removeprefix("/v1"), path.replace("/v1", "/v2", 1)):
                        beside = other.replace("{", "").replace("}", "")
                        reply = await merchant.ask(method.upper(), beside)
                        assert (reply.status, reply.code) == (404, codes.NO_SUCH_PATH)
