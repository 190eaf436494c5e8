"""What an attempt sends, how long it takes, and how little of the answer it lets through.

test_sender_catalogue has the outcome for every kind of receiver.
"""

import asyncio
import gzip
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.network.raw_receiver import OK, Behaviour, RawReceiver, Request, answering, status
from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

LOOPBACK = EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True)
HEADERS = {"Content-Type": "application/json; charset=utf-8", "Service-Event-Type": "charge.created"}
BODY = b'{"data":{"object":{}}}'
QUICK = 0.3
GZIP_BOMB = gzip.compress(bytes(50_000_000))


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    async with Sender(Guard(LOOPBACK), timedelta(seconds=5), "webhook-dispatcher/test") as sender:
        yield sender


@pytest.fixture
async def hasty() -> AsyncIterator[Sender]:
    async with Sender(Guard(LOOPBACK), timedelta(seconds=QUICK), "webhook-dispatcher/test") as sender:
        yield sender


async def post_to(sender: Sender, behave: Behaviour, body: bytes = BODY) -> Answer | Failure:
    async with RawReceiver(behave) as receiver:
        seen = await sender.post(receiver.url(), HEADERS, body)
        assert len(receiver.requests) <= 1, "an attempt is one request"
        return seen


def outcome_of(seen: Answer | Failure) -> Outcome:
    if isinstance(seen, Failure):
        assert seen.detail
        assert seen.detail.isprintable()
        assert "secret" not in seen.detail
    return seen.outcome


async def test_request_carries_exactly_what_the_contract_says(sender: Sender) -> None:
    async with RawReceiver(answering(OK)) as receiver:
        assert await sender.post(receiver.url("/a/../b/%7Ex?sp=%2Ftriggers%2Frun"), HEADERS, BODY) == Answer(
            200
        )
    [request] = receiver.requests
    assert request.line == b"POST /a/../b/%7Ex?sp=%2Ftriggers%2Frun HTTP/1.1"
    assert request.body == BODY
    assert request.headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "user-agent": "webhook-dispatcher/test",
        "content-type": "application/json; charset=utf-8",
        "service-event-type": "charge.created",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-length": str(len(BODY)),
    }


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(sender: Sender, code: int) -> None:
    async with RawReceiver(answering(OK)) as elsewhere:
        location = f"Location: {elsewhere.url('/internal')}"
        assert await post_to(sender, answering(status(f"{code} Moved", location))) == Answer(code)
        assert elsewhere.connections == 0


@pytest.mark.parametrize("reason", [b"a\0secret", b"caf\xe9 secret", b""])
async def test_reason_phrase_goes_nowhere(sender: Sender, reason: bytes) -> None:
    seen = await post_to(sender, answering(b"HTTP/1.1 500 " + reason + b"\r\nContent-Length: 0\r\n\r\n"))
    assert seen == Answer(500)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 1000 secret\r\n\r\n",
        b"HTTP/1.1 20 secret\r\n\r\n",
        b"HTTP/1.1 +200 secret\r\n\r\n",
        b"secret: this is no HTTP at all\r\n\r\n",
        b"ICY 200 secret\r\n\r\n",
        bytes(range(256)) * 4,
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nsecret",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nsecret",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nsecret",
        b"HTTP/1.1 200 OK\r\nX: a\0secret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"secret" * 200_000 + b"\r\n\r\n",
        status("200 OK", *[f"X-{number}: secret" for number in range(10_000)]),
    ],
    ids=lambda answer: repr(answer[:40]),
)
async def test_malformed_answer_is_a_bad_response(sender: Sender, answer: bytes) -> None:
    assert outcome_of(await post_to(sender, answering(answer))) is Outcome.BAD_RESPONSE


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 102 Processing\r\n\r\n", b"HTTP/1.1 200 secret\r\nX-Secret"]
)
@pytest.mark.parametrize("ending", [Request.close, Request.reset])
async def test_connection_that_ends_too_early_is_disconnected(
    sender: Sender, sent: bytes, ending: object
) -> None:
    async def behave(request: Request) -> None:
        await request.answer(sent)
        assert callable(ending)
        ending(request)

    assert outcome_of(await post_to(sender, behave)) is Outcome.DISCONNECTED


