"""Recover and skip: look by look through outbox and log, paced, resumed, stopped, past what is refused."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.unit.builders import NOW
from tests.unit.harnesses.controller import ATTEMPT_TIMEOUT, ControllerHarness
from tests.waiting import MAX_WAIT
from webhook_dispatcher.dispatch.control.controller import POLL
from webhook_dispatcher.dispatch.control.mass_command import (
    CHUNK_INTERVAL_SECONDS,
    CHUNK_SIZE,
    LOCKED_INTERVAL_SECONDS,
)
from webhook_dispatcher.dispatch.control.running_command import running_lease
from webhook_dispatcher.dispatch.control.skipping import SKIP_SIZE
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.domain.command import Code, CommandRow
from webhook_dispatcher.domain.errors import LockTaken, StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.mass_command import Matches

DAMAGE = StatementRefused("XX001", "missing chunk number 0")
ALL = {"failed": 0, "pending_retry": 0, "delivered": 0}


def found(*seqs: int, kind: str = "failed", looked: int | None = None, is_over: bool = False) -> Matches:
    merchants, kinds = ("m",) * len(seqs), (kind,) * len(seqs)
    passed = len(seqs) if looked is None else looked
    return Matches(
        seqs, passed, max(seqs, default=9), is_over, kinds, merchants, (NOW,) * len(seqs), merchants
    )


async def carry_out(harness: ControllerHarness, name: str, **changes: Any) -> CommandRow:
    command = harness.controls.insert(name, "m", **changes)
    assert await harness.step()
    return command


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness()


async def test_what_waits_comes_first_and_then_what_has_finished(harness: ControllerHarness) -> None:
    harness.controls.looks = [
        found(3, kind="pending_retry", is_over=True),
        found(1, 2),
        found(5, 6, kind="delivered", looked=7, is_over=True),
    ]
    harness.controls.left_out = {2}
    command = await carry_out(harness, "recover")
    handling = harness.controls.handlings[command.id]
    matched = {"failed": 2, "pending_retry": 1, "delivered": 2}
    assert (handling.status, handling.result) == ("done", {"matched": matched, "recovered": 4})
    assert harness.controls.asked_looks == [
        ("waiting", 0, CHUNK_SIZE),
        ("finished", 0, CHUNK_SIZE),
        ("finished", 2, CHUNK_SIZE),
    ]
    running, woken = ("mark_running", running_lease(ATTEMPT_TIMEOUT)), ("wake_lanes", {"m": None})
    chunks = [("run_all_now", (3,)), ("reopen_all", (1, 2)), ("reopen_all", (5, 6))]
    assert harness.controls.done == [running, *(step for chunk in chunks for step in (chunk, woken, running))]
    assert harness.controls.sent_again == [(command.id, (3,)), (command.id, (1,)), (command.id, (5, 6))]


@pytest.mark.parametrize(
    ("states", "looks"),
    [(["pending_retry"], ["waiting"]), (["delivered"], ["finished"]), (["failed", "skipped"], ["finished"])],
)
async def test_only_what_is_asked_for_is_looked_for(states: list[str], looks: list[str]) -> None:
    harness = ControllerHarness()
    command = await carry_out(harness, "recover", args={"states": states})
    assert [where for where, *_ in harness.controls.asked_looks] == looks
    result = {"matched": dict.fromkeys(states, 0), "recovered": 0}
    assert harness.controls.handlings[command.id].result == result


async def test_a_recovery_ends_at_its_limit(harness: ControllerHarness) -> None:
    harness.controls.looks = [
        found(is_over=True),
        found(*range(CHUNK_SIZE)),
        found(*range(100, 107)),
        found(500),
    ]
    await carry_out(harness, "recover", args={"limit": CHUNK_SIZE + 7})
    assert [limit for _, _, limit in harness.controls.asked_looks] == [CHUNK_SIZE, CHUNK_SIZE, 7]


async def test_a_resumed_recovery_goes_on_where_it_was(harness: ControllerHarness) -> None:
    harness.controls.looks = [found(8, kind="delivered", is_over=True)]
    progress = {"matched": ALL | {"failed": 4}, "recovered": 3, "passed": 70, "reached": ["finished", 7]}
    command = await carry_out(harness, "recover", result=progress)
    assert harness.controls.asked_looks == [("finished", 7, CHUNK_SIZE)]
    matched = ALL | {"failed": 4, "delivered": 1}
    assert harness.controls.handlings[command.id].result == {"matched": matched, "recovered": 4}


@pytest.mark.parametrize(
    "changed",
    [
        {"recovered": "3"},
        {"passed": None},
        {"reached": ["finished"]},
        {"reached": ["elsewhere", 7]},
        {"reached": ["finished", "x"]},
        {"matched": 5},
        {"matched": {"failed": 1}},
        {"matched": ALL | {"failed": "x"}},
    ],
)
async def test_progress_that_no_worker_wrote_is_rejected(changed: dict[str, object]) -> None:
    harness = ControllerHarness()
    progress = {"matched": ALL, "recovered": 3, "passed": 70, "reached": ["finished", 7]} | changed
    await harness.assert_rejected(harness.controls.insert("recover", "m", result=progress), Code.MALFORMED)


@pytest.mark.parametrize("name", ["recover", "skip", "retry_failed"])
async def test_a_command_that_is_stopped_is_done_and_says_so(harness: ControllerHarness, name: str) -> None:
    arguments = {"before": NOW.isoformat()} if name == "skip" else {}
    command = harness.controls.insert(name, "m", args=arguments)
    harness.controls.stopping.add(command.id)
    harness.controls.looks = [found(1), found(2)]
    await harness.step()
    handling = harness.controls.handlings[command.id]
    assert handling.status == "done"
    assert handling.result is not None
    assert handling.result["stopped"] is True
    assert harness.controls.asked_looks == []


async def test_a_recovery_that_waits_for_attempts_is_stopped(harness: ControllerHarness) -> None:
    harness.controls.looks = [found(is_over=True), found(*range(100)), found(200)]
    harness.controls.waiting.extend([100] * 1000)
    command = harness.controls.insert("recover", "m")
    running = asyncio.create_task(harness.step())
    async with asyncio.timeout(MAX_WAIT):
        while not harness.controls.counted:
            await asyncio.wait([running], timeout=0.005)
        harness.controls.stopping.add(command.id)
        await running
    assert harness.controls.handlings[command.id].result == {
        "matched": ALL | {"failed": 100},
        "recovered": 100,
        "stopped": True,
    }


async def test_looks_that_find_nothing_take_no_lock(harness: ControllerHarness) -> None:
    harness.controls.looks = [found(looked=10_000)] * 5
    harness.database.faults["lock_control"].extend([None, StorageUnavailable("a lock was taken")])
    command = await carry_out(harness, "recover", args={"states": ["delivered"]})
    assert harness.controls.handlings[command.id].status == "done"
    assert harness.controls.done == [("mark_running", running_lease(ATTEMPT_TIMEOUT))]


async def test_a_recovery_passes_over_what_cannot_be_made_owed_again(harness: ControllerHarness) -> None:
    halvings = [CHUNK_SIZE, 5, 2, 1]
    harness.database.faults["reopen_all"].extend([DAMAGE] * len(halvings))
    harness.controls.looks = [found(1)] * len(halvings) + [found(1), found(2, is_over=True)]
    command = await carry_out(harness, "recover", args={"states": ["failed"]})
    assert harness.controls.handlings[command.id].result == {"matched": {"failed": 2}, "recovered": 1}
    assert [limit for _, _, limit in harness.controls.asked_looks] == [*halvings, 1, CHUNK_SIZE]


BEFORE = {"before": NOW.isoformat()}


async def test_a_skip_gives_up_chunk_by_chunk_and_counts_what_failed(harness: ControllerHarness) -> None:
    harness.controls.looks = [found(1, 2), found(looked=9_000), found(7, is_over=True)]
    harness.controls.left_out = {2}
    command = await carry_out(harness, "skip", args=BEFORE)
    assert harness.controls.handlings[command.id].result == {"skipped": 2}
    # What was owed no more when it was locked may be owed under another number: the look is taken once more.
    assert harness.controls.asked_looks == [("skippable", after, SKIP_SIZE) for after in (0, 0, 9)]
    assert ("wake_lanes", {"m": None}) in harness.controls.done
    labels = {"state": "failed", "type": "charge.created", "reason": "skipped"}
    assert harness.metrics.registry.get_sample_value("webhook_deliveries_total", labels) == 2


@pytest.mark.parametrize("method", ["lock_control", "skip", "wake_lanes"])
async def test_a_chunk_that_meets_a_lock_is_tried_again(harness: ControllerHarness, method: str) -> None:
    before = (
        2 if method == "lock_control" else 1
    )  # the command's own transaction locks the control table, too
    harness.database.faults[method].extend(
        [None] * before + [LockTaken("canceling statement due to lock timeout")]
    )
    harness.controls.looks = [found(1), found(2), found(2, is_over=True)]
    command = await carry_out(harness, "skip", args=BEFORE)
    assert not harness.database.faults[method]
    assert harness.controls.handlings[command.id].status == "done"
    assert harness.controls.handlings[command.id].result == {"skipped": 2}


@pytest.mark.parametrize("name", ["skip", "recover"])
async def test_an_event_whose_charge_cannot_be_read_is_named(harness: ControllerHarness, name: str) -> None:
    harness.controls.looks = [replace(found(looked=1), is_unreadable=True), found(is_over=True)]
    with capture_logs() as logs:
        await carry_out(harness, name, args=BEFORE | {"charge": "ch_1", "states": ["failed"]})
    assert [line["seq"] for line in logs if line["event"] == "delivery.passed_over"] == [9]


async def test_others_may_carry_out_commands_while_a_chunk_meets_locks(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def noted(_: Stop, seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(Stop, "wait_at_most", noted)
    harness.database.faults["skip"].append(LockTaken("canceling statement due to lock timeout"))
    harness.controls.looks = [found(1), found(2, is_over=True)]
    await carry_out(harness, "skip", args=BEFORE)
    chunk, locked = CHUNK_INTERVAL_SECONDS, LOCKED_INTERVAL_SECONDS
    assert waits == [chunk, locked, chunk]
    assert locked >= 2 * POLL.seconds, "merchants' commands are looked for meanwhile, more than once"


async def test_a_skip_is_resumed_and_passes_over_what_is_refused(harness: ControllerHarness) -> None:
    harness.database.faults["skip"].extend([DAMAGE] * 9)
    harness.controls.looks = [found(5)] * 10 + [found(6, is_over=True)]
    progress = {"skipped": 3, "passed": 3, "reached": 4}
    command = await carry_out(harness, "skip", args=BEFORE, result=progress)
    assert harness.controls.asked_looks[0] == ("skippable", 4, SKIP_SIZE)
    assert harness.controls.handlings[command.id].result == {"skipped": 4}
    bad = harness.controls.insert("skip", "m", args=BEFORE, result=progress | {"reached": None})
    assert await harness.step()
    assert harness.controls.handlings[bad.id].code is Code.MALFORMED
