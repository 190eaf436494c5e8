"""Whatever is wrong with a request, the answer is the envelope: a real process, asked over raw sockets."""

import re
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.acceptance.api_process import Api, ApiProcess, started_api
from tests.acceptance.api_program import SECRET
from tests.acceptance.raw_http import RawClient, Reply, asked, connected
from tests.waiting import until
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.api.catalogue import CATALOGUE, message

LINES = "Host: api\r\nAccept-Language: de, uz-Latn;q=0.9, ru;q=0.1\r\n"
JSON = "Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiProcess]:
    with started_api(tmp_path_factory.mktemp("api"), {"API_TRUSTED_PROXIES": "127.0.0.0/8"}) as process:
        yield process


@pytest.fixture
async def api(process: ApiProcess) -> AsyncIterator[Api]:
    yield await process.listening()
    assert process.daemon.process.poll() is None


def head(line: str, *more: str) -> bytes:
    return (f"{line}\r\n{LINES}" + "".join(more) + "\r\n").encode("latin-1")


def post(body: str | bytes, *more: str, path: str = "/v1/things", kind: str = JSON) -> bytes:
    body = body if isinstance(body, bytes) else body.encode()
    return head(f"POST {path} HTTP/1.1", kind, f"Content-Length: {len(body)}\r\n", *more) + body


GET = "GET /v1/things/t1 HTTP/1.1"
CHUNKED = "Transfer-Encoding: chunked\r\n"
EXPECT = "Expect: 100-continue\r\n"
LONG = "x" * 9000
MALFORMED, INVALID = codes.MALFORMED_REQUEST, codes.VALIDATION_FAILED

