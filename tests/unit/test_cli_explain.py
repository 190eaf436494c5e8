"""Facts become sentences, lines and a screen: without a database."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import pytest
import typer

from tests.unit.builders import NOW
from tests.unit.delivery_facts import AROUND, EVENT
from webhook_dispatcher.cli import merchants, status
from webhook_dispatcher.cli.deliveries import list_lines
from webhook_dispatcher.cli.explanation import command, lines, unknown
from webhook_dispatcher.cli.options import Moment, last, parse_merchant, parse_moment, parse_period
from webhook_dispatcher.diagnosis.explanation import Explanation, Rules, explain
from webhook_dispatcher.domain.command import CommandFacts
from webhook_dispatcher.domain.delivery import AttemptView, DeliveryFacts, DeliveryView, EventFacts, Pause
from webhook_dispatcher.domain.merchant import MerchantFacts
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.status import (
    MAX_COUNTED,
    Commands,
    Lag,
    LostEvent,
    Owing,
    Pace,
    Size,
    StatusFacts,
)

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
RULES = Rules(timedelta(days=1), Schedule())
DELIVERY = DeliveryFacts(
    EVENT, 7, "m1", "charge.created", NOW - MINUTE, "pending", None, 0, None, None, None, None, "ch_1", None,
    False, "schedule", None,
)  # fmt: skip
RETRIED = replace(
    DELIVERY, state="pending_retry", attempts=3, last_outcome="timeout", due_at=NOW + MINUTE,
    next_attempt_at=NOW + MINUTE,
)  # fmt: skip
FAILED = replace(
    DELIVERY, state="failed", failed_reason="exhausted", attempts=8, last_outcome="timeout", finished_at=NOW
)
TIMEOUT = AttemptView(1, "schedule", NOW - 30 * SECOND, 10_000, None, "timeout", None, None)
PAUSE = Pause(3, "anna", NOW - HOUR)


def facts(delivery: DeliveryFacts = DELIVERY, **around: object) -> EventFacts:
    return EventFacts(delivery, [], [], replace(AROUND, **around), None, None, None, [])  # type: ignore[arg-type]


def said(told: Explanation) -> str:
    return " ".join(" ".join(lines(told)).split())


def test_the_number_of_an_event_is_not_taken_for_its_place_among_its_merchants() -> None:
    title = f"Event {EVENT}: charge.created of charge ch_1, merchant m1, seq 7"
    assert said(explain(facts(), RULES)).startswith(f"{title} ")


@pytest.mark.parametrize(
    ("removed_at", "created_at", "words"),
    [
        (None, NOW - HOUR, "it waits for one until 2026-11-21 07:15:30"),
        (None, NOW - 25 * HOUR, "it waited for one until 2026-11-20 07:15:30; it fails as not_configured"),
        (NOW - MINUTE, NOW - HOUR, "its endpoint was removed at 2026-11-20 08:14:30, so it fails"),
        (NOW - 2 * HOUR, NOW - HOUR, "it waits for one until"),
    ],
)
def test_how_long_it_awaits_endpoints(removed_at: datetime | None, created_at: datetime, words: str) -> None:
    given = facts(replace(DELIVERY, created_at=created_at), endpoint_removed_at=removed_at, url=None)
    assert words in said(explain(given, RULES))


def test_both_pauses_are_told_and_each_by_whom() -> None:
    given = replace(facts(everything_is_paused=True, is_paused=True), merchant_pause=PAUSE)
    told = said(explain(given, RULES))
    assert "Everything is paused (not by a command)" in told
    assert "m1 is paused since 2026-11-20 07:15:30 (1 h ago) by anna (command 3)" in told
    assert "resume --all: " not in told
    assert ["resume --all" in told, "resume m1" in told] == [True, True]


def test_behind_others_the_pace_of_the_latest_attempts_says_when_its_turn_comes() -> None:
    given = replace(facts(ahead=3, is_held=True, owner="a/1/x", leased_at=NOW - HOUR), latest=[TIMEOUT] * 2)
    told = said(explain(given, RULES))
    assert "3 earlier events of m1 come before it" in told
    assert "in flight since about 2026-11-20 08:15:10 (20 s ago)" in told
    assert "Its turn comes in about 30 s" in told


def test_by_charge_it_waits_for_its_own_charge_and_comes_the_sooner() -> None:
    given = replace(facts(ahead=12, at_once=4), latest=[TIMEOUT] * 2)
    told = said(explain(given, RULES))
    assert "Earlier events of its merchant that wait: 12. Order is kept by charge, 4 at once" in told
    assert "Its turn comes in about 30 s" in told


def test_a_lane_that_nobody_takes_is_remarked_on_after_a_while() -> None:
    fresh, old = (said(explain(facts(replace(DELIVERY, created_at=at)), RULES)) for at in (NOW, NOW - MINUTE))
    assert "no dispatcher holds the lane: one takes it up within a second" in fresh
    assert "takes longer already" not in fresh
    assert "takes longer already" in old
    assert "webhook-dispatcher status; webhook-dispatcher check" in old
    resting = said(explain(facts(wait_until=NOW + MINUTE), RULES))
    assert "the lane rests until 2026-11-20 08:16:30" in resting


def test_a_secret_that_cannot_be_opened_is_told_unless_somebody_holds_the_lane() -> None:
    rules = replace(RULES, secret_fault="encryption key 'k2': not among ours")
    assert "cannot be opened with the keys of this environment" in said(explain(facts(), rules))
    assert "cannot be opened" not in said(explain(facts(is_held=True, owner="a"), rules))


def test_where_there_are_no_keys_it_says_so_unless_something_else_keeps_the_event() -> None:
    rules = replace(RULES, secret_unread="WEBHOOK_SECRET_KEYS: not set")
    assert "opens is not known here: WEBHOOK_SECRET_KEYS: not set." in said(explain(facts(), rules))
    assert "not known here" not in said(explain(facts(is_paused=True), rules))


@pytest.mark.parametrize(
    ("change", "statuses", "is_told"),
    [
        *(({}, [401, 401], True), ({}, [401, 500], False), ({}, [], False)),
        *(({"last_success_at": NOW - MINUTE}, [401], False), ({"last_success_at": None}, [401], False)),
        ({"failing_since": NOW - 3 * HOUR}, [401], False),
    ],
)
@pytest.mark.parametrize("delivery", [DELIVERY, RETRIED], ids=["pending", "pending_retry"])
def test_a_merchant_that_refuses_since_its_rotation_may_have_another_secret(
    delivery: DeliveryFacts, change: dict[str, object], statuses: list[int], is_told: bool
) -> None:
    around = replace(
        AROUND, secret_created_at=NOW - HOUR, last_success_at=NOW - 2 * HOUR, failing_since=NOW - 30 * MINUTE
    )
    around = replace(around, **change)  # type: ignore[arg-type]
    latest = [replace(TIMEOUT, outcome="status", status=status) for status in statuses]
    told = said(explain(replace(facts(delivery), circumstances=around, latest=latest), RULES))
    assert ("m1 answers 401 since the rotation of its secret at 2026-11-20 07:15:30" in told) == is_told
    assert ("rotate-secret m1 --hold" in told) == is_told


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "attempt 4 is due at 2026-11-20 08:16:30, in 1 min."),
        ({"due_at": NOW - SECOND}, "attempt 4 is due since 2026-11-20 08:15:29"),
        ({"is_claimed": True}, "Attempt 4 is in flight, or about to begin"),
        ({"is_claimed": True, "due_at": NOW - SECOND}, "a dispatcher that did not report until"),
        ({"trigger": "manual"}, "attempt 4, asked for by hand, is due"),
        ({"attempts": 7}, "Attempt 8 is the last"),
        ({"on_failure": "failed"}, "attempted once by hand; if that fails, it is failed again"),
    ],
)
def test_what_a_retry_waits_for(change: dict[str, object], words: str) -> None:
    assert words in said(explain(facts(replace(RETRIED, **change)), RULES))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("around", "words"),
    [
        ({"is_paused": True}, "when the pause ends"),
        ({"suspended_at": NOW - HOUR}, "within seconds of the first try that succeeds"),
        ({"url": None}, "when that is mended"),
    ],
)
def test_only_what_waits_for_a_first_attempt_is_in_order(around: dict[str, object], words: str) -> None:
    assert f"Next: It goes on, in order, {words}." in said(explain(facts(DELIVERY, **around), RULES))
    for due_at, ending in ((NOW - SECOND, "."), (NOW + MINUTE, ", and not before it is due.")):
        told = said(explain(facts(replace(RETRIED, due_at=due_at), **around), RULES))
        assert f"Next: It is attempted {words}{ending}" in told
        assert "in order" not in told


def test_what_failed_names_a_recovery_from_then_on() -> None:
    assert "webhook-dispatcher recover m1 --since 2026-11-20T08:14:30 --dry-run" in said(
        explain(facts(FAILED), RULES)
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("exhausted", "all 8 attempts failed, the last with timeout"),
        *(("not_configured", "had no endpoint in time"), ("unsendable", "the row breaks a rule")),
        *(("cancelled", "it was cancelled, after 8 attempts"), ("skipped", "had what was owed skipped")),
        ("new\x1b[2J", "new\N{REPLACEMENT CHARACTER}[2J"),
    ],
)
def test_why_it_failed(reason: str, words: str) -> None:
    assert words in said(explain(facts(replace(FAILED, failed_reason=reason)), RULES))


def test_of_an_endpoint_that_is_removed_nothing_is_advised() -> None:
    found = facts(replace(FAILED, failed_reason="not_configured", endpoint=2))
    gone = replace(found, circumstances=replace(found.circumstances, url=None))
    told = said(explain(gone, RULES))
    assert "endpoint 2 is removed for good" in told
    assert not any(command in told for command in ("endpoint set", "deliveries retry"))


def test_what_is_asked_for_by_hand_leaves_its_schedule_and_counts_beside_it() -> None:
    asked = replace(RETRIED, trigger="manual", due_at=NOW, scheduled_at=NOW + HOUR)
    assert "If attempt 4 fails, the schedule goes on as it was: attempt 5 stays due at" in said(
        explain(facts(asked), RULES)
    )
    told = said(explain(facts(replace(RETRIED, attempts=4, attempts_by_hand=1)), RULES))
    assert "If attempt 5 fails, attempt 6 follows 1 h after its end; attempt 9 is the last." in told


@pytest.mark.parametrize(("trigger", "cause"), [("manual", "by hand"), ("replay", "by a recover")])
def test_a_delivered_event_that_is_sent_again_says_so(trigger: str, cause: str) -> None:
    again = replace(RETRIED, state="delivered", on_failure="delivered", trigger=trigger)
    assert f"being sent once more, {cause}, and stays delivered" in said(explain(facts(again), RULES))


@pytest.mark.parametrize(
    ("triggers", "cause"),
    [
        (["manual"], "by hand"),
        (["replay"], "by a recover"),
        (["replay", "manual"], "by hand and by a recover"),
        (["schedule"], "because a dispatcher ended, or lost its lease, before it had recorded the first"),
    ],
)
def test_what_the_merchant_has_several_times_says_why(triggers: list[str], cause: str) -> None:
    made = [
        replace(TIMEOUT, attempt=number, trigger=trigger, outcome="delivered", status=204)
        for number, trigger in enumerate(["schedule", *triggers], start=1)
    ]
    delivered = replace(DELIVERY, state="delivered", attempts=len(made), finished_at=NOW)
    told = said(explain(replace(facts(delivered), attempts=made), RULES))
    assert f"has it {len(made)} times ({cause}): with the same id" in told


@pytest.mark.parametrize("commands", [[], [CommandFacts(1, "retry", "an\x1bna", "done", NOW, NOW)]])
def test_what_is_not_found_may_have_been_dropped(commands: list[CommandFacts]) -> None:
    told = unknown("ch_\x1b", date(2026, 10, 21), commands, None)
    assert "kept since 2026-10-21" in told
    assert ("it was here once: command 1 (retry), given by an\N{REPLACEMENT CHARACTER}na" in told) == bool(
        commands
    )
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("is_delivered", "words"), [(True, "m accepted it at 2026-"), (False, "it was sent to m at 2026-")]
)
def test_what_a_server_that_took_over_lacks_was_sent(is_delivered: bool, words: str) -> None:
    told = unknown(str(EVENT), date(2026, 10, 21), [], LostEvent("m", NOW, is_delivered, NOW))
    assert words in told
    assert "kept since" not in told


@pytest.mark.parametrize(
    ("text", "period"),
    [
        *(("90s", 90 * SECOND), ("5m", 5 * MINUTE), ("24h", 24 * HOUR), ("7d", timedelta(days=7))),
        *(("2w", timedelta(days=14)), ("1h30m", 90 * MINUTE), ("PT1H", HOUR)),
    ],
)
def test_periods(text: str, period: timedelta) -> None:
    assert (parse_period(text), parse_moment(text).ago) == (period, period)


@pytest.mark.parametrize("text", ["", "5", "m5", "5m1h", "0m", "5 m", "PT", "9999999w", "-5m"])
def test_what_is_no_period(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_period(text)


def test_moments() -> None:
    assert parse_moment("2026-11-20").instant == datetime(2026, 11, 20, tzinfo=UTC)
    assert parse_moment("2026-11-20T08:15:00+01:00").instant == datetime(2026, 11, 20, 7, 15, tzinfo=UTC)
    assert (parse_moment("02:00").of_day, parse_moment("now")) == (time(2, tzinfo=UTC), Moment())
    for text in ("25:00", "yesterday", "2026-13-01", "02:00:00:00"):
        with pytest.raises(typer.BadParameter, match="is no time"):
            parse_moment(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("02:00", datetime(2026, 11, 20, 2, tzinfo=UTC)),
        ("08:16", datetime(2026, 11, 19, 8, 16, tzinfo=UTC)),
        ("08:15:30", datetime(2026, 11, 20, 8, 15, 30, tzinfo=UTC)),
        ("01:00+02:00", datetime(2026, 11, 19, 23, tzinfo=UTC)),
        ("23:00-05:00", datetime(2026, 11, 20, 4, tzinfo=UTC)),
    ],
)
def test_a_time_of_day_is_the_last_one_that_was(text: str, expected: datetime) -> None:
    of_day = parse_moment(text).of_day
    assert of_day is not None
    assert last(of_day, NOW) == expected


@pytest.mark.parametrize("text", [" m1", "m1 ", "", "m\x1b", "m" * 129])
def test_merchants_that_cannot_be(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_merchant(text)


def test_deliveries_have_a_line_of_80_columns_each_with_the_events_id_whole() -> None:
    view = DeliveryView(
        EVENT,
        7,
        "merchant-1",
        "charge.created",
        NOW,
        "pending_retry",
        None,
        3,
        NOW,
        None,
        "timeout",
        None,
        None,
    )
    head, line = list_lines([view], None)
    assert line == f"11-20 08:15:30 {EVENT} retry     3 timeout merchant-1"
    assert (len(head), len(line)) <= (80, 80)
    _, cut = list_lines([replace(view, merchant_id="m" * 99)], 80)
    assert (len(cut), str(EVENT) in cut) == (80, True)
    _, whole = list_lines([replace(view, merchant_id="m" * 99)], None)
    assert whole.endswith("m" * 99)


def test_a_suspended_merchants_event_says_since_when_and_when_it_is_tried() -> None:
    since = {"suspended_at": NOW - HOUR, "wait_until": NOW + MINUTE}
    for delivery in (DELIVERY, RETRIED):
        told = explain(facts(delivery, **since), RULES)
        assert "m1 is suspended since 2026-11-20 07:15:30 (1 h ago)" in said(told)
        assert "the next try is at 2026-11-20 08:16:30" in said(told)
        assert "webhook-dispatcher resume m1" in said(told)
        assert "deliveries retry" not in said(told)


def test_before_a_retry_that_would_be_refused_a_suspended_merchant_is_to_be_resumed() -> None:
    delivered = replace(DELIVERY, state="delivered", finished_at=NOW, attempts=1)
    for delivery in (FAILED, delivered):
        told = explain(facts(delivery, suspended_at=NOW - HOUR), RULES)
        commands = [command(advice.action, delivery) for advice in told.advice]
        retry = next(command for command in commands if "deliveries retry " in command)
        assert commands.index("webhook-dispatcher resume m1") < commands.index(retry)
        assert "webhook-dispatcher resume m1" not in said(explain(facts(delivery), RULES))


def test_merchants_have_a_line_each() -> None:
    failing = MerchantFacts(
        "m1", False, True, NOW - HOUR, 12, NOW - 2 * HOUR, None, None, NOW - MINUTE, 10_001
    )
    suspended = replace(failing, suspended_at=NOW - MINUTE, next_try_at=NOW, is_paused=False)
    _, line, of_suspended = merchants.lines([failing, suspended])
    assert of_suspended.endswith("m1 (no endpoint, suspended 11-20 08:14:30, next try 11-20 08:15:30)")
    assert line == "11-20 07:15:30   12 11-20 06:15:30 10,000+ 11-20 08:14:30 m1 (paused, no endpoint)"


def test_beneath_a_merchant_stands_who_paused_it_and_what_its_latest_attempt_brought() -> None:
    failing = MerchantFacts("m1", True, True, NOW - HOUR, 12, None, None, None, None, 0)
    refused = replace(
        failing, paused_at=NOW, paused_by="an\x1bna", failed_at=NOW, failed_outcome="status",
        failed_status=503, failed_reason="503 Service Unavailable",
    )  # fmt: skip
    _, _, paused, failure = merchants.lines([refused])
    assert paused == "  paused since 11-20 08:15:30 by an\N{REPLACEMENT CHARACTER}na"
    assert failure == "  latest failure 11-20 08:15:30 status 503: 503 Service Unavailable"
    long = replace(refused, paused_at=None, failed_status=None, failed_reason="x" * 200)
    _, _, failure = merchants.lines([long])
    assert (len(failure), failure[:39], failure[-1]) == (80, "  latest failure 11-20 08:15:30 status:", "…")


def owing(merchant: str, ago: timedelta, *, paused: bool = False, endpoint: bool = True) -> Owing:
    return Owing(merchant, True, EVENT, 1, NOW - ago, None, paused, endpoint)


QUIET = StatusFacts(
    NOW, False, None, 0, 0, [], 0, 0, 0, None, [], NOW - 5 * MINUTE, {}, Lag(0, None, None), {},
    Commands(0, 0, None), [], None, [],
)  # fmt: skip


def screen(owed: Sequence[Owing] = (), **change: object) -> dict[str, str]:
    return dict(status.lines(replace(QUIET, owing=owed, **change)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("waits", "pending", "pace", "told"),
    [
        (HOUR, 9_000, Pace(100.0, 105.0), "as it goes now, the first attempts are made in 30 min"),
        (HOUR, MAX_COUNTED + 1, Pace(0.0, 100.0), "in 16 min 40 s at the earliest"),
        (HOUR, 9_000, Pace(100.0, 90.0), "it does not shrink: 100.0/s come, 90.0/s are first attempted"),
        (HOUR, 9_000, Pace(0.1, 0.1 + 1e-12), "it does not shrink: 0.1/s come, 0.1/s are first attempted"),
        (SECOND, 90, Pace(100.0, 90.0), None),
    ],
)
def test_a_screen_tells_a_backlogs_end(waits: timedelta, pending: int, pace: Pace, told: str | None) -> None:
    _, _, following, *_ = status.lines(replace(QUIET, owing=[owing("m", waits)], pending=pending, pace=pace))
    assert following[0] == ("oldest" if told is None else "")
    assert told is None or told in following[1]


def test_a_screen_tells_no_end_of_a_backlog_whose_oldest_is_of_a_merchant_that_fails() -> None:
    failing = MerchantFacts("m", True, True, NOW - HOUR, 12, None, None, None, None, 0)
    backlog = replace(QUIET, owing=[owing("m", HOUR)], pending=9, pace=Pace(1.0, 9.0), most_failing=[failing])
    _, _, following, *_ = status.lines(backlog)
    assert following == ("", "nobody can tell when it ends: m, whose events wait longest, fails")


@pytest.mark.parametrize(
    ("due", "told"), [(-MINUTE, "due for 1 min: event"), (MINUTE, "the next at 2026-11-20 08:16:30: event")]
)
def test_a_screen_says_when_retries_are_due(due: timedelta, told: str) -> None:
    retries = [replace(owing("m", HOUR), is_in_order=False, due_at=NOW + due + n * HOUR) for n in range(2)]
    held = replace(retries[0], due_at=NOW - HOUR, is_paused=True)
    assert screen([held, *retries])["retries"] == f"{told} {EVENT} of m"


def test_a_screen_with_everything() -> None:
    owed = [
        *(owing("slow", 5 * MINUTE), owing("fine", SECOND), owing("held", HOUR, paused=True)),
        owing("new", 2 * HOUR, endpoint=False),
    ]
    shown = screen(
        owed, everything_is_paused=True, general_pause=PAUSE, pending=MAX_COUNTED + 1, suspended=2,
        next_try_at=NOW + MINUTE, recent={"delivered": 600, "timeout": 300}, lag=Lag(500, 0.02, 1.5),
        holders={"host/1/\x1b": 3}, commands=Commands(2, 1, NOW - MINUTE),
        missing_partitions=[("webhook.attempt_log", date(2026, 11, 21))], pace=Pace(100, 350),
        sizes=[Size("delivery_log", 3_400_000_000, 31, date(2026, 10, 27)), Size("outbox", 49_152, 0, None)],
    )  # fmt: skip
    assert shown["PAUSED"] == "everything, since 2026-11-20 07:15:30 by anna; `resume --all` ends it"
    assert shown["backlog"].startswith("100,000+ wait")
    assert shown["sizes"] == "delivery_log 3,400.0 MB (31 days from 2026-10-27 on); outbox 0.0 MB"
    assert shown["oldest"] == f"waits for 2 h: event {EVENT} of new"
    assert shown["lag"] == "20 ms at the median, 1,500 ms at 95 % (500 first attempts)"
    assert shown["attempts"] == "3.0/s in the last 5 min: 600 delivered, 300 timeout"
    assert shown["behind"] == "1 merchant: slow (5 min)"
    assert (shown["no endpoint"], shown["held"]) == ("1 merchant: new (2 h)", "1 merchant: held (1 h)")
    assert shown["dispatchers"] == "host/1/\N{REPLACEMENT CHARACTER} holds 3 lanes"
    assert shown["suspended"] == "2 merchants, the next try at 2026-11-20 08:16:30"
    assert shown["partitions"].startswith("MISSING: webhook.attempt_log of 2026-11-21")
    assert shown["commands"] == "2 commands waiting, the oldest for 1 min; 1 running"
