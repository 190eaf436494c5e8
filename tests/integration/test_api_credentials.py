"""Keys and access tokens of the Partner API: who is let in, who is not, and what that takes."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from tests.integration.api_harness import api_pool
from tests.integration.storage_harness import PATIENCE
from tests.servers.database import Database
from tests.waiting import until, until_found
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.rate_limit import Limit
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.api import database as api_database
from webhook_dispatcher.storage.api import expiry
from webhook_dispatcher.storage.api.connections import Connections
from webhook_dispatcher.storage.api.limits import Limits, Subject
from webhook_dispatcher.storage.api.requests import KeptAnswer, Requests
from webhook_dispatcher.storage.api.tokens import Bearer, Issued, TokenLookup, Tokens
from webhook_dispatcher.storage.connection import connect
from webhook_dispatcher.storage.session import PLANNED_ONCE
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
LIMIT = Limit(600, MINUTE)
CLIENT = "Yc2mUTZkIhXnFQ0sLr1d_w"
FORGET = "UPDATE webhook.api_token SET expires_at = clock_timestamp() - interval '2 minutes'"
KEYS_READ = """
SELECT seq_scan + idx_scan, seq_tup_read + idx_tup_fetch
FROM pg_stat_xact_user_tables WHERE relid = 'webhook.api_key'::regclass
"""


def sha(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


@pytest.fixture
async def api(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Connect as the Partner API does."""
    connection = await connect(
        database.dsn("webhook_api"), application_name="api", command_timeout=PATIENCE, planning=PLANNED_ONCE
    )
    yield connection
    await connection.close()


@pytest.fixture
async def admin(database: Database) -> AsyncIterator[Administration]:
    """Administrate as ana, with a key for merchant m whose secret is `s`."""
    connection = await database.connect("webhook_admin")
    opened = Administration(connection)
    opened.person = "cli:ana"
    await opened.create_api_key("m", CLIENT, sha("s"), "online shop")
    yield opened
    await connection.close()


async def ask_for(
    api: asyncpg.Connection,
    client: str,
    secret: bytes,
    token: bytes,
    lifetime: timedelta = HOUR,
    address: str = "192.0.2.1",
    most: int = 0,
) -> Issued:
    """Ask for a token; most: of the client, everywhere and from an address, 0 for no limit."""
    limit = Limit(most, MINUTE)
    of_issued, of_attempts = Subject(f"client:{client}", limit), Subject(f"client:{client}:{address}", limit)
    return await Tokens(api).issue(client, secret, token, lifetime, of_issued, [of_attempts])


async def issue(api: asyncpg.Connection, token: str = "t") -> None:
    assert (await ask_for(api, CLIENT, sha("s"), sha(token))).state == "issued"


async def state(api: asyncpg.Connection, token: str = "t") -> str:
    return (await Tokens(api).admit(sha(token), LIMIT)).state


async def test_a_token_is_issued_for_the_right_secret_and_lets_its_merchant_in(
    admin: Administration, api: asyncpg.Connection, db: asyncpg.Connection
) -> None:
    tokens = Tokens(api)
    issued = await ask_for(api, CLIENT, sha("s"), sha("t"), 9 * HOUR)
    assert issued.expires_at is not None
    assert timedelta() < issued.expires_at - datetime.now(UTC) <= HOUR, "an hour at most"
    admitted = await tokens.admit(sha("t"), LIMIT)
    assert admitted.bearer is not None
    assert (admitted.bearer.merchant_id, admitted.bearer.client_id) == ("m", CLIENT)
    assert admitted.taken is not None
    assert (admitted.taken.remaining, admitted.taken.retry_after) == (599, None)
    assert await db.fetchval("SELECT array_agg(subject) FROM webhook.api_usage") == [
        f"key:{admitted.bearer.api_key_id}"
    ]


async def test_over_the_keys_limit_a_live_token_is_told_when_to_come_again(
    admin: Administration, api: asyncpg.Connection
) -> None:
    await issue(api, "t")
    await issue(api, "of the same key")
    once = Limit(1, MINUTE)
    assert (await Tokens(api).admit(sha("t"), once)).taken is not None
    taken = (await Tokens(api).admit(sha("of the same key"), once)).taken
    assert taken is not None
    # What was taken counts from the next millisecond on: within that millisecond a minute is not enough.
    assert taken.retry_after in (MINUTE, MINUTE + timedelta(seconds=1))


async def test_who_is_not_let_in_takes_nothing(
    admin: Administration, api: asyncpg.Connection, db: asyncpg.Connection
) -> None:
    await issue(api)
    assert await Tokens(api).admit(sha("x"), LIMIT) == TokenLookup("unknown")
    await admin.revoke_api_key(CLIENT)
    assert await Tokens(api).admit(sha("t"), LIMIT) == TokenLookup("revoked")
    await db.execute(FORGET)
    assert await Tokens(api).admit(sha("t"), LIMIT) == TokenLookup("expired")
    assert await db.fetchval("SELECT count(*) FROM webhook.api_usage") == 0


