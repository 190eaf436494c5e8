"""What is said of an installation's health: by its level, and in every language."""

from dataclasses import replace
from datetime import UTC, date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW
from tests.unit.delivery_facts import EVENT, instants, maybe_instants, outcomes, pauses, texts
from webhook_dispatcher.diagnosis.findings import (
    MAX_SHOWN,
    Finding,
    Level,
    of_dispatchers,
    of_status,
)
from webhook_dispatcher.diagnosis.vocabulary import choices, label, say
from webhook_dispatcher.domain.language import LANGUAGES, Language
from webhook_dispatcher.domain.thresholds import SILENT
from webhook_dispatcher.storage.administration import DispatcherFacts, Stranded
from webhook_dispatcher.storage.insight import Commands, Lag, MerchantFacts, Owing, StatusFacts

HOUR = timedelta(hours=1)
WORKS = DispatcherFacts("host/1/a", "1.2.3", NOW - HOUR, NOW - timedelta(seconds=9), True)
QUIET = StatusFacts(
    NOW, False, None, 0, 0, [], 0, 0, 0, None, [], NOW - HOUR, {}, Lag(0, None, None), {},
    Commands(0, 0, None), [], None, [WORKS],
)  # fmt: skip
WAITS = Owing("m1", True, EVENT, 1, NOW - HOUR, None, False, True)

counts = st.sampled_from([0, 1, 2, 5, 21, 100_001])
merchants = st.builds(
    MerchantFacts,
    merchant_id=texts,
    has_endpoint=st.booleans(),
    is_paused=st.booleans(),
    failing_since=maybe_instants,
    failures_in_a_row=counts,
    last_success_at=maybe_instants,
    suspended_at=maybe_instants,
    next_try_at=maybe_instants,
    oldest_waiting_at=maybe_instants,
    waiting=counts,
)
owing = st.builds(
    Owing,
    merchant_id=texts,
    is_in_order=st.booleans(),
    event_id=st.just(EVENT),
    seq=st.integers(1, 9),
    created_at=instants,
    due_at=maybe_instants,
    is_paused=st.booleans(),
    has_endpoint=st.booleans(),
)
dispatchers = st.builds(
    DispatcherFacts,
    owner=texts,
    version=texts,
    started_at=instants,
    beat_at=instants,
    is_ready=st.booleans(),
    reason=st.none() | texts,
    faults=st.lists(texts, max_size=2),
    lanes=counts,
)
status = st.builds(
    StatusFacts,
    now=st.just(NOW),
    everything_is_paused=st.booleans(),
    general_pause=pauses,
    pending=counts,
    pending_retry=counts,
    owing=st.lists(owing, max_size=6),
    paused=counts,
    failing=counts,
    suspended=counts,
    next_try_at=maybe_instants,
    most_failing=st.lists(merchants, max_size=3),
    recent_since=st.just(NOW - HOUR),
    recent=st.dictionaries(outcomes, counts, max_size=3),
    lag=st.just(Lag(0, None, None)) | st.builds(Lag, counts, st.just(0.02), st.just(1.5)),
    holders=st.dictionaries(texts, counts, max_size=7),
    commands=st.builds(Commands, counts, counts, maybe_instants),
    missing_partitions=st.lists(
        st.tuples(st.just("webhook.outbox"), st.just(date(2026, 11, 21))), max_size=4
    ),
    stranded=st.none() | st.builds(Stranded, texts, st.just(EVENT), instants),
    dispatchers=st.lists(dispatchers, max_size=7),
)


def levels(found: tuple[Finding, ...]) -> dict[str, Level]:
    """Return what is not good, by what was looked at."""
    return {finding.subject: finding.level for finding in found if finding.level is not Level.GOOD}


def test_a_quiet_installation_is_good() -> None:
    assert levels(of_status(QUIET)) == {}


