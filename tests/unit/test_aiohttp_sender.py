"""The policy above aiohttp's client, for which aioresponses stands in: what is a failure, what is resent.

TLS, time-outs, connections and streaming are not in here: test_sender* has them, over real sockets.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import ClientOSError, ClientPayloadError, ClientResponseError, ServerDisconnectedError
from aioresponses import aioresponses

from tests.unit.fakes.network import FakeBuffers, Replied
from webhook_dispatcher.domain.verdict import Answer, Outcome
from webhook_dispatcher.transport.aiohttp_answers import AnswerHandler
from webhook_dispatcher.transport.aiohttp_connections import Dial, current_dial
from webhook_dispatcher.transport.aiohttp_sender import AiohttpSender
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.renewal import Renewals

URL = "https://hooks.example.org/webhooks"
HEADERS = {"Content-Type": "application/json; charset=utf-8"}
REQUEST: Any = None


@pytest.fixture
async def sender() -> AsyncIterator[AiohttpSender]:
    async with AiohttpSender(Guard(EgressPolicy()), timedelta(seconds=5), "test") as sender:
        yield sender


class Receiver(aioresponses):
    """Answers posts to URL, one after the other."""

    def answer(self, **answer: Any) -> None:
        self.post(URL, response_class=Replied, **answer)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    with receiver:
        yield receiver


def posts(receiver: Receiver) -> int:
    return sum(len(calls) for calls in receiver.requests.values())


def on_a_kept_connection(url: object, **_: object) -> None:
    """Note what the connector would have noted."""
    dial = current_dial.get()
    if not dial.must_be_fresh:
        loop = asyncio.get_running_loop()
        dial.handler = AnswerHandler(loop, lambda _: None, FakeBuffers(), Renewals(loop))
        dial.handler.requests = 2


def while_it_answers(url: object, **_: object) -> None:
    on_a_kept_connection(url)
    handler = current_dial.get().handler
    assert handler is not None
    handler.is_answering = handler.is_early = True


@pytest.mark.parametrize("status", [200, 204, 299, 300, 302, 308, 400, 401, 404, 408, 410, 429, 500, 503])
async def test_any_status_is_the_answer_and_nothing_is_sent_again(
    sender: AiohttpSender, receiver: Receiver, status: int
) -> None:
    receiver.answer(status=status, headers={"Location": "https://elsewhere.example.org/", "Retry-After": "1"})
    assert await sender.post(URL, HEADERS, b"{}") == Answer(status)
    assert posts(receiver) == 1


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ServerDisconnectedError(), Outcome.CONNECT),
        (ClientOSError(104, "reset"), Outcome.CONNECT),
        (ClientResponseError(REQUEST, ()), Outcome.BAD_RESPONSE),
        (ClientPayloadError(), Outcome.BAD_RESPONSE),
        (ValueError(), Outcome.UNSENDABLE),
    ],
)
async def test_what_goes_wrong_on_a_fresh_connection_is_a_failure(
    sender: AiohttpSender, receiver: Receiver, error: Exception, outcome: Outcome
) -> None:
    receiver.answer(exception=error)
    assert (await sender.post(URL, HEADERS, b"{}")).outcome is outcome
    assert posts(receiver) == 1


@pytest.mark.parametrize("error", [ServerDisconnectedError(), ClientOSError(104, "reset")])
async def test_kept_connection_that_breaks_in_silence_is_replaced_once(
    sender: AiohttpSender, receiver: Receiver, error: Exception
) -> None:
    receiver.answer(exception=error, callback=on_a_kept_connection)
    receiver.answer(status=200, callback=on_a_kept_connection)
    assert await sender.post(URL, HEADERS, b"{}") == Answer(200)
    assert posts(receiver) == 2


async def test_408_on_a_kept_connection_crossed_the_request(
    sender: AiohttpSender, receiver: Receiver
) -> None:
    receiver.answer(status=408, callback=while_it_answers)
    receiver.answer(status=408, callback=on_a_kept_connection)
    assert await sender.post(URL, HEADERS, b"{}") == Answer(408)
    assert posts(receiver) == 2


@pytest.mark.parametrize(
    ("failure", "seen"),
    [
        ({"exception": ServerDisconnectedError()}, Outcome.DISCONNECTED),
        ({"exception": ClientResponseError(REQUEST, ())}, Outcome.BAD_RESPONSE),
        ({"status": 503}, Outcome.STATUS),
    ],
)
async def test_kept_connection_that_began_to_answer_is_not_replaced(
    sender: AiohttpSender, receiver: Receiver, failure: dict[str, Any], seen: Outcome
) -> None:
    receiver.answer(callback=while_it_answers, **failure)
    assert (await sender.post(URL, HEADERS, b"{}")).outcome is seen
    assert posts(receiver) == 1


@pytest.mark.parametrize("url", ["http://hooks.example.org/", "https://127.0.0.1/", "https://localhost/", ""])
async def test_forbidden_url_is_not_even_asked_for(
    sender: AiohttpSender, receiver: Receiver, url: str
) -> None:
    assert (await sender.post(url, HEADERS, b"{}")).outcome is Outcome.BLOCKED
    assert posts(receiver) == 0


def test_a_connection_that_is_gone_before_it_has_a_protocol_leaves_no_socket() -> None:
    with socket.socket() as sock:
        dial = Dial(URL, is_trusted=False, sockets=[sock])
        with pytest.raises(OSError, match="gone"):
            dial.connected()
        assert (sock.fileno(), dial.peer) == (-1, None)
