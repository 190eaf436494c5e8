"""Lanes that cannot be claimed, read or served: nothing is lost, and each is tried again when it may help."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.dispatching import HOLD, Office
from tests.unit.fakes import (
    NOW,
    is_delivered,
    make_endpoint,
    make_event,
    one_turn,
    quiet,
    until,
)
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.attempt import KEY_WAIT
from webhook_dispatcher.dispatch.worker import RUN
from webhook_dispatcher.domain.claim import SweptLane
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.event import FailedReason

DOWN = StorageUnavailable("down")


async def test_a_failed_claim_gives_the_heads_back() -> None:
    office = Office()
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"))
        office.database.faults["lease"].append(DOWN)
        with pytest.raises(StorageUnavailable):
            await office.dispatcher.step(group)
        await office.rounds(group)
    assert office.claims.leases_asked == [{"a": 1}, {"a": 1}]
    assert office.sent == [1]


@pytest.mark.parametrize("method", ["read_runs", "read_endpoints"])
async def test_a_failed_read_gives_the_leased_lanes_back_and_they_are_claimed_again(method: str) -> None:
    office = Office()
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"))
        office.database.faults[method].append(DOWN)
        with pytest.raises(StorageUnavailable):
            await office.dispatcher.step(group)
        await office.write()
        assert not office.database.lanes["a"].is_leased
        await office.rounds(group)
    assert office.sent == [1]
    assert office.database.lanes["a"].epoch == 2


async def test_a_failed_top_up_ends_the_visit_and_the_lane_is_claimed_again() -> None:
    office = Office()
    async with office.open("a") as group:
        office.database.insert(*[make_event(seq, "a") for seq in range(1, RUN + 2)])
        office.database.faults["read_runs"].extend([None, DOWN])
        await office.dispatcher.step(group)
        await quiet()
        with pytest.raises(StorageUnavailable):
            await office.dispatcher.step(group)
        await quiet()
        await office.write()
        await office.rounds(group)
    assert office.sent == list(range(1, RUN + 2))
    assert office.database.lanes["a"].epoch == 2


async def test_a_lane_that_is_missing_is_made_and_claimed() -> None:
    office = Office()
    office.claims.missing = {"a"}
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"))
        await office.rounds(group)
    assert office.claims.leases_asked == [{"a": 1}, {"a": 1}]
    assert office.sent == [1]


async def test_once_a_missing_lane_is_made_it_is_claimed_without_waiting_for_the_next_poll() -> None:
    office = Office()
    office.claims.missing = {"a"}
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"))
        office.dispatcher._wake.clear()
        await office.dispatcher.step(group)
        await until(office.dispatcher._wake.is_set)


async def test_while_a_lane_is_being_made_no_other_is() -> None:
    office = Office()
    office.claims.missing = {"a", "b"}
    office.claims.create_gate = asyncio.Event()
    async with office.open("a", "b") as group:
        for seq, merchant_id in enumerate(("a", "b"), 1):
            office.database.insert(make_event(seq, merchant_id))
            await office.rounds(group, 1)
        assert office.claims.created == ["a"]
        office.claims.create_gate.set()
        await quiet()


async def test_a_lane_that_could_not_be_made_is_left_to_the_sweep() -> None:
    office = Office()
    office.claims.missing = {"a", "b"}
    office.database.faults["create_lanes"].append(DOWN)
    async with office.open("a", "b") as group:
        office.database.insert(make_event(1, "a"))
        await office.rounds(group)
        office.claims.being_made = {"b"}
        office.database.insert(make_event(2, "b"))
        await office.rounds(group)
    assert office.sent == []
    assert len(office.claims.leases_asked) == 2


async def test_a_lane_that_is_locked_for_a_moment_is_asked_for_again() -> None:
    office = Office()
    office.database.lanes["a"].is_locked = True
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"))
        await office.rounds(group, 2)
        assert office.claims.leases_asked == [{"a": 1}, {"a": 1}]
        office.database.lanes["a"].is_locked = False
        await office.rounds(group)
    assert office.sent == [1]


async def test_a_lane_that_another_holds_is_forgotten() -> None:
    office = Office()
    office.database.lanes["a"].is_leased = True
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"))
        await office.rounds(group)
        office.dispatcher.notice_swept(SweptLane("a", 1, is_free=False))
        await office.rounds(group)
        assert len(office.claims.leases_asked) == 1
        office.database.lanes["a"].is_leased = False
        office.dispatcher.notice_swept(SweptLane("a", 1, is_free=True))
        await office.rounds(group)
    assert office.sent == [1]


async def test_an_event_past_the_rules_ends_unsendable_without_an_endpoint_too() -> None:
    office = Office()
    async with office.open() as group:
        never = datetime.max.replace(tzinfo=UTC)
        office.database.insert(make_event(1, "a", created_at=never), make_event(2, "a"))
        await office.rounds(group)
    assert office.database.finished[1].reason is FailedReason.UNSENDABLE
    assert 2 in office.database.owed


async def test_events_without_endpoint_wait_until_the_hold_ends() -> None:
    office = Office()
    async with office.open() as group:
        old, new = NOW - HOLD, NOW - timedelta(hours=1)
        office.database.insert(make_event(1, "a", created_at=old), make_event(2, "a", created_at=new))
        await office.rounds(group)
    assert office.sent == []
    assert office.database.finished[1].reason is FailedReason.NOT_CONFIGURED
    assert office.database.finished[1].attempt is None
    assert 2 in office.database.owed
    assert office.database.lanes["a"].wait_until == new + HOLD
    assert len(office.claims.leases_asked) == 1


async def test_events_older_than_their_removed_endpoint_fail_at_once() -> None:
    office = Office()
    office.database.lanes["a"].endpoint_removed_at = NOW
    async with office.open() as group:
        office.database.insert(make_event(1, "a"))
        await office.rounds(group)
    assert office.database.finished[1].reason is FailedReason.NOT_CONFIGURED
    assert office.database.lanes["a"].wait_until is None


async def test_a_delivery_that_ends_without_attempt_is_counted() -> None:
    office = Office()
    async with office.open() as group:
        office.database.insert(make_event(1, "a", created_at=NOW - HOLD))
        await office.rounds(group)
    labels = {"state": "failed", "type": "charge.created"}
    assert office.metrics.registry.get_sample_value("webhook_deliveries_total", labels) == 1


async def test_a_lane_whose_key_is_unknown_waits_and_loses_nothing() -> None:
    office = Office()
    async with office.open() as group:
        office.database.endpoints["a"] = make_endpoint("a", key_id="gone")
        office.database.insert(make_event(1, "a"))
        await office.rounds(group)
    assert office.sent == []
    assert 1 in office.database.owed
    wait_until = office.database.lanes["a"].wait_until
    assert wait_until is not None
    assert abs(wait_until - NOW - KEY_WAIT) < timedelta(seconds=1)
    assert list(office.attempter.missing_keys) == ["gone"]
    assert len(office.claims.leases_asked) == 1


async def test_run_follows_until_stopped_and_survives_a_failed_look() -> None:
    office = Office()
    office.database.configure("a")
    office.database.faults["read_arrivals"].extend([None, DOWN])
    running = asyncio.create_task(office.dispatcher.run())
    async with asyncio.timeout(MAX_WAIT):
        while office.dispatcher._tail.cursor is None:
            await one_turn()
        office.database.insert(make_event(1, "a"))
        while not office.sent:
            await asyncio.wait([running], timeout=0.005)
        office.dispatcher.stop()
        await running
    await office.write()
    assert is_delivered(office.database, 1)
    assert office.metrics.database_errors.labels("claim")._value.get() == 1
