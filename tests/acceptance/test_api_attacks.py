"""What an outsider tries who has one merchant's credentials, or none: each attack that taught something."""

import asyncio
import json
import string
import time
from dataclasses import replace
from urllib.parse import quote

import aiohttp

from tests.acceptance.api_merchant import Merchant, PartnerApi, Reply, start_api
from tests.acceptance.installation import Installation
from tests.acceptance.raw_http import RawClient, asked, connected
from tests.acceptance.raw_http import Reply as RawReply
from tests.waiting import Yardstick, until
from webhook_dispatcher.api import catalogue as codes

ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
UNLIMITED = {"API_LIMITS": "key=0/PT1M client=0/PT1M address=0/PT1M"}
ESCAPES = ["\x1b[2J", "\r\nINFO forged", '{"event":"forged"}', "\u2028", "\u202e", "%0a%0dforged", "\x7f"]


def head(merchant: Merchant, line: str, *headers: str) -> bytes:
    """Return a request of a merchant, as bytes."""
    lines = [f"{line} HTTP/1.1", "Host: api", f"Authorization: Bearer {merchant.token}", *headers, "", ""]
    return "\r\n".join(lines).encode("utf-8")


async def code_of(api: PartnerApi, request: bytes) -> tuple[int, int]:
    """Send a request, and return the status and the code of the error that it is answered with."""
    reply = await asked(api.port, request)
    return reply.status, reply.error["code"]


async def test_a_header_that_is_there_twice_is_not_chosen_from(installation: Installation) -> None:
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        invalid = (401, codes.INVALID_TOKEN)
        for second in (f"Authorization: Bearer {merchant.token}", "Authorization: Basic eDp5"):
            assert await code_of(api, head(merchant, "GET /v1/webhook", second)) == invalid
        keys = ("Idempotency-Key: a", "Idempotency-Key: a", "Content-Length: 0")
        status, code = await code_of(api, head(merchant, "POST /v1/webhook/test", *keys))
        assert (status, code) == (400, codes.KEY_MISSING)
        form = b"grant_type=client_credentials"
        basic = "Authorization: Basic eDp5"
        lines = (basic, "Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(form)}")
        asking = head(merchant, "POST /v1/auth/token", *lines) + form
        reply = await asked(api.port, asking)
        assert (reply.status, reply.json["error"]) == (401, "invalid_client")


async def test_what_is_nearly_a_token_or_a_secret_is_none(installation: Installation) -> None:
    """Base64 leaves two bits of the last character unused, so another text stands for the same bytes."""
    api = await start_api(installation, **UNLIMITED)
    async with api.merchant("m1") as merchant:
        token, secret = str(merchant.token), merchant.client_secret
        for text in nearly(token):
            reply = await merchant.ask("GET", "/v1/webhook", Authorization=f"Bearer {text}")
            assert (reply.status, reply.code) == (401, codes.INVALID_TOKEN), text
        shown = f"/v1/webhook?access_token={token}"
        assert (
            await Merchant(merchant.base, "", "", session=merchant.session).ask("GET", shown)
        ).status == 401
        for text in nearly(secret):
            reply = await replace(merchant, client_secret=text, token=None).log_in()
            assert (reply.status, reply.code) == (401, codes.WRONG_CREDENTIALS), text
        # A secret is no token, and a token no secret.
        assert (await merchant.ask("GET", "/v1/webhook", Authorization=f"Bearer {secret}")).status == 401
        assert (await replace(merchant, client_secret=token, token=None).log_in()).status == 401
        assert (await merchant.ask("GET", "/v1/webhook")).status == 404


def nearly(text: str) -> list[str]:
    """Return texts that differ from a credential in what a careless reader passes over."""
    same_bytes = [text[:-1] + ALPHABET[ALPHABET.index(text[-1]) ^ bit] for bit in (1, 2, 3)]
    more = [text + "=", text + "A", f"x.{text}", f".{text}", text.replace("-", "+").replace("_", "/") + "="]
    return [*same_bytes, *more, text[:-1], text[1:], text.swapcase(), text[::-1], f'"{text}"']


