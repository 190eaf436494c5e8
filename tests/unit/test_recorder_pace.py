"""Nothing new is sent while answers wait to be written; the loop ends when all are."""

import asyncio
from contextlib import suppress

import pytest

from tests.unit.fakes.database import is_delivered
from tests.unit.harnesses.recorder import RecorderHarness
from tests.unit.loop_turns import finished, quiet, until
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch import recorder
from webhook_dispatcher.dispatch.recorder import MAX_BATCH, MAX_BEHIND, MIN_BATCH, QUICK_WRITE, BatchSize
from webhook_dispatcher.domain.errors import StorageUnavailable

DOWN = StorageUnavailable("down")


@pytest.fixture
def harness() -> RecorderHarness:
    return RecorderHarness()


def test_nobody_starts_while_the_oldest_answer_waits_for_too_long(harness: RecorderHarness) -> None:
    harness.attempt(harness.session("m", 1))
    harness.clock.advance(MAX_BEHIND * 0.99)
    assert not harness.recorder.is_behind()
    harness.clock.advance(MAX_BEHIND * 0.02)
    assert harness.recorder.is_behind()
    harness.step()
    assert not harness.recorder.is_behind()


async def test_whoever_waits_goes_on_when_it_is_written(harness: RecorderHarness) -> None:
    finished(harness.recorder.caught_up())
    harness.database.faults["write"].append(DOWN)
    harness.attempt(harness.session("m", 1))
    harness.clock.advance(1)
    waiting = [asyncio.create_task(harness.recorder.caught_up()) for _ in range(2)]
    await quiet()
    with pytest.raises(StorageUnavailable):
        await harness.recorder.step()
    await quiet()
    assert not any(task.done() for task in waiting)
    await harness.recorder.step()
    async with asyncio.timeout(MAX_WAIT):
        await asyncio.gather(*waiting)


async def test_a_row_that_was_locked_hides_no_older_answer(harness: RecorderHarness) -> None:
    stuck, other = harness.session("stuck", 1), harness.session("other", 2)
    harness.database.owed[1].is_locked = True
    harness.attempt(stuck)
    harness.records.gate = asyncio.Event()
    writing = asyncio.create_task(harness.recorder.step())
    await until(lambda: harness.records.statements)
    harness.attempt(other)
    harness.clock.advance(MAX_BEHIND * 0.9)
    harness.records.gate.set()
    await writing
    harness.clock.advance(MAX_BEHIND * 0.3)
    assert harness.recorder.is_behind()
    harness.records.gate.clear()
    writing = asyncio.create_task(harness.recorder.step())
    await until(lambda: len(harness.records.statements) == 2)
    was_behind = harness.recorder.is_behind()
    harness.records.gate.set()
    await writing
    assert was_behind


async def test_what_comes_is_written_until_it_is_stopped_and_empty(harness: RecorderHarness) -> None:
    running = asyncio.create_task(harness.run())
    session = harness.session("m", 1, 2)
    harness.attempt(session)
    async with asyncio.timeout(MAX_WAIT):
        while not is_delivered(harness.database, 1):
            await asyncio.wait([running], timeout=0.002)
    harness.attempt(session)
    harness.end(session)
    harness.database.faults["write"].append(DOWN)
    harness.recorder.stop()
    async with asyncio.timeout(MAX_WAIT):
        await running
    assert is_delivered(harness.database, 2)
    assert harness.closed == [session]
    assert harness.metrics.database_errors.labels("record")._value.get() == 1


@pytest.mark.parametrize(("waited", "written"), [(0.0, 0), (1000.0, 1)])
async def test_the_first_outcome_waits_for_company(
    monkeypatch: pytest.MonkeyPatch, waited: float, written: int
) -> None:
    monkeypatch.setattr(recorder, "BATCH_WAIT", 1000.0)
    harness = RecorderHarness()
    harness.attempt(harness.session("m", 1))
    harness.clock.advance(waited)  # as while another batch is written
    running = asyncio.create_task(harness.run())
    await quiet()
    statements = len(harness.records.statements)
    running.cancel()
    assert statements == written


@pytest.mark.parametrize("is_resting", [False, True])
async def test_an_outcome_that_a_session_waits_for_waits_for_no_company(
    monkeypatch: pytest.MonkeyPatch, is_resting: bool
) -> None:
    monkeypatch.setattr(recorder, "BATCH_WAIT", 1000.0)
    harness = RecorderHarness()
    for seq in (1, 2):  # and the next one that nobody waits for does
        harness.attempt(harness.session(f"m{seq}", seq))
        if seq == 1 and not is_resting:
            harness.recorder.hurry()
        running = asyncio.create_task(harness.recorder.write_next())
        await quiet()
        if seq == 1 and is_resting:
            harness.recorder.hurry()
        await quiet()
        assert (running.done(), len(harness.records.statements)) == (seq == 1, 1)
    running.cancel()


def test_a_slow_database_has_smaller_batches(harness: RecorderHarness) -> None:
    harness.records.times_out_beyond = MAX_BATCH // 5
    session = harness.session("m", *range(1, 2 * MAX_BATCH + 1))
    for _ in range(2 * MAX_BATCH):
        harness.attempt(session)
    for _ in range(50):
        with suppress(StorageUnavailable):
            harness.step()
    assert harness.recorder.unwritten == 0


@pytest.mark.parametrize(
    ("count", "took", "limit"),
    [
        (MIN_BATCH, QUICK_WRITE / 2, 2 * MIN_BATCH),
        pytest.param(MIN_BATCH, QUICK_WRITE, MIN_BATCH, id="slow"),
        pytest.param(MIN_BATCH - 1, QUICK_WRITE / 2, MIN_BATCH, id="too small to say anything"),
    ],
)
def test_batches_grow_again_when_the_database_is_quick_again(count: int, took: float, limit: int) -> None:
    harness = RecorderHarness()
    for _ in range(20):
        harness.recorder._batch.failed()
    assert harness.recorder._batch.limit == MIN_BATCH
    harness.records.takes = took
    for seq in range(1, count + 1):
        harness.attempt(harness.session(f"m{seq}", seq))
    harness.step()
    assert harness.recorder._batch.limit == limit


def test_a_batch_is_never_larger_than_the_largest() -> None:
    size = BatchSize()
    size.grow()
    assert size.limit == MAX_BATCH


def test_a_slow_database_releases_lanes_in_batches(harness: RecorderHarness) -> None:
    harness.records.times_out_beyond = MAX_BATCH // 5
    sessions = [harness.session(f"m{seq}", seq) for seq in range(1, 2 * MAX_BATCH + 1)]
    for session in sessions:
        harness.end(session)
    for _ in range(50):
        with suppress(StorageUnavailable):
            harness.step()
    assert set(harness.closed) == set(sessions)


def test_ended_lanes_that_are_locked_do_not_keep_others_from_being_released(harness: RecorderHarness) -> None:
    for _ in range(20):
        harness.recorder._batch.failed()
    locked = [harness.session(f"l{seq}", seq) for seq in range(1, MIN_BATCH + 1)]
    free = harness.session("m", MIN_BATCH + 1)
    for session in locked:
        harness.database.lanes[session.lease.lane].is_locked = True
    for session in (*locked, free):
        harness.end(session)
    harness.step()
    harness.step()
    assert harness.closed == [free]
