"""Claiming lanes, following them, and giving them back, against a database in memory."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.unit.builders import make_event
from tests.unit.fakes.database import is_delivered
from tests.unit.harnesses.dispatcher import DispatcherHarness
from tests.unit.loop_turns import quiet, until
from webhook_dispatcher.dispatch import worker
from webhook_dispatcher.dispatch.dispatcher import SESSION_TIME
from webhook_dispatcher.dispatch.lane_session import SessionState
from webhook_dispatcher.dispatch.worker import RUN
from webhook_dispatcher.domain.claim import SweptLane


async def test_what_arrives_is_delivered_in_order(harness: DispatcherHarness) -> None:
    async with harness.open("a", "b") as group:
        harness.database.insert(make_event(1, "a"), make_event(2, "b"), make_event(3, "a"))
        await harness.rounds(group)
        assert harness.dispatcher.lanes_leased == 0
    assert [seq for seq in harness.sent if seq != 2] == [1, 3]
    assert all(is_delivered(harness.database, seq) for seq in (1, 2, 3))
    assert not harness.database.lanes["a"].is_leased
    assert harness.metrics.leases_lost._value.get() == 0


@pytest.fixture
def harness() -> DispatcherHarness:
    return DispatcherHarness()


async def test_a_long_lane_is_read_on_without_a_new_lease(harness: DispatcherHarness) -> None:
    async with harness.open("a") as group:
        harness.database.insert(*[make_event(seq, "a") for seq in range(1, 3 * RUN + 2)])
        await harness.rounds(group, 12)
    assert (harness.sent, harness.database.lanes["a"].epoch) == (list(range(1, 3 * RUN + 2)), 1)


async def test_no_more_lanes_are_claimed_than_there_is_room_for() -> None:
    harness = DispatcherHarness(max_lanes=2)
    harness.sender.gate = asyncio.Event()
    async with harness.open(*"abc") as group:
        harness.database.insert(*[make_event(number, name) for number, name in enumerate("abc", 1)])
        await harness.rounds(group)
        assert harness.claims.leases_asked == [{"a": 1, "b": 2}]
        assert not harness.dispatcher.wants_more
        harness.sender.gate.set()
        await harness.rounds(group)
    assert harness.sent == [1, 2, 3]


async def test_an_arrival_for_a_held_lane_goes_to_the_session(harness: DispatcherHarness) -> None:
    harness.sender.gate = asyncio.Event()
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"))
        await harness.rounds(group)
        harness.database.insert(make_event(2, "a"))
        await harness.rounds(group)
        assert len(harness.claims.leases_asked) == 1
        harness.sender.gate.set()
        await harness.rounds(group)
    assert (harness.sent, harness.database.lanes["a"].epoch) == ([1, 2], 1)


async def test_another_server_ends_sessions_and_all_is_read_anew(harness: DispatcherHarness) -> None:
    harness.sender.gate = asyncio.Event()
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"), make_event(2, "a"))
        await harness.rounds(group)
        [session] = harness.dispatcher._sessions.values()
        harness.instruments.blocked.leave("b")
        harness.database.server_started_at += timedelta(seconds=1)
        await harness.rounds(group)
        assert (session.state, session.turn(()).reach) == (SessionState.ENDING, 0)
        assert not harness.instruments.blocked.is_left("b")
        harness.sender.gate.set()
        await harness.rounds(group)
    assert (harness.sent, harness.database.lanes["a"].epoch) == ([1, 2], 2)


async def test_an_arrival_while_a_lane_is_leased_goes_to_the_session(harness: DispatcherHarness) -> None:
    harness.sender.gate = asyncio.Event()
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"))
        harness.claims.after_lease = lambda: harness.dispatcher.notice_swept(SweptLane("a", 1, True))
        await harness.rounds(group)
        assert len(harness.claims.leases_asked) == 1
        assert not harness.dispatcher._ready.kinds


async def test_a_straggler_is_read_first_by_the_next_session(harness: DispatcherHarness) -> None:
    async with harness.open("a") as group:
        harness.database.last_seq = 5
        await harness.rounds(group)  # 1 to 5 are settled: nobody waits for them
        harness.clock.advance(20)
        await harness.rounds(group)
        harness.sender.gate = asyncio.Event()
        harness.database.insert(make_event(6, "a"), make_event(7, "a"))
        await harness.rounds(group)
        harness.clock.advance(0.3)
        await harness.rounds(group)
        assert harness.sent == [6]
        harness.database.insert(make_event(3, "a"))
        harness.dispatcher.notice_swept(SweptLane("a", 3, True))
        harness.sender.gate.set()
        await harness.rounds(group)
    assert (harness.sent, harness.database.lanes["a"].epoch) == ([6, 3, 7], 2)


async def test_a_spent_session_makes_room_and_is_claimed_again(harness: DispatcherHarness) -> None:
    async with harness.open("a") as group:
        harness.sender.on_post = lambda: harness.clock.advance(SESSION_TIME)
        harness.database.insert(make_event(1, "a"), make_event(2, "a"))
        await harness.rounds(group)
    assert (harness.sent, harness.database.lanes["a"].epoch) == ([1, 2], 2)


def recall(harness: DispatcherHarness) -> None:
    harness.dispatcher.recall("a")


def pause(harness: DispatcherHarness) -> None:
    harness.instruments.pause.set(True)


def stop(harness: DispatcherHarness) -> None:
    harness.dispatcher.stop()


@pytest.mark.parametrize("end", [recall, pause, stop])
async def test_nothing_starts_after_a_recall_a_pause_or_a_stop(
    harness: DispatcherHarness, end: Callable[[DispatcherHarness], None]
) -> None:
    harness.sender.gate = asyncio.Event()
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"), make_event(2, "a"))
        await harness.dispatcher.step(group)
        await until(lambda: harness.sent)
        end(harness)
        harness.sender.gate.set()
        await quiet()
        await harness.write()
        assert (harness.sent, harness.dispatcher.lanes_leased) == ([1], 0)
    assert is_delivered(harness.database, 1)
    assert not harness.database.lanes["a"].is_leased


async def test_nothing_is_claimed_while_paused_or_memory_is_full(harness: DispatcherHarness) -> None:
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"))
        pause(harness)
        await harness.rounds(group)
        harness.instruments.pause.set(False)
        ballast = make_event(99, object=b"x" * 200_000_000)
        harness.memory.reserve(ballast)
        await harness.rounds(group)
        assert harness.claims.leases_asked == []
        harness.memory.free(ballast)
        await harness.rounds(group)
    assert harness.sent == [1]


async def test_a_session_that_needs_more_while_memory_is_full_ends(harness: DispatcherHarness) -> None:
    async with harness.open("a") as group:
        harness.database.insert(*[make_event(seq, "a") for seq in range(1, RUN + 3)])
        await harness.dispatcher.step(group)
        ballast = make_event(99, object=b"x" * 200_000_000)
        harness.memory.reserve(ballast)
        await quiet()
        await harness.rounds(group)
        assert harness.dispatcher.lanes_leased == 0
        harness.memory.free(ballast)
        await harness.rounds(group)
    assert harness.sent == list(range(1, RUN + 3))


async def test_a_lane_closed_while_it_is_read_on_is_claimed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RUN", 1)
    harness = DispatcherHarness()
    async with harness.open("a") as group:
        harness.database.insert(make_event(1, "a"), make_event(2, "a"))
        harness.sender.gate, harness.claims.read_gate = asyncio.Event(), asyncio.Event()
        harness.claims.read_gate.set()
        await harness.dispatcher.step(group)
        await until(lambda: harness.sent)
        harness.claims.read_gate.clear()
        reading_on = asyncio.create_task(harness.dispatcher.step(group))
        await until(lambda: len(harness.claims.reads) == 2)
        harness.dispatcher.recall("a")
        harness.sender.gate.set()
        await quiet()
        await harness.write()
        assert list(harness.dispatcher._ready.kinds) == ["a"]
        harness.claims.read_gate.set()
        await reading_on
        await harness.rounds(group)
    assert harness.sent == [1, 2]
