"""Values that the database refuses: the bad record is found, and recorded without them."""

import pytest

from tests.unit.fakes.database import is_delivered, seqs_of
from tests.unit.harnesses.recorder import RecorderHarness
from webhook_dispatcher.dispatch.recorder import MAX_BATCH, MAX_BEHIND
from webhook_dispatcher.domain.errors import PartitionMissing, StatementRefused
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.verdict import Outcome


@pytest.mark.parametrize("size", [1, 2, 3, 7, MAX_BATCH])
@pytest.mark.parametrize("bad", ["first", "last", "all"])
def test_the_bad_record_is_found(harness: RecorderHarness, size: int, bad: str) -> None:
    seqs = list(range(1, size + 1))
    harness.records.refused = {"first": {1}, "last": {size}, "all": set(seqs)}[bad]
    session = harness.session("m", *seqs)
    for _ in seqs:
        harness.attempt(session)
    harness.end(session)
    harness.settle()
    assert (harness.closed, sorted(seqs_of(harness.records.written))) == ([session], seqs)
    assert all(is_delivered(harness.database, seq) for seq in seqs)
    without = {seq for seq in seqs if harness.database.finished[seq].attempt is None}
    assert without == harness.records.refused, "only the refused ones go without their attempt"


@pytest.fixture
def harness() -> RecorderHarness:
    return RecorderHarness()


def test_no_lane_ends_in_a_batch_that_was_halved(harness: RecorderHarness) -> None:
    sessions = [harness.session(f"m{seq}", seq) for seq in (1, 2)]
    harness.records.refused = {2}
    for session in sessions:
        harness.attempt(session)
        harness.end(session)
    harness.step()
    assert harness.closed == []
    assert all(turns == [] for _, turns in harness.records.statements[1:])
    harness.step()
    assert harness.closed == sessions


def test_a_refused_failure_is_recorded_as_unsendable(harness: RecorderHarness) -> None:
    harness.records.refused = {7}
    harness.retry(7, claim=1, state=None)
    harness.step()
    record = harness.database.finished[7]
    assert (record.state, record.reason, record.due_at) == (State.FAILED, FailedReason.UNSENDABLE, None)
    assert record.attempt is not None
    assert (record.attempt.outcome, record.attempt.status) == (Outcome.UNSENDABLE, None)
    assert record.attempt.reason == "the database refused what was to be written about the attempt"
    assert record.attempt.response_excerpt is None


def test_a_record_refused_even_so_stops_everything_and_is_kept(harness: RecorderHarness) -> None:
    harness.records.hopeless = {2}
    session = harness.session("m", 1, 2, 3)
    for _ in range(3):
        harness.attempt(session)
    for _ in range(3):
        with pytest.raises(StatementRefused):
            harness.step()
        assert harness.recorder.needs_upkeep.is_set()
        harness.recorder.needs_upkeep.clear()
    assert harness.recorder.unwritten == 3
    harness.clock.advance(MAX_BEHIND * 2)
    assert harness.recorder.is_behind(), "nothing new is sent"
    harness.records.hopeless = set()
    harness.end(session)
    harness.settle()
    assert (set(harness.database.finished), harness.closed) == ({1, 2, 3}, [session])


def test_a_late_record_that_is_refused_does_not_stop_everything(harness: RecorderHarness) -> None:
    harness.records.refused = harness.records.refuses_late = {1}
    robbed, other = harness.session("robbed", 1), harness.session("other", 2)
    harness.attempt(robbed)
    harness.database.lease("robbed")
    harness.attempt(other)
    harness.settle()


@pytest.mark.parametrize(
    "error", [PartitionMissing("23514", "no partition"), StatementRefused("42501", "permission denied")]
)
def test_what_no_row_is_to_blame_for_is_kept(harness: RecorderHarness, error: StatementRefused) -> None:
    harness.database.faults["write"].append(error)
    session = harness.session("m", 1)
    harness.retry(7, claim=1, state=None)
    harness.attempt(session)
    with pytest.raises(StatementRefused):
        harness.step()
    assert len(harness.records.statements) == 1, "neither halved nor made plainer"
    assert harness.recorder.needs_upkeep.is_set()
    harness.end(session)
    harness.settle()
    assert 7 not in harness.database.finished, "it is to be retried, as the attempt said"
    assert harness.database.finished[1].attempt is not None


def test_a_late_record_that_is_refused_for_no_fault_of_its_own_is_kept(harness: RecorderHarness) -> None:
    session = harness.session("robbed", 1)
    harness.attempt(session)
    harness.database.lease("robbed")
    harness.database.faults["write_late"].append(StatementRefused("42501", "permission denied"))
    with pytest.raises(StatementRefused):
        harness.step()
    assert harness.recorder.unwritten == 1
    harness.settle()
    assert seqs_of(harness.records.late) == [1]
