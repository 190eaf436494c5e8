"""What is said of an installation's health: by its level, and in every language."""

from dataclasses import replace
from datetime import UTC, date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW
from tests.unit.delivery_facts import EVENT, instants, maybe_instants, outcomes, pauses, texts
from webhook_dispatcher.diagnosis import findings
from webhook_dispatcher.diagnosis.findings import MAX_SHOWN, Finding, Level
from webhook_dispatcher.diagnosis.vocabulary import is_known, label, say
from webhook_dispatcher.domain.errors import ConfigurationError
from webhook_dispatcher.domain.language import LANGUAGES, Language
from webhook_dispatcher.domain.merchant import MerchantFacts
from webhook_dispatcher.domain.status import (
    Commands,
    DispatcherFacts,
    Lag,
    Lost,
    Owing,
    Pace,
    Size,
    StatusFacts,
    Stranded,
    SuspendedMerchant,
)
from webhook_dispatcher.domain.thresholds import LONG_SILENT, SILENT
from webhook_dispatcher.storage.installation import Installation

HOUR = timedelta(hours=1)
WORKS = DispatcherFacts("host/1/a", "1.2.3", NOW - HOUR, NOW - timedelta(seconds=9), True)
QUIET = StatusFacts(
    NOW, False, None, 0, 0, [], 0, 0, 0, None, [], NOW - HOUR, {}, Lag(0, None, None), {},
    Commands(0, 0, None), [], None, [WORKS],
)  # fmt: skip
WAITS = Owing("m1", True, EVENT, 1, NOW - HOUR, None, False, True)

counts = st.sampled_from([0, 1, 2, 5, 21, 100_001])
merchants = st.builds(
    MerchantFacts, merchant_id=texts, has_endpoint=st.booleans(), is_paused=st.booleans(),
    failing_since=maybe_instants, failures_in_a_row=counts, last_success_at=maybe_instants,
    suspended_at=maybe_instants, next_try_at=maybe_instants, oldest_waiting_at=maybe_instants,
    waiting=counts,
)  # fmt: skip
owing = st.builds(
    Owing, merchant_id=texts, is_in_order=st.booleans(), event_id=st.just(EVENT), seq=st.integers(1, 9),
    created_at=instants, due_at=maybe_instants, is_paused=st.booleans(), has_endpoint=st.booleans(),
)  # fmt: skip
dispatchers = st.builds(
    DispatcherFacts, owner=texts, version=texts, started_at=instants, beat_at=instants,
    is_ready=st.booleans(), reasons=st.lists(texts, max_size=2), faults=st.lists(texts, max_size=2),
    lanes=counts,
)  # fmt: skip
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
    pace=st.builds(Pace, st.floats(0, 9e4), st.floats(0, 9e4)),
    sizes=st.lists(
        st.builds(Size, texts, counts, counts, st.none() | st.just(date(2026, 11, 21))), max_size=3
    ),
)


def levels(found: tuple[Finding, ...]) -> dict[str, Level]:
    """Return what is not good, by what was looked at."""
    return {finding.subject: finding.level for finding in found if finding.level is not Level.GOOD}


@pytest.mark.parametrize(
    ("change", "worse"),
    [
        ({}, {}),
        ({"everything_is_paused": True}, {"everything": Level.NOTE}),
        ({"failing": 1}, {"failing": Level.NOTE}),
        ({"suspended": 1, "next_try_at": NOW}, {"suspended": Level.NOTE}),
        ({"owing": [WAITS]}, {"oldest": Level.NOTE, "behind": Level.NOTE, "backlog": Level.NOTE}),
        ({"owing": [WAITS], "pace": Pace(1, 2)}, {"oldest": Level.NOTE, "behind": Level.NOTE}),
        ({"owing": [replace(WAITS, is_in_order=False, due_at=NOW - HOUR)]}, {"retries": Level.NOTE}),
        ({"owing": [replace(WAITS, created_at=NOW)]}, {}),
        ({"owing": [replace(WAITS, is_paused=True, is_in_order=False)]}, {"held": Level.NOTE}),
        ({"owing": [replace(WAITS, has_endpoint=False, is_in_order=False)]}, {"no_endpoint": Level.NOTE}),
        ({"missing_partitions": [("outbox", date(2026, 11, 21))]}, {"partitions": Level.BAD}),
        ({"stranded": Stranded("m1", EVENT, NOW)}, {"dispatchers": Level.BAD}),
        ({"stranded": Stranded("m1", EVENT, NOW), "holders": {"host/1/a": 1}}, {}),
        ({"dispatchers": []}, {"dispatchers": Level.BAD}),
        ({"dispatchers": [], "holders": {"host/2/b": 1}}, {}),
        (
            {
                "dispatchers": [replace(WORKS, beat_at=NOW - 2 * LONG_SILENT)],
                "holders": {"host/2/b": 1},
            },
            {},
        ),
        ({"dispatchers": [replace(WORKS, is_ready=False)]}, {"dispatchers": Level.BAD}),
    ],
)
def test_what_is_worth_a_look_and_what_is_bad(change: dict[str, object], worse: dict[str, Level]) -> None:
    assert levels(findings.of_status(replace(QUIET, **change))) == worse  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        ({}, Level.GOOD, "host/1/a, version 1.2.3, has run for 1 h and holds no lane"),
        (
            {"is_ready": False, "reasons": ["no\x1bkey"]},
            Level.BAD,
            "is not ready: no\N{REPLACEMENT CHARACTER}key",
        ),
        ({"faults": ["circuit open", "clock"]}, Level.BAD, "has a fault of its own: circuit open; clock"),
        ({"beat_at": NOW - 2 * SILENT}, Level.NOTE, "host/1/a was last heard of 1 min 10 s ago"),
    ],
)
def test_how_a_dispatcher_fares(change: dict[str, object], level: Level, words: str) -> None:
    other = replace(WORKS, owner="other")
    first, second = findings.of_dispatchers(NOW, [replace(WORKS, **change), other])  # type: ignore[arg-type]
    assert (first.level, second.level) == (level, Level.GOOD)
    assert words in say(first.said, "en", UTC)


