"""Taking commands up: what each does, and what is rejected with which code."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.builders import NOW
from tests.unit.fakes.controls import EVENT_ID
from tests.unit.harnesses.controller import URL, ControllerHarness
from tests.unit.loop_turns import quiet
from webhook_dispatcher.dispatch.control.postponed import POSTPONE_SECONDS
from webhook_dispatcher.domain.command import Code, CommandStatus
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.lane import lane_named
from webhook_dispatcher.domain.ports import Reopened

SECOND = lane_named("m", 2)
DOWN = StorageUnavailable("down")
DAMAGE = StatementRefused("XX001", "missing chunk number 0")


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness()


async def test_a_waiting_retry_is_run_now(harness: ControllerHarness) -> None:
    harness.controls.find(State.PENDING_RETRY, is_owed=True)
    command = harness.controls.insert("retry", event_id=EVENT_ID)
    await harness.assert_done(command, {"in_flight": False}, ("run_now", 7), ("wake_lanes", {"m": None}))


@pytest.mark.parametrize("is_seen", [True, False])
async def test_an_attempt_in_flight_is_the_retry(harness: ControllerHarness, is_seen: bool) -> None:
    harness.controls.find(State.PENDING_RETRY, is_owed=True, is_in_flight=is_seen)
    harness.controls.can_run_now = False
    command = harness.controls.insert("retry", event_id=EVENT_ID)
    await harness.assert_done(command, {"in_flight": True}, *[("run_now", 7)] * (not is_seen))


@pytest.mark.parametrize(
    ("state", "force"), [(State.FAILED, False), (State.FAILED, True), (State.DELIVERED, True)]
)
@pytest.mark.parametrize(("reopened", "head"), [(Reopened.DUE_NOW, None), (Reopened.IN_ORDER, 7)])
async def test_a_finished_delivery_is_reopened(
    harness: ControllerHarness, state: State, force: bool, reopened: Reopened, head: int | None
) -> None:
    harness.controls.find(state, is_owed=False)
    harness.controls.reopened = reopened
    command = harness.controls.insert("retry", event_id=EVENT_ID, args={"force": force})
    await harness.assert_done(command, {"in_flight": False}, ("reopen", 7), ("wake_lanes", {"m": head}))


async def test_retries_that_make_no_sense_are_rejected(harness: ControllerHarness) -> None:
    insert = harness.controls.insert
    await harness.assert_rejected(insert("retry", event_id=EVENT_ID), Code.NOT_FOUND)
    harness.controls.find(State.PENDING, is_owed=True)
    await harness.assert_rejected(insert("retry", event_id=EVENT_ID), Code.WRONG_STATE)
    harness.controls.find(State.DELIVERED, is_owed=False)
    await harness.assert_rejected(insert("retry", event_id=EVENT_ID), Code.WRONG_STATE)
    harness.controls.find(State.FAILED, is_owed=False)
    harness.controls.reopened = Reopened.ID_IS_OWED
    await harness.assert_rejected(insert("retry", event_id=EVENT_ID), Code.WRONG_STATE)
    harness.database.endpoints.clear()
    await harness.assert_rejected(insert("retry", event_id=EVENT_ID), Code.NOT_CONFIGURED)


@pytest.mark.parametrize(("state", "is_owed"), [(State.PENDING_RETRY, True), (State.FAILED, False)])
async def test_a_suspended_merchants_retry_is_rejected(state: State, is_owed: bool) -> None:
    harness = ControllerHarness()
    harness.controls.suspended["m"] = NOW
    harness.controls.find(state, is_owed=is_owed)
    command = harness.controls.insert("retry", event_id=EVENT_ID)
    await harness.assert_rejected(command, Code.WRONG_STATE)
    assert "suspended since 2026-11-20T08:15:30.123Z" in harness.controls.handlings[command.id].message
    harness.controls.find(state, is_owed=True, is_in_flight=True)
    await harness.assert_done(harness.controls.insert("retry", event_id=EVENT_ID), {"in_flight": True})


async def test_what_would_be_routed_first_is_of_no_endpoint(harness: ControllerHarness) -> None:
    harness.controls.find(State.FAILED, is_owed=False)
    harness.controls.deliveries = tuple(
        replace(delivery, endpoint=None) for delivery in harness.controls.deliveries
    )
    harness.controls.suspended["m"] = NOW
    harness.database.endpoints[SECOND] = harness.database.endpoints.pop("m")
    of_first = harness.controls.insert("retry", event_id=EVENT_ID, args={"endpoint": 1})
    await harness.assert_rejected(of_first, Code.NOT_FOUND)
    made_due = ("reopen", 7), ("wake_lanes", {"m": None})
    given = harness.controls.insert("retry", event_id=EVENT_ID)
    await harness.assert_done(given, {"in_flight": False}, *made_due)


@pytest.mark.parametrize("takes_together", [True, False])
@pytest.mark.parametrize("is_in_flight", [True, False])
@pytest.mark.parametrize("state", [State.PENDING, State.PENDING_RETRY])
async def test_what_is_owed_is_cancelled(state: State, is_in_flight: bool, takes_together: bool) -> None:
    harness = ControllerHarness()
    harness.controls.takes_together = takes_together
    harness.controls.find(state, is_owed=True, is_in_flight=is_in_flight)
    command = harness.controls.insert("cancel", event_id=EVENT_ID)
    await harness.assert_done(command, {"in_flight": is_in_flight}, ("cancel", {7}))
    deliveries = {"state": "failed", "type": "charge.created", "reason": "cancelled"}
    assert harness.metrics.registry.get_sample_value("webhook_deliveries_total", deliveries) == 1


@pytest.mark.parametrize("takes_together", [True, False])
async def test_what_is_not_owed_is_not_cancelled(harness: ControllerHarness, takes_together: bool) -> None:
    harness.controls.takes_together = takes_together
    await harness.assert_rejected(harness.controls.insert("cancel", event_id=EVENT_ID), Code.NOT_FOUND)
    harness.controls.find(State.DELIVERED, is_owed=True)  # a forced repetition
    await harness.assert_rejected(harness.controls.insert("cancel", event_id=EVENT_ID), Code.WRONG_STATE)
    harness.controls.find(State.FAILED, is_owed=False)
    await harness.assert_rejected(harness.controls.insert("cancel", event_id=EVENT_ID), Code.WRONG_STATE)
    harness.controls.find(State.PENDING, is_owed=True)
    harness.controls.is_cancelled = False
    await harness.assert_rejected(harness.controls.insert("cancel", event_id=EVENT_ID), Code.WRONG_STATE)


@pytest.mark.parametrize(
    ("first", "args", "reopened"),
    [
        (State.DELIVERED, {}, {8: SECOND}),
        (State.FAILED, {}, {7: "m", 8: SECOND}),
        (State.FAILED, {"endpoint": 2}, {8: SECOND}),
        (State.DELIVERED, {"force": True, "endpoint": 1}, {7: "m"}),
    ],
)
async def test_a_retry_of_an_event_is_of_those_deliveries_that_can_be(
    harness: ControllerHarness, first: State, args: dict[str, Any], reopened: dict[int, str]
) -> None:
    harness.database.configure(SECOND)
    harness.controls.find(first, is_owed=False)
    harness.controls.find(State.FAILED, is_owed=False, endpoint=2)
    command = harness.controls.insert("retry", event_id=EVENT_ID, args=args)
    made_due = [("reopen", seq) for seq in reopened]
    woken = ("wake_lanes", dict.fromkeys(reopened.values()))
    await harness.assert_done(command, {"in_flight": False}, *made_due, woken)


async def test_a_retry_of_an_event_of_which_none_can_be_is_rejected_as_the_first(
    harness: ControllerHarness,
) -> None:
    harness.controls.find(State.DELIVERED, is_owed=False)
    harness.controls.find(State.PENDING, is_owed=True, endpoint=2)
    command = harness.controls.insert("retry", event_id=EVENT_ID)
    await harness.assert_rejected(command, Code.WRONG_STATE)
    assert "was delivered" in harness.controls.handlings[command.id].message
    other = harness.controls.insert("retry", event_id=EVENT_ID, args={"endpoint": 3})
    await harness.assert_rejected(other, Code.NOT_FOUND)


async def test_a_cancel_of_an_event_is_of_those_deliveries_that_are_owed(harness: ControllerHarness) -> None:
    harness.controls.find(State.DELIVERED, is_owed=False)
    harness.controls.find(State.PENDING_RETRY, is_owed=True, is_in_flight=True, endpoint=2)
    command = harness.controls.insert("cancel", event_id=EVENT_ID)
    await harness.assert_done(command, {"in_flight": True}, ("cancel", {8}))
    of_first = harness.controls.insert("cancel", event_id=EVENT_ID, args={"endpoint": 1})
    await harness.assert_rejected(of_first, Code.WRONG_STATE)


async def test_a_pause_or_another_url_may_be_of_one_endpoint(harness: ControllerHarness) -> None:
    harness.database.configure(SECOND)
    second = {"endpoint": 2}
    await harness.assert_done(harness.controls.insert("pause", "m", args=second), {}, ("pause", "m", True, 2))
    harness.controls.done.clear()
    await harness.assert_done(
        harness.controls.insert("set_url", "m", args={"url": URL, **second}), {}, ("set_url", SECOND, URL)
    )
    harness.controls.done.clear()
    third = harness.controls.insert("resume", "m", args={"endpoint": 3})
    await harness.assert_rejected(third, Code.NOT_CONFIGURED)


async def test_a_url_is_changed_if_the_new_one_is_public(harness: ControllerHarness) -> None:
    insert = harness.controls.insert
    await harness.assert_rejected(insert("set_url", "m", args={"url": "https://10.0.0.1/"}), Code.INVALID_URL)
    await harness.assert_rejected(insert("set_url", "stranger", args={"url": URL}), Code.NOT_CONFIGURED)
    await harness.assert_done(insert("set_url", "m", args={"url": URL}), {}, ("set_url", "m", URL))


@pytest.mark.parametrize("name", ["pause", "resume", "test_event", "recover"])
async def test_a_merchant_without_endpoint_is_not_configured(harness: ControllerHarness, name: str) -> None:
    await harness.assert_rejected(harness.controls.insert(name, "stranger"), Code.NOT_CONFIGURED)


@pytest.mark.parametrize("name", ["retry", "no such command"])
async def test_a_malformed_command_stops_no_other(harness: ControllerHarness, name: str) -> None:
    await harness.assert_rejected(harness.controls.insert(name), Code.MALFORMED)
    assert harness.counted("unknown", "rejected") == (1 if name != "retry" else None)
    await harness.assert_done(harness.controls.insert("pause"), {}, ("pause", None, True))


async def test_values_that_the_database_refuses_are_malformed(harness: ControllerHarness) -> None:
    harness.database.faults["set_url"].append(StatementRefused("22021", "a zero byte"))
    await harness.assert_rejected(harness.controls.insert("set_url", "m", args={"url": URL}), Code.MALFORMED)


async def test_a_command_that_cannot_be_read_does_not_hold_up_later_ones(harness: ControllerHarness) -> None:
    unread, later = harness.controls.insert("pause", "m"), harness.controls.insert("resume", "m")
    harness.database.faults["read_command"].append(DAMAGE)
    other = harness.controls.insert("resume", "n")
    harness.database.configure("n")
    assert await harness.step()
    assert harness.controls.handlings[unread.id].status == "pending"
    assert harness.controls.handlings[other.id].status == "done"
    assert not await harness.step()
    assert harness.controls.handlings[later.id].status == "pending", "its merchant's commands go in order"
    harness.clock.advance(POSTPONE_SECONDS + 0.1)
    harness.database.faults["read_command"].append(DAMAGE)
    assert await harness.step()
    assert harness.controls.handlings[unread.id].code is Code.MALFORMED
    assert harness.counted("unknown", "rejected") == 1
    assert await harness.step()
    assert harness.controls.handlings[later.id].status == "done"


async def test_a_command_that_could_not_be_read_once_is_carried_out(harness: ControllerHarness) -> None:
    command = harness.controls.insert("pause")
    harness.database.faults["read_command"].append(DAMAGE)
    assert await harness.step()
    harness.clock.advance(POSTPONE_SECONDS + 0.1)
    await harness.assert_done(command, {}, ("pause", None, True))


async def test_a_command_that_was_read_in_between_is_not_unreadable(harness: ControllerHarness) -> None:
    command = harness.controls.insert("set_url", "m", args={"url": URL})
    faults = harness.database.faults
    faults["read_command"].append(DAMAGE)
    assert await harness.step()
    harness.clock.advance(POSTPONE_SECONDS + 0.1)
    faults["set_url"].append(DOWN)
    with pytest.raises(ExceptionGroup):
        await harness.step()
    harness.clock.advance(POSTPONE_SECONDS + 0.1)
    faults["read_command"].append(DAMAGE)
    assert await harness.step()
    assert harness.controls.handlings[command.id].status == "pending"


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("next_commands", DAMAGE),
        ("next_commands", StatementRefused("42501", "permission denied")),
        ("lock_control", DAMAGE),
        ("take", DAMAGE),
        ("read_command", StatementRefused("42501", "permission denied")),
        ("set_url", StatementRefused("42501", "permission denied")),
    ],
)
async def test_only_its_own_values_reject_a_command(method: str, error: StatementRefused) -> None:
    harness = ControllerHarness()
    command = harness.controls.insert("set_url", "m", args={"url": URL})
    harness.database.faults[method].append(error)
    with pytest.raises(ExceptionGroup):
        await harness.step()
    assert harness.controls.handlings[command.id].status == "pending"


async def test_a_command_that_failed_lets_later_ones_pass_for_a_moment(harness: ControllerHarness) -> None:
    harness.database.faults["find_deliveries"].append(DOWN)
    stuck = harness.controls.insert("retry", event_id=EVENT_ID)
    async with asyncio.TaskGroup() as group:
        with pytest.raises(StorageUnavailable):
            await harness.controller.step(group)
    await harness.assert_done(harness.controls.insert("pause"), {}, ("pause", None, True))
    assert not await harness.step()
    harness.clock.advance(POSTPONE_SECONDS + 0.1)
    assert await harness.step()
    assert harness.controls.handlings[stuck.id].code is Code.NOT_FOUND


async def test_a_round_is_in_order_of_id_but_what_has_failed_is_last(harness: ControllerHarness) -> None:
    harness.database.faults["find_deliveries"].append(DOWN)
    stuck = harness.controls.insert("retry", event_id=EVENT_ID)
    async with asyncio.TaskGroup() as group:
        with pytest.raises(StorageUnavailable):
            await harness.controller.step(group)
        harness.clock.advance(POSTPONE_SECONDS + 0.1)
        later = [harness.controls.insert("pause"), harness.controls.insert("pause", "m")]
        harness.database.faults["find_deliveries"].append(DOWN)
        with pytest.raises(StorageUnavailable):
            await harness.controller.step(group)
    assert harness.controls.done == [("pause", None, True), ("pause", "m", True)]
    statuses = [harness.controls.handlings[row.id].status for row in (stuck, *later)]
    assert statuses == ["pending", "done", "done"]


async def test_a_command_that_is_withdrawn_is_left_alone(harness: ControllerHarness) -> None:
    withdrawn, other = harness.controls.insert("pause", "m"), harness.controls.insert("resume")

    def withdraw() -> None:
        harness.controls.handlings[withdrawn.id].status = CommandStatus.WITHDRAWN

    harness.controls.before_take.append(withdraw)
    assert await harness.step()
    assert harness.controls.done == [("pause", None, False)]
    assert harness.controls.handlings[withdrawn.id].status == "withdrawn"
    assert harness.controls.handlings[other.id].status == "done"


async def test_a_command_that_is_withdrawn_meanwhile_is_not_rejected(harness: ControllerHarness) -> None:
    command = harness.controls.insert("set_url", "m", args={"url": URL})
    harness.database.faults["set_url"].append(StatementRefused("22021", "a zero byte"))

    def withdraw() -> None:
        harness.controls.handlings[command.id].status = CommandStatus.WITHDRAWN

    harness.controls.before_take.extend([lambda: None, withdraw])
    assert await harness.step()
    assert harness.controls.handlings[command.id].status == "withdrawn"


async def test_while_another_dispatcher_is_at_it_a_round_ends(harness: ControllerHarness) -> None:
    harness.controls.lock_answers.append(False)
    harness.controls.insert("pause", "m")
    harness.controls.insert("pause")
    assert not await harness.step()
    assert harness.controls.done == []


async def test_a_stop_ends_a_round(harness: ControllerHarness) -> None:
    harness.controls.insert("pause", "m")
    harness.controls.insert("pause")
    harness.controls.before_take.append(harness.stop.set)
    assert await harness.step()
    assert harness.controls.done == [("pause", "m", True)]


async def test_a_merchants_command_makes_way_for_an_operators(harness: ControllerHarness) -> None:
    harness.controls.insert("pause", "m")
    harness.controls.control_is_free.clear()
    operators = asyncio.ensure_future(harness.right_of_way.take(harness.controls))
    await quiet()
    assert not await harness.step()
    harness.controls.control_is_free.set()
    await operators
    assert await harness.step()
    assert harness.controls.done == [("pause", "m", True)]


@pytest.mark.parametrize("name", ["pause", "resume"])
async def test_a_pause_or_resume_overtakes_what_came_before(harness: ControllerHarness, name: str) -> None:
    command = harness.controls.insert(name, "m")
    assert await harness.step()
    assert harness.controls.decided == [command.id]
