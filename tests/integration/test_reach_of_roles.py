"""What roles that only read cannot hold up, whatever they lock and however long they stay open."""

from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from tests.integration.api_harness import api_pool, token_of
from tests.integration.statement_questions import SUBJECTS
from tests.integration.storage_harness import StorageHarness
from tests.integration.test_notices import ENDPOINT, MANY_FAILED, report
from tests.integration.test_suspending import fail, suspend
from webhook_dispatcher.domain.event import PLATFORM
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.api.events import Events
from webhook_dispatcher.storage.statements import load

READERS = ("webhook_observer", "webhook_api", "webhook_console")
INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m', 'charge.created', '{}')"
TAKE_ID = "SELECT pg_current_xact_id()"
KNOWN_NUMBERS = (
    "hashtextextended('m', 6006)",
    "hashtext('webhook.suspension')",
    "hashtext('webhook.notices')",
)
"""What locks by a number might be taken by."""
MILESTONE = """
INSERT INTO webhook.milestone (at, horizon, next_xid)
SELECT clock_timestamp() - interval '16 minutes', '1', pg_snapshot_xmax(pg_current_snapshot())
"""
PAUSE = "SELECT webhook.own_command($1, 'pause', NULL, NULL, NULL)"
LOCKABLE = ("api_key", "endpoint", "lane", "unreported_failure")
"""Tables whose rows keep others out."""


@pytest.fixture
async def token(storage: StorageHarness) -> bytes:
    return await token_of(storage.db, "m")


@pytest.fixture
async def events(storage: StorageHarness) -> AsyncIterator[Events]:
    async with api_pool(storage.database) as pool:
        yield Events(pool)


async def _is_read(events: Events, token: bytes) -> bool:
    return bool((await events.list(token, None, None, 10)).events)


async def test_no_advisory_lock_stops_commands_suspension_or_notices(
    storage: StorageHarness, token: bytes
) -> None:
    await storage.db.execute(ENDPOINT, PLATFORM)
    await fail(storage)
    await storage.db.execute(MANY_FAILED, 10, 1)
    reader, api = await storage.session(user="webhook_observer"), await storage.session(user="webhook_api")
    for number in KNOWN_NUMBERS:
        await reader.execute(f"SELECT pg_advisory_lock({number})")
    assert await api.fetchval(PAUSE, token) is not None
    assert await suspend(storage) == ["m"]
    assert (await report(await storage.daemon("here"))).written["delivery.failed"] == 1


async def test_advisory_locks_are_left_for_requests_and_migrations_alone(storage: StorageHarness) -> None:
    """The number of a request's is nobody's to know before it is made."""
    functions = await storage.db.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'webhook'::regnamespace AND prosrc ~ 'advisory'"
    )
    assert {row["proname"] for row in functions} == {"own_begin_request"}
    assert {
        each.name for subject in SUBJECTS for each in load(*subject).values() if "advisory" in each.text
    } == {"lock_chosen_indexes"}


@pytest.mark.parametrize("role", ["webhook_producer", *READERS])
async def test_rows_that_keep_others_out_are_locked_by_no_reader(storage: StorageHarness, role: str) -> None:
    connection = await storage.session(user=role)
    for table in LOCKABLE:
        for lock in (f"SELECT FROM webhook.{table} FOR KEY SHARE", f"LOCK TABLE webhook.{table}"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with connection.transaction():
                    await connection.execute(lock)


async def test_two_commands_of_a_merchant_are_given_one_after_the_other(
    storage: StorageHarness, token: bytes
) -> None:
    other_key = await token_of(storage.db, "m")
    first, second = await storage.session(user="webhook_api"), await storage.session(user="webhook_api")
    async with first.transaction():
        assert await first.fetchval(PAUSE, token) is not None
        with pytest.raises(asyncpg.PostgresError, match="other commands of this merchant are being given"):
            await second.fetchval(PAUSE, other_key)
        assert await second.fetchval(PAUSE, await token_of(storage.db, "another")) is not None
    assert await second.fetchval(PAUSE, other_key) is not None


@pytest.mark.parametrize("role", READERS)
async def test_a_reader_that_stays_open_delays_no_event(
    storage: StorageHarness, events: Events, token: bytes, role: str
) -> None:
    reader = await storage.session(user=role)
    async with reader.transaction():
        await reader.fetchval(TAKE_ID)
        await storage.db.execute(INSERT)
        assert await _is_read(events, token)


async def test_another_databases_transaction_delays_no_event(
    storage: StorageHarness, events: Events, token: bytes
) -> None:
    elsewhere = await asyncpg.connect(storage.database.server.dsn())
    try:
        async with elsewhere.transaction():
            await elsewhere.fetchval(TAKE_ID)
            await storage.db.execute(INSERT)
            assert await _is_read(events, token)
    finally:
        await elsewhere.close()


WRITERS = {
    "a producer": "webhook_producer",
    "a reader that may become a producer": "webhook_observer",
    "a reader that may insert": "webhook_console",
}


@pytest.mark.parametrize("role", WRITERS.values(), ids=WRITERS)
async def test_whoever_may_yet_write_is_waited_for(
    storage: StorageHarness, events: Events, token: bytes, role: str
) -> None:
    await storage.db.execute("GRANT webhook_producer TO webhook_observer")
    await storage.db.execute("GRANT INSERT (id) ON webhook.outbox TO webhook_console")
    writer = await storage.session(user=role)
    try:
        async with writer.transaction():
            await writer.fetchval(TAKE_ID)
            await storage.db.execute(INSERT)
            assert not await _is_read(events, token)
    finally:
        await storage.db.execute("REVOKE webhook_producer FROM webhook_observer")
    assert await _is_read(events, token)


@pytest.mark.parametrize("user", ["webhook_admin", "webhook_dispatcher"])
async def test_check_names_who_holds_xmin_back(storage: StorageHarness, user: str) -> None:
    """Whoever asks may not read when a session of others' began; milestones say when it was there."""
    writer = await storage.session(application_name="producer", user="webhook_producer")
    reader = await storage.session(application_name="observer", user="webhook_observer")
    async with writer.transaction(), reader.transaction(isolation="repeatable_read"):
        await reader.fetchval("SELECT count(*) FROM webhook.state")
        for connection in (storage.db, writer, storage.db):
            await connection.fetchval(TAKE_ID)
        await storage.db.execute(MILESTONE)
        async with administration(storage.database.dsn(user)) as asking:
            held = await asking.list_long_transactions(timedelta(minutes=15), 10)
        assert {each.program: each.delays_feed for each in held} == {"producer": True, "observer": False}
    async with administration(storage.database.dsn(user)) as asking:
        assert await asking.list_long_transactions(timedelta(minutes=15), 10) == []
