"""A delivery's story: every moment that is known, in order, and what is to come at its end."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW
from tests.unit.delivery_facts import AROUND, EVENT, facts, surroundings
from webhook_dispatcher.diagnosis.timeline import Kind, Moment, build
from webhook_dispatcher.diagnosis.vocabulary import say
from webhook_dispatcher.domain.command import CommandFacts
from webhook_dispatcher.domain.delivery import (
    MAX_AHEAD,
    AttemptView,
    DeliveryFacts,
    EventFacts,
    Neighbour,
    Surroundings,
)
from webhook_dispatcher.domain.endpoint import EndpointChange
from webhook_dispatcher.domain.language import LANGUAGES, Language

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
WRITTEN = NOW - 10 * MINUTE
DELIVERY = DeliveryFacts(
    EVENT, 7, "m1", "charge.created", WRITTEN, "pending", None, 0, None, None, None, None, "ch_1", None,
    False, "schedule", None,
)  # fmt: skip
TIMEOUT = AttemptView(1, "schedule", WRITTEN + 2 * MINUTE, 10_000, None, "timeout", None, None)
REFUSED = AttemptView(2, "manual", WRITTEN + 4 * MINUTE, 200, 503, "status", "503 Service Unavailable", None)
ACCEPTED = AttemptView(3, "schedule", WRITTEN + 6 * MINUTE, 90, 204, "delivered", None, None)
RETRY = CommandFacts(31, "retry", "anna", "done", WRITTEN + 4 * MINUTE - SECOND, WRITTEN + 4 * MINUTE)
RETRIED = replace(
    DELIVERY, state="pending_retry", attempts=2, last_outcome="status", last_status=503, due_at=NOW + MINUTE
)
DELIVERED = replace(DELIVERY, state="delivered", attempts=3, finished_at=ACCEPTED.ended_at)


def known(delivery: DeliveryFacts, *attempts: AttemptView, **around: object) -> EventFacts:
    now = replace(AROUND, **around)  # type: ignore[arg-type]
    return EventFacts(delivery, attempts, [], now, None, None, None, [])


def story(moments: tuple[Moment, ...], language: Language = "en") -> list[tuple[str, str]]:
    return [(str(moment.kind), say(moment.said, language, UTC)) for moment in moments]


def test_a_whole_story_in_order() -> None:
    before = Neighbour(EVENT, 6, WRITTEN, TIMEOUT.started_at)
    given = replace(known(DELIVERED, TIMEOUT, REFUSED, ACCEPTED), commands=[RETRY], predecessor=before)
    change = EndpointChange(1, WRITTEN + 5 * MINUTE, "webhook_admin", "bruno", "url changed", None, "", "")
    around = Surroundings([], [change])
    assert story(build(given, around)) == [
        ("written", "The charge service wrote it."),
        (
            "waited",
            f"It waited 2 min for its first attempt, behind seq 6 (event {EVENT}), whose first attempt "
            "ended at 2026-11-20 08:07:30.",
        ),
        ("attempt_failed", "Attempt 1 failed after 10 s: no answer in time."),
        ("asked", "anna asked for a retry (command 31, done)."),
        ("attempt_failed", "Attempt 2 (by hand) failed after 0.2 s: status 503 (503 Service Unavailable)."),
        ("changed", "bruno: URL changed."),
        ("delivered", "Attempt 3 delivered it in 0.1 s: status 204."),
    ]


@pytest.mark.parametrize(
    ("change", "at", "words"),
    [
        ({}, NOW + MINUTE, "Attempt 3 is due, in 1 min."),
        ({"due_at": NOW - SECOND}, NOW, "Attempt 3 has been due for 1 s."),
        ({"trigger": "manual", "due_at": NOW}, NOW, "Attempt 3, asked for by hand, has been due for 0 s."),
        ({"is_claimed": True}, NOW, "Attempt 3 is in flight, or about to begin"),
        ({"is_claimed": True, "due_at": NOW - SECOND}, NOW, "a dispatcher that did not report until"),
        ({"state": "delivered", "on_failure": "delivered"}, NOW + MINUTE, "Attempt 3 is due"),
    ],
)
def test_what_comes_next_stands_last(change: dict[str, object], at: datetime, words: str) -> None:
    *_, last = build(known(replace(RETRIED, **change), TIMEOUT, REFUSED))  # type: ignore[arg-type]
    assert (last.kind, last.at) == (Kind.AHEAD, at)
    assert words in say(last.said, "en", UTC)


@pytest.mark.parametrize(
    ("around", "words"),
    [
        ({}, "Its first attempt is next in line."),
        ({"is_held": True}, "Its first attempt is in flight, or about to begin."),
        ({"ahead": 1, "is_held": True}, "Its first attempt follows 1 earlier event of the merchant."),
        ({"ahead": 12}, "Its first attempt follows 12 earlier events of the merchant."),
        ({"ahead": MAX_AHEAD}, "Its first attempt follows 10,000 or more earlier events of the merchant."),
    ],
)
def test_what_a_first_attempt_waits_for(around: dict[str, object], words: str) -> None:
    assert story(build(known(DELIVERY, **around)))[-1] == ("ahead", words)


def test_what_was_attempted_at_once_was_not_waited_for() -> None:
    prompt = replace(TIMEOUT, started_at=WRITTEN + SECOND / 2)
    assert "waited" not in dict(story(build(known(RETRIED, prompt, REFUSED))))
    late = dict(story(build(known(RETRIED, TIMEOUT, REFUSED))))
    assert late["waited"] == "It waited 2 min for its first attempt."


def test_a_late_commit_is_told_where_the_later_event_was_attempted() -> None:
    given = replace(known(RETRIED), overtaken_by=Neighbour(EVENT, 9, WRITTEN + SECOND, NOW))
    told = next(moment for moment in build(given) if moment.at == WRITTEN + SECOND)
    assert say(told.said, "en", UTC).startswith("Seq 9 (event ")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("cancelled", "It failed: it was cancelled by anna (command 32), after 1 attempt."),
        ("exhausted", "It failed: its one attempt failed with timeout."),
    ],
)
def test_a_failed_delivery_says_why_at_its_end(reason: str, words: str) -> None:
    failed = replace(
        DELIVERY, state="failed", failed_reason=reason, attempts=1, last_outcome="timeout", finished_at=NOW
    )
    cancel = replace(RETRY, id=32, command="cancel", created_at=NOW - SECOND)
    told = build(replace(known(failed, TIMEOUT), commands=[cancel]))
    assert story(told)[-1] == ("failed", words)
    assert told[-1].at == NOW


def test_what_the_log_has_dropped_is_said_to_be_missing() -> None:
    told = story(build(known(DELIVERED)))
    assert told[1:] == [
        ("missing", "3 attempts of it are no longer in the log."),
        ("delivered", "It was delivered."),
    ]


@given(facts, surroundings, st.sampled_from(LANGUAGES))
def test_every_story_is_in_order_and_said_in_every_language(
    given: EventFacts, around: Surroundings, language: Language
) -> None:
    told = build(given, around)
    past = [moment.at for moment in told if moment.kind is not Kind.AHEAD]
    assert past == sorted(past)
    assert [moment.kind for moment in told].count(Kind.AHEAD) <= 1
    assert all(moment.kind is not Kind.AHEAD for moment in told[:-1])
    assert all(say(moment.said, language, UTC) for moment in told)
    concerned = [*given.attempts, *given.commands, *around.commands, *around.changes]
    assert len(told) >= 1 + len(concerned)
