"""One attempt: what is sent, what is recorded, what is told."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from tests.unit.fakes import KEYRING, NOW, SECRET, FakeClock, FakeSender, make_endpoint, make_event, until
from webhook_dispatcher.dispatch.attempt import Attempter
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.domain.errors import UnknownKey
from webhook_dispatcher.domain.event import Event, FailedReason, State, Trigger
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.signing import signature
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.telemetry.metrics import Metrics

FAILURE = Failure(Outcome.TLS, "certificate expired")
MICROSECOND = timedelta(microseconds=1)


class Office:
    """An attempter, its clock and its network."""

    def __init__(self, *answers: Answer | Failure) -> None:
        self.clock = FakeClock()
        self.sender = FakeSender(*answers)
        self.sender.on_post = lambda: self.clock.advance(1.5)
        self.metrics = Metrics("test")
        instruments = Instruments.of(self.clock, self.metrics)
        self.database_clock = instruments.database_clock
        self.attempter = Attempter(self.sender, KEYRING, Schedule(), instruments)

    async def attempt(self, event: Event, is_retry: bool = False) -> Record:
        record = await self.attempter.attempt(event, 9, is_retry, make_endpoint(), (SECRET,))
        assert record is not None
        return record


async def test_the_request_is_the_contracts() -> None:
    office = Office()
    event = make_event(5, type="charge.failed")
    office.clock.advance(0.9)
    stamp = int(office.clock.unix())
    await office.attempt(event)
    [(url, headers, body)] = office.sender.sent
    assert (url, body) == ("https://m.example/", event.body())
    assert headers == {
        "Content-Type": "application/json",
        "Service-Event-Id": str(event.id),
        "Service-Event-Type": "charge.failed",
        "Service-Signature": signature(body, (SECRET,), stamp),
    }


async def test_nothing_is_signed_by_a_clock_that_was_just_set_wrong() -> None:
    office = Office()
    office.database_clock.synchronise(office.clock.now, office.clock.elapsed())
    office.clock.wall += 3600
    assert await office.attempter.attempt(make_event(5), 9, False, make_endpoint(), (SECRET,)) is None
    assert office.sender.sent == []
    office.clock.wall -= 3600
    await office.attempt(make_event(5))


async def test_every_attempt_is_signed_anew_over_the_same_body() -> None:
    office = Office()
    await office.attempt(make_event(5))
    office.clock.advance(60)
    await office.attempt(make_event(5, attempts=1))
    (_, first, body), (_, second, same_body) = office.sender.sent
    assert body == same_body
    assert first["Service-Signature"] != second["Service-Signature"]


async def test_the_attempt_is_recorded_in_the_databases_time() -> None:
    office = Office()
    office.database_clock.synchronise(NOW + timedelta(seconds=20), office.clock.elapsed())
    record = await office.attempt(make_event(5, attempts=2), is_retry=True)
    attempt = record.attempt
    assert attempt is not None
    assert (attempt.number, attempt.duration_ms, attempt.status) == (3, 1500, 200)
    assert abs(attempt.started_at - NOW - timedelta(seconds=20)) <= MICROSECOND
    assert attempt.finished_at - attempt.started_at == timedelta(seconds=1.5)
    assert record.at == attempt.finished_at
    assert (record.fence, record.is_retry, record.attempts) == (9, True, 3)


@pytest.mark.parametrize(
    ("seen", "attempts", "on_failure", "state", "reason"),
    [
        (Answer(204), 0, None, State.DELIVERED, None),
        (Answer(500), 7, None, State.FAILED, FailedReason.EXHAUSTED),
        (FAILURE, 1, State.FAILED, State.FAILED, FailedReason.EXHAUSTED),
        (FAILURE, 1, State.DELIVERED, State.DELIVERED, None),
        (FAILURE, 0, None, None, None),
    ],
)
async def test_the_verdict_becomes_the_record(
    seen: Answer | Failure,
    attempts: int,
    on_failure: State | None,
    state: State | None,
    reason: FailedReason | None,
) -> None:
    record = await Office(seen).attempt(make_event(5, attempts=attempts, on_failure=on_failure))
    assert (record.state, record.reason) == (state, reason)
    assert (record.due_at is None) == (state is not None)
    assert record.attempt is not None
    assert record.attempt.outcome is seen.outcome


async def test_the_delay_counts_from_the_end_of_the_attempt() -> None:
    record = await Office(Answer(503)).attempt(make_event(5, attempts=1))
    assert record.attempt is not None
    assert record.due_at == record.attempt.finished_at + timedelta(minutes=5)


async def test_what_cannot_be_sent_is_not_sent() -> None:
    office = Office()
    record = await office.attempt(make_event(5, object=b"[]"))
    assert office.sender.sent == []
    assert (record.state, record.reason) == (State.FAILED, FailedReason.UNSENDABLE)


async def test_what_is_not_sent_has_no_lag() -> None:
    office = Office()
    await office.attempt(make_event(5, created_at=datetime.min.replace(tzinfo=UTC)))
    assert office.sender.sent == []
    assert office.metrics.registry.get_sample_value("webhook_delivery_lag_seconds_count") == 0


async def test_attempts_in_flight_are_counted_even_when_cut_off() -> None:
    office = Office()
    office.sender.gate = asyncio.Event()
    task = asyncio.create_task(office.attempt(make_event(5)))
    await until(lambda: office.sender.sent)
    assert office.attempter.in_flight == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert office.attempter.in_flight == 0


async def test_one_line_tells_all_and_nothing_that_is_secret() -> None:
    office = Office(FAILURE)
    with capture_logs() as logs:
        await office.attempt(make_event(5, trigger=Trigger.MANUAL))
    [line] = [dict(entry) for entry in logs]
    assert line["event"] == "delivery.attempted"
    assert {key: line[key] for key in ("seq", "attempt", "outcome", "state", "detail", "trigger")} == {
        "seq": 5,
        "attempt": 1,
        "outcome": "tls",
        "state": "pending_retry",
        "detail": "certificate expired",
        "trigger": "manual",
    }
    assert "ch_5" not in str(line)
    assert "v1=" not in str(line)


async def test_attempts_are_counted() -> None:
    office = Office(Answer(200), FAILURE)
    await office.attempt(make_event(5))
    await office.attempt(make_event(6, attempts=1))
    sample = office.metrics.registry.get_sample_value
    assert sample("webhook_attempts_total", {"outcome": "delivered", "trigger": "schedule"}) == 1
    assert sample("webhook_attempts_total", {"outcome": "tls", "trigger": "schedule"}) == 1
    assert sample("webhook_delivery_lag_seconds_count") == 1


def test_secrets_are_opened_newest_first_or_the_key_is_named() -> None:
    attempter = Office().attempter
    assert [secret.revealed for secret in attempter.open_secrets(make_endpoint())] == [SECRET.revealed]
    with pytest.raises(UnknownKey):
        attempter.open_secrets(make_endpoint(key_id="gone"))


async def test_attempts_do_not_start_before_one_that_ended_earlier() -> None:
    """The estimate of the database's clock was half a second ahead at first, and is put right meanwhile."""
    office = Office()
    office.database_clock.synchronise(office.clock.now + timedelta(seconds=0.5), office.clock.elapsed())

    office.sender.on_post = lambda: office.clock.advance(0.01)
    times = []
    for seq in (5, 6):
        attempt = (await office.attempt(make_event(seq))).attempt
        assert attempt is not None
        assert attempt.duration_ms == 10
        times += [attempt.started_at, attempt.finished_at]
        office.database_clock.synchronise(office.clock.now, office.clock.elapsed())
    assert times == sorted(times)


async def test_an_attempt_ends_as_long_after_its_start_as_it_took() -> None:
    """Though the database's clock was set back meanwhile, and its estimate stands until it has caught up."""
    office = Office()
    office.database_clock.synchronise(office.clock.now, office.clock.elapsed())

    def while_it_is_set_back() -> None:
        office.database_clock.synchronise(office.clock.now - timedelta(seconds=9), office.clock.elapsed())
        office.clock.advance(6)

    office.sender.on_post = while_it_is_set_back
    attempt = (await office.attempt(make_event(5))).attempt
    assert attempt is not None
    assert (attempt.duration_ms, attempt.finished_at - attempt.started_at) == (6000, timedelta(seconds=6))
