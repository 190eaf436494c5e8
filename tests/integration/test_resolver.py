"""Look-ups of silent name servers end with the attempts that wanted them, and leave c-ares to others."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import pytest

from tests.network.name_server import SILENCE, Reply, addresses, serving
from tests.waiting import until
from webhook_dispatcher.transport.guard import EgressPolicy, Guard
from webhook_dispatcher.transport.local_faults import ResolverFault
from webhook_dispatcher.transport.resolver import GuardedResolver, Lookup

HERE = "127.0.0.1"
QUICK = "quick.honest.dev"
SILENT = [f"silent{number}.attacker.dev" for number in range(30)]
KEPT = "kept.honest.dev"
"""Its name server says that the answer holds, and nothing ever after."""
NAMES = {QUICK: [addresses(HERE)], KEPT: [Reply([HERE], ttl=300), SILENCE]} | {
    host: [SILENCE] for host in SILENT
}


@asynccontextmanager
async def resolving() -> AsyncIterator[GuardedResolver]:
    policy = EgressPolicy(allow_networks=(ip_network("127.0.0.0/8"),))
    async with serving(NAMES) as (_, server):
        resolver = GuardedResolver(Guard(policy), [server])
        yield resolver
        await resolver.close()


async def begin(resolver: GuardedResolver, host: str) -> asyncio.Task[Lookup]:
    """Begin a look-up that nobody answers."""
    pending = resolver.pending
    look_up = asyncio.create_task(resolver.resolve(host))
    await until(lambda: resolver.pending == pending + 1)
    return look_up


async def give_up(*look_ups: asyncio.Task[Lookup]) -> None:
    for look_up in look_ups:
        look_up.cancel()
    await asyncio.wait(look_ups)


async def test_a_look_up_ends_with_its_attempt() -> None:
    async with resolving() as resolver:
        await give_up(*[await begin(resolver, host) for host in SILENT[:3]])
        await until(lambda: resolver.pending == 0)
        assert (await resolver.resolve(QUICK)).addresses == [HERE]


async def test_look_ups_end_though_others_are_never_all_over() -> None:
    """c-ares cancels all look-ups of a channel at once, and must not while anybody waits for one of them."""
    async with resolving() as resolver:
        running: list[asyncio.Task[Lookup]] = []
        for host in SILENT:
            running.append(await begin(resolver, host))
            if len(running) > 2:
                await give_up(running.pop(0))
            await until(lambda: resolver.pending <= 3 * len(running))
            assert not any(look_up.done() for look_up in running), "it was cancelled under its attempt"
        await give_up(*running)
        await until(lambda: resolver.pending == 0)


async def test_hosts_that_were_never_found_have_half_of_all_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """c-ares has 65,536 numbers for queries; with none left, it draws for ever and the loop stands still."""
    monkeypatch.setattr("webhook_dispatcher.transport.resolver._MAX_PENDING", 4)
    monkeypatch.setattr("webhook_dispatcher.transport.resolver._MAX_UNKNOWN", 2)
    async with resolving() as resolver:
        assert (await resolver.resolve(QUICK)).addresses == [HERE]
        running = [await begin(resolver, host) for host in SILENT[:2]]
        with pytest.raises(OSError, match="too many names") as refused:
            await resolver.resolve(SILENT[2])
        assert not isinstance(refused.value, ResolverFault), "it is theirs"
        assert (await resolver.resolve(QUICK)).addresses == [HERE]
        await give_up(*running)


async def test_a_host_whose_look_up_was_given_up_is_not_known_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webhook_dispatcher.transport.resolver._MAX_UNKNOWN", 1)
    turned = "turned.attacker.dev"
    monkeypatch.setitem(NAMES, turned, [addresses(HERE), SILENCE])
    async with resolving() as resolver:
        assert (await resolver.resolve(turned)).addresses == [HERE]
        await give_up(await begin(resolver, turned))
        await until(lambda: resolver.pending == 0)
        running = await begin(resolver, SILENT[0])
        with pytest.raises(OSError, match="too many names"):
            await resolver.resolve(turned)
        await give_up(running)


async def test_more_look_ups_than_c_ares_bears_are_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook_dispatcher.transport.resolver._MAX_PENDING", 1)
    async with resolving() as resolver:
        assert (await resolver.resolve(QUICK)).addresses == [HERE]
        running = await begin(resolver, SILENT[0])
        with pytest.raises(ResolverFault, match="too many names"):
            await resolver.resolve(QUICK)
        await give_up(running)


async def test_pending_look_ups_end_in_silence_with_the_resolver() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with resolving() as resolver:
        running = [await begin(resolver, host) for host in SILENT[:3]]
        await give_up(running[0])
        assert resolver.pending == 3
    await until(lambda: resolver.pending == 0)
    await give_up(*running[1:])
    gc.collect()
    assert told == []


async def test_what_was_found_holds_whatever_was_given_up_meanwhile() -> None:
    async with resolving() as resolver:
        assert (await resolver.resolve(KEPT)).was_queried
        running = await begin(resolver, SILENT[0])
        await give_up(await begin(resolver, SILENT[1]))
        assert (await resolver.resolve(QUICK)).addresses == [HERE], "by the other channel from now on"
        assert await resolver.resolve(KEPT) == Lookup([HERE], was_queried=False)
        await give_up(running)
