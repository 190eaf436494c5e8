"""Writing outcomes: in batches, in turn, nothing lost, and lanes given back with their last outcome."""

import asyncio

import pytest

from tests.unit.fakes import is_delivered, seqs_of, until
from tests.unit.recording import TRUST, Recording
from webhook_dispatcher.dispatch.lane_session import SessionState
from webhook_dispatcher.dispatch.recorder import LOCKED_WAIT, MAX_BATCH, MAX_BEHIND
from webhook_dispatcher.domain.errors import StorageUnavailable

DOWN = StorageUnavailable("down")


def test_outcomes_of_many_lanes_are_written_in_one_statement() -> None:
    recording = Recording()
    visits = [recording.visit(f"m{number}", 10 + number) for number in range(3)]
    for visit in visits:
        recording.attempt(visit)
    recording.step()
    [(seqs, turns)] = recording.records.statements
    assert seqs == [10, 11, 12]
    assert [(turn.merchant_id, turn.is_over) for turn in turns] == [
        ("m0", False),
        ("m1", False),
        ("m2", False),
    ]
    assert recording.recorder.unwritten == 0
    assert all(is_delivered(recording.database, seq) for seq in seqs)
    assert recording.memory.used == 0


def test_a_batch_is_bounded_and_oldest_first() -> None:
    recording = Recording()
    visit = recording.visit("m", *range(1, MAX_BATCH + 3))
    for _ in range(MAX_BATCH + 2):
        recording.attempt(visit)
    recording.step()
    recording.step()
    assert [seqs for seqs, _ in recording.records.statements] == [
        list(range(1, MAX_BATCH + 1)),
        [MAX_BATCH + 1, MAX_BATCH + 2],
    ]


def test_nothing_to_write_asks_nothing_of_the_database() -> None:
    recording = Recording()
    recording.step()
    assert recording.records.statements == []


def test_a_statement_that_failed_is_written_again() -> None:
    recording = Recording()
    recording.database.faults["write"].append(DOWN)
    visit = recording.visit("m", 1, 2)
    recording.attempt(visit)
    with pytest.raises(StorageUnavailable):
        recording.step()
    recording.attempt(visit)
    assert recording.recorder.unwritten == 2
    recording.step()
    assert [seqs for seqs, _ in recording.records.statements] == [[1], [1, 2]]
    assert visit.unwritten == 0
    assert recording.memory.used == 0


def test_a_statement_that_was_committed_but_reported_as_failed_settles_as_late() -> None:
    recording = Recording()
    recording.records.loses_answers.append(True)
    visit = recording.visit("m", 1)
    record = recording.attempt(visit)
    with pytest.raises(StorageUnavailable):
        recording.step()
    recording.step()
    assert recording.records.written == [record]
    assert recording.records.late == [record]
    assert recording.recorder.unwritten == 0


@pytest.mark.parametrize("method", ["read_unwritten", "write_late"])
def test_a_failure_while_the_rest_is_settled_loses_nothing(method: str) -> None:
    recording = Recording()
    recording.database.faults[method].append(DOWN)
    robbed, other = recording.visit("robbed", 1), recording.visit("other", 2)
    recording.database.lease("robbed")
    for visit in (robbed, other):
        recording.attempt(visit)
        recording.end(visit)
    with pytest.raises(StorageUnavailable):
        recording.step()
    assert recording.recorder.unwritten == 1
    recording.settle()
    assert seqs_of(recording.records.written) == [2]
    assert seqs_of(recording.records.late) == [1]
    assert set(recording.closed) == {robbed, other}


async def test_a_cancelled_statement_is_written_again() -> None:
    recording = Recording()
    recording.records.gate = asyncio.Event()
    recording.attempt(recording.visit("m", 1))
    writing = asyncio.create_task(recording.recorder.step())
    await until(lambda: recording.records.statements)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert recording.recorder.unwritten == 1
    recording.records.gate.set()
    await recording.recorder.step()
    assert is_delivered(recording.database, 1)


def test_a_lane_is_given_back_with_its_last_outcome() -> None:
    recording = Recording()
    visit = recording.visit("m", 1, 2)
    recording.attempt(visit)
    recording.step()
    recording.attempt(visit)
    recording.end(visit)
    recording.step()
    assert [[turn.is_over for turn in turns] for _, turns in recording.records.statements] == [
        [False],
        [True],
    ]
    assert recording.closed == [visit]
    assert not recording.database.lanes["m"].is_leased


def test_a_lane_without_outcome_is_given_back_alone() -> None:
    recording = Recording()
    visit = recording.visit("m", 1)
    visit.wait_until = recording.clock.now
    recording.end(visit)
    recording.step()
    assert recording.closed == [visit]
    assert recording.database.lanes["m"].wait_until == recording.clock.now
    recording.step()
    assert len(recording.records.statements) == 1


