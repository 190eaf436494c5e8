"""The egress proxy: all goes through it by name; its failures are ours, its refusals `blocked`."""

import asyncio
import base64
import contextlib
import socket
import ssl
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
import trustme

from tests.integration.test_sender_guard import name_server
from tests.network.connect_proxy import ConnectProxy, saying
from tests.network.raw_receiver import OK, RawReceiver, Request, answering
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.proxy import Proxy
from webhook_dispatcher.transport.sender import Sender

HOST = "hooks.attacker.dev"
URL = f"https://{HOST}/hook"
HEADERS = {"Content-Type": "application/json; charset=utf-8", "Service-Signature": "t=1,v1=abc"}

authority = trustme.CA()
stranger = trustme.CA()


def context(issuer: trustme.CA = authority, host: str = HOST) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert(host).configure_cert(context)
    return context


@pytest.fixture
def ca_file(tmp_path: Path) -> Path:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path / "ca.pem"


def through(
    port: int, ca_file: Path | None = None, *, seconds: float = 5, policy: EgressPolicy | None = None
) -> Sender:
    """Make a sender that uses the proxy at this port; names could be asked for nowhere else."""
    return Sender(
        Guard(policy or EgressPolicy()),
        timedelta(seconds=seconds),
        "test",
        ca_file,
        nameservers=["127.0.0.1:1"],
        proxy=Proxy.parse(f"http://us%40er:ses%3Aame@127.0.0.1:{port}"),
    )


async def test_tunnel_is_opened_by_name_and_kept(ca_file: Path) -> None:
    async with (
        RawReceiver(answering(OK), context()) as receiver,
        ConnectProxy({f"{HOST}:443": receiver.port}) as proxy,
        through(proxy.port, ca_file) as sender,
    ):
        for _ in range(3):
            assert await sender.post(URL, HEADERS, b"{}") == Answer(200)
        assert proxy.asked == [f"{HOST}:443"]
        assert receiver.connections == 1
        assert len(receiver.requests) == 3
        assert receiver.requests[0].line == b"POST /hook HTTP/1.1"
        assert receiver.requests[0].headers["host"] == HOST


async def test_each_side_is_told_only_what_concerns_it(ca_file: Path) -> None:
    async with (
        RawReceiver(answering(OK), context()) as receiver,
        ConnectProxy({f"{HOST}:443": receiver.port}) as proxy,
        through(proxy.port, ca_file) as sender,
    ):
        assert await sender.post(URL, HEADERS, b"{}") == Answer(200)
        assert b"Service-Signature" not in proxy.heads[0]
        encoded = base64.b64encode(b"us@er:ses:ame")
        assert b"Proxy-Authorization: Basic " + encoded in proxy.heads[0]
        assert encoded not in receiver.requests[0].head


async def test_tunnel_cut_while_idle_is_replaced_within_the_attempt(ca_file: Path) -> None:
    async def behave(request: Request) -> None:
        if len(receiver.requests) == 2:
            proxy.cut_tunnels()
        else:
            await request.answer(OK)

    async with (
        RawReceiver(behave, context()) as receiver,
        ConnectProxy({f"{HOST}:443": receiver.port}) as proxy,
        through(proxy.port, ca_file) as sender,
    ):
        assert await sender.post(URL, HEADERS, b"{}") == Answer(200)
        assert await sender.post(URL, HEADERS, b"{}") == Answer(200)
        assert len(proxy.asked) == 2
        assert len(receiver.requests) == 3


@pytest.mark.parametrize(
    ("issuer", "host"), [(stranger, HOST), (authority, "other.attacker.dev")], ids=["issuer", "host"]
)
async def test_certificate_behind_the_proxy_is_the_merchants_matter(
    ca_file: Path, issuer: trustme.CA, host: str
) -> None:
    async with (
        RawReceiver(answering(OK), context(issuer, host)) as receiver,
        ConnectProxy({f"{HOST}:443": receiver.port}) as proxy,
        through(proxy.port, ca_file) as sender,
    ):
        seen = await sender.post(URL, HEADERS, b"{}")
        assert isinstance(seen, Failure)
        assert (seen.outcome, seen.is_ours) == (Outcome.TLS, False)
        assert receiver.requests == []


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    pass