async def test_refused_port_is_a_connect_failure(sender: Sender) -> None:
    async with RawReceiver(answering(OK)) as receiver:
        url = receiver.url()
    seen = await sender.post(url, HEADERS, BODY)
    assert outcome_of(seen) is Outcome.CONNECT
    assert seen == Failure(Outcome.CONNECT, "ECONNREFUSED")


async def answer_never(request: Request) -> None:
    await asyncio.Event().wait()


async def drip_headers(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        await request.answer(b"x")
        await asyncio.sleep(0.01)


async def continue_for_ever(request: Request) -> None:
    while True:
        await request.answer(b"HTTP/1.1 100 Continue\r\n\r\n")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("behave", [answer_never, drip_headers, continue_for_ever])
async def test_deadline_is_for_the_whole_attempt(hasty: Sender, behave: Behaviour) -> None:
    start = asyncio.get_running_loop().time()
    seen = await post_to(hasty, behave)
    phase = "waiting for" if behave is answer_never else "reading"
    assert seen == Failure(Outcome.TIMEOUT, f"no answer within 0.3 s ({phase} headers)")
    assert QUICK - 0.01 <= asyncio.get_running_loop().time() - start < QUICK + 0.5


async def test_receiver_that_never_reads_is_a_timeout(hasty: Sender) -> None:
    async def never_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    # More than any socket buffer holds.
    async with RawReceiver(converse=never_read) as receiver:
        seen = await hasty.post(receiver.url(), HEADERS, b"x" * 32_000_000)
    assert outcome_of(seen) is Outcome.TIMEOUT


async def endless_chunks(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await request.answer(b"10000\r\n" + b"x" * 65536 + b"\r\n")


async def endless_body(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await request.answer(b"x" * 65536)


async def gigabyte(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    while True:
        await request.answer(b"x" * 65536)


async def gzip_bomb(request: Request) -> None:
    await request.answer(status("200 OK", "Content-Encoding: gzip", body=GZIP_BOMB))
    await asyncio.Event().wait()


async def drip_body(request: Request) -> None:
    await request.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        await request.answer(b"x")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("behave", [endless_chunks, endless_body, gigabyte, gzip_bomb, drip_body])
async def test_body_is_not_waited_for(hasty: Sender, behave: Behaviour) -> None:
    closed = asyncio.Event()

    async def until_closed(request: Request) -> None:
        try:
            await behave(request)
        finally:
            closed.set()

    async with RawReceiver(until_closed) as receiver:
        start = asyncio.get_running_loop().time()
        assert await hasty.post(receiver.url(), HEADERS, BODY) == Answer(200)
        assert asyncio.get_running_loop().time() - start < QUICK - 0.05
        if behave is not gzip_bomb:
            await asyncio.wait_for(closed.wait(), MAX_WAIT)  # the connection was closed, not left to run


async def test_first_of_two_answers_counts(sender: Sender) -> None:
    async with RawReceiver(answering(status("500 No") + OK)) as receiver:
        assert await sender.post(receiver.url(), HEADERS, BODY) == Answer(500)
        assert await sender.post(receiver.url(), HEADERS, BODY) == Answer(500)
        assert receiver.connections == 2


@pytest.mark.parametrize("value", ["a\r\nInjected: b", "a\nb", "a\0b"])
async def test_header_that_cannot_be_sent_is_unsendable(sender: Sender, value: str) -> None:
    async with RawReceiver(answering(OK)) as receiver:
        seen = await sender.post(receiver.url(), {"Service-Event-Type": value}, BODY)
        assert outcome_of(seen) is Outcome.UNSENDABLE
        assert receiver.requests == []


async def test_cancelling_an_attempt_cancels_it(sender: Sender) -> None:
    arrived = asyncio.Event()

    async def behave(request: Request) -> None:
        arrived.set()
        await asyncio.Event().wait()

    async with RawReceiver(behave) as receiver:
        attempt = asyncio.create_task(sender.post(receiver.url(), HEADERS, BODY))
        await asyncio.wait_for(arrived.wait(), MAX_WAIT)
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
