"""What an attempt saw, from its record to whoever may read it: why it failed, and how the answer began."""

from uuid import uuid4

import asyncpg
import pytest

from tests.integration.storage_harness import LAPSED, LEASE, Daemon, StorageHarness, answered
from tests.servers.database import Database
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.event import TEST_EVENT_TYPE, State
from webhook_dispatcher.domain.ports import TestLog
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.controls import PostgresControls

WHY, SAID = "503 Service Unavailable", "out of order: \u00e9\ufffd\U0001f600"
TEXTS = ("reason", "response_excerpt")


def telling(record: Record) -> Record:
    """Give a failed attempt its texts."""
    assert record.attempt is not None
    return record._replace(attempt=record.attempt._replace(reason=WHY, response_excerpt=SAID))


async def test_a_failed_attempt_is_logged_with_its_texts_and_a_delivered_one_without(
    storage: StorageHarness, here: Daemon
) -> None:
    await storage.insert("m", "{}", "{}")
    lease, (failed, delivered) = await here.claim("m")
    now = await storage.now()
    records = [telling(answered(failed, lease.epoch, now, 503)), answered(delivered, lease.epoch, now, 200)]
    await here.records.write(records, [], LEASE)
    [first], [second] = [await storage.attempts(event) for event in (failed, delivered)]
    assert [first[text] for text in TEXTS] == [WHY, SAID]
    assert [second[text] for text in TEXTS] == [None, None]


async def test_a_row_that_was_not_sent_leaves_no_texts(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert("m")
    lease, (event,) = await here.claim("m")
    record = answered(event, lease.epoch, await storage.now(), 503)._replace(attempt=None)
    await here.records.write([record], [], LEASE)
    assert await storage.attempts(event) == []


async def test_a_late_attempt_is_logged_with_its_texts(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert("m")
    old, (event,) = await here.claim("m", lease=LAPSED)
    await (await storage.daemon("there")).lease("m")
    assert await here.records.write_late(telling(answered(event, old.epoch, await storage.now(), 503)))
    [logged] = await storage.attempts(event)
    assert [logged[text] for text in TEXTS] == [WHY, SAID]


async def test_a_test_event_is_logged_with_its_texts(storage: StorageHarness, here: Daemon) -> None:
    await storage.insert("m")
    _, (event,) = await here.claim("m")
    attempt = telling(answered(event, 0, await storage.now(), 503)).attempt
    assert attempt is not None
    tested = event._replace(id=uuid4(), type=TEST_EVENT_TYPE)
    async with PostgresControls(here.pool).transaction() as transaction:
        await transaction.log_test_event(TestLog(tested, attempt, State.FAILED))
    [logged] = await storage.attempts(tested)
    assert [logged[text] for text in TEXTS] == [WHY, SAID]


async def test_an_observer_reads_why_and_not_what_was_answered(
    storage: StorageHarness, here: Daemon, database: Database
) -> None:
    await storage.insert("m")
    lease, (event,) = await here.claim("m")
    await here.records.write([telling(answered(event, lease.epoch, await storage.now(), 503))], [], LEASE)
    observer, admin = await database.connect("webhook_observer"), await database.connect("webhook_admin")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await observer.fetch("SELECT response_excerpt FROM webhook.responses")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await observer.fetch("SELECT response_excerpt FROM webhook.attempt_log")
    seen = [await Administration(who).list_attempts(event.id) for who in (observer, admin)]
    assert [[(view.reason, view.response_excerpt) for view in views] for views in seen] == [
        [(WHY, None)],
        [(WHY, SAID)],
    ]
    await observer.close()
    await admin.close()


@pytest.mark.parametrize(("encoding", "is_refused"), [("LATIN1", True), ("SQL_ASCII", False)])
async def test_excerpts_need_a_database_that_can_store_them(
    database: Database, encoding: str, is_refused: bool
) -> None:
    superuser = await database.connect()
    other = Database(database.server, f"{database.name}_other")
    await superuser.execute(
        f"CREATE DATABASE {other.name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    )
    connection = await other.connect()
    try:
        if is_refused:
            with pytest.raises(ConfigurationError, match="LATIN1"):
                await schema.check_encoding(connection)
        else:
            await schema.check_encoding(connection)
    finally:
        await connection.close()
        await superuser.execute(f"DROP DATABASE {other.name} WITH (FORCE)")
        await superuser.close()