@pytest.mark.parametrize(
    ("change", "worse"),
    [
        ({"everything_is_paused": True}, {"everything": Level.NOTE}),
        ({"failing": 1}, {"failing": Level.NOTE}),
        ({"suspended": 1, "next_try_at": NOW}, {"suspended": Level.NOTE}),
        ({"owing": [WAITS]}, {"oldest": Level.NOTE, "behind": Level.NOTE}),
        ({"owing": [replace(WAITS, created_at=NOW)]}, {}),
        ({"owing": [replace(WAITS, is_paused=True, is_in_order=False)]}, {"held": Level.NOTE}),
        ({"owing": [replace(WAITS, has_endpoint=False, is_in_order=False)]}, {"no_endpoint": Level.NOTE}),
        ({"missing_partitions": [("outbox", date(2026, 11, 21))]}, {"partitions": Level.BAD}),
        ({"stranded": Stranded("m1", EVENT, NOW)}, {"dispatchers": Level.BAD}),
        ({"stranded": Stranded("m1", EVENT, NOW), "holders": {"host/1/a": 1}}, {}),
        ({"dispatchers": []}, {"dispatchers": Level.BAD}),
        ({"dispatchers": [], "holders": {"before schema 8": 1}}, {}),
        ({"dispatchers": [replace(WORKS, is_ready=False)]}, {"dispatchers": Level.BAD}),
    ],
)
def test_what_is_worth_a_look_and_what_is_bad(change: dict[str, object], worse: dict[str, Level]) -> None:
    assert levels(of_status(replace(QUIET, **change))) == worse  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        ({}, Level.GOOD, "host/1/a, version 1.2.3, works for 1 h and holds 0 lanes"),
        (
            {"is_ready": False, "reason": "no\x1bkey"},
            Level.BAD,
            "is not ready: no\N{REPLACEMENT CHARACTER}key",
        ),
        ({"faults": ["circuit open", "clock"]}, Level.BAD, "has a fault of its own: circuit open, clock"),
        ({"beat_at": NOW - 2 * SILENT}, Level.NOTE, "host/1/a was last heard of 1 min 10 s ago"),
    ],
)
def test_how_a_dispatcher_fares(change: dict[str, object], level: Level, words: str) -> None:
    other = replace(WORKS, owner="other")
    first, second = of_dispatchers(NOW, [replace(WORKS, **change), other])  # type: ignore[arg-type]
    assert (first.level, second.level) == (level, Level.GOOD)
    assert words in say(first.said, "en", UTC)


@pytest.mark.parametrize("known", [[], [replace(WORKS, beat_at=NOW - 2 * SILENT)]])
def test_no_dispatcher_at_all_is_bad(known: list[DispatcherFacts]) -> None:
    first, *others = of_dispatchers(NOW, known)
    assert (first.level, len(others)) == (Level.BAD, len(known))
    assert "nothing is delivered until one runs" in say(first.said, "en", UTC)


def test_a_screen_has_few_dispatchers_and_those_first_that_do_not_work() -> None:
    many = [replace(WORKS, owner=f"host/{number}") for number in range(8)]
    broken = replace(WORKS, owner="broken", faults=["clock"])
    facts = replace(QUIET, dispatchers=[*many, broken], holders={"host/1": 3, "older": 2})
    told = [finding for finding in of_status(facts) if finding.subject == "dispatchers"]
    first, *_, last = (say(finding.said, "en", UTC) for finding in told)
    assert (first, last) == ("broken has a fault of its own: clock", "and 5 more")
    assert len(told) == MAX_SHOWN + 1
    assert say(told[2].said, "en", UTC).endswith("works for 1 h and holds 3 lanes"), "as they are held now"


def test_numbers_are_written_as_each_language_does() -> None:
    busy = replace(QUIET, pending=100_001, recent={"delivered": 5_400}, lag=Lag(21, 0.0204, 1.5))
    told = {finding.subject: finding.said for finding in of_status(busy)}
    assert say(told["backlog"], "en", UTC).startswith("100,000+ wait")
    assert "100\N{NO-BREAK SPACE}000+" in say(told["backlog"], "ru", UTC)
    assert say(told["attempts"], "en", UTC) == "1.5/s in the last 1 h: 5,400 delivered"
    assert say(told["attempts"], "uz", UTC) == (
        "oxirgi 1 soat ichida soniyasiga 1,5: 5\N{NO-BREAK SPACE}400 × yetkazildi"
    )
    assert say(told["lag"], "ru", UTC).endswith("(21 первая попытка)")


@given(status, st.sampled_from(LANGUAGES))
def test_every_finding_is_said_in_every_language(measured: StatusFacts, language: Language) -> None:
    for finding in of_status(measured):
        assert say(finding.said, language, UTC)
        assert finding.subject in choices("subject")
        assert label(finding.label, language)
