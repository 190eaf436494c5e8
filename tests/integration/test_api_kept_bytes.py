"""What is kept for an API key's requests has a bound in bytes; nothing that is kept is dropped early."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import IPv4Address

import asyncpg
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from tests.integration.api_bearers import bearer
from tests.integration.api_harness import api_pool
from tests.servers.database import Database
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.api import idempotency
from webhook_dispatcher.api.calls import (
    ApiError,
    Caller,
    ForwardedOperation,
    Head,
    MerchantOperation,
    Request,
    Response,
)
from webhook_dispatcher.api.charge_service import forwarded
from webhook_dispatcher.api.charge_service.claims import OnceUpstream
from webhook_dispatcher.api.validation import Nothing
from webhook_dispatcher.storage.api import expiry
from webhook_dispatcher.storage.api.tokens import Bearer

BOUND = 1_073_741_824
LARGE = b'"%b"' % (b"x" * 1_048_574)
HOUR, PATIENCE = timedelta(hours=1), timedelta(seconds=35)
LAST_KEY = "SELECT max(id) FROM webhook.api_key"
COUNTED = "SELECT coalesce(sum(bytes), 0)::bigint FROM webhook.api_kept_bytes"
KEPT = "SELECT coalesce(sum(octet_length(answer)), 0) FROM webhook.api_request"
FILL = """
INSERT INTO webhook.api_kept_bytes (api_key_id, expires_at, bytes)
VALUES ($1, clock_timestamp() + $2::interval, $3)
"""
SHIFT = "UPDATE webhook.api_kept_bytes SET expires_at = expires_at - $1::interval"


async def _never(_request: Request, _input: object = None) -> Response:
    raise AssertionError


FORWARDED = next(row for row in forwarded.operations(_never) if row.name == "createCharge")
OURS = MerchantOperation("PUT", "/v1/webhook", "putWebhook", Nothing, _never, idempotency="accepted")
OneOfThem = ForwardedOperation | MerchantOperation[Nothing]


class Key:
    """An API key, whose requests are carried out as the program does."""

    def __init__(self, pool: asyncpg.Pool, bearer: Bearer, operation: OneOfThem) -> None:
        self._pool = pool
        self.operation = operation
        self.bearer = bearer
        self.effects = 0

    async def ask(self, key: str, answer: bytes = b"1", refused: ApiError | None = None) -> Response:
        async def act(_: Request, _key: str | None = None) -> Response:
            self.effects += 1
            if refused is not None:
                raise refused
            return Response(answer, 201)

        if isinstance(self.operation, ForwardedOperation):
            return await OnceUpstream(act, PATIENCE).once(self._request(key))
        return await idempotency.once(self.operation, self._request(key), act)

    async def refusal(self, key: str) -> ApiError:
        with pytest.raises(ApiError) as caught:
            await self.ask(key)
        return caught.value

    def on(self, operation: OneOfThem) -> "Key":
        return Key(self._pool, self.bearer, operation)

    def _request(self, key: str) -> Request:
        headers = CIMultiDictProxy(CIMultiDict({"Idempotency-Key": key} if key else {}))
        address = IPv4Address("127.0.0.1")
        head = Head(self.operation, {}, "r1", "en", headers, self.operation.template, address)
        return Request(head, Caller(self.bearer, self._pool), b"{}", lambda _: None)


@pytest.fixture(params=[FORWARDED, OURS], ids=["forwarded", "ours"])
async def keys(
    request: pytest.FixtureRequest, database: Database, db: asyncpg.Connection
) -> AsyncIterator[tuple[Key, Key]]:
    """Two keys of one merchant."""
    async with api_pool(database, size=8) as pool:
        bearers = [
            Bearer(await bearer(db, "m1", client), await db.fetchval(LAST_KEY), f"client-{client}", "m1")
            for client in ("c1", "c2")
        ]
        yield Key(pool, bearers[0], request.param), Key(pool, bearers[1], request.param)


async def fill(db: asyncpg.Connection, key: Key, expires_in: timedelta, size: int) -> None:
    """Have so much more kept for a key that expires after that."""
    await db.execute(FILL, key.bearer.api_key_id, expires_in, size)


async def test_above_the_bound_a_new_request_has_no_effect_and_all_that_is_kept_is_told(
    keys: tuple[Key, Key], db: asyncpg.Connection
) -> None:
    key, other = keys
    await fill(db, key, HOUR / 2, BOUND - len(LARGE))
    with pytest.raises(ApiError):
        await key.ask("refused", refused=ApiError(codes.NOT_CONFIGURED, status=409))
    assert (await key.ask("last", LARGE)).data == LARGE, "there was room for a part of it"
    effects = key.effects
    refused = await key.refusal("new")
    assert refused.code == codes.LIMIT_EXCEEDED
    assert 1 <= int(refused.headers["Retry-After"]) <= 1800
    assert key.effects == effects
    replayed = await key.ask("last")
    assert (replayed.data, replayed.headers) == (LARGE, {"Idempotent-Replayed": "true"})
    is_kept = key.operation is FORWARDED
    told_again = codes.NOT_CONFIGURED if is_kept else codes.LIMIT_EXCEEDED
    assert (await key.refusal("refused")).code == told_again, "of ours no refusal is kept"
    assert key.effects == effects
    assert (await other.ask("new")).data == b"1", "another key of the same merchant"
    assert (await key.on(OURS).ask("")).data == b"1", "without an Idempotency-Key nothing is kept"


async def test_when_enough_has_expired_new_requests_go_on(
    keys: tuple[Key, Key], db: asyncpg.Connection
) -> None:
    key, _ = keys
    for hours in (1, 2, 3):
        await fill(db, key, hours * HOUR, BOUND // 2)
    # Of three halves, two must have gone; one alone leaves as much as the bound.
    assert 3600 < int((await key.refusal("new")).headers["Retry-After"]) <= 7200
    await db.execute(SHIFT, HOUR)
    assert 1 <= int((await key.refusal("new")).headers["Retry-After"]) <= 3600
    await db.execute(SHIFT, HOUR)
    assert (await key.ask("new")).data == b"1"


async def test_each_kept_byte_is_counted_once_for_as_long_as_it_is_kept(
    keys: tuple[Key, Key], db: asyncpg.Connection
) -> None:
    key, _ = keys
    texts = [b'"%b"' % (b"x" * number) for number in range(40)]
    await asyncio.gather(*(key.ask(f"k{number}", text) for number, text in enumerate(texts)))
    await asyncio.gather(*(key.ask(f"k{number}") for number, _ in enumerate(texts)))
    assert await db.fetchval(COUNTED) == await db.fetchval(KEPT) == sum(map(len, texts))
    with pytest.raises(ApiError):
        await key.ask("not kept", refused=ApiError(codes.UNAVAILABLE))
    assert await db.fetchval(COUNTED) == await db.fetchval(KEPT)
    hours = "SELECT count(*) FROM webhook.api_kept_bytes"
    assert await db.fetchval(hours) <= 2
    early = """
    SELECT count(*) FROM webhook.api_request WHERE expires_at >= (
        SELECT max(expires_at) FROM webhook.api_kept_bytes
    )
    """
    assert await db.fetchval(early) == 0, "a count never ends before what is counted"


async def test_a_key_in_doubt_is_asked_again_above_the_bound(
    keys: tuple[Key, Key], db: asyncpg.Connection
) -> None:
    key = keys[0].on(FORWARDED)
    with pytest.raises(ApiError):
        await key.ask("in doubt", refused=forwarded.OutcomeUnknown(codes.UPSTREAM_AWAY))
    await fill(db, key, HOUR, BOUND)
    assert (await key.ask("in doubt", b"2")).data == b"2"
    assert (await key.ask("in doubt", b"3")).data == b"2"
    assert (await key.refusal("new")).code == codes.LIMIT_EXCEEDED


async def test_counts_that_expired_are_cleared_away(
    keys: tuple[Key, Key], db: asyncpg.Connection, database: Database
) -> None:
    key, other = keys
    for hours in (-3, -2, 1):
        await fill(db, key, hours * HOUR, 1)
    await fill(db, other, -HOUR, 1)
    async with database.pool("daemon", 1, timedelta(seconds=20)) as pool:
        await expiry.clear(pool, 2)
    assert await db.fetchval("SELECT array_agg(api_key_id) FROM webhook.api_kept_bytes") == [
        key.bearer.api_key_id
    ]
