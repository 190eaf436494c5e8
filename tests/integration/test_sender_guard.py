"""What must not be dialled is not dialled: literals, names, lying answers; and silent name servers."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.network.name_server import SILENCE, NameServer, addresses, serving
from tests.network.raw_receiver import OK, RawReceiver, answering
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.resolver import GuardedResolver, Lookup
from webhook_dispatcher.transport.sender import Sender

# Nothing may leave for these: 192.0.2.0/24 and 2001:db8::/32 are documentation, and refused before that.
NAMES = {
    "127.0.0.1.nip.io": ["127.0.0.1"],
    "169-254-169-254.sslip.io": ["169.254.169.254"],
    "mixed.attacker.dev": ["93.184.216.34", "10.0.0.5"],
    "mapped.attacker.dev": ["::ffff:169.254.169.254"],
    "sixtofour.attacker.dev": ["2002:7f00:1::1"],
    "ula.attacker.dev": ["fd00:ec2::254"],
    "wireserver.attacker.dev": ["168.63.129.16"],
    "zero.attacker.dev": ["0.0.0.0"],
    "here.allowed.dev": ["127.0.0.1"],
}


def name_server() -> AbstractAsyncContextManager[tuple[NameServer, str]]:
    """Serve NAMES, and be silent about others; any else there is not."""
    silent = ["silent.attacker.dev", *(f"silent{number}.example.org" for number in range(50))]
    found = {name: addresses(*found) for name, found in NAMES.items()}
    return serving(found | dict.fromkeys(silent, SILENCE))


@pytest.fixture
def no_connects(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Note every address that would be dialled; nothing is."""
    dialled: list[object] = []
    loop_class = asyncio.SelectorEventLoop

    async def sock_connect(self: asyncio.SelectorEventLoop, sock: socket.socket, address: object) -> None:
        dialled.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(loop_class, "sock_connect", sock_connect)
    yield dialled
    assert dialled == []


async def post(policy: EgressPolicy, url: str, nameserver: str, seconds: float = 5) -> Answer | Failure:
    async with Sender(Guard(policy), timedelta(seconds=seconds), "test", nameservers=[nameserver]) as sender:
        return await sender.post(url, {}, b"{}")


@pytest.mark.parametrize("name", [name for name in NAMES if "allowed" not in name])
async def test_name_with_a_forbidden_address_is_blocked(name: str, no_connects: list[object]) -> None:
    async with name_server() as (server, address):
        seen = await post(EgressPolicy(), f"https://{name}/", address)
        assert seen.outcome is Outcome.BLOCKED, seen
        assert name in {asked for asked, _ in server.asked}


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1/", "https://[::1]/", "https://localhost/", "", "http://1.1.1.1/"]
)
async def test_url_that_fails_the_static_check_is_blocked(url: str, no_connects: list[object]) -> None:
    async with name_server() as (server, address):
        seen = await post(EgressPolicy(), url, address)
        assert seen.outcome is Outcome.BLOCKED
        assert server.asked == []