async def test_no_header_says_another_method_or_path(installation: Installation) -> None:
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        await installation.configure("m1")
        for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
            for method in ("GET", "POST"):
                reply = await merchant.ask(method, "/v1/webhook", **{name: "DELETE"})
                assert reply.status == (200 if method == "GET" else 405)
        for name in ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Prefix", "X-Forwarded-Host"):
            reply = await merchant.ask("GET", "/v1/webhook", **{name: "/v1/deliveries"})
            assert reply.data["url"] == installation.receiver.url("m1")
    assert await installation.owner.fetchval("SELECT count(*) FROM webhook.endpoint") == 1


async def test_what_is_sent_as_text_is_compared_as_text(installation: Installation) -> None:
    """Neither SQL nor patterns: such a charge is not there, and what is there stays."""
    api = await start_api(installation, **UNLIMITED)
    await installation.emit("m1", '{"id":"ch_1"}')
    async with api.merchant("m1") as merchant:
        assert len((await merchant.ask("GET", "/v1/deliveries?charge=ch_1")).data) == 1
        for text in ("%", "ch__", "' OR ''='", "ch_1'--", "'); DROP TABLE webhook.outbox; --", "$1", "\\x63"):
            listed = await merchant.ask("GET", f"/v1/deliveries?charge={quote(text, safe='')}")
            assert (listed.status, listed.json.get("data")) == (200, []), text
            shown = await merchant.ask("GET", f"/v1/charges/{quote(text, safe='')}")
            assert shown.status in (400, 404), text
    assert await installation.owner.fetchval("SELECT count(*) FROM webhook.outbox") == 1


async def test_ids_of_other_alphabets_are_nobodys(installation: Installation) -> None:
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        sent = await installation.emit("m1", "{}")
        fullwidth = "".join(chr(ord(each) + 0xFEE0) if each.isdigit() else each for each in str(sent.id))
        for text in (fullwidth, f"{{{sent.id}}}", f"urn:uuid:{sent.id}", sent.id.hex, f"{sent.id}\n"):
            reply = await merchant.ask("GET", f"/v1/deliveries/{quote(text)}")
            assert (reply.status, reply.code) == (422, codes.VALIDATION_FAILED), text
        for text in ("\uff11", "\u0661", "+1", "1.0", " 1", "1_0", "-1", "9" * 500):
            reply = await merchant.ask("GET", f"/v1/commands/{quote(text)}")
            assert (reply.status, reply.code) == (404, codes.NOT_FOUND), text


async def test_nothing_that_is_sent_forges_a_line_of_the_log(installation: Installation) -> None:
    api = await start_api(installation, LOG_LEVEL="debug")
    async with api.merchant("m1") as merchant, connected(api.port) as client:
        for text in ESCAPES:
            for headers in (f"x-request-id: {text}", f"User-Agent: {text}", f"Accept-Language: {text}"):
                reply = await answered(client, head(merchant, f"GET /v1/commands/{quote(text)}", headers))
                assert "forged" not in reply.headers["x-request-id"]
        # Refused by the parser, or an error of our own, a line of which is logged.
        for raw in (b"GET /\x1b[2J\x01 HTTP/1.1\r\n\r\n", b"forged\r\n\r\n", b"G\xff\xfe / HTTP/1.1\r\n\r\n"):
            await asked(api.port, raw)
    lines = api.daemon.log_file.read_text().splitlines()
    assert [line for line in lines if "forged" in line or not line.isprintable()] == []
    assert all(json.loads(line)["event"] for line in lines)


async def answered(client: RawClient, request: bytes) -> RawReply:
    """Send on a connection that may have been closed for the request before."""
    port = client.writer.get_extra_info("peername")[1]
    return await asked(port, request)


