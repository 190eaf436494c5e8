"""How the answer to a failed attempt begins: read as far as it comes soon, and never at a merchant's pace."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.network import misbehaviour as m
from tests.network.raw_receiver import OK, Behaviour, RawReceiver, Request, answering, status
from webhook_dispatcher.domain.verdict import Answer, Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

LOOPBACK = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True))
MANY = 2048
EXCERPT_SECONDS = 0.5
ENDLESS = b"HTTP/1.1 500 No\r\n\r\n"
CHUNKED = b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"
SLACK = 5.0
"""Seconds that a busy machine may take besides."""


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    async with Sender(LOOPBACK, timedelta(seconds=20), "test", excerpt_bytes=MANY) as sender:
        yield sender


async def answer_of(sender: Sender, behave: Behaviour) -> Answer:
    async with RawReceiver(behave) as receiver:
        seen = await sender.post(receiver.url(), {}, b"{}")
    assert isinstance(seen, Answer), seen
    return seen


def later(first: bytes, *rest: bytes) -> Behaviour:
    """Send the rest piece by piece, each apart from what came before."""

    async def behave(request: Request) -> None:
        await request.answer(first)
        for piece in rest:
            await asyncio.sleep(0.02)
            await request.answer(piece)

    return behave


# fmt: off
BODIES = [
    ("comes with the headers", answering(status("500 No", body=b'{"error": "out of order"}')),
     '{"error": "out of order"}'),
    ("comes in chunks", answering(CHUNKED + b"3\r\nout\r\n9\r\n of order\r\n0\r\n\r\n"), "out of order"),
    ("comes late", later(b"HTTP/1.1 503 No\r\nContent-Length: 12\r\n\r\n", b"out ", b"of order"),
     "out of order"),
    ("ends with the connection", m.ends(ENDLESS + b"out of order", Request.close), "out of order"),
    ("breaks off", m.ends(b"HTTP/1.1 500 No\r\nContent-Length: 99\r\n\r\nout of", Request.close), "out of"),
    ("breaks off amid a chunk", m.ends(CHUNKED + b"9\r\nout of", Request.close), "out of"),
    ("is long", answering(status("500 No", body=b"x" * 100_000)), "x" * MANY),
    ("is binary", answering(status("500 No", body=b"\x00a\xff\x80\x1b[2J")), "\ufffda\ufffd\ufffd\x1b[2J"),
    ("is nothing but bytes that are no text", answering(status("500 No", body=b"\xff" * 4000)),
     "\ufffd" * (MANY // 3)),
    ("is cut amid a character", answering(status("500 No", body=b"x" * (MANY - 1) + "é".encode())),
     "x" * (MANY - 1)),
    ("is packed", answering(status("500 No", "Content-Encoding: gzip", body=b"no gzip")), "no gzip"),
    ("is empty", answering(status("500 No")), None),
    ("cannot be", answering(b"HTTP/1.1 304 Same\r\n\r\n"), None),
    ("is that of a redirect", answering(status("302 Found", "Location: /x", body=b"over there")),
     "over there"),
]
# fmt: on


@pytest.mark.parametrize(
    ("behave", "excerpt"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES]
)
async def test_a_body_that(sender: Sender, behave: Behaviour, excerpt: str | None) -> None:
    seen = await answer_of(sender, behave)
    assert seen.outcome is Outcome.STATUS
    assert seen.excerpt == excerpt


async def test_a_delivery_has_none(sender: Sender) -> None:
    seen = await answer_of(sender, answering(OK))
    assert (seen.status, seen.excerpt, seen.lingered) == (200, None, 0.0)


async def test_none_is_read_where_none_is_asked_for() -> None:
    async with Sender(LOOPBACK, timedelta(seconds=20), "test") as sender:
        seen = await answer_of(sender, answering(status("500 No", body=b"out of order")))
    assert (seen.excerpt, seen.lingered) == (None, 0.0)


@pytest.mark.parametrize(
    ("behave", "beginning"),
    [
        (m.drips(ENDLESS, b"x"), "x"),
        (m.drips(CHUNKED, b"1\r\nx\r\n"), "x"),
        (m.drips(CHUNKED, b"1;" + b"y" * 50 + b"\r\nx\r\n"), "x"),
        (m.drips(b"HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\n"), ""),
    ],
    ids=["drips", "drips chunks", "drips comments", "has a length and drips"],
)
async def test_a_slow_body_is_waited_for_no_longer_than_the_wait(
    sender: Sender, behave: Behaviour, beginning: str
) -> None:
    start = asyncio.get_running_loop().time()
    seen = await answer_of(sender, behave)
    took = asyncio.get_running_loop().time() - start
    assert (
        EXCERPT_SECONDS * 0.9 < seen.lingered <= took < EXCERPT_SECONDS + SLACK
    )  # a loop counts milliseconds
    assert (seen.excerpt or "").startswith(beginning)


@pytest.mark.parametrize("start", [ENDLESS, b"HTTP/1.1 500 No\r\nContent-Length: 1073741824\r\n\r\n"])
async def test_an_endless_body_is_left_once_there_is_enough(sender: Sender, start: bytes) -> None:
    closed = asyncio.Event()

    async def pour(request: Request) -> None:
        try:
            await request.answer(start)
            while True:
                await request.answer(b"x" * 65536)
        except OSError:
            closed.set()
            raise

    async with RawReceiver(pour) as receiver:
        seen = await sender.post(receiver.url(), {}, b"{}")
        assert isinstance(seen, Answer)
        assert seen.excerpt == "x" * MANY
        assert seen.lingered < EXCERPT_SECONDS
        await asyncio.wait_for(closed.wait(), SLACK)


async def test_what_there_is_is_enough_though_the_body_stops(sender: Sender) -> None:
    stops = answering(b"HTTP/1.1 500 No\r\nContent-Length: 100000\r\n\r\n" + b"x" * 3000)
    assert (await answer_of(sender, stops)).lingered < EXCERPT_SECONDS


async def test_an_endless_comment_on_a_chunk_is_no_body(sender: Sender) -> None:
    pours = m.pours(CHUNKED + b"1;", b"y" * 65536)
    assert (await answer_of(sender, pours)).lingered < EXCERPT_SECONDS


async def test_the_wait_ends_with_the_attempts_time() -> None:
    async with Sender(LOOPBACK, timedelta(seconds=0.2), "test", excerpt_bytes=MANY) as sender:
        start = asyncio.get_running_loop().time()
        seen = await answer_of(sender, m.drips(ENDLESS, b"x"))
        assert asyncio.get_running_loop().time() - start < EXCERPT_SECONDS
    assert seen.lingered < 0.2 + 0.1


@pytest.mark.parametrize(
    "behave",
    [
        answering(status("500 No", body=b"x" * 3000)),
        later(b"HTTP/1.1 500 No\r\nContent-Length: 3000\r\n\r\n", b"x" * 1500, b"x" * 1500),
        later(CHUNKED, b"3\r\nout\r\n", b"0\r\n\r\n"),
    ],
    ids=["at once", "late", "in chunks"],
)
async def test_the_connection_is_kept_behind_a_short_body(sender: Sender, behave: Behaviour) -> None:
    async with RawReceiver(behave) as receiver:
        for _ in range(3):
            seen = await sender.post(receiver.url(), {}, b"{}")
            assert isinstance(seen, Answer)
            assert seen.excerpt
        assert receiver.connections == 1


async def test_the_next_answer_has_nothing_of_the_one_before(sender: Sender) -> None:
    answers = [status("500 No", body=b"mine"), status("500 No"), OK, status("500 No", body=b"yours")]

    async def behave(request: Request) -> None:
        await request.answer(answers.pop(0))

    async with RawReceiver(behave) as receiver:
        seen = [await sender.post(receiver.url(), {}, b"{}") for _ in range(4)]
        assert [answer.excerpt for answer in seen] == ["mine", None, None, "yours"]
        assert receiver.connections == 1


async def test_a_408_that_crosses_the_request_is_sent_again_at_once(sender: Sender) -> None:
    """Its body is not waited for: nobody will read it."""

    async def behave(request: Request) -> None:
        if request.connection == 1 and len(receiver.requests) == 2:
            await request.answer(b"HTTP/1.1 408 Idle\r\nContent-Length: 9\r\n\r\n")
            await asyncio.Event().wait()
        await request.answer(OK)

    async with RawReceiver(behave) as receiver:
        assert await sender.post(receiver.url(), {}, b"{}") == Answer(200)
        start = asyncio.get_running_loop().time()
        assert await sender.post(receiver.url(), {}, b"{}") == Answer(200)
        assert asyncio.get_running_loop().time() - start < EXCERPT_SECONDS


async def test_who_gives_up_amid_the_wait_leaves_no_connection(sender: Sender) -> None:
    dripped, closed = asyncio.Event(), asyncio.Event()

    async def drip(request: Request) -> None:
        try:
            await request.answer(ENDLESS)
            while True:
                await asyncio.sleep(0.01)
                await request.answer(b"x")
                dripped.set()
        except OSError:
            closed.set()
            raise

    async with RawReceiver(drip) as receiver:
        post = asyncio.create_task(sender.post(receiver.url(), {}, b"{}"))
        await dripped.wait()
        post.cancel()
        await asyncio.wait([post])
        assert post.cancelled()
        await asyncio.wait_for(closed.wait(), SLACK)
