"""Look-ups that nobody waits for any more: c-ares goes on with them, and they count."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import pytest

from tests.network.name_server import NXDOMAIN, SILENCE, addresses, serving
from tests.waiting import until
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.local_faults import ResolverFault
from webhook_dispatcher.transport.resolver import GuardedResolver

HERE = "127.0.0.1"
NAMES = {
    "quick.attacker.dev": [addresses(HERE)],
    "silent.attacker.dev": [SILENCE],
    # Silent to three look-ups; c-ares asks again.
    "hesitant.attacker.dev": [SILENCE] * 3 + [NXDOMAIN],
}


@pytest.fixture
def three_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook_dispatcher.transport.resolver._MAX_PENDING", 3)


@asynccontextmanager
async def resolving() -> AsyncIterator[GuardedResolver]:
    policy = EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),))
    async with serving(NAMES) as (_, server):
        resolver = GuardedResolver(Guard(policy), [server])
        yield resolver
        await resolver.close()


async def give_up_three(resolver: GuardedResolver, host: str) -> None:
    """Look up with too little time; c-ares goes on."""
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(resolver.resolve(host), 0.01)


async def test_look_ups_that_were_given_up_count_until_c_ares_is_done(three_at_most: None) -> None:
    """c-ares has 65,536 numbers for queries; with none left, it draws for ever and the loop stands still."""
    async with resolving() as resolver:
        await give_up_three(resolver, "hesitant.attacker.dev")
        with pytest.raises(ResolverFault, match="too many names"):
            await resolver.resolve("quick.attacker.dev")
        await until(lambda: resolver._pending == 0)
        assert (await resolver.resolve("quick.attacker.dev")).addresses == [HERE]


async def test_pending_look_ups_end_in_silence_with_the_resolver() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with resolving() as resolver:
        await give_up_three(resolver, "silent.attacker.dev")
        assert resolver._pending == 3
    await until(lambda: resolver._pending == 0)
    gc.collect()
    assert told == []
