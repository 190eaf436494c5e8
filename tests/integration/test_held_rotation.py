"""When a merchant is held, by the leases of whoever sends: webhook.lock_held. Source: contract 3."""

import asyncio

import pytest

from tests.integration.storage_harness import LEASE, StorageHarness
from webhook_dispatcher.storage.controls import PostgresControls

ENDPOINT = (
    "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) VALUES ('m', 'https://x/', '', 'k1')"
)
STATE = "SELECT webhook.lock_held('m')"
RESUME = "INSERT INTO webhook.control (command, merchant_id, requested_by) VALUES ('resume', 'm', 'a test')"


@pytest.fixture
async def paused(storage: StorageHarness) -> StorageHarness:
    """Have a merchant that is paused, for the tests that then have it sent to."""
    await storage.db.execute(ENDPOINT)
    await storage.db.execute("UPDATE webhook.lane SET paused = true")
    return storage


async def test_who_has_no_endpoint_or_is_not_paused_by_itself_is_not_held(storage: StorageHarness) -> None:
    assert await storage.db.fetchval(STATE) == "not_configured"
    await storage.db.execute(ENDPOINT)
    await storage.db.execute("UPDATE webhook.state SET paused = true")
    assert await storage.db.fetchval(STATE) == "not_paused"


async def test_a_merchant_is_held_once_its_lane_was_released_or_its_lease_has_ended(
    paused: StorageHarness,
) -> None:
    assert await paused.db.fetchval(STATE) == "held"
    await paused.insert("m")
    await paused.db.execute("UPDATE webhook.lane SET paused = false")
    here = await paused.daemon("here")
    for end in ("lease_until = clock_timestamp()", "lease_until = '-infinity'"):
        await here.lease("m")
        await paused.db.execute("UPDATE webhook.lane SET paused = true")
        assert await paused.db.fetchval(STATE) == "sending"
        await paused.db.execute(f"UPDATE webhook.lane SET {end}")
        assert await paused.db.fetchval(STATE) == "held"
        await paused.db.execute("UPDATE webhook.lane SET paused = false")


async def test_a_merchant_is_held_once_no_retry_is_claimed_or_the_claim_has_ended(
    paused: StorageHarness,
) -> None:
    await paused.insert_due("m", -1)
    await paused.db.execute("UPDATE webhook.lane SET paused = false")
    here = await paused.daemon("here")
    assert len(await here.claims.claim_longest_due(10, 2, 10, LEASE)) == 1
    await paused.db.execute("UPDATE webhook.lane SET paused = true")
    assert await paused.db.fetchval(STATE) == "sending"
    for end in ("due_at = clock_timestamp()", "claim = NULL, due_at = clock_timestamp() + interval '1 hour'"):
        await paused.db.execute(f"UPDATE webhook.outbox SET {end}")
        assert await paused.db.fetchval(STATE) == "held"
    assert await here.claims.claim_longest_due(10, 2, 10, LEASE) == []


async def test_a_resume_that_was_asked_for_before_comes_before(paused: StorageHarness) -> None:
    await paused.db.execute(RESUME)
    assert await paused.db.fetchval(STATE) == "not_paused"
    await paused.db.execute("UPDATE webhook.control SET args = '{\"endpoint\": 1}'")
    assert await paused.db.fetchval(STATE) == "not_paused"
    await paused.db.execute("UPDATE webhook.control SET args = '{\"endpoint\": 2}'")
    assert await paused.db.fetchval(STATE) == "held", "it is another's"
    await paused.db.execute("UPDATE webhook.control SET args = '{}', status = 'done'")
    assert await paused.db.fetchval(STATE) == "held"


async def test_a_resume_waits_until_the_secret_is_replaced(paused: StorageHarness) -> None:
    admin = await paused.session(application_name="rotation", user="webhook_admin")
    controls = PostgresControls((await paused.daemon("here", application_name="resume")).pool)

    async def resume() -> None:
        async with controls.transaction() as transaction:
            await transaction.pause("m", False)

    async with admin.transaction():
        assert await admin.fetchval(STATE) == "held"
        resuming = asyncio.ensure_future(resume())
        await paused.until_waiting("resume", resuming)
    await resuming
    assert await paused.db.fetchval(STATE) == "not_paused"
