"""Whose a database is: named by the first migration, refused by other installations, adopted by admins."""

import re

import asyncpg
import pytest

from tests.servers.database import Database
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.storage import installation, schema
from webhook_dispatcher.storage.administration import administration
from webhook_dispatcher.storage.chosen_indexes import ChosenIndexes
from webhook_dispatcher.storage.installation import Installation

NAMED = "SELECT installation, system_identifier FROM webhook.state"
ADOPT = "SELECT webhook.adopt_installation('staging', 'anna')"
INSERT = "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ($1, 'charge.created', '{}')"


async def forget(db: asyncpg.Connection) -> None:
    """Leave the schema as a migration by `migrate --sql` does."""
    await db.execute("UPDATE webhook.state SET installation = NULL, system_identifier = NULL")


async def test_the_first_migration_stores_the_setting_and_the_server_and_says_so(
    database: Database, db: asyncpg.Connection
) -> None:
    await forget(db)
    said: list[str] = []
    await schema.migrate(database.dsn("postgres"), tell=said.append, name="prod-eu1")
    assert said == ["this installation is called prod-eu1"]
    server = await db.fetchval("SELECT system_identifier FROM pg_control_system()")
    assert [tuple(row) for row in await db.fetch(NAMED)] == [("prod-eu1", server)]
    await schema.migrate(database.dsn("postgres"), tell=said.append, name="prod-eu1")
    await schema.migrate(database.dsn("postgres"), tell=said.append)
    assert len(said) == 1


async def test_without_the_setting_a_name_is_made_up(database: Database, db: asyncpg.Connection) -> None:
    await forget(db)
    said: list[str] = []
    await schema.migrate(database.dsn("postgres"), tell=said.append)
    name = await db.fetchval("SELECT installation FROM webhook.state")
    assert re.fullmatch(r"installation-[0-9a-f]{6}", name)
    assert said[0].startswith(f"this installation is called {name}; WEBHOOK_INSTALLATION={name} ")


async def test_migrating_another_installations_database_is_refused_before_anything_is_done(
    database: Database, db: asyncpg.Connection
) -> None:
    await db.execute("UPDATE webhook.state SET installation = 'prod-eu1', has_charge_index = false")
    with pytest.raises(ConfigurationError, match="belongs to 'prod-eu1', not to 'staging'"):
        await schema.migrate(database.dsn("postgres"), ChosenIndexes(charge=True), name="staging")
    assert await db.fetchval("SELECT has_charge_index FROM webhook.state") is False


async def test_an_admin_adopts_it_and_the_audit_says_who(database: Database, db: asyncpg.Connection) -> None:
    await db.execute("UPDATE webhook.state SET installation = 'prod-eu1', system_identifier = 7")
    await db.executemany(INSERT, [("m1",), (lane_named("m1", 2),), ("m2",)])
    server = await db.fetchval("SELECT system_identifier FROM pg_control_system()")
    async with administration(database.dsn("webhook_admin")) as admin:
        assert await admin.read_installation() == Installation("prod-eu1", 7, server)
        assert (await admin.read_installation()).has_moved
        owed = await admin.read_owed()
        assert (owed.pending, owed.pending_retry, owed.merchants) == (3, 0, 2)
        assert owed.oldest is not None
        await admin.adopt_installation("staging", "anna")
        assert await admin.read_installation() == Installation("staging", server, server)
    told = await db.fetchrow("SELECT * FROM webhook.audit WHERE action = 'installation adopted'")
    assert told is not None
    assert (told["role"], told["person"]) == ("webhook_admin", "anna")
    assert '"prod-eu1"' in told["before"]
    assert '"staging"' in told["after"]


async def test_nobody_else_may_adopt(database: Database) -> None:
    for role in ("webhook_producer", "webhook_observer", "webhook_dispatcher"):
        connection = await database.connect(role)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(ADOPT)
        await connection.close()


async def test_a_name_that_no_setting_can_have_is_refused(db: asyncpg.Connection) -> None:
    for name in ("", "Prod", "a b", "a\n", "p" * 64):
        with pytest.raises(asyncpg.CheckViolationError, match="installation_has_1_to_63_plain_characters"):
            await db.execute("SELECT webhook.adopt_installation($1, 'anna')", name)


async def test_a_server_that_may_not_be_asked_is_nothing_to_warn_of(
    database: Database, db: asyncpg.Connection
) -> None:
    await db.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public")
    await db.execute("UPDATE webhook.state SET system_identifier = 7")
    for role in ("webhook_dispatcher", "webhook_admin", "webhook_observer"):
        connection = await database.connect(role)
        found = await installation.read(connection)
        await connection.close()
        assert (found.server, found.has_moved) == (None, False), role
