"""Nobody holds all of a process's connections to a database: no merchant, nobody unknown, no address."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from ipaddress import ip_address

import orjson
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from tests.integration.api_harness import api_pool
from tests.servers.database import Database
from tests.waiting import until
from webhook_dispatcher.api import shares as api_shares
from webhook_dispatcher.api.calls import Head, PublicOperation
from webhook_dispatcher.api.operations.auth import Issuing, TokenForm, TokenRequest
from webhook_dispatcher.api.program import POOL_SIZE
from webhook_dispatcher.api.shares import (
    OF_A_MERCHANT,
    OF_ISSUING,
    OF_UNKNOWN_TOKENS,
    Databases,
    Shares,
    Turns,
)
from webhook_dispatcher.domain.credentials import AccessToken, ClientSecret
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.rate_limit import RateLimits
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.api import database as api_database
from webhook_dispatcher.storage.api.connections import Connections, kept
from webhook_dispatcher.storage.api.database import MAX_WAITING, Share, ask, transaction
from webhook_dispatcher.storage.api.tokens import Bearer
from webhook_dispatcher.storage.statements import load
from webhook_dispatcher.web.clients import Address

LOOK = load("api_limits")["has_api_rows"]
M1, M2 = Bearer(b"t1", 1, "c1", "m1"), Bearer(b"t2", 2, "c2", "m2")
M1_AGAIN = Bearer(b"t3", 3, "c3", "m1")
HERE, ELSEWHERE = ip_address("192.0.2.1"), ip_address("192.0.2.2")
ADDRESSES = [ip_address(f"198.51.100.{number}") for number in range(max(OF_ISSUING, OF_UNKNOWN_TOKENS))]


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


async def test_unknown_tokens_share_a_few_and_leave_the_rest(pool: Connections) -> None:
    shares = Shares(pool)
    assert shares.note(b"t1", M1) is shares.of_token(b"t1", HERE)
    shares.note_issued(b"t2", shares.issuing.of(HERE))
    async with AsyncExitStack() as held:
        for address in ADDRESSES[:OF_UNKNOWN_TOKENS]:
            await held.enter_async_context(shares.of_token(b"invented", address).acquire())
        assert not await is_free(shares.of_token(b"unknown", HERE))
        assert await is_free(shares.issuing.of(HERE)), "who asks for a token"
        assert await is_free(shares.of_token(b"t2", ELSEWHERE)), "who was just issued one"
        assert await is_free(shares.of_token(b"t1", ELSEWHERE))
        shares.forget(b"t1")
        assert not await is_free(shares.of_token(b"t1", HERE)), "the token has ended"
    assert await is_free(shares.of_token(b"unknown", HERE))


async def test_a_token_is_known_where_it_was_issued(pool: Connections, database: Database) -> None:
    secret, client_id = "s" * 43, "c" * 22
    admin = await database.connect("webhook_admin")
    await Administration(admin).create_api_key("m", client_id, ClientSecret(secret).hash, "shop")
    await admin.close()
    databases = Databases({None: pool})
    issuing = Issuing(databases, RateLimits())
    operation = PublicOperation[TokenRequest | TokenForm](
        "POST", "/v1/auth/token", "issue_token", TokenRequest, issuing.issue, limit="token"
    )
    headers = CIMultiDictProxy(CIMultiDict[str]())
    head = Head(operation, {}, "r1", "en", headers, "/v1/auth/token", HERE)
    body = TokenRequest.model_validate({"clientId": client_id, "clientSecret": secret})
    answer = await issuing.issue(head, body)
    token = AccessToken.parse(orjson.loads(answer.data)["accessToken"])
    assert token is not None
    async with AsyncExitStack() as held:
        for address in ADDRESSES[:OF_UNKNOWN_TOKENS]:
            await held.enter_async_context(databases.first.of_token(b"invented", address).acquire())
        assert await is_free(databases.first.of_token(token.hash, HERE))


async def test_who_asks_for_tokens_leaves_the_rest(pool: Connections) -> None:
    shares = Shares(pool)
    async with AsyncExitStack() as held:
        for address in ADDRESSES[:OF_ISSUING]:
            await held.enter_async_context(shares.issuing.of(address).acquire())
        assert not await is_free(shares.issuing.of(HERE))
        assert await is_free(shares.of_token(b"unknown", HERE))
        assert await is_free(shares.note(b"t1", M1))


@pytest.mark.parametrize(
    ("crowd", "other"),
    [
        ([HERE], ELSEWHERE),
        ([ip_address("2001:db8:1::1"), ip_address("2001:db8:1::2")], ip_address("2001:db8:2::1")),
        ([ip_address(f"2001:db8:1:{number:x}::1") for number in range(9)], ip_address("2001:db8:2::1")),
    ],
    ids=["an address", "a /64", "a /48"],
)
async def test_addresses_take_turns(
    pool: Connections, crowd: list[Address], other: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes behind any number of requests of one address waits for one of them."""
    monkeypatch.setattr(api_database, "MAX_WAIT_SECONDS", 60)
    turns, served = Turns(pool, 1), list[str]()

    async def ask(address: Address, name: str) -> None:
        async with turns.of(address).acquire():
            served.append(name)

    count = 3 * MAX_WAITING
    async with asyncio.TaskGroup() as group, turns.of(ip_address("203.0.113.1")).acquire():
        for number in range(count):
            group.create_task(ask(crowd[number % len(crowd)], "crowd"))
        await until(lambda: waiting(turns) == count)
        group.create_task(ask(other, "other"))
        await until(lambda: waiting(turns) == count + 1)
    assert served.index("other") == 1
    assert len(served) == count + 1, "nobody was refused"


def waiting(turns: Turns) -> int:
    return sum(share._waiting for share in (turns._whole, *turns._of_addresses.values()))


async def test_a_merchant_has_a_few_by_all_its_keys_and_leaves_the_rest(pool: Connections) -> None:
    shares = Shares(pool)
    first = shares.note(b"t1", M1)
    async with AsyncExitStack() as held:
        for _ in range(OF_A_MERCHANT):
            await held.enter_async_context(first.acquire())
        again = shares.note(b"t3", M1_AGAIN)
        for refused in (first, again, shares.of_token(b"t3", HERE)):
            with pytest.raises(StorageUnavailable, match="did not answer in time"):
                await ask(refused, LOOK)
            with pytest.raises(StorageUnavailable, match="did not answer in time"):
                async with transaction(refused):
                    pass
        for address in ADDRESSES[:OF_ISSUING]:
            await held.enter_async_context(shares.issuing.of(address).acquire())
        for address in ADDRESSES[:OF_UNKNOWN_TOKENS]:
            await held.enter_async_context(shares.of_token(b"unknown", address).acquire())
        for _ in range(POOL_SIZE - OF_A_MERCHANT - OF_ISSUING - OF_UNKNOWN_TOKENS):
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
