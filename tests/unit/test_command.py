"""What the control table's commands ask for."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import NOW
from webhook_dispatcher.domain.command import (
    COMMANDS,
    LONG_AGO,
    MAX_RETRIED,
    Cancel,
    Code,
    Command,
    CommandName,
    CommandRejected,
    CommandRow,
    Pause,
    Recover,
    Retry,
    RetryFailed,
    SetUrl,
    Skip,
    TestEvent,
    parse_command,
)

ID = UUID(int=7)
SINCE = "2026-11-20T08:15:30+02:00"
FUTURE = "2099-01-01T00:00:00Z"
SINCE_AT = datetime(2026, 11, 20, 6, 15, 30, tzinfo=UTC)
UNTIL_AT = datetime(2026, 11, 20, 7, tzinfo=UTC)
OF_TYPE = ("charge.failed",)


def make(name: str, merchant_id: str | None = None, event_id: UUID | None = None, **args: Any) -> CommandRow:
    return CommandRow(1, name, merchant_id, event_id, args, result={}, created_at=NOW, requested_by="a")


@pytest.mark.parametrize(
    ("row", "command"),
    [
        (make("retry", event_id=ID), Retry(ID, force=False)),
        (make("retry", event_id=ID, force=True), Retry(ID, force=True)),
        (make("retry_failed", "m"), RetryFailed("m", LONG_AGO, NOW, MAX_RETRIED)),
        (make("retry_failed", since=SINCE), RetryFailed(None, SINCE_AT, NOW, MAX_RETRIED)),
        (make("retry_failed", "m", until=SINCE), RetryFailed("m", LONG_AGO, SINCE_AT, MAX_RETRIED)),
        (make("retry_failed", "m", until=FUTURE), RetryFailed("m", LONG_AGO, NOW, MAX_RETRIED)),
        (make("retry_failed", "m", limit=MAX_RETRIED), RetryFailed("m", LONG_AGO, NOW, MAX_RETRIED)),
        (make("retry_failed", "m", since=None), RetryFailed("m", LONG_AGO, NOW, MAX_RETRIED)),
        (make("recover", "m"), Recover("m", LONG_AGO, NOW, MAX_RETRIED, created_at=NOW)),
        (make("recover", since=SINCE, until="2026-11-20T07:00:00Z", types=["charge.failed"], charge="ch_1",
              states=["skipped", "failed", "failed"], leave_out=["failing", "last_attempts"], limit=3),
         Recover(None, SINCE_AT, datetime(2026, 11, 20, 7, tzinfo=UTC), 3, ("failed", "skipped"),
                 ("charge.failed",), "ch_1", ("last_attempts", "failing"), NOW)),
        (make("skip", "m", before=SINCE), Skip("m", SINCE_AT)),
        (make("skip", all=True, before=FUTURE), Skip(None, NOW)),
        (make("skip", "m", since=SINCE, before=FUTURE, types=["charge.failed"], charge="ch_1"),
         Skip("m", NOW, SINCE_AT, ("charge.failed",), "ch_1")),
        (make("test_event", "m"), TestEvent("m")),
        (make("test_event", "m", type="charge.failed"), TestEvent("m", "charge.failed")),
        (make("set_url", "m", url="https://a.example/"), SetUrl("m", "https://a.example/")),
        *((make("pause", "m"), Pause("m", True)), (make("pause"), Pause(None, True))),
        *((make("resume", "m"), Pause("m", False)), (make("resume"), Pause(None, False))),
        (make("cancel", event_id=ID), Cancel(ID)),
        (make("cancel", event_id=ID, endpoint=2), Cancel(ID, 2)),
        (make("retry", event_id=ID, endpoint=None), Retry(ID, force=False)),
        (make("retry_failed", "m", endpoint=2), RetryFailed("m", LONG_AGO, NOW, MAX_RETRIED, 2)),
        (make("test_event", "m", endpoint=2), TestEvent("m", endpoint=2)),
        (make("set_url", "m", url="https://a.example/", endpoint=2), SetUrl("m", "https://a.example/", 2)),
        (make("pause", "m", endpoint=999), Pause("m", True, 999)),
        (make("resume", "m", endpoint=1), Pause("m", False, 1)),
    ],
)  # fmt: skip
def test_commands_are_parsed(row: CommandRow, command: Command) -> None:
    assert parse_command(row) == command


def test_every_command_is_of_one_endpoint_where_that_is_named() -> None:
    assert [name for name, spec in COMMANDS.items() if "`args.endpoint`" not in spec.takes] == []


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("recover", Recover("m", SINCE_AT, UNTIL_AT, MAX_RETRIED, created_at=NOW, endpoint=2)),
        ("recover", Recover(None, LONG_AGO, UNTIL_AT, 3, ("failed",), OF_TYPE, "ch_1", ("failing",), NOW)),
        ("skip", Skip("m", UNTIL_AT, endpoint=2)),
        ("skip", Skip(None, UNTIL_AT, SINCE_AT, OF_TYPE, "ch_1")),
    ],
)
def test_a_mass_command_is_read_as_it_is_written(name: str, command: Recover | Skip) -> None:
    given = {name: value for name, value in command.args.items() if value is not None}
    assert parse_command(make(name, command.merchant_id, **given)) == command


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (make("retry", "m"), "retry needs event_id"),
        *((make("retry", event_id=ID, force=force), "args.force is true or false")
          for force in ("yes", 1, None)),
        (make("recover"), "recover needs merchant_id or args.since"),
        *((make("recover", "m", states=states), "args.states is a list of some of failed, pending_retry")
          for states in (["pending"], [], "failed", [["failed"]])),
        (make("recover", "m", types=["webhook.test"]), "args.types is a list of some of charge.created"),
        (make("recover", "m", leave_out=["failed"]), "args.leave_out is a list of some of last_attempts"),
        (make("recover", "m", charge=5), "recover needs args.charge, a string"),
        (make("skip", "m"), "skip needs args.before, an instant"),
        (make("skip", before=SINCE), "skip needs either merchant_id or args.all = true"),
        (make("skip", "m", all=True, before=SINCE), "skip needs either merchant_id or args.all = true"),
        (make("skip", all="yes", before=SINCE), "args.all is true or false"),
        (make("skip", "m", before=SINCE, types=["webhook.test"]), "args.types is a list of some of"),
        (make("skip", "m", before=SINCE, charge=5), "skip needs args.charge, a string"),
        (make("skip", "m", before=SINCE, since="14:00"), "args.since is an instant such as"),
        (make("retry_failed", until=SINCE), "retry_failed needs merchant_id or args.since"),
        *((make("retry_failed", "m", limit=limit), "args.limit is a whole number from 1")
          for limit in (0, MAX_RETRIED + 1, True, 1.0, "10", None)),
        *((make("retry_failed", since=since), "args.since is an instant")
          for since in ("", "yesterday", 5, ["2026"], "infinity", "0001-01-01T00:00:00+14:00")),
        *((make("retry_failed", "m", until=until), "args.until is an instant")
          for until in ("9999-12-31T23:59:59-14:00", "now")),
        (replace(make("retry", event_id=ID), result=None), "result is not what a worker wrote"),
        (make("retry_failed", since="2026-11-20"), "args.since needs an offset"),
        (make("retry_failed", "m", until="2026-11-20T08:15:30"), "args.until needs an offset"),
        (replace(make("pause"), args=None), "args must be a JSON object"),
        (make("test_event", event_id=ID), "test_event needs merchant_id"),
        *((make("test_event", "m", type=kind), "args.type is one of webhook.test, charge.created")
          for kind in ("delivery.failed", "", "Refund", None, ["charge.failed"])),
        *((make("set_url", "m", **args), "set_url needs args.url, a string")
          for args in ({}, {"url": None}, {"url": ["https://a.example/"]})),
        (make("set_url", url="https://a.example/"), "set_url needs merchant_id"),
        (make("cancel", "m"), "cancel needs event_id"),
        *((make("", "m"), "unknown command"), (make("RETRY", event_id=ID), "unknown command")),
        (make("delete", "m"), f"known are {', '.join(COMMANDS)}"),
        *((make("pause", "m", endpoint=number), "args.endpoint is a whole number from 1 to 999")
          for number in (0, 1000, True, "2", [1])),
        *((make(name, endpoint=2), "args.endpoint needs merchant_id") for name in ("pause", "resume")),
        *((make(name, since=SINCE, endpoint=2), "args.endpoint needs merchant_id")
          for name in ("retry_failed", "recover")),
        (make("skip", all=True, before=SINCE, endpoint=2), "args.endpoint needs merchant_id"),
        (make("pause", "m\x1f2"), "merchant_id holds a control character"),
    ],
)  # fmt: skip
def test_malformed_commands_say_what_is_wrong(row: CommandRow, says: str) -> None:
    with pytest.raises(CommandRejected) as caught:
        parse_command(row)
    assert caught.value.code is Code.MALFORMED
    assert says in caught.value.message


def test_the_codes_are_the_contracts() -> None:
    assert {code.name: int(code) for code in Code} == {
        "INVALID_URL": -14001,
        "NOT_CONFIGURED": -14002,
        "NOT_FOUND": -14003,
        "WRONG_STATE": -14004,
        "MALFORMED": -14005,
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


ARGUMENTS = ["force", "since", "until", "limit", "url", "states", "types", "charge", "all", "before"]


@given(
    st.sampled_from(list(COMMANDS)) | st.text(),
    st.none() | st.text(),
    st.none() | st.uuids(),
    st.dictionaries(st.sampled_from(ARGUMENTS), JSON),
)
def test_whatever_was_written_is_parsed_or_rejected(
    name: str, merchant_id: str | None, event_id: UUID | None, args: dict[str, Any]
) -> None:
    row = make(name, merchant_id, event_id, **args)
    try:
        parse_command(row)
    except CommandRejected as rejection:
        code = rejection.code
    else:
        return
    assert code is Code.MALFORMED


def test_a_name_that_is_none_of_ours_never_becomes_a_label() -> None:
    assert [make(name).label for name in COMMANDS] == list(CommandName)
    assert make("m' or whatever").label == "unknown"


def test_no_attempt_is_taken_for_the_last_without_a_schedule() -> None:
    wanted = parse_command(make("recover", "m", leave_out=["last_attempts"]))
    assert isinstance(wanted, Recover)
    with pytest.raises(ValueError, match="depends on the schedule"):
        print(wanted.below_attempts)
    assert replace(wanted, retries=3).below_attempts == 3
    assert replace(wanted, leave_out=()).below_attempts is None
