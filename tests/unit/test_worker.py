"""Following a visit: one event after the other, and nothing once the visit must end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.unit.fakes import NOW, SECRET, make_endpoint, make_event, quiet, until
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.health.memory_budget import MemoryBudget
from webhook_dispatcher.dispatch.lane_session import PREFETCH, LaneSession, Worker
from webhook_dispatcher.domain.claim import Lease, RunAsk
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.event import Event, State
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.domain.signing import Secret

EVERYTHING = RunAsk("m", 0, 1000, 10**6)


class Course:
    """What a follower is given, and what it did."""

    def __init__(self, *seqs: int) -> None:
        self.visit = LaneSession(Lease("m", 3, 0, None), MemoryBudget(), trusted_until=100.0, spent_at=100.0)
        self.visit.take_in([make_event(seq) for seq in seqs], EVERYTHING, stable=1000)
        self.now = 0.0
        self.started: list[int] = []
        self.records: list[Record] = []
        self.asked = 0
        self.behind = False
        self.progress = asyncio.Event()
        self.answer = asyncio.Event()
        self.answer.set()
        self.on_start: Callable[[int], None] = lambda seq: None
        self.follower = Worker(self._attend, self, self._ask, self._may_start)

    async def _attend(
        self, event: Event, fence: int, is_retry: bool, endpoint: Endpoint, secrets: tuple[Secret, ...]
    ) -> Record:
        self.started.append(event.seq)
        self.on_start(event.seq)
        await self.answer.wait()
        return Record(event, fence, is_retry, None, State.DELIVERED, None, None, NOW)

    def add(self, record: Record, visit: LaneSession | None) -> None:
        """Take over a record."""
        assert visit is self.visit
        visit.unwritten += 1
        self.records.append(record)

    def is_behind(self) -> bool:
        """Tell whether records wait for too long."""
        return self.behind

    async def caught_up(self) -> None:
        """Wait until they do not."""
        while self.behind:
            await self.progress.wait()

    def _ask(self, visit: LaneSession) -> asyncio.Future[None]:
        self.asked += 1
        return asyncio.get_running_loop().create_future()

    def _may_start(self, visit: LaneSession) -> bool:
        return not visit.must_end(self.now)

    def read_on(self, *seqs: int, is_cut: bool = False) -> None:
        """Answer what was asked for."""
        ask = RunAsk("m", 0, len(seqs) if is_cut else 1000, 10**6)
        self.visit.is_cut = self.visit.is_noticed = False
        self.visit.take_in([make_event(seq) for seq in seqs], ask, stable=1000)
        future, self.visit.top_up = self.visit.top_up, None
        assert future is not None
        future.set_result(None)

    async def follow(self) -> None:
        await self.follower.follow(self.visit, make_endpoint(), (SECRET,))

    @asynccontextmanager
    async def following(self) -> AsyncIterator["asyncio.Task[None]"]:
        task = asyncio.create_task(self.follow())
        yield task
        async with asyncio.timeout(MAX_WAIT):
            await task


async def test_events_are_sent_in_order_under_the_lanes_epoch() -> None:
    course = Course(1, 2, 3)
    await course.follow()
    assert course.started == [1, 2, 3]
    assert [(record.fence, record.is_retry) for record in course.records] == [(3, False)] * 3
    assert course.visit.is_over


async def test_the_next_starts_only_when_the_one_before_has_ended_and_was_handed_over() -> None:
    course = Course(1, 2)
    course.answer.clear()
    course.on_start = lambda seq: course.started.append(-len(course.records))
    async with course.following():
        await until(lambda: course.started)
        await quiet()
        assert course.started == [1, 0]
        course.answer.set()
    assert course.started == [1, 0, 2, -1]


def recall(course: Course) -> None:
    course.visit.is_recalled = True


def lose(course: Course) -> None:
    course.visit.is_lost = True


def distrust(course: Course) -> None:
    course.now = course.visit.trusted_until


def straggle(course: Course) -> None:
    course.visit.complete_up_to = 10
    course.visit.notice(9)


def spend(course: Course) -> None:
    course.visit.spent_at = course.now


ENDS = [recall, lose, distrust, straggle, spend]


@pytest.mark.parametrize("end", ENDS)
async def test_nothing_starts_after_the_end(end: Callable[[Course], None]) -> None:
    course = Course(1, 2, 3)
    course.on_start = lambda seq: end(course) if seq == 2 else None
    await course.follow()
    assert course.started == [1, 2]
    assert len(course.records) == 2
    assert course.visit.owes_more


@pytest.mark.parametrize("end", ENDS)
async def test_a_visit_that_must_end_before_it_began_starts_nothing(end: Callable[[Course], None]) -> None:
    course = Course(1)
    end(course)
    await course.follow()
    assert course.started == []
    assert course.visit.is_over


@pytest.mark.parametrize("end", ENDS)
async def test_nothing_starts_when_the_end_came_while_it_waited_for_the_recorder(
    end: Callable[[Course], None],
) -> None:
    course = Course(1, 2)
    course.behind = True
    async with course.following() as task:
        await quiet()
        assert course.started == []
        assert not task.done()
        end(course)
        course.behind = False
        course.progress.set()
    assert course.started == []


async def test_a_lane_with_a_locked_row_starts_nothing_until_it_is_unstuck() -> None:
    course = Course(1, 2)
    course.visit.unstuck.clear()
    async with course.following():
        await quiet()
        assert course.started == []
        course.visit.unstuck.set()
    assert course.started == [1, 2]


async def test_a_run_that_holds_all_there_is_asks_for_nothing() -> None:
    course = Course(1, 2)
    await course.follow()
    assert course.asked == 0


async def test_more_is_asked_for_before_the_run_is_empty() -> None:
    course = Course(*range(1, PREFETCH + 4))
    course.visit.is_cut = True
    course.on_start = lambda seq: course.started.append(-course.asked)
    async with course.following():
        await until(lambda: len(course.records) == PREFETCH + 3)
        course.read_on(50)
    assert course.started[1::2] == [0, 0, 0] + [-1] * (PREFETCH + 1)
    assert course.started[-2] == 50
    assert course.asked == 1


async def test_a_run_is_topped_up_while_it_goes_on() -> None:
    course = Course(1, 2, 3)
    course.visit.is_cut = True
    course.on_start = lambda seq: course.read_on(4, 5) if seq == 1 else None
    await course.follow()
    assert course.started == [1, 2, 3, 4, 5]


async def test_a_late_commit_is_sent_before_what_is_not_started() -> None:
    course = Course(1, 5, 6)
    course.visit.is_cut = True
    course.on_start = lambda seq: course.read_on(1, 3, 5, 6) if seq == 1 else None
    await course.follow()
    assert course.started == [1, 3, 5, 6]


async def test_a_read_that_brought_nothing_ends_the_visit() -> None:
    course = Course(1)
    course.visit.is_cut = True
    async with course.following():
        await until(lambda: course.records)
        course.read_on()
    assert course.started == [1]
    assert not course.visit.owes_more


async def test_a_read_answered_after_a_recall_starts_nothing() -> None:
    course = Course(1)
    course.visit.is_cut = True
    async with course.following():
        await until(lambda: course.records)
        recall(course)
        course.read_on(2, 3)
    assert course.started == [1]
    assert course.visit.owes_more
