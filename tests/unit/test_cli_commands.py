"""What the commands do to the database and print, against one in memory."""

import json
import re
import shlex
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.unit.fakes.administration import KEYS, NOW, FakeAdministration, session
from webhook_dispatcher.cli import main
from webhook_dispatcher.domain.command import COMMANDS, CommandStatus, CommandView, ListedCommand
from webhook_dispatcher.domain.delivery import AttemptView, DeliveryView
from webhook_dispatcher.domain.endpoint import EndpointChange, EndpointView
from webhook_dispatcher.domain.errors import NotHeld
from webhook_dispatcher.domain.mass_command import Preview
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.domain.signing import Keyring, Secret
from webhook_dispatcher.storage.api.event_types import OwnType

EVENT = UUID("0e3bd3a5-6d5b-4f6e-9c47-0e6f2a8d1b11")
DELIVERY = DeliveryView(
    EVENT, 7, "m1", "charge.created", NOW, "failed", "exhausted", 8, None, 500, "status",
    NOW + timedelta(days=1), None,
)  # fmt: skip
SOME = Preview(5, False, {"failed": 3, "delivered": 2}, {"m1": 5}, 0)
ASKED = CommandView(12, "retry", None, NOW, CommandStatus.PENDING, None, None, None, None)
RUNNING = replace(ASKED, status=CommandStatus.RUNNING, result={"matched": 5})
DONE = replace(ASKED, status=CommandStatus.DONE, handled_at=NOW, result={"matched": 5, "retried": 5})