@pytest.mark.parametrize("lies", [["127.0.0.1"], ["127.0.0.1", "::1"], ["localhost"], ["fe80::1%lo"]])
async def test_dial_is_checked_even_if_the_resolver_is_not_to_be_trusted(
    lies: list[str], no_connects: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(self: object, host: str) -> Lookup:
        return Lookup(list(lies), was_queried=True)

    monkeypatch.setattr(GuardedResolver, "resolve", resolve)
    async with name_server() as (_, address):
        assert (await post(EgressPolicy(), "https://hooks.attacker.dev/", address)).outcome is Outcome.BLOCKED


async def test_allowed_host_opens_addresses_only(
    no_connects: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(self: object, host: str) -> Lookup:
        return Lookup(["localhost"], was_queried=True)

    monkeypatch.setattr(GuardedResolver, "resolve", resolve)
    policy = EgressPolicy(allow_hosts=frozenset({"here.allowed.dev"}))
    async with name_server() as (_, address):
        seen = await post(policy, "https://here.allowed.dev/", address)
        assert seen == Failure(Outcome.BLOCKED, "what was to be dialled is not an IP address")


async def test_peer_that_is_not_what_was_dialled_is_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if something between us and the network had sent the connection elsewhere."""

    async def elsewhere(self: asyncio.SelectorEventLoop, sock: socket.socket, address: object) -> None:
        await connect(self, sock, ("127.0.0.2", receiver.port))

    connect = asyncio.SelectorEventLoop.sock_connect
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", elsewhere)
    policy = EgressPolicy(allow_networks=(ip_network("127.0.0.1/32"),), allow_http=True)
    async with RawReceiver(answering(OK), address="127.0.0.2") as receiver, name_server() as (_, address):
        seen = await post(policy, f"http://127.0.0.1:{receiver.port}/", address)
        assert seen == Failure(Outcome.BLOCKED, "the connection's peer is not the address that was dialled")
        assert receiver.requests == []


@pytest.mark.parametrize(
    "policy",
    [
        EgressPolicy(allow_hosts=frozenset({"here.allowed.dev"}), allow_http=True),
        EgressPolicy(
            allow_hosts=frozenset({"here.allowed.dev"}),
            allow_http=True,
            allow_networks=(ip_network("10.0.0.0/8"),),
        ),
    ],
)
async def test_allowed_host_may_resolve_to_any_address(policy: EgressPolicy) -> None:
    async with RawReceiver(answering(OK)) as receiver, name_server() as (_, address):
        assert await post(policy, receiver.url(host="here.allowed.dev"), address) == Answer(200)
        assert receiver.requests[0].headers["host"] == f"here.allowed.dev:{receiver.port}"


@pytest.mark.parametrize("denied", ["127.0.0.0/8", "::/0"])
async def test_denied_network_is_closed_to_an_allowed_host(denied: str) -> None:
    policy = EgressPolicy(
        allow_hosts=frozenset({"here.allowed.dev"}),
        allow_networks=(ip_network("127.0.0.0/8"),),
        allow_http=True,
        deny_networks=(ip_network(denied),),
    )
    async with RawReceiver(answering(OK)) as receiver, name_server() as (_, address):
        for host in ("here.allowed.dev", "127.0.0.1"):
            seen = await post(policy, receiver.url(host=host), address)
            if denied == "::/0":
                assert seen == Answer(200)
            else:
                assert isinstance(seen, Failure)
                assert seen.outcome is Outcome.BLOCKED
                assert "WEBHOOK_EGRESS_DENY_NETWORKS" in seen.detail
                assert ("resolves to" in seen.detail) is (host == "here.allowed.dev")
        assert receiver.connections == (2 if denied == "::/0" else 0)


async def test_denied_network_is_closed_as_it_is_dialled(
    no_connects: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(self: object, host: str) -> Lookup:
        return Lookup(["93.184.216.34"], was_queried=True)

    monkeypatch.setattr(GuardedResolver, "resolve", resolve)
    policy = EgressPolicy(
        allow_hosts=frozenset({"here.allowed.dev"}), deny_networks=(ip_network("93.184.216.0/24"),)
    )
    async with name_server() as (_, address):
        for host in ("here.allowed.dev", "hooks.attacker.dev"):
            assert (await post(policy, f"https://{host}/", address)).outcome is Outcome.BLOCKED


async def test_name_may_resolve_into_an_allowed_network() -> None:
    dialled = asyncio.Event()

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.set()

    policy = EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),))
    async with RawReceiver(converse=hang_up) as receiver, name_server() as (_, address):
        seen = await post(policy, f"https://127.0.0.1.nip.io:{receiver.port}/", address)
        assert seen.outcome is Outcome.TLS
        assert dialled.is_set()


async def test_allowed_ipv6_literal_is_dialled() -> None:
    policy = EgressPolicy(allow_networks=(ip_network("::1/128"),), allow_http=True)
    async with RawReceiver(answering(OK), address="::1") as receiver, name_server() as (_, address):
        assert await post(policy, receiver.url(host="[::1]"), address) == Answer(200)
        assert receiver.requests[0].headers["host"] == f"[::1]:{receiver.port}"


async def test_unknown_name_is_a_dns_failure() -> None:
    async with name_server() as (server, address):
        seen = await post(EgressPolicy(), "https://nowhere.attacker.dev/", address)
        assert seen == Failure(Outcome.DNS, "name does not exist")
        assert {name for name, _ in server.asked} == {"nowhere.attacker.dev"}  # no search domains tried


async def test_silent_name_server_is_a_timeout_and_holds_nobody_up() -> None:
    async with name_server() as (_, address), RawReceiver(answering(OK)) as receiver:
        policy = EgressPolicy(allow_hosts=frozenset({"here.allowed.dev"}), allow_http=True)
        async with Sender(Guard(policy), timedelta(seconds=1), "test", nameservers=[address]) as sender:
            stuck = [
                asyncio.create_task(sender.post(f"https://silent{n}.example.org/", {}, b"{}"))
                for n in range(50)
            ]
            assert await sender.post(receiver.url(host="here.allowed.dev"), {}, b"{}") == Answer(200)
            assert not any(task.done() for task in stuck)
            expected = Failure(Outcome.TIMEOUT, "no answer within 1 s (resolving the name)")
            assert await asyncio.gather(*stuck) == [expected] * 50
