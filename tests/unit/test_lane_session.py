"""A leased lane in memory: what is read, noticed, dropped and known to be recorded."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import make_event
from tests.unit.fakes.database import FakeDatabase
from webhook_dispatcher.dispatch.lane_session import LaneSession, MemoryBudget
from webhook_dispatcher.domain.claim import Lease, RunAsk
from webhook_dispatcher.domain.event import Event

EVERYTHING = RunAsk("m", 0, 1000, 10**6)


def make_visit(from_seq: int = 0) -> LaneSession:
    return LaneSession(Lease("m", 1, from_seq, None), MemoryBudget(), trusted_until=100.0, expires_at=50.0)


def events(*seqs: int) -> list[Event]:
    return [make_event(seq) for seq in seqs]


def take(visit: LaneSession) -> Event:
    """Take the next event as the follower does, and hand its record over."""
    visit.add_outcome()
    return visit.start()


def run_of(visit: LaneSession) -> list[int]:
    return [event.seq for event in visit.run]


def test_what_a_read_brings_is_run_in_order() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3), EVERYTHING, stable=3)
    assert run_of(visit) == [2, 3]
    assert not visit.has_more
    assert visit.complete_up_to == 3


def test_what_is_read_again_is_taken_in_once() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3, 4), EVERYTHING, stable=0)
    written = take(visit)
    visit.settle_outcome(written)
    in_flight = take(visit)
    visit.take_in(events(2, 3, 4, 5), EVERYTHING, stable=0)
    assert run_of(visit) == [4, 5]
    assert in_flight.seq in visit.unfinished


def test_one_that_appears_in_between_goes_before_what_is_not_started() -> None:
    visit = make_visit()
    visit.take_in(events(2, 5, 6), EVERYTHING, stable=1)
    take(visit)
    visit.notice(4)
    assert visit.has_more
    assert visit.straggler is None
    visit.take_in(events(2, 4, 5, 6), EVERYTHING, stable=6)
    assert run_of(visit) == [4, 5, 6]


def test_one_that_was_not_waited_for_ends_the_visit() -> None:
    visit = make_visit()
    visit.take_in(events(7, 8), EVERYTHING, stable=8)
    visit.notice(5)
    visit.notice(3)
    visit.notice(4)
    assert visit.straggler == 3
    assert not visit.may_start(0.0)


def test_what_was_read_in_this_visit_is_no_straggler_even_when_it_is_written() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3), EVERYTHING, stable=9)
    visit.settle_outcome(take(visit))
    for seq in (2, 3):
        visit.notice(seq)
    assert visit.straggler is None
    assert not visit.has_more


def test_what_was_dropped_is_no_straggler_either() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3), EVERYTHING, stable=9)
    visit.end()
    visit.notice(3)
    assert visit.straggler is None
    assert visit.has_more


def test_a_read_that_was_cut_leaves_more() -> None:
    visit = make_visit()
    visit.take_in(events(2, 4), RunAsk("m", 0, 2, 10**6), stable=9)
    assert visit.has_more
    assert visit.complete_up_to == 4
    visit = make_visit()
    visit.take_in(events(2), RunAsk("m", 0, 20, 5), stable=9)
    assert visit.has_more
    assert visit.complete_up_to == 2


def test_an_ask_starts_where_all_is_read_and_leaves_room_for_what_comes_again() -> None:
    visit = make_visit(from_seq=1)
    visit.take_in(events(2, 3), EVERYTHING, stable=2)
    visit.missed_read()
    size = sum(len(event.object) for event in visit.run)
    take(visit)
    assert visit.ask(20, 1000) == RunAsk("m", 2, 22, 1000 + size)
    assert not visit.has_more


def test_what_is_noticed_during_a_read_is_asked_for_again() -> None:
    visit = make_visit()
    ask = visit.ask(20, 1000)
    visit.notice(5)
    visit.take_in(events(3), ask, stable=2)
    assert visit.has_more


def test_a_read_that_comes_back_after_the_end_is_not_taken_in() -> None:
    visit = make_visit()
    visit.end()
    visit.take_in(events(2, 3), EVERYTHING, stable=9)
    assert run_of(visit) == []
    assert visit.has_more
    assert visit.memory.used == 0
    assert visit.complete_up_to == 0


def test_the_end_forgets_the_run_and_what_it_weighs() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3, 4), EVERYTHING, stable=9)
    take(visit)
    visit.end()
    assert visit.has_more
    assert visit.memory.used == len(make_event(2).object)
    assert visit.complete_up_to == 2


def test_an_empty_visit_that_ends_owes_nothing() -> None:
    visit = make_visit()
    visit.take_in([], EVERYTHING, stable=9)
    visit.end()
    assert not visit.has_more
    assert visit.turn(()).reach == 9


@pytest.mark.parametrize(("trusted_until", "expires_at"), [(50.0, 100.0), (100.0, 50.0)])
def test_nothing_starts_once_trust_or_time_is_over(trusted_until: float, expires_at: float) -> None:
    session = LaneSession(Lease("m", 1, 0, None), MemoryBudget(), trusted_until, expires_at)
    assert session.may_start(49.9)
    assert not session.may_start(50.0)


def test_a_renewed_session_is_trusted_for_longer() -> None:
    session = LaneSession(Lease("m", 1, 0, None), MemoryBudget(), trusted_until=50.0, expires_at=100.0)
    session.renew(70.0)
    assert session.may_start(69.9)
    assert not session.may_start(70.0)


@pytest.mark.parametrize("end", [LaneSession.recall, LaneSession.expire, LaneSession.lose, LaneSession.end])
def test_nothing_starts_in_a_session_that_ends(end: Callable[[LaneSession], object]) -> None:
    session = make_visit()
    end(session)
    assert not session.may_start(0.0)


def test_a_session_never_goes_back_to_an_earlier_state() -> None:
    session = make_visit()
    states = []
    for step in (session.recall, session.expire, session.end, session.recall, session.lose):
        step()
        states.append(session.state.name)
    assert states == ["ENDING", "ENDING", "OVER", "OVER", "OVER"]


def test_a_lane_is_lost_once() -> None:
    session = make_visit()
    session.end()
    assert session.lose()
    assert not session.lose()


def test_a_session_that_ends_while_it_is_read_on_says_so_until_the_read_has_been_tried() -> None:
    async def ask() -> LaneSession:
        session = make_visit()
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


def test_a_visit_is_unblocked_when_all_its_outcomes_are_written() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3), EVERYTHING, stable=9)
    first, second = take(visit), take(visit)
    visit.block()
    unblocked = visit.unblocked
    assert unblocked is not None
    visit.settle_outcome(first)
    assert not unblocked.is_set()
    visit.settle_outcome(second)
    assert unblocked.is_set()
    assert visit.unblocked is None


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
    database, visit = FakeDatabase(), make_visit()
    attempted: list[int] = []
    waiting: list[Event] = []
    committed: set[int] = set()
    for seqs, tries, writes, most in [*reads, *[([], 99, 99, 3)] * 20]:
        fresh = [seq for seq in dict.fromkeys(seqs) if seq not in committed]
        committed.update(fresh)
        database.insert(*events(*fresh))
        ask = visit.ask(most, 10**6)
        rows = [make_event(seq) for seq in sorted(database.owed) if seq > ask.after_seq][: ask.max_events]
        visit.take_in(rows, ask, stable=0)
        for _ in range(min(tries, len(visit.run))):
            waiting.append(take(visit))
            attempted.append(waiting[-1].seq)
        batch, waiting = waiting[:writes], waiting[writes:]
        reach = visit.turn([event.seq for event in batch]).reach
        for event in batch:
            del database.owed[event.seq]
            visit.settle_outcome(event)
        assert reach < min(database.owed, default=reach + 1)
    assert sorted(attempted) == sorted(committed)
