"""The name server of chaos runs: what it withholds of some names, others are told."""

from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import ip_network

import pytest

from lab.chaos.names import Names, name_of
from tests.network.raw_receiver import OK, RawReceiver, answering
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

MERCHANTS = ("m1", "m2", "m3")


@pytest.fixture
async def names() -> AsyncIterator[Names]:
    async with Names(dict.fromkeys(MERCHANTS, "127.0.0.1")) as names:
        yield names


async def outcomes(names: Names) -> dict[str, Outcome]:
    """Return what became of a request to each merchant, by a sender that knows no name yet."""
    hosts = frozenset(map(name_of, MERCHANTS))
    policy = EgressPolicy((ip_network("127.0.0.0/8"),), allow_hosts=hosts, allow_http=True)
    async with (
        RawReceiver(answering(OK)) as receiver,
        Sender(Guard(policy), timedelta(seconds=2), "test", nameservers=[names.address]) as sender,
    ):
        found = {}
        for name in MERCHANTS:
            seen = await sender.post(receiver.url(host=name_of(name)), {}, b"{}")
            assert isinstance(seen, Answer | Failure)
            found[name] = seen.outcome
        return found


async def test_names_that_are_withheld_are_found_by_nobody_until_they_are_told_again(names: Names) -> None:
    names.withhold(silent=["m1"], truncated=["m2"])
    for _ in range(2):
        seen = await outcomes(names)
        assert seen["m1"] in (Outcome.DNS, Outcome.TIMEOUT)
        assert (seen["m2"], seen["m3"]) == (Outcome.DNS, Outcome.DELIVERED)
    await names.find()
    await names.find()
    assert set((await outcomes(names)).values()) == {Outcome.DELIVERED}


async def test_names_that_are_lost_are_found_again(names: Names) -> None:
    names.lose(["m1"])
    assert (await outcomes(names))["m1"] is Outcome.DNS
    names.lose(())
    assert set((await outcomes(names)).values()) == {Outcome.DELIVERED}


async def test_a_name_server_that_has_left_is_silent_where_it_was(names: Names) -> None:
    before = names.address
    await names.leave()
    assert set((await outcomes(names)).values()) == {Outcome.DELIVERED}
    names.address = before
    assert not {Outcome.DELIVERED} & set((await outcomes(names)).values())


async def test_a_name_that_moves_leads_elsewhere(names: Names) -> None:
    names.move({"m1": "127.0.0.9"})
    seen = await outcomes(names)
    assert (seen["m1"], seen["m2"]) == (Outcome.CONNECT, Outcome.DELIVERED)
