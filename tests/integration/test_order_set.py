"""Whose order an endpoint keeps: set, audited, obeyed by the next session, kept from older programs."""

import json
from datetime import timedelta

import asyncpg
import pytest

from tests.integration.storage_harness import StorageHarness
from webhook_dispatcher.domain.endpoint import EndpointView
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.storage import schema
from webhook_dispatcher.storage.administration import administration

KNOWN_SINCE = 24
"""The version of the schema since which programs know this order."""
BEATS = """
INSERT INTO webhook.dispatcher (
    owner, host, version, started_at, beat_at, lanes, attempts_in_flight, is_ready, reasons, faults,
    schema_version
)
VALUES ('o', 'h1', '0.9', now(), clock_timestamp() - $1::interval, 0, 0, true, '{}', '{}', $2)
"""
COMPATIBLE = "SELECT compatible_from FROM webhook.state"
NAMES = "SELECT webhook.set_names('Acme-', NULL, NULL, 'ana')"


async def test_a_lane_that_is_held_is_recalled_and_the_next_session_reads_it(storage: StorageHarness) -> None:
    await storage.configure("m")
    await storage.insert("m", "{}")
    here = await storage.daemon("here")
    await here.claim("m")
    assert (await here.claims.read_endpoints(["m"]))["m"].at_once == 1
    async with administration(storage.database.dsn("webhook_admin")) as admin:
        admin.person = "ana"
        assert await admin.set_order("m", 8)
        assert not await admin.set_order("m", 8)
        assert not await admin.set_order("nobody", 8)
    [found] = await _list(storage)
    assert (found.order, found.at_once) == ("charge", 8)
    assert (await storage.lane("m"))["recalled"]
    assert (await here.claims.read_endpoints(["m"]))["m"].at_once == 8
    told = await storage.db.fetchrow("SELECT * FROM webhook.audit WHERE action = 'order changed'")
    assert told is not None
    assert told["person"] == "ana"
    assert (json.loads(told["before"])["at_once"], json.loads(told["after"])["at_once"]) == (None, 8)


async def _list(storage: StorageHarness) -> list[EndpointView]:
    async with administration(storage.database.dsn("webhook_admin")) as admin:
        return list(await admin.list_endpoints())


@pytest.mark.parametrize("at_once", [0, 1, 33])
async def test_at_once_are_2_to_32(storage: StorageHarness, at_once: int) -> None:
    await storage.configure("m")
    with pytest.raises(asyncpg.CheckViolationError, match="at_once_is_2_to_32"):
        await storage.db.execute("UPDATE webhook.endpoint SET at_once = $1", at_once)


@pytest.mark.parametrize(("used", "before"), [([], 1), ([NAMES], 21)])
async def test_the_first_by_charge_keeps_older_programs_out_until_the_last_one_is_not(
    storage: StorageHarness, used: list[str], before: int
) -> None:
    db = storage.db
    for merchant in "ab":
        await storage.configure(merchant)
    for statement in used:
        await db.execute(statement)
    async with administration(storage.database.dsn("webhook_admin")) as admin:
        assert await db.fetchval(COMPATIBLE) == before
        await admin.set_order("a", 2)
        await admin.set_order("b", 32)
        assert await db.fetchval(COMPATIBLE) == KNOWN_SINCE
        await schema.check(admin.connection)
        await admin.set_order("a", None)
        assert await db.fetchval(COMPATIBLE) == KNOWN_SINCE
        await admin.delete_endpoint("b")
        assert await db.fetchval(COMPATIBLE) == before


async def test_none_becomes_by_charge_while_an_older_dispatcher_works(storage: StorageHarness) -> None:
    await storage.configure("m")
    async with administration(storage.database.dsn("webhook_admin")) as admin:
        await storage.db.execute(BEATS, timedelta(seconds=5), KNOWN_SINCE - 1)
        with pytest.raises(
            UserError, match=r"know no order by charge, and work: h1 \(0\.9\); nothing was done"
        ):
            await admin.set_order("m", 8)
        assert await storage.db.fetchval("SELECT at_once FROM webhook.endpoint") is None
        await storage.db.execute("UPDATE webhook.dispatcher SET beat_at = beat_at - interval '30 seconds'")
        await storage.db.execute(BEATS.replace("'o'", "'p'"), timedelta(), KNOWN_SINCE)
        assert await admin.set_order("m", 8)
