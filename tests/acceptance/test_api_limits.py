"""Limits hold over four processes and fifty clients, judged by when these sent and received.

A few seconds with small windows; with API_STORM_SECONDS=180 (`make test-api-storm`) those of the contract.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from tests.acceptance.api_fleet import FLEET, STORM, Asked, fleet, noted, overfull, timed, too_early
from tests.acceptance.api_merchant import Merchant
from tests.acceptance.installation import Installation
from tests.waiting import until

CLIENTS = 50
SECONDS = STORM or 6.0
KEY, TOKEN, ADDRESS, WINDOW = (600, 30, 60, 60) if STORM else (25, 6, 10, 2)
LIMITS = f"key={KEY}/PT{WINDOW}S client={TOKEN}/PT{WINDOW}S address={ADDRESS}/PT{WINDOW}S"
PATH = "/v1/commands/1"


async def storm(ask: Callable[[], Awaitable[list[Asked]]]) -> list[Asked]:
    """Let fifty clients ask in bursts of their own, and return all that they noted."""
    log: list[Asked] = []
    ends = time.monotonic() + SECONDS

    async def client() -> None:
        while time.monotonic() < ends:
            for noted_by_one in await asyncio.gather(*(ask() for _ in range(random.randint(1, 6)))):
                log.extend(noted_by_one)
            await asyncio.sleep(random.uniform(0, WINDOW / 4))

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return log


def told(log: list[Asked], most: int, window: float) -> None:
    """Say what came of it, and see that the limit was met at all."""
    let_through = sum(each.status in (200, 404) for each in log)
    refused = sum(each.status == 429 for each in log)
    print(f"{len(log)} asked, {let_through} let through, {refused} refused; {most} in {window} s")
    assert let_through + refused == len(log), {each.status for each in log}
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


async def test_no_window_of_a_client_or_an_address_has_more_than_its_limit(
    installation: Installation,
) -> None:
    async with (
        fleet(installation, API_LIMITS=LIMITS, API_TRUSTED_PROXIES="127.0.0.0/8") as processes,
        AsyncExitStack() as stack,
    ):
        enter = stack.enter_async_context
        merchants = [await enter(processes.processes[0].merchant(f"m{number}")) for number in range(3)]

        async def ask() -> list[Asked]:
            merchant = random.choice(merchants)
            address = random.choice(["192.0.2.1", "192.0.2.2"])
            sent = time.monotonic()
            client = processes.anywhere(merchant)
            client.token = None
            credentials = {"clientId": client.client_id, "clientSecret": client.client_secret}
            reply = await client.ask(
                "POST", "/v1/auth/token", credentials, None, **{"X-Forwarded-For": f"203.0.113.9, {address}"}
            )
            return [noted(subject, sent, reply) for subject in (client.client_id, address)]

        log = await storm(ask)
    clients = [each for each in log if not each.subject.startswith("192.")]
    addresses = [each for each in log if each.subject.startswith("192.")]
    told(clients, TOKEN, WINDOW)
    assert overfull(clients, TOKEN, WINDOW) == []
    assert overfull(addresses, ADDRESS, WINDOW) == []


async def test_retry_after_is_true_both_ways(installation: Installation) -> None:
    """Then one passes, and a second less and none does, whichever process is asked."""
    async with (
        fleet(installation, API_LIMITS="key=3/PT3S") as processes,
        processes.processes[0].merchant("m1") as merchant,
    ):

        async def ask(number: int) -> Asked:
            client = processes.everywhere(merchant, FLEET)[number % FLEET]
            return as_passed(await timed(client, "m1", "GET", PATH))

        assert [(await ask(number)).status for number in range(3)] == [200] * 3
        refused = await ask(3)
        assert (refused.status, refused.retry_after) == (429, 3)
        await until_instant(refused.sent + 3 - 1.3)
        early = [await ask(number) for number in range(FLEET)]
        assert {each.status for each in early if each.received < refused.sent + 2} == {429}
        await until_instant(refused.received + 3)
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
            revoke = "SELECT webhook.revoke_api_key($1, 'ana')"
            assert await installation.admin.fetchval(revoke, merchant.client_id)
            revoked_at = time.monotonic()
            await until(lambda: are_all_heard(revoked_at))
            is_over.set()
        assert {each.status for each in log if each.received < revoked_at} == {404}
        assert {each.status for each in log if each.sent > revoked_at} == {401}
