"""Lanes that cannot be claimed, read or served: nothing is lost, and each is tried again when it may help."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.builders import HOLD, NOW, make_endpoint, make_event
from tests.unit.fakes.database import is_delivered
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.loop_turns import one_turn, quiet, until
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.attempt import KEY_WAIT
from webhook_dispatcher.dispatch.worker import RUN
from webhook_dispatcher.domain.claim import SweptLane
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.event import FailedReason

DOWN = StorageUnavailable("down")


@pytest.fixture
def harness() -> DispatcherHarness:
    return DispatcherHarness()


async def test_a_failed_claim_gives_the_heads_back(harness: DispatcherHarness) -> None:
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"))
        harness.database.faults["lease"].append(DOWN)
        with pytest.raises(StorageUnavailable):
            await harness.dispatcher.step(group)
        await harness.rounds(group)
    assert (harness.claims.leases_asked, harness.sent) == ([{"a": 1}, {"a": 1}], [1])


@pytest.mark.parametrize("method", ["read_runs", "read_endpoints"])
async def test_a_failed_read_gives_leased_lanes_back(harness: DispatcherHarness, method: str) -> None:
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"))
        harness.database.faults[method].append(DOWN)
        with pytest.raises(StorageUnavailable):
            await harness.dispatcher.step(group)
        await harness.write()
        assert not harness.database.lanes["a"].is_leased
        await harness.rounds(group)
    assert (harness.sent, harness.database.lanes["a"].epoch) == ([1], 2)


async def test_a_failed_read_ends_the_session_and_begins_anew(harness: DispatcherHarness) -> None:
    async with harness.open("a") as group:
        harness.database.insert(*[make_event(seq, "a") for seq in range(1, RUN + 2)])
        harness.database.faults["read_runs"].extend([None, DOWN])
        await harness.dispatcher.step(group)
        await quiet()
        with pytest.raises(StorageUnavailable):
            await harness.dispatcher.step(group)
        await quiet()
        await harness.write()
        await harness.rounds(group)
    assert (harness.sent, harness.database.lanes["a"].epoch) == (list(range(1, RUN + 2)), 2)


async def test_a_lane_that_is_missing_is_made_and_claimed_at_once(harness: DispatcherHarness) -> None:
    harness.claims.missing = {"a"}
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"))
        harness.dispatcher._wake.clear()
        await harness.dispatcher.step(group)
        await until(harness.dispatcher._wake.is_set)
        await harness.rounds(group)
    assert (harness.claims.leases_asked, harness.sent) == ([{"a": 1}, {"a": 1}], [1])


async def test_while_a_lane_is_being_made_no_other_is(harness: DispatcherHarness) -> None:
    harness.claims.missing = {"a", "b"}
    harness.claims.create_gate = asyncio.Event()
    async with harness.open("a", "b") as group:
        for seq, merchant_id in enumerate(("a", "b"), 1):
            harness.database.insert(make_event(seq, merchant_id))
            await harness.rounds(group, 1)
        assert harness.claims.created == ["a"]
        harness.claims.create_gate.set()
        await quiet()


async def test_a_lane_that_could_not_be_made_is_left_to_the_sweep(harness: DispatcherHarness) -> None:
    harness.claims.missing = {"a", "b"}
    harness.database.faults["create_lanes"].append(DOWN)
    async with harness.open("a", "b") as group:
        harness.database.insert(make_event(1, "a"))
        await harness.rounds(group)
        harness.claims.being_made = {"b"}
        harness.database.insert(make_event(2, "b"))
        await harness.rounds(group)
    assert (harness.sent, len(harness.claims.leases_asked)) == ([], 2)


async def test_a_lane_that_is_locked_for_a_moment_is_asked_for_again(harness: DispatcherHarness) -> None:
    harness.database.lanes["a"].is_locked = True
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"))
        await harness.rounds(group, 2)
        assert harness.claims.leases_asked == [{"a": 1}, {"a": 1}]
        harness.database.lanes["a"].is_locked = False
        await harness.rounds(group)
    assert harness.sent == [1]


async def test_a_lane_that_another_holds_is_forgotten(harness: DispatcherHarness) -> None:
    harness.database.lanes["a"].is_leased = True
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"))
        await harness.rounds(group)
        harness.dispatcher.notice_swept(SweptLane("a", 1, is_free=False))
        await harness.rounds(group)
        assert len(harness.claims.leases_asked) == 1
        harness.database.lanes["a"].is_leased = False
        harness.dispatcher.notice_swept(SweptLane("a", 1, is_free=True))
        await harness.rounds(group)
    assert harness.sent == [1]


async def test_an_unsendable_event_needs_no_endpoint(harness: DispatcherHarness) -> None:
    async with harness.open() as group:
        never = datetime.max.replace(tzinfo=UTC)
        harness.database.insert(make_event(1, "a", created_at=never), make_event(2, "a"))
        await harness.rounds(group)
    assert harness.database.finished[1].reason is FailedReason.UNSENDABLE
    assert 2 in harness.database.owed


async def test_events_without_endpoint_wait_until_the_hold_ends(harness: DispatcherHarness) -> None:
    async with harness.open() as group:
        old, new = NOW - HOLD, NOW - timedelta(hours=1)
        harness.database.insert(make_event(1, "a", created_at=old), make_event(2, "a", created_at=new))
        await harness.rounds(group)
    finished = harness.database.finished[1]
    assert (harness.sent, finished.reason, finished.attempt) == ([], FailedReason.NOT_CONFIGURED, None)
    assert 2 in harness.database.owed
    assert (harness.database.lanes["a"].wait_until, len(harness.claims.leases_asked)) == (new + HOLD, 1)
    labels = {"state": "failed", "type": "charge.created", "reason": "not_configured"}
    assert harness.metrics.registry.get_sample_value("webhook_deliveries_total", labels) == 1


async def test_events_older_than_their_removed_endpoint_fail_at_once(harness: DispatcherHarness) -> None:
    harness.database.lanes["a"].endpoint_removed_at = NOW
    async with harness.open() as group:
        harness.database.insert(make_event(1, "a"))
        await harness.rounds(group)
    assert harness.database.finished[1].reason is FailedReason.NOT_CONFIGURED
    assert harness.database.lanes["a"].wait_until is None


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        pytest.param(make_endpoint("a", key_id="gone"), (["gone"], []), id="unknown key"),
        pytest.param(replace(make_endpoint("b"), lane="a"), ([], ["a"]), id="damaged secret"),
    ],
)
async def test_a_lane_whose_secret_cannot_be_opened_waits_and_loses_nothing(
    harness: DispatcherHarness, endpoint: Endpoint, told: tuple[list[str], list[str]]
) -> None:
    async with harness.open() as group:
        harness.database.endpoints["a"] = endpoint
        harness.database.insert(make_event(1, "a"))
        await harness.rounds(group)
    assert (harness.sent, 1 in harness.database.owed, len(harness.claims.leases_asked)) == ([], True, 1)
    wait_until = harness.database.lanes["a"].wait_until
    assert wait_until is not None
    assert abs(wait_until - NOW - KEY_WAIT) < timedelta(seconds=1)
    assert (list(harness.attempter.missing_keys), list(harness.attempter.unopened)) == told


async def test_run_follows_until_stopped_and_survives_a_failed_look(harness: DispatcherHarness) -> None:
    harness.database.configure("a")
    harness.database.faults["read_arrivals"].extend([None, DOWN])
    running = asyncio.create_task(harness.dispatcher.run())
    async with asyncio.timeout(MAX_WAIT):
        while harness.dispatcher._tail.cursor is None:
            await one_turn()
        harness.database.insert(make_event(1, "a"))
        while not harness.sent:
            await asyncio.wait([running], timeout=0.005)
        harness.dispatcher.stop()
        await running
    await harness.write()
    assert is_delivered(harness.database, 1)
    assert harness.metrics.database_errors.labels("claim")._value.get() == 1