Ways = dict[str, tuple[bytes, int]]
REFUSED: Ways = {
    "unknown path": (head("GET /v2/things HTTP/1.1"), codes.NO_SUCH_PATH),
    "path with a slash too many": (head("GET /v1/things/t1/ HTTP/1.1"), codes.NO_SUCH_PATH),
    "a parameter that is no UTF-8": (head("GET /v1/things/%ff HTTP/1.1"), codes.NO_SUCH_PATH),
    "wrong method": (head("DELETE /v1/things HTTP/1.1"), codes.METHOD_NOT_ALLOWED),
    "CORS asked beforehand": (
        head("OPTIONS /v1/things HTTP/1.1", "Origin: https://evil\r\n"),
        codes.METHOD_NOT_ALLOWED,
    ),
    "no token": (post('{"name":"a"}', path="/v1/private"), codes.TOKEN_MISSING),
    "a body that is no JSON": (post("{name}"), codes.NOT_JSON),
    "an empty body": (post(""), codes.NOT_JSON),
    "no body at all": (head("POST /v1/things HTTP/1.1"), codes.NOT_JSON),
    "a member twice": (post('{"name":"a","n\\u0061me":"b"}'), codes.NOT_JSON),
    "NaN": (post('{"name":NaN}'), codes.NOT_JSON),
    "half a surrogate pair": (post('{"name":"\\ud800"}'), codes.NOT_JSON),
    "bytes that are no UTF-8": (post(b'{"name":"\xff"}'), codes.NOT_JSON),
    "an end without end": (post("[" * 200_000), codes.NOT_JSON),
    "a number of a million digits": (post('{"name":' + "9" * 1_000_000 + "}"), codes.NOT_JSON),
    "too many members": (post("{" + ",".join(f'"k{n}":1' for n in range(20_000)) + "}"), codes.NOT_JSON),
    "U+0000 in a string": (post('{"name":"a\\u0000b"}'), INVALID),
    "U+0000 in a name": (post('{"name":"a","\\u0000":1}'), INVALID),
    "U+0000 in the query": (head("GET /v1/things/t1?limit=%00 HTTP/1.1"), INVALID),
    "a field that is not there": (post('{"name":"a","isAdmin":true}'), INVALID),
    "no object": (post("[]"), INVALID),
    "a query that nobody knows": (head("GET /v1/pages?limit=1 HTTP/1.1"), INVALID),
    "a query field twice": (head("GET /v1/things/t1?limit=1&limit=2 HTTP/1.1"), INVALID),
    "a query of a hundred fields": (head("GET /v1/things/t1?" + "a=1&" * 100 + " HTTP/1.1"), INVALID),
    "a query that is no UTF-8": (head("GET /v1/things/t1?limit=%ff HTTP/1.1"), INVALID),
    "a code that never leaves": (head("GET /v1/hidden HTTP/1.1"), codes.INTERNAL),
    "a handler that raises": (head("GET /v1/broken HTTP/1.1"), codes.INTERNAL),
    "a handler that times out": (head("GET /v1/late HTTP/1.1"), codes.INTERNAL),
}
"""What the operations refuse; the connection goes on."""
UNREAD: Ways = {
    "OPTIONS of everything": (head("OPTIONS * HTTP/1.1"), MALFORMED),
    "too large by its length": (
        head("POST /v1/things HTTP/1.1", JSON, "Content-Length: 1048577\r\n"),
        codes.BODY_TOO_LARGE,
    ),
    "too large by chunks": (
        head("POST /v1/things HTTP/1.1", JSON, CHUNKED) + (b"10000\r\n" + b" " * 65536 + b"\r\n") * 17,
        codes.BODY_TOO_LARGE,
    ),
    "a wrong content type": (post("{}", kind="Content-Type: text/xml\r\n"), -16006),
    "no content type": (post("{}", kind=""), codes.WRONG_CONTENT_TYPE),
    "a form where none is read": (
        post("name=a", kind="Content-Type: application/x-www-form-urlencoded\r\n"),
        codes.WRONG_CONTENT_TYPE,
    ),
    "a compressed body": (post("{}", "Content-Encoding: gzip\r\n"), codes.WRONG_CONTENT_TYPE),
    "another charset": (post("{}", kind=f'{JSON[:-2]}; Charset="utf-16"\r\n'), codes.WRONG_CONTENT_TYPE),
    "a body with GET": (head(GET, JSON, "Content-Length: 2\r\n") + b"{}", MALFORMED),
    "a body too slow": (
        head("POST /v1/things HTTP/1.1", JSON, "Content-Length: 9\r\n") + b'{"n',
        codes.TOO_SLOW,
    ),
    "a body of which nothing comes": (head("POST /v1/things HTTP/1.1", JSON, CHUNKED), codes.TOO_SLOW),
    "a fragment": (head("GET /v1/things/t1#x HTTP/1.1"), MALFORMED),
    "dot segments": (head("GET /v1/things/../things/t1 HTTP/1.1"), MALFORMED),
    "encoded dot segments": (head("GET /v1/things/%2e%2E/t1 HTTP/1.1"), MALFORMED),
    "an encoded slash": (head("GET /v1/things/a%2Fb HTTP/1.1"), MALFORMED),
    "an encoded backslash": (head("GET /v1/things/a%5cb HTTP/1.1"), MALFORMED),
    "an encoded NUL": (head("GET /v1/things/%00 HTTP/1.1"), MALFORMED),
    "a percent sign alone": (head("GET /v1/things/%zz HTTP/1.1"), MALFORMED),
    "two slashes": (head("GET //v1/things/t1 HTTP/1.1"), MALFORMED),
    "the absolute form": (head("GET http://evil/v1/things/t1 HTTP/1.1"), MALFORMED),
    "CONNECT": (head("CONNECT evil:443 HTTP/1.1"), codes.METHOD_NOT_ALLOWED),
    "chunks in HTTP/1.0": (head("POST /v1/things HTTP/1.0", JSON, CHUNKED) + b"0\r\n\r\n", MALFORMED),
    "HTTP/2 as text": (head("GET /v1/things/t1 HTTP/2.0"), MALFORMED),
    "another expectation": (
        head("POST /v1/things HTTP/1.1", JSON, "Expect: 200-ok\r\n", "Content-Length: 2\r\n"),
        codes.UNKNOWN_EXPECTATION,
    ),
    "headers too large together": (
        head(GET, *(f"X-{n}: {'x' * 8000}\r\n" for n in range(5))),
        codes.HEAD_TOO_LARGE,
    ),
}
"""What the head says of the body, which is not read, and HTTP that two readers could read in two ways."""
NOT_PARSED: Ways = {
    "two content types": (post("{}", JSON), MALFORMED),
    "an overlong line": (head(f"GET /{LONG} HTTP/1.1"), codes.HEAD_TOO_LARGE),
    "an overlong header": (head(GET, f"X: {LONG}\r\n"), codes.HEAD_TOO_LARGE),
    "an overlong name": (head(GET, f"{LONG}: x\r\n"), codes.HEAD_TOO_LARGE),
    "too many headers": (head(GET, *(f"X-{n}: x\r\n" for n in range(70))), codes.HEAD_TOO_LARGE),
    "a head without end": (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10, codes.TOO_SLOW),
    "one byte and no more": (b"G", codes.TOO_SLOW),
    "a bad chunk at once": (head("POST /v1/things HTTP/1.1", JSON, CHUNKED) + b"zz\r\n", MALFORMED),
    "a length beyond all": (
        head("POST /v1/things HTTP/1.1", JSON, f"Content-Length: {10**30}\r\n"),
        MALFORMED,
    ),
    "a bad version": (head("GET / HTTP/1.9"), MALFORMED),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", MALFORMED),
    "an unknown method": (head("BREW /pot HTTP/1.1"), MALFORMED),
    "a folded header": (head(GET, "X: a\r\n b\r\n"), MALFORMED),
    "NUL in a header": (head(GET, "X: a\0b\r\n"), MALFORMED),
    "line feeds alone": (b"GET / HTTP/1.1\nHost: api\n\n", MALFORMED),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", MALFORMED),
    "two hosts": (head(GET, "Host: evil\r\n"), MALFORMED),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", MALFORMED),
}
"""What the parser refuses: of such a request no language is known, so it is told in English."""
WRONG = {**REFUSED, **UNREAD, **NOT_PARSED}


