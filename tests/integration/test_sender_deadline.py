"""The real ten seconds: no timer on the way rounds them up."""

import asyncio
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.network.raw_receiver import OK, RawReceiver, Request
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender


@pytest.mark.slow("integration/test_sender_catalogue.py::test_receiver_that")
async def test_an_answer_at_9_8_s_counts_and_one_at_10_2_s_does_not() -> None:
    async def behave(request: Request) -> None:
        await asyncio.sleep(float(request.line.split(b"/")[1].split()[0]))
        await request.answer(OK)

    guard = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True))
    async with RawReceiver(behave) as receiver, Sender(guard, timedelta(seconds=10), "test") as sender:
        in_time, late = await asyncio.gather(
            sender.post(receiver.url("/9.8"), {}, b"{}"), sender.post(receiver.url("/10.2"), {}, b"{}")
        )
    assert in_time == Answer(200)
    assert late == Failure(Outcome.TIMEOUT, "no answer within 10 s (waiting for headers)")
