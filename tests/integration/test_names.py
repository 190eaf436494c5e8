"""Names that requests have: set by admins, audited, and kept from programs that would not know."""

import json

import asyncpg
import pytest

from tests.servers.database import Database
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names, prefix_fault, user_agent_fault
from webhook_dispatcher.storage import installation, schema
from webhook_dispatcher.storage.administration import Administration, administration

BEATS = (
    "INSERT INTO webhook.dispatcher (owner, host, version, started_at, beat_at, lanes, attempts_in_flight, "
    "is_ready, reasons, faults) VALUES ('o', 'h1', '0.9', now(), clock_timestamp(), 0, 0, true, '{}', '{}')"
)
"""As a dispatcher writes it that is of the version before."""
COMPATIBLE = "SELECT compatible_from FROM webhook.state"
RESET = (DEFAULT_NAMES.header_prefix, "", DEFAULT_NAMES.signatures)
TEXTS = (
    *("Acme-", "acme-", "A-", "X-Acme-", "X1-2--", "Service-", "a" * 31 + "-", "Webhooks-", "X-Webhook-"),
    *("", "-", "Acme", "1-", "-A-", "A_B-", "Acme -", "Acmé-", "Acme-\n", "Acme-\r\nX: y", "a" * 32 + "-"),
    *("webhook-", "Webhook-", "WEBHOOK-", "webhook-acme-", "A\0-"),
)
AGENTS = (
    "Acme/1.0 (+https://acme.example)",
    "!",
    "a" * 256,
    "a" * 257,
    " a",
    "a ",
    "a\nb",
    "a\r",
    "é",
    "a\tb",
)


async def set_names(admin: Administration, *names: object) -> list[str]:
    admin.person = "ana"
    return list(await admin.set_names(*names))  # type: ignore[arg-type]


async def test_names_are_set_one_by_one_read_by_every_program_and_audited(
    database: Database, db: asyncpg.Connection
) -> None:
    async with administration(database.dsn("webhook_admin")) as admin:
        assert await admin.read_names() == DEFAULT_NAMES
        assert await set_names(admin, "Acme-", None, None) == []
        assert await set_names(admin, None, "Acme/1", None) == []
        assert await set_names(admin, None, None, ("service", "standard")) == []
    acme = Names("Acme-", "Acme/1", ("service", "standard"))
    for role in ("webhook_dispatcher", "webhook_api", "webhook_console", "webhook_observer"):
        connection = await database.connect(role)
        assert await installation.read_names(connection) == acme, role
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("SELECT webhook.set_names('B-', NULL, NULL, 'eve')")
        await connection.close()
    told = await db.fetch("SELECT person, role, before, after FROM webhook.audit WHERE action = 'names set'")
    assert [(row["person"], row["role"]) for row in told] == [("ana", "webhook_admin")] * 3
    assert json.loads(told[2]["before"]) == {**json.loads(told[1]["after"]), "signatures": ["service"]}
    assert json.loads(told[2]["after"])["header_prefix"] == "Acme-"


async def test_the_first_name_of_ones_own_keeps_older_programs_out_until_it_is_taken_back(
    database: Database, db: asyncpg.Connection
) -> None:
    async with administration(database.dsn("webhook_admin")) as admin:
        for names in (("Acme-", None, None), (None, "Acme/1", None), (None, None, ("service", "standard"))):
            assert await db.fetchval(COMPATIBLE) == 1
            assert await set_names(admin, *names) == []
            assert await db.fetchval(COMPATIBLE) == 21, names
            await schema.check(admin.connection)
            assert await set_names(admin, *RESET) == []
        assert await db.fetchval(COMPATIBLE) == 1
        assert await admin.read_names() == DEFAULT_NAMES
        # What a later migration demands stays.
        await db.execute("UPDATE webhook.state SET compatible_from = 99")
        for again in (("Acme-", None, None), RESET):
            await set_names(admin, *again)
            assert await db.fetchval(COMPATIBLE) == 99


async def test_nothing_is_changed_while_a_dispatcher_of_the_version_before_beats(
    database: Database, db: asyncpg.Connection
) -> None:
    await db.execute(BEATS)
    async with administration(database.dsn("webhook_admin")) as admin:
        assert await set_names(admin, "Acme-", None, None) == ["h1 (0.9)"]
        assert (await admin.read_names(), await db.fetchval(COMPATIBLE)) == (DEFAULT_NAMES, 1)
        assert await set_names(admin, *RESET) == [], "these it knows"
        await db.execute("UPDATE webhook.dispatcher SET beat_at = beat_at - interval '31 seconds'")
        assert await set_names(admin, "Acme-", None, None) == []
        await db.execute("UPDATE webhook.dispatcher SET beat_at = clock_timestamp(), schema_version = 21")
        assert await set_names(admin, "Bcme-", None, None) == []


async def test_the_database_takes_and_refuses_what_the_command_line_does(db: asyncpg.Connection) -> None:
    async def is_taken(column: str, value: object) -> bool:
        try:
            await db.execute(f"UPDATE webhook.state SET {column} = $1", value)
        except (asyncpg.CheckViolationError, asyncpg.CharacterNotInRepertoireError):
            return False
        return True

    for text in TEXTS:
        assert await is_taken("header_prefix", text) == (prefix_fault(text) is None), text
    for text in AGENTS:
        assert await is_taken("user_agent", text) == (user_agent_fault(text) is None), text
    assert [prefix_fault(text) is None for text in TEXTS] == [True] * 9 + [False] * (len(TEXTS) - 9)
    assert [user_agent_fault(text) is None for text in AGENTS] == [True] * 3 + [False] * (len(AGENTS) - 3)
    taken = [["service"], ["service", "standard"]]
    refused = [["standard"], [], ["standard", "service"], ["service", "service"], ["other"]]
    for signatures in taken + refused:
        assert await is_taken("signatures", signatures) == (signatures in taken), signatures
