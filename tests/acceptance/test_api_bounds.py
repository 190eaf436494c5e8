"""What clients do, or leave undone, takes a bounded part of the process, and others are served meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.acceptance.api_process import Api, ApiProcess, started_api
from tests.acceptance.processes import http_get
from tests.acceptance.raw_http import RawClient, asked, connected
from tests.waiting import until_found
from webhook_dispatcher.api import catalogue as codes

T = TypeVar("T")
GET = b"GET /v1/things/t1 HTTP/1.1\r\nHost: api\r\n\r\n"
SLOW = b"GET /v1/slow HTTP/1.1\r\nHost: api\r\n\r\n"
LARGE = b"GET /v1/large HTTP/1.1\r\nHost: api\r\n\r\n"
MAX_CONNECTIONS = 200


@asynccontextmanager
async def running(folder: Path, **settings: str) -> AsyncIterator[tuple[ApiProcess, Api]]:
    asyncio.get_running_loop().set_debug(False)
    with started_api(folder, {"API_MAX_CONNECTIONS": str(MAX_CONNECTIONS), **settings}) as process:
        yield process, await process.listening()


async def open_connections(api: Api) -> int:
    _, text = await http_get(api.ops_port, "/metrics")
    return int(float(text.partition("\nwebhook_api_connections ")[2].partition("\n")[0]))


async def many(stack: AsyncExitStack, api: Api, count: int, first: bytes = b"") -> list[RawClient]:
    """Connect by many addresses, so that none has its share, and begin to send."""
    addresses = [f"127.0.1.{number % 250 + 1}" for number in range(count)]
    clients = [await stack.enter_async_context(connected(api.port, address)) for address in addresses]
    for client in clients:
        await client.send(first)
    return clients


async def test_idle_connections_beyond_the_limit_go_and_others_are_served(tmp_path: Path) -> None:
    async with running(tmp_path) as (process, api), AsyncExitStack() as stack:
        [first] = await many(stack, api, 1, GET)
        assert (await first.reply()).status == 200
        await many(stack, api, MAX_CONNECTIONS)
        before = process.memory()
        for _ in range(5):
            await many(stack, api, 2 * MAX_CONNECTIONS)
            assert (await asked(api.port, GET)).status == 200
        assert await open_connections(api) <= MAX_CONNECTIONS
        assert await first.is_ended(), "the one that was idle the longest went first"
        assert process.memory() - before < 32 * 1_048_576


async def test_heads_that_do_not_end_are_told_so_and_others_are_served(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, api), AsyncExitStack() as stack:
        clients = await many(stack, api, MAX_CONNECTIONS - 1, b"GET / HTTP/1.1\r\nX: ")
        assert (await asked(api.port, GET)).status == 200

        async def drip(client: RawClient) -> int:
            async with asyncio.TaskGroup() as group:
                dripping = group.create_task(keep_sending(client, b"x"))
                reply = await client.reply()
                dripping.cancel()
            return int(reply.error["code"])

        assert {await drip(client) for client in clients[:20]} == {codes.TOO_SLOW}
        await until_found(lambda: is_true(open_connections(api), lambda count: count <= 1))


async def keep_sending(client: RawClient, data: bytes) -> None:
    while True:
        await client.send(data)
        await asyncio.sleep(0.02)


async def is_true(found: Awaitable[T], condition: Callable[[T], bool]) -> bool:
    return bool(condition(await found))


async def test_heads_that_do_not_end_go_where_all_places_are_taken(tmp_path: Path) -> None:
    async with running(tmp_path, API_MAX_CONNECTIONS="20") as (_, api), AsyncExitStack() as stack:
        await many(stack, api, 60, b"G")
        assert (await asked(api.port, GET)).status == 200
        assert await open_connections(api) <= 20


async def test_who_is_being_answered_is_not_sent_away_for_newcomers(tmp_path: Path) -> None:
    async with running(tmp_path, API_MAX_CONNECTIONS="20") as (process, api), AsyncExitStack() as stack:
        busy = await many(stack, api, 20, SLOW)
        await until_found(lambda: is_true(open_connections(api), lambda count: count == 20))
        newcomers = await many(stack, api, 5, GET)
        assert all([await client.is_ended() for client in newcomers])
        process.release.touch()
        assert [(await client.reply()).status for client in busy] == [200] * 20


async def test_a_large_head_is_refused_before_it_is_all_there(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, api), connected(api.port) as client:
        await client.send(b"GET / HTTP/1.1\r\n")
        sending = asyncio.create_task(keep_sending(client, b"X: " + b"x" * 4000 + b"\r\n"))
        assert (await client.reply()).error["code"] == codes.HEAD_TOO_LARGE
        sending.cancel()


async def test_answers_that_nobody_reads_are_given_up_and_not_piled_up(tmp_path: Path) -> None:
    async with running(tmp_path) as (process, api), AsyncExitStack() as stack:
        assert (await asked(api.port, LARGE)).status == 200
        before = process.memory()
        [client] = await many(stack, api, 1)
        sending = asyncio.create_task(client.send(*[LARGE * 100] * 20))
        await until_found(lambda: is_true(open_connections(api), lambda count: count == 1))
        assert process.memory() - before < 64 * 1_048_576
        await until_found(lambda: is_true(open_connections(api), lambda count: count == 0))
        sending.cancel()


async def test_sigterm_ends_what_is_idle_and_lets_what_is_under_way_end(tmp_path: Path) -> None:
    async with running(tmp_path) as (process, api), AsyncExitStack() as stack:
        [idle, busy] = await many(stack, api, 2)
        await busy.send(SLOW)
        await until_found(lambda: is_true(asked(api.port, GET), lambda reply: reply.status == 200))
        api.daemon.terminate()
        assert await idle.reader.read() == b""
        code, text = await http_get(api.ops_port, "/readyz")
        assert (code, text) == (503, "stopping\n")
        process.release.touch()
        reply = await busy.reply()
        assert (reply.json["data"], reply.headers["connection"]) == ("released", "close")
        assert await api.daemon.ended() == 0
        assert api.daemon.problems() == []


async def test_the_grace_ends_what_does_not_end(tmp_path: Path) -> None:
    async with running(tmp_path, SHUTDOWN_GRACE="PT0.3S") as (_, api), AsyncExitStack() as stack:
        [busy] = await many(stack, api, 1, SLOW)
        await until_found(lambda: is_true(open_connections(api), lambda count: count == 1))
        api.daemon.terminate()
        assert await busy.reader.read() == b""
        assert await api.daemon.ended() == 0
        assert api.daemon.problems() == []


async def test_operators_see_requests_and_refusals(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, api):
        await asked(api.port, GET)
        await asked(api.port, GET.replace(b"v1", b"v2"))
        assert await http_get(api.ops_port, "/healthz") == (200, "ok\n")
        assert await http_get(api.ops_port, "/readyz") == (200, "ready\n")
        _, text = await http_get(api.ops_port, "/metrics")
        assert 'webhook_api_requests_total{operation="read_thing",status="200"} 1.0' in text
        assert 'webhook_api_requests_total{operation="none",status="404"} 1.0' in text
        assert 'webhook_api_refusals_total{code="-16001"} 1.0' in text
        assert 'webhook_api_request_duration_seconds_count{operation="read_thing"} 1.0' in text
        assert "webhook_api_ready 1.0" in text


@pytest.mark.parametrize(
    "end", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"]
)
async def test_who_breaks_off_while_sending_is_no_error_of_ours(tmp_path: Path, end: bytes) -> None:
    async with running(tmp_path) as (process, api):
        async with connected(api.port) as client:
            head = b"POST /v1/things HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n"
            await client.send(head, end)
            await until_found(lambda: is_true(open_connections(api), lambda count: count == 1))
        line = await process.daemon.logged("request.broken_off")
        assert (line["operation"], line["level"]) == ("create_thing", "info")
        assert not process.daemon.log("request.failed")
        counted = await until_found(lambda: _counted(api))  # metrics are rendered once a second
        assert counted == ['webhook_api_requests_total{operation="create_thing",status="499"} 1.0']


async def _counted(api: Api) -> list[str]:
    _, text = await http_get(api.ops_port, "/metrics")
    return [line for line in text.splitlines() if line.startswith("webhook_api_requests_total{")]
