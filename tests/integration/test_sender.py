"""What an attempt sends, and that it waits for no body.

test_sender_catalogue has the outcome for every kind of receiver.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.network import misbehaviour as m
from tests.network.raw_receiver import OK, Behaviour, RawReceiver, Request, answering
from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.verdict import Answer, Outcome
from webhook_dispatcher.transport.aiohttp_sender import AiohttpSender
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

LOOPBACK = EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True)
HEADERS = {"Content-Type": "application/json; charset=utf-8", "Service-Event-Type": "charge.created"}
BODY = b'{"data":{"object":{}}}'
QUICK, HOUR = 0.3, timedelta(hours=1)
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    async with Sender(Guard(LOOPBACK), timedelta(seconds=5), "webhook-dispatcher/test") as sender:
        yield sender


@pytest.fixture
async def hasty() -> AsyncIterator[Sender]:
    async with Sender(Guard(LOOPBACK), timedelta(seconds=QUICK), "webhook-dispatcher/test") as sender:
        yield sender


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


@pytest.mark.parametrize("kind", [Sender, AiohttpSender])
async def test_a_user_agent_of_the_requests_own_is_the_only_one(kind: type[Sender | AiohttpSender]) -> None:
    async with RawReceiver(answering(OK)) as receiver, kind(Guard(LOOPBACK), HOUR, "ours/1") as sender:
        for headers in ({**HEADERS, "User-Agent": "Acme/2"}, HEADERS):
            assert await sender.post(receiver.url(), headers, BODY) == Answer(200)
    assert [request.head.lower().count(b"user-agent") for request in receiver.requests] == [1, 1]
    assert [request.headers["user-agent"] for request in receiver.requests] == ["Acme/2", "ours/1"]


@pytest.mark.parametrize("behave", [m.pours(ENDLESS), m.drips(ENDLESS)], ids=["pours", "drips"])
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
        await asyncio.wait_for(closed.wait(), MAX_WAIT)  # the connection was closed, not left to run


@pytest.mark.parametrize("value", ["a\r\nInjected: b", "a\nb", "a\0b"])
async def test_header_that_cannot_be_sent_is_unsendable(sender: Sender, value: str) -> None:
    async with RawReceiver(answering(OK)) as receiver:
        seen = await sender.post(receiver.url(), {"Service-Event-Type": value}, BODY)
        assert seen.outcome is Outcome.UNSENDABLE
        assert receiver.requests == []
