"""Damaged rows: nothing is given up before that very row has proven to be damaged, in two rounds."""

from contextlib import suppress
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from tests.unit.fakes import is_delivered
from tests.unit.recording import Recording
from webhook_dispatcher.dispatch.losses import BLOCKED_WAIT, MOST_LOST
from webhook_dispatcher.dispatch.recorder import BOUNCE_WAIT, MOST_BEHIND
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import FailedReason, State

DAMAGE = StatementRefused("XX000", "cache lookup failed for index 4711")


def attempted(recording: Recording, *seqs: int) -> None:
    """Let a lane owe events, and all of them be delivered."""
    visit = recording.visit("m", *seqs)
    for _ in seqs:
        recording.attempt(visit)
    recording.end(visit)


def persist(recording: Recording) -> int:
    """Write until nothing is left; return how often that was refused."""
    refused = 0
    for _ in range(30):
        recording.clock.advance(BOUNCE_WAIT)
        try:
            recording.settle(1)
        except StatementRefused:
            refused += 1
        except AssertionError:
            continue
        else:
            return refused
    raise AssertionError("something is still not written")


@pytest.mark.parametrize("state", [State.DELIVERED, None])
def test_a_sound_row_refused_once_is_written_as_it_is(state: State | None) -> None:
    recording = Recording()
    record = recording.retry(7, claim=1, state=state)
    recording.database.faults["write"].append(DAMAGE)
    with pytest.raises(StatementRefused):
        recording.step()
    recording.step()
    assert recording.records.written == [record]


def test_what_was_delivered_stays_so_with_its_attempt_when_its_object_is_damaged() -> None:
    recording = Recording()
    recording.database.damaged = {2}
    attempted(recording, 1, 2, 3)
    assert persist(recording) == 1
    assert all(is_delivered(recording.database, seq) for seq in (1, 2, 3))
    assert all(record.attempt is not None for record in recording.records.written)
    lost = [record.event.seq for record in recording.records.written if record.event.is_unreadable]
    assert lost == [2]
    assert recording.memory.held == 0


def test_a_row_that_can_be_read_in_the_later_round_keeps_its_object() -> None:
    recording = Recording()
    recording.database.damaged = {7}
    record = recording.retry(7, claim=1)
    with pytest.raises(StatementRefused):
        recording.step()
    recording.database.damaged = set()
    recording.step()
    assert recording.records.written == [record]


@pytest.mark.parametrize(
    ("on_failure", "state", "reason"),
    [(None, State.FAILED, FailedReason.UNSENDABLE), (State.DELIVERED, State.DELIVERED, None)],
)
def test_a_damaged_row_cannot_be_postponed_and_is_finished_with_its_attempt(
    on_failure: State | None, state: State, reason: FailedReason | None
) -> None:
    recording = Recording()
    recording.database.damaged = {7}
    record = recording.retry(7, claim=1, state=None, on_failure=on_failure)
    assert persist(recording) == 1
    written = recording.database.finished[7]
    assert (written.state, written.reason, written.due_at) == (state, reason, None)
    assert written.attempt == record.attempt


def test_no_more_objects_are_given_up_than_is_believable() -> None:
    recording = Recording()
    for _ in range(MOST_LOST - 1):
        recording.losses.count()
    recording.database.damaged = {1, 2}
    attempted(recording, 1, 2)
    for _ in range(9):
        with pytest.raises(StatementRefused):
            recording.step()
    assert set(recording.database.finished) == {1}
    recording.clock.advance(MOST_BEHIND * 2)
    assert recording.recorder.is_behind(), "nothing new is sent"
    recording.database.damaged = set()
    persist(recording)
    assert not recording.database.finished[2].event.is_unreadable


@pytest.mark.parametrize("damaged", [set(), {2}])
def test_damage_elsewhere_than_in_the_row_drops_nothing(damaged: set[int]) -> None:
    recording = Recording()
    recording.database.damaged = damaged
    attempted(recording, 1, 2, 3)
    recording.database.faults["write"].extend([DAMAGE] * 100)
    for _ in range(5):
        with pytest.raises(StatementRefused):
            recording.step()
    assert (recording.recorder.unwritten, recording.closed) == (3, [])
    assert recording.refusals, "the log may lack a partition"
    recording.clock.advance(MOST_BEHIND * 2)
    assert recording.recorder.is_behind(), "nothing new is sent"
    recording.database.faults["write"].clear()
    persist(recording)
    assert {1, 2, 3} == set(recording.database.finished)


@pytest.mark.parametrize("probe", ["is_unreadable", "is_stuck"])
@pytest.mark.parametrize("error", [DAMAGE, StorageUnavailable("down")])
def test_a_probe_that_fails_proves_nothing(probe: str, error: Exception) -> None:
    recording = Recording()
    recording.database.damaged = {2}
    attempted(recording, 2)
    recording.database.faults[probe].append(error)  # type: ignore[arg-type]
    for _ in range(2):
        with suppress(StatementRefused, StorageUnavailable):
            recording.step()
    assert recording.recorder.unwritten == 1
    persist(recording)
    assert recording.database.finished[2].attempt is not None


def test_a_row_that_cannot_be_changed_at_all_stops_neither_its_lane_nor_others() -> None:
    recording = Recording()
    recording.database.damaged = recording.database.stuck = {2}
    with capture_logs() as logs:
        attempted(recording, 1, 2, 3)
        persist(recording)
    [visit] = recording.closed
    assert set(recording.database.finished) == {1, 3}
    assert recording.refusals == []
    assert recording.memory.held == 0
    assert [line["seq"] for line in logs if line["event"] == "row.stuck"] == [2]
    waits_until = recording.database.lanes["m"].wait_until
    assert waits_until is not None, "the lane is not claimed at once to find it again"
    assert visit.wait_until == waits_until
    assert abs(waits_until - recording.clock.now - BLOCKED_WAIT) < timedelta(seconds=1)


def test_a_row_that_can_be_read_but_not_changed_keeps_its_outcome_back() -> None:
    recording = Recording()
    recording.database.stuck = {2}
    attempted(recording, 2)
    for _ in range(5):
        with pytest.raises(StatementRefused):
            recording.step()
    assert recording.recorder.unwritten == 1, "it would be sent again and again"
