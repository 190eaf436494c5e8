"""Long commands: a test event is sent once, a mass retry goes chunk by chunk and can be resumed."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from tests.unit.builders import NOW, make_endpoint
from tests.unit.fakes.controls import EVENT_ID
from tests.unit.harnesses.controller import ATTEMPT_TIMEOUT, ControllerHarness
from tests.waiting import MAX_WAIT, until
from webhook_dispatcher.dispatch.control.mass_command import CHUNK_SIZE, MAX_CHUNK_WAIT_SECONDS, MAX_WAITING
from webhook_dispatcher.dispatch.control.running_command import running_lease
from webhook_dispatcher.domain.command import LONG_AGO, Code
from webhook_dispatcher.domain.errors import StatementRefused, StorageError, StorageUnavailable
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.ports import ReopenedChunk
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome

DOWN = StorageUnavailable("down")


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness()


@pytest.mark.parametrize(
    ("seen", "state", "told"),
    [
        (Answer(204), State.DELIVERED, {"outcome": "delivered", "status": 204}),
        (Answer(500, excerpt="out of order"), State.FAILED,
         {"outcome": "status", "status": 500, "reason": "500 Internal Server Error"}),
        (Failure(Outcome.DNS, "name does not exist"), State.FAILED,
         {"outcome": "dns", "status": None, "reason": "name does not exist"}),
    ],
)  # fmt: skip
async def test_a_test_event_is_sent_once_and_written_down(
    harness: ControllerHarness, seen: Answer | Failure, state: State, told: dict[str, object]
) -> None:
    harness.sender.answers.append(seen)
    command = harness.controls.insert("test_event", "m")
    assert await harness.step()
    handling, [test] = harness.controls.handlings[command.id], harness.controls.tests
    assert handling.result == {"event_id": str(test.event.id), **told}
    assert (test.attempt.reason, test.attempt.response_excerpt) == (told.get("reason"), seen.excerpt)
    assert (handling.status, test.state, test.event.type) == ("done", state, "webhook.test")
    assert len(harness.sender.sent) == 1


async def test_a_resumed_test_keeps_its_id_and_type(harness: ControllerHarness) -> None:
    result = {"event_id": str(EVENT_ID), "created_at": NOW.isoformat()}
    command = harness.controls.insert("test_event", "m", args={"type": "charge.failed"}, result=result)
    await harness.step()
    assert harness.sender.sent[0][1]["Service-Event-Type"] == "charge.failed"
    assert (harness.controls.handlings[command.id].result or {})["type"] == "charge.failed"
    assert harness.controls.tests[0].event.type == "webhook.test"
    assert (harness.controls.tests[0].event.id, harness.controls.tests[0].event.created_at) == (EVENT_ID, NOW)
    assert UUID(harness.sender.sent[0][1]["Service-Event-Id"]) == EVENT_ID


async def test_a_test_may_be_of_a_type_of_ones_own_that_there_is(harness: ControllerHarness) -> None:
    harness.controls.own_type = "refund.created"
    command = harness.controls.insert("test_event", "m", args={"type": "refund.created"})
    await harness.step()
    assert harness.sender.sent[0][1]["Service-Event-Type"] == "refund.created"
    assert (harness.controls.handlings[command.id].result or {})["type"] == "refund.created"
    assert harness.controls.tests[0].event.type == "webhook.test"
    lost = harness.controls.insert("test_event", "m", args={"type": "refund.lost"})
    await harness.step()
    assert (harness.controls.handlings[lost.id].code, len(harness.sender.sent)) == (Code.MALFORMED, 1)


async def test_a_test_is_its_workers_for_longer_than_its_attempt_may_take(harness: ControllerHarness) -> None:
    harness.controls.insert("test_event", "m")
    await harness.step()
    [(marked, lease)] = harness.controls.done
    assert marked == "mark_running"
    assert lease > ATTEMPT_TIMEOUT, "another worker would send it again, and this one could never finish it"


async def test_a_test_is_rejected_while_everything_is_paused_alone(harness: ControllerHarness) -> None:
    harness.controls.paused = {"m", None}
    command = harness.controls.insert("test_event", "m")
    await harness.assert_rejected(command, Code.WRONG_STATE)
    assert harness.controls.handlings[command.id].message == "everything is paused: resume it first"
    harness.controls.paused = {"m"}
    harness.controls.insert("test_event", "m")
    await harness.step()
    assert harness.controls.tests[0].state is State.DELIVERED


async def test_a_test_that_cannot_be_sent_is_rejected(harness: ControllerHarness) -> None:
    harness.database.endpoints["m"] = make_endpoint("m", key_id="gone")
    command = harness.controls.insert("test_event", "m")
    await harness.step()
    assert (harness.controls.handlings[command.id].code, harness.sender.sent) == (Code.WRONG_STATE, [])
    assert harness.attempter.missing_keys == {}, "no delivery waits for it"


def chunk(matched: int, retried: int, reached: int, **heads: int | None) -> ReopenedChunk:
    return ReopenedChunk(matched, retried, heads, (NOW + timedelta(seconds=reached), reached))


async def test_a_mass_retry_goes_chunk_by_chunk_and_shows_its_progress(harness: ControllerHarness) -> None:
    harness.controls.chunks = [chunk(100, 99, 5, a=None, b=3), chunk(50, 50, 9, a=None)]
    command = harness.controls.insert("retry_failed", "m")
    await harness.step()
    handling = harness.controls.handlings[command.id]
    assert (handling.status, handling.result) == ("done", {"matched": 150, "retried": 149})
    starts = [(LONG_AGO, -1), (NOW + timedelta(seconds=5), 5), (NOW + timedelta(seconds=9), 9)]
    assert harness.controls.asked_chunks == [(start, CHUNK_SIZE) for start in starts]
    running = ("mark_running", running_lease(ATTEMPT_TIMEOUT))
    woken = [("wake_lanes", {"a": None, "b": 3}), ("wake_lanes", {"a": None})]
    assert harness.controls.done == [running, woken[0], running, woken[1], running]


async def test_a_mass_retry_stops_at_its_limit(harness: ControllerHarness) -> None:
    harness.controls.chunks = [chunk(CHUNK_SIZE, CHUNK_SIZE - 1, 5), chunk(7, 7, 9), chunk(1, 1, 10)]
    harness.controls.insert("retry_failed", "m", args={"limit": CHUNK_SIZE + 7})
    await harness.step()
    assert [most for _, most in harness.controls.asked_chunks] == [CHUNK_SIZE, 7]


async def test_a_resumed_mass_retry_goes_on_where_it_was(harness: ControllerHarness) -> None:
    harness.controls.chunks = [chunk(1, 1, 9)]
    progress = {"matched": 101, "retried": 100, "passed": 100, "reached": [NOW.isoformat(), 4]}
    command = harness.controls.insert("retry_failed", "m", result=progress)
    await harness.step()
    assert harness.controls.asked_chunks[0] == ((NOW, 4), CHUNK_SIZE)
    assert harness.controls.handlings[command.id].result == {"matched": 101, "retried": 101}


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        *(("retry_failed", {"passed": "100"}), ("retry_failed", {"matched": None})),
        *(("retry_failed", {"reached": [NOW.isoformat()]}), ("retry_failed", {"reached": ["infinity", 4]})),
        ("retry_failed", {"reached": ["0001-01-01T00:00:00+14:00", 4]}),
        ("retry_failed", {"reached": ["2026-01-01", 4]}),
        ("retry_failed", {"reached": [NOW.isoformat(), "x"]}),
        *(("retry_failed", {"reached": 5}), ("test_event", {"event_id": "x"})),
        *(("test_event", {"event_id": None}), ("test_event", {"event_id": 7})),
        *(("test_event", {"created_at": "2026-01-01"}), ("test_event", {"created_at": []})),
    ],
)
async def test_progress_that_no_worker_wrote_is_rejected(command: str, changed: dict[str, object]) -> None:
    harness = ControllerHarness()
    written = {"matched": 101, "retried": 100, "passed": 100, "reached": [NOW.isoformat(), 4]}
    written |= {"event_id": str(EVENT_ID), "created_at": NOW.isoformat()}
    await harness.assert_rejected(
        harness.controls.insert(command, "m", result=written | changed), Code.MALFORMED
    )
    del written[next(iter(changed))]
    if "reached" not in changed:
        await harness.assert_rejected(harness.controls.insert(command, "m", result=written), Code.MALFORMED)


async def test_a_stop_hands_a_mass_retry_over_at_once(harness: ControllerHarness) -> None:
    harness.controls.chunks = [chunk(1, 1, 9)]
    command = harness.controls.insert("retry_failed", "m")
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        await harness.controller.step(group)
        harness.stop.set()
    assert harness.controls.handlings[command.id].status == "running"
    assert harness.controls.done[-1] == ("mark_running", timedelta())
    assert harness.controls.asked_chunks == []


@pytest.mark.parametrize(
    ("method", "error", "asked"),
    [
        ("reopen_failed", DOWN, 0),
        ("reopen_failed", StatementRefused("42501", "permission denied"), 0),
        ("mark_running", DOWN, 1),
        ("finish", DOWN, 2),
    ],
)
async def test_an_interrupted_mass_retry_is_left_to_whoever_resumes(
    harness: ControllerHarness, method: str, error: StorageError, asked: int
) -> None:
    harness.database.faults[method].extend([None] * (method == "mark_running") + [error])
    harness.controls.chunks = [chunk(1, 1, 9)]
    command = harness.controls.insert("retry_failed", "m")
    await harness.step()
    assert harness.controls.handlings[command.id].status == "running"
    assert len(harness.controls.asked_chunks) == asked, "nothing is passed over"


async def test_a_mass_retry_passes_over_what_cannot_be_made_owed_again(harness: ControllerHarness) -> None:
    refused = StatementRefused("XX001", "missing chunk number 0")
    halvings = [CHUNK_SIZE, 5, 2, 1]
    harness.database.faults["reopen_failed"].extend([refused] * len(halvings))
    harness.controls.chunks = [chunk(1, 0, 5), chunk(9, 9, 14, m=None)]
    command = harness.controls.insert("retry_failed", "m")
    await harness.step()
    handling = harness.controls.handlings[command.id]
    assert (handling.status, handling.result) == ("done", {"matched": 10, "retried": 9})
    assert [most for _, most in harness.controls.asked_chunks] == [0, CHUNK_SIZE, CHUNK_SIZE]


@pytest.mark.parametrize("method", ["transaction", "lock_control", "wake_lanes", "mark_running"])
async def test_a_mass_retry_that_is_refused_elsewhere_than_in_its_chunk_passes_nothing_over(
    harness: ControllerHarness, method: str
) -> None:
    refused = StatementRefused("XX000", "unable to check out connection from the pool")
    before = {"transaction": 2, "lock_control": 1, "wake_lanes": 0, "mark_running": 1}[method]
    harness.database.faults[method].extend([None] * before + [refused])
    harness.controls.chunks = [chunk(100, 100, 9, m=None)]
    command = harness.controls.insert("retry_failed", "m")
    await harness.step()
    assert harness.controls.handlings[command.id].status == "running"
    assert harness.controls.asked_chunks in ([], [((LONG_AGO, -1), CHUNK_SIZE)]), (
        "tried once, and not in parts"
    )


@pytest.mark.parametrize(
    "chunks", [[chunk(1, 1, 9), chunk(1, 1, 10)], []], ids=["stops", "does not finish it"]
)
async def test_a_command_that_was_taken_over(harness: ControllerHarness, chunks: list[ReopenedChunk]) -> None:
    harness.controls.chunks = list(chunks)
    command = harness.controls.insert("retry_failed", "m")
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        await harness.controller.step(group)
        harness.controls.handlings[command.id].token = NOW
    assert harness.controls.handlings[command.id].status == "running"
    assert len(harness.controls.asked_chunks) == 1


async def test_a_mass_retry_makes_way_for_an_operators_command(harness: ControllerHarness) -> None:
    harness.controls.chunks = [chunk(1, 1, 9)]
    harness.controls.insert("retry_failed", "m")
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        await harness.controller.step(group)
        harness.controls.control_is_free.clear()
        operators = group.create_task(harness.right_of_way.take(harness.controls))
        await until(lambda: harness.controls.stop_looks >= 3)
        assert harness.controls.asked_chunks == []
        harness.controls.control_is_free.set()
        await operators
    assert harness.controls.asked_chunks != []


async def test_a_mass_retry_waits_while_another_carries_out_a_command(harness: ControllerHarness) -> None:
    harness.controls.chunks = [chunk(1, 1, 9)]
    harness.controls.lock_answers.extend([True, False, False, True])
    command = harness.controls.insert("retry_failed", "m")
    await harness.step()
    assert harness.controls.handlings[command.id].result == {"matched": 1, "retried": 1}
    assert not harness.controls.lock_answers


async def test_the_next_chunk_follows_half_of_the_last(harness: ControllerHarness) -> None:
    first = replace(chunk(100, 100, 5), seqs=tuple(range(100)))
    harness.controls.chunks = [first, replace(chunk(1, 1, 9), seqs=(100,))]
    harness.controls.waiting.extend([100, MAX_WAITING + 1, MAX_WAITING])
    harness.controls.insert("retry_failed", "m")
    await harness.step()
    assert harness.controls.counted == [first.seqs] * 3 + [(100,)]
    assert len(harness.controls.asked_chunks) == 3


async def test_a_chunk_holds_up_the_next_for_a_while_only(harness: ControllerHarness) -> None:
    harness.controls.chunks = [replace(chunk(100, 100, 5), seqs=tuple(range(100))), chunk(1, 1, 9)]
    harness.controls.waiting.extend([100] * 1000)
    command = harness.controls.insert("retry_failed", "m")
    running = asyncio.create_task(harness.step())
    async with asyncio.timeout(MAX_WAIT):
        while not harness.controls.counted:
            await asyncio.wait([running], timeout=0.005)
        assert len(harness.controls.asked_chunks) == 1
        harness.database.clock.advance(MAX_CHUNK_WAIT_SECONDS)
        await running
    assert harness.controls.handlings[command.id].status == "done"
    assert len(harness.controls.asked_chunks) == 3