def test_a_lane_whose_outcomes_fill_more_than_a_batch_ends_with_the_last_of_them() -> None:
    recording = Recording()
    visit = recording.visit("m", *range(1, MAX_BATCH + 2))
    for _ in range(MAX_BATCH + 1):
        recording.attempt(visit)
    recording.end(visit)
    recording.step()
    assert recording.closed == []
    assert recording.database.lanes["m"].is_leased
    recording.step()
    assert recording.closed == [visit]


def test_every_outcome_renews_its_lane_from_when_it_was_asked() -> None:
    recording = Recording()
    visit = recording.visit("m", 1)
    recording.clock.advance(5)
    recording.attempt(visit)
    recording.step()
    assert visit.trusted_until == recording.clock.elapsed() + TRUST


def test_a_turn_says_how_far_everything_is_recorded() -> None:
    recording = Recording()
    visit = recording.visit("m", 3, 5, 9)
    recording.attempt(visit)
    recording.step()
    recording.attempt(visit)
    recording.attempt(visit)
    recording.step()
    assert [turn.reach for _, turns in recording.records.statements for turn in turns] == [4, 9]


def test_a_lost_lane_starts_nothing_more_and_its_outcome_is_a_late_fact() -> None:
    recording = Recording()
    visit = recording.visit("m", 1, 2)
    recording.attempt(visit)
    recording.database.lease("m")
    recording.step()
    assert visit.is_lost
    assert recording.closed == []
    assert seqs_of(recording.records.late) == [1]
    assert recording.metrics.leases_lost._value.get() == 1
    recording.end(visit)
    recording.step()
    assert recording.closed == [visit]
    assert recording.metrics.leases_lost._value.get() == 1
    assert recording.database.lanes["m"].is_leased, "it is another's"


def test_a_recalled_lane_is_told() -> None:
    recording = Recording()
    visit = recording.visit("m", 1, 2)
    recording.database.lanes["m"].is_recalled = True
    recording.attempt(visit)
    recording.step()
    assert visit.state is SessionState.ENDING


def test_a_locked_row_keeps_back_only_its_lane() -> None:
    recording = Recording()
    locked, other = recording.visit("locked", 1, 2), recording.visit("other", 3, 4)
    recording.database.owed[1].is_locked = True
    for visit in (locked, other):
        recording.attempt(visit)
    recording.step()
    assert (locked.unblocked is None, other.unblocked is None) == (False, True)
    assert is_delivered(recording.database, 3)
    recording.clock.advance(MAX_BEHIND * 2)
    assert not recording.recorder.is_behind()
    recording.attempt(other)
    recording.database.owed[1].is_locked = False
    recording.step()
    assert locked.unblocked is None
    assert is_delivered(recording.database, 1)
    assert recording.recorder.unwritten == 0


def test_a_locked_row_is_tried_again_after_a_moment() -> None:
    recording = Recording()
    visit = recording.visit("m", 1)
    recording.database.owed[1].is_locked = True
    recording.attempt(visit)
    recording.step()
    recording.step()
    assert len(recording.records.statements) == 1
    recording.clock.advance(LOCKED_WAIT)
    recording.step()
    assert len(recording.records.statements) == 2
    assert visit.trusted_until == recording.clock.elapsed() + TRUST, "renewed all the same"


def test_a_lane_with_a_locked_row_is_not_given_back() -> None:
    recording = Recording()
    visit = recording.visit("m", 1)
    recording.attempt(visit)
    recording.end(visit)
    recording.database.owed[1].is_locked = True
    for _ in range(3):
        recording.clock.advance(LOCKED_WAIT)
        recording.step()
    assert recording.closed == []
    assert recording.database.lanes["m"].is_leased
    recording.database.owed[1].is_locked = False
    recording.settle()
    assert recording.closed == [visit]


def test_a_locked_lane_is_given_back_later() -> None:
    recording = Recording()
    visit = recording.visit("m", 1)
    recording.attempt(visit)
    recording.end(visit)
    recording.database.lanes["m"].is_locked = True
    recording.step()
    assert recording.closed == []
    recording.database.lanes["m"].is_locked = False
    recording.settle()
    assert recording.closed == [visit]
    assert is_delivered(recording.database, 1)


def test_a_row_is_never_twice_in_a_statement() -> None:
    recording = Recording()
    recording.retry(7, claim=1)
    recording.retry(7, claim=2)
    recording.retry(8, claim=3)
    recording.settle()  # the fake refuses a statement that names a row twice
    assert [seqs for seqs, _ in recording.records.statements] == [[7], [7, 8]]
    assert seqs_of(recording.records.late) == [7]


def test_a_retry_is_written_under_its_claim() -> None:
    recording = Recording()
    stale = recording.retry(7, claim=1)
    recording.database.owed[7].claim = 2
    recording.step()
    assert recording.records.written == []
    assert recording.records.late == [stale]
    assert 7 in recording.database.owed
