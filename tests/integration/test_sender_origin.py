"""An attempt tells where it ended: a network, or a host where there is no address. Source: ADR 0014."""

import asyncio
import socket
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_address, ip_network

import pytest

from tests.integration.test_sender_faults import ENOUGH, LOOPBACK
from tests.integration.test_sender_guard import name_server
from tests.integration.test_sender_proxy import URL, through
from tests.network.connect_proxy import ConnectProxy
from tests.network.name_server import Reply, addresses, serving
from tests.network.raw_receiver import OK, RawReceiver, Request, answering
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.addresses import network_of
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

NETWORKS, TWO = (ip_network("127.0.0.0/8"),), "two.attacker.dev"


@pytest.fixture
def refusing() -> Iterator[int]:
    """Hold a port at which connections are refused, whatever the address."""
    with socket.socket() as held:
        held.bind(("0.0.0.0", 0))
        yield held.getsockname()[1]


@pytest.mark.parametrize(
    ("address", "network"),
    [("203.0.113.77", "203.0.113.0/24"), ("2606:4700:4700:1::1111", "2606:4700:4700::/48")],
)
def test_networks_are_those_that_one_party_has(address: str, network: str) -> None:
    assert network_of(ip_address(address)) == network


async def test_an_answer_comes_from_a_network_on_each_connection() -> None:
    async with RawReceiver(answering(OK)) as receiver, Sender(LOOPBACK, ENOUGH, "test") as sender:
        seen = [await sender.post(receiver.url(), {}, b"{}") for _ in range(2)]
        assert [answer.origin for answer in seen] == ["127.0.0.0/24"] * 2
        assert receiver.connections == 1


async def freshness(receiver: RawReceiver, host: str, reply: Reply | None, kept: int) -> list[bool]:
    """Tell of each of three posts to a host whether a name was looked up for it."""
    policy = EgressPolicy(
        allow_networks=(ip_network("127.0.0.0/8"),), allow_hosts=frozenset({host}), allow_http=True
    )
    async with (
        serving({host: reply} if reply else {}) as (_, address),
        Sender(Guard(policy), ENOUGH, "test", nameservers=[address], kept_connections=kept) as sender,
    ):
        seen = [await sender.post(receiver.url(host=host), {}, b"{}") for _ in range(3)]
    assert seen == [Answer(200)] * 3
    return [isinstance(answer, Answer) and answer.is_fresh for answer in seen]


@pytest.mark.parametrize(
    ("host", "reply", "kept", "expected"),
    [
        ("hooks.attacker.dev", Reply(["127.0.0.1"]), 0, [True, True, True]),
        ("hooks.attacker.dev", Reply(["127.0.0.1"]), 1, [True, False, False]),
        ("hooks.attacker.dev", Reply(["127.0.0.1"], ttl=300), 0, [True, False, False]),
        ("localhost", None, 0, [False, False, False]),
        ("127.0.0.1", None, 0, [False, False, False]),
    ],
    ids=["each time", "on a kept connection", "in the cache", "in /etc/hosts", "an address"],
)
async def test_an_answer_tells_whether_a_name_server_was_asked(
    host: str, reply: Reply | None, kept: int, expected: list[bool]
) -> None:
    async with RawReceiver(answering(OK)) as receiver:
        assert await freshness(receiver, host, reply, kept) == expected
        assert receiver.connections == (1 if kept else 3)


@pytest.mark.parametrize("breaks", [False, True])
async def test_what_comes_of_a_connection_comes_from_its_peer(breaks: bool) -> None:
    """A name may have other addresses beside it that refuse, lower ones: networks of others, if it lies."""

    async def behave(request: Request) -> None:
        await answering(OK)(request) if not breaks else request.close()

    policy = EgressPolicy(allow_networks=NETWORKS, allow_hosts=frozenset({TWO}), allow_http=True)
    async with (
        RawReceiver(behave, address="127.9.9.1") as receiver,
        serving({TWO: addresses("127.0.1.9", "127.9.9.1")}) as (_, server),
        Sender(Guard(policy), ENOUGH, "test", nameservers=[server]) as sender,
    ):
        seen = await sender.post(receiver.url(host=TWO), {}, b"{}")
    assert (isinstance(seen, Failure), seen.origin) == (breaks, "127.9.9.0/24")


async def test_a_handshake_that_fails_fails_at_its_peer() -> None:
    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    policy = EgressPolicy(allow_networks=NETWORKS, allow_hosts=frozenset({TWO}))
    async with (
        RawReceiver(converse=converse, address="127.9.9.1") as receiver,
        serving({TWO: addresses("127.0.1.9", "127.9.9.1")}) as (_, server),
        Sender(Guard(policy), ENOUGH, "test", nameservers=[server]) as sender,
    ):
        seen = await sender.post(f"https://{TWO}:{receiver.port}/", {}, b"{}")
    # Whichever address is tried last.
    assert seen.outcome in (Outcome.TLS, Outcome.CONNECT)
    assert seen.origin == "127.9.9.0/24"


async def test_a_connection_that_breaks_was_to_a_network() -> None:
    async def hang_up(request: Request) -> None:
        request.close()

    async with RawReceiver(hang_up) as receiver, Sender(LOOPBACK, ENOUGH, "test") as sender:
        seen = await sender.post(receiver.url(), {}, b"{}")
    assert isinstance(seen, Failure)
    assert (seen.outcome, seen.origin, seen.has_address) == (Outcome.DISCONNECTED, "127.0.0.0/24", True)


async def test_a_refused_connection_was_to_a_network(refusing: int) -> None:
    async with Sender(LOOPBACK, ENOUGH, "test") as sender:
        seen = [await sender.post(f"https://127.0.{n}.9:{refusing}/", {}, b"{}") for n in (7, 8)]
    assert [failure.origin for failure in seen] == ["127.0.7.0/24", "127.0.8.0/24"]


@pytest.mark.parametrize("name", ["nowhere", "silent"])
async def test_a_name_without_an_address_stands_for_itself(name: str) -> None:
    async with (
        name_server() as (_, address),
        Sender(LOOPBACK, timedelta(seconds=0.5), "test", nameservers=[address]) as sender,
    ):
        seen = await sender.post(f"https://{name}.attacker.dev/", {}, b"{}")
    assert isinstance(seen, Failure)
    assert (seen.origin, seen.has_address) == (f"{name}.attacker.dev", False)


async def test_behind_the_proxy_nobody_has_an_address() -> None:
    async with ConnectProxy({}) as proxy, through(proxy.port) as sender:
        seen = await sender.post(URL, {}, b"{}")
    assert isinstance(seen, Failure)
    assert (seen.origin, seen.has_address) == ("hooks.attacker.dev", False)