async def test_no_other_site_reads_with_a_browser(installation: Installation) -> None:
    api = await start_api(installation)
    async with api.merchant("m1") as merchant:
        for method in ("OPTIONS", "GET", "PUT", "DELETE"):
            reply = await merchant.ask(
                method,
                "/v1/webhook",
                Origin="https://evil.example",
                **{"Access-Control-Request-Method": "PUT"},
            )
            assert not [name for name in reply.headers if name.lower().startswith("access-control")]


async def test_what_is_huge_or_deep_is_refused_and_not_worked_on(installation: Installation) -> None:
    api = await start_api(installation, **UNLIMITED)
    async with api.merchant("m1") as merchant:
        deep = b'{"url":' + b"[" * 500_000 + b"]" * 500_000 + b"}"
        wide = json.dumps({str(number): 0 for number in range(20_000)}).encode()
        number = b'{"overlapSeconds":' + b"9" * 100_000 + b"}"
        with Yardstick() as machine:
            began = time.monotonic()
            for path, method, body, code in (
                ("/v1/webhook", "PUT", deep, codes.NOT_JSON),
                ("/v1/webhook", "PUT", wide, codes.NOT_JSON),
                ("/v1/webhook/secret", "POST", number, None),
                ("/v1/deliveries?" + "&".join(f"a{number}=" for number in range(900)), "GET", None, None),
            ):
                reply = await merchant.ask(method, path, body)
                assert reply.status in (400, 422), path
                assert reply.code == (code or reply.code)
            languages = ",".join(f"ru;q=0.{number:03}" for number in range(600))
            for header in (languages, "en" + " " * 8_000 + "x", "," * 8_000, "a-" * 4_000):
                reply = await merchant.ask("GET", "/v1/webhook", **{"Accept-Language": header})
                assert reply.status == 404
            took = time.monotonic() - began
        assert took < machine.allows(10)
        assert (await merchant.ask("POST", "/v1/auth/token", b"{" + b" " * 20_000, None)).status == 413


async def test_invented_credentials_keep_no_client_from_a_token(installation: Installation) -> None:
    """Of 400 connections each asks with an invented token, or for a token, as soon as it is answered."""
    settings = UNLIMITED | {"API_TRUSTED_PROXIES": "127.0.0.0/8"}
    flooded, quiet = [await start_api(installation, **settings) for _ in range(2)]
    connections = aiohttp.TCPConnector(limit=0)
    async with (
        flooded.client("m1") as client,
        Merchant(client.base, "", "", session=aiohttp.ClientSession(connector=connections)) as junk,
    ):
        client_at_quiet = replace(client, base=f"http://127.0.0.1:{quiet.port}")
        is_over = asyncio.Event()
        statuses: list[int] = []

        async def invent(number: int) -> Reply:
            flooder = {"X-Forwarded-For": "192.0.2.66"}
            if number % 2:
                text = f"{number:043}"
                return await junk.ask("GET", "/v1/webhook", Authorization=f"Bearer {text}", **flooder)
            invented = {"clientId": f"{number:022}", "clientSecret": "y" * 43}
            return await junk.ask("POST", "/v1/auth/token", invented, None, **flooder)

        async def flood(number: int) -> None:
            while not is_over.is_set():
                statuses.append((await invent(number)).status)

        async def log_in(at: Merchant, **headers: str) -> str:
            credentials = {"clientId": at.client_id, "clientSecret": at.client_secret}
            reply = await at.ask("POST", "/v1/auth/token", credentials, None, **headers)
            assert reply.status == 200
            return str(reply.data["accessToken"])

        async with asyncio.TaskGroup() as group:
            for number in range(400):
                group.create_task(flood(number))
            await until(lambda: len(statuses) > 400)
            for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"):
                own = {"X-Forwarded-For": address}
                for issuer in (client, client_at_quiet):
                    token = await log_in(issuer, **own)
                    reply = await client.ask("GET", "/v1/webhook", Authorization=f"Bearer {token}", **own)
                    assert reply.status == 404, "let in: there is no webhook yet"
            is_over.set()
        assert set(statuses) <= {401, 503}
