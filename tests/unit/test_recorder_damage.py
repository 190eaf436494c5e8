"""Damaged rows: their outcomes are set aside; damage elsewhere stops everything. Nothing is lost."""

from contextlib import suppress

import pytest

from tests.unit.fakes import is_delivered, seqs_of
from tests.unit.recording import Recording
from webhook_dispatcher.dispatch.blocked import BLOCKED_WAIT
from webhook_dispatcher.dispatch.lane_session import LaneSession
from webhook_dispatcher.dispatch.recorder import DAMAGE_WAIT, LOCKED_WAIT, MAX_BEHIND
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import State

DAMAGE = StatementRefused("XX000", "cache lookup failed for index 4711")


def attempted(recording: Recording, merchant_id: str, *seqs: int) -> LaneSession:
    """Let a lane owe events, and all of them be delivered."""
    visit = recording.visit(merchant_id, *seqs)
    for _ in seqs:
        recording.attempt(visit)
    return visit


def with_one_set_aside() -> tuple[Recording, LaneSession]:
    """Let one of four outcomes meet its row damaged; the three others are written."""
    recording = Recording()
    recording.database.damaged = {2}
    ill, well = attempted(recording, "ill", 1, 2), attempted(recording, "well", 3, 4)
    recording.end(well)
    recording.step()
    recording.step()
    assert all(is_delivered(recording.database, seq) for seq in (1, 3, 4))
    assert recording.closed == [well]
    assert not ill.may_start(recording.clock.elapsed())
    recording.end(ill)
    return recording, ill


@pytest.mark.parametrize("state", [State.DELIVERED, None])
def test_a_sound_row_refused_once_is_written_as_it_is(state: State | None) -> None:
    recording = Recording()
    record = recording.retry(7, claim=1, state=state)
    recording.database.faults["write"].append(DAMAGE)
    with pytest.raises(StatementRefused):
        recording.step()
    recording.step()
    assert recording.records.written == [record]


def test_an_outcome_whose_row_is_damaged_holds_up_its_lane_alone_and_is_written_once_mended() -> None:
    recording, ill = with_one_set_aside()
    recording.clock.advance(MAX_BEHIND * 2)
    assert not recording.recorder.is_behind(), "all others go on"
    for _ in range(3):
        recording.clock.advance(DAMAGE_WAIT)
        recording.step()
    assert (recording.recorder.unwritten, ill in recording.closed) == (1, False)
    assert recording.blocked.seqs() == [2]
    asked = len(recording.records.statements)
    recording.clock.advance(DAMAGE_WAIT / 2)
    recording.step()
    assert len(recording.records.statements) == asked, "not tried at every turn"
    recording.database.damaged, recording.database.owed[2].is_locked = set(), True
    recording.clock.advance(DAMAGE_WAIT)
    recording.step()
    recording.database.owed[2].is_locked = False
    recording.clock.advance(LOCKED_WAIT)
    recording.step()
    assert is_delivered(recording.database, 2)
    assert recording.closed[-1] is ill
    assert (recording.recorder.unwritten, recording.memory.used, recording.refusals) == (0, 0, [])


@pytest.mark.parametrize("is_moved", [True, False], ids=["moved away", "claimed by another"])
def test_an_outcome_set_aside_whose_fence_has_fallen_is_kept_until_it_can_be_written_late(
    is_moved: bool,
) -> None:
    recording, ill = with_one_set_aside()
    recording.database.lease("ill")
    recording.clock.advance(DAMAGE_WAIT)
    recording.step()
    assert recording.recorder.unwritten == 1
    if is_moved:
        del recording.database.owed[2]
    recording.database.damaged = set()
    recording.clock.advance(DAMAGE_WAIT)
    recording.step()
    assert seqs_of(recording.records.late) == [2]
    assert recording.closed[-1] is ill
    assert recording.recorder.unwritten == 0


def test_a_visit_that_waited_for_a_locked_row_ends_once_that_is_damaged() -> None:
    recording = Recording()
    visit = attempted(recording, "m", 1)
    recording.database.owed[1].is_locked = True
    recording.step()
    unblocked = visit.unblocked
    assert unblocked is not None
    assert not unblocked.is_set()
    recording.database.damaged = {1}
    recording.clock.advance(1)
    recording.step()
    assert unblocked.is_set()


def test_a_mended_row_is_recorded_before_it_may_be_claimed_anew() -> None:
    assert DAMAGE_WAIT < BLOCKED_WAIT


@pytest.mark.parametrize("damaged", [set(), {2}])
def test_damage_elsewhere_than_in_a_row_stops_everything_and_drops_nothing(damaged: set[int]) -> None:
    recording = Recording()
    recording.database.damaged = damaged
    visit = attempted(recording, "m", 1, 2, 3)
    recording.end(visit)
    recording.database.faults["write"].extend([DAMAGE] * 100)
    for _ in range(5):
        with pytest.raises(StatementRefused):
            recording.step()
    assert (recording.recorder.unwritten, recording.closed) == (3, [])
    assert recording.refusals, "the log may lack a partition"
    recording.clock.advance(MAX_BEHIND * 2)
    assert recording.recorder.is_behind(), "nothing new is sent"
    recording.database.faults["write"].clear()
    recording.database.damaged = set()
    recording.settle()
    assert {1, 2, 3} == set(recording.database.finished)


@pytest.mark.parametrize("error", [DAMAGE, StorageUnavailable("down")])
def test_a_probe_that_fails_proves_nothing(error: StatementRefused) -> None:
    recording = Recording()
    recording.database.damaged = {2}
    recording.end(attempted(recording, "m", 2))
    recording.database.faults["is_unreadable"].append(error)
    with suppress(StatementRefused, StorageUnavailable):
        recording.step()
    recording.clock.advance(MAX_BEHIND * 2)
    assert recording.recorder.is_behind()
    assert recording.blocked.seqs() == []
    recording.database.damaged = set()
    recording.settle()
    assert is_delivered(recording.database, 2)
