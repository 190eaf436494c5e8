"""Writing outcomes: in batches, in turn, nothing lost, and lanes given back with their last outcome."""

import asyncio

import pytest

from tests.unit.fakes.database import is_delivered, seqs_of
from tests.unit.harnesses.recorder import TRUST, RecorderHarness
from tests.unit.loop_turns import until
from webhook_dispatcher.dispatch.attempt import pass_over
from webhook_dispatcher.dispatch.lane_session import SessionState
from webhook_dispatcher.dispatch.recorder import LOCKED_WAIT, MAX_BATCH, MAX_BEHIND
from webhook_dispatcher.domain.errors import StorageUnavailable
from webhook_dispatcher.domain.verdict import Outcome

DOWN = StorageUnavailable("down")


@pytest.fixture
def harness() -> RecorderHarness:
    return RecorderHarness()


def test_outcomes_of_many_lanes_are_written_in_one_statement(harness: RecorderHarness) -> None:
    sessions = [harness.session(f"m{number}", 10 + number) for number in range(3)]
    for session in sessions:
        harness.attempt(session)
    harness.step()
    [(seqs, turns)] = harness.records.statements
    assert seqs == [10, 11, 12]
    assert [(turn.lease.lane, turn.is_over) for turn in turns] == [
        ("m0", False),
        ("m1", False),
        ("m2", False),
    ]
    assert harness.recorder.unwritten == 0
    assert all(is_delivered(harness.database, seq) for seq in seqs)
    assert harness.memory.used == 0