async def test_receiver_that_breaks_off_behind_the_proxy_is_the_merchants_matter(ca_file: Path) -> None:
    async with (
        RawReceiver(converse=hang_up) as receiver,
        ConnectProxy({f"{HOST}:443": receiver.port}) as proxy,
        through(proxy.port, ca_file) as sender,
    ):
        seen = await sender.post(URL, HEADERS, b"{}")
        assert isinstance(seen, Failure)
        assert not seen.is_ours, seen


@pytest.mark.parametrize(
    ("line", "outcome", "is_ours"),
    [
        ("HTTP/1.1 403 Forbidden", Outcome.BLOCKED, False),
        ("HTTP/1.1 407 Request rejected by proxy", Outcome.BLOCKED, False),  # smokescreen
        ("HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x", Outcome.CONNECT, True),
        ("HTTP/1.1 400 Bad Request", Outcome.CONNECT, False),
        ("HTTP/1.1 429 Too Many Requests", Outcome.CONNECT, False),
        ("HTTP/1.1 500 Internal Server Error", Outcome.CONNECT, False),
        ("HTTP/1.1 502 Bad Gateway", Outcome.CONNECT, False),
        ("HTTP/1.1 503 Service Unavailable", Outcome.CONNECT, False),
        ("HTTP/1.1 504 Gateway Timeout", Outcome.CONNECT, False),
        ("HTTP/1.1 405 Method Not Allowed", Outcome.CONNECT, True),
        ("HTTP/1.1 501 Not Implemented", Outcome.CONNECT, True),
        ("HTTP/1.1 204 No Content", Outcome.CONNECT, False),
        ("HTTP/1.1 302 Found\r\nLocation: /", Outcome.CONNECT, False),  # as Squid's deny_info
        ("220 mail.internal ESMTP", Outcome.CONNECT, False),
    ],
)
async def test_answers_of_the_proxy(line: str, outcome: Outcome, is_ours: bool) -> None:
    async with ConnectProxy(converse=saying(line)) as proxy, through(proxy.port) as sender:
        seen = await sender.post(URL, HEADERS, b"{}")
        assert isinstance(seen, Failure)
        assert (seen.outcome, seen.is_ours) == (outcome, is_ours), seen
        assert "egress proxy" in seen.detail
        assert len(proxy.asked) == 1


