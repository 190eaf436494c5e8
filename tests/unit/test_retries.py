"""Due rows: attempted each on its own, or rescheduled unsent."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.unit.builders import HOLD, NOW, make_endpoint, make_event
from tests.unit.fakes.database import seqs_of
from tests.unit.harnesses.retrier import RetrierHarness
from tests.unit.loop_turns import one_turn, quiet, until
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.attempt import ENDPOINT_WAIT, KEY_WAIT
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.recorder import MAX_BEHIND
from webhook_dispatcher.dispatch.retries import (
    BURST,
    HAND_ON_WAIT,
    MAX_START_WAIT,
    MIN_POLL,
    POLL,
    UNCOUNTED_WAIT,
)
from webhook_dispatcher.domain.claim import ClaimedRetry, HandedOn
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome


@pytest.fixture
def harness() -> RetrierHarness:
    return RetrierHarness()


async def test_due_rows_are_attempted_and_recorded_under_their_claims(harness: RetrierHarness) -> None:
    harness.sender.answers.append(Answer(500))
    harness.owe(1, 2)
    assert await harness.round() == 2
    assert sorted(harness.sender.event_ids) == [1, 2]
    assert {record.event.seq: record.fence for record in harness.records.written} == {1: 101, 2: 102}
    assert all(record.is_retry and record.attempts == 2 for record in harness.records.written)
    assert harness.memory.used == 0


async def test_no_more_is_claimed_than_there_is_room_for() -> None:
    harness = RetrierHarness(most=4)
    harness.sender.gate = asyncio.Event()
    harness.owe(1, 2, 3, 4, 5)
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        # Nobody knows them: half of the places at most at once, for they might all hang.
        assert (await harness.retrier.step(group)).started == 2
        assert (await harness.retrier.step(group)).started == 2
        assert (await harness.retrier.step(group)).started == 0
        harness.sender.gate.set()
        await until(lambda: harness.recorder.unwritten == 4)
        await quiet()
        assert (await harness.retrier.step(group)).started == 1


async def test_a_row_without_endpoint_is_handed_on_or_waits_for_that(harness: RetrierHarness) -> None:
    harness.owe(1, 2, lane="gone")
    harness.owe(3)
    harness.claims.fates = {1: HandedOn.MOVED, 2: HandedOn.WAITS}
    await harness.round()
    [waiting, sent] = sorted(harness.records.written, key=lambda record: record.event.seq)
    assert (waiting.event.seq, waiting.attempt, waiting.due_at) == (2, None, waiting.at + HAND_ON_WAIT)
    assert (sent.event.seq, harness.sender.event_ids, harness.memory.used) == (3, [3], 0)


async def test_a_row_that_cannot_be_handed_on_is_left_alone_and_others_are(harness: RetrierHarness) -> None:
    harness.owe(1, 2, lane="gone")
    harness.claims.fates = dict.fromkeys((1, 2), HandedOn.MOVED)
    damaged = StatementRefused("XX001", "missing chunk number 0")
    harness.database.faults["hand_on"].extend([damaged, damaged, None])
    await harness.round()
    assert seqs_of(harness.records.written) == [1]
    assert harness.instruments.blocked.seqs() == [1]
    assert 2 not in harness.database.owed


SECOND = timedelta(seconds=1)
DAMAGED = replace(make_endpoint("another"), lane="m")


def pause(harness: RetrierHarness) -> None:
    harness.instruments.pause.set(True)


def fill(harness: RetrierHarness) -> None:
    harness.memory.reserve(make_event(99, object=b"x" * 200_000_000))


def fall_behind(harness: RetrierHarness) -> None:
    harness.recorder.add(Record(make_event(99), 1, True, None, None, None, NOW, NOW), None)
    harness.clock.advance(MAX_BEHIND * 2)


@pytest.mark.parametrize("hinder", [pause, fill])
async def test_nothing_is_claimed_while_nothing_may_be_sent(hinder: Callable[[RetrierHarness], None]) -> None:
    harness = RetrierHarness()
    harness.owe(1)
    hinder(harness)
    async with asyncio.TaskGroup() as group:
        assert (await harness.retrier.step(group)).started == 0
    assert len(harness.claims.retries) == 1


async def test_what_is_due_is_claimed_as_soon_as_outcomes_are_written(harness: RetrierHarness) -> None:
    harness.owe(1)
    fall_behind(harness)
    running = asyncio.create_task(harness.retrier.run())
    await quiet()
    assert len(harness.claims.retries) == 1
    await harness.recorder.step()
    await quiet()
    assert harness.claims.retries == []
    harness.stop.set()
    async with asyncio.timeout(MAX_WAIT):
        await running


def stop(harness: RetrierHarness) -> None:
    harness.stop.set()


def expire(harness: RetrierHarness) -> None:
    harness.clock.advance(15.0)


@pytest.mark.parametrize("hinder", [stop, expire, pause])
async def test_what_may_not_be_sent_is_handed_back(
    harness: RetrierHarness, hinder: Callable[[RetrierHarness], None]
) -> None:
    harness.owe(1)
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        await harness.retrier.step(group)
        hinder(harness)
    await harness.recorder.step()
    harness.assert_rescheduled()


@pytest.mark.parametrize("seconds", [MAX_START_WAIT * 1.1, 15.0])
async def test_a_row_that_waited_long_is_handed_back(harness: RetrierHarness, seconds: float) -> None:
    harness.owe(1)
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        await harness.retrier.step(group)
        unwritten = Record(make_event(99), 1, True, None, None, None, NOW, NOW)
        harness.memory.reserve(unwritten.event)
        harness.recorder.add(unwritten, None)
        harness.clock.advance(MAX_BEHIND * 2)
        await quiet()
        assert harness.sender.sent == []
        harness.clock.advance(seconds)
        await harness.recorder.step()
    await harness.recorder.step()
    harness.assert_rescheduled()


async def test_a_row_whose_endpoint_took_long_to_be_read_is_rescheduled(harness: RetrierHarness) -> None:
    harness.owe(1)
    harness.claims.on_read_endpoints = lambda: harness.clock.advance(MAX_START_WAIT * 2)
    await harness.round()
    assert harness.sender.sent == []
    harness.assert_rescheduled()


@pytest.mark.parametrize(
    ("endpoint", "age", "wait", "told"),
    [
        pytest.param(make_endpoint(key_id="gone"), timedelta(), KEY_WAIT, (["gone"], []), id="no key"),
        pytest.param(DAMAGED, timedelta(), KEY_WAIT, ([], ["m"]), id="a damaged secret"),
        pytest.param(None, timedelta(), ENDPOINT_WAIT, ([], []), id="no endpoint"),
        pytest.param(None, HOLD - SECOND, SECOND, ([], []), id="no endpoint, and the hold ends"),
    ],
)
async def test_a_row_that_cannot_be_sent_waits(
    harness: RetrierHarness, endpoint: Endpoint | None, age: timedelta, wait: timedelta, told: object
) -> None:
    harness.database.endpoints = {"m": endpoint} if endpoint else {}
    harness.owe(1, created_at=NOW - age)
    await harness.round()
    harness.assert_rescheduled(wait)
    assert (list(harness.attempter.missing_keys), list(harness.attempter.unopened)) == told


async def test_a_row_whose_attempt_did_not_count_waits(harness: RetrierHarness) -> None:
    harness.sender.answers.append(Failure(Outcome.CONNECT, "EMFILE", is_ours=True))
    harness.owe(1)
    await harness.round()
    harness.assert_rescheduled(UNCOUNTED_WAIT, sent=[1])


@pytest.mark.parametrize(
    ("age", "on_failure", "removed_at", "state", "reason"),
    [
        (HOLD, None, None, State.FAILED, FailedReason.NOT_CONFIGURED),
        (timedelta(), None, NOW, State.FAILED, FailedReason.NOT_CONFIGURED),
        (HOLD, State.DELIVERED, None, State.DELIVERED, None),
    ],
)
async def test_a_row_without_endpoint_ends_after_the_hold_or_once_that_was_removed(
    age: timedelta, on_failure: State | None, removed_at: datetime | None, state: State, reason: object
) -> None:
    harness = RetrierHarness()
    harness.database.endpoints.clear()
    event = make_event(1, attempts=1, created_at=NOW - age, on_failure=on_failure)
    harness.claims.retries = [ClaimedRetry(event, 101, removed_at)]
    await harness.round()
    record = harness.the_only_record()
    assert (record.state, record.reason, record.attempt, record.attempts) == (state, reason, None, 1)


async def test_rows_are_handed_back_when_their_endpoints_cannot_be_read(harness: RetrierHarness) -> None:
    harness.owe(1, 2)
    harness.database.faults["read_endpoints"].append(StorageUnavailable("down"))
    async with asyncio.TaskGroup() as group:
        with pytest.raises(StorageUnavailable):
            await harness.retrier.step(group)
    await harness.recorder.step()
    assert (seqs_of(harness.records.written), harness.sender.sent) == ([1, 2], [])
    assert harness.memory.used == 0


async def test_run_survives_a_failed_claim_and_ends_with_the_last(harness: RetrierHarness) -> None:
    harness.sender.gate = asyncio.Event()
    harness.database.faults["claim_longest_due"].append(StorageUnavailable("down"))
    harness.owe(1)
    running = asyncio.create_task(harness.retrier.run())
    async with asyncio.timeout(MAX_WAIT):
        while not harness.sender.sent:
            await asyncio.wait([running], timeout=0.005)
        harness.stop.set()
        await quiet()
        assert not running.done()
        harness.sender.gate.set()
        await running
    assert harness.recorder.unwritten == 1


async def test_retries_whose_endpoint_cannot_be_read_are_handed_back(harness: RetrierHarness) -> None:
    harness.owe(1)
    harness.database.unreadable_endpoints = {"m"}
    await harness.round()
    harness.assert_rescheduled(KEY_WAIT)


class CountedStop(Stop):
    """Notes for how long a loop would wait, and ends it after so many waits."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._most = most

    async def wait_at_most(self, seconds: float) -> None:
        self.waits.append(seconds)
        await quiet()
        if len(self.waits) == self._most:
            self.set()


