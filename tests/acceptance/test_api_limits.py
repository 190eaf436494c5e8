"""Limits hold over four processes and fifty clients, judged by when these sent and received.

A few seconds with small windows; with API_STORM_SECONDS=180 (`make test-api-storm`) those of the contract.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from tests.acceptance.api_fleet import FLEET, STORM, Asked, Fleet, fleet, noted, overfull, timed, too_early
from tests.acceptance.api_merchant import Merchant, Reply, start_api
from tests.acceptance.installation import Installation
from tests.waiting import until
from webhook_dispatcher.api import catalogue as codes

CLIENTS = 50
SECONDS = STORM or 6.0
KEY, TOKEN, ADDRESS, WINDOW = (600, 30, 60, 60) if STORM else (25, 6, 10, 2)
MAX_PAUSE = 5.0 if STORM else 0.5
"""Seconds between two bursts of a client: all of them ask more than twice as often as may be."""
SERVED = ((0, "192.0.2.1"), (1, "192.0.2.1"), (2, "192.0.2.1"), (0, "192.0.2.2"), (3, "192.0.2.2"))
"""Which client asks from where: the first address is full before its clients, the last client before it."""
LIMITS = f"key={KEY}/PT{WINDOW}S client={TOKEN}/PT{WINDOW}S address={ADDRESS}/PT{WINDOW}S"
PATH = "/v1/commands/1"
pytestmark = pytest.mark.timeout(SECONDS + 240)


async def storm(ask: Callable[[], Awaitable[list[Asked]]]) -> list[Asked]:
    """Let fifty clients ask in bursts of their own, and return all that they noted."""
    log: list[Asked] = []
    ends = time.monotonic() + SECONDS

    async def client() -> None:
        while time.monotonic() < ends:
            for noted_by_one in await asyncio.gather(*(ask() for _ in range(random.randint(1, 6)))):
                log.extend(noted_by_one)
            await asyncio.sleep(random.uniform(0, MAX_PAUSE))

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return log


def told(log: list[Asked], most: int, window: float) -> None:
    """Say what came of it, and see that the limit was met: a window was full, and many were refused."""
    let_through = sum(each.status in (200, 404) for each in log)
    refused = sum(each.status == 429 for each in log)
    print(f"{len(log)} asked, {let_through} let through, {refused} refused; {most} in {window} s")
    assert let_through + refused == len(log), {each.status for each in log}
    assert overfull(log, most - 1, window), "no window was full"
    assert refused > let_through / 4, "the limit was hardly met"


def as_passed(asked: Asked) -> Asked:
    """A command that is not there was let through, too."""
    return Asked(
        asked.subject, asked.sent, asked.received, 429 if asked.status == 429 else 200, asked.retry_after
    )


async def test_no_window_of_a_key_has_more_than_its_limit(installation: Installation) -> None:
    async with fleet(installation, API_LIMITS=LIMITS) as processes, AsyncExitStack() as stack:
        merchants = [
            await stack.enter_async_context(processes.processes[0].merchant(f"m{number}"))
            for number in range(2)
        ]

        async def ask() -> list[Asked]:
            merchant = random.choice(merchants)
            asked = await timed(processes.anywhere(merchant), merchant.client_id, "GET", PATH)
            return [as_passed(asked)]

        log = await storm(ask)
    told(log, KEY, WINDOW)
    assert overfull(log, KEY, WINDOW) == []
    assert too_early(log) == []
    full = SECONDS / WINDOW * KEY * len(merchants)
    assert sum(each.status == 200 for each in log) > full / 2, "more were refused than had to be"


async def token_of(processes: Fleet, merchant: Merchant, address: str) -> Asked:
    """Ask for a token from an address; the subject is both."""
    client = processes.anywhere(merchant)
    client.token = None
    credentials = {"clientId": client.client_id, "clientSecret": client.client_secret}
    came_by = {"X-Forwarded-For": f"203.0.113.9, {address}"}
    sent = time.monotonic()
    reply = await client.ask("POST", "/v1/auth/token", credentials, None, **came_by)
    return noted(f"{client.client_id} {address}", sent, reply)


def by(log: list[Asked], part: int) -> list[Asked]:
    """Return the same with the client alone as its subject (0), or the address (1)."""
    return [replace(each, subject=each.subject.split()[part]) for each in log]


async def test_no_window_of_a_client_or_an_address_has_more_than_its_limit(
    installation: Installation,
) -> None:
    async with (
        fleet(installation, API_LIMITS=LIMITS, API_TRUSTED_PROXIES="127.0.0.0/8") as processes,
        AsyncExitStack() as stack,
    ):
        enter = stack.enter_async_context
        merchants = [await enter(processes.processes[0].merchant(f"m{number}")) for number in range(4)]

        async def ask() -> list[Asked]:
            number, address = random.choice(SERVED)
            return [await token_of(processes, merchants[number], address)]

        log = await storm(ask)
    for subjects, most in ((by(log, 0), TOKEN), (by(log, 1), ADDRESS)):
        told(subjects, most, WINDOW)
        assert overfull(subjects, most, WINDOW) == []
    # Whichever of the two refuses, it is the client at that address that is told when to come again.
    assert too_early(log) == []


async def test_ipv6_has_a_limit_by_64_and_ten_times_that_by_48(installation: Installation) -> None:
    """Whose provider gives him 65,536 networks of his own has not so many times the limit."""
    limits, proxies = "client=0/PT1M address=2/PT1M", "127.0.0.0/8"
    api = await start_api(installation, API_LIMITS=limits, API_TRUSTED_PROXIES=proxies)
    async with Merchant(f"http://127.0.0.1:{api.port}", "", "") as client:
        credentials = {"clientId": "x" * 22, "clientSecret": "y" * 43}

        async def ask(network: int, host: int = 1) -> Reply:
            address = {"X-Forwarded-For": f"2001:db8:1:{network:x}::{host:x}"}
            return await client.ask("POST", "/v1/auth/token", credentials, None, **address)

        first = [await ask(0), await ask(0, 2), await ask(0, 3)]
        assert [reply.status for reply in first] == [401, 401, 429]
        seconds = first[2].headers["Retry-After"]
        assert first[2].headers["RateLimit-Policy"] == '"address";q=2;w=60, "network";q=20;w=60'
        assert first[2].headers["RateLimit"] == f'"address";r=0;t={seconds}, "network";r=18'
        others = [await ask(network) for network in range(1, 19)]
        assert {reply.status for reply in others} == {401}
        assert others[-1].headers["RateLimit"] == '"address";r=1, "network";r=0'
        beyond = await ask(99)
        assert (beyond.status, beyond.code) == (429, codes.LIMIT_EXCEEDED)
        seconds = beyond.headers["Retry-After"]
        assert beyond.headers["RateLimit"] == f'"address";r=2, "network";r=0;t={seconds}'
        elsewhere = {"X-Forwarded-For": "2001:db8:2::1"}
        reply = await client.ask("POST", "/v1/auth/token", credentials, None, **elsewhere)
        assert (reply.status, reply.headers["RateLimit"]) == (401, '"address";r=1, "network";r=19')


@pytest.mark.parametrize("limit", ["key", "client", "address"])
async def test_retry_after_is_true_both_ways(installation: Installation, limit: str) -> None:
    """Then one passes, and a second less and none does, whichever process is asked."""
    async with (
        fleet(installation, API_LIMITS=f"{limit}=3/PT3S", API_TRUSTED_PROXIES="127.0.0.0/8") as processes,
        processes.processes[0].merchant("m1") as merchant,
    ):
        if limit == "client":
            # It has asked once, when the merchant logged in.
            await until_instant(time.monotonic() + 3)

        async def ask(number: int) -> Asked:
            client = processes.everywhere(merchant, FLEET)[number % FLEET]
            if limit == "key":
                return as_passed(await timed(client, "m1", "GET", PATH))
            return await token_of(processes, merchant, "192.0.2.1")

        began = time.monotonic()
        assert [(await ask(number)).status for number in range(3)] == [200] * 3
        refused = await ask(3)
        seconds = refused.retry_after
        assert refused.status == 429
        assert seconds is not None
        # 3, where these four took less than a second.
        assert began + 3 - refused.received <= seconds <= 3
        await until_instant(refused.sent + seconds - 2)
        # As many as this machine manages in the second before the last.
        early: list[Asked] = []
        while time.monotonic() < refused.sent + seconds - 1:
            early.append(await ask(len(early)))
        assert {each.status for each in early if each.received < refused.sent + seconds - 1} == {429}
        await until_instant(refused.received + seconds)
        assert (await ask(1)).status == 200


async def until_instant(instant: float) -> None:
    """Wait until the monotonic clock says so: time is what is tested."""
    await asyncio.sleep(max(0.0, instant - time.monotonic()))


async def test_a_revoked_key_is_refused_by_all_processes_from_the_next_request_on(
    installation: Installation,
) -> None:
    async with (
        fleet(installation, API_LIMITS="key=0/PT1M") as processes,
        processes.processes[0].merchant("m1") as merchant,
    ):
        log: list[Asked] = []
        is_over = asyncio.Event()

        async def client(each: Merchant) -> None:
            while not is_over.is_set():
                log.append(await timed(each, each.base, "GET", PATH))

        def are_all_heard(since: float) -> bool:
            return len({each.subject for each in log if each.sent > since}) == FLEET

        async with asyncio.TaskGroup() as group:
            for each in processes.everywhere(merchant, 3 * FLEET):
                group.create_task(client(each))
            await until(lambda: are_all_heard(0.0))
            asked_at = time.monotonic()
            revoke = "SELECT webhook.revoke_api_key($1, 'ana')"
            assert await installation.admin.fetchval(revoke, merchant.client_id)
            revoked_at = time.monotonic()
            await until(lambda: are_all_heard(revoked_at))
            is_over.set()
        assert {each.status for each in log if each.received < asked_at} == {404}
        assert {each.status for each in log if each.sent > revoked_at} == {401}