def check_envelope(reply: Reply, code: int, language: str) -> None:
    """Hold an error against the catalogue, and its envelope against the contract."""
    entry = CATALOGUE[code]
    assert (reply.status, reply.error["code"]) == (entry.status, code)
    assert reply.error["type"] == entry.type
    assert reply.error["message"] == message(code, language, reply.error.get("cause"))  # type: ignore[arg-type]
    assert bool(reply.error["details"]) == (code == INVALID)
    assert reply.headers["content-language"] == language
    assert reply.headers["vary"] == "Accept-Language"
    assert reply.headers["server"] == "webhook-dispatcher"
    assert reply.headers["cache-control"] == "no-store"
    meta = reply.json["meta"]
    assert set(meta) == {"requestId", "timestamp", "processingTimeMs"}
    assert meta["requestId"] == reply.headers["x-request-id"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", meta["timestamp"])
    assert datetime.fromisoformat(meta["timestamp"])
    assert isinstance(meta["processingTimeMs"], int)


@pytest.mark.parametrize("way", WRONG)
async def test_what_is_wrong_is_told_in_the_envelope(api: Api, way: str) -> None:
    request, code = WRONG[way]
    stays_open, language = way in REFUSED, "en" if way in NOT_PARSED else "uz"
    async with connected(api.port) as client:
        await client.send(request)
        reply = await client.reply()
        check_envelope(reply, code, language)
        assert ("allow" in reply.headers) == (reply.status == 405)
        assert (reply.headers.get("www-authenticate") == "Bearer") == (reply.status == 401)
        assert (reply.headers.get("connection") == "close") is not stays_open
        assert await client.is_ended() is not stays_open


@pytest.mark.parametrize(
    ("way", "told"),
    {
        "a member twice": {"cause": codes.REPEATED_NAME},
        "an end without end": {"cause": codes.TOO_DEEP},
        "too many members": {"cause": codes.TOO_MANY_MEMBERS},
        "a body that is no JSON": {},
        "a compressed body": {"cause": codes.COMPRESSED},
        "another charset": {"cause": codes.CHARSET},
        "a wrong content type": {},
        "a body with GET": {"cause": codes.BODY_NOT_ALLOWED},
        "two slashes": {},
        "too large by its length": {"maxBytes": 1_048_576},
        "too large by chunks": {"maxBytes": 1_048_576},
    }.items(),
)
async def test_what_is_wrong_is_named_as_what_it_is(api: Api, way: str, told: dict[str, Any]) -> None:
    error = (await asked(api.port, WRONG[way][0])).error
    assert {name: error[name] for name in error.keys() - {"code", "type", "message", "details"}} == told


@pytest.mark.parametrize("charset", ["UTF-8", "utf8", '"utf-8"'])
async def test_utf_8_may_be_said(api: Api, charset: str) -> None:
    request = post('{"name":"a"}', kind=f"{JSON[:-2]};charset={charset}\r\n")
    assert (await asked(api.port, request)).status == 201


async def after_continue(client: RawClient, *more: str) -> None:
    await client.send(head("POST /v1/things HTTP/1.1", JSON, EXPECT, *more))
    assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_a_body_that_is_waited_for_is_asked_for_and_read(api: Api) -> None:
    async with connected(api.port) as client:
        await after_continue(client, "Content-Length: 12\r\n")
        await client.send(b'{"name":"a"}')
        reply = await client.reply()
        assert (reply.status, reply.json["data"]) == (201, {"name": "a"})
        assert not await client.is_ended()


async def test_an_error_after_100_continue_is_an_answer_of_its_own(api: Api) -> None:
    async with connected(api.port) as client:
        await after_continue(client, "Content-Length: 2\r\n")
        await client.send(b"{]")
        check_envelope(await client.reply(), codes.NOT_JSON, "uz")


async def test_a_bad_chunk_in_a_later_segment_ends_the_request_that_it_belongs_to(api: Api) -> None:
    async with connected(api.port) as client:
        await after_continue(client, CHUNKED)
        await client.send(b"zz\r\n")
        check_envelope(await client.reply(), MALFORMED, "uz")
        assert await client.is_ended()


async def test_who_waits_for_100_continue_and_may_not_is_told_at_once(api: Api) -> None:
    async with connected(api.port) as client:
        await client.send(head("POST /v1/private HTTP/1.1", JSON, EXPECT, "Content-Length: 12\r\n"))
        check_envelope(await client.reply(), codes.TOKEN_MISSING, "uz")
        assert await client.is_ended()


async def test_garbage_behind_a_good_request_in_one_segment_is_refused_with_it(api: Api) -> None:
    async with connected(api.port) as client:
        await client.send(head(GET) + b"garbage\r\n\r\n")
        check_envelope(await client.reply(), MALFORMED, "en")
        assert await client.is_ended()


async def test_pipelined_requests_are_answered_in_order(api: Api) -> None:
    async with connected(api.port) as client:
        await client.send(b"".join(head(f"GET /v1/things/t{n} HTTP/1.1") for n in range(500)))
        assert [(await client.reply()).json["data"]["id"] for _ in range(500)] == [
            f"t{n}" for n in range(500)
        ]


async def test_head_is_where_get_is_and_has_no_body(api: Api) -> None:
    async with connected(api.port) as client:
        await client.send(head("HEAD /v1/things/t1 HTTP/1.1"))
        reply = await client.reply(has_body=False)
        assert (reply.status, int(reply.headers["content-length"]) > 100) == (200, True)
        await client.send(head("HEAD /v1/things HTTP/1.1"))
        refused = await client.reply(has_body=False)
        assert (refused.status, refused.headers["allow"]) == (405, "POST, PUT")
        await client.send(head("DELETE /v1/things/t1 HTTP/1.1"))
        assert (await client.reply()).headers["allow"] == "GET, HEAD"
        assert not await client.is_ended()


@pytest.mark.parametrize("count", [1, 3])
async def test_who_sends_no_more_is_answered_all_the_same(api: Api, count: int) -> None:
    async with connected(api.port) as client:
        await client.send(post('{"name":"a"}') * count)
        client.writer.write_eof()
        assert [(await client.reply()).status for _ in range(count)] == [201] * count
        assert await client.until_ended() == b""


@pytest.mark.parametrize("part", [b"", b"GET /v1/th", post("{}")[:-1]])
async def test_who_sends_no_more_of_a_request_is_not_waited_for(api: Api, part: bytes) -> None:
    async with connected(api.port) as client:
        await client.send(part)
        client.writer.write_eof()
        assert await client.until_ended() == b""


async def test_an_upgrade_is_declined(api: Api) -> None:
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
    assert (await asked(api.port, head(GET, upgrade))).status == 200


async def test_wrong_fields_are_named_by_dotted_paths(api: Api) -> None:
    body = '{"name":"","recipients":[{"share":0},{"share":"1"}],"createdAt":"2026-01-01T00:00:00"}'
    for language, texts in {
        "en": [
            "The text must have at least 1 characters.",
            "The number must not be less than 1.",
            "This must be a whole number.",
        ],
        "ru": [
            "Минимальное количество символов: 1.",
            "Число не должно быть меньше 1.",
            "Значение должно быть целым числом.",
        ],
        "uz": [
            "Belgilar soni kamida 1 ta bo‘lishi kerak.",
            "Son 1 dan kichik bo‘lmasligi kerak.",
            "Qiymat butun son bo‘lishi kerak.",
        ],
    }.items():
        request = post(body).replace(LINES.encode(), f"Host: a\r\nAccept-Language: {language}\r\n".encode())
        details = (await asked(api.port, request)).error["details"]
        assert [detail["field"] for detail in details] == [
            "name",
            "recipients.0.share",
            "recipients.1.share",
            "createdAt",
        ]
        assert [detail["message"] for detail in details][:3] == texts


async def test_a_success_is_spliced_in_byte_for_byte(api: Api) -> None:
    reply = await asked(api.port, head("GET /v1/pages HTTP/1.1"))
    assert reply.body.startswith(b'{"success":true,"data":[1.10,\n 2],"meta":{')
    assert reply.json["meta"]["nextCursor"] == "c2"
    assert reply.headers["ratelimit"] == '"key";r=599'
    assert reply.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        ("A-z0.9_~", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("a b", False),
        ("a\xe9", False),
        ("", False),
    ],
)
async def test_the_request_id_is_the_clients_where_it_is_fit(api: Api, given: str, is_taken: bool) -> None:
    reply = await asked(api.port, head(GET, f"x-request-id: {given}\r\n"))
    shown = reply.headers["x-request-id"]
    assert shown == reply.json["meta"]["requestId"]
    assert (shown == given) == is_taken
    assert is_taken or re.fullmatch(r"[0-9a-f]{8}-[0-9a-f-]{27}", shown)