async def test_looks_follow_each_other_closely_while_there_is_something_to_attempt() -> None:
    # Where more of a merchant is due than it has slots, the next look fills them again.
    stop = CountedStop(most=6)
    harness = RetrierHarness(stop=stop)
    harness.owe(1)
    async with asyncio.timeout(MAX_WAIT):
        await harness.retrier.run()
    assert stop.waits == [MIN_POLL, 2 * MIN_POLL, 4 * MIN_POLL, 8 * MIN_POLL, POLL, POLL]


async def test_attempts_claimed_together_begin_in_small_groups() -> None:
    # A mass retry's begin by the hundred, and first attempts are not to wait for all of them.
    harness = RetrierHarness(most=100)
    harness.sender.gate = asyncio.Event()
    merchants = [f"m{number}" for number in range(3 * BURST)]
    harness.database.configure(*merchants)
    harness.owe_of(merchants, first=1)
    begun: list[int] = []
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        step = asyncio.create_task(harness.retrier.step(group))
        while not step.done():
            begun.append(len(harness.sender.sent))
            await one_turn()
        assert step.result().started == 3 * BURST
        await until(lambda: len(harness.sender.sent) == 3 * BURST)
        harness.sender.gate.set()
    assert max(after - before for before, after in pairwise([*begun, 3 * BURST])) <= BURST
