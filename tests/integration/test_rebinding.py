"""A name that changes its mind: whatever its name server answers, in whatever order, loopback is not dialled.

End to end through the real resolver and connector, with nothing allowed. The only thing replaced is the way
to the public address, which stays closed: what would be dialled there is noted and refused.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.network.name_server import AAAA, A, NameServer, Reply, addresses, serving
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.sender import Sender

FIRST, FIRST_V6 = "93.184.215.13", "2606:2800:21f:cb07:6820:80da:af6b:8b2b"
PUBLIC, PUBLIC_V6 = "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
NAME = "rebinding.attacker.dev"
NOTHING_ALLOWED = EgressPolicy()


class Listener(asyncio.Protocol):
    """Listens on every address of loopback, and counts who comes."""

    def __init__(self) -> None:
        self.connections = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connections += 1
        transport.close()


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Listener, int]]:
    loop, listener = asyncio.get_running_loop(), Listener()
    server = await loop.create_server(lambda: listener, "0.0.0.0", 0)
    port: int = server.sockets[0].getsockname()[1]
    second = await loop.create_server(lambda: listener, "::1", port)
    try:
        yield listener, port
    finally:
        server.close()
        second.close()


@pytest.fixture
def abroad(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Refuse what is dialled at the public addresses and note it; everything else is really dialled."""
    dialled: list[str] = []
    connect = asyncio.SelectorEventLoop.sock_connect

    async def sock_connect(
        self: asyncio.SelectorEventLoop, sock: socket.socket, address: tuple[str, int]
    ) -> None:
        if address[0] in (FIRST, FIRST_V6, PUBLIC, PUBLIC_V6):
            dialled.append(address[0])
            raise ConnectionRefusedError(111, "refused")
        await connect(self, sock, address)

    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", sock_connect)
    return dialled


async def post_each(
    replies: list[Reply], posts: int, policy: EgressPolicy = NOTHING_ALLOWED
) -> tuple[list[Outcome], int, NameServer]:
    """Post so often to a name with these replies in turn; tell the outcomes and who came to loopback."""
    async with listening() as (listener, port), serving({NAME: replies}) as (server, nameserver):
        guard = Guard(policy)
        async with Sender(guard, timedelta(seconds=20), "test", nameservers=[nameserver]) as sender:
            seen = [(await sender.post(f"https://{NAME}:{port}/", {}, b"{}")).outcome for _ in range(posts)]
        return seen, listener.connections, server


@pytest.mark.parametrize(
    "second",
    [
        addresses("127.0.0.1"),
        addresses("::1"),
        addresses("::ffff:127.0.0.1"),
        addresses(PUBLIC, "127.0.0.1"),
        addresses("127.0.0.1", PUBLIC),
        Reply(addresses=("127.0.0.1",), aliases=((NAME, "localhost"),)),
    ],
    ids=lambda reply: "+".join(dict.fromkeys(reply.addresses)),
)
async def test_a_name_that_was_public_is_not_followed_to_loopback(second: Reply, abroad: list[str]) -> None:
    # Both families at first: c-ares remembers that there was none of a family.
    seen, came, server = await post_each([addresses(FIRST, FIRST_V6), second], posts=3)
    assert came == 0
    assert seen == [Outcome.CONNECT, Outcome.BLOCKED, Outcome.BLOCKED]
    # Nor is the public part of a mixed answer dialled.
    assert set(abroad) == {FIRST, FIRST_V6}
    # At most one look-up for each attempt: there is no second answer between the check and the dial.
    assert set(server.asked) == {(NAME, A), (NAME, AAAA)}
    assert max(Counter(server.asked).values()) <= 3


async def test_a_name_that_alternates_is_dialled_only_where_it_is_public(abroad: list[str]) -> None:
    seen, came, _ = await post_each([addresses(PUBLIC), addresses("127.0.0.1")] * 5, posts=10)
    assert came == 0
    assert seen == [Outcome.CONNECT, Outcome.BLOCKED] * 5
    assert abroad == [PUBLIC] * 5


async def test_both_families_are_asked_and_either_can_spoil_the_answer(abroad: list[str]) -> None:
    seen, came, _ = await post_each([addresses(PUBLIC, PUBLIC_V6), addresses(PUBLIC_V6, "::1")], posts=2)
    assert came == 0
    assert seen == [Outcome.CONNECT, Outcome.BLOCKED]
    assert sorted(set(abroad)) == sorted((PUBLIC, PUBLIC_V6))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_the_listener_would_see_it(address: str, abroad: list[str]) -> None:
    """The same way with loopback allowed: so that the silence above says something."""
    policy = EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"), ip_network("::1/128")))
    seen, came, _ = await post_each([addresses(address)], posts=1, policy=policy)
    assert came > 0
    assert seen == [Outcome.TLS]
