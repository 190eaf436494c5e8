"""What a dead daemon held is released, and nobody else's. Source: I2, I3."""

from datetime import timedelta

import pytest

from tests.integration.storage_harness import LEASE, Daemon, StorageHarness
from webhook_dispatcher.domain.claim import SweptLane

CLAIM = timedelta(hours=1)


@pytest.fixture
async def dead(storage: StorageHarness) -> Daemon:
    return await storage.daemon("dead")


async def test_lanes_of_the_dead_alone_are_free(storage: StorageHarness, here: Daemon, dead: Daemon) -> None:
    (owed,) = await storage.insert("owing")
    await dead.lease("idle", "owing")
    await here.lease("held")
    released = await here.claims.release_all_of("dead")
    lanes = sorted(released.lanes, key=lambda swept: swept.lane)
    assert lanes == [SweptLane("idle", 0, True), SweptLane("owing", owed, True)]
    assert await here.claims.release_all_of("dead") == await here.claims.release_all_of("nobody")
    there = await storage.daemon("there")
    assert [lease.lane for lease in await there.lease("held", "idle", "owing")] == ["idle", "owing"]


async def test_retries_of_the_dead_alone_are_due(storage: StorageHarness, here: Daemon, dead: Daemon) -> None:
    theirs = await storage.insert_due("m", -2, -1)
    claimed = await dead.claims.claim_longest_due(10, 2, 10, CLAIM)
    await storage.insert_due("other", -1)
    (ours,) = await here.claims.claim_longest_due(10, 2, 10, CLAIM)
    assert (await here.claims.release_all_of("dead")).retries == 2

    again = await here.claims.claim_longest_due(10, 2, 10, LEASE)
    assert sorted(retry.event.seq for retry in again) == theirs
    assert not {retry.claim for retry in again} & {retry.claim for retry in [*claimed, ours]}


async def test_retry_of_a_suspended_merchant_waits_for_its_trial(
    storage: StorageHarness, here: Daemon, dead: Daemon
) -> None:
    await storage.insert_due("m", -1)
    assert await dead.claims.claim_trials(["m"], CLAIM, ())
    await storage.db.execute(
        "INSERT INTO webhook.lane (merchant_id, suspended_at, retry_at) VALUES ('m', now(), 'infinity') "
        "ON CONFLICT (merchant_id) DO UPDATE SET suspended_at = now(), retry_at = 'infinity'"
    )
    assert (await here.claims.release_all_of("dead")).retries == 1
    assert await here.claims.claim_longest_due(10, 2, 10, LEASE) == []
    assert len(await here.claims.claim_trials(["m"], LEASE, ())) == 1


async def test_what_is_locked_for_the_moment_is_released_by_the_next_look(
    storage: StorageHarness, here: Daemon, dead: Daemon
) -> None:
    await dead.lease("m")
    await storage.insert_due("m", -1)
    await dead.claims.claim_longest_due(10, 2, 10, CLAIM)
    other = await storage.session()
    async with other.transaction():
        await other.execute("SELECT FROM webhook.lane WHERE merchant_id = 'm' FOR UPDATE")
        nothing = await here.claims.release_all_of("dead")
        assert (list(nothing.lanes), nothing.retries) == ([], 0)
    released = await here.claims.release_all_of("dead")
    assert (len(released.lanes), released.retries) == (1, 1)
