"""The deadlines that the program has by default, which other tests shorten: `make test-api-storm`."""

import asyncio
import select
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

import pytest

from tests.acceptance.api_fleet import STORM
from tests.acceptance.api_merchant import Merchant, PartnerApi, start_api
from tests.acceptance.api_process import ApiProcess
from tests.acceptance.installation import Installation
from tests.acceptance.processes import http_get
from tests.acceptance.raw_http import RawClient, connected
from tests.waiting import until, until_found
from webhook_dispatcher.api import catalogue as codes

pytestmark = [
    pytest.mark.skipif(not STORM, reason="it takes minutes: make test-api-storm"),
    pytest.mark.slow(
        "acceptance/test_api_bounds.py::test_heads_that_do_not_end_are_told_so_and_others_are_served"
    ),
]

HEAD, BODY, STRANGERS_BODY, IDLE, UNREAD = 10.0, 20.0, 2.0, 75.0, 20.0
"""Contract 7, seconds."""
LATE = 10.0
"""By how much a deadline may be kept late, on a machine that others use too."""
GET = b"GET /v1/webhook HTTP/1.1\r\nHost: api\r\n\r\n"
DOCUMENT = b"GET /openapi.json HTTP/1.1\r\nHost: api\r\n\r\n"
CROWD = 10_000


async def dripping(client: RawClient, begun: bytes) -> float:
    """Send a byte twice a second behind what was begun, and return after how long that was refused."""
    began = time.monotonic()
    await client.send(begun)

    async def drip() -> None:
        while True:
            await client.send(b"x")
            await asyncio.sleep(0.5)

    sending = asyncio.create_task(drip())
    reply = await client.reply()
    sending.cancel()
    assert (reply.status, reply.error["code"]) == (408, codes.TOO_SLOW)
    assert reply.headers["connection"] == "close"
    return time.monotonic() - began


async def slow_head(api: PartnerApi, _merchant: Merchant) -> float:
    async with connected(api.port) as client:
        return await dripping(client, b"GET /v1/webhook HTTP/1.1\r\nX: ")


async def slow_body(api: PartnerApi, merchant: Merchant) -> float:
    lines = ["PUT /v1/webhook HTTP/1.1", "Host: api", f"Authorization: Bearer {merchant.token}"]
    lines += ["Content-Type: application/json", "Content-Length: 1000000", "", ""]
    async with connected(api.port) as client:
        return await dripping(client, "\r\n".join(lines).encode())


async def strangers_body(api: PartnerApi, _merchant: Merchant) -> float:
    lines = ["POST /v1/auth/token HTTP/1.1", "Host: api"]
    lines += ["Content-Type: application/json", "Content-Length: 1000", "", ""]
    async with connected(api.port) as client:
        return await dripping(client, "\r\n".join(lines).encode())


async def idle(api: PartnerApi, _merchant: Merchant) -> float:
    async with connected(api.port) as client:
        await client.send(GET)
        assert (await client.reply()).status == 401
        began = time.monotonic()
        assert await client.reader.read() == b""
        return time.monotonic() - began


async def unread(alone: PartnerApi, _merchant: Merchant) -> float:
    """Ask a process that nobody else asks for more than all buffers hold, and read nothing of it."""

    async def is_ended() -> bool:
        return await open_connections(alone) == 0

    with socket.create_connection(("127.0.0.1", alone.port)) as client:
        began = time.monotonic()
        client.sendall(DOCUMENT * 500)
        await until(lambda: select.select([client], [], [], 0)[0])
        await until_found(is_ended, UNREAD + LATE)
        return time.monotonic() - began


WAYS: dict[Callable[[PartnerApi, Merchant], Coroutine[Any, Any, float]], float] = {
    slow_head: HEAD,
    slow_body: BODY,
    strangers_body: STRANGERS_BODY,
    idle: IDLE,
    unread: UNREAD,
}


@pytest.mark.timeout(300)
async def test_each_deadline_is_kept_as_it_is_by_default_while_others_are_answered(
    installation: Installation,
) -> None:
    api, alone = await start_api(installation), await start_api(installation)
    async with api.merchant("m1") as merchant:
        waiting = {asyncio.create_task(way(alone if way is unread else api, merchant)): way for way in WAYS}
        slowest = 0.0
        while not all(task.done() for task in waiting):
            began = time.monotonic()
            assert (await merchant.ask("GET", "/v1/deliveries")).status == 200
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(1)
        took = {way.__name__: round(await task, 2) for task, way in waiting.items()}
    print(f"ended after {took}; others within {slowest:.3f} s")
    for way, seconds in WAYS.items():
        assert seconds <= took[way.__name__] <= seconds + LATE
    assert slowest < HEAD


@pytest.mark.timeout(300)
@pytest.mark.parametrize("places", [1_000, CROWD + 1_000], ids=["as it is by default", "with room for all"])
async def test_ten_thousand_idle_connections_take_bounded_memory_and_others_are_answered(
    installation: Installation, places: int
) -> None:
    settings = {} if places == 1_000 else {"API_MAX_CONNECTIONS": str(places)}
    api = await start_api(installation, **settings)
    memory = ApiProcess(api.daemon, installation.folder / "none").memory
    async with api.merchant("m1") as merchant:
        assert (await merchant.ask("GET", "/v1/deliveries")).status == 200
        before = memory()
        with ExitStack() as stack:
            slowest = 0.0
            for number in range(CROWD):
                await idle_connection(stack, api, f"127.0.{1 + number // 250}.{1 + number % 250}")
                if number % 500 == 0:
                    began = time.monotonic()
                    assert (await merchant.ask("GET", "/v1/deliveries")).status == 200
                    slowest = max(slowest, time.monotonic() - began)
            expected = min(places, CROWD)

            async def are_all_taken_in() -> bool:
                return await open_connections(api) >= expected

            await until_found(are_all_taken_in)
            held, grown = await open_connections(api), memory() - before
            assert (await merchant.ask("GET", "/v1/deliveries")).status == 200
    print(f"{held} of {CROWD} held, {grown / held / 1024:.1f} KiB each; others within {slowest:.3f} s")
    assert held <= places
    assert grown < 32 * 1024 * held
    assert slowest < HEAD


async def idle_connection(stack: ExitStack, api: PartnerApi, address: str) -> None:
    """Connect by an address of ours, and keep it until the stack ends."""
    client = stack.enter_context(socket.socket())
    client.bind((address, 0))
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", api.port))


async def open_connections(api: PartnerApi) -> int:
    _, text = await http_get(api.ops_port, "/metrics")
    return int(float(text.partition("\nwebhook_api_connections ")[2].partition("\n")[0]))
