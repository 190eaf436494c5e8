"""The audit: triggers write down what operators change, whoever does it, without secrets and for good."""

import json
from typing import Any

import asyncpg
import pytest

from tests.integration.storage_harness import StorageHarness
from tests.servers.database import Connect, Database
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.controls import PostgresControls

SET = """
INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ('m', 'https://a/', 'sealed', 'k1')
"""
GIVE = """
INSERT INTO webhook.control (command, merchant_id, args, requested_by)
VALUES ($1, 'm', $2, 'ana') RETURNING id
"""


async def audited(connection: asyncpg.Connection) -> list[tuple[str, str, str | None, Any, Any]]:
    """Return role, action, person, before and after of each row, in order."""
    rows = await connection.fetch("SELECT * FROM webhook.audit ORDER BY id")
    return [
        (
            row["role"],
            row["action"],
            row["person"],
            *(json.loads(row[name]) if row[name] else None for name in ("before", "after")),
        )
        for row in rows
    ]


async def test_every_change_of_an_endpoint_is_written_down_without_secrets(connect: Connect) -> None:
    admin = await connect("webhook_admin")
    for change in (
        SET,
        "UPDATE webhook.endpoint SET url = 'https://b/'",
        "UPDATE webhook.endpoint SET secret = 'other', secret_created_at = clock_timestamp(), "
        "previous_secret = secret, previous_key_id = key_id, "
        "previous_until = clock_timestamp() + interval '1 day'",
        "UPDATE webhook.endpoint SET secret = 'anew', key_id = 'k2'",
        "DELETE FROM webhook.endpoint",
    ):
        await admin.execute(change)
    rows = await audited(admin)
    assert [(role, action) for role, action, *_ in rows] == [
        ("webhook_admin", action)
        for action in ("endpoint set", "url changed", "secret rotated", "secret rekeyed", "endpoint removed")
    ]
    changes = [(before, after) for *_, before, after in rows]
    assert [(b and b["url"], a and a["url"]) for b, a in changes[:2]] == [
        (None, "https://a/"),
        ("https://a/", "https://b/"),
    ]
    assert (changes[3][0]["key_id"], changes[3][1]["key_id"]) == ("k1", "k2")
    assert changes[4][1] is None
    text = str(await admin.fetch("SELECT audit::text FROM webhook.audit"))
    assert "sealed" not in text
    assert "73656c6564" not in text, "nor in hexadecimal digits"


async def test_the_person_is_whom_the_transaction_names(connect: Connect) -> None:
    admin = await connect("webhook_admin")
    async with admin.transaction():
        await admin.execute("SELECT set_config('webhook.person', 'cli:ana', true)")
        await admin.execute(SET)
    await admin.execute("DELETE FROM webhook.endpoint")
    assert [person for _, _, person, *_ in await audited(admin)] == ["cli:ana", None]


async def test_commands_are_written_down_as_they_are_given(connect: Connect) -> None:
    admin = await connect("webhook_admin")
    number = await admin.fetchval(GIVE, "set_url", '{"url": "https://c/"}')
    await admin.fetchval(GIVE, "x" * 5000, json.dumps({"much": "x" * 5000}))
    first, second = await audited(admin)
    rows = await admin.fetch("SELECT merchant_id FROM webhook.audit")
    assert [row["merchant_id"] for row in rows] == ["m", "m"]
    after = {"id": number, "event_id": None, "args": {"url": "https://c/"}}
    assert first == ("webhook_admin", "command set_url", "ana", None, after)
    assert (len(second[1]), second[4]["args"]) == (len("command ") + 100, None), "what is long is cut"


async def test_a_url_that_a_daemon_changes_for_somebody_names_that_person(
    storage: StorageHarness, connect: Connect
) -> None:
    admin = await connect("webhook_admin")
    await admin.execute(SET)
    number = await admin.fetchval(GIVE, "set_url", '{"url": "https://c/"}')
    daemon = await storage.daemon("d1")
    async with PostgresControls(daemon.pool).transaction() as transaction:
        await transaction.set_url("m", "https://c/", number)
        await transaction.pause("m", True)
    *_, changed = await audited(admin)
    assert changed[:3] == ("webhook_dispatcher", "url changed", "ana")
    async with PostgresControls(daemon.pool).transaction() as transaction:
        await transaction.set_url("m", "https://d/", 0)
    assert await admin.fetchval("SELECT url FROM webhook.endpoint") == "https://c/", "of no command"


async def test_an_endpoints_history_has_its_changes_and_the_commands_that_make_some(connect: Connect) -> None:
    admin = await connect("webhook_admin")
    for change in (SET, "UPDATE webhook.endpoint SET url = 'https://b/'"):
        await admin.execute(change)
    given = [await admin.fetchval(GIVE, name, "{}") for name in ("pause", "recover")]
    asked = await admin.fetchval(GIVE, "set_url", '{"url": "https://c/"}')
    await admin.execute(SET.replace("'m'", "'n'"))
    found = await Administration(admin).endpoint_history("m", 50)
    assert [(row.action, row.command_id, row.url_before, row.url_after) for row in found] == [
        ("endpoint set", None, None, "https://a/"),
        ("url changed", None, "https://a/", "https://b/"),
        ("command pause", given[0], None, None),
        ("command set_url", asked, None, "https://c/"),
    ]
    assert (found[2].person, found[0].role) == ("ana", "webhook_admin")
    assert await Administration(admin).endpoint_history("m", 2) == found[2:], "the latest ones"


async def test_nobody_changes_what_was_written_down(connect: Connect) -> None:
    admin = await connect("webhook_admin")
    await admin.execute(SET)
    for role in ("postgres", "webhook_admin", "webhook_dispatcher"):
        connection = await connect(role)
        for change in ("UPDATE webhook.audit SET person = 'x'", "DELETE FROM webhook.audit"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(change)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("TRUNCATE webhook.audit")
        assert len(await audited(admin)) == 1, role
        await connection.close()


async def test_who_may_not_administrate_may_not_read_it(database: Database) -> None:
    for role in ("webhook_observer", "webhook_producer"):
        connection = await database.connect(role)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT FROM webhook.audit")
        await connection.close()
