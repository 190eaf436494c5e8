"""Long commands: a test event is sent once, a mass retry goes chunk by chunk and can be resumed."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from tests.unit.controlling import Office
from tests.unit.fake_desk import EVENT_ID
from tests.unit.fakes import NOW, make_endpoint
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.control.long_running import CHUNK, MOST_WAITING, PATIENCE, RUNNING_LEASE
from webhook_dispatcher.domain.command import LONG_AGO, Code
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.ports import ReopenedChunk
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome

DOWN = StorageUnavailable("down")


@pytest.mark.parametrize(
    ("seen", "state", "outcome", "status"),
    [
        (Answer(204), State.DELIVERED, "delivered", 204),
        (Answer(500), State.FAILED, "status", 500),
        (Failure(Outcome.DNS, ""), State.FAILED, "dns", None),
    ],
)
async def test_a_test_event_is_sent_once_and_written_down(
    seen: Answer | Failure, state: State, outcome: str, status: int | None
) -> None:
    office = Office()
    office.sender.answers.append(seen)
    command = office.desk.give("test_event", "m")
    assert await office.step()
    standing, [test] = office.desk.standing[command.id], office.desk.tests
    assert standing.result == {"event_id": str(test.event.id), "outcome": outcome, "status": status}
    assert (standing.status, test.state, test.event.type) == ("done", state, "webhook.test")
    assert len(office.sender.sent) == 1


async def test_a_resumed_test_keeps_its_id() -> None:
    office = Office()
    result = {"event_id": str(EVENT_ID), "created_at": NOW.isoformat()}
    office.desk.give("test_event", "m", result=result)
    await office.step()
    assert (office.desk.tests[0].event.id, office.desk.tests[0].event.created_at) == (EVENT_ID, NOW)
    assert UUID(office.sender.sent[0][1]["Service-Event-Id"]) == EVENT_ID


async def test_a_test_that_cannot_be_sent_is_rejected() -> None:
    office = Office()
    office.desk.paused = {"m"}
    await office.assert_rejected(office.desk.give("test_event", "m"), Code.WRONG_STATE)
    office.desk.paused = set()
    office.database.endpoints["m"] = make_endpoint("m", key_id="gone")
    command = office.desk.give("test_event", "m")
    await office.step()
    assert office.desk.standing[command.id].code is Code.WRONG_STATE
    assert office.sender.sent == []


async def test_a_test_whose_worker_fails_stays_running_for_another() -> None:
    office = Office()
    office.database.faults["read_endpoints"].append(DOWN)
    command = office.desk.give("test_event", "m")
    await office.step()
    assert office.desk.standing[command.id].status == "running"


def chunk(matched: int, retried: int, reached: int, **heads: int | None) -> ReopenedChunk:
    return ReopenedChunk(matched, retried, heads, (NOW + timedelta(seconds=reached), reached))


async def test_a_mass_retry_goes_chunk_by_chunk_and_shows_its_progress() -> None:
    office = Office()
    office.desk.chunks = [chunk(100, 99, 5, a=None, b=3), chunk(50, 50, 9, a=None)]
    command = office.desk.give("retry_failed", "m")
    await office.step()
    standing = office.desk.standing[command.id]
    assert (standing.status, standing.result) == ("done", {"matched": 150, "retried": 149})
    starts = [(LONG_AGO, -1), (NOW + timedelta(seconds=5), 5), (NOW + timedelta(seconds=9), 9)]
    assert office.desk.asked_chunks == [(start, CHUNK) for start in starts]
    running = ("keep_running", RUNNING_LEASE)
    announced = [("announce", {"a": None, "b": 3}), ("announce", {"a": None})]
    assert office.desk.done == [running, announced[0], running, announced[1], running]


async def test_a_mass_retry_stops_at_its_limit() -> None:
    office = Office()
    office.desk.chunks = [chunk(100, 100, 5), chunk(20, 20, 9), chunk(1, 1, 10)]
    office.desk.give("retry_failed", "m", args={"limit": 120})
    await office.step()
    assert [most for _, most in office.desk.asked_chunks] == [100, 20]


async def test_a_resumed_mass_retry_goes_on_where_it_was() -> None:
    office = Office()
    office.desk.chunks = [chunk(1, 1, 9)]
    progress = {"matched": 101, "retried": 100, "passed": 100, "reached": [NOW.isoformat(), 4]}
    command = office.desk.give("retry_failed", "m", result=progress)
    await office.step()
    assert office.desk.asked_chunks[0] == ((NOW, 4), CHUNK)
    assert office.desk.standing[command.id].result == {"matched": 101, "retried": 101}


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("retry_failed", {"passed": "100"}),
        ("retry_failed", {"matched": None}),
        ("retry_failed", {"reached": [NOW.isoformat()]}),
        ("retry_failed", {"reached": ["infinity", 4]}),
        ("retry_failed", {"reached": ["0001-01-01T00:00:00+14:00", 4]}),
        ("retry_failed", {"reached": ["2026-01-01", 4]}),
        ("retry_failed", {"reached": [NOW.isoformat(), "x"]}),
        ("retry_failed", {"reached": 5}),
        ("test_event", {"event_id": "x"}),
        ("test_event", {"event_id": None}),
        ("test_event", {"event_id": 7}),
        ("test_event", {"created_at": "2026-01-01"}),
        ("test_event", {"created_at": []}),
    ],
)
async def test_progress_that_no_worker_wrote_is_rejected(command: str, changed: dict[str, object]) -> None:
    office = Office()
    written = {"matched": 101, "retried": 100, "passed": 100, "reached": [NOW.isoformat(), 4]}
    written |= {"event_id": str(EVENT_ID), "created_at": NOW.isoformat()}
    await office.assert_rejected(office.desk.give(command, "m", result=written | changed), Code.MALFORMED)
    del written[next(iter(changed))]
    if "reached" not in changed:
        await office.assert_rejected(office.desk.give(command, "m", result=written), Code.MALFORMED)


async def test_a_stop_hands_a_mass_retry_over_at_once() -> None:
    office = Office()
    office.desk.chunks = [chunk(1, 1, 9)]
    command = office.desk.give("retry_failed", "m")
    office.stop.set()
    await office.step()
    assert office.desk.standing[command.id].status == "running"
    assert office.desk.done[-1] == ("keep_running", timedelta())
    assert office.desk.asked_chunks == []


@pytest.mark.parametrize("method", ["reopen_failed", "keep_running", "finish"])
async def test_an_interrupted_mass_retry_is_left_to_whoever_resumes(method: str) -> None:
    office = Office()
    office.database.faults[method].extend([None] * (method == "keep_running") + [DOWN])
    office.desk.chunks = [chunk(1, 1, 9)]
    command = office.desk.give("retry_failed", "m")
    await office.step()
    assert office.desk.standing[command.id].status == "running"


async def test_a_mass_retry_passes_over_what_cannot_be_made_owed_again() -> None:
    office = Office()
    refused = StatementRefused("XX001", "missing chunk number 0")
    halvings = [100, 50, 25, 12, 6, 3, 1]
    office.database.faults["reopen_failed"].extend([refused] * len(halvings))
    office.desk.chunks = [chunk(1, 0, 5), chunk(9, 9, 14, m=None)]
    command = office.desk.give("retry_failed", "m")
    await office.step()
    standing = office.desk.standing[command.id]
    assert (standing.status, standing.result) == ("done", {"matched": 10, "retried": 9})
    assert [most for _, most in office.desk.asked_chunks] == [0, CHUNK, CHUNK]


@pytest.mark.parametrize("method", ["desk", "is_alone", "announce", "keep_running"])
async def test_a_mass_retry_that_is_refused_elsewhere_than_in_its_chunk_passes_nothing_over(
    method: str,
) -> None:
    office = Office()
    refused = StatementRefused("XX000", "unable to check out connection from the pool")
    before = {"desk": 1, "is_alone": 0, "announce": 0, "keep_running": 1}[method]
    office.database.faults[method].extend([None] * before + [refused])
    office.desk.chunks = [chunk(100, 100, 9, m=None)]
    command = office.desk.give("retry_failed", "m")
    await office.step()
    assert office.desk.standing[command.id].status == "running"
    assert office.desk.asked_chunks in ([], [((LONG_AGO, -1), CHUNK)]), "tried once, and not in parts"


async def test_a_mass_retry_that_is_refused_for_want_of_rights_passes_nothing_over() -> None:
    office = Office()
    office.database.faults["reopen_failed"].append(StatementRefused("42501", "permission denied"))
    office.desk.chunks = [chunk(1, 1, 9)]
    command = office.desk.give("retry_failed", "m")
    await office.step()
    assert office.desk.standing[command.id].status == "running"
    assert office.desk.asked_chunks == []


async def test_a_worker_whose_command_was_taken_over_stops() -> None:
    office = Office()
    office.desk.chunks = [chunk(1, 1, 9), chunk(1, 1, 10)]
    command = office.desk.give("retry_failed", "m")
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        await office.controller.step(group)
        office.desk.standing[command.id].token = NOW
    assert office.desk.standing[command.id].status == "running"
    assert len(office.desk.asked_chunks) == 1


async def test_a_mass_retry_waits_while_another_carries_out_a_command() -> None:
    office = Office()
    office.desk.chunks = [chunk(1, 1, 9)]
    office.desk.busy_looks = 2
    command = office.desk.give("retry_failed", "m")
    await office.step()
    assert office.desk.standing[command.id].result == {"matched": 1, "retried": 1}
    assert office.desk.busy_looks == -2


async def test_the_next_chunk_follows_when_half_of_the_last_has_been_attempted() -> None:
    office = Office()
    first = replace(chunk(100, 100, 5), seqs=tuple(range(100)))
    office.desk.chunks = [first, replace(chunk(1, 1, 9), seqs=(100,))]
    office.desk.waiting.extend([100, MOST_WAITING + 1, MOST_WAITING])
    office.desk.give("retry_failed", "m")
    await office.step()
    assert office.desk.counted == [first.seqs] * 3 + [(100,)]
    assert len(office.desk.asked_chunks) == 3


async def test_a_chunk_that_is_not_attempted_holds_up_the_next_for_a_while_only() -> None:
    office = Office()
    office.desk.chunks = [replace(chunk(100, 100, 5), seqs=tuple(range(100))), chunk(1, 1, 9)]
    office.desk.waiting.extend([100] * 1000)
    command = office.desk.give("retry_failed", "m")
    running = asyncio.create_task(office.step())
    async with asyncio.timeout(MAX_WAIT):
        while not office.desk.counted:
            await asyncio.wait([running], timeout=0.005)
        assert len(office.desk.asked_chunks) == 1
        office.database.clock.advance(PATIENCE)
        await running
    assert office.desk.standing[command.id].status == "done"
    assert len(office.desk.asked_chunks) == 3