def test_what_could_not_be_written_goes_before_what_is_newer(harness: RecorderHarness) -> None:
    harness.database.faults["write"].append(DOWN)
    session = harness.session("m", *range(1, MAX_BATCH + 2))
    for _ in range(MAX_BATCH + 1):
        harness.attempt(session)
        harness.clock.advance(0.001)
    with pytest.raises(StorageUnavailable):
        harness.step()
    harness.step()
    seqs, _ = harness.records.statements[1]
    assert seqs == list(range(1, MAX_BATCH // 2 + 1))


@pytest.mark.parametrize("method", ["read_unwritten", "write_late"])
def test_a_failure_while_the_rest_is_settled_loses_nothing(harness: RecorderHarness, method: str) -> None:
    harness.database.faults[method].append(DOWN)
    robbed, other = harness.session("robbed", 1), harness.session("other", 2)
    harness.database.lease("robbed")
    for session in (robbed, other):
        harness.attempt(session)
        harness.end(session)
    with pytest.raises(StorageUnavailable):
        harness.step()
    assert harness.recorder.unwritten == 1
    harness.settle()
    assert (seqs_of(harness.records.written), seqs_of(harness.records.late)) == ([2], [1])
    assert set(harness.closed) == {robbed, other}


async def test_a_cancelled_statement_is_written_again(harness: RecorderHarness) -> None:
    harness.records.gate = asyncio.Event()
    harness.attempt(harness.session("m", 1))
    writing = asyncio.create_task(harness.recorder.step())
    await until(lambda: harness.records.statements)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert harness.recorder.unwritten == 1
    harness.records.gate.set()
    await harness.recorder.step()
    assert is_delivered(harness.database, 1)


def test_a_lane_without_outcome_is_released_alone(harness: RecorderHarness) -> None:
    session = harness.session("m", 1)
    session.wait_until = harness.clock.now
    harness.end(session)
    harness.step()
    assert (harness.closed, harness.database.lanes["m"].wait_until) == ([session], harness.clock.now)
    harness.step()
    assert len(harness.records.statements) == 1


def test_a_lane_of_more_than_a_batch_ends_with_the_last(harness: RecorderHarness) -> None:
    session = harness.session("m", *range(1, MAX_BATCH + 2))
    for _ in range(MAX_BATCH + 1):
        harness.attempt(session)
    harness.end(session)
    harness.step()
    assert harness.closed == []
    assert harness.database.lanes["m"].is_leased
    harness.step()
    assert harness.closed == [session]


def test_every_outcome_renews_its_lane_from_when_it_was_asked(harness: RecorderHarness) -> None:
    session = harness.session("m", 1)
    harness.clock.advance(5)
    harness.attempt(session)
    asked = harness.clock.elapsed()
    harness.records.takes = 1.0
    harness.step()
    assert session.trusted_until == asked + TRUST


def test_a_turn_says_how_far_everything_is_recorded(harness: RecorderHarness) -> None:
    session = harness.session("m", 3, 5, 9)
    harness.attempt(session)
    harness.step()
    harness.attempt(session)
    harness.attempt(session)
    harness.step()
    assert [turn.reach for _, turns in harness.records.statements for turn in turns] == [4, 9]


@pytest.mark.parametrize("is_locked", [False, True])
def test_what_was_passed_over_in_a_lane_that_is_recalled_stays_owed_and_ends_the_session(
    harness: RecorderHarness, is_locked: bool
) -> None:
    """Where the lane is locked too, the statement does not tell that it is recalled."""
    session = harness.session("m", 1, 2)
    for lane_is_recalled in (False, True):
        harness.database.lanes["m"].is_recalled = lane_is_recalled
        harness.database.lanes["m"].is_locked = is_locked and lane_is_recalled
        record = pass_over(session.pass_over(), session.lease.epoch, harness.clock.now)
        harness.recorder.add(record, session)
        harness.step()
    assert (session.may_start(harness.clock.elapsed()), session.has_more, session.unwritten) == (
        False,
        True,
        0,
    )
    assert harness.database.owed.keys() == {2}
    assert harness.metrics.unwanted_events._value.get() == 1
    assert not any(counter._value.get() for counter in harness.metrics.deliveries_by.values())


def test_a_lost_lane_starts_nothing_more_and_its_outcome_is_a_late_fact(harness: RecorderHarness) -> None:
    session = harness.session("m", 1, 2)
    harness.attempt(session)
    harness.database.lease("m")
    harness.step()
    assert session.is_lost
    assert (harness.closed, seqs_of(harness.records.late)) == ([], [1])
    assert harness.recorder.take_recorded() == {Outcome.DELIVERED: 1}
    assert not any(counter._value.get() for counter in harness.metrics.deliveries_by.values())
    assert harness.metrics.leases_lost._value.get() == 1
    harness.end(session)
    harness.step()
    assert (harness.closed, harness.metrics.leases_lost._value.get()) == ([session], 1)
    assert harness.database.lanes["m"].is_leased, "it is another's"


def test_a_recalled_lane_is_told(harness: RecorderHarness) -> None:
    session = harness.session("m", 1, 2)
    harness.database.lanes["m"].is_recalled = True
    harness.attempt(session)
    harness.step()
    assert session.state is SessionState.ENDING


def test_a_locked_row_keeps_back_only_its_lane(harness: RecorderHarness) -> None:
    locked, other = harness.session("locked", 1, 2), harness.session("other", 3, 4)
    harness.database.owed[1].is_locked = True
    for session in (locked, other):
        harness.attempt(session)
    harness.step()
    assert (locked.unblocked is None, other.unblocked is None) == (False, True)
    assert is_delivered(harness.database, 3)
    harness.clock.advance(MAX_BEHIND * 2)
    assert not harness.recorder.is_behind()
    harness.attempt(other)
    harness.database.owed[1].is_locked = False
    harness.step()
    assert locked.unblocked is None
    assert is_delivered(harness.database, 1)
    assert harness.recorder.unwritten == 0


def test_a_locked_row_is_tried_again_after_a_moment(harness: RecorderHarness) -> None:
    session = harness.session("m", 1)
    harness.database.owed[1].is_locked = True
    harness.attempt(session)
    harness.step()
    harness.step()
    assert len(harness.records.statements) == 1
    harness.step(after=LOCKED_WAIT)
    assert len(harness.records.statements) == 2
    assert session.trusted_until == harness.clock.elapsed() + TRUST, "renewed all the same"


def test_a_row_is_never_twice_in_a_statement(harness: RecorderHarness) -> None:
    harness.retry(7, claim=1)
    harness.retry(7, claim=2)
    harness.retry(8, claim=3)
    harness.settle()  # the fake refuses a statement that names a row twice
    assert [seqs for seqs, _ in harness.records.statements] == [[7], [7, 8]]
    assert seqs_of(harness.records.late) == [7]
