"""One attempt: what is sent, what is recorded, what is told."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tests.unit.builders import KEYRING, NOW, SECRET, make_endpoint, make_event
from tests.unit.fakes.clock import FakeClock
from tests.unit.fakes.network import FakeSender
from tests.unit.loop_turns import until
from webhook_dispatcher.dispatch import attempt as attempting
from webhook_dispatcher.dispatch.attempt import KEY_REPORT_TIME, Attempter
from webhook_dispatcher.dispatch.health.lanes import Health
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.domain.errors import UnknownKey, UnopenedSecret
from webhook_dispatcher.domain.event import SAMPLES, TEST_EVENT_TYPE, Event, FailedReason, State, Trigger
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.signing import Secret, signature, standard_headers
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome, may_always
from webhook_dispatcher.telemetry.metrics import Metrics

FAILURE = Failure(Outcome.TLS, "certificate expired")
MICROSECOND = timedelta(microseconds=1)


class AttempterHarness:
    """An attempter, its clock and its network."""

    def __init__(self, *answers: Answer | Failure) -> None:
        self.clock = FakeClock()
        self.sender = FakeSender(*answers)
        self.sender.on_post = lambda: self.clock.advance(1.5)
        self.metrics = Metrics("test")
        instruments = Instruments.of(self.clock, self.metrics)
        self.health = instruments.health
        self.database_clock = instruments.database_clock
        self.attempter = Attempter(self.sender, KEYRING, Schedule(), instruments)

    async def attempt(self, event: Event, is_retry: bool = False) -> Record:
        record = await self.attempter.attempt(event, 9, is_retry, make_endpoint(), (SECRET,), may_always)
        assert record is not None
        return record


@pytest.mark.parametrize("result", [Answer(200, is_costly=True), replace(FAILURE, is_costly=True)])
async def test_a_costly_attempt_makes_its_merchant_slow(result: Answer | Failure) -> None:
    harness = AttempterHarness(result)
    harness.sender.on_post = lambda: None
    await harness.attempt(make_event(5))
    assert harness.health.of(make_event(5).merchant_id) is Health.SLOW


@pytest.fixture
def harness() -> AttempterHarness:
    return AttempterHarness()


async def test_the_request_is_the_contracts(harness: AttempterHarness) -> None:
    event = make_event(5, type="charge.failed")
    harness.clock.advance(0.9)
    stamp = int(harness.clock.unix())
    await harness.attempt(event)
    [(url, headers, body)] = harness.sender.sent
    assert (url, body) == ("https://m.example/", event.body())
    assert headers == {
        "Content-Type": "application/json; charset=utf-8",
        "Service-Event-Id": str(event.id),
        "Service-Event-Type": "charge.failed",
        "Service-Signature": signature(body, (SECRET,), stamp),
    }


async def test_nothing_is_signed_by_a_clock_that_was_just_set_wrong(harness: AttempterHarness) -> None:
    harness.database_clock.synchronise(harness.clock.now, harness.clock.elapsed())
    harness.clock.wall += 3600
    attempt = harness.attempter.attempt(make_event(5), 9, False, make_endpoint(), (SECRET,), may_always)
    assert await attempt is None
    assert harness.sender.sent == []
    harness.clock.wall -= 3600
    await harness.attempt(make_event(5))


async def test_what_might_not_be_sent_any_more_does_not_count_and_is_no_fault() -> None:
    harness = AttempterHarness()
    attempt = harness.attempter.attempt(make_event(5), 9, False, make_endpoint(), (SECRET,), lambda: False)
    assert await attempt is None
    assert harness.sender.sent == []
    assert not harness.attempter._own_faults.circuit_is_open
    await harness.attempt(make_event(5))


async def test_the_attempt_is_recorded_in_the_databases_time(harness: AttempterHarness) -> None:
    harness.database_clock.synchronise(NOW + timedelta(seconds=20), harness.clock.elapsed())
    record = await harness.attempt(make_event(5, attempts=2), is_retry=True)
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
    record = await AttempterHarness(seen).attempt(make_event(5, attempts=attempts, on_failure=on_failure))
    assert (record.state, record.reason, record.due_at is None) == (state, reason, state is not None)
    assert record.attempt is not None
    assert record.attempt.outcome is seen.outcome


@pytest.mark.parametrize(
    ("seen", "texts"),
    [
        (Answer(204), (None, None)),
        (Answer(200, excerpt="ok"), (None, None)),
        (Answer(503), ("503 Service Unavailable", None)),
        (Answer(503, excerpt="out of order"), ("503 Service Unavailable", "out of order")),
        (FAILURE, ("certificate expired", None)),
    ],
)
async def test_a_failed_attempt_says_why_and_a_delivered_one_nothing(
    seen: Answer | Failure, texts: tuple[str | None, str | None]
) -> None:
    with capture_logs() as logs:
        attempt = (await AttempterHarness(seen).attempt(make_event(5, on_failure=State.DELIVERED))).attempt
    assert attempt is not None
    assert (attempt.reason, attempt.response_excerpt) == texts
    assert [line.get("detail") for line in logs] == [texts[0]], "and the log never has the answer's body"
    assert "out of order" not in str(logs)


async def test_what_cannot_be_sent_is_not_sent_and_says_why(harness: AttempterHarness) -> None:
    record = await harness.attempt(make_event(5, object=b"[]"))
    assert (harness.sender.sent, record.state, record.reason) == ([], State.FAILED, FailedReason.UNSENDABLE)
    assert record.attempt is not None
    assert record.attempt.reason == "its object is not a JSON object of at most 256 KiB"
    assert harness.metrics.registry.get_sample_value("webhook_delivery_lag_seconds_count") == 0


@pytest.mark.parametrize(("attempts", "minutes"), [(0, 1), (1, 5)])
async def test_the_attempt_ends_before_its_body_and_the_delay_begins(attempts: int, minutes: int) -> None:
    harness = AttempterHarness(Answer(503, excerpt="out of order", lingered=0.5))
    record = await harness.attempt(make_event(5, attempts=attempts))
    attempt = record.attempt
    assert attempt is not None
    assert attempt.duration_ms == 1000
    assert record.at == attempt.finished_at == attempt.started_at + timedelta(seconds=1)
    assert record.due_at == attempt.finished_at + timedelta(minutes=minutes)


async def test_attempts_in_flight_are_counted_even_when_cut_off(harness: AttempterHarness) -> None:
    harness.sender.gate = asyncio.Event()
    task = asyncio.create_task(harness.attempt(make_event(5)))
    await until(lambda: harness.sender.sent)
    assert harness.attempter.in_flight == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert harness.attempter.in_flight == 0


async def test_one_line_tells_all_and_nothing_that_is_secret() -> None:
    harness = AttempterHarness(FAILURE)
    with capture_logs() as logs:
        sample = SAMPLES["charge.failed"]
        await harness.attempt(make_event(5, type=TEST_EVENT_TYPE, object=sample, trigger=Trigger.MANUAL))
    [line] = [dict(entry) for entry in logs]
    assert line["event"] == "delivery.attempted"
    assert {
        key: line[key] for key in ("seq", "type", "attempt", "outcome", "state", "detail", "trigger")
    } == {
        "seq": 5,
        "type": "charge.failed",
        "attempt": 1,
        "outcome": "tls",
        "state": "pending_retry",
        "detail": "certificate expired",
        "trigger": "manual",
    }
    assert "ch_test" not in str(line)
    assert "v1=" not in str(line)


async def test_failures_are_warnings_and_successes_are_not() -> None:
    harness = AttempterHarness(Answer(200), Answer(500), FAILURE)
    with capture_logs() as logs:
        for seq in range(3):
            await harness.attempt(make_event(seq))
    assert [line["log_level"] for line in logs] == ["info", "warning", "warning"]


async def test_attempts_are_counted() -> None:
    harness = AttempterHarness(Answer(200), FAILURE)
    await harness.attempt(make_event(5))
    await harness.attempt(make_event(6, attempts=1))
    sample = harness.metrics.registry.get_sample_value
    assert sample("webhook_attempts_total", {"outcome": "delivered", "trigger": "schedule"}) == 1
    assert sample("webhook_attempts_total", {"outcome": "tls", "trigger": "schedule"}) == 1
    assert sample("webhook_delivery_lag_seconds_count") == 1


def test_secrets_are_opened_newest_first_or_the_key_is_named() -> None:
    attempter = AttempterHarness().attempter
    assert [secret.revealed for secret in attempter.open_secrets(make_endpoint())] == [SECRET.revealed]
    with pytest.raises(UnknownKey):
        attempter.open_secrets(make_endpoint(key_id="gone"))


def test_merchants_whose_secret_does_not_open_are_counted_and_named_once(harness: AttempterHarness) -> None:
    attempter = harness.attempter
    moved = replace(make_endpoint("a"), lane="b")
    with capture_logs() as logs:
        for _ in range(2):
            with pytest.raises(UnopenedSecret) as caught:
                attempter.open_secrets(moved)
            attempter.note_unopened("b", caught.value)
    assert [(line["event"], line["merchant_id"]) for line in logs] == [("secret.unopened", "b")]
    assert attempter.missing_keys == {}
    attempter.show_unopened()
    assert harness.metrics.registry.get_sample_value("webhook_unopened_secrets") == 1
    harness.clock.advance(KEY_REPORT_TIME)
    attempter.show_unopened()
    assert harness.metrics.registry.get_sample_value("webhook_unopened_secrets") == 0


async def test_attempts_do_not_start_before_one_that_ended_earlier(harness: AttempterHarness) -> None:
    """The estimate of the database's clock was half a second ahead at first, and is put right meanwhile."""
    harness.database_clock.synchronise(harness.clock.now + timedelta(seconds=0.5), harness.clock.elapsed())

    harness.sender.on_post = lambda: harness.clock.advance(0.01)
    times = []
    for seq in (5, 6):
        attempt = (await harness.attempt(make_event(seq))).attempt
        assert attempt is not None
        assert attempt.duration_ms == 10
        times += [attempt.started_at, attempt.finished_at]
        harness.database_clock.synchronise(harness.clock.now, harness.clock.elapsed())
    assert times == sorted(times)


