"""A leased lane in memory: what is read, noticed, dropped and known to be recorded."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import FakeDatabase, make_event
from webhook_dispatcher.dispatch.health.memory_budget import MemoryBudget
from webhook_dispatcher.dispatch.lane_session import LaneSession
from webhook_dispatcher.domain.claim import Lease, RunAsk
from webhook_dispatcher.domain.event import Event

EVERYTHING = RunAsk("m", 0, 1000, 10**6)


def make_visit(from_seq: int = 0) -> LaneSession:
    return LaneSession(Lease("m", 1, from_seq, None), MemoryBudget(), trusted_until=100.0, spent_at=50.0)


def events(*seqs: int) -> list[Event]:
    return [make_event(seq) for seq in seqs]


def take(visit: LaneSession) -> Event:
    """Take the next event as the follower does, and hand its record over."""
    visit.unwritten += 1
    return visit.run.popleft()


def run_of(visit: LaneSession) -> list[int]:
    return [event.seq for event in visit.run]


def test_what_a_read_brings_is_run_in_order() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3), EVERYTHING, stable=3)
    assert run_of(visit) == [2, 3]
    assert not visit.owes_more
    assert visit.complete_up_to == 3


def test_what_is_read_again_is_taken_in_once() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3, 4), EVERYTHING, stable=0)
    written = take(visit)
    visit.finish(written)
    in_flight = take(visit)
    visit.take_in(events(2, 3, 4, 5), EVERYTHING, stable=0)
    assert run_of(visit) == [4, 5]
    assert in_flight.seq in visit.unfinished


def test_one_that_appears_in_between_goes_before_what_is_not_started() -> None:
    visit = make_visit()
    visit.take_in(events(2, 5, 6), EVERYTHING, stable=1)
    take(visit)
    visit.notice(4)
    assert visit.owes_more
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
    assert visit.must_end(0.0)


def test_what_was_read_in_this_visit_is_no_straggler_even_when_it_is_written() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3), EVERYTHING, stable=9)
    visit.finish(take(visit))
    for seq in (2, 3):
        visit.notice(seq)
    assert visit.straggler is None
    assert not visit.owes_more


def test_what_was_dropped_is_no_straggler_either() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3), EVERYTHING, stable=9)
    visit.end()
    visit.notice(3)
    assert visit.straggler is None
    assert visit.owes_more


def test_a_read_that_was_cut_leaves_more() -> None:
    visit = make_visit()
    visit.take_in(events(2, 4), RunAsk("m", 0, 2, 10**6), stable=9)
    assert visit.owes_more
    assert visit.complete_up_to == 4
    visit = make_visit()
    visit.take_in(events(2), RunAsk("m", 0, 20, 5), stable=9)
    assert visit.owes_more
    assert visit.complete_up_to == 2


def test_an_ask_starts_where_all_is_read_and_leaves_room_for_what_comes_again() -> None:
    visit = make_visit(from_seq=1)
    visit.take_in(events(2, 3), EVERYTHING, stable=2)
    visit.is_cut = visit.is_noticed = True
    size = sum(len(event.object) for event in visit.run)
    take(visit)
    assert visit.ask(20, 1000) == RunAsk("m", 2, 22, 1000 + size)
    assert not visit.owes_more


def test_what_is_noticed_during_a_read_is_asked_for_again() -> None:
    visit = make_visit()
    ask = visit.ask(20, 1000)
    visit.notice(5)
    visit.take_in(events(3), ask, stable=2)
    assert visit.owes_more


def test_a_read_that_comes_back_after_the_end_is_not_taken_in() -> None:
    visit = make_visit()
    visit.end()
    visit.take_in(events(2, 3), EVERYTHING, stable=9)
    assert run_of(visit) == []
    assert visit.owes_more
    assert visit.memory.held == 0
    assert visit.complete_up_to == 0


def test_the_end_forgets_the_run_and_what_it_weighs() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3, 4), EVERYTHING, stable=9)
    take(visit)
    visit.end()
    assert visit.owes_more
    assert visit.memory.held == len(make_event(2).object)
    assert visit.complete_up_to == 2


def test_an_empty_visit_that_ends_owes_nothing() -> None:
    visit = make_visit()
    visit.take_in([], EVERYTHING, stable=9)
    visit.end()
    assert not visit.owes_more
    assert visit.reach(()) == 9


def test_a_visit_ends_when_its_trust_or_its_time_is_over() -> None:
    visit = make_visit()
    assert not visit.must_end(49.9)
    assert visit.must_end(50.0)
    visit.spent_at = 1000.0
    assert not visit.must_end(99.9)
    assert visit.must_end(100.0)


def test_a_recalled_and_a_lost_visit_end() -> None:
    recalled, lost = make_visit(), make_visit()
    recalled.is_recalled = lost.is_lost = True
    assert recalled.must_end(0.0)
    assert lost.must_end(0.0)


def test_a_visit_is_unstuck_when_all_its_outcomes_are_written() -> None:
    visit = make_visit()
    visit.take_in(events(2, 3), EVERYTHING, stable=9)
    first, second = take(visit), take(visit)
    visit.unstuck.clear()
    visit.finish(first)
    assert not visit.unstuck.is_set()
    visit.finish(second)
    assert visit.unstuck.is_set()


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
        rows = [make_event(seq) for seq in sorted(database.owed) if seq > ask.after_seq][: ask.most_events]
        visit.take_in(rows, ask, stable=0)
        for _ in range(min(tries, len(visit.run))):
            waiting.append(take(visit))
            attempted.append(waiting[-1].seq)
        batch, waiting = waiting[:writes], waiting[writes:]
        reach = visit.reach([event.seq for event in batch])
        for event in batch:
            del database.owed[event.seq]
            visit.finish(event)
        assert reach < min(database.owed, default=reach + 1)
    assert sorted(attempted) == sorted(committed)