class Shell:
    """Runs a command line and gives back exit code, output and errors."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, line: str, database: FakeAdministration, **environ: str) -> tuple[int, str, str]:
        code = main(shlex.split(line), session(database, **environ))
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, line: str, database: FakeAdministration, **environ: str) -> Any:
        code, out, err = self(f"{line} --json", database, **environ)
        assert (code, err) == (0, "")
        return json.loads(out)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def test_a_new_secret_is_printed_once_and_stored_sealed(database: FakeAdministration, shell: Shell) -> None:
    code, out, _ = shell("endpoint set m1 https://merchant.com/hooks", database)
    secret = out.splitlines()[-1]
    assert code == 0
    assert re.fullmatch("whsec_[A-Za-z0-9+/]{43}=", secret)
    assert secret.encode() not in database.sealed["m1"].sealed
    assert Keyring.parse(KEYS).open("m1", database.sealed["m1"]).revealed == secret.encode()
    for line in ("endpoint show m1", "endpoint list", "endpoint show m1 --json", "endpoint list --json"):
        assert "whsec_" not in shell(line, database)[1]


@pytest.fixture
def database() -> FakeAdministration:
    return FakeAdministration()


def test_an_endpoints_history_says_who_changed_what(database: FakeAdministration, shell: Shell) -> None:
    set_ = EndpointChange(1, NOW, "webhook_admin", "cli:ana\x1b", "endpoint set", None, None, "https://a/")
    asked = EndpointChange(2, NOW, "panel", "bo", "command set_url", 12, None, "https://b/")
    moved = EndpointChange(
        3, NOW, "webhook_dispatcher", None, "url changed", None, "https://a/", "https://b/"
    )
    long = replace(moved, url_after="https://b/" + "b" * 60)
    rotated = replace(moved, action="secret rotated", url_after="https://a/")
    database.history = [set_, asked, moved, long, rotated]
    code, out, _ = shell("endpoint history m1", database)
    assert code == 0
    assert out.splitlines() == [
        "2026-11-20 08:15:30 endpoint set by cli:ana\N{REPLACEMENT CHARACTER} (webhook_admin)",
        "  - -> https://a/",
        "2026-11-20 08:15:30 command set_url 12 by bo (panel)",
        "  - -> https://b/",
        "2026-11-20 08:15:30 url changed by webhook_dispatcher",
        "  https://a/ -> https://b/",
        "2026-11-20 08:15:30 url changed by webhook_dispatcher",
        "  https://a/",
        "  -> https://b/" + "b" * 60,
        "2026-11-20 08:15:30 secret rotated by webhook_dispatcher",
    ]
    assert shell.json("endpoint history m1", database)[1]["command_id"] == 12
    database.history = []
    code, _, err = shell("endpoint history m1", database)
    assert (code, "nothing of 'm1' was changed" in err) == (1, True)


def test_setting_an_endpoint_again_changes_its_url_only(database: FakeAdministration, shell: Shell) -> None:
    shell("endpoint set m1 https://merchant.com/hooks", database)
    before = database.sealed["m1"]
    code, out, _ = shell("endpoint set m1 https://merchant.com/other", database)
    assert (code, database.endpoints["m1"].url) == (0, "https://merchant.com/other")
    assert database.sealed["m1"] == before
    assert "whsec_" not in out
    assert "the secret stays" in out


@pytest.mark.parametrize(
    "url", ["http://merchant.com/", "https://10.0.0.1/", "https://localhost/", "merchant.com"]
)
def test_a_forbidden_url_opens_nothing(database: FakeAdministration, shell: Shell, url: str) -> None:
    code, _, err = shell(f"endpoint set m1 {url}", database)
    assert code == 2
    assert err.startswith("webhook-dispatcher: URL: ")
    assert (err.count("\n"), database.opened) == (1, [])


def test_a_secret_is_rotated_at_once_or_with_an_overlap(database: FakeAdministration, shell: Shell) -> None:
    first = shell.json("endpoint set m1 https://merchant.com/", database)["secret"]
    second = shell.json("endpoint rotate-secret m1", database)
    assert (second["secret"] != first, second["previous_until"]) == (True, None)
    assert database.previous_until is None
    third = shell.json("endpoint rotate-secret m1 --overlap PT24H", database)
    assert third["previous_until"] == "2026-11-21T08:15:30.123Z"


@pytest.mark.parametrize(
    ("is_paused", "why"), [(True, "something is still being sent"), (False, "somebody has resumed it")]
)
def test_a_secret_that_cannot_be_held_in_time_is_kept(shell: Shell, is_paused: bool, why: str) -> None:
    database = FakeAdministration([replace(ASKED, command="pause", status=CommandStatus.DONE)])
    shell("endpoint set m1 https://merchant.com/", database)
    before = dict(database.sealed)
    database.not_held = [NotHeld(is_paused)] * 100
    code, out, err = shell("endpoint rotate-secret m1 --hold --deadline 2s", database)
    assert (code, out, why in err, database.sealed) == (1, "", True, before)


def test_a_rotation_asks_first_where_events_wait(shell: Shell) -> None:
    database = FakeAdministration()
    shell("endpoint set m1 https://merchant.com/", database)
    before, database.preview = dict(database.sealed), SOME
    code, _, err = shell("endpoint rotate-secret m1", database)
    assert (code, "m1: 5 to be sent" in err, database.sealed) == (2, True, before)
    for option in ("--yes", "--hold", "--overlap PT1H"):
        assert shell(f"endpoint rotate-secret m1 {option}", database)[0] == 0


@pytest.mark.parametrize("line", ["show m1", "rotate-secret m1", "remove m1 --yes"])
def test_a_merchant_without_endpoint_is_exit_1(shell: Shell, line: str) -> None:
    code, _, err = shell(f"endpoint {line}", FakeAdministration())
    assert (code, "'m1' has no endpoint" in err) == (1, True)


def test_removing_asks_first_where_it_can(database: FakeAdministration, shell: Shell) -> None:
    shell("endpoint set m1 https://merchant.com/", database)
    database.preview = Preview(3, False, {"skipped": 3}, {"m1": 3}, 0)
    code, _, err = shell("endpoint remove m1", database)
    assert (code, "m1: 3 owed, which fail as not_configured" in err) == (2, True)
    assert "m1" in database.endpoints
    assert shell("endpoint remove m1 --yes", database)[0] == 0
    assert database.endpoints == {}


def test_a_second_endpoint_is_added_when_nothing_is_sent_to_the_first(shell: Shell) -> None:
    database = FakeAdministration()
    shell("endpoint set m1 https://merchant.com/", database)
    database.times_sending = 20
    added = shell.json(
        "endpoint add m1 https://merchant.com/2 --types charge.failed --name refunds", database
    )
    assert (added["number"], added["name"], added["types"]) == (2, "refunds", ["charge.failed"])
    assert Keyring.parse(KEYS).open("m1", database.sealed["m1\x1f2"]).revealed == added["secret"].encode()
    assert "whsec_" not in shell("endpoint show m1 --endpoint 2", database)[1]
    database.times_sending = 1_000
    code, _, err = shell("endpoint add m1 https://merchant.com/3 --deadline PT3S", database)
    assert (code, "something is still being sent to it" in err) == (1, True)
    assert [each["number"] for each in shell.json("endpoint list m1", database)] == [1, 2]


def test_of_several_endpoints_the_first_is_told_apart_where_no_number_is_given(shell: Shell) -> None:
    paused = replace(ASKED, command="pause", status=CommandStatus.DONE)
    database = FakeAdministration([paused])
    shell("endpoint set m1 https://merchant.com/", database)
    shell("endpoint add m1 https://merchant.com/2", database)
    database.preview, database.not_held = SOME, [NotHeld(is_paused=False)]
    _, out, _ = shell("endpoint rotate-secret m1 --hold", database)
    assert "m1, endpoint 1: secret replaced" in out
    assert "nothing is sent until `resume m1 --endpoint 1`" in out
    assert [request.args for request in database.requests] == [{"endpoint": 1}]
    assert "m1, endpoint 1: 5 to be sent" in shell("endpoint rotate-secret m1", database)[2]
    assert "m1, endpoint 1: 5 owed" in shell("endpoint remove m1", database)[2]
    assert shell("endpoint remove m1 --yes", database)[1] == "m1, endpoint 1: removed\n"
    for line in ("show m1", "rotate-secret m1", "remove m1 --yes", "set m1 --order charge"):
        code, _, err = shell(f"endpoint {line}", database)
        assert (code, "'m1' has no endpoint 1; see `endpoint list m1`" in err) == (1, True)


def test_a_retry_of_an_event_that_went_to_several_endpoints_is_not_followed(shell: Shell) -> None:
    database = FakeAdministration([ASKED, DONE])
    database.deliveries = [
        replace(DELIVERY, event_id=UUID(int=number), endpoint=number, copy_of=EVENT) for number in (1, 2)
    ]
    code, out, _ = shell(f"deliveries retry {EVENT}", database)
    assert (code, "it goes to several endpoints" in out) == (0, True)
    database.requests = []
    database.attempts_to_come = [AttemptView(9, "manual", NOW, 31, 204, "delivered", None, None)]
    assert "attempt 9: delivered" in shell(f"deliveries retry {EVENT} --endpoint 2", database)[1]


@pytest.mark.parametrize(
    "line", ["pause --all", "resume --all", "deliveries list", "deliveries retry-failed --since 1h"]
)
def test_an_endpoint_is_one_of_a_merchant_that_is_named(shell: Shell, line: str) -> None:
    database = FakeAdministration([ASKED])
    assert shell(f"{line} --endpoint 2", database)[0] == 2
    assert (database.requests, database.wanted) == ([], None)


def test_deliveries_are_shown_with_their_attempts(database: FakeAdministration, shell: Shell) -> None:
    database.deliveries = [DELIVERY]
    database.attempts = [
        AttemptView(7, "schedule", NOW, 9, None, "connect", "ECONNREFUSED", None),
        AttemptView(8, "manual", NOW, 31, 500, "status", "500 Internal Server Error", "out\x1b[2J\u202eof"),
    ]
    document = shell.json(f"deliveries show {EVENT}", database)
    assert document["delivery"]["event_id"] == str(EVENT)
    assert document["delivery"]["finished_at"] == "2026-11-21T08:15:30.123Z"
    assert document["attempts"][0]["started_at"] == "2026-11-20T08:15:30.123Z"
    _, out, _ = shell(f"deliveries show {EVENT}", database)
    assert "exhausted" in out
    assert "manual" in out
    assert "ECONNREFUSED" in out
    assert (
        out.index("500 Internal Server Error") < out.index("answer to 8") < out.index("out\ufffd[2J\ufffdof")
    )
    assert "answer to 7" not in out
    assert (document["attempts"][1]["reason"], document["attempts"][1]["response_excerpt"]) == (
        "500 Internal Server Error",
        "out\x1b[2J\u202eof",
    )


def test_an_order_is_set_alone_or_with_the_url_and_shown_where_somebody_has_one(shell: Shell) -> None:
    database = FakeAdministration()
    code, _, err = shell("endpoint set m1 --order charge", database)
    assert (code, "has no endpoint" in err) == (1, True)
    made = shell.json("endpoint set m1 https://merchant.com/ --order charge", database)
    assert (made["created"], made["order"], made["at_once"]) == (True, "charge", 8)
    shown = shell.json("endpoint show m1", database)
    assert (shown["order"], shown["at_once"]) == ("charge", 8)
    assert "charge" in shell("endpoint list", database)[1]
    assert shell.json("endpoint set m1 --order charge --at-once 32", database)["at_once"] == 32
    assert shell.json("endpoint set m1 --order charge", database)["at_once"] == 32
    assert shell("endpoint set m1 --order merchant", database)[:2] == (
        0,
        "m1: order changed; the secret stays (see `endpoint rotate-secret`)\n",
    )
    assert "at_once" not in shell("endpoint list", database)[1]


def test_a_test_event_that_fails_says_why(shell: Shell) -> None:
    result = {"event_id": str(EVENT), "outcome": "connect", "status": None, "reason": "ECONNREFUSED"}
    done = replace(DONE, command="test_event", result=result)
    code, out, _ = shell("test-event m1", FakeAdministration([ASKED, done]))
    assert code == 1
    assert "outcome connect, status -, reason ECONNREFUSED" in out


def test_types_are_set_alone_or_with_the_url_and_shown_where_somebody_has_some(shell: Shell) -> None:
    database = FakeAdministration()
    code, _, err = shell("endpoint set m1 --types charge.failed", database)
    assert (code, "has no endpoint" in err) == (1, True)
    made = shell.json("endpoint set m1 https://merchant.com/ --types charge.failed,charge.created", database)
    assert (made["created"], made["types"]) == (True, ["charge.failed", "charge.created"])
    assert "charge.created" in shell("endpoint show m1", database)[1]
    assert "types" in shell("endpoint list", database)[1]
    code, _, err = shell("endpoint set m1 --types charge.invented", database)
    assert (code, "'charge.invented' is none of charge.created, " in err) == (2, True)
    database.own_types = [OwnType("charge.invented", "id", NOW, None)]
    assert shell("endpoint set m1 --types charge.invented", database)[0] == 0
    assert database.endpoints["m1"].types == ["charge.invented"]
    assert shell("endpoint set $platform --types charge.failed", database)[0] == 2
    assert shell("endpoint set m1 --types all", database)[:2] == (
        0,
        "m1: types changed; the secret stays (see `endpoint rotate-secret`)\n",
    )
    assert database.endpoints["m1"].types is None


def test_an_unknown_delivery_is_exit_1(shell: Shell) -> None:
    assert shell(f"deliveries show {EVENT}", FakeAdministration())[0] == 1


def test_filters_reach_the_database(database: FakeAdministration, shell: Shell) -> None:
    shell.json(
        "deliveries list --merchant m1 --state failed --since PT1H --until 2026-11-20T09:00:00+01:00",
        database,
    )
    wanted = database.wanted
    assert wanted is not None
    assert (wanted.merchant_id, wanted.state, wanted.limit) == ("m1", "failed", 50)
    assert wanted.since == NOW - timedelta(hours=1)
    assert wanted.until is not None
    assert wanted.until.isoformat() == "2026-11-20T09:00:00+01:00"


@pytest.mark.parametrize(
    ("line", "since"),
    [
        *(("", NOW - timedelta(days=1)), ("--merchant m1", None), (f"--event {EVENT}", None)),
        ("--since P9D", "P9D"),
    ],
)
def test_no_filter_means_the_last_day(shell: Shell, line: str, since: object) -> None:
    database = FakeAdministration()
    shell.json(f"deliveries list {line}", database)
    assert database.wanted is not None
    assert database.wanted.since == (NOW - timedelta(days=9) if since == "P9D" else since)


def test_text_from_the_database_cannot_drive_the_terminal(database: FakeAdministration, shell: Shell) -> None:
    database.endpoints["m1"] = EndpointView("m1", "https://x/\x1b[2J[red]", False, NOW, NOW, NOW)
    _, out, _ = shell("endpoint list", database)
    assert "\x1b" not in out
    assert "[2J[red]" in out


ASKED_BY: tuple[tuple[str, str, str | None, dict[str, Any]], ...] = (
    (f"deliveries retry {EVENT}", "retry", None, {}),
    (f"deliveries retry {EVENT} --force", "retry", None, {"force": True}),
    ("deliveries retry-failed --merchant m1 --limit 5", "retry_failed", "m1", {"limit": 5}),
    ("deliveries retry-failed --since PT1H --until 2026-11-20", "retry_failed", None,
     {"since": "2026-11-20T07:15:30.123Z", "until": "2026-11-20T00:00:00.000Z"}),
    ("recover m1 --since PT1H --until 2026-11-20 --yes", "recover", "m1",
     {"since": "2026-11-20T07:15:30.123Z", "until": "2026-11-20T00:00:00.000Z", "states": ["failed"],
     "leave_out": ["last_attempts", "failing"], "counted": 5}),
    ("recover --all --since PT1H --state skipped --state failed --type charge.failed --charge ch_1 "
     "--with-failing --limit 4 --yes", "recover", None, {"since": "2026-11-20T07:15:30.123Z",
     "until": "2026-11-20T08:15:30.123Z", "states": ["skipped", "failed"], "types": ["charge.failed"],
     "charge": "ch_1", "leave_out": ["last_attempts"], "limit": 4, "counted": 4}),
    ("skip m1 --before PT24H --yes", "skip", "m1", {"before": "2026-11-19T08:15:30.123Z", "counted": 5}),
    ("skip --all --before PT24H --yes", "skip", None, {"before": "2026-11-19T08:15:30.123Z", "all": True,
     "counted": 5}),
    ("skip m1 --since PT25H --before PT24H --type charge.failed --type charge.created --charge ch_1 --yes",
     "skip", "m1", {"since": "2026-11-19T07:15:30.123Z", "before": "2026-11-19T08:15:30.123Z",
     "types": ["charge.failed", "charge.created"], "charge": "ch_1", "counted": 5}),
    ("test-event m1", "test_event", "m1", {}),
    ("test-event m1 --type charge.failed", "test_event", "m1", {"type": "charge.failed"}),
    ("test-event m1 --type refund.created", "test_event", "m1", {"type": "refund.created"}),
    ("pause m1", "pause", "m1", {}),
    ("pause --all", "pause", None, {}),
    ("resume m1", "resume", "m1", {}),
    ("resume --all", "resume", None, {}),
    (f"deliveries retry {EVENT} --endpoint 2", "retry", None, {"endpoint": 2}),
    ("deliveries retry-failed --merchant m1 --endpoint 2", "retry_failed", "m1", {"endpoint": 2}),
    ("test-event m1 --endpoint 2", "test_event", "m1", {"endpoint": 2}),
    ("pause m1 --endpoint 2", "pause", "m1", {"endpoint": 2}),
    ("resume m1 --endpoint 2", "resume", "m1", {"endpoint": 2}),
)  # fmt: skip
"""Lines of the command line, and what each asks the control table for."""


def test_every_command_of_the_command_line_is_among_them() -> None:
    paths = {name: " ".join(spec.cli.path) for name, spec in COMMANDS.items() if spec.cli is not None}
    assert {command for _, command, *_ in ASKED_BY} == {*paths}
    assert [line for line, command, *_ in ASKED_BY if not line.startswith(paths[command])] == []


@pytest.mark.parametrize(("line", "command", "merchant", "args"), ASKED_BY)
def test_commands_are_asked_for(
    shell: Shell, line: str, command: str, merchant: str | None, args: dict[str, Any]
) -> None:
    database = FakeAdministration([ASKED, RUNNING, DONE])
    database.preview = SOME
    database.attempts_to_come = [AttemptView(9, "manual", NOW, 31, 204, "delivered", None, None)]
    code, out, _ = shell(line, database)
    (request,) = database.requests
    assert (code, request.command, request.merchant_id, request.args) == (0, command, merchant, args)
    assert request.requested_by.startswith("cli:")
    assert request.event_id == (EVENT if command == "retry" else None)
    assert "retried 5" in out


def test_without_waiting_the_command_is_only_asked_for(shell: Shell) -> None:
    assert (
        shell.json(f"deliveries retry {EVENT} --no-wait", FakeAdministration([ASKED]))["status"] == "pending"
    )


def test_a_command_that_nobody_takes_up_is_withdrawn(shell: Shell) -> None:
    database = FakeAdministration([ASKED])
    code, _, err = shell("pause m1 --deadline PT10S --requested-by ana", database)
    assert code == 1
    assert err == (
        "webhook-dispatcher: retry (command 12) was withdrawn: "
        "no dispatcher took it up within 10 s: is one running?\n"
    )
    assert database.withdrawn == [(12, "ana")]


def test_a_command_that_is_taken_up_at_the_deadline_is_followed(shell: Shell) -> None:
    database = FakeAdministration([ASKED, ASKED, ASKED, ASKED, RUNNING, DONE])
    database.can_withdraw = False
    code, out, _ = shell("pause m1 --deadline PT0.1S", database)
    assert (code, "done" in out, len(database.withdrawn)) == (0, True, 1)


def test_a_command_that_somebody_else_withdraws_is_exit_1(shell: Shell) -> None:
    withdrawn = replace(ASKED, status=CommandStatus.WITHDRAWN, error_message="withdrawn by bob")
    code, _, err = shell("pause m1", FakeAdministration([ASKED, withdrawn]))
    assert (code, err) == (1, "webhook-dispatcher: retry (command 12) was withdrawn by bob\n")


def test_commands_are_listed_with_what_came_of_them(database: FakeAdministration, shell: Shell) -> None:
    done = ListedCommand(
        *(3, "cancel", EVENT, NOW, CommandStatus.DONE, NOW, {"in_flight": True, "at": [1]}, None, None),
        *("ana", None),
    )
    rejected = replace(
        done, id=2, merchant_id="m1", status=CommandStatus.REJECTED, error_code=-14002, error_message="no"
    )
    waiting = replace(done, id=1, event_id=None, status=CommandStatus.PENDING, result=None)
    database.commands = [done, rejected, waiting]
    _, out, _ = shell("commands list --merchant m1 --status pending --limit 7", database)
    assert database.wanted_commands == ("m1", CommandStatus.PENDING, 7)
    lines = [line.split() for line in out.splitlines()]
    when = ("2026-11-20", "08:15:30")
    assert lines[1:] == [
        ["3", *when, "ana", "cancel", str(EVENT), "done", "in_flight", "yes,", "at", "[1]"],
        ["2", *when, "ana", "cancel", "m1", "rejected", "no", "(-14002)"],
        ["1", *when, "ana", "cancel", "everything", "pending"],
    ]
    assert [row["id"] for row in shell.json("commands list", database)] == [3, 2, 1]


def test_a_waiting_command_is_withdrawn_and_no_other(shell: Shell) -> None:
    database = FakeAdministration([DONE])
    assert shell("commands withdraw 12 --requested-by ana", database) == (0, "command 12: withdrawn\n", "")
    assert database.withdrawn == [(12, "ana")]
    database.can_withdraw = False
    code, _, err = shell("commands withdraw 12", database)
    assert (code, "command 12 is done: only what is pending can be withdrawn" in err) == (1, True)


def test_progress_extends_the_wait(shell: Shell) -> None:
    looks = [replace(RUNNING, result={"retried": number}) for number in range(100)]
    code, out, _ = shell("pause m1 --deadline PT0.1S", FakeAdministration([*looks, DONE]))
    assert (code, "done" in out) == (0, True)
    code, _, err = shell("pause m1 --deadline PT0.1S", FakeAdministration([RUNNING]))
    assert (code, "still running, without news" in err) == (1, True)


def test_names_are_set_one_by_one_and_taken_back_together(database: FakeAdministration, shell: Shell) -> None:
    for line, wanted in (
        ("names set --header-prefix Acme-", ("Acme-", None, None)),
        ("names set --user-agent '' --signatures service,standard", (None, "", ["service", "standard"])),
        ("names reset", ("Service-", "", ("service",))),
    ):
        code, out, err = shell(line, database)
        assert (code, err, database.names_set.pop()) == (0, "", wanted)
        assert "webhook-dispatcher/<version>" in out
    database.older = ["h1 (0.9)", "h2 (0.9)"]
    code, out, err = shell("names set --header-prefix Acme-", database)
    assert (code, out) == (1, "")
    assert "nothing was changed: dispatchers work that know no such names: h1 (0.9), h2 (0.9)" in err


@pytest.mark.parametrize(
    ("secret", "environ", "signatures", "said"),
    [
        ("whsec_" + "A" * 43 + "=", {}, ["service", "standard"], "service, standard"),
        ("whsec_" + "A" * 43, {}, ["service"], "service; not standard: its secret is no standard base64"),
        (
            "whsec_" + "A" * 43,
            {"WEBHOOK_SECRET_KEYS": ""},
            None,
            "whether standard too is not known",
        ),
    ],
)
def test_an_endpoint_says_which_signatures_it_is_sent(
    database: FakeAdministration,
    shell: Shell,
    secret: str,
    environ: dict[str, str],
    signatures: list[str] | None,
    said: str,
) -> None:
    shell("endpoint set m1 https://merchant.com/hooks", database)
    assert shell.json("endpoint show m1", database)["signatures"] == ["service"]
    database.names = Names(signatures=("service", "standard"))
    database.sealed["m1"] = Keyring.parse(KEYS).seal("m1", Secret(secret))
    assert shell.json("endpoint show m1", database, **environ)["signatures"] == signatures
    assert said in shell("endpoint show m1", database, **environ)[1]
