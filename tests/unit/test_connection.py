"""One connection: which answers are taken, and after which of them it is kept."""

from collections import Counter
from random import Random

import pytest

from tests.fuzz.mutation import mutated
from tests.fuzz.responses import CORPUS, TOKENS
from tests.unit.fakes.network import FakeLoop, sent
from webhook_dispatcher.transport.failures import Disconnected, Malformed

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def ok(*lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", *lines, b"", b"")) + body


@pytest.mark.parametrize(
    ("answer", "status", "is_kept"),
    [
        (OK, 200, True),
        (CONTINUE + b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK, 200, True),
        (b"HTTP/1.1 103 E\r\nContent-Length: 0\r\n\r\n" + CHUNKED + b"2\r\nok\r\n0\r\n\r\n", 200, True),
        (b"HTTP/1.1 103 E\r\nConnection: close\r\n\r\n" + OK, 200, True),
        (ok(b"X: a", b" folded \xff", b"Content-Length: 0"), 200, True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, True),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", 200, True),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, True),
        (CHUNKED + b"2\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\n", 200, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, False),
        (ok(b"Connection: close", b"Content-Length: 0"), 200, False),
        (ok(), 200, False),
        (ok(b"Content-Length: 4097"), 200, False),
        (ok(b"Content-Length: " + b"0" * 40 + b"1"), 200, False),
        # Its end is in doubt where it has no body and declares one; a 408 may be no answer to our request.
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, False),
        (b"HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n", 204, False),
        (b"HTTP/1.1 103 E\r\nContent-Length: 9999\r\n\r\n" + OK, 200, False),
        (b"HTTP/1.1 408 Too Slow\r\nContent-Length: 0\r\n\r\n", 408, False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + CHUNKED[17:] + b"0\r\n\r\n", 200, False),
        (b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, False),
        (b"HTTP/1.1 101 Now\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n\x81", 101, False),
        # What is wrong behind the headers changes no verdict.
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" + OK, 500, False),
        (b"HTTP/1.1 204 No Content\r\n\r\nsurprise", 204, False),
        *((OK + b"H", 200, False), (OK + b"\n", 200, False), (EMPTY + b"\r\n", 200, False)),
        *((CHUNKED + b"0\r\n\r\n\r\n", 200, False), (CHUNKED + b"zz\r\nx\r\n", 200, False)),
    ],
    ids=lambda value: repr(value[:60]) if isinstance(value, bytes) else "",
)
async def test_an_answer_means_the_same_however_it_is_cut(answer: bytes, status: int, is_kept: bool) -> None:
    for at in range(len(answer) + 1):
        loop = FakeLoop()
        wire, transport, waiter = sent(loop)
        assert not wire.is_idle
        for piece in (answer[:at], answer[at:]):
            if piece and not transport.is_aborted:
                wire.data_received(piece)
        assert (await waiter, wire.is_idle) == (status, is_kept), at
        assert transport.is_aborted is not is_kept


async def test_a_mutated_answer_ends_the_same_however_it_is_cut() -> None:
    random = Random(20261121)

    async def end(*pieces: bytes) -> object:
        wire, transport, waiter = sent(FakeLoop())
        for piece in pieces:
            if piece and not transport.is_aborted:
                wire.data_received(piece)
        wire.connection_lost(None)
        try:
            return await waiter
        except (Malformed, Disconnected) as error:
            return type(error)

    ends = Counter[object]()
    for _ in range(300):
        answer = mutated(CORPUS, TOKENS, random)
        whole = await end(answer)
        ends[whole] += 1
        for _ in range(3):
            first, second = sorted(random.choices(range(len(answer) + 1), k=2))
            assert await end(answer[:first], answer[first:second], answer[second:]) == whole, answer
    assert {200, 500, Malformed, Disconnected} <= ends.keys()


async def test_a_reason_is_bounded_in_pieces_too() -> None:
    wire, transport, waiter = sent(FakeLoop())
    wire.data_received(b"HTTP/1.1 200 " + b"x" * 40_000)
    wire.data_received(b"x" * 40_000 + b"\r\n\r\n")
    assert transport.is_aborted
    with pytest.raises(Malformed):
        await waiter


@pytest.mark.parametrize(
    "answer",
    [
        *(b"<html>", b"HTTP/1.1 1000 No\r\n\r\n", b"HTTP/1.1 20 No\r\n\r\n", ok(b"X: a\0b")),
        *(ok(b"X: a\rb"), ok(b"X : a"), ok(b"X\xff: a"), ok(b"no colon")),
        ok(b"Content-Length: 2", b"Content-Length: 2"),
        ok(b"Content-Length: 2", b"Transfer-Encoding: chunked"),
        *(ok(b"Content-Length: -1"), ok(b"X: " + b"x" * 65537), ok(b"X" * 65537 + b": x")),
        *(ok(*[b"X: y"] * 1001), b"HTTP/1.1 200 " + b"x" * 65537 + b"\r\n\r\n", CONTINUE * 65 + OK),
        b"HTTP/1.1 103 Early Hints\r\n" + b"X: y\r\n" * 1000 + b"\r\n" + ok(b"X: y"),
    ],
    ids=lambda answer: repr(answer[:40]),
)
async def test_a_malformed_head_is_refused_and_ends_the_connection(answer: bytes) -> None:
    wire, transport, waiter = sent(FakeLoop())
    wire.data_received(answer)
    assert transport.is_aborted
    with pytest.raises(Malformed):
        await waiter


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"Content-Length: 0", *[b"X: y"] * 999),
        ok(b"Content-Length: 0", b"X: " + b"x" * 65536),
        CONTINUE * 64 + EMPTY,
        (b"HTTP/1.1 103 Early\r\n" + b"X: y\r\n" * 499 + b"\r\n") * 2 + EMPTY,
    ],
    ids=lambda answer: repr(answer[:40]),
)
async def test_what_is_just_within_the_limits_is_taken(answer: bytes) -> None:
    wire, _, waiter = sent(FakeLoop())
    wire.data_received(answer)
    assert await waiter == 200
    assert wire.is_idle


@pytest.mark.parametrize(
    "piece", [b"x" * 8192, b"X: y\r\n" * 1000, b"\r\nHTTP/1.1 102 P\r\nX: " + b"y" * 60_000]
)
async def test_a_head_that_does_not_end_is_given_up_after_256_kib(piece: bytes) -> None:
    wire, transport, waiter = sent(FakeLoop())
    wire.data_received(b"HTTP/1.1 102 Processing\r\nX: ")
    taken = 0
    while not transport.is_aborted:
        wire.data_received(piece)
        taken += len(piece)
        assert taken <= 256 * 1024 + len(piece)
    with pytest.raises(Malformed):
        await waiter


async def test_a_head_in_more_than_a_thousand_pieces_is_given_up() -> None:
    wire, transport, waiter = sent(FakeLoop())
    pieces = 0
    while not transport.is_aborted:
        wire.data_received(b"HTTP/1.1 200 OK\r\nX: "[pieces : pieces + 1] or b"y")
        pieces += 1
    assert pieces == 1001
    with pytest.raises(Malformed):
        await waiter


async def test_bytes_that_nobody_asked_for_end_an_idle_connection() -> None:
    wire, transport, waiter = sent(FakeLoop())
    wire.data_received(OK)
    assert await waiter == 200
    wire.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert transport.is_aborted
    assert not wire.is_idle
