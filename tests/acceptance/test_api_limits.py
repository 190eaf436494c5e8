"""Limits hold over four processes and fifty clients, judged by when these sent and received.

A few seconds with small windows; with API_STORM_SECONDS=180 (`make test-api-storm`) those of the contract.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from tests.acceptance.api_fleet import (
    FLEET,
    STORM,
    Asked,
    Fleet,
    fleet,
    needless,
    noted,
    overfull,
    timed,
    too_early,
)
from tests.acceptance.api_fleet import pooler as pooler
from tests.acceptance.api_merchant import Merchant, Reply, start_api
from tests.acceptance.installation import Installation
from tests.waiting import until
from webhook_dispatcher.api import catalogue as codes

CLIENTS = 50
SECONDS = STORM or 4.0
KEY, TOKEN, ADDRESS, WINDOW = (600, 30, 60, 60) if STORM else (10, 6, 10, 2)
MAX_PAUSE = 5.0 if STORM else 0.5
"""Seconds between two bursts of a client: all of them ask more than twice as often as may be."""
SERVED = ((0, "192.0.2.1"), (1, "192.0.2.1"), (2, "192.0.2.1"), (0, "192.0.2.2"), (3, "192.0.2.2"))
"""Which client asks from where: the first address is full before its clients, the last client before it."""
LIMITS = f"key={KEY}/PT{WINDOW}S client={TOKEN}/PT{WINDOW}S address={ADDRESS}/PT{WINDOW}S"
PATH = "/v1/commands/1"
pytestmark = pytest.mark.timeout(SECONDS + 240)


async def storm(ask: Callable[[], Awaitable[None]], is_met: Callable[[], bool]) -> None:
    """Let fifty clients ask in bursts of their own, until limits are met, too."""
    ends = time.monotonic() + SECONDS

    async def client() -> None:
        while time.monotonic() < ends or not is_met():
            await asyncio.gather(*(ask() for _ in range(random.randint(1, 6))))
            await asyncio.sleep(random.uniform(0, MAX_PAUSE))

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


def refusals(log: list[Asked]) -> int:
    return sum(each.status == 429 for each in log)


def told(log: list[Asked], most: int, window: float) -> None:
    """Say what came of it."""
    let_through = sum(each.status == 200 for each in log)
    print(f"{len(log)} asked, {let_through} let through, {refusals(log)} refused; {most} in {window} s")
    assert let_through + refusals(log) == len(log), {each.status for each in log}


def as_passed(asked: Asked) -> Asked:
    """A command that is not there was let through, too."""
    return Asked(
        asked.subject, asked.sent, asked.received, 429 if asked.status == 429 else 200, asked.retry_after
    )


async def token_of(processes: Fleet, merchant: Merchant, address: str) -> Asked:
    return await asked_for_token(processes.anywhere(merchant), address)


async def asked_for_token(client: Merchant, address: str) -> Asked:
    """Ask for a token from an address; the subject is both."""
    client = replace(client, token=None)
    credentials = {"clientId": client.client_id, "clientSecret": client.client_secret}
    came_by = {"X-Forwarded-For": f"203.0.113.9, {address}"}
    sent = time.monotonic()
    reply = await client.ask("POST", "/v1/auth/token", credentials, None, **came_by)
    return noted(f"{client.client_id} {address}", sent, reply)


def by(log: list[Asked], part: int) -> list[Asked]:
    """Return the same with the client alone as its subject (0), or the address (1)."""
    return [replace(each, subject=each.subject.split()[part]) for each in log]


async def test_no_window_of_a_key_a_client_or_an_address_has_more_than_its_limit(
    installation: Installation,
) -> None:
    keys, tokens = list[Asked](), list[Asked]()
    async with (
        fleet(installation, API_LIMITS=LIMITS, API_TRUSTED_PROXIES="127.0.0.0/8") as processes,
        AsyncExitStack() as stack,
    ):
        enter = stack.enter_async_context
        # Two have tokens already, four ask for them; each logs in once from the proxy's own address.
        merchants = [await enter(processes.processes[0].merchant(f"m{number}")) for number in range(6)]

        async def ask() -> None:
            if random.random() < 0.5:
                merchant = random.choice(merchants[4:])
                asked = await timed(processes.anywhere(merchant), merchant.client_id, "GET", PATH)
                keys.append(as_passed(asked))
            else:
                number, address = random.choice(SERVED)
                tokens.append(await token_of(processes, merchants[number], address))

        await storm(ask, lambda: refusals(keys) > 2 * KEY and refusals(tokens) > 2 * ADDRESS)
    for log, most in ((keys, KEY), (by(tokens, 0), TOKEN), (by(tokens, 1), ADDRESS)):
        told(log, most, WINDOW)
        assert overfull(log, most, WINDOW) == []
    # Whichever of client and address refuses, it is both together that are told when to come again.
    assert too_early(keys) == []
    assert too_early(tokens) == []
    assert needless(keys, KEY, WINDOW) == []


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


async def test_whoever_guesses_a_secret_keeps_its_owner_from_no_token(installation: Installation) -> None:
    """What a wrong secret takes is never seen by others, also while it is being compared."""
    most = 6
    async with (
        fleet(
            installation, API_LIMITS=f"client={most}/PT1H address=0/PT1H", API_TRUSTED_PROXIES="127.0.0.0/8"
        ) as processes,
        processes.processes[0].client("m1") as owner,
    ):
        numbers, guesses = itertools.count(), list[int]()
        is_over = asyncio.Event()

        async def guess(client: Merchant) -> None:
            while not is_over.is_set():
                guesses.append((await attempted(client, owner.client_id, anew(numbers))).status)

        async with asyncio.TaskGroup() as group:
            for client in processes.everywhere(owner, 8 * FLEET):
                group.create_task(guess(client))
            for number in range(most):
                await until(lambda: len(guesses) > 100 * (number + 1))  # noqa: B023 - called within the turn
                asked = await asked_for_token(processes.anywhere(owner), "192.0.2.1")
                assert asked.status == 200, number
            is_over.set()
        assert (await asked_for_token(owner, anew(numbers))).status == 429
        # `attempted` notes each answer but 429 as let through.
        assert guesses.count(200) >= 100 * most


async def test_retry_after_is_true_both_ways(installation: Installation) -> None:
    """Then one passes, and a second less and none does, whichever process is asked."""
    limits, proxies = "key=3/PT3S client=3/PT3S address=3/PT3S", "127.0.0.0/8"
    async with (
        fleet(installation, API_LIMITS=limits, API_TRUSTED_PROXIES=proxies) as processes,
        processes.processes[0].merchant("m1") as merchant,
        processes.processes[0].client("m2") as other,
    ):
        clients = processes.everywhere(merchant, FLEET)
        numbers = itertools.count()

        async def by_key(client: Merchant) -> Asked:
            return as_passed(await timed(client, "key", "GET", PATH))

        async def by_client(client: Merchant) -> Asked:
            # With its secret, from an address of its own each time.
            owner = replace(client, client_id=other.client_id, client_secret=other.client_secret)
            return await asked_for_token(owner, anew(numbers))

        async def by_address(client: Merchant) -> Asked:
            return await attempted(client, f"{next(numbers):022}", "192.0.2.1")

        await asyncio.gather(*(come_again(clients, ask) for ask in (by_key, by_client, by_address)))


def anew(numbers: Iterator[int]) -> str:
    """Return an address that nobody had before."""
    number = next(numbers)
    return f"198.{18 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


async def attempted(client: Merchant, client_id: str, address: str) -> Asked:
    """Ask for a token with credentials that are nobody's: let through, where a limit does not refuse it."""
    stranger = replace(client, client_id=client_id, client_secret="y" * 43)
    return as_passed(await asked_for_token(stranger, address))


async def come_again(clients: Sequence[Merchant], ask: Callable[[Merchant], Awaitable[Asked]]) -> None:
    began = time.monotonic()
    asked = await asyncio.gather(*(ask(client) for client in clients))
    assert sorted(each.status for each in asked) == [200, 200, 200, 429], ask.__name__
    [refused] = [each for each in asked if each.status == 429]
    seconds = refused.retry_after
    assert seconds is not None
    # 3, where these four took less than a second.
    assert began + 3 - refused.received <= seconds <= 3, ask.__name__
    await until_instant(refused.sent + seconds - 2)
    # As many as this machine manages in the second before the last; a slow one, none.
    early: list[Asked] = []
    while time.monotonic() < refused.sent + seconds - 1:
        early.append(await ask(clients[len(early) % FLEET]))
    answered = {each.status for each in early if each.received < refused.sent + seconds - 1}
    assert answered <= {429}, ask.__name__
    await until_instant(refused.received + seconds)
    assert (await ask(clients[1])).status == 200, ask.__name__


async def until_instant(instant: float) -> None:
    """Wait until the monotonic clock says so: time is what is tested."""
    await asyncio.sleep(max(0.0, instant - time.monotonic()))
