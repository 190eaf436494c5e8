"""The claims of what is forwarded, raced on a real Postgres; the charge service is a function."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import IPv4Address
from uuid import UUID, uuid4

import asyncpg
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from tests.integration.api_bearers import bearer, revoke
from tests.integration.api_harness import api_pool
from tests.servers.database import Connect, Database
from webhook_dispatcher.api import catalogue as codes
from webhook_dispatcher.api.calls import ApiError, Caller, Head, Request, Response
from webhook_dispatcher.api.charge_service import forwarded
from webhook_dispatcher.api.charge_service.claims import Forward, OnceUpstream
from webhook_dispatcher.api.idempotency import keyed
from webhook_dispatcher.storage.api.database import TokenEnded
from webhook_dispatcher.storage.api.requests import KeptAnswer, Requests
from webhook_dispatcher.storage.api.tokens import Bearer

LONG, OVER = timedelta(seconds=35), timedelta()
CREATE = next(row for row in forwarded.operations(lambda _: _never()) if row.name == "createCharge")
BEARERS: dict[str, Bearer] = {}
LAST_KEY = "SELECT max(id) FROM webhook.api_key"


async def _never() -> Response:
    raise AssertionError


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[asyncpg.Pool]:
    superuser = await database.connect()
    await add_key(superuser, "m1", "c1")
    await add_key(superuser, "m2", "c2")
    await superuser.close()
    async with api_pool(database) as pool:
        yield pool


async def add_key(superuser: asyncpg.Connection, merchant: str, client: str) -> None:
    """Give the merchant a key with a token."""
    token = await bearer(superuser, merchant, client)
    BEARERS[client] = Bearer(token, await superuser.fetchval(LAST_KEY), f"client-{client}", merchant)


def asking(pool: asyncpg.Pool, body: bytes = b"{}", client: str = "c1") -> Request:
    headers = CIMultiDictProxy(CIMultiDict({"Idempotency-Key": "k1"}))
    head = Head(CREATE, {}, "r1", "en", headers, "/v1/charges", IPv4Address("127.0.0.1"))
    return Request(head, Caller(BEARERS[client], pool), body, lambda _: None)


def identity(request: Request) -> bytes:
    return keyed(CREATE.method, request.head.target, "k1", request.body).hash


async def once(asked: Request, act: Forward, patience: timedelta = LONG) -> Response:
    return await OnceUpstream(act, patience).once(asked)


async def refusal(asked: Request, act: Forward) -> int:
    with pytest.raises(ApiError) as caught:
        await once(asked, act)
    return caught.value.code


def answering(text: bytes) -> Forward:
    async def act(_: Request, _key: str | None) -> Response:
        return Response(text, 201)

    return act


def refusing(refused: ApiError) -> Forward:
    async def act(_: Request, _key: str | None) -> Response:
        raise refused

    return act


@pytest.mark.parametrize(
    "late",
    [
        answering(b'"late"'),
        refusing(ApiError(codes.LIMIT_EXCEEDED)),
        refusing(forwarded.OutcomeUnknown(codes.UPSTREAM_AWAY)),
    ],
    ids=["answer", "forget", "doubt"],
)
async def test_a_process_whose_claim_was_taken_over_writes_nothing(pool: asyncpg.Pool, late: Forward) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(asked: Request, key: str | None) -> Response:
        began.set()
        await goes_on.wait()
        return await late(asked, key)

    first = asyncio.create_task(once(asking(pool), slow, OVER))
    await began.wait()
    second = await once(asking(pool), answering(b'"in time"'))
    goes_on.set()
    await asyncio.wait([first])
    assert first.exception() is None or isinstance(first.exception(), ApiError)
    replayed = await once(asking(pool), answering(b'"again"'))
    assert (second.data, replayed.data) == (b'"in time"', b'"in time"')
    assert replayed.headers == {"Idempotent-Replayed": "true"}


async def test_a_late_process_does_not_end_a_claim_that_is_still_held(pool: asyncpg.Pool) -> None:
    events = [asyncio.Event() for _ in range(4)]

    def slow(began: asyncio.Event, goes_on: asyncio.Event, text: bytes) -> Forward:
        async def act(_: Request, _key: str | None) -> Response:
            began.set()
            await goes_on.wait()
            return Response(text)

        return act

    first = asyncio.create_task(once(asking(pool), slow(events[0], events[1], b"1"), OVER))
    await events[0].wait()
    second = asyncio.create_task(once(asking(pool), slow(events[2], events[3], b"2")))
    await events[2].wait()
    events[1].set()
    assert (await first).data == b"1"
    assert await refusal(asking(pool), answering(b"3")) == codes.STILL_RUNNING
    assert await refusal(asking(pool, b"{ }"), answering(b"3")) == codes.KEY_REUSED
    events[3].set()
    assert (await second).data == b"2"
    assert (await once(asking(pool), answering(b"3"))).data == b"2"


async def test_equal_requests_at_once_are_asked_once(pool: asyncpg.Pool, database: Database) -> None:
    derived = []

    async def act(_: Request, key: str | None) -> Response:
        derived.append(key)
        return Response(b"1")

    async with api_pool(database) as other:
        outcomes = await asyncio.gather(
            *(once(asking(each), act) for each in (pool, other) * 50), return_exceptions=True
        )
        refused = [outcome.code for outcome in outcomes if isinstance(outcome, ApiError)]
        answers = [outcome.data for outcome in outcomes if isinstance(outcome, Response)]
        assert (set(refused) <= {codes.STILL_RUNNING}, set(answers)) == (True, {b"1"})
        assert len(refused) + len(answers) == 100
        await once(asking(pool, client="c2"), act)
    assert len(derived) == len(set(derived)) == 2


async def test_who_finds_an_equal_request_about_to_claim_does_not_claim(pool: asyncpg.Pool) -> None:
    asked = asking(pool)
    async with pool.acquire() as connection, connection.transaction():
        requests = Requests(connection, asked.caller.bearer)
        assert await requests.begin(identity(asked)) == (True, None, None)
        assert await refusal(asked, answering(b"1")) == codes.STILL_RUNNING
    assert (await once(asked, answering(b"1"))).data == b"1"


async def test_no_connection_is_held_while_the_charge_service_is_asked(pool: asyncpg.Pool) -> None:
    async def act(_: Request, _key: str | None) -> Response:
        async with pool.acquire(timeout=1), pool.acquire(timeout=1):
            return Response(b"1")

    assert pool.get_max_size() == 2
    assert (await once(asking(pool), act)).data == b"1"


async def test_in_doubt_a_key_keeps_its_body_until_there_is_an_answer(pool: asyncpg.Pool) -> None:
    unknown = refusing(forwarded.OutcomeUnknown(codes.UPSTREAM_TOO_SLOW))
    assert await refusal(asking(pool), unknown) == codes.UPSTREAM_TOO_SLOW
    for code in (codes.LIMIT_EXCEEDED, codes.UPSTREAM_AWAY, codes.STILL_RUNNING, -1003):
        assert await refusal(asking(pool), refusing(ApiError(code))) == code
        assert await refusal(asking(pool, b"{ }"), answering(b"2")) == codes.KEY_REUSED
    assert await refusal(asking(pool), refusing(ApiError(-3004))) == -3004
    assert await refusal(asking(pool), answering(b"2")) == -3004


@pytest.mark.parametrize("code", [codes.LIMIT_EXCEEDED, codes.UPSTREAM_AWAY, -1003, -1007, codes.KEY_REUSED])
async def test_what_had_no_effect_leaves_the_key_to_any_body(pool: asyncpg.Pool, code: int) -> None:
    assert await refusal(asking(pool), refusing(ApiError(code, status=422))) == code
    assert (await once(asking(pool, b"{ }"), answering(b"2"))).data == b"2"


async def test_what_the_charge_service_still_carries_out_is_in_doubt(pool: asyncpg.Pool) -> None:
    assert await refusal(asking(pool), refusing(ApiError(codes.STILL_RUNNING))) == codes.STILL_RUNNING
    assert await refusal(asking(pool, b"{ }"), answering(b"2")) == codes.KEY_REUSED
    assert (await once(asking(pool), answering(b"2"))).data == b"2"


async def test_an_answer_that_cannot_be_kept_is_given_all_the_same(
    pool: asyncpg.Pool, connect: Connect
) -> None:
    superuser = await connect()

    async def act(_: Request, _key: str | None) -> Response:
        await superuser.execute("REVOKE EXECUTE ON FUNCTION webhook.settle_request FROM webhook_api")
        return Response(b"1")

    assert (await once(asking(pool), act, OVER)).data == b"1"
    await superuser.execute("GRANT EXECUTE ON FUNCTION webhook.settle_request TO webhook_api")
    assert (await once(asking(pool), answering(b"2"))).data == b"2"


async def test_a_thing_that_is_written_otherwise_is_the_same_thing(pool: asyncpg.Pool) -> None:
    reverse = next(row for row in forwarded.operations(lambda _: _never()) if row.name == "reverseCharge")
    asked = asking(pool)
    head = asked.head._replace(operation=reverse, parameters={"id": "abc"}, target="/v1/charges/abc/reverse")
    await once(asked._replace(head=head), answering(b"1"))
    encoded = head._replace(target="/v1/charges/%61bc/reverse")
    assert (await once(asked._replace(head=encoded), answering(b"2"))).data == b"1"


async def test_an_answer_is_kept_though_the_token_has_ended_meanwhile(
    pool: asyncpg.Pool, connect: Connect
) -> None:
    superuser = await connect()

    async def act(_: Request, _key: str | None) -> Response:
        await revoke(superuser, "c1")
        return Response(b"1", 201)

    assert (await once(asking(pool), act)).data == b"1"
    with pytest.raises(TokenEnded):
        await once(asking(pool), answering(b"2"))
    await superuser.execute("UPDATE webhook.api_key SET revoked_at = NULL, revoked_by = NULL")
    assert (await once(asking(pool), answering(b"2"))).data == b"1"


async def test_whoever_has_another_token_finds_and_overwrites_nothing(pool: asyncpg.Pool) -> None:
    """The same request by another API key, and what is known of the first but its token or its claim."""
    request_hash = identity(asking(pool))
    ours, others = (Requests(pool, BEARERS[client]) for client in ("c1", "c2"))
    claim = await ours.claim(request_hash, request_hash, LONG)
    assert await others.begin(request_hash) == (True, None, None)
    stolen = KeptAnswer(200, "en", '"stolen"')
    await others.keep_answer(request_hash, request_hash, stolen)
    await others.answer(request_hash, claim, stolen)
    await others.forget(request_hash, claim)
    for guessed in (UUID(int=0), uuid4()):
        await ours.answer(request_hash, guessed, stolen)
        await ours.forget(request_hash, guessed)
    _, known, _ = await ours.begin(request_hash)
    assert known is not None
    assert (known.answer, known.asked_for is not None) == (None, True)
    await ours.answer(request_hash, claim, KeptAnswer(200, "en", '"ours"'))
    _, known, _ = await ours.begin(request_hash)
    assert known is not None
    assert known.answer == KeptAnswer(200, "en", '"ours"')