async def test_an_attempt_ends_as_long_after_its_start_as_it_took(harness: AttempterHarness) -> None:
    """Though the database's clock was set back meanwhile, and its estimate stands until it has caught up."""
    harness.database_clock.synchronise(harness.clock.now, harness.clock.elapsed())

    def while_it_is_set_back() -> None:
        harness.database_clock.synchronise(harness.clock.now - timedelta(seconds=9), harness.clock.elapsed())
        harness.clock.advance(6)

    harness.sender.on_post = while_it_is_set_back
    attempt = (await harness.attempt(make_event(5))).attempt
    assert attempt is not None
    assert (attempt.duration_ms, attempt.finished_at - attempt.started_at) == (6000, timedelta(seconds=6))


async def test_the_names_that_were_set_last_are_heeded_and_logged_once(harness: AttempterHarness) -> None:
    acme, event = Names("Acme-", "Acme/2", ("service", "standard")), make_event(5)
    with capture_logs() as logs:
        for _ in range(2):
            harness.attempter.use_names(acme)
    assert [line["event"] for line in logs] == ["names.changed"]
    secrets, stamp = (Secret.from_random(bytes(range(32))), SECRET), int(harness.clock.unix())
    await harness.attempter.attempt(event, 9, False, make_endpoint(), secrets, may_always)
    [(_, headers, body)] = harness.sender.sent
    assert headers == {
        "Content-Type": "application/json; charset=utf-8",
        "Acme-Event-Id": str(event.id),
        "Acme-Event-Type": event.type,
        "Acme-Signature": signature(body, secrets, stamp),
        "User-Agent": "Acme/2",
        **standard_headers(str(event.id), body, secrets, stamp),
    }
    assert "webhook-signature" in headers