async def test_proxy_that_closes_without_an_answer_may_do_so_because_of_the_target() -> None:
    async def close(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with ConnectProxy(converse=close) as proxy, through(proxy.port) as sender:
        seen = await sender.post(URL, HEADERS, b"{}")
        assert isinstance(seen, Failure)
        assert (seen.outcome, seen.is_ours) == (Outcome.CONNECT, False)


async def test_proxy_that_is_not_there_is_our_fault() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with through(unused.getsockname()[1]) as sender:
            seen = await sender.post(URL, HEADERS, b"{}")
            assert isinstance(seen, Failure)
            assert (seen.outcome, seen.is_ours) == (Outcome.CONNECT, True)


async def test_proxy_whose_name_is_unknown_is_our_fault() -> None:
    proxy = Proxy.parse("http://nowhere.invalid:3128")
    guard = Guard(EgressPolicy())
    # Nobody listens at this port: the answer comes at once.
    async with Sender(
        guard, timedelta(seconds=5), "test", nameservers=["127.0.0.1:1"], proxy=proxy
    ) as sender:
        seen = await sender.post(URL, HEADERS, b"{}")
        assert isinstance(seen, Failure)
        assert (seen.outcome, seen.is_ours) == (Outcome.CONNECT, True)


async def test_proxy_may_have_any_address(ca_file: Path) -> None:
    """Only a name that is the proxy's is ever looked up, and only it may lead to a private address."""
    async with (
        name_server() as (server, address),
        RawReceiver(answering(OK), context()) as receiver,
        ConnectProxy({f"{HOST}:443": receiver.port}) as proxy,
        Sender(
            Guard(EgressPolicy()),
            timedelta(seconds=5),
            "test",
            ca_file,
            nameservers=[address],
            proxy=Proxy.parse(f"http://here.allowed.dev:{proxy.port}"),
        ) as sender,
    ):
        assert await sender.post(URL, HEADERS, b"{}") == Answer(200)
        assert {name for name, _ in server.asked} == {"here.allowed.dev"}


async def test_proxy_whose_backlog_is_full_is_our_fault() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        try:
            for sock in waiting:
                sock.setblocking(False)
                sock.connect_ex(("127.0.0.1", port))
            async with through(port, seconds=0.3) as sender:
                assert await sender.post(URL, HEADERS, b"{}") == Failure(
                    Outcome.TIMEOUT, "no answer within 0.3 s (connecting to the egress proxy)", is_ours=True
                )
        finally:
            for sock in waiting:
                sock.close()


async def test_a_receiver_that_leaves_no_time_to_reach_the_proxy_shows_no_fault_of_ours(
    ca_file: Path,
) -> None:
    """It holds a request on a kept connection and breaks off; the proxy, out of reach, has the rest."""
    with socket.socket() as full, contextlib.ExitStack() as stack:

        async def behave(request: Request) -> None:
            if len(receiver.requests) == 1:
                await request.answer(OK)
                return
            proxy.stop_listening()
            full.bind(("127.0.0.1", proxy.port))
            full.listen(0)
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", proxy.port))
            proxy.cut_tunnels()

        async with (
            RawReceiver(behave, context()) as receiver,
            ConnectProxy({f"{HOST}:443": receiver.port}) as proxy,
            through(proxy.port, ca_file, seconds=1) as sender,
        ):
            full.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            assert await sender.post(URL, HEADERS, b"{}") == Answer(200)
            assert await sender.post(URL, HEADERS, b"{}") == Failure(
                Outcome.TIMEOUT, "no answer within 1 s (connecting to the egress proxy)"
            )


async def test_deadline_covers_the_tunnel() -> None:
    """The proxy is still trying to reach the receiver: that is the receiver's time."""

    async def wait(head: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with ConnectProxy(converse=wait) as proxy, through(proxy.port, seconds=0.3) as sender:
        start = asyncio.get_running_loop().time()
        assert await sender.post(URL, HEADERS, b"{}") == Failure(
            Outcome.TIMEOUT, "no answer within 0.3 s (waiting for the egress proxy)"
        )
        assert asyncio.get_running_loop().time() - start < 2


@pytest.mark.parametrize(
    "url",
    ["https://127.0.0.1/", "https://[::1]/", "https://localhost/", "https://198.41.7.1/", "http://a.dev/"],
)
async def test_url_is_checked_before_the_proxy_is_asked(url: str) -> None:
    policy = EgressPolicy(deny_networks=(ip_network("198.41.7.0/24"),))
    async with ConnectProxy() as proxy, through(proxy.port, policy=policy) as sender:
        assert (await sender.post(url, HEADERS, b"{}")).outcome is Outcome.BLOCKED
        assert proxy.asked == []


async def test_http_is_not_sent_past_the_proxy() -> None:
    policy = EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True)
    async with (
        RawReceiver(answering(OK)) as receiver,
        ConnectProxy() as proxy,
        through(proxy.port, policy=policy) as sender,
    ):
        seen = await sender.post(receiver.url(), HEADERS, b"{}")
        assert seen == Failure(Outcome.BLOCKED, "only https goes through the egress proxy")
        assert (receiver.connections, proxy.asked) == (0, [])


async def test_proxy_of_the_environment_is_not_used(ca_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowing = Guard(EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),), allow_http=True))
    async with (
        RawReceiver(answering(OK), context(host="127.0.0.1")) as secure,
        RawReceiver(answering(OK)) as plain,
        ConnectProxy() as proxy,
    ):
        for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with Sender(allowing, timedelta(seconds=5), "test", ca_file) as sender:
            assert await sender.post(secure.url(), HEADERS, b"{}") == Answer(200)
            assert await sender.post(plain.url(), HEADERS, b"{}") == Answer(200)
        assert proxy.heads == []
