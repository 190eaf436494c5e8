"""Attempts by hand of what waits for its next one stand beside the schedule. Source: contract 2.4, 2.8, 3."""

from datetime import datetime, timedelta
from typing import cast

import pytest

from tests.integration.storage_harness import LAPSED, LEASE, Daemon, StorageHarness, find_delivery
from tests.unit.builders import KEYRING
from tests.unit.fakes.clock import FakeClock
from webhook_dispatcher.dispatch.attempt import Attempter, reschedule
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.domain.claim import ClaimedRetry
from webhook_dispatcher.domain.command import LONG_AGO, Recover
from webhook_dispatcher.domain.event import FailedReason
from webhook_dispatcher.domain.ports import CommandTransaction, Sender
from webhook_dispatcher.domain.record import Attempt, Record
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.verdict import Answer
from webhook_dispatcher.storage.controls import PostgresControls
from webhook_dispatcher.telemetry.metrics import Metrics

ENDPOINT = (
    "INSERT INTO webhook.endpoint (merchant_id, url, secret, key_id) "
    "VALUES ('m', 'https://x/', '\\x00', 'k1')"
)
HOURS_AWAY = 6 * 3600.0


class Scene:
    """Deliveries that wait for their next attempt, a daemon, and an operator."""

    def __init__(self, storage: StorageHarness, here: Daemon) -> None:
        self.storage, self.here = storage, here
        self._transaction = PostgresControls(here.pool).transaction
        instruments = Instruments.of(FakeClock(), Metrics("test"))
        self._attempter = Attempter(cast(Sender, None), KEYRING, Schedule(), instruments)

    async def waiting(self, attempts: int = 7, seconds: float = HOURS_AWAY) -> int:
        """Have a delivery that was attempted so often, and is due in so many seconds."""
        [seq] = await self.storage.insert_due("m", seconds)
        await self.storage.db.execute("UPDATE webhook.outbox SET attempts = $2 WHERE seq = $1", seq, attempts)
        return seq

    async def retry(self, seq: int) -> bool:
        """Ask for an attempt now, as `retry` does; False where one is due already, or in flight."""
        event_id = await self.storage.db.fetchval("SELECT id FROM webhook.outbox WHERE seq = $1", seq)
        async with self._transaction() as opened:
            is_made_due = await opened.run_now(await find_delivery(opened, event_id))
            await opened.wake_lanes({"m": None})
        return is_made_due

    async def recover(self) -> None:
        """Send again what waits, as `recover` does."""
        async with self._transaction() as opened:
            found = await opened.find_waiting(Recover("m", LONG_AGO, await self.storage.now(), 100), 0, 100)
            made_due = await opened.run_all_now(found)
            await opened.wake_lanes(made_due.heads)

    async def claim(self, lease: timedelta = LEASE) -> ClaimedRetry:
        [retry] = await self.here.claims.claim_longest_due(10, 2, 10, lease)
        return retry

    async def end(self, retry: ClaimedRetry, status: int = 500) -> Record:
        """End an attempt as the daemon does, and record it."""
        event, now, result = retry.event, await self.storage.now(), Answer(status)
        attempt = Attempt(event.attempts + 1, now, now, 0, status, result.outcome)
        record = self._attempter.conclude(event, retry.claim, True, attempt, result)
        assert (await self.here.records.write([record], [], LEASE)).seqs == {event.seq}
        return record

    async def row(self, seq: int, *columns: str) -> tuple[object, ...]:
        row = await self.storage.owed(seq)
        assert row is not None, "it is not owed any more"
        return tuple(row[column] for column in columns)

    async def due_at(self, seq: int) -> datetime:
        [due_at] = await self.row(seq, "due_at")
        return cast(datetime, due_at)


@pytest.fixture
async def scene(storage: StorageHarness) -> Scene:
    await storage.db.execute(ENDPOINT)
    return Scene(storage, await storage.daemon("here"))


@pytest.mark.parametrize("asked_by", ["retry", "recover"])
async def test_the_last_attempt_of_the_schedule_is_not_used_up(scene: Scene, asked_by: str) -> None:
    seq = await scene.waiting(attempts=7)
    due_at = await scene.due_at(seq)
    for made in (8, 9):
        await (scene.retry(seq) if asked_by == "retry" else scene.recover())
        retry = await scene.claim()
        assert retry.event.trigger == "manual"
        await scene.end(retry)
        assert await scene.row(seq, "attempts", "due_at", "trigger") == (made, due_at, "schedule")
    attempts = await scene.storage.attempts(retry.event)
    assert [(row["attempt"], row["trigger"]) for row in attempts] == [(8, "manual"), (9, "manual")]

    await make_due(scene)
    retry = await scene.claim()
    assert (retry.event.trigger, (await scene.end(retry)).reason) == ("schedule", FailedReason.EXHAUSTED)