async def test_a_standard_signature_that_does_not_verify_is_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = AttempterHarness(Answer(401))
    harness.attempter.use_names(Names(signatures=("service", "standard")))
    wrong = {"webhook-id": "i", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
    monkeypatch.setattr(attempting, "standard_headers", lambda *_: wrong)
    secret = (Secret.from_random(bytes(range(32))),)
    assert (
        await harness.attempter.attempt(make_event(5), 9, False, make_endpoint(), secret, may_always) is None
    )
    assert harness.attempter._own_faults.signer_is_broken


async def test_a_copy_is_sent_as_its_event_and_told_as_the_delivery_it_is(harness: AttempterHarness) -> None:
    harness.attempter.use_names(Names(signatures=("service", "standard")))
    event_id, copy = UUID(int=1), make_event(5, lane_named("m", 2), copy_of=UUID(int=1))
    secrets, stamp = (Secret.from_random(bytes(range(32))),), int(harness.clock.unix())
    with capture_logs() as logs:
        record = await harness.attempter.attempt(copy, 9, False, make_endpoint(), secrets, may_always)
    [(_, headers, body)] = harness.sender.sent
    assert headers["Service-Event-Id"] == str(event_id)
    assert headers.items() >= standard_headers(str(event_id), body, secrets, stamp).items()
    assert json.loads(body)["id"] == str(event_id)
    assert record is not None
    assert record.event is copy
    [line] = logs
    assert (line["merchant_id"], line["endpoint"], line["event_id"]) == ("m", 2, str(copy.id))
