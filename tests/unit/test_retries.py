"""Due rows: attempted each on its own, or handed back unsent."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.fake_storage import FakeClaims, FakeRecords
from tests.unit.fakes import (
    KEYRING,
    LEASE,
    NOW,
    FakeDatabase,
    FakeSender,
    make_endpoint,
    make_event,
    quiet,
    seqs_of,
    until,
)
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.attempt import KEY_WAIT, RETRY_WAIT, Attempter, Hold
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.recorder import MAX_BEHIND, Recorder
from webhook_dispatcher.dispatch.retries import MAX_START_DELAY, Retrier, RetryLimits
from webhook_dispatcher.domain.claim import ClaimedRetry
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.verdict import Answer
from webhook_dispatcher.telemetry.metrics import Metrics

MICROSECOND = timedelta(microseconds=1)
HOLD = timedelta(days=1)


class Office:
    """A retrier and everything around it."""

    def __init__(self, most: int = 10) -> None:
        self.database = FakeDatabase()
        self.clock = self.database.clock
        self.claims, self.records, self.sender = (
            FakeClaims(self.database),
            FakeRecords(self.database),
            FakeSender(),
        )
        self.stop = Stop()
        instruments = self.instruments = Instruments.of(self.clock, Metrics("test"))
        self.memory, self.database_clock = instruments.memory, instruments.database_clock
        self.own_faults, self.merchants = instruments.own_faults, instruments.merchants
        self.recorder = Recorder(self.records, instruments, LEASE, 15.0, lambda: None)
        attempter = self.attempter = Attempter(self.sender, KEYRING, Schedule(), instruments)
        limits = RetryLimits(most, 2, LEASE, 15.0, Hold(HOLD))
        self.retrier = Retrier(
            self.claims,
            self.recorder,
            attempter,
            instruments,
            limits,
            self.stop,
        )
        self.database.configure("m")

    def owe(self, *seqs: int, **changes: Any) -> None:
        """Make rows due."""
        for seq in seqs:
            event = make_event(seq, attempts=1, **changes)
            self.claims.retries.append(ClaimedRetry(event, 100 + seq, None))

    def owe_of(self, merchants: Sequence[str], first: int) -> None:
        """Make one row of each merchant due."""
        for seq, merchant_id in enumerate(merchants, first):
            self.owe(seq, merchant_id=merchant_id)

    async def round(self) -> int:
        """Claim once, let all attempts end, and write what came of them."""
        async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
            claimed = await self.retrier.step(group)
        await self.recorder.step()
        return claimed

    def the_only_record(self) -> Record:
        [record] = self.records.written
        return record

    def assert_handed_back(self, wait: timedelta = timedelta()) -> None:
        """Check that the one row was given back unsent."""
        record = self.the_only_record()
        assert self.sender.sent == []
        assert (record.attempt, record.state, record.attempts) == (None, None, 1)
        assert record.due_at is not None
        assert abs(record.due_at - self.clock.now - wait) <= MICROSECOND
        assert self.memory.used == 0


async def test_due_rows_are_attempted_and_recorded_under_their_claims() -> None:
    office = Office()
    office.sender.answers.append(Answer(500))
    office.owe(1, 2)
    assert await office.round() == 2
    assert sorted(office.sender.event_ids) == [1, 2]
    assert {record.event.seq: record.fence for record in office.records.written} == {1: 101, 2: 102}
    assert all(record.is_retry and record.attempts == 2 for record in office.records.written)
    assert office.memory.used == 0


async def test_retries_of_one_merchant_do_not_wait_for_each_other() -> None:
    office = Office()
    office.sender.gate = asyncio.Event()
    office.owe(1, 2)
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        await office.retrier.step(group)
        await until(lambda: len(office.sender.sent) == 2)
        office.sender.gate.set()


async def test_no_more_is_claimed_than_there_is_room_for() -> None:
    office = Office(most=4)
    office.sender.gate = asyncio.Event()
    office.owe(1, 2, 3, 4, 5)
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        # Nobody knows them: half of the places at most at once, for they might all hang.
        assert await office.retrier.step(group) == 2
        assert await office.retrier.step(group) == 2
        assert await office.retrier.step(group) == 0
        office.sender.gate.set()
        await until(lambda: office.recorder.unwritten == 4)
        await quiet()
        assert await office.retrier.step(group) == 1


def pause(office: Office) -> None:
    office.instruments.pause.set(True)


def fill(office: Office) -> None:
    office.memory.reserve(make_event(99, object=b"x" * 200_000_000))


def fall_behind(office: Office) -> None:
    office.recorder.add(Record(make_event(99), 1, True, None, None, None, NOW, NOW), None)
    office.clock.advance(MAX_BEHIND * 2)


@pytest.mark.parametrize("hinder", [pause, fill, fall_behind])
async def test_nothing_is_claimed_while_nothing_may_be_sent(hinder: Callable[[Office], None]) -> None:
    office = Office()
    office.owe(1)
    hinder(office)
    async with asyncio.TaskGroup() as group:
        assert await office.retrier.step(group) == 0
    assert len(office.claims.retries) == 1


def stop(office: Office) -> None:
    office.stop.set()


def expire(office: Office) -> None:
    office.clock.advance(15.0)


@pytest.mark.parametrize("hinder", [stop, expire, pause])
async def test_a_row_that_may_not_be_sent_any_more_is_handed_back(hinder: Callable[[Office], None]) -> None:
    office = Office()
    office.owe(1)
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        await office.retrier.step(group)
        hinder(office)
    await office.recorder.step()
    office.assert_handed_back()


@pytest.mark.parametrize("seconds", [MAX_START_DELAY * 1.1, 15.0])
async def test_a_row_that_waited_long_for_the_recorder_is_handed_back(seconds: float) -> None:
    office = Office()
    office.owe(1)
    async with asyncio.timeout(MAX_WAIT), asyncio.TaskGroup() as group:
        await office.retrier.step(group)
        unwritten = Record(make_event(99), 1, True, None, None, None, NOW, NOW)
        office.memory.reserve(unwritten.event)
        office.recorder.add(unwritten, None)
        office.clock.advance(MAX_BEHIND * 2)
        await quiet()
        assert office.sender.sent == []
        office.clock.advance(seconds)
        await office.recorder.step()
    await office.recorder.step()
    office.assert_handed_back()


async def test_a_row_whose_secret_cannot_be_opened_waits() -> None:
    office = Office()
    office.database.endpoints["m"] = make_endpoint(key_id="gone")
    office.owe(1)
    await office.round()
    office.assert_handed_back(KEY_WAIT)


async def test_a_row_without_endpoint_waits_for_one() -> None:
    office = Office()
    office.database.endpoints.clear()
    office.owe(1)
    await office.round()
    office.assert_handed_back(RETRY_WAIT)


async def test_a_row_without_endpoint_waits_no_longer_than_the_hold() -> None:
    office = Office()
    office.database.endpoints.clear()
    office.owe(1, created_at=NOW - HOLD + timedelta(seconds=1))
    await office.round()
    office.assert_handed_back(timedelta(seconds=1))


async def test_a_repetition_without_endpoint_stays_delivered() -> None:
    office = Office()
    office.database.endpoints.clear()
    office.owe(1, created_at=NOW - HOLD, on_failure=State.DELIVERED)
    await office.round()
    record = office.the_only_record()
    assert (record.state, record.reason, record.attempt) == (State.DELIVERED, None, None)


async def test_a_row_without_endpoint_fails_after_the_hold() -> None:
    office = Office()
    office.database.endpoints.clear()
    office.owe(1, created_at=NOW - HOLD)
    await office.round()
    record = office.the_only_record()
    assert (record.state, record.reason) == (State.FAILED, FailedReason.NOT_CONFIGURED)
    assert (record.attempt, record.attempts) == (None, 1)


async def test_a_row_whose_endpoint_was_removed_fails_at_once() -> None:
    office = Office()
    office.database.endpoints.clear()
    office.claims.retries = [ClaimedRetry(make_event(1, attempts=1), 101, NOW)]
    await office.round()
    assert office.the_only_record().reason is FailedReason.NOT_CONFIGURED


async def test_rows_are_handed_back_when_their_endpoints_cannot_be_read() -> None:
    office = Office()
    office.owe(1, 2)
    office.database.faults["read_endpoints"].append(StorageUnavailable("down"))
    async with asyncio.TaskGroup() as group:
        with pytest.raises(StorageUnavailable):
            await office.retrier.step(group)
    await office.recorder.step()
    assert seqs_of(office.records.written) == [1, 2]
    assert office.sender.sent == []
    assert office.memory.used == 0


async def test_run_goes_on_after_a_failed_claim_and_waits_for_what_is_in_flight() -> None:
    office = Office()
    office.sender.gate = asyncio.Event()
    office.database.faults["claim_retries"].append(StorageUnavailable("down"))
    office.owe(1)
    running = asyncio.create_task(office.retrier.run())
    async with asyncio.timeout(MAX_WAIT):
        while not office.sender.sent:
            await asyncio.wait([running], timeout=0.005)
        office.stop.set()
        await quiet()
        assert not running.done()
        office.sender.gate.set()
        await running
    assert office.recorder.unwritten == 1


async def test_those_due_with_a_damaged_row_are_attempted_in_the_next_round() -> None:
    office = Office()
    office.owe(1, 2, 3)
    office.database.damaged = {2}
    assert [await office.round() for _ in range(3)] == [0, 2, 0]
    assert sorted(office.sender.event_ids) == [1, 3]


async def test_a_claim_that_is_refused_for_want_of_rights_finishes_nothing() -> None:
    office = Office()
    office.owe(1)
    office.database.faults["claim_retries"].append(StatementRefused("42501", "permission denied"))
    with pytest.raises(ExceptionGroup):
        await office.round()
    assert len(office.claims.retries) == 1


async def test_retries_whose_endpoint_cannot_be_read_are_handed_back() -> None:
    office = Office()
    office.owe(1)
    office.database.unreadable_endpoints = {"m"}
    await office.round()
    office.assert_handed_back(KEY_WAIT)
