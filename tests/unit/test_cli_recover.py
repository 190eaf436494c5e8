"""What `recover`, `skip`, `commands stop` and `deliveries retry` show before, while and after they act."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from tests.unit.fakes.administration import NOW, FakeAdministration
from tests.unit.test_cli_commands import ASKED, DONE, EVENT, SOME, Shell
from webhook_dispatcher.domain.command import CommandStatus, Recover, Skip
from webhook_dispatcher.domain.delivery import AttemptView
from webhook_dispatcher.domain.mass_command import Preview
from webhook_dispatcher.storage.previews import PauseOf, read_preview

RANGE = "--since 2026-11-20T02:00:00Z --until 2026-11-20T05:00:00Z"
MANY = Preview(
    100_000, True, {"failed": 60_001, "delivered": 40_000}, {f"m{n}": 100 - n for n in range(20)}, 1_234
)


NOTHING = dict.fromkeys(("kind", "type", "merchant_id"))
ROWS: tuple[dict[str, object], ...] = (
    NOTHING | {"kind": "pending", "deliveries": 1},
    NOTHING | {"kind": "pending_retry", "deliveries": 3},
    NOTHING | {"type": "charge.created", "deliveries": 2},
    NOTHING | {"type": "charge.failed", "deliveries": 2},
    NOTHING | {"merchant_id": "m1", "deliveries": 4},
    NOTHING | {"deliveries": 7},
)
"""Of a preview, in the order that it shows; the last counts merchants."""


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def test_a_dry_run_shows_how_many_and_asks_for_nothing(shell: Shell) -> None:
    database = FakeAdministration()
    database.preview = SOME
    code, out, _ = shell(f"recover m1 {RANGE} --dry-run", database)
    assert (code, database.requests) == (0, [])
    assert out.splitlines() == [
        "5 to be sent again, from 2026-11-20T02:00:00.000Z to 2026-11-20T05:00:00.000Z: "
        "3 failed, 2 delivered",
        "  m1: 5",
    ], "what was delivered would be asked for"
    (wanted,) = database.previewed
    assert isinstance(wanted, Recover)
    assert (wanted.merchant_id, wanted.until - wanted.since) == ("m1", timedelta(hours=3))
    assert (wanted.states, wanted.leave_out) == (("failed",), ("last_attempts", "failing"))
    code, out, _ = shell("skip --all --before 2026-11-20 --dry-run", database)
    assert (code, database.requests) == (0, [])
    assert "5 to be given up without an attempt, created before 2026-11-20T00:00:00.000Z" in out
    assert isinstance(database.previewed[1], Skip)


def test_a_dry_run_of_a_skip_shows_which_events_these_are(shell: Shell) -> None:
    database = FakeAdministration()
    database.preview = replace(SOME, kinds={"pending": 5}, types={"charge.failed": 5})
    period = "--since 2026-11-20T02:00Z --before 2026-11-20T05:00Z"
    code, out, _ = shell(f"skip m1 {period} --type charge.failed --charge ch_1 --dry-run", database)
    assert (code, database.requests) == (0, [])
    assert out.splitlines() == [
        "5 to be given up without an attempt, created from 2026-11-20T02:00:00.000Z on, and before "
        "2026-11-20T05:00:00.000Z: 5 pending",
        "  type charge.failed: 5",
        "  m1: 5",
    ]
    since, before = (datetime(2026, 11, 20, hour, tzinfo=UTC) for hour in (2, 5))
    assert database.previewed == [Skip("m1", before, since, ("charge.failed",), "ch_1")]


def test_a_preview_is_in_the_same_order_whichever_row_came_first() -> None:
    for rows in permutations(ROWS):
        preview = read_preview(rows)
        assert list(preview.kinds.items()) == [("pending", 1), ("pending_retry", 3)]
        assert list((preview.types or {}).items()) == [("charge.created", 2), ("charge.failed", 2)]
        assert (list(preview.merchants), preview.more_merchants, preview.total) == (["m1"], 6, 4)


@pytest.mark.parametrize(
    ("options", "left_out", "ends"),
    [
        ("", ("last_attempts", "failing"), ("left out, --with-last-attempts", "left out, --with-failing")),
        ("--with-last-attempts", ("failing",), ("included", "left out, --with-failing")),
        ("--with-failing --with-last-attempts", (), ("included", "included")),
    ],
)
def test_a_preview_says_what_is_left_out_unless_asked_for(
    shell: Shell, options: str, left_out: tuple[str, ...], ends: tuple[str, str]
) -> None:
    database = FakeAdministration([DONE])
    database.preview = replace(SOME, last_attempts=46, failing=1_200, failing_merchants=3)
    code, out, _ = shell(f"recover --all {RANGE} --state delivered {options} --yes", database)
    delivered, last, failing = [line for line in out.splitlines() if " are " in line or " wait " in line]
    assert (code, delivered) == (0, "2 were accepted already, and are sent a second time")
    assert last.startswith(f"46 wait for the last attempt of their schedule: {ends[0]}")
    assert failing.startswith(f"1,200 are of 3 merchants that fail now: {ends[1]}")
    [wanted], [request] = database.previewed, database.requests
    assert isinstance(wanted, Recover)
    assert (wanted.leave_out, wanted.retries) == (left_out, 7)
    assert request.args.get("leave_out") == (list(left_out) or None)


@pytest.mark.parametrize("preview", [SOME, Preview(0, False, {}, {}, 0)])
def test_a_preview_says_what_was_given_up_after_the_range(shell: Shell, preview: Preview) -> None:
    database = FakeAdministration()
    database.preview = replace(preview, given_up_later=1_100)
    _, out, _ = shell(f"recover m1 {RANGE} --dry-run", database)
    last = out.splitlines()[-1]
    assert (
        last == "1,100 more were written in this range and given up later: leave --until out to include them"
    )


def test_a_preview_says_what_waits_where_that_is_not_asked_for(shell: Shell) -> None:
    database = FakeAdministration()
    database.preview = Preview(0, False, {}, {}, 0, waiting=26)
    _, out, _ = shell(f"recover m1 {RANGE} --dry-run", database)
    assert out.splitlines()[-1] == "26 wait for a retry: left out, --state pending_retry includes them"


@pytest.mark.parametrize("line", ["skip m1 --before now", "recover m1 --since PT3H --until now"])
def test_now_is_the_databases_time_in_milliseconds_as_the_command_has_it(shell: Shell, line: str) -> None:
    database = FakeAdministration()
    code, _, _ = shell(f"{line} --dry-run", database)
    (wanted,) = database.previewed
    assert (code, wanted.before if isinstance(wanted, Skip) else wanted.until) == (
        0,
        NOW.replace(microsecond=123_000),
    )


def test_a_preview_of_many_says_where_it_ended(shell: Shell) -> None:
    database = FakeAdministration()
    database.preview = MANY
    _, out, _ = shell(f"recover --all {RANGE} --dry-run", database)
    lines = out.splitlines()
    assert lines[0].startswith("100,000+ to be sent again")
    assert lines[0].endswith("(of the first so many)")
    assert (len(lines), lines[-1]) == (22, "  and 1,234 more merchants")
    assert shell.json(f"recover --all {RANGE} --dry-run", database)["more_merchants"] == 1_234


@pytest.mark.parametrize("line", [f"recover m1 {RANGE}", "skip m1 --before PT24H"])
def test_without_a_terminal_nothing_is_done_unless_it_says_yes(shell: Shell, line: str) -> None:
    database = FakeAdministration([DONE])
    database.preview = SOME
    code, out, err = shell(line, database)
    assert (code, "give --yes" in err, database.requests) == (2, True, [])
    assert "  m1: 5" in out


@pytest.mark.parametrize("line", [f"recover m1 {RANGE} --yes", "skip m1 --before PT24H --yes"])
def test_where_there_is_nothing_to_do_nothing_is_asked_for(shell: Shell, line: str) -> None:
    database = FakeAdministration([DONE])
    code, out, _ = shell(line, database)
    assert (code, out.startswith("none is to be "), database.requests) == (0, True, [])


@pytest.mark.parametrize(
    "line",
    [
        *(f"recover {RANGE}", f"recover m1 --all {RANGE}", "recover m1"),
        *(f"recover m1 {RANGE} --state pending", f"recover m1 {RANGE} --type webhook.test", "skip m1"),
        *("skip --before PT1H", "skip m1 --before now --type webhook.test"),
    ],
)
def test_what_is_missing_or_unknown_is_bad_usage(shell: Shell, line: str) -> None:
    database = FakeAdministration()
    assert (shell(line, database)[0], database.opened) == (2, [])


def test_progress_is_told_once_a_second(shell: Shell) -> None:
    looks = [
        replace(ASKED, status=CommandStatus.RUNNING, result={"recovered": n, "passed": 10 * n})
        for n in range(100)
    ]
    database = FakeAdministration([*looks, replace(DONE, command="recover", result={"recovered": 100})])
    database.preview = SOME
    code, out, _ = shell(f"recover m1 {RANGE} --yes", database)
    told = [line for line in out.splitlines() if "rows looked at" in line]
    assert (code, len(told)) == (0, 4)
    assert told[0] == "20 of 5, 200 rows looked at"
    assert "recover is command 12; `commands stop 12` ends it" in out
    assert out.splitlines()[-1] == "recover (command 12): done, recovered 100"


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"matched": {"failed": 5}, "recovered": 5}, None),
        ({"matched": {"failed": 4}, "recovered": 2, "stopped": True}, "it was stopped"),
        ({"matched": {"failed": 4}, "recovered": 2},
         "1 had been attempted meanwhile, or are of merchants who fail since; "
         "2 were found, and just then claimed or owed already"),
    ],
)  # fmt: skip
def test_a_recovery_says_why_it_did_fewer(shell: Shell, result: dict[str, object], told: str | None) -> None:
    database = FakeAdministration([replace(DONE, command="recover", result=result)])
    database.preview = SOME
    _, out, _ = shell(f"recover m1 {RANGE} --yes", database)
    fewer = [line for line in out.splitlines() if "fewer than" in line]
    assert fewer == ([] if told is None else [f"3 fewer than the 5 that were counted: {told}"])


def test_a_recovery_of_a_merchant_that_is_not_known_is_refused(shell: Shell) -> None:
    database = FakeAdministration()
    database.strangers = {"m1"}
    code, _, err = shell(f"recover m1 {RANGE} --dry-run", database)
    assert (code, "merchant 'm1' is not known here" in err) == (1, True)


def test_a_command_is_stopped_by_its_number(shell: Shell) -> None:
    database = FakeAdministration()
    assert shell("commands stop 12 --requested-by ana", database)[0] == 0
    code, _, err = shell("commands stop 13", database)
    assert (code, "command 13 is no recover" in err) == (1, True)
    assert database.stopped[0] == (12, "ana")


def test_a_mass_retry_that_matches_nothing_names_recover_and_what_waits(shell: Shell) -> None:
    database = FakeAdministration([replace(DONE, result={"matched": 0, "retried": 0})])
    database.preview = Preview(37, False, {"pending_retry": 37}, {"m1": 37}, 0)
    code, out, _ = shell("deliveries retry-failed --merchant m1 --endpoint 2 --since PT6H", database)
    said = "37 wait for their next attempt: `recover m1 --endpoint 2 --state pending_retry`"
    assert (code, said in out) == (0, True)
    (wanted,) = database.previewed
    assert isinstance(wanted, Recover)
    assert (wanted.states, wanted.until, wanted.endpoint) == (("pending_retry",), NOW, 2)
    database = FakeAdministration([DONE])
    shell("deliveries retry-failed --merchant m1", database)
    assert database.previewed == []


OLD = AttemptView(8, "schedule", NOW - timedelta(hours=1), 20, 503, "status", None, None)
RETRIED = replace(DONE, result={"in_flight": False})


def test_a_retry_tells_the_reason_and_what_was_answered(shell: Shell) -> None:
    database = FakeAdministration([RETRIED])
    made = replace(
        OLD, attempt=9, trigger="manual", reason="503 Service Unavailable", response_excerpt="gone\x1b[2J"
    )
    database.attempts, database.attempts_to_come = [OLD], [made]
    code, out, _ = shell(f"deliveries retry {EVENT}", database)
    again = FakeAdministration([RETRIED])
    again.attempts, again.attempts_to_come = [OLD], [made]
    document = json.loads(shell(f"deliveries retry {EVENT} --json", again)[1])
    assert (code, document["status"], document["attempt"]["attempt"]) == (1, "done", 9)
    assert out.splitlines()[-2:] == [
        "attempt 9: not delivered: status 503 (503 Service Unavailable), after 20 ms",
        'it answered "gone\N{REPLACEMENT CHARACTER}[2J"',
    ]


def test_a_retry_that_is_rejected_names_the_option_and_not_the_argument_of_sql(shell: Shell) -> None:
    told = "the event was delivered; args.force sends it again"
    rejected = replace(DONE, status=CommandStatus.REJECTED, error_code=-14004, error_message=told)
    code, _, err = shell(f"deliveries retry {EVENT}", FakeAdministration([rejected]))
    assert (code, "the event was delivered; --force sends it again (-14004)" in err) == (1, True)


def test_a_retry_whose_attempt_does_not_end_is_exit_1(shell: Shell) -> None:
    database = FakeAdministration([RETRIED])
    database.attempts = [OLD]
    code, _, err = shell(f"deliveries retry {EVENT} --deadline PT3S", database)
    assert (code, "no attempt has ended within 3 s" in err) == (1, True)


def test_a_retry_while_everything_is_paused_warns_and_does_not_wait(shell: Shell) -> None:
    database = FakeAdministration([RETRIED])
    database.pause_of = pause = PauseOf("m1", True, True)
    code, out, err = shell(f"deliveries retry {EVENT}", database)
    assert (code, err, "done" in out) == (
        0,
        "everything is paused: the attempt waits for `resume --all`\n",
        True,
    )
    database = FakeAdministration([RETRIED])
    database.pause_of = replace(pause, merchant_id="m 1", everything_is_paused=False, endpoint=2)
    told = "m 1, endpoint 2 is paused: the attempt waits for `resume 'm 1' --endpoint 2`\n"
    assert shell(f"deliveries retry {EVENT}", database)[2] == told
    database = FakeAdministration([RETRIED])
    database.pause_of = replace(pause, merchant_is_paused=False, everything_is_paused=False)
    database.attempts_to_come = [AttemptView(9, "manual", NOW, 31, 204, "delivered", None, None)]
    assert shell(f"deliveries retry {EVENT}", database)[2] == ""
