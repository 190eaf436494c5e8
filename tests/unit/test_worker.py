"""Following a session: one event after the other, and nothing once it must end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest

from tests.unit.builders import INTERVAL, KEYRING, LEASE, NOW, SECRET, make_endpoint, make_event
from tests.unit.fakes.database import FakeDatabase
from tests.unit.fakes.network import FakeSender
from tests.unit.fakes.storage import FakeClaims, FakeRecords
from tests.unit.loop_turns import quiet, until
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.attempt import Attempter
from webhook_dispatcher.dispatch.health.own_faults import PROBE_INTERVAL
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane_session import LaneSession, SessionState
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.worker import PREFETCH, Worker
from webhook_dispatcher.domain.claim import Lease, RunAsk
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.event import Event, State, Trigger
from webhook_dispatcher.domain.record import UNWANTED, Record
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.domain.verdict import Failure, Outcome
from webhook_dispatcher.telemetry.metrics import Metrics

EVERYTHING = RunAsk("m", 0, 1000, 10**6, NOW)


class _Recorder(Recorder):
    """A recorder that is behind when it is told to be."""

    behind = False
    progress: asyncio.Event

    def is_behind(self) -> bool:
        return self.behind

    async def caught_up(self) -> None:
        while self.behind:
            await self.progress.wait()


class _Attempter(Attempter):
    """Attempts that end when `answer` is set."""

    harness: "WorkerHarness"

    async def attempt(
        self,
        event: Event,
        fence: int,
        is_retry: bool,
        endpoint: Endpoint,
        secrets: tuple[Secret, ...],
        may_send: Callable[[], bool],
    ) -> Record | None:
        self.harness.hold_up(event.seq)
        if not may_send():
            return None
        self.harness.started.append(event.seq)
        self.harness.on_start(event.seq)
        await self.harness.answer.wait()
        return Record(event, fence, is_retry, None, State.DELIVERED, None, None, NOW)


class WorkerHarness:
    """A worker, the session that it is given, and what it did."""

    def __init__(self, *seqs: int) -> None:
        self.database = FakeDatabase()
        self.clock = self.database.clock
        instruments = Instruments.of(self.clock, Metrics("test"))
        self.own_faults = instruments.own_faults
        now = self.clock.elapsed()
        self.session = LaneSession(
            Lease("m", 3, 0, None, False, NOW), instruments.memory, now + 100.0, now + 90.0
        )
        self.session.take_in([make_event(seq) for seq in seqs], EVERYTHING, stable=1000)
        self.types: frozenset[str] | None = None
        self.started: list[int] = []
        self.answer, self.progress = asyncio.Event(), asyncio.Event()
        self.answer.set()
        self.hold_up: Callable[[int], None] = lambda seq: None
        self.on_start: Callable[[int], object] = lambda seq: None
        self.recorder = _Recorder(FakeRecords(self.database), instruments, LEASE, 15.0)
        self.recorder.progress = self.progress
        attempter = _Attempter(FakeSender(), KEYRING, Schedule(), instruments)
        attempter.harness = self
        claims = FakeClaims(self.database)
        self.worker = Worker(claims, self.recorder, attempter, instruments, INTERVAL, asyncio.Event())

    @property
    def records(self) -> list[Record]:
        """Return what was handed to the recorder."""
        return [entry.record for entry in self.recorder._queue]

    @property
    def asked(self) -> int:
        """Return how often more was asked for; nobody reads on but `read_on`, which forgets none."""
        return len(self.worker.low)

    def read_on(self, *seqs: int, is_cut: bool = False) -> None:
        """Answer what was asked for."""
        assert self.session.fetch is not None
        self.session.ask(1000, 10**6)
        ask = RunAsk("m", 0, len(seqs) if is_cut else 1000, 10**6, NOW)
        self.session.take_in([make_event(seq) for seq in seqs], ask, stable=1000)
        self.session.fetched()

    async def follow(self) -> None:
        endpoint = replace(make_endpoint(), types=self.types)
        await self.worker.work_through(self.session, endpoint, (SECRET,))

    @asynccontextmanager
    async def following(self) -> AsyncIterator["asyncio.Task[None]"]:
        task = asyncio.create_task(self.follow())
        yield task
        async with asyncio.timeout(MAX_WAIT):
            await task


async def test_events_are_sent_in_order_under_the_lanes_epoch() -> None:
    harness = WorkerHarness(1, 2, 3)
    await harness.follow()
    assert (harness.started, harness.session.state) == ([1, 2, 3], SessionState.OVER)
    assert [(record.fence, record.is_retry) for record in harness.records] == [(3, False)] * 3
    assert harness.asked == 0, "the run holds all there is"


async def test_the_next_starts_only_when_the_one_before_has_ended_and_was_handed_over() -> None:
    harness = WorkerHarness(1, 2)
    harness.answer.clear()
    harness.on_start = lambda seq: harness.started.append(-len(harness.records))
    async with harness.following():
        await until(lambda: harness.started)
        await quiet()
        assert harness.started == [1, 0]
        harness.answer.set()
    assert harness.started == [1, 0, 2, -1]


async def test_what_is_held_up_until_the_lease_is_not_trusted_any_more_is_not_sent_and_still_owed() -> None:
    harness = WorkerHarness(1, 2, 3)
    harness.hold_up = lambda seq: harness.clock.advance(100) if seq == 2 else None
    await harness.follow()
    assert harness.started == [record.event.seq for record in harness.records] == [1]
    assert harness.session.complete_up_to == 1


def straggle(harness: WorkerHarness) -> None:
    harness.session.complete_up_to = 10
    harness.session.notice(9)


def open_circuit(harness: WorkerHarness) -> None:
    ours = Failure(Outcome.UNSENDABLE, "our own signature does not verify", is_ours=True)
    harness.own_faults.counts(make_event(99, "other"), ours, harness.clock.elapsed())


End = Callable[[WorkerHarness], object]
ENDS: dict[str, End] = {
    "recall": lambda it: it.session.recall(),
    "lose": lambda it: it.session.lose(),
    "distrust": lambda it: it.clock.advance(it.session.trusted_until - it.clock.elapsed()),
    "straggle": straggle,
    "give way": lambda it: it.session.give_way(),
    "time out": lambda it: it.clock.advance(it.session.expires_at - it.clock.elapsed()),
    "open circuit": open_circuit,
}
ending = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


@ending
async def test_nothing_starts_after_the_end(end: End) -> None:
    harness = WorkerHarness(1, 2, 3)
    harness.on_start = lambda seq: end(harness) if seq == 2 else None
    await harness.follow()
    assert (harness.started, len(harness.records), harness.session.has_more) == ([1, 2], 2, True)


async def test_a_probe_makes_one_attempt() -> None:
    harness = WorkerHarness(1, 2)
    harness.session.is_probe = True
    open_circuit(harness)
    harness.clock.advance(PROBE_INTERVAL)
    assert harness.own_faults.may_probe()
    await harness.follow()
    assert harness.started == [1]
    assert harness.session.has_more
    assert not harness.own_faults.may_probe()


@ending
async def test_nothing_starts_when_the_end_came_while_it_waited_for_the_recorder(end: End) -> None:
    harness = WorkerHarness(1, 2)
    harness.recorder.behind = True
    async with harness.following() as task:
        await quiet()
        assert (harness.started, task.done()) == ([], False)
        end(harness)
        harness.recorder.behind = False
        harness.progress.set()
    assert harness.started == []


async def test_a_lane_with_a_locked_row_starts_nothing_until_it_is_unblocked() -> None:
    harness = WorkerHarness(1, 2, 3)
    locked = harness.session.start()
    harness.session.add_outcome()
    harness.session.block()
    async with harness.following():
        await quiet()
        assert harness.started == []
        harness.session.settle_outcome(locked)
    assert harness.started == [2, 3]


async def test_more_is_asked_for_before_the_run_is_empty() -> None:
    harness = WorkerHarness(*range(1, PREFETCH + 4))
    harness.session.missed_read()
    harness.on_start = lambda seq: harness.started.append(-harness.asked)
    async with harness.following():
        await until(lambda: len(harness.records) == PREFETCH + 3)
        harness.read_on(50)
    assert (harness.started[1::2], harness.started[-2]) == ([0, 0, 0] + [-1] * (PREFETCH + 1), 50)
    assert harness.asked == 1


async def test_a_run_is_topped_up_while_it_goes_on() -> None:
    harness = WorkerHarness(1, 2, 3)
    harness.session.missed_read()
    harness.on_start = lambda seq: harness.read_on(4, 5) if seq == 1 else None
    await harness.follow()
    assert harness.started == [1, 2, 3, 4, 5]


async def test_a_read_that_brought_nothing_ends_the_session() -> None:
    harness = WorkerHarness(1)
    harness.session.missed_read()
    async with harness.following():
        await until(lambda: harness.records)
        harness.read_on()
    assert harness.started == [1]
    assert not harness.session.has_more


async def test_a_read_answered_after_a_recall_starts_nothing() -> None:
    harness = WorkerHarness(1)
    harness.session.missed_read()
    async with harness.following():
        await until(lambda: harness.records)
        harness.session.recall()
        harness.read_on(2, 3)
    assert (harness.started, harness.session.has_more) == ([1], True)


def filtered(*unwanted: int, of: int) -> WorkerHarness:
    """Make a worker and a run of which these are of a type that the endpoint does not want."""
    harness = WorkerHarness()
    harness.types = frozenset({"charge.failed"})
    events = [
        make_event(seq, type="charge.created" if seq in unwanted else "charge.failed")
        for seq in range(1, of + 1)
    ]
    harness.session.take_in(events, EVERYTHING, stable=1000)
    return harness


def write(harness: WorkerHarness, *seqs: int) -> None:
    """Let these outcomes have been written."""
    for record in harness.records:
        if record.event.seq in seqs:
            harness.session.settle_outcome(record.event)


async def test_a_run_that_is_not_wanted_is_passed_over_and_nothing_starts_before_that_is_written() -> None:
    harness = filtered(1, 2, 4, of=5)
    async with harness.following():
        await until(lambda: len(harness.records) == 2)
        await quiet()
        assert (harness.started, [record.state for record in harness.records]) == ([], [UNWANTED] * 2)
        write(harness, 1, 2)
        await until(lambda: len(harness.records) == 4)
        await quiet()
        assert harness.started == [3]
        write(harness, 3, 4)
    assert harness.started == [3, 5]
    passed = [record for record in harness.records if record.state == UNWANTED]
    assert [(record.event.seq, record.fence, record.attempt) for record in passed] == [
        (seq, 3, None) for seq in (1, 2, 4)
    ]


async def test_what_was_refused_once_the_lane_is_recalled_ends_the_session_and_is_still_owed() -> None:
    harness = filtered(1, of=2)
    async with harness.following():
        await until(lambda: harness.records)
        harness.session.keep_unwanted()
        write(harness, 1)
    assert (harness.started, harness.session.has_more, harness.session.state) == ([], True, SessionState.OVER)


async def test_a_trial_of_a_suspended_merchant_passes_over_and_rests_after_an_attempt_alone() -> None:
    harness = filtered(1, of=1)
    harness.session.lease = replace(harness.session.lease, is_suspended=True)
    await harness.follow()
    assert (len(harness.records), harness.session.wait_until, harness.session.has_started) == (1, None, False)


async def test_a_trial_reads_on_past_what_is_not_wanted_to_the_one_that_it_attempts() -> None:
    harness = filtered(1, of=1)
    harness.session.lease = replace(harness.session.lease, is_suspended=True)
    harness.session.has_more = True
    async with harness.following():
        await until(lambda: harness.asked)
        write(harness, 1)
        wanted = [make_event(seq, type="charge.failed") for seq in (2, 3)]
        harness.session.take_in(wanted, RunAsk("m", 0, 2, 10**6, NOW), stable=1000)
        harness.session.fetched()
    assert (harness.started, harness.asked, harness.session.has_more) == ([2], 1, True)


def test_tests_copies_and_what_was_asked_for_by_hand_are_wanted_whatever_the_filter_names() -> None:
    every, some = make_endpoint(), replace(make_endpoint(), types=frozenset({"charge.failed"}))
    events = {
        make_event(1): False,
        make_event(2, type="charge.failed"): True,
        make_event(3, type="webhook.test"): True,
        make_event(4, trigger=Trigger.MANUAL): True,
        make_event(5, trigger=Trigger.REPLAY): True,
        make_event(6, copy_of=UUID(int=1)): True,
    }
    assert {event: some.wants(event) for event in events} == events
    assert all(map(every.wants, events))
