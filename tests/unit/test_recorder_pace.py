"""Nothing new is sent while answers wait to be written; the loop ends when all are."""

import asyncio
from contextlib import suppress

import pytest

from tests.unit.fakes import finished, is_delivered, quiet, until
from tests.unit.recording import Recording
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch import recorder
from webhook_dispatcher.dispatch.recorder import MAX_BATCH, MAX_BEHIND, MIN_BATCH, QUICK_WRITE, BatchSize
from webhook_dispatcher.domain.errors import StorageUnavailable

DOWN = StorageUnavailable("down")


def test_nobody_starts_while_the_oldest_answer_waits_for_too_long() -> None:
    recording = Recording()
    recording.attempt(recording.visit("m", 1))
    recording.clock.advance(MAX_BEHIND * 0.99)
    assert not recording.recorder.is_behind()
    recording.clock.advance(MAX_BEHIND * 0.02)
    assert recording.recorder.is_behind()
    recording.step()
    assert not recording.recorder.is_behind()


async def test_whoever_waits_goes_on_when_it_is_written() -> None:
    recording = Recording()
    finished(recording.recorder.caught_up())
    recording.database.faults["write"].append(DOWN)
    recording.attempt(recording.visit("m", 1))
    recording.clock.advance(1)
    waiting = [asyncio.create_task(recording.recorder.caught_up()) for _ in range(2)]
    await quiet()
    with pytest.raises(StorageUnavailable):
        await recording.recorder.step()
    await quiet()
    assert not any(task.done() for task in waiting)
    await recording.recorder.step()
    async with asyncio.timeout(MAX_WAIT):
        await asyncio.gather(*waiting)


async def test_an_answer_that_is_being_written_counts_too() -> None:
    recording = Recording()
    recording.records.gate = asyncio.Event()
    recording.attempt(recording.visit("m", 1))
    writing = asyncio.create_task(recording.recorder.step())
    await until(lambda: recording.records.statements)
    recording.clock.advance(1)
    assert recording.recorder.is_behind()
    assert recording.recorder.unwritten == 1
    recording.records.gate.set()
    await writing
    assert not recording.recorder.is_behind()


async def test_a_row_that_was_locked_hides_no_older_answer() -> None:
    recording = Recording()
    stuck, other = recording.visit("stuck", 1), recording.visit("other", 2)
    recording.database.owed[1].is_locked = True
    recording.attempt(stuck)
    recording.records.gate = asyncio.Event()
    writing = asyncio.create_task(recording.recorder.step())
    await until(lambda: recording.records.statements)
    recording.attempt(other)
    recording.clock.advance(MAX_BEHIND * 0.9)
    recording.records.gate.set()
    await writing
    recording.clock.advance(MAX_BEHIND * 0.3)
    assert recording.recorder.is_behind()
    recording.records.gate.clear()
    writing = asyncio.create_task(recording.recorder.step())
    await until(lambda: len(recording.records.statements) == 2)
    was_behind = recording.recorder.is_behind()
    recording.records.gate.set()
    await writing
    assert was_behind


async def test_what_comes_is_written_until_it_is_stopped_and_empty() -> None:
    recording = Recording()
    running = asyncio.create_task(recording.run())
    visit = recording.visit("m", 1, 2)
    recording.attempt(visit)
    async with asyncio.timeout(MAX_WAIT):
        while not is_delivered(recording.database, 1):
            await asyncio.wait([running], timeout=0.002)
    recording.attempt(visit)
    recording.end(visit)
    recording.database.faults["write"].append(DOWN)
    recording.recorder.stop()
    async with asyncio.timeout(MAX_WAIT):
        await running
    assert is_delivered(recording.database, 2)
    assert recording.closed == [visit]
    assert recording.metrics.database_errors.labels("record")._value.get() == 1


@pytest.mark.parametrize(("waited", "written"), [(0.0, 0), (1000.0, 1)])
async def test_the_first_outcome_waits_for_company_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, waited: float, written: int
) -> None:
    monkeypatch.setattr(recorder, "BATCH_WAIT", 1000.0)
    recording = Recording()
    recording.attempt(recording.visit("m", 1))
    recording.clock.advance(waited)  # as while another batch is written
    running = asyncio.create_task(recording.run())
    await quiet()
    statements = len(recording.records.statements)
    running.cancel()
    assert statements == written


def test_outcomes_that_are_too_many_for_a_slow_database_are_written_in_smaller_batches() -> None:
    recording = Recording()
    recording.records.times_out_beyond = MAX_BATCH // 5
    visit = recording.visit("m", *range(1, 2 * MAX_BATCH + 1))
    for _ in range(2 * MAX_BATCH):
        recording.attempt(visit)
    for _ in range(50):
        with suppress(StorageUnavailable):
            recording.step()
    assert recording.recorder.unwritten == 0


@pytest.mark.parametrize(
    ("count", "took", "limit"),
    [
        (MIN_BATCH, QUICK_WRITE / 2, 2 * MIN_BATCH),
        pytest.param(MIN_BATCH, QUICK_WRITE, MIN_BATCH, id="slow"),
        pytest.param(MIN_BATCH - 1, QUICK_WRITE / 2, MIN_BATCH, id="too small to say anything"),
    ],
)
def test_batches_grow_again_when_the_database_is_quick_again(count: int, took: float, limit: int) -> None:
    recording = Recording()
    for _ in range(20):
        recording.recorder._batch.failed()
    assert recording.recorder._batch.limit == MIN_BATCH
    recording.records.takes = took
    for seq in range(1, count + 1):
        recording.attempt(recording.visit(f"m{seq}", seq))
    recording.step()
    assert recording.recorder._batch.limit == limit


def test_a_batch_is_never_larger_than_the_largest() -> None:
    size = BatchSize()
    size.grow()
    assert size.limit == MAX_BATCH


def test_lanes_that_ended_while_the_database_was_slow_are_given_back_in_batches() -> None:
    recording = Recording()
    recording.records.times_out_beyond = MAX_BATCH // 5
    visits = [recording.visit(f"m{seq}", seq) for seq in range(1, 2 * MAX_BATCH + 1)]
    for visit in visits:
        recording.end(visit)
    for _ in range(50):
        with suppress(StorageUnavailable):
            recording.step()
    assert set(recording.closed) == set(visits)


def test_ended_lanes_that_are_locked_do_not_keep_others_from_being_given_back() -> None:
    recording = Recording()
    for _ in range(20):
        recording.recorder._batch.failed()
    locked = [recording.visit(f"l{seq}", seq) for seq in range(1, MIN_BATCH + 1)]
    free = recording.visit("m", MIN_BATCH + 1)
    for visit in locked:
        recording.database.lanes[visit.lease.merchant_id].is_locked = True
    for visit in (*locked, free):
        recording.end(visit)
    recording.step()
    recording.step()
    assert recording.closed == [free]