@pytest.mark.parametrize("known", [[], [replace(WORKS, beat_at=NOW - 2 * SILENT)]])
def test_no_dispatcher_at_all_is_bad(known: list[DispatcherFacts]) -> None:
    first, *others = findings.of_dispatchers(NOW, known)
    assert (first.level, len(others)) == (Level.BAD, len(known))
    assert "nothing is delivered, unless one is just starting" in say(first.said, "en", UTC)


def test_a_screen_has_few_dispatchers_and_those_first_that_do_not_work() -> None:
    many = [replace(WORKS, owner=f"host/{number}") for number in range(8)]
    broken = replace(WORKS, owner="broken", faults=["clock"])
    facts = replace(QUIET, dispatchers=[*many, broken], holders={"host/1": 3, "older": 2})
    told = [finding for finding in findings.of_status(facts) if finding.subject == "dispatchers"]
    first, *_, last = (say(finding.said, "en", UTC) for finding in told)
    assert (first, last) == ("broken has a fault of its own: clock", "and 5 more")
    assert len(told) == MAX_SHOWN + 1
    assert say(told[2].said, "en", UTC).endswith("has run for 1 h and holds 3 lanes"), "as they are held now"


@given(status, st.sampled_from(LANGUAGES))
def test_every_finding_is_said_in_every_language(measured: StatusFacts, language: Language) -> None:
    for finding in findings.of_status(measured):
        assert say(finding.said, language, UTC)
        assert is_known(finding.label)
        assert label(finding.label, language)


SUSPENDED = [SuspendedMerchant(name, NOW - HOUR, NOW) for name in ("m1", "m2")]
CHECKED = [
    findings.of_stranded(Stranded("m1", EVENT, NOW)),
    *(
        findings.of_clock(timedelta(seconds=ahead), is_console)
        for ahead in (0, 31, -31)
        for is_console in (True, False)
    ),
    findings.of_pause(None, None),
    findings.of_pause(NOW, "ana"),
    findings.of_suspended([], 0),
    findings.of_suspended(SUSPENDED, 1_002),
    *(
        findings.of_installation(*each)
        for each in [("a", "b", 1, 1), (None, "b", 1, 1), ("a", "a", 1, 2), ("a", None, 1, 1)]
    ),
    findings.of_lost(None),
    *(
        findings.of_lost(Lost(events, 1, 7, 9, NOW, NOW, NOW, is_recent))
        for events in (1, 2, 5)
        for is_recent in (True, False)
    ),
    findings.of_missing_partitions([]),
    findings.of_missing_partitions([("attempt_log", date(2026, 11, 21))] * 11),
    findings.of_forbidden("m1", "the URL has a fragment"),
    findings.of_more_forbidden(7),
    findings.of_allowed(),
    findings.of_allowed(1_000),
    *(findings.of_sealing_key(NOW, "k1", at) for at in (NOW, NOW - 2 * HOUR, None)),
    *(findings.of_charges(is_indexed) for is_indexed in (True, False)),
    findings.of_database("15.1", 9, None),
    findings.of_database("15.1", 9, (date(2026, 11, 1), date(2026, 11, 30))),
]


@pytest.mark.parametrize("finding", CHECKED)
@pytest.mark.parametrize("language", LANGUAGES)
def test_what_check_finds_is_said_in_every_language(finding: Finding, language: Language) -> None:
    assert say(finding.said, language, UTC)
    assert is_known(finding.label)
    is_well = finding.level is Level.GOOD
    assert (finding.mend is None) == (is_well or finding.said.key == "has_moved")
    assert finding.mend is None or say(finding.mend, language, UTC)


def test_what_check_finds_is_said_with_its_facts() -> None:
    forbidden = findings.of_forbidden("m1", "the URL has a fragment")
    assert say(forbidden.said, "ru", UTC) == "m1: в URL есть фрагмент (#)"
    assert say(findings.of_clock(timedelta(seconds=31), is_console=True).said, "en", UTC) == (
        "the console's machine is 31 s ahead of the database"
    )
    missing = findings.of_missing_partitions([("attempt_log", date(2026, 11, day)) for day in range(1, 12)])
    assert say(missing.said, "en", UTC).startswith("11 missing (attempt_log: 2026-11-01, ")
    assert "2026-11-10)" in say(missing.said, "en", UTC)


def test_another_installation_is_said_as_daemons_say_it() -> None:
    finding = findings.of_installation("a", "b", 1, 1)
    with pytest.raises(ConfigurationError) as refused:
        Installation("a", 1, 1).verify("b")
    assert say(finding.said, "en", UTC) == refused.value.problems[0]
    assert finding.mend is not None
    assert say(finding.mend, "en", UTC) == refused.value.remedy


def test_several_versions_are_worth_a_note() -> None:
    first, *others = findings.of_dispatchers(NOW, [WORKS, replace(WORKS, owner="b", version="1.2.4")])
    assert (first.level, len(others)) == (Level.NOTE, 2)
    assert say(first.said, "en", UTC) == "several versions are at work: 1.2.3, 1.2.4"