async def test_a_revoked_key_lets_nobody_in_from_the_next_request_on(
    admin: Administration, api: asyncpg.Connection
) -> None:
    await issue(api)
    assert await state(api) == "live"
    assert await admin.revoke_api_key(CLIENT) is True
    assert await state(api) == "revoked"
    assert await admin.revoke_api_key(CLIENT) is False
    assert await admin.revoke_api_key("nobody") is None


async def test_a_revoked_key_is_told_only_with_the_right_secret(
    admin: Administration, api: asyncpg.Connection
) -> None:
    await admin.revoke_api_key(CLIENT)
    assert (await ask_for(api, CLIENT, sha("s"), sha("t"))).state == "revoked"
    assert (await ask_for(api, CLIENT, sha("x"), sha("t"))).state == "wrong"
    assert await state(api) == "unknown", "none was issued"


@pytest.mark.parametrize(
    ("client", "secret"), [(CLIENT, sha("x")), ("nobody", sha("s")), ("nobody", sha("nobody"))]
)
async def test_wrong_credentials_get_one_answer_and_take_one_statement(
    admin: Administration, api: asyncpg.Connection, client: str, secret: bytes
) -> None:
    # asyncpg asks for types once in each connection.
    await issue(api, "before")
    asked: list[str] = []
    with api.query_logger(lambda query: asked.append(query.query)):
        issued = await ask_for(api, client, secret, sha("t"))
        assert (issued.state, issued.expires_at) == ("wrong", None)
        assert (await ask_for(api, CLIENT, sha("s"), sha("t"))).state == "issued"
        await until(lambda: len(asked) >= 2)
    assert len(asked) == 2
    assert len(set(asked)) == 1, "the same as right ones take"


async def test_a_wrong_secret_takes_nothing_of_the_clients_own_limit(
    admin: Administration, api: asyncpg.Connection, db: asyncpg.Connection
) -> None:
    wrong = [await ask_for(api, CLIENT, sha("x"), sha("t"), most=2) for _ in range(3)]
    assert [(issued.state, issued.taken.left) for issued in wrong] == [
        ("wrong", (2, 1)),
        ("wrong", (2, 0)),
        ("wrong", (2, 0)),
    ]
    assert [issued.taken.retry_after is None for issued in wrong] == [True, True, False]
    issued = [
        await ask_for(api, CLIENT, sha("s"), sha(f"t{number}"), address=f"192.0.2.{number}", most=2)
        for number in range(2, 5)
    ]
    assert [(each.state, each.taken.left) for each in issued[:2]] == [("issued", (1, 1)), ("issued", (0, 1))]
    assert issued[2].taken.retry_after is not None
    assert issued[2].expires_at is None
    assert await db.fetchval("SELECT count(*) FROM webhook.api_token") == 2, "none where a limit is reached"


async def test_the_right_secret_waits_for_a_wrong_one_and_is_not_refused_for_it(
    admin: Administration, database: Database, api: asyncpg.Connection, db: asyncpg.Connection
) -> None:
    """What a wrong secret took of the client's limit is locked until it is released."""
    other = await database.connect("webhook_api")
    # The wrong one has taken its limits when it comes to the keys, and is kept there.
    async with asyncio.TaskGroup() as group, db.transaction():
        await db.execute("LOCK TABLE webhook.api_key IN ACCESS EXCLUSIVE MODE")
        wrong = group.create_task(ask_for(api, CLIENT, sha("x"), sha("t"), address="192.0.2.66", most=1))
        await until_found(lambda: is_blocked(db, api))
        right = group.create_task(ask_for(other, CLIENT, sha("s"), sha("t"), most=1))
        await until_found(lambda: is_blocked(db, other))
    assert (wrong.result().state, right.result().state) == ("wrong", "issued")
    await other.close()


async def is_blocked(db: asyncpg.Connection, asking: asyncpg.Connection) -> bool:
    blocked: bool = await db.fetchval("SELECT pg_blocking_pids($1) <> '{}'", asking.get_server_pid())
    return blocked


async def test_an_unknown_client_has_as_many_keys_looked_up_and_read_as_a_known_one(
    admin: Administration, db: asyncpg.Connection
) -> None:
    """Reading a key takes microseconds, by which a client that is there would differ from one that is not."""
    await db.execute("SET enable_seqscan = off")
    await db.execute("SET enable_bitmapscan = off")
    looked = []
    for client in (CLIENT, "nobody", "~~~", ""):
        async with db.transaction():
            [before] = await db.fetch(KEYS_READ)
            await db.execute(
                "SELECT FROM webhook.issue_token($1, sha256('x'), sha256('t'), '1 hour')", client
            )
            [after] = await db.fetch(KEYS_READ)
        looked.append([now - then for now, then in zip(after, before, strict=True)])
    assert looked == [[2, 1]] * 4


