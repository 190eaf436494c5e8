"""A copy of a database is not delivered from by a daemon that knows its own name. Source: contract 5."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.installation import Installation
from tests.servers.database import Database, copy_database, execute

REFUSED = "WEBHOOK_INSTALLATION: the database belongs to 'prod-eu1', not to 'staging'"


@pytest.fixture
async def copy(database: Database, tmp_path: Path) -> AsyncIterator[Database]:
    """Have production migrated under its name, let it owe an event, and copy it as its server does."""
    name = f"{database.name}_copy"
    production = await database.connect()
    await production.execute("UPDATE webhook.state SET installation = 'prod-eu1'")
    await production.execute(
        "INSERT INTO webhook.outbox (merchant_id, type, object) VALUES ('m1', 'charge.created', '{}')"
    )
    await production.close()
    await copy_database(database.server, name, database.name)
    yield Database(database.server, name, database.pooler)
    await execute(database.server, f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_copy_is_refused_until_somebody_has_seen_what_it_owes_and_adopts_it(
    copy: Database, tmp_path: Path
) -> None:
    asyncio.get_running_loop().set_debug(False)
    async with Installation(copy, tmp_path) as staging:
        await staging.configure("m1")
        name = {"INSTALLATION": "staging"}
        for processes in ("1", "2"):
            daemon = staging.spawn(**name, PROCESSES=processes)
            assert await daemon.ended() == 2
            assert REFUSED in daemon.log_file.read_text()
            daemon.log_file.write_text("")
        migrating = {"MIGRATION_DATABASE_URL": copy.dsn("postgres")}
        for line in (
            "pause m1 --no-wait",
            "endpoint rotate-secret m1",
            "endpoint remove m1 --yes",
            "migrate",
        ):
            refused = staging.command(*line.split(), **name, **migrating)
            assert (refused.returncode, REFUSED in refused.stderr) == (2, True), line
        checked = staging.command("check", **name)
        assert (checked.returncode, "'prod-eu1', not to 'staging'" in checked.stdout) == (2, True)

        shown = staging.command("adopt", **name)
        assert shown.returncode == 1
        assert {"pending 1", "merchants 1"} <= {" ".join(line.split()) for line in shown.stdout.splitlines()}
        assert await staging.owner.fetchval("SELECT installation FROM webhook.state") == "prod-eu1"
        assert staging.receiver.arrivals == []

        assert staging.command("adopt", "--yes", **name).returncode == 0
        await staging.start(**name)
        await staging.all_delivered(1)


async def test_production_itself_and_who_gives_no_name_go_on(copy: Database, tmp_path: Path) -> None:
    asyncio.get_running_loop().set_debug(False)
    async with Installation(copy, tmp_path) as production:
        await production.configure("m1")
        await production.owner.execute("UPDATE webhook.state SET system_identifier = 7")
        daemon = await production.start(INSTALLATION="prod-eu1")
        [warned] = daemon.log("server.changed")
        assert (warned["level"], warned["known"]) == ("warning", 7)
        await production.all_delivered(1)
        daemon.terminate()
        assert await daemon.ended() == 0
        assert (await production.start()).log("server.changed") != []
        checked = production.command("check")
        assert (checked.returncode, "it was on 7: is this a copy?" in checked.stdout) == (0, True)