async def make_due(scene: Scene) -> None:
    """Let the time come that is waited for."""
    await scene.storage.db.execute("UPDATE webhook.outbox SET due_at = clock_timestamp()")
    await scene.storage.db.execute("UPDATE webhook.lane SET retry_at = '-infinity'")


async def test_the_schedule_goes_on_where_it_was(scene: Scene) -> None:
    seq = await scene.waiting(attempts=1)
    for _ in range(3):
        await scene.retry(seq)
        await scene.end(await scene.claim())
    await make_due(scene)
    record = await scene.end(await scene.claim())
    assert record.due_at == record.at + timedelta(minutes=5), "the second of its attempts has failed"
    assert await scene.row(seq, "attempts") == (5,)


async def test_a_2xx_by_hand_ends_the_delivery(scene: Scene) -> None:
    seq = await scene.waiting()
    await scene.retry(seq)
    await scene.end(await scene.claim(), 204)
    logged = await scene.storage.logged(seq)
    assert logged is not None
    assert (logged["state"], logged["attempts"]) == ("delivered", 8)


async def test_one_that_is_lost_with_its_daemon_is_made_by_hand_by_the_next(scene: Scene) -> None:
    seq = await scene.waiting()
    due_at = await scene.due_at(seq)
    await scene.retry(seq)
    lost = await scene.claim(LAPSED)
    assert not await scene.retry(seq), "it is due again: that attempt is it"
    retry = await scene.claim()
    assert retry.claim != lost.claim
    assert (retry.event.trigger, retry.event.scheduled_at) == ("manual", due_at)
    await scene.end(retry)
    assert await scene.row(seq, "attempts", "due_at") == (8, due_at)


async def test_one_that_did_not_count_stays_by_hand(scene: Scene) -> None:
    seq = await scene.waiting()
    due_at = await scene.due_at(seq)
    await scene.retry(seq)
    retry, now = await scene.claim(), await scene.storage.now()
    again_at = now + timedelta(minutes=1)
    await scene.here.records.write([reschedule(retry.event, retry.claim, again_at, now)], [], LEASE)
    assert await scene.row(seq, "attempts", "due_at") == (7, again_at)
    assert await scene.retry(seq)
    retry = await scene.claim()
    assert (retry.event.trigger, retry.event.scheduled_at) == ("manual", due_at)
    await scene.end(retry)
    assert await scene.row(seq, "attempts", "due_at") == (8, due_at)


async def test_what_is_due_already_stays_an_attempt_of_the_schedule(scene: Scene) -> None:
    seq = await scene.waiting(seconds=-1)
    due_at = await scene.due_at(seq)
    assert not await scene.retry(seq)
    assert await scene.row(seq, "due_at", "trigger") == (due_at, "schedule")


async def test_what_had_failed_is_failed_again(scene: Scene) -> None:
    seq = await scene.waiting(attempts=3)
    await scene.retry(seq)
    await scene.end(await scene.claim())
    event_id = await scene.storage.db.fetchval("SELECT id FROM webhook.outbox")
    async with PostgresControls(scene.here.pool).transaction() as opened:
        found = await find_delivery(opened, event_id)
        await opened.cancel([found])
        await reopen(opened, event_id)
    retry = await scene.claim()
    record = await scene.end(retry)
    assert (record.reason, record.attempts) == (FailedReason.EXHAUSTED, 5)


async def reopen(opened: CommandTransaction, event_id: object) -> None:
    await opened.reopen(await find_delivery(opened, event_id))  # type: ignore[arg-type]
    await opened.wake_lanes({"m": None})


async def test_of_a_suspended_merchant_it_is_one_of_the_schedule(scene: Scene) -> None:
    seq = await scene.waiting()
    await scene.retry(seq)
    await scene.storage.db.execute("UPDATE webhook.lane SET suspended_at = clock_timestamp()")
    [retry] = await scene.here.claims.claim_trials(["m"], LEASE, ())
    assert retry.event.trigger == "schedule"
    assert (await scene.end(retry)).reason is FailedReason.EXHAUSTED


async def test_more_attempts_than_can_be_counted_end_the_delivery(scene: Scene) -> None:
    seq = await scene.waiting()
    await scene.storage.db.execute("UPDATE webhook.outbox SET attempts = 32767, attempts_by_hand = 32760")
    await make_due(scene)
    assert (await scene.end(await scene.claim())).reason is FailedReason.EXHAUSTED
    assert await scene.storage.owed(seq) is None
