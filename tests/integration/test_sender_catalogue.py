"""The receiver catalogue, row by row, over real TLS: what a receiver does, and what the attempt shows.

An integer is a status that is reported as it is (2xx is a delivery); a word is the contract's outcome. More
than one is what may be seen where TCP's timing decides. Rows that end in a time-out are posted by a sender in
a hurry; all others have time, so that a busy machine changes nothing.
"""

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
import pytest_asyncio

from tests.network import misbehaviour as m
from tests.network.misbehaviour import Scene, does, is_called, plainly, presents, says, talks
from tests.network.name_server import NXDOMAIN, SERVFAIL, SILENCE, Reply, addresses, serving
from tests.network.raw_receiver import OK, Request, status
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.failures import Phase
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

HURRY = 0.5
HEADERS = {"Content-Type": "application/json; charset=utf-8", "Service-Event-Type": "charge.created"}
BODY = b'{"data":{"object":{}}}'
LARGE = bytes(32 << 20)
HINTS = b"HTTP/1.1 103 Early Hints\r\n" + b"X: y\r\n" * 400 + b"\r\n"

CONNECT, TLS, DNS = Outcome.CONNECT, Outcome.TLS, Outcome.DNS
DISCONNECTED, BAD_RESPONSE = Outcome.DISCONNECTED, Outcome.BAD_RESPONSE
SLOW_NAME, SLOW_CONNECT, SLOW_HANDSHAKE, NO_ANSWER, SLOW_ANSWER = (
    Failure(Outcome.TIMEOUT, f"no answer within {HURRY:g} s ({phase})")
    for phase in (Phase.RESOLVING, Phase.CONNECTING, Phase.HANDSHAKING, Phase.WAITING, Phase.READING)
)

NAMES = {
    "nxdomain.attacker.dev": NXDOMAIN,
    "servfail.attacker.dev": SERVFAIL,
    "silent.attacker.dev": SILENCE,
    "nothing.attacker.dev": Reply(),
    "hundred.attacker.dev": addresses(*[f"127.9.0.{n}" for n in range(100)]),
    "thousand.attacker.dev": addresses(*[f"127.9.{n // 250}.{n % 250}" for n in range(1000)]),
    "loop.attacker.dev": Reply(
        aliases=[("loop.attacker.dev", "pool.attacker.dev"), ("pool.attacker.dev", "loop.attacker.dev")]
    ),
}


@dataclass(frozen=True)
class Row:
    number: int
    receiver: str
    scene: Scene
    expected: tuple[int | Outcome | Failure, ...]
    body: bytes = BODY
    posts: int = 1
    most_requests: int = 1

    def __str__(self) -> str:
        return f"{self.number} {self.receiver}"


def row(
    number: int,
    receiver: str,
    scene: Scene,
    *expected: int | Outcome | Failure,
    body: bytes = BODY,
    posts: int = 1,
    requests: int = 1,
) -> Row:
    return Row(number, receiver, scene, expected, body, posts, max(posts, requests))


def line(code: str) -> bytes:
    return f"HTTP/1.1 {code} secret\r\nContent-Length: 0\r\n\r\n".encode()


