"""Claiming lanes, following them, and giving them back, against a database in memory."""

import asyncio
from collections.abc import Callable

import pytest

from tests.unit.dispatching import Office
from tests.unit.fakes import (
    is_delivered,
    make_event,
    quiet,
    until,
)
from webhook_dispatcher.dispatch import worker
from webhook_dispatcher.dispatch.dispatcher import SESSION_TIME
from webhook_dispatcher.dispatch.worker import RUN
from webhook_dispatcher.domain.claim import SweptLane


async def test_what_arrives_is_delivered_in_order_and_its_lanes_are_given_back() -> None:
    office = Office()
    async with office.open("a", "b") as group:
        office.database.insert(make_event(1, "a"), make_event(2, "b"), make_event(3, "a"))
        await office.rounds(group)
        assert office.dispatcher.lanes_leased == 0
    assert [seq for seq in office.sent if seq != 2] == [1, 3]
    assert all(is_delivered(office.database, seq) for seq in (1, 2, 3))
    assert not office.database.lanes["a"].is_leased
    assert office.metrics.leases_lost._value.get() == 0


async def test_a_long_lane_is_read_on_without_a_new_lease() -> None:
    office = Office()
    async with office.open("a") as group:
        office.database.insert(*[make_event(seq, "a") for seq in range(1, 3 * RUN + 2)])
        await office.rounds(group, 12)
    assert office.sent == list(range(1, 3 * RUN + 2))
    assert office.database.lanes["a"].epoch == 1


async def test_no_more_lanes_are_claimed_than_there_is_room_for() -> None:
    office = Office(max_lanes=2)
    office.sender.gate = asyncio.Event()
    async with office.open(*"abc") as group:
        office.database.insert(*[make_event(number, name) for number, name in enumerate("abc", 1)])
        await office.rounds(group)
        assert office.claims.leases_asked == [{"a": 1, "b": 2}]
        assert not office.dispatcher.wants_more
        office.sender.gate.set()
        await office.rounds(group)
    assert office.sent == [1, 2, 3]


async def test_an_arrival_for_a_held_lane_goes_to_the_visit() -> None:
    office = Office()
    office.sender.gate = asyncio.Event()
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"))
        await office.rounds(group)
        office.database.insert(make_event(2, "a"))
        await office.rounds(group)
        assert len(office.claims.leases_asked) == 1
        office.sender.gate.set()
        await office.rounds(group)
    assert office.sent == [1, 2]
    assert office.database.lanes["a"].epoch == 1


async def test_an_arrival_between_the_asking_and_the_answer_goes_to_the_visit() -> None:
    office = Office()
    office.sender.gate = asyncio.Event()
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"))
        office.claims.after_lease = lambda: office.dispatcher.notice_swept(SweptLane("a", 1, True))
        await office.rounds(group)
        assert len(office.claims.leases_asked) == 1
        assert not office.dispatcher._ready.kinds


async def test_a_straggler_is_read_by_the_next_visit_before_anything_else() -> None:
    office = Office()
    async with office.open("a") as group:
        office.database.last_seq = 5
        await office.rounds(group)  # 1 to 5 are settled: nobody waits for them
        office.clock.advance(20)
        await office.rounds(group)
        office.sender.gate = asyncio.Event()
        office.database.insert(make_event(6, "a"), make_event(7, "a"))
        await office.rounds(group)
        office.clock.advance(0.3)
        await office.rounds(group)
        assert office.sent == [6]
        office.database.insert(make_event(3, "a"))
        office.dispatcher.notice_swept(SweptLane("a", 3, True))
        office.sender.gate.set()
        await office.rounds(group)
    assert office.sent == [6, 3, 7]
    assert office.database.lanes["a"].epoch == 2


async def test_a_spent_visit_makes_room_and_is_claimed_again() -> None:
    office = Office()
    async with office.open("a") as group:
        office.sender.on_post = lambda: office.clock.advance(SESSION_TIME)
        office.database.insert(make_event(1, "a"), make_event(2, "a"))
        await office.rounds(group)
    assert office.sent == [1, 2]
    assert office.database.lanes["a"].epoch == 2


def recall(office: Office) -> None:
    office.dispatcher.recall("a")


def pause(office: Office) -> None:
    office.instruments.pause.set(True)


def stop(office: Office) -> None:
    office.dispatcher.stop()


@pytest.mark.parametrize("end", [recall, pause, stop])
async def test_nothing_starts_after_a_recall_a_pause_or_a_stop(end: Callable[[Office], None]) -> None:
    office = Office()
    office.sender.gate = asyncio.Event()
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"), make_event(2, "a"))
        await office.dispatcher.step(group)
        await until(lambda: office.sent)
        end(office)
        office.sender.gate.set()
        await quiet()
        await office.write()
        assert office.sent == [1]
        assert office.dispatcher.lanes_leased == 0
    assert is_delivered(office.database, 1)
    assert not office.database.lanes["a"].is_leased


async def test_nothing_is_claimed_while_everything_is_paused_or_memory_is_full() -> None:
    office = Office()
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"))
        pause(office)
        await office.rounds(group)
        office.instruments.pause.set(False)
        ballast = make_event(99, object=b"x" * 200_000_000)
        office.memory.reserve(ballast)
        await office.rounds(group)
        assert office.claims.leases_asked == []
        office.memory.free(ballast)
        await office.rounds(group)
    assert office.sent == [1]


async def test_a_visit_that_needs_more_while_memory_is_full_ends() -> None:
    office = Office()
    async with office.open("a") as group:
        office.database.insert(*[make_event(seq, "a") for seq in range(1, RUN + 3)])
        await office.dispatcher.step(group)
        ballast = make_event(99, object=b"x" * 200_000_000)
        office.memory.reserve(ballast)
        await quiet()
        await office.rounds(group)
        assert office.dispatcher.lanes_leased == 0
        office.memory.free(ballast)
        await office.rounds(group)
    assert office.sent == list(range(1, RUN + 3))


async def test_a_lane_that_is_closed_while_it_is_read_on_is_claimed_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "RUN", 1)
    office = Office()
    async with office.open("a") as group:
        office.database.insert(make_event(1, "a"), make_event(2, "a"))
        office.sender.gate, office.claims.read_gate = asyncio.Event(), asyncio.Event()
        office.claims.read_gate.set()
        await office.dispatcher.step(group)
        await until(lambda: office.sent)
        office.claims.read_gate.clear()
        reading_on = asyncio.create_task(office.dispatcher.step(group))
        await until(lambda: len(office.claims.reads) == 2)
        office.dispatcher.recall("a")
        office.sender.gate.set()
        await quiet()
        await office.write()
        assert list(office.dispatcher._ready.kinds) == ["a"]
        office.claims.read_gate.set()
        await reading_on
        await office.rounds(group)
    assert office.sent == [1, 2]
