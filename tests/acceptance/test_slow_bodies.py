"""Who sends bodies slowly, and shows no credentials, shuts nobody out, by however many addresses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.acceptance.api_process import Api, ApiProcess, started_api
from tests.acceptance.raw_http import RawClient, Reply, asked, connected
from tests.acceptance.slow_senders import Origin, sending_slowly
from tests.waiting import until, until_found
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.web.server import SHARE

MAX_CONNECTIONS = 40
MAX_SHARE = MAX_CONNECTIONS // SHARE
ATTACKERS = 60
"""More than there are places."""
POST = ("POST /v1/things HTTP/1.1", "Host: api", "Content-Type: application/json", "Content-Length: 12")
SLOW = ("GET /v1/slow HTTP/1.1", "Host: api")
BODY = b'{"name":"x"}'
HONEST = 40
BOTH_WAYS = pytest.mark.parametrize("is_proxied", [False, True], ids=["direct", "behind a proxy"])


@asynccontextmanager
async def running(folder: Path, is_proxied: bool) -> AsyncIterator[tuple[ApiProcess, Api]]:
    asyncio.get_running_loop().set_debug(False)
    settings = {"API_MAX_CONNECTIONS": str(MAX_CONNECTIONS)}
    if is_proxied:
        settings["API_TRUSTED_PROXIES"] = "127.0.0.1/32"
    with started_api(folder, settings) as process:
        yield process, await process.listening()


async def begun(stack: AsyncExitStack, api: Api, origin: Origin, head: tuple[str, ...]) -> RawClient:
    """Connect, and send a head."""
    client = await stack.enter_async_context(connected(api.port, origin.local))
    await client.send(origin.head(*head))
    return client


async def created(api: Api, origin: Origin) -> Reply:
    return await asked(api.port, origin.head(*POST) + BODY, origin.local)


@BOTH_WAYS
@pytest.mark.parametrize("addresses", [1, 50])
async def test_slow_bodies_of_strangers_shut_nobody_out(
    tmp_path: Path, addresses: int, is_proxied: bool
) -> None:
    origins = [Origin(f"127.0.2.{number}", is_proxied) for number in range(1, addresses + 1)]
    async with (
        running(tmp_path, is_proxied) as (_, api),
        sending_slowly(api.port, origins, ATTACKERS, POST, pause=0.2) as senders,
    ):
        await until(lambda: senders.begun > 2 * ATTACKERS)
        for number in range(HONEST):
            before = senders.begun
            reply = await created(api, Origin(f"127.0.3.{number + 1}", is_proxied))
            assert reply.status == 201
            await until(lambda: senders.begun > before)  # noqa: B023 - waited for in the same turn


async def test_an_address_has_its_share_of_connections_and_others_have_the_rest(tmp_path: Path) -> None:
    here, there = Origin("127.0.2.1", False), Origin("127.0.3.1", False)
    async with running(tmp_path, False) as (process, api), AsyncExitStack() as stack:
        idle = await begun(stack, api, here, ("GET /v1/things/t1 HTTP/1.1", "Host: api"))
        assert (await idle.reply()).status == 200
        busy = [await begun(stack, api, here, SLOW) for _ in range(MAX_SHARE)]
        assert await idle.until_ended() == b"", "of its own, that which is idle goes first"
        beyond = await begun(stack, api, here, SLOW)
        assert await beyond.until_ended() == b"", "those that are answered do not"
        assert (await created(api, there)).status == 201
        process.release.touch()
        assert [(await client.reply()).status for client in busy] == [200] * MAX_SHARE


async def test_behind_a_proxy_an_address_has_a_share_of_requests_under_way(tmp_path: Path) -> None:
    """An address is a /64; who has its share already is told so before the body is read."""
    here = [Origin(f"2001:db8:0:1::{number}", True) for number in range(MAX_SHARE)]
    async with running(tmp_path, True) as (process, api), AsyncExitStack() as stack:
        busy = [await begun(stack, api, origin, SLOW) for origin in here]

        async def refused() -> Reply | None:
            async with AsyncExitStack() as trying:
                origin = Origin("2001:db8:0:1::99", True)
                client = await begun(trying, api, origin, (*POST, "Expect: 100-continue"))
                reply = await client.reply(has_body=False)
                return None if reply.status == 100 else await _with_body(client, reply)

        reply = await until_found(refused)
        assert (reply.status, reply.error["code"]) == (503, codes.UNAVAILABLE)
        assert (reply.headers["retry-after"], reply.headers["connection"]) == ("1", "close")
        assert (await created(api, Origin("2001:db8:0:2::1", True))).status == 201
        process.release.touch()
        assert [(await client.reply()).status for client in busy] == [200] * MAX_SHARE
        assert (await created(api, here[0])).status == 201


async def _with_body(client: RawClient, reply: Reply) -> Reply:
    body = await client.reader.readexactly(int(reply.headers["content-length"]))
    return Reply(reply.status, reply.headers, body)
