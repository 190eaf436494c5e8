"""Name servers that take long: the attempt's deadline ends a look-up, nothing before it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.network.name_server import SILENCE, Reply, addresses, serving
from tests.network.raw_receiver import OK, RawReceiver, answering
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport import costly
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

HERE = "127.0.0.1"
QUICK = [f"quick{number}.attacker.dev" for number in range(10)]
NAMES = {
    **{name: addresses(HERE) for name in QUICK},
    "slow.attacker.dev": Reply([HERE], after=3.0),
    "silent.attacker.dev": SILENCE,
}


@asynccontextmanager
async def used_to_quick_answers(seconds: float) -> AsyncIterator[tuple[Sender, RawReceiver]]:
    """Open a sender whose name server has always answered at once: c-ares expects it to go on like that."""
    policy = EgressPolicy(
        allow_networks=(ip_network("127.0.0.0/8"),), allow_hosts=frozenset(NAMES), allow_http=True
    )
    async with (
        RawReceiver(answering(OK)) as receiver,
        serving(NAMES) as (_, server),
        Sender(Guard(policy), timedelta(seconds=seconds), "test", nameservers=[server]) as sender,
    ):
        for name in QUICK:
            assert await sender.post(receiver.url(host=name), {}, b"{}") == Answer(200)
        yield sender, receiver


@pytest.mark.slow("integration/test_sender_names.py::test_a_silent_name_server_uses_up_the_attempts_time")
async def test_a_name_server_that_takes_three_seconds_is_waited_for() -> None:
    async with used_to_quick_answers(seconds=30) as (sender, receiver):
        assert await sender.post(receiver.url(host="slow.attacker.dev"), {}, b"{}") == Answer(200)


async def test_a_silent_name_server_uses_up_the_attempts_time() -> None:
    """With four tries, c-ares would give up after 2 to 3.75 s."""
    async with used_to_quick_answers(seconds=4.5) as (sender, receiver):
        seen = await sender.post(receiver.url(host="silent.attacker.dev"), {}, b"{}")
        assert seen == Failure(Outcome.TIMEOUT, "no answer within 4.5 s (resolving the name)")


async def test_a_name_with_many_addresses_is_costly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costly, "_COSTLY_SECONDS", 0.001)
    policy = EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),))
    names = {"many.attacker.dev": addresses(*[f"127.0.0.{number}" for number in range(101)])}
    async with (
        serving(names) as (_, server),
        Sender(Guard(policy), timedelta(seconds=20), "test", nameservers=[server]) as sender,
    ):
        seen = await sender.post("https://many.attacker.dev/", {}, b"{}")
    assert seen == Failure(Outcome.DNS, "name has more than 100 addresses")
    assert seen.is_costly
