"""What is under way when the API is told to stop, or when its client goes away, has one known outcome."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import aiohttp
import pytest
from aiohttp import web

from tests.acceptance.api_charges import recording
from tests.acceptance.api_merchant import Merchant, PartnerApi, Reply, start_api
from tests.acceptance.installation import Installation
from tests.acceptance.processes import http_get
from tests.waiting import until_found
from webhook_dispatcher.api import catalogue as codes

CHARGE = {"amount": 1}
LOCKED = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'webhook_api' AND wait_event_type = 'Lock'"


@dataclass
class Upstream:
    """A charge service that answers when it is told to, and knows a key again."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    acted: set[str] = field(default_factory=set)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.Response:
        key = request.headers["Idempotency-Key"]
        self.asked.append(key)
        self.acted.add(key)
        await self.goes_on.wait()
        return web.json_response({"charge": key})

    async def is_asked(self) -> bool:
        return bool(self.asked)


@asynccontextmanager
async def forwarding(
    installation: Installation, **settings: str
) -> AsyncIterator[tuple[Upstream, PartnerApi, Merchant]]:
    """Run the API before an upstream, with a merchant; what is still asked there is answered at the end."""
    upstream = Upstream()
    async with recording(upstream.answer) as upstream.url:
        api = await start_api(installation, API_UPSTREAM=upstream.url, **settings)
        async with api.merchant("m1") as merchant:
            yield upstream, api, merchant
            upstream.goes_on.set()


async def is_refused(port: int) -> bool:
    """Tell whether a new connection is refused."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        # The port was open still, and was closed before this was taken from it.
        return False
    writer.close()
    return False


async def elsewhere(installation: Installation, upstream: Upstream, merchant: Merchant) -> Merchant:
    """Start another process, and return the merchant as its client."""
    other = await start_api(installation, API_UPSTREAM=upstream.url)
    return replace(merchant, base=f"http://127.0.0.1:{other.port}")


async def settled(ask: Callable[[], Awaitable[Reply]]) -> Reply:
    """Repeat the same request until it is said what has become of it."""
    replies: list[Reply] = []

    async def is_settled() -> bool:
        replies.append(await ask())
        assert replies[-1].status < 300 or replies[-1].code == codes.STILL_RUNNING, replies[-1].json
        return replies[-1].status < 300

    await until_found(is_settled)
    return replies[-1]


async def test_a_forwarded_request_is_answered_though_the_process_stops(installation: Installation) -> None:
    """The grace that is set is shorter than the request takes: what was promised is not cut short by it."""
    async with forwarding(installation, SHUTDOWN_GRACE="PT1S") as (upstream, api, merchant):
        asking = asyncio.create_task(merchant.ask("POST", "/v1/charges", CHARGE, "k1"))
        await until_found(upstream.is_asked)
        api.daemon.terminate()
        await until_found(lambda: is_refused(api.port))
        assert await http_get(api.ops_port, "/readyz") == (503, "stopping\n")
        over = time.monotonic() + 2
        while time.monotonic() < over:
            assert await is_refused(api.port)
            assert not asking.done()
        upstream.goes_on.set()
        reply = await asking
        assert (reply.status, reply.headers["Connection"]) == (200, "close")
        assert await api.daemon.ended() == 0
        assert api.daemon.problems() == []
        at_other = await elsewhere(installation, upstream, merchant)
        again = await at_other.ask("POST", "/v1/charges", CHARGE, "k1")
        assert (again.data, again.headers["Idempotent-Replayed"]) == (reply.data, "true")
        assert len(upstream.asked) == 1


async def test_what_is_cut_short_is_asked_again_by_the_same_key(installation: Installation) -> None:
    async with forwarding(installation) as (upstream, api, merchant):
        asking = asyncio.create_task(merchant.ask("POST", "/v1/charges", CHARGE, "k1"))
        await until_found(upstream.is_asked)
        api.daemon.terminate()
        await until_found(lambda: is_refused(api.port))
        # A second signal ends the grace.
        api.daemon.terminate()
        await api.daemon.ended()
        assert api.daemon.problems() == []
        with pytest.raises(aiohttp.ClientError):
            await asking
        at_other = await elsewhere(installation, upstream, merchant)
        changed = await at_other.ask("POST", "/v1/charges", {"amount": 2}, "k1")
        assert changed.code == codes.KEY_REUSED
        upstream.goes_on.set()
        reply = await settled(lambda: at_other.ask("POST", "/v1/charges", CHARGE, "k1"))
        assert reply.data == {"charge": upstream.asked[0]}
        assert (len(upstream.asked), len(upstream.acted)) == (2, 1)
        again = await at_other.ask("POST", "/v1/charges", CHARGE, "k1")
        assert again.headers["Idempotent-Replayed"] == "true"


async def test_a_forwarded_request_outlives_its_client(installation: Installation) -> None:
    async with forwarding(installation) as (upstream, api, merchant):
        asking = asyncio.create_task(merchant.ask("POST", "/v1/charges", CHARGE, "k1"))
        await until_found(upstream.is_asked)
        await gone(asking)
        assert (await merchant.ask("POST", "/v1/charges", CHARGE, "k1")).code == codes.STILL_RUNNING
        # It is waited for, though nobody waits for its answer.
        api.daemon.terminate()
        await until_found(lambda: is_refused(api.port))
        assert api.daemon.process.poll() is None
        upstream.goes_on.set()
        assert await api.daemon.ended() == 0
        at_other = await elsewhere(installation, upstream, merchant)
        again = await at_other.ask("POST", "/v1/charges", CHARGE, "k1")
        assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")
        assert len(upstream.asked) == 1


async def test_a_command_outlives_its_client(installation: Installation) -> None:
    api = await start_api(installation)
    await installation.owner.execute(
        "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) "
        "VALUES ('m1', 'https://merchant.com/', '\\x00', 'k1')"
    )
    async with api.merchant("m1") as merchant:
        holder = await installation.database.connect()
        await holder.execute("BEGIN; LOCK TABLE webhook.control IN EXCLUSIVE MODE")
        asking = asyncio.create_task(merchant.ask("POST", "/v1/webhook/pause", key="k1"))
        await installation.until_true(LOCKED)
        await gone(asking)
        await holder.execute("COMMIT")
        await holder.close()
        reply = await settled(lambda: merchant.ask("POST", "/v1/webhook/pause", key="k1"))
        assert (reply.status, reply.headers["Idempotent-Replayed"]) == (202, "true")
        assert await installation.owner.fetchval("SELECT count(*) FROM webhook.control") == 1
        shown = await merchant.ask("GET", f"/v1/commands/{reply.data['commandId']}")
        assert shown.data["command"] == "pause"


async def gone(asking: asyncio.Task[Reply]) -> None:
    """Close the client's connection while it waits for an answer."""
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