async def test_header_bytes_that_are_not_ascii_do_no_harm(api: Api) -> None:
    more = "Accept-Language: \xff\xfe\r\nX-Forwarded-For: \xe9\r\nCookie: \xf0\x28\r\n"
    reply = await asked(api.port, f"GET /v1/things/t1 HTTP/1.1\r\nHost: api\r\n{more}\r\n".encode("latin-1"))
    assert (reply.status, reply.headers["content-language"]) == (200, "en")


async def test_the_address_is_the_right_most_untrusted_one(api: Api) -> None:
    forwarded = "X-Forwarded-For: 6.6.6.6, 198.51.100.7\r\nX-Forwarded-For: 127.0.0.9\r\n"
    assert (await asked(api.port, head(GET, forwarded))).json["data"]["address"] == "198.51.100.7"


async def test_our_own_fault_is_logged_by_its_request_id_and_not_shown(api: Api) -> None:
    reply = await asked(api.port, head("GET /v1/broken HTTP/1.1", "x-request-id: fault-1\r\n"))
    assert SECRET.encode() not in reply.body
    lines = await until(
        lambda: [line for line in api.daemon.log("request.failed") if line["request_id"] == "fault-1"]
    )
    assert SECRET in lines[0]["exception"]
    assert lines[0]["operation"] == "fail"