async def test_use_is_written_down_once_a_minute_and_waits_for_nobody(
    admin: Administration, api: asyncpg.Connection, db: asyncpg.Connection
) -> None:
    await issue(api)
    tokens = Tokens(api)
    admitted = await tokens.admit(sha("t"), LIMIT)
    assert admitted.is_use_due
    assert admitted.bearer is not None
    async with db.transaction():
        await db.execute("SELECT FROM webhook.api_key FOR UPDATE")
        await tokens.note_use(admitted.bearer.api_key_id)
    assert (await admin.list_api_keys("m"))[0].last_used_at is None, "somebody else held it"
    await tokens.note_use(admitted.bearer.api_key_id)
    first = (await admin.list_api_keys("m"))[0].last_used_at
    assert first is not None
    assert not (await tokens.admit(sha("t"), LIMIT)).is_use_due
    await tokens.note_use(admitted.bearer.api_key_id)
    assert (await admin.list_api_keys("m"))[0].last_used_at == first
    await db.execute("UPDATE webhook.api_key SET last_used_at = last_used_at - interval '61 seconds'")
    assert (await tokens.admit(sha("t"), LIMIT)).is_use_due


async def test_keys_are_audited_and_listed_without_what_could_prove_one(
    admin: Administration, database: Database
) -> None:
    await admin.create_api_key("n", "other", sha("s2"), " shop ")
    await admin.revoke_api_key(CLIENT)
    rows = await admin.connection.fetch("SELECT * FROM webhook.audit ORDER BY id")
    assert [(row["action"], row["person"], row["merchant_id"]) for row in rows] == [
        ("api key created", "cli:ana", "m"),
        ("api key created", "cli:ana", "n"),
        ("api key revoked", "cli:ana", "m"),
    ]
    assert sha("s").hex() not in str(rows)
    observer = await database.connect("webhook_observer")
    for connection in (admin.connection, observer):
        row = await connection.fetchrow("SELECT * FROM webhook.api_keys WHERE merchant_id = 'm'")
        assert row is not None
        assert row["revoked_by"] == "cli:ana"
        assert "secret_hash" not in row
    await observer.close()
    assert [(key.client_id, key.name) for key in await admin.list_api_keys(None)] == [
        (CLIENT, "online shop"),
        ("other", "shop"),
    ]


async def test_a_key_is_for_merchants_that_the_outbox_takes(
    admin: Administration, db: asyncpg.Connection
) -> None:
    for merchant in ("$platform", "", "m\n", "x" * 129):
        with pytest.raises(StatementRefused, match=r"platform|merchant_id_has_1_to_128"):
            await admin.create_api_key(merchant, "other", sha("s"), "shop")
    assert await db.fetchval("SELECT count(*) FROM webhook.api_key") == 1


async def test_what_expired_is_cleared_away_in_chunks_past_what_is_locked(
    admin: Administration, api: asyncpg.Connection, db: asyncpg.Connection, database: Database
) -> None:
    bearers = [Bearer(sha(f"t{number}"), 1, CLIENT, "m") for number in range(7)]
    for number, bearer in enumerate(bearers):
        await issue(api, f"t{number}")
        subjects = [Subject(f"{kind}:{number}", LIMIT, kind == "card") for kind in ("key", "card")]
        await Limits(api).take(subjects)
        await Requests(api, bearer).keep_answer(sha(f"r{number}"), sha("{}"), KeptAnswer(200, "en", "{}"))
    tables = {"api_token": "hash", "api_request": "hash", "api_usage": "subject", "card_attempts": "subject"}
    for table, key in tables.items():
        await db.execute(
            f"UPDATE webhook.{table} SET expires_at = clock_timestamp() - interval '61 seconds' "
            f"WHERE {key} <> ALL(ARRAY(SELECT {key} FROM webhook.{table} ORDER BY {key} LIMIT 2))"
        )
    holder = await database.connect()
    async with database.pool("daemon", 1, PATIENCE) as pool, holder.transaction():
        for table, key in tables.items():
            await holder.execute(f"SELECT FROM webhook.{table} ORDER BY {key} DESC LIMIT 1 FOR UPDATE")
        assert await expiry.clear(pool, 2) == 8
        left = [await db.fetchval(f"SELECT count(*) FROM webhook.{table}") for table in tables]
        assert left == [3, 3, 3, 3], "two live ones and one that was locked"
    await holder.close()


async def test_a_connection_is_waited_for_within_bounds(
    admin: Administration, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside a transaction too: requests that wait for a database that hangs would pile up."""
    monkeypatch.setattr(api_database, "MAX_WAIT_SECONDS", 0.05)
    async with api_pool(database) as pool, pool.acquire(), pool.acquire():
        tokens = Tokens(api_database.Share(Connections(pool), 1))
        async with asyncio.timeout(10):
            with pytest.raises(StorageUnavailable, match="did not answer in time"):
                await tokens.admit(sha("t"), LIMIT)


async def test_upkeep_takes_one_look_where_there_is_no_api(database: Database) -> None:
    asked: list[str] = []
    async with database.pool("daemon", 1, PATIENCE) as pool:
        async with pool.acquire() as connection:
            connection.add_query_logger(lambda query: asked.append(query.query))
        assert await PostgresUpkeep(pool).clear_api_rows() == 0
        await pool.execute("SELECT 'the end'")
        await until(lambda: asked[-1:] == ["SELECT 'the end'"])
    assert len(asked) == 2
