"""A merchant that sends much at once, and slow things, takes nobody else's turn."""

import asyncio
import socket
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
from aiohttp import web

from tests.acceptance.api_charges import recording
from tests.acceptance.api_fleet import pooler as pooler
from tests.acceptance.api_merchant import Merchant, PartnerApi, Reply, start_api
from tests.acceptance.api_process import resident
from tests.acceptance.installation import Installation
from tests.acceptance.processes import http_get
from tests.waiting import Yardstick, until_found
from webhook_dispatcher.api import catalogue as codes

AT_ONCE = 200
CONNECTIONS, FORWARDED = 4, 25
"""What contract 7 leaves to one merchant in one process."""
LARGE = 4 * 1_048_576 - 64
UNREAD, READABLE = 60, 2
"""Large answers that a merchant asks for and does not read, and how many of them its share holds."""
LOOKING_SECONDS = 1.0
UNLIMITED = {"API_LIMITS": "key=0/PT1M client=0/PT1M address=0/PT1M"}


@asynccontextmanager
async def crowding(api: PartnerApi) -> AsyncIterator[tuple[Merchant, Merchant]]:
    """Two merchants that were let in before; the first may have any number of connections."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        api.merchant("greedy") as greedy,
        api.merchant("other") as other,
    ):
        yield Merchant(greedy.base, "", "", greedy.token, session), other


async def looks(merchant: Merchant) -> list[float]:
    """Ask for something small again and again, and say how long each time took."""
    took, start = [], time.monotonic()
    while (began := time.monotonic()) < start + LOOKING_SECONDS:
        assert (await merchant.ask("GET", "/v1/webhook")).code == codes.NOT_CONFIGURED
        took.append(time.monotonic() - began)
    return took


async def undisturbed_by(
    other: Merchant,
    requests: list[Awaitable[Reply]],
    is_crowded: Callable[[], Awaitable[bool]],
    has_looked: asyncio.Event | None = None,
) -> list[Reply]:
    """Send all of it at once; while it waits, the other merchant is answered within its usual time."""
    usual = await looks(other)
    async with asyncio.TaskGroup() as group:
        sent = [group.create_task(_result(each)) for each in requests]
        await until_found(is_crowded)
        with Yardstick() as machine:
            meanwhile = await looks(other)
        assert not all(task.done() for task in sent)
        print(f"usual {statistics.median(usual):.4f} s, meanwhile {statistics.median(meanwhile):.4f} s")
        # The process takes in and refuses the others in that time, too.
        assert statistics.median(meanwhile) < 5 * statistics.median(usual) + 0.05
        assert max(meanwhile) < machine.allows(0.5)
        if has_looked is not None:
            has_looked.set()
    return [task.result() for task in sent]


async def _result(request: Awaitable[Reply]) -> Reply:
    return await request


async def test_requests_of_one_merchant_that_hang_upstream_are_few(installation: Installation) -> None:
    there: list[str] = []
    goes_on, has_looked = asyncio.Event(), asyncio.Event()

    async def hang(request: web.Request) -> web.Response:
        if request.headers["Service-Merchant-Id"] == "greedy":
            there.append(request.headers["Idempotency-Key"])
            await goes_on.wait()
        return web.json_response({})

    async with recording(hang) as url, AsyncExitStack() as held:
        api = await start_api(installation, API_UPSTREAM=url, **UNLIMITED)
        greedy, other = await held.enter_async_context(crowding(api))
        keys = [f"k{number}" for number in range(AT_ONCE)]

        async def is_crowded() -> bool:
            return len(there) == FORWARDED

        answered: list[Reply] = []

        async def post(key: str) -> Reply:
            reply = await greedy.ask("POST", "/v1/charges", {}, key)
            answered.append(reply)
            return reply

        posts = [post(key) for key in keys]
        waiting = asyncio.create_task(undisturbed_by(other, [*posts], is_crowded, has_looked))

        async def is_refused() -> bool:
            kept = await installation.owner.fetchval("SELECT count(*) FROM webhook.api_request")
            return bool(kept == FORWARDED) and len(answered) == AT_ONCE - FORWARDED

        await until_found(is_crowded)
        await until_found(is_refused)
        assert (await other.ask("POST", "/v1/charges", {})).status == 200
        refused = await greedy.ask("POST", "/v1/charges", {}, "one more")
        assert (refused.status, refused.code) == (503, codes.UNAVAILABLE)
        assert refused.headers["Retry-After"] == "1"
        await has_looked.wait()
        goes_on.set()
        replies = await waiting
        assert [reply.status for reply in replies].count(200) == FORWARDED == len(there)
        assert {reply.code for reply in replies if reply.status != 200} == {codes.UNAVAILABLE}
        # Nothing of what was refused is kept: each key is free for another body.
        free = next(key for key, reply in zip(keys, replies, strict=True) if reply.status == 503)
        assert (await greedy.ask("POST", "/v1/charges", {"another": 1}, free)).status == 200


async def test_large_answers_that_one_merchant_does_not_read_take_a_bounded_share(
    installation: Installation,
) -> None:
    async def answer_much(_request: web.Request) -> web.Response:
        return web.Response(body=b'"%b"' % (b"x" * LARGE), content_type="application/json")

    async with recording(answer_much) as url, AsyncExitStack() as held:
        api = await start_api(installation, API_UPSTREAM=url, **UNLIMITED)
        greedy, other = await held.enter_async_context(crowding(api))

        async def refusals() -> int:
            _, text = await http_get(api.ops_port, "/metrics")
            counted = text.partition(f'webhook_api_refusals_total{{code="{codes.UNAVAILABLE}"}} ')[2]
            return int(float(counted.partition("\n")[0] or 0))

        assert len((await other.ask("GET", "/v1/recipients")).data) == LARGE
        before = resident(api.daemon.process.pid)
        line = f"GET /v1/recipients HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {greedy.token}\r\n\r\n"
        for _ in range(UNREAD):
            unread = held.enter_context(reading_nothing(api.port))
            unread.sendall(line.encode())

        async def are_refused() -> bool:
            return await refusals() >= UNREAD - 2 * READABLE

        await until_found(are_refused)
        grown = resident(api.daemon.process.pid) - before
        print(f"{grown / 1_048_576:.0f} MiB more, {await refusals()} refused")
        assert grown < 64 * 1_048_576
        assert len((await other.ask("GET", "/v1/recipients")).data) == LARGE


def reading_nothing(port: int) -> socket.socket:
    """Connect, with as little as the system takes in for us."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    return client
