"""All that a daemon and its commands do, on a server with settings that an administrator chose.

The daemon runs in the test's own process: what counts is what its sessions are given.
"""

from datetime import timedelta

import asyncpg

from tests.acceptance.installation import Installation
from tests.servers import programs
from tests.servers.awkward_settings import bearable
from tests.servers.database import Database
from webhook_dispatcher.app import run
from webhook_dispatcher.domain.signing import SECRET_RANDOM_BYTES, Keyring, Secret
from webhook_dispatcher.local.behaviour import Behaviour
from webhook_dispatcher.local.binaries import major_version
from webhook_dispatcher.settings import load_settings
from webhook_dispatcher.storage.administration import (
    Administration,
    ControlRequest,
    DeliveryFilter,
    administration,
)
from webhook_dispatcher.storage.connection import create_pool
from webhook_dispatcher.storage.upkeep import PostgresUpkeep

PATIENCE = timedelta(seconds=20)
SHADOW = """
CREATE SCHEMA shadow;
GRANT USAGE ON SCHEMA shadow TO PUBLIC;
CREATE FUNCTION shadow.clock_timestamp() RETURNS timestamptz LANGUAGE sql RETURN timestamptz '1970-01-01 UTC';
CREATE FUNCTION shadow.differs(bigint, bigint) RETURNS boolean LANGUAGE sql RETURN false;
CREATE OPERATOR shadow.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = shadow.differs);
"""
"""Another meaning of names that our statements use, for a search path that leads there first."""


class Bearable(Database):
    """A database whose test sets for its own sessions what would hinder it."""

    async def connect(self, user: str = "postgres") -> asyncpg.Connection:
        """Open a connection; the caller closes it."""
        settings = bearable(major_version(programs()))
        return await asyncpg.connect(self.dsn(user), server_settings=settings)


async def configure(installation: Installation, admin: Administration, merchant_id: str) -> None:
    """Give a merchant an endpoint as the command line does."""
    secret = Secret.from_random(bytes(SECRET_RANDOM_BYTES))
    installation.receiver.secrets[merchant_id] = secret
    url, keyring = installation.receiver.url(merchant_id), Keyring.parse(installation.key)
    assert await admin.insert_endpoint(merchant_id, url, keyring.seal(merchant_id, secret), keyring)


async def deliver(installation: Installation, admin: Administration) -> None:
    """Have events delivered, the first attempts in order, each failing once; then one to a changed URL."""
    installation.receiver.behave("m", Behaviour(status=500), Behaviour(), per_event=True)
    events = await installation.emit_each(["m"], 5)
    for event in events:
        await installation.settled(event.id, "delivered", 2, 60)
    first = [arrival.event_id for arrival in installation.receiver.of("m") if arrival.attempt == 1]
    assert first == [str(event.id) for event in events]
    assert await admin.update_endpoint_url("m", installation.receiver.url("n"))
    moved = await installation.emit("m")
    await installation.settled(moved.id, "delivered", 1, 60)
    assert [arrival.event_id for arrival in installation.receiver.of("n")] == [str(moved.id)]


async def command(installation: Installation, admin: Administration) -> None:
    """Have an event sent once more as the command line asks for it, and look at what became of it."""
    shown = await admin.list_deliveries(DeliveryFilter(merchant_id="m", limit=100))
    assert sorted((view.state, view.attempts) for view in shown) == [("delivered", 1)] + 5 * [
        ("delivered", 2)
    ]
    again = shown[-1].event_id
    asked = await admin.ask(ControlRequest("retry", "a test", event_id=again, args={"force": True}))
    assert (await installation.handled(asked, 60))["status"] == "done"
    await installation.settled(again, "delivered", 3, 60)
    assert [view.attempt for view in await admin.list_attempts(again)] == [1, 2, 3]
    assert (await admin.find_command(asked)).status == "done"
    assert await admin.missing_partitions(3) == []


async def run_upkeep(installation: Installation) -> None:
    """Make and drop partitions as the daemon does every day."""
    pool = create_pool(installation.database.dsn(), application_name="test", command_timeout=PATIENCE, size=1)
    async with pool as connections:
        upkeep = PostgresUpkeep(connections)
        await upkeep.make_partitions(8)  # migrating did so, but it may have been the day before
        assert await upkeep.make_partitions(10) == 4
        assert await upkeep.drop_partitions(timedelta(days=-9))


async def do_everything(installation: Installation) -> None:
    """Do what a daemon and its commands do, each by sessions that were opened under the settings."""
    changed = installation.settings(RETRY_SCHEDULE="PT0.1S", LOG_LEVEL="warning")
    settings = load_settings({f"WEBHOOK_{name}": value for name, value in changed.items()})
    async with administration(installation.database.dsn("webhook_admin")) as admin:
        await admin.check_schema()
        await configure(installation, admin, "m")
        async with run.running(settings):
            await deliver(installation, admin)
            await command(installation, admin)
    await run_upkeep(installation)
