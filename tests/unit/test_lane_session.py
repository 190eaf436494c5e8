"""A leased lane in memory: what is read, noticed, dropped and known to be recorded."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW, make_event
from tests.unit.fakes.database import FakeDatabase
from webhook_dispatcher.dispatch.lane_session import LaneSession, MemoryBudget, SessionState, trust
from webhook_dispatcher.domain.claim import Lease, RunAsk
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.record import Attempt
from webhook_dispatcher.domain.verdict import Outcome

EVERYTHING = RunAsk("m", 0, 1000, 10**6, NOW)


def make_session(
    from_seq: int = 0,
    trusted_until: float = 100.0,
    expires_at: float = 50.0,
    free_since: datetime | None = None,
) -> LaneSession:
    lease = Lease("m", 1, from_seq, None, False, NOW, free_since)
    return LaneSession(lease, MemoryBudget(), trusted_until, expires_at)


def events(*seqs: int) -> list[Event]:
    return [make_event(seq) for seq in seqs]


def take(session: LaneSession) -> Event:
    """Take the next event as the follower does, and hand its record over."""
    session.add_outcome()
    return session.start()


def run_of(session: LaneSession) -> list[int]:
    return [event.seq for event in session.run]


@pytest.fixture
def session() -> LaneSession:
    return make_session()


def test_one_that_appears_in_between_goes_before_what_is_not_started(session: LaneSession) -> None:
    session.take_in(events(2, 5, 6), EVERYTHING, stable=1)
    take(session)
    session.notice(4)
    assert session.has_more
    assert session.straggler is None
    session.take_in(events(2, 4, 5, 6), EVERYTHING, stable=6)
    assert run_of(session) == [4, 5, 6]


def test_one_that_was_not_waited_for_ends_the_session(session: LaneSession) -> None:
    session.take_in(events(7, 8), EVERYTHING, stable=8)
    session.notice(5)
    session.notice(3)
    session.notice(4)
    assert session.straggler == 3
    assert not session.may_start(0.0)


def test_what_was_read_in_this_session_is_no_straggler_even_when_it_is_written(session: LaneSession) -> None:
    session.take_in(events(2, 3), EVERYTHING, stable=9)
    session.settle_outcome(take(session))
    for seq in (2, 3):
        session.notice(seq)
    assert session.straggler is None
    assert not session.has_more


def test_what_was_dropped_is_no_straggler_either(session: LaneSession) -> None:
    session.take_in(events(2, 3), EVERYTHING, stable=9)
    session.end()
    session.notice(3)
    assert session.straggler is None
    assert session.has_more


def test_a_read_that_was_cut_leaves_more(session: LaneSession) -> None:
    session.take_in(events(2, 4), RunAsk("m", 0, 2, 10**6, NOW), stable=9)
    assert session.has_more
    assert session.complete_up_to == 4
    session = make_session()
    session.take_in(events(2), RunAsk("m", 0, 20, 5, NOW), stable=9)
    assert session.has_more
    assert session.complete_up_to == 2


def test_routing_reaches_no_further_than_what_was_routed_or_can_appear(session: LaneSession) -> None:
    assert session.ask_to_route() == 0
    session.routed(None, stable=9, is_cut=True)
    assert (session.has_more, session.ask_to_route()) == (True, 0), "nothing passes a row that is locked"
    session.routed(7, stable=9, is_cut=True)
    assert session.ask_to_route() == 7
    session.routed(8, stable=5, is_cut=True)
    assert session.ask_to_route() == 7
    session.notice(12)
    session.routed(None, stable=9, is_cut=False)
    assert (session.has_more, session.turn(()).reach, session.state) == (True, 9, SessionState.OPEN)
    session.notice(9)
    assert (session.straggler, session.state) == (9, SessionState.ENDING)


def test_an_ask_starts_where_all_is_read_and_leaves_room_for_what_comes_again() -> None:
    session = make_session(from_seq=1)
    session.take_in(events(2, 3), EVERYTHING, stable=2)
    session.missed_read()
    size = sum(len(event.object) for event in session.run)
    take(session)
    assert session.ask(20, 1000) == RunAsk("m", 2, 22, 1000 + size, NOW)
    assert not session.has_more


def test_what_is_noticed_during_a_read_is_asked_for_again(session: LaneSession) -> None:
    ask = session.ask(20, 1000)
    session.notice(5)
    session.take_in(events(3), ask, stable=2)
    assert session.has_more


def test_a_read_that_comes_back_after_the_end_is_not_taken_in(session: LaneSession) -> None:
    session.end()
    session.take_in(events(2, 3), EVERYTHING, stable=9)
    assert run_of(session) == []
    assert session.has_more
    assert (session.memory.used, session.complete_up_to) == (0, 0)


def test_the_end_forgets_the_run_and_what_it_weighs(session: LaneSession) -> None:
    session.take_in(events(2, 3, 4), EVERYTHING, stable=9)
    take(session)
    session.end()
    assert session.has_more
    assert (session.memory.used, session.complete_up_to) == (len(make_event(2).object), 2)


@pytest.mark.parametrize(("trusted_until", "expires_at"), [(50.0, 100.0), (100.0, 50.0)])
def test_nothing_starts_once_trust_or_time_is_over(trusted_until: float, expires_at: float) -> None:
    session = make_session(0, trusted_until, expires_at)
    assert (session.may_start(49.9), session.may_start(50.0)) == (True, False)


@pytest.mark.parametrize("end", [LaneSession.recall, LaneSession.give_way, LaneSession.lose, LaneSession.end])
def test_nothing_starts_in_a_session_that_ends(end: Callable[[LaneSession], object]) -> None:
    session = make_session()
    end(session)
    assert not session.may_start(0.0)


def test_a_session_never_goes_back_to_an_earlier_state(session: LaneSession) -> None:
    states = []
    for step in (session.recall, session.give_way, session.end, session.recall, session.lose):
        step()
        states.append(session.state.name)
    assert states == ["ENDING", "ENDING", "OVER", "OVER", "OVER"]


@pytest.mark.parametrize(("lease", "timeout", "trusted"), [(30, 10, 19.0), (15, 10, 4.0), (12, 10, 1.5)])
def test_an_attempt_started_in_time_ends_before_the_lease(lease: int, timeout: int, trusted: float) -> None:
    assert trust(timedelta(seconds=lease), timedelta(seconds=timeout)) == trusted


def test_a_disowned_session_ends_and_says_nothing_of_how_far_its_lane_is(session: LaneSession) -> None:
    session.take_in([], EVERYTHING, stable=9)
    assert session.turn(()).reach == 9
    session.disown()
    assert not session.may_start(0.0)
    assert (session.turn(()).reach, session.has_more) == (0, True)
    assert not session.lose(), "nobody took it"


def test_a_session_that_ends_while_it_is_read_on_says_so_until_the_read_has_been_tried() -> None:
    async def ask() -> LaneSession:
        session = make_session()
        session.ask_for_more()
        session.end()
        return session

    session = asyncio.run(ask())
    pending = [session.fetch is not None]
    session.take_in([], EVERYTHING, stable=9)
    session.fetched()
    pending.append(session.fetch is not None)
    assert pending == [True, False]
    assert not session.has_more


def test_a_session_is_unblocked_when_all_its_outcomes_are_written(session: LaneSession) -> None:
    session.take_in(events(2, 3), EVERYTHING, stable=9)
    first, second = take(session), take(session)
    session.block()
    unblocked = session.unblocked
    assert unblocked is not None
    session.settle_outcome(first)
    assert not unblocked.is_set()
    session.settle_outcome(second)
    assert unblocked.is_set()
    assert session.unblocked is None


READS = st.lists(
    st.tuples(
        st.lists(st.integers(1, 40), max_size=6),  # committed before this read
        st.integers(0, 6),  # how many are attempted afterwards
        st.integers(0, 6),  # how many of those are written then
        st.integers(1, 6),  # most read beyond what comes again
    ),
    max_size=12,
)


@given(READS)
def test_everything_that_becomes_visible_is_attempted_once_and_reach_never_passes_what_is_owed(
    reads: list[tuple[list[int], int, int, int]],
) -> None:
    """However commits, reads and records are interleaved; nothing is settled here but what was read."""
    database, session = FakeDatabase(), make_session()
    attempted: list[int] = []
    waiting: list[Event] = []
    committed: set[int] = set()
    for seqs, tries, writes, most in [*reads, *[([], 99, 99, 3)] * 20]:
        fresh = [seq for seq in dict.fromkeys(seqs) if seq not in committed]
        committed.update(fresh)
        database.insert(*events(*fresh))
        ask = session.ask(most, 10**6)
        rows = [make_event(seq) for seq in sorted(database.owed) if seq > ask.after_seq][: ask.max_events]
        session.take_in(rows, ask, stable=0)
        for _ in range(min(tries, len(session.run))):
            waiting.append(take(session))
            attempted.append(waiting[-1].seq)
        batch, waiting = waiting[:writes], waiting[writes:]
        reach = session.turn([event.seq for event in batch]).reach
        for event in batch:
            del database.owed[event.seq]
            session.settle_outcome(event)
        assert reach < min(database.owed, default=reach + 1)
    assert sorted(attempted) == sorted(committed)


@pytest.mark.parametrize(
    ("free_since", "attempts", "late"),
    [
        pytest.param(None, [(0, 3, 0.1), (0, 3.1, 0.1)], [3, 3], id="nobody took the lane up"),
        pytest.param(0, [(0, 0, 10), (1, 10, 10), (2, 20, 0.1), (3, 20.1, 0.1)], [0] * 4, id="it hangs"),
        pytest.param(60, [(0, 60, 0.1), (1, 60.1, 0.1)], [0, 0], id="it failed until it was leased"),
        pytest.param(0, [(-9, 8, 2), (-9, 10, 2), (9, 12, 1)], [8, 8, 3], id="an outage of ours"),
        pytest.param(
            0, [(0, n * 0.3, 0.1) for n in range(9)], [0] + [0.2] * 8, id="overhead is not added up"
        ),
    ],
)
def test_an_attempt_is_late_by_what_its_merchants_own_events_did_not_take(
    free_since: float | None, attempts: list[tuple[float, float, float]], late: list[float]
) -> None:
    """Attempts: when their event was written, when they started, how long they took."""

    def at(seconds: float) -> datetime:
        return NOW + timedelta(seconds=seconds)

    session = make_session(free_since=None if free_since is None else at(free_since))
    found = [
        session.late_by(
            make_event(1)._replace(created_at=at(written)),
            Attempt(1, at(start), at(start + took), 0, 200, Outcome.DELIVERED),
        )
        for written, start, took in attempts
    ]
    assert [round(each.total_seconds(), 3) for each in found] == late