@pytest.mark.parametrize(
    ("target", "event"), [("/v1/broken", "request.failed"), ("/v1/hidden", "code.unknown")]
)
async def test_requests_of_one_id_are_told_apart_by_ours(api: Api, target: str, event: str) -> None:
    request_id = f"same-{event}"
    for _ in range(3):
        await asked(api.port, head(f"GET {target} HTTP/1.1", f"x-request-id: {request_id}\r\n"))

    def lines() -> list[dict[str, Any]]:
        return [line for line in api.daemon.log(event) if line["request_id"] == request_id]

    await until(lambda: len(lines()) == 3)
    traces = {line["trace_id"] for line in lines()}
    assert len(traces) == 3
    assert all(re.fullmatch(r"[0-9a-f]{32}", trace) for trace in traces)


async def test_a_form_is_read_where_it_may_be(api: Api) -> None:
    form = post("name=a%20b", path="/v1/forms", kind="Content-Type: application/x-www-form-urlencoded\r\n")
    assert (await asked(api.port, form)).status != 415
    assert (await asked(api.port, post('{"name":"a"}', path="/v1/forms"))).status == 201


async def test_an_action_needs_no_body_and_takes_an_empty_object(api: Api) -> None:
    assert (await asked(api.port, head("POST /v1/actions HTTP/1.1"))).status == 201
    assert (await asked(api.port, post("{}", path="/v1/actions"))).status == 201
    assert (await asked(api.port, post('{"a":1}', path="/v1/actions"))).status == 422
