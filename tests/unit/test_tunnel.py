"""The proxy's answer to CONNECT: taken however it is cut, bounded, and its interim answers passed over."""

import asyncio

import pytest

from tests.unit.fakes.network import FakeTransport
from tests.unit.loop_turns import one_turn
from webhook_dispatcher.transport.failures import Disconnected, Malformed
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.proxy import Proxy, TunnelRefused
from webhook_dispatcher.transport.tunnel import Tunnel

OPENED = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 here\r\n\r\n"
CHALLENGE = b"HTTP/1.1 407 No\r\nproxy-authenticate: Basic realm=x\r\n\r\n"


async def asked(
    url: str = "https://hooks.attacker.dev/x",
) -> tuple[Tunnel, FakeTransport, "asyncio.Task[None]"]:
    tunnel, transport = Tunnel(asyncio.get_running_loop()), FakeTransport()
    tunnel.connection_made(transport)
    target, proxy = Guard(EgressPolicy()).target(url), Proxy.parse("http://us:pass@127.0.0.1:3128")
    opening = asyncio.create_task(tunnel.open(target, proxy, "test"))
    await one_turn()
    return tunnel, transport, opening


@pytest.mark.parametrize(
    ("url", "where", "host"),
    [
        ("https://hooks.attacker.dev/x", b"hooks.attacker.dev:443", b"hooks.attacker.dev"),
        ("https://hooks.attacker.dev:8443/x", b"hooks.attacker.dev:8443", b"hooks.attacker.dev:8443"),
        ("https://[2606:4700:4700::1111]/", b"[2606:4700:4700::1111]:443", b"[2606:4700:4700::1111]"),
    ],
)
async def test_the_proxy_is_told_where_to_and_who_asks(url: str, where: bytes, host: bytes) -> None:
    _, transport, opening = await asked(url)
    opening.cancel()
    assert b"".join(transport.written).split(b"\r\n") == [
        *(b"CONNECT " + where + b" HTTP/1.1", b"Host: " + host, b"User-Agent: test"),
        *(b"Proxy-Authorization: Basic dXM6cGFzcw==", b"", b""),
    ]


@pytest.mark.parametrize("answer", [OPENED, b"HTTP/1.1 100 Continue\r\n\r\n" + OPENED])
async def test_a_tunnel_opens_however_the_answer_is_cut(answer: bytes) -> None:
    for at in range(len(answer)):
        tunnel, _, opening = await asked()
        tunnel.data_received(answer[:at])
        tunnel.data_received(answer[at:])
        await opening


@pytest.mark.parametrize(
    ("answer", "is_challenge"), [(CHALLENGE, True), (b"HTTP/1.1 407 No\r\nX: y\r\n\r\n", False)]
)
async def test_a_refusal_says_whether_the_proxy_asks_who_we_are(answer: bytes, is_challenge: bool) -> None:
    tunnel, _, opening = await asked()
    tunnel.data_received(answer)
    with pytest.raises(TunnelRefused) as refused:
        await opening
    assert (refused.value.status, refused.value.is_challenge) == (407, is_challenge)


@pytest.mark.parametrize("piece", [b"x" * 8192, b"HTTP/1.1 100 C\r\n\r\n" * 400])
async def test_an_answer_that_does_not_end_is_given_up(piece: bytes) -> None:
    tunnel, _, opening = await asked()
    tunnel.data_received(b"HTTP/1.1 100 C\r\nX: y\r\n\r\nHTTP/1.1 100 C\r\n")
    tunnel.data_received(b"X: " if piece.startswith(b"x") else b"\r\n")
    for _ in range(300_000 // len(piece)):
        tunnel.data_received(piece)
    with pytest.raises(Malformed):
        await opening


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH\r\n", b"\x15\x03\x01\0\x02\x02"])
async def test_what_is_no_http_opens_nothing(answer: bytes) -> None:
    tunnel, _, opening = await asked()
    tunnel.data_received(answer)
    with pytest.raises(Malformed):
        await opening


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
async def test_a_proxy_that_breaks_off_opens_nothing(error: Exception | None) -> None:
    tunnel, _, opening = await asked()
    tunnel.connection_lost(error)
    with pytest.raises(type(error) if error else Disconnected):
        await opening
