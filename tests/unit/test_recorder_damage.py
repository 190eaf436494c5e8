"""Damaged rows: their outcomes are set aside; damage elsewhere stops everything. Nothing is lost."""

import asyncio
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from tests.unit.fakes.database import is_delivered, seqs_of
from tests.unit.harnesses.recorder import RecorderHarness
from tests.unit.loop_turns import until
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch import recorder
from webhook_dispatcher.dispatch.blocked import BLOCKED_WAIT
from webhook_dispatcher.dispatch.lane_session import LaneSession
from webhook_dispatcher.dispatch.recorder import DAMAGE_WAIT, LOCKED_WAIT, MAX_BEHIND
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import State

DAMAGE = StatementRefused("XX000", "cache lookup failed for index 4711")


def attempted(harness: RecorderHarness, merchant_id: str, *seqs: int) -> LaneSession:
    """Let a lane owe events, and all of them be delivered."""
    session = harness.session(merchant_id, *seqs)
    for _ in seqs:
        harness.attempt(session)
    return session


def with_one_set_aside() -> tuple[RecorderHarness, LaneSession]:
    """Let one of four outcomes meet its row damaged; the three others are written."""
    harness = RecorderHarness()
    harness.database.damaged = {2}
    ill, well = attempted(harness, "ill", 1, 2), attempted(harness, "well", 3, 4)
    harness.end(well)
    harness.step()
    harness.step()
    assert all(is_delivered(harness.database, seq) for seq in (1, 3, 4))
    assert harness.closed == [well]
    assert not ill.may_start(harness.clock.elapsed())
    harness.end(ill)
    return harness, ill


@pytest.mark.parametrize("state", [State.DELIVERED, None])
def test_a_sound_row_refused_once_is_written_as_it_is(state: State | None) -> None:
    harness = RecorderHarness()
    record = harness.retry(7, claim=1, state=state)
    harness.database.faults["write"].append(DAMAGE)
    with pytest.raises(StatementRefused):
        harness.step()
    harness.step()
    assert harness.records.written == [record]


def test_an_outcome_whose_row_is_damaged_holds_up_its_lane_alone_and_is_written_once_mended() -> None:
    harness, ill = with_one_set_aside()
    harness.clock.advance(MAX_BEHIND * 2)
    assert not harness.recorder.is_behind(), "all others go on"
    for _ in range(3):
        harness.step(after=DAMAGE_WAIT)
    assert (harness.recorder.unwritten, ill in harness.closed) == (1, False)
    assert harness.blocked.seqs() == [2]
    asked = len(harness.records.statements)
    harness.step(after=DAMAGE_WAIT / 2)
    assert len(harness.records.statements) == asked, "not tried at every turn"
    harness.database.damaged, harness.database.owed[2].is_locked = set(), True
    harness.step(after=DAMAGE_WAIT)
    harness.database.owed[2].is_locked = False
    harness.step(after=LOCKED_WAIT)
    assert is_delivered(harness.database, 2)
    assert harness.closed[-1] is ill
    assert (harness.recorder.unwritten, harness.memory.used) == (0, 0)
    assert not harness.recorder.needs_upkeep.is_set()


async def test_nobody_waits_while_an_outcome_that_was_set_aside_is_tried_again() -> None:
    harness, _ = with_one_set_aside()
    harness.clock.advance(DAMAGE_WAIT)
    harness.records.gate = asyncio.Event()
    asked = len(harness.records.statements)
    trying = asyncio.create_task(harness.recorder.step())
    await until(lambda: len(harness.records.statements) > asked)
    assert not harness.recorder.is_behind()
    harness.clock.advance(MAX_BEHIND * 2)
    assert harness.recorder.is_behind(), "until the statement itself takes too long"
    assert harness.recorder.behind_for() == pytest.approx(MAX_BEHIND * 2)
    harness.records.gate.set()
    await trying


def test_others_are_not_refused_with_an_outcome_that_was_set_aside() -> None:
    harness, _ = with_one_set_aside()
    harness.clock.advance(DAMAGE_WAIT)
    other = attempted(harness, "other", *range(11, 31))
    harness.end(other)
    asked = len(harness.records.statements)
    harness.step()
    harness.step()
    assert [seqs for seqs, _ in harness.records.statements[asked:]] == [[2], [*range(11, 31)]]
    assert harness.closed[-1] is other, "it has its turn at once"


def test_an_outcome_set_aside_that_is_put_back_hides_no_older_answer() -> None:
    harness, _ = with_one_set_aside()
    harness.clock.advance(DAMAGE_WAIT)
    attempted(harness, "other", 5)
    harness.clock.advance(MAX_BEHIND * 0.9)
    harness.database.faults["write"].append(StorageUnavailable("down"))
    with pytest.raises(StorageUnavailable):
        harness.step()
    harness.clock.advance(MAX_BEHIND * 0.2)
    assert harness.recorder.is_behind()


@pytest.mark.parametrize("is_mended", [True, False])
async def test_a_drain_tries_what_was_set_aside_once_more_and_does_not_wait_for_it(is_mended: bool) -> None:
    harness, ill = with_one_set_aside()
    harness.database.damaged -= {2} if is_mended else set()
    asked = len(harness.records.statements)
    harness.recorder.stop()
    assert not harness.recorder.is_drained
    async with asyncio.timeout(MAX_WAIT):
        await harness.run()
    assert [seqs for seqs, _ in harness.records.statements[asked:]] == [[2]]
    assert (is_delivered(harness.database, 2), harness.closed[-1] is ill) == (is_mended, is_mended)
    assert harness.recorder.unwritten == (not is_mended), "and the daemon says so"


