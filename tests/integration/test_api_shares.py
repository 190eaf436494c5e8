"""Nobody holds all of a process's connections to a database: not strangers, and no merchant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.integration.api_harness import api_pool
from tests.servers.database import Database
from tests.waiting import until
from webhook_dispatcher.api import shares as api_shares
from webhook_dispatcher.api.program import POOL_SIZE
from webhook_dispatcher.api.shares import OF_A_MERCHANT, OF_STRANGERS, Shares
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.storage.api import database as api_database
from webhook_dispatcher.storage.api.connections import Connections, kept
from webhook_dispatcher.storage.api.database import Share, ask, transaction
from webhook_dispatcher.storage.api.tokens import Bearer
from webhook_dispatcher.storage.statements import load

LOOK = load("api_limits")["has_api_rows"]
M1, M2 = Bearer(b"t1", 1, "c1", "m1"), Bearer(b"t2", 2, "c2", "m2")
M1_AGAIN = Bearer(b"t3", 3, "c3", "m1")


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Connections]:
    async with api_pool(database, POOL_SIZE) as opened, kept(opened) as connections:
        yield connections


async def is_free(share: Share) -> bool:
    """Tell whether it has a connection left; one that has none is not waited for."""
    try:
        async with asyncio.timeout(5), share.acquire():
            return True
    except TimeoutError:
        return False


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_database, "MAX_WAIT_SECONDS", 0.5)


async def test_strangers_share_a_few_and_leave_the_rest(pool: Connections) -> None:
    shares = Shares(pool)
    assert shares.note(b"t1", M1) is shares.of_token(b"t1")
    async with AsyncExitStack() as held:
        for number in range(OF_STRANGERS):
            await held.enter_async_context(shares.of_token(b"stranger %d" % number).acquire())
        assert not await is_free(shares.of_token(b"unknown"))
        assert not await is_free(shares.of_strangers), "those who ask for tokens"
        assert await is_free(shares.of_token(b"t1"))
        shares.note(b"t1", None)
        assert not await is_free(shares.of_token(b"t1")), "his token has ended"
    assert await is_free(shares.of_strangers)


async def test_a_merchant_has_a_few_by_all_its_keys_and_leaves_the_rest(pool: Connections) -> None:
    shares = Shares(pool)
    first = shares.note(b"t1", M1)
    async with AsyncExitStack() as held:
        for _ in range(OF_A_MERCHANT):
            await held.enter_async_context(first.acquire())
        again = shares.note(b"t3", M1_AGAIN)
        for refused in (first, again, shares.of_token(b"t3")):
            with pytest.raises(StorageUnavailable, match="did not answer in time"):
                await ask(refused, LOOK)
            with pytest.raises(StorageUnavailable, match="did not answer in time"):
                async with transaction(refused):
                    pass
        for _ in range(OF_STRANGERS):
            await held.enter_async_context(shares.of_strangers.acquire())
        for _ in range(POOL_SIZE - OF_A_MERCHANT - OF_STRANGERS):
            await held.enter_async_context(shares.note(b"t2", M2).acquire())
    assert await is_free(first)


async def test_not_more_wait_than_a_bounded_number(
    pool: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_database, "MAX_WAIT_SECONDS", 60)
    monkeypatch.setattr(api_database, "MAX_WAITING", 2)
    share = Share(pool, 1)
    async with asyncio.TaskGroup() as group, share.acquire():
        waiting = [group.create_task(is_free(share)) for _ in range(2)]
        await until(lambda: share._waiting == 2)
        with pytest.raises(StorageUnavailable):
            await ask(share, LOOK)
    assert [task.result() for task in waiting] == [True, True]


def test_not_more_tokens_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_shares, "MAX_KNOWN", 2)
    shares = Shares(None)  # type: ignore[arg-type]
    for token in (b"1", b"2", b"1", b"3"):
        shares.note(token, M1)
    assert [*shares._known] == [b"1", b"3"]