def ok(*lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", *lines, b"", b"")) + body


LENGTH = b"Content-Length: 2"
ZEROS = b"Content-Length: " + b"0" * 4300 + b"1"
MOVED = "Location: /internal"
PATIENCE = "Retry-After: 99999999"

# fmt: off
CATALOGUE = [
    row(1, "drops the SYN: its backlog is full", m.backlog_is_full, SLOW_CONNECT),
    row(2, "refuses the connection", m.nobody_listens, CONNECT),
    row(3, "accepts TCP, says nothing", plainly(m.say_nothing), SLOW_HANDSHAKE),
    row(4, "shakes hands byte by byte", plainly(m.shake_hands_slowly), SLOW_HANDSHAKE),
    row(5, "is silent after the handshake", talks(m.say_nothing), NO_ANSWER),
    row(6, "reads the request, never answers", does(m.answer_never), NO_ANSWER),
    row(7, "drips headers byte by byte", does(m.drips(b"HTTP/1.1 200 OK\r\nX: ")), SLOW_ANSWER),
    row(8, "drips the body for ever", does(m.drips(ok(b"Content-Length: 1000"))), 200),
    row(8, "drips chunks for ever", does(m.drips(ok(b"Transfer-Encoding: chunked"), b"1\r\nx\r\n")), 200),
    row(9, "pours an endless body", does(m.pours(ok())), 200),
    row(10, "pours a body of 1 GiB", does(m.pours(ok(b"Content-Length: 1073741824"))), 200),
    row(11, "sends a gzip bomb", says(status("200 OK", "Content-Encoding: gzip", body=m.gzip_bomb())), 200),
    row(12, "sends corrupt gzip", says(status("200 OK", "Content-Encoding: gzip", body=b"no gzip")), 200),
    row(12, "has an unknown encoding", says(status("200 OK", "Content-Encoding: br, ?", body=b"x")), 200),
    row(13, "floods with 100 Continue", does(m.drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n")), SLOW_ANSWER),
    row(13, "pours 100 Continue", does(m.pours(b"", b"HTTP/1.1 100 C\r\n\r\n" * 5_000)), BAD_RESPONSE),
    row(14, "says 103, then 200", says(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK), 200),
    row(14, "says 100, then 200", says(b"HTTP/1.1 100 Continue\r\n\r\n" + OK), 200),
    row(15, "says 102, then closes", does(m.ends(b"HTTP/1.1 102 Processing\r\n\r\n", Request.close)),
        DISCONNECTED),
    row(16, "switches protocols", says(b"HTTP/1.1 101 Now\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        101),
    *(row(17, f"says {code}", says(line(str(code))), code)
      for code in (200, 201, 202, 204, 205, 206, 226, 299)),
    *(row(18, f"says {code}, see elsewhere", says(status(f"{code} Moved", MOVED)), code)
      for code in (300, 301, 302, 303, 304, 307, 308)),
    *(row(19, f"says {code}", says(line(str(code))), code)
      for code in (400, 401, 403, 404, 407, 409, 410, 413, 421, 425, 429, 451, 499)),
    *(row(20, f"says {code}, retry in years", says(status(f"{code} Later", PATIENCE)), code)
      for code in (408, 429, 503)),
    *(row(21, f"says {code}", says(line(str(code))), code) for code in (500, 501, 502, 503, 504, 529, 599)),
    *(row(22, f"says {code}", says(line(code)), int(code)) for code in ("600", "999", "000", "099")),
    *(row(23, f"says {code}", says(line(code)), BAD_RESPONSE) for code in ("1000", "20", "+200")),
    row(24, "gives no reason phrase", says(b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), 200),
    row(24, "speaks HTTP/1.0, no length", does(m.ends(b"HTTP/1.0 200 OK\r\n\r\nx", Request.close)), 200),
    row(24, "ends its lines with a bare LF", says(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"), 200),
    row(24, "claims HTTP/2.0", says(b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"), 200),
    row(25, "speaks HTTP/0.9", says(b"secret: 200 OK\r\n\r\n"), BAD_RESPONSE),
    row(25, "sends random bytes", says(bytes(range(256)) * 4), BAD_RESPONSE),
    row(25, "speaks ICY", says(b"ICY 200 secret\r\n\r\n"), BAD_RESPONSE),
    # 26 and 27: the verdict falls with the headers, however what is wrong behind them arrives.
    row(26, "says 204 with a body", says(b"HTTP/1.1 204 No Content\r\n\r\nsurprise"), 204),
    row(26, "says 204 with a body of 8", says(b"HTTP/1.1 204 No\r\nContent-Length: 8\r\n\r\nsurprise"), 204),
    row(27, "sends a bad chunk", says(ok(b"Transfer-Encoding: chunked", body=b"zz\r\nx\r\n")), 200),
    row(27, "sends a chunk of 2**80", says(ok(b"Transfer-Encoding: chunked", body=b"1%020d\r\nx" % 0)), 200),
    row(27, "sends 5 000 trailers", says(ok(b"Transfer-Encoding: chunked", body=b"0\r\n" + b"X:\r\n" * 5000)),
        200),
    row(28, "repeats Content-Length", says(ok(LENGTH, LENGTH, body=b"ok")), BAD_RESPONSE),
    row(28, "contradicts its length", says(ok(LENGTH, b"Content-Length: 3", body=b"ok")), BAD_RESPONSE),
    row(28, "has a length and chunks", says(ok(LENGTH, b"Transfer-Encoding: chunked", body=b"0\r\n\r\n")),
        BAD_RESPONSE),
    row(28, "has a negative length", says(ok(b"Content-Length: -1")), BAD_RESPONSE),
    row(28, "spells its length with 4,300 zeros", says(ok(ZEROS, body=b"o")), 200),
    row(28, "has a length beyond 2**64", says(ok(b"Content-Length: 99999999999999999999999")), BAD_RESPONSE),
    row(29, "sends a header of 9 KiB", says(ok(LENGTH, b"X: " + b"x" * 9216, body=b"ok")), 200),
    row(29, "sends 200 headers", says(ok(LENGTH, *[b"X-%d: y" % n for n in range(200)], body=b"ok")), 200),
    row(30, "sends a header line of 1 MiB", says(ok(LENGTH, b"X: " + b"x" * (1 << 20))), BAD_RESPONSE),
    row(30, "announces itself with 1 200 headers, in three heads", says(3 * HINTS + OK), BAD_RESPONSE),
    row(30, "announces itself with 800 headers, in two heads", says(2 * HINTS + OK), 200),
    row(30, "sends 10 000 headers", says(ok(*[b"X-%d: y" % n for n in range(10_000)])), BAD_RESPONSE),
    row(30, "has an endless reason", does(m.pours(b"HTTP/1.1 200 ")), BAD_RESPONSE),
    row(30, "pours long headers", does(m.pours(b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 60_000 + b"\r\n")),
        BAD_RESPONSE),
    row(31, "has a NUL in a header", says(ok(b"X: a\0secret")), BAD_RESPONSE),
    row(32, "has a NUL in its reason", says(b"HTTP/1.1 500 a\0b\r\nContent-Length: 0\r\n\r\n"), 500),
    row(32, "has Latin-1 in its reason", says(b"HTTP/1.1 500 caf\xe9\r\nContent-Length: 0\r\n\r\n"), 500),
    row(33, "folds a header", says(ok(LENGTH, b"X: a", b" b", body=b"ok")), 200),
    # llhttp refuses it (RFC 9112, 5.1, lets it).
    row(33, "puts a space before a colon", says(ok(LENGTH, b"X : a", body=b"ok")), BAD_RESPONSE),
    row(33, "has Latin-1 in a header", says(ok(LENGTH, b"X: caf\xe9", body=b"ok")), 200),
    row(34, "sets 100 cookies", says(ok(LENGTH, *[b"Set-Cookie: c%d=x" % n for n in range(100)], body=b"ok")),
        200, posts=2),
    row(35, "answers twice: 500, then 200", says(line("500") + OK), 500),
    row(36, "closes without a byte", does(m.ends(b"", Request.close)), DISCONNECTED),
    row(36, "resets without a byte", does(m.ends(b"", Request.reset)), DISCONNECTED),
    row(36, "closes before the body is read", talks(m.answers_the_head(b"", then_closes=True)), DISCONNECTED,
        body=LARGE),
    row(37, "resets amid the headers", does(m.ends(b"HTTP/1.1 200 OK\r\nX: ", Request.reset)), DISCONNECTED),
    row(37, "closes amid the headers", does(m.ends(b"HTTP/1.1 200 OK\r\nX: ", Request.close)), DISCONNECTED),
    row(38, "closes amid the body", does(m.ends(ok(b"Content-Length: 9", body=b"x"), Request.close)), 200),
    row(38, "resets amid the body", does(m.arrives_then_resets(ok(b"Content-Length: 9", body=b"x"))), 200),
    row(39, "says 200, reads no body", talks(m.answers_the_head(OK, then_closes=False)), 200, body=LARGE),
    row(40, "says 500 and closes, reads no body", talks(m.answers_the_head(line("500"), then_closes=True)),
        500, DISCONNECTED, body=LARGE),
    row(40, "says 200 and closes, reads no body", talks(m.answers_the_head(OK, then_closes=True)),
        200, DISCONNECTED, body=LARGE),
    row(41, "never reads the body", talks(m.say_nothing), NO_ANSWER, body=LARGE),
    # 42: sent again at once, on a fresh connection and in the same attempt.
    row(42, "closes as we reuse the connection", m.does_anew(m.closes_the_second(OK, Request.close)), 200,
        posts=2, requests=3),
    row(42, "resets as we reuse the connection", m.does_anew(m.closes_the_second(OK, Request.reset)), 200,
        posts=2, requests=3),
    row(43, "has an expired certificate", presents(m.expired), TLS),
    row(43, "has a certificate for later", presents(m.not_yet_valid), TLS),
    row(43, "has signed itself", says(OK, m.self_signed), TLS),
    row(43, "is signed by a stranger", presents(m.unknown_issuer), TLS),
    row(43, "has another host's certificate", presents(m.wrong_host), TLS),
    row(44, "knows TLS 1.0 only", says(OK, m.only(ssl.TLSVersion.TLSv1)), TLS),
    row(44, "knows TLS 1.1 only", says(OK, m.only(ssl.TLSVersion.TLSv1_1)), TLS),
    row(44, "wants our certificate", says(OK, m.wants_a_client_certificate(ssl.TLSVersion.TLSv1_2)), TLS),
    # In TLS 1.3 it says so behind our handshake, by an alert or by closing.
    row(44, "wants our certificate, late", says(OK, m.wants_a_client_certificate(ssl.TLSVersion.TLSv1_3)),
        TLS),
    row(44, "speaks plain HTTP", plainly(m.greets(b"HTTP/1.1 400 Bad Request\r\n\r\n")), TLS),
    row(44, "speaks SMTP", plainly(m.greets(b"220 secret.example.org ESMTP\r\n")), TLS),
    row(44, "hangs up on our handshake", plainly(m.greets(b"")), TLS),
    row(45, "knows TLS 1.2 only", says(OK, m.only(ssl.TLSVersion.TLSv1_2)), 200),
    row(46, "has no such name", is_called("nxdomain.attacker.dev"), DNS),
    row(46, "has a failing name server", is_called("servfail.attacker.dev"), DNS),
    row(46, "has a name without addresses", is_called("nothing.attacker.dev"), DNS),
    row(47, "has a silent name server", is_called("silent.attacker.dev"), SLOW_NAME),
    # More than the first few are not tried: each costs a dial.
    row(48, "has 100 addresses, none of them there", is_called("hundred.attacker.dev"), CONNECT),
    row(48, "has 1 000 addresses", is_called("thousand.attacker.dev"),
        Failure(DNS, "name has more than 100 addresses")),
    row(48, "has aliases in a circle", is_called("loop.attacker.dev"), DNS),
    # 49 at the real ten seconds: test_sender_deadline.
    row(49, "answers before the deadline", does(m.waits(0.3, OK)), 200),
    row(49, "answers after the deadline", does(m.waits(HURRY + 0.1, OK)), NO_ANSWER),
    # 50: the dispatcher knows that its loop stood still, and does not count the attempt (own_faults.py).
    row(50, "answers in time while we stand still", m.we_stand_still, SLOW_ANSWER, NO_ANSWER),
    row(51, "says error in the body of a 200", says(status("200 OK", body=b'{"error": true}')), 200),
]
# fmt: on


OF_AIOHTTP = {"announces itself with 1 200 headers, in three heads": 200}
"""What aiohttp's shows otherwise: it bounds each head by itself."""


@dataclass(frozen=True)
class Senders:
    patient: Sender
    hurried: Sender


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def senders(sender_class: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Senders]:
    """Made anew for each class; without naming it, the first one's would be kept for the other."""
    ca_file: Path = tmp_path_factory.mktemp("catalogue") / "ca.pem"
    m.authority.cert_pem.write_to_path(ca_file)
    guard = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),)))
    async with (
        serving(NAMES) as (_, server),
        Sender(guard, timedelta(seconds=20), "test", ca_file, nameservers=[server]) as patient,
        Sender(guard, timedelta(seconds=HURRY), "test", ca_file, nameservers=[server]) as hurried,
    ):
        yield Senders(patient, hurried)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("row", CATALOGUE, ids=str)
async def test_receiver_that(row: Row, senders: Senders, sender_class: str) -> None:
    otherwise = OF_AIOHTTP.get(row.receiver) if sender_class == "aiohttp" else None
    expected = row.expected if otherwise is None else (otherwise,)
    times_out = isinstance(row.expected[0], Failure)
    sender = senders.hurried if times_out else senders.patient
    async with row.scene() as target:
        for _ in range(row.posts):
            seen = await sender.post(target.url, HEADERS, row.body)
        assert _shown(seen, row) in expected, seen
        assert len(target.requests) <= (0 if row.expected == (TLS,) else row.most_requests)
        assert all("cookie" not in request.headers for request in target.requests)


def test_every_row_is_there() -> None:
    assert sorted({row.number for row in CATALOGUE}) == list(range(1, 52))


def _shown(seen: Answer | Failure, row: Row) -> int | Outcome | Failure:
    if isinstance(seen, Answer):
        assert (seen.outcome is Outcome.DELIVERED) == (200 <= seen.status <= 299)
        return seen.status
    assert seen.detail
    assert seen.detail.isprintable()
    assert "secret" not in seen.detail
    return seen if isinstance(row.expected[0], Failure) else seen.outcome