async def test_a_drain_waits_for_what_is_locked_though_something_is_set_aside() -> None:
    harness, _ = with_one_set_aside()
    other, over = attempted(harness, "other", 5), harness.session("over", 6)
    harness.database.owed[5].is_locked = True
    harness.database.lanes["over"].is_locked = True
    harness.end(other)
    harness.end(over)
    harness.recorder.stop()
    harness.step()
    harness.step()
    assert not harness.recorder.is_drained
    harness.database.owed[5].is_locked = False
    harness.step(after=LOCKED_WAIT)
    assert harness.closed[-1] is other
    assert not harness.recorder.is_drained, "a lane is still to be released"
    harness.database.lanes["over"].is_locked = False
    harness.step()
    assert harness.closed[-1] is over
    assert harness.recorder.is_drained


async def test_the_loop_sleeps_until_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float | None] = []

    async def sleep(seconds: float | None, wake: asyncio.Event | None = None) -> None:
        if wake is not None:
            slept.append(seconds)

    monkeypatch.setattr(recorder, "sleep", sleep)
    harness, _ = with_one_set_aside()
    await harness.recorder.write_next()
    harness.clock.advance(DAMAGE_WAIT - 1)
    await harness.recorder.write_next()
    harness.clock.advance(1)
    await harness.recorder.write_next()
    assert slept == pytest.approx([DAMAGE_WAIT, 1, 0])
    session = harness.session("over", 5)
    harness.database.lanes["over"].is_locked = True
    harness.end(session)
    await harness.recorder.write_next()
    assert slept[-1] == LOCKED_WAIT, "a lane is to be released"


def robbed_of_a_damaged_row() -> RecorderHarness:
    """Let an outcome come too late for its fence, and its row be damaged."""
    harness = RecorderHarness()
    harness.records.refuses_fallen = False
    harness.end(attempted(harness, "m", 1))
    harness.database.lease("m")
    harness.database.damaged = {1}
    return harness


def test_a_late_outcome_whose_row_is_damaged_is_named_and_kept_until_it_is_mended() -> None:
    harness = robbed_of_a_damaged_row()
    with capture_logs() as logs:
        harness.step()
    assert [line["seq"] for line in logs if line["event"] == "row.unreadable"] == [1]
    assert (harness.blocked.seqs(), harness.recorder.unwritten) == ([1], 1)
    harness.database.damaged = set()
    harness.step(after=DAMAGE_WAIT)
    assert (seqs_of(harness.records.late), harness.recorder.unwritten) == ([1], 0)


@pytest.mark.parametrize("probe", [None, DAMAGE])
def test_a_late_outcome_refused_for_damage_elsewhere_is_dropped(probe: StatementRefused | None) -> None:
    harness = robbed_of_a_damaged_row()
    harness.database.damaged = set()
    harness.database.faults["write_late"].append(DAMAGE)
    harness.database.faults["is_unreadable"].append(probe)
    with capture_logs() as logs:
        harness.step()
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["record.refused"]
    assert (harness.recorder.unwritten, harness.blocked.seqs()) == (0, [])


def test_a_late_outcome_is_kept_while_nobody_can_say_what_is_damaged() -> None:
    harness = robbed_of_a_damaged_row()
    harness.database.faults["is_unreadable"].append(StorageUnavailable("down"))
    with pytest.raises(StorageUnavailable):
        harness.step()
    assert harness.recorder.unwritten == 1
    harness.step()
    assert (harness.blocked.seqs(), harness.recorder.unwritten) == ([1], 1)


def test_a_session_that_waited_for_a_locked_row_ends_once_that_is_damaged() -> None:
    harness = RecorderHarness()
    session = attempted(harness, "m", 1)
    harness.database.owed[1].is_locked = True
    harness.step()
    unblocked = session.unblocked
    assert unblocked is not None
    assert not unblocked.is_set()
    harness.database.damaged = {1}
    harness.step(after=1)
    assert unblocked.is_set()


def test_a_mended_row_is_recorded_before_it_may_be_claimed_anew() -> None:
    assert DAMAGE_WAIT < BLOCKED_WAIT


@pytest.mark.parametrize("damaged", [set(), {2}])
def test_damage_elsewhere_than_in_a_row_stops_everything_and_drops_nothing(damaged: set[int]) -> None:
    harness = RecorderHarness()
    harness.database.damaged = damaged
    session = attempted(harness, "m", 1, 2, 3)
    harness.end(session)
    harness.database.faults["write"].extend([DAMAGE] * 100)
    for _ in range(5):
        with pytest.raises(StatementRefused):
            harness.step()
    assert (harness.recorder.unwritten, harness.closed) == (3, [])
    assert harness.recorder.needs_upkeep.is_set(), "the log may lack a partition"
    harness.clock.advance(MAX_BEHIND * 2)
    assert harness.recorder.is_behind(), "nothing new is sent"
    harness.database.faults["write"].clear()
    harness.database.damaged = set()
    harness.settle()
    assert {1, 2, 3} == set(harness.database.finished)


@pytest.mark.parametrize("error", [DAMAGE, StorageUnavailable("down")])
def test_a_probe_that_fails_proves_nothing(error: StatementRefused) -> None:
    harness = RecorderHarness()
    harness.database.damaged = {2}
    harness.end(attempted(harness, "m", 2))
    harness.database.faults["is_unreadable"].append(error)
    with suppress(StatementRefused, StorageUnavailable):
        harness.step()
    harness.clock.advance(MAX_BEHIND * 2)
    assert harness.recorder.is_behind()
    assert harness.blocked.seqs() == []
    harness.database.damaged = set()
    harness.settle()
    assert is_delivered(harness.database, 2)
