"""The operators' server: what it answers, and that a flood does not take it down."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge

from tests.waiting import MAX_WAIT
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.telemetry import health
from webhook_dispatcher.telemetry.health import OpsServer
from webhook_dispatcher.telemetry.metrics import Metrics

ANYWHERE = "127.0.0.1:0"


async def ends(reader: asyncio.StreamReader) -> bool:
    """Wait until the other side has closed without a word."""
    try:
        return not await reader.read()
    except ConnectionResetError:
        return True


class Readiness:
    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.notes: list[str] = []

    def __call__(self) -> list[str]:
        return self.reasons


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
async def server(readiness: Readiness) -> AsyncIterator[OpsServer]:
    async with OpsServer(ANYWHERE, Metrics("1.2.3").registry, readiness, lambda: readiness.notes) as running:
        yield running


@pytest.fixture
async def client(server: OpsServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
        yield session


async def test_metrics_are_served_as_prometheus_text(client: aiohttp.ClientSession) -> None:
    async with client.get("/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert 'webhook_build_info{version="1.2.3"} 1.0' in await answer.text()


async def test_alive_but_not_ready(client: aiohttp.ClientSession, readiness: Readiness) -> None:
    async with client.get("/readyz") as answer:
        assert (answer.status, await answer.text()) == (200, "ready\n")
    readiness.reasons = ["the database cannot be reached", "encryption key 'k1' is missing"]
    async with client.get("/readyz") as answer:
        assert answer.status == 503
        assert (await answer.text()).splitlines() == readiness.reasons
    async with client.get("/healthz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok\n")


async def test_a_note_is_shown_and_changes_nothing(
    client: aiohttp.ClientSession, readiness: Readiness
) -> None:
    readiness.notes = ["everything is paused by an operator"]
    async with client.get("/readyz") as answer:
        assert (answer.status, await answer.text()) == (200, "ready\neverything is paused by an operator\n")
    readiness.reasons = ["outcomes cannot be written"]
    async with client.get("/readyz") as answer:
        assert answer.status == 503
        assert (await answer.text()).splitlines() == readiness.reasons + readiness.notes


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/metrics", 405), ("HEAD", "/healthz", 200)]
)
async def test_nothing_else_is_served(
    client: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    async with client.request(method, path) as answer:
        assert answer.status == status


async def test_a_scrape_flood_renders_the_metrics_a_few_times_only() -> None:
    registry = CollectorRegistry()
    renders = 0

    def count() -> float:
        nonlocal renders
        renders += 1
        return 1.0

    Gauge("counted", "How often it was rendered.", registry=registry).set_function(count)
    # Fewer at once than the server keeps: one that gives way to another is a different test.
    connector = aiohttp.TCPConnector(limit=health.MAX_CONNECTIONS // 2)
    async with (
        OpsServer(ANYWHERE, registry, list, list) as server,
        aiohttp.ClientSession(connector=connector) as session,
    ):

        async def scrape() -> int:
            async with session.get(f"http://127.0.0.1:{server.port}/metrics") as answer:
                return answer.status

        started = asyncio.get_running_loop().time()
        assert set(await asyncio.gather(*(scrape() for _ in range(200)))) == {200}
        took = asyncio.get_running_loop().time() - started
    assert renders <= 1 + took / health.RENDERED_FOR_SECONDS


async def test_connections_held_open_give_way_to_new_ones(server: OpsServer) -> None:
    held = [
        await asyncio.open_connection("127.0.0.1", server.port) for _ in range(health.MAX_CONNECTIONS * 2)
    ]
    async with asyncio.timeout(MAX_WAIT), aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{server.port}/healthz") as answer:
            assert answer.status == 200
        # The first to come was the first to go.
        assert await ends(held[0][0])
    for _, writer in held:
        writer.close()


async def test_a_connection_that_says_nothing_is_closed(
    monkeypatch: pytest.MonkeyPatch, server: OpsServer
) -> None:
    monkeypatch.setattr(health, "MAX_CONNECTION_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(MAX_WAIT):
        assert await ends(reader)
    writer.close()


async def test_an_oversized_request_is_refused(server: OpsServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 20_000 + b"\r\n\r\n")
    async with asyncio.timeout(MAX_WAIT):
        assert b" 400 " in await reader.readline()
    writer.close()


async def test_an_address_in_use_is_our_configuration(server: OpsServer) -> None:
    with pytest.raises(ConfigurationError, match=r"^WEBHOOK_OPS_ADDRESS: cannot listen on .*in use$"):
        async with OpsServer(f"127.0.0.1:{server.port}", CollectorRegistry(), list, list):
            pass


async def test_stopping_does_not_wait_for_a_hung_scraper() -> None:
    async with asyncio.timeout(MAX_WAIT):
        async with OpsServer(ANYWHERE, CollectorRegistry(), list, list) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /metrics HTTP/1.1\r\n")
            await writer.drain()
        writer.close()
