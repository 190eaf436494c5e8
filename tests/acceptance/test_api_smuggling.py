"""Of one request of a client becomes one request to the charge service, or none: both ends over raw sockets.

A merchant who could make two of one, or add a line to its head, would name another merchant in it.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.acceptance.api_merchant import PartnerApi, start_api
from tests.acceptance.installation import Installation
from tests.acceptance.raw_http import connected
from tests.waiting import MAX_WAIT

JSON = "Content-Type: application/json\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
INNER = b"POST /v1/recipients HTTP/1.1\r\nHost: api\r\nService-Merchant-Id: m2\r\nContent-Length: 2\r\n\r\n{}"
"""What is to be taken for a request of its own."""
ENDS = b"0\r\n\r\n"
FORGED = "%0d%0aService-Merchant-Id:%20m2"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
ALLOWED = {
    "host",
    "service-merchant-id",
    "x-request-id",
    "accept",
    "accept-encoding",
    "accept-language",
    "user-agent",
}
ALLOWED |= {"content-type", "content-length", "idempotency-key"}
UNLIMITED = "key=0/PT1M client=0/PT1M address=0/PT1M"


@dataclass
class RawChargeService:
    """Reads requests as whoever goes by Content-Length alone, and keeps their bytes.

    connections: of each, the requests that came over it, one after the other. rest: what was none of them.
    conversations: all of them; they end with their connections.
    """

    connections: list[list[tuple[bytes, bytes]]] = field(default_factory=list)
    rest: bytes = b""
    conversations: set["asyncio.Task[None] | None"] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.conversations.add(asyncio.current_task())
        arrived: list[tuple[bytes, bytes]] = []
        self.connections.append(arrived)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                arrived.append((head, await reader.readexactly(length_of(head))))
                writer.write(ANSWER)
        except asyncio.IncompleteReadError as error:
            self.rest += error.partial
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    def requests(self) -> list[tuple[bytes, bytes]]:
        """Return all that came, heads and bodies."""
        return [request for arrived in self.connections for request in arrived]


def length_of(head: bytes) -> int:
    """Return how long the body is that follows; nothing else may say so."""
    lines = head.lower().split(b"\r\n")
    assert not [line for line in lines if line.startswith(b"transfer-encoding")]
    lengths = [line for line in lines if line.startswith(b"content-length:")]
    assert len(lengths) <= 1
    return int(lengths[0].partition(b":")[2]) if lengths else 0


@asynccontextmanager
async def before_raw_charge_service(
    installation: Installation,
) -> AsyncIterator[tuple[PartnerApi, RawChargeService]]:
    """Run the API before it."""
    service = RawChargeService()
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield await start_api(installation, API_UPSTREAM=url, API_LIMITS=UNLIMITED), service
    finally:
        server.close()
        for daemon in installation.daemons:
            daemon.kill()
        await asyncio.gather(*filter(None, service.conversations))
        await server.wait_closed()


def post(*lines: str, body: bytes = b"", path: str = "/v1/charges") -> bytes:
    """Return a request but for its token and its Idempotency-Key, which take the place of {credentials}."""
    head = "".join((f"POST {path} HTTP/1.1\r\nHost: api\r\n{{credentials}}", JSON, *lines, "\r\n"))
    return head.encode("latin-1") + body


def get(path: str, *lines: str) -> bytes:
    return "".join((f"GET {path} HTTP/1.1\r\nHost: api\r\n{{credentials}}", *lines, "\r\n")).encode("latin-1")


def length(body: bytes) -> str:
    return f"Content-Length: {len(body)}\r\n"


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


REFUSED: dict[str, bytes] = {
    "a length before chunks": post(length(ENDS + INNER), CHUNKED, body=ENDS + INNER),
    "chunks before a length": post(CHUNKED, length(ENDS + INNER), body=ENDS + INNER),
    "chunks twice": post(CHUNKED, CHUNKED, body=chunk(b"{}") + ENDS + INNER),
    "another coding before chunks": post(
        "Transfer-Encoding: gzip, chunked\r\n", body=chunk(b"{}") + ENDS + INNER
    ),
    "chunks and identity": post("Transfer-Encoding: chunked, identity\r\n", body=chunk(b"{}") + ENDS + INNER),
    "chunks that are none": post("Transfer-Encoding: xchunked\r\n", length(b"{}"), body=b"{}" + INNER),
    "chunks behind a blank": post("Transfer-Encoding : chunked\r\n", length(b"{}"), body=b"{}" + INNER),
    "chunks behind a control character": post(
        "Transfer-Encoding: \x0bchunked\r\n", length(b"{}"), body=b"{}"
    ),
    "chunks in a folded line": post(
        "X: a\r\n Transfer-Encoding: chunked\r\n", length(b"{}"), body=b"{}" + INNER
    ),
    "chunks behind a carriage return": post(
        "X: a\rTransfer-Encoding: chunked\r\n", length(b"{}"), body=b"{}"
    ),
    "chunks behind a line feed": post(
        "X: a\nTransfer-Encoding: chunked\r\n", length(b"{}"), body=b"{}" + INNER
    ),
    "two lengths": post(length(b"{}"), length(b"{}" + INNER), body=b"{}" + INNER),
    "two lengths in a line": post("Content-Length: 2, 2\r\n", body=b"{}" + INNER),
    "a length in another form": post("Content-Length: 0x2\r\n", body=b"{}" + INNER),
    "a length with an underscore": post("Content-Length: 1_0\r\n", body=b"{}" + INNER),
    "a chunk longer than it says": post(CHUNKED, body=b"2\r\n{}" + INNER + b"\r\n" + ENDS),
    "a chunk with a sign": post(CHUNKED, body=b"+2\r\n{}\r\n" + ENDS + INNER),
    "a chunk of a negative size": post(CHUNKED, body=b"-2\r\n{}\r\n" + ENDS + INNER),
    "a chunk of a size beyond all": post(CHUNKED, body=b"1" + b"0" * 16 + b"2\r\n{}\r\n" + ENDS + INNER),
    "a chunk with a line feed alone": post(CHUNKED, body=b"2\n{}\n0\n\n" + INNER),
    "an extension with a line feed": post(CHUNKED, body=b"2;a\nb\r\n{}\r\n" + ENDS + INNER),
    "no JSON but a request": post(length(INNER), body=INNER),
    "a line of the head in an id": get(f"/v1/recipients/x{FORGED}"),
    "a request in an id": get("/v1/recipients/x%20HTTP/1.1%0d%0a%0d%0aGET%20/v1/charges/y"),
    "a line of the head in an id to write to": post(
        length(b"{}"), body=b"{}", path=f"/v1/charges/x{FORGED}/reverse"
    ),
    "another path in an id": get("/v1/recipients/..%2f..%2fadmin"),
    "a blank in the path": get("/v1/recipients/x HTTP/1.1 y"),
    "another host in the path": get("http://127.0.0.1:1/v1/recipients/x"),
}
"""Requests of which nothing arrives."""
WITHIN = (
    b'{"note":\r\n\r\n"GET /v1/recipients HTTP/1.1",\r\n\r\n"more":'
    + json.dumps(INNER.decode()).encode()
    + b"}\r\n\r\n"
)
PASSED: dict[str, tuple[bytes, bytes]] = {
    "a request within a body": (post(length(WITHIN), body=WITHIN), WITHIN),
    "a body in chunks": (post(CHUNKED, body=chunk(b'{"a":') + chunk(b"1}") + ENDS), b'{"a":1}'),
    "chunks with extensions": (post(CHUNKED, body=chunk(b"{}", b';merchant=m2;x="0"') + ENDS), b"{}"),
    "trailers": (
        post(
            CHUNKED,
            "Trailer: Service-Merchant-Id\r\n",
            body=chunk(b"{}") + b"0\r\nService-Merchant-Id: m2\r\n\r\n",
        ),
        b"{}",
    ),
    "headers of one hop": (
        post(
            "Connection: keep-alive, Service-Merchant-Id, Content-Length\r\n",
            "Service-Merchant-Id: m2\r\nservice_merchant_id: m2\r\nX-Request-Id: a\tb\r\n",
            length(b"{}"),
            body=b"{}",
        ),
        b"{}",
    ),
    "a query in an id": (get("/v1/recipients/x%3Fmerchant=m1"), b""),
    "lines of a head in a query": (get(f"/v1/recipients?after=x{FORGED}"), b""),
    "an expectation": (post("Expect: 100-continue\r\n", length(b"{}"), body=b"{}"), b"{}"),
}
"""Requests that arrive, with the body that does."""


def complete(request: bytes, token: str | None, number: int) -> bytes:
    lines = f"Authorization: Bearer {token}\r\n" + (
        f"Idempotency-Key: k{number}\r\n" if request.startswith(b"POST") else ""
    )
    return request.replace(b"{credentials}", lines.encode())


async def answered(port: int, request: bytes) -> int:
    """Send a request, and return the status of its answer, behind that of 100 Continue."""
    async with connected(port) as client:
        await client.send(request)
        while (reply := await client.reply()).status == 100:
            pass
        return reply.status


async def test_of_what_two_programs_read_differently_nothing_arrives(installation: Installation) -> None:
    async with before_raw_charge_service(installation) as (api, service), api.merchant("m1") as merchant:
        for number, (way, request) in enumerate(REFUSED.items()):
            async with connected(api.port) as client, asyncio.timeout(MAX_WAIT):
                await client.send(complete(request, merchant.token, number))
                reply = await client.reply()
                assert 400 <= reply.status < 500, way
                assert set(reply.error), way
                # What was to be a second request is none: nothing more is answered before the end.
                client.writer.write_eof()
                assert await client.reader.read() == b"", way
        assert service.requests() == []
        # The charge service was there all the time.
        assert (await merchant.ask("POST", "/v1/charges", {})).status == 200
        assert len(service.requests()) == 1
    assert service.rest == b""


async def test_what_arrives_is_one_request_that_is_written_anew(installation: Installation) -> None:
    async with before_raw_charge_service(installation) as (api, service), api.merchant("m1") as merchant:
        for number, (way, (request, _)) in enumerate(PASSED.items()):
            reply = await answered(api.port, complete(request, merchant.token, number))
            assert reply == 200, way
        assert [body for _, body in service.requests()] == [body for _, body in PASSED.values()]
        for head, _ in service.requests():
            names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:-2]]
            assert len(names) == len(set(names))
            assert b"service-merchant-id: m1\r\n" in head.lower()
            assert b"m2" not in head.replace(b"%20m2", b"")
            assert {name.decode() for name in names} <= ALLOWED
        targets = [head.split()[1] for head, _ in service.requests()]
        assert b"/v1/recipients/x%3Fmerchant%3Dm1" in targets
        assert b"/v1/recipients?after=x%0D%0AService-Merchant-Id%3A%20m2" in targets
        assert len(service.connections) < len(PASSED), (
            "a connection was used again, and nothing was left on it"
        )
    assert service.rest == b""
