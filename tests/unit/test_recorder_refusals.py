"""Values that the database refuses: the bad record is found, and recorded without them."""

import pytest

from tests.unit.fakes import is_delivered, seqs_of
from tests.unit.recording import Recording
from webhook_dispatcher.dispatch.recorder import MAX_BATCH, MAX_BEHIND
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.verdict import Outcome


@pytest.mark.parametrize("size", [1, 2, 3, 7, MAX_BATCH])
@pytest.mark.parametrize("bad", ["first", "last", "all"])
def test_the_bad_record_is_found_and_what_was_delivered_stays_so(size: int, bad: str) -> None:
    recording = Recording()
    seqs = list(range(1, size + 1))
    recording.records.refused = {"first": {1}, "last": {size}, "all": set(seqs)}[bad]
    visit = recording.visit("m", *seqs)
    for _ in seqs:
        recording.attempt(visit)
    recording.end(visit)
    recording.settle()
    assert recording.closed == [visit]
    assert sorted(seqs_of(recording.records.written)) == seqs
    assert all(is_delivered(recording.database, seq) for seq in seqs)
    without = {seq for seq in seqs if recording.database.finished[seq].attempt is None}
    assert without == recording.records.refused, "only the refused ones go without their attempt"


def test_no_lane_ends_in_a_batch_that_was_halved() -> None:
    recording = Recording()
    visits = [recording.visit(f"m{seq}", seq) for seq in (1, 2)]
    recording.records.refused = {2}
    for visit in visits:
        recording.attempt(visit)
        recording.end(visit)
    recording.step()
    assert recording.closed == []
    assert all(turns == [] for _, turns in recording.records.statements[1:])
    recording.step()
    assert recording.closed == visits


def test_a_refused_failure_is_recorded_as_unsendable() -> None:
    recording = Recording()
    recording.records.refused = {7}
    recording.retry(7, claim=1, state=None)
    recording.step()
    record = recording.database.finished[7]
    assert (record.state, record.reason, record.due_at) == (State.FAILED, FailedReason.UNSENDABLE, None)
    assert record.attempt is not None
    assert (record.attempt.outcome, record.attempt.status) == (Outcome.UNSENDABLE, None)


def test_a_record_refused_even_so_stops_everything_and_is_kept() -> None:
    recording = Recording()
    recording.records.hopeless = {2}
    visit = recording.visit("m", 1, 2, 3)
    for _ in range(3):
        recording.attempt(visit)
    for _ in range(3):
        with pytest.raises(StatementRefused):
            recording.step()
    assert recording.recorder.unwritten == 3
    assert len(recording.refusals) == 3
    recording.clock.advance(MAX_BEHIND * 2)
    assert recording.recorder.is_behind(), "nothing new is sent"
    recording.records.hopeless = set()
    recording.end(visit)
    recording.settle()
    assert {1, 2, 3} == set(recording.database.finished)
    assert recording.closed == [visit]


def test_a_failure_in_the_midst_of_halving_loses_nothing() -> None:
    recording = Recording()
    recording.records.refused = {1}
    recording.database.faults["write"].extend([None, None, None, StorageUnavailable("down")])
    visit = recording.visit("m", 1, 2, 3)
    for _ in range(3):
        recording.attempt(visit)
    recording.end(visit)
    with pytest.raises(StorageUnavailable):
        recording.step()
    assert recording.recorder.unwritten == 3
    recording.settle()
    assert sorted(seqs_of(recording.records.written)) == [1, 2, 3]
    assert recording.closed == [visit]
    assert recording.memory.used == 0


def test_a_late_record_that_is_refused_does_not_stop_everything() -> None:
    recording = Recording()
    recording.records.refused = recording.records.refuses_late = {1}
    robbed, other = recording.visit("robbed", 1), recording.visit("other", 2)
    recording.attempt(robbed)
    recording.database.lease("robbed")
    recording.attempt(other)
    recording.settle()
