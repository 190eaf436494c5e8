"""Taking commands up: what each does, and what is rejected with which code."""

import asyncio

import pytest

from tests.unit.controlling import URL, Office
from tests.unit.fake_desk import EVENT_ID
from webhook_dispatcher.dispatch.control.controller import POSTPONED_FOR
from webhook_dispatcher.domain.command import Code
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import State

DOWN = StorageUnavailable("down")
DAMAGE = StatementRefused("XX001", "missing chunk number 0")


async def test_without_a_command_there_is_nothing_to_do() -> None:
    assert not await Office().step()


async def test_a_waiting_retry_is_hastened() -> None:
    office = Office()
    office.desk.find(State.PENDING_RETRY, is_owed=True)
    command = office.desk.give("retry", event_id=EVENT_ID)
    await office.assert_done(command, {"in_flight": False}, ("hasten", 7), ("announce", {"m": None}))


@pytest.mark.parametrize("is_seen", [True, False])
async def test_an_attempt_in_flight_is_the_retry(is_seen: bool) -> None:
    office = Office()
    office.desk.find(State.PENDING_RETRY, is_owed=True, is_in_flight=is_seen)
    office.desk.is_hastened = False
    command = office.desk.give("retry", event_id=EVENT_ID)
    await office.assert_done(command, {"in_flight": True}, *[("hasten", 7)] * (not is_seen))


@pytest.mark.parametrize(
    ("state", "force"), [(State.FAILED, False), (State.FAILED, True), (State.DELIVERED, True)]
)
@pytest.mark.parametrize(("is_in_order", "head"), [(False, None), (True, 7)])
async def test_a_finished_delivery_is_reopened(
    state: State, force: bool, is_in_order: bool, head: int | None
) -> None:
    office = Office()
    office.desk.find(state, is_owed=False)
    office.desk.reopens = is_in_order
    command = office.desk.give("retry", event_id=EVENT_ID, args={"force": force})
    await office.assert_done(command, {"in_flight": False}, ("reopen", 7), ("announce", {"m": head}))


async def test_retries_that_make_no_sense_are_rejected() -> None:
    office = Office()
    give = office.desk.give
    await office.assert_rejected(give("retry", event_id=EVENT_ID), Code.NOT_FOUND)
    office.desk.find(State.PENDING, is_owed=True)
    await office.assert_rejected(give("retry", event_id=EVENT_ID), Code.WRONG_STATE)
    office.desk.find(State.DELIVERED, is_owed=False)
    await office.assert_rejected(give("retry", event_id=EVENT_ID), Code.WRONG_STATE)
    office.desk.find(State.FAILED, is_owed=False)
    office.desk.reopens = None
    await office.assert_rejected(give("retry", event_id=EVENT_ID), Code.WRONG_STATE)
    office.database.endpoints.clear()
    await office.assert_rejected(give("retry", event_id=EVENT_ID), Code.NOT_CONFIGURED)


@pytest.mark.parametrize("is_in_flight", [True, False])
@pytest.mark.parametrize("state", [State.PENDING, State.PENDING_RETRY])
async def test_what_is_owed_is_cancelled(state: State, is_in_flight: bool) -> None:
    office = Office()
    office.desk.find(state, is_owed=True, is_in_flight=is_in_flight)
    command = office.desk.give("cancel", event_id=EVENT_ID)
    result = {"in_flight": is_in_flight}
    await office.assert_done(command, result, ("cancel", EVENT_ID), ("announce", {"m": None}))


async def test_what_is_not_owed_is_not_cancelled() -> None:
    office = Office()
    office.desk.find(State.DELIVERED, is_owed=True)  # a forced repetition
    await office.assert_rejected(office.desk.give("cancel", event_id=EVENT_ID), Code.WRONG_STATE)
    office.desk.find(State.FAILED, is_owed=False)
    await office.assert_rejected(office.desk.give("cancel", event_id=EVENT_ID), Code.WRONG_STATE)
    office.desk.find(State.PENDING, is_owed=True)
    office.desk.is_cancelled = False
    await office.assert_rejected(office.desk.give("cancel", event_id=EVENT_ID), Code.WRONG_STATE)


@pytest.mark.parametrize(("name", "is_paused"), [("pause", True), ("resume", False)])
@pytest.mark.parametrize("merchant_id", ["m", None])
async def test_merchants_or_all_are_paused_and_resumed(
    name: str, is_paused: bool, merchant_id: str | None
) -> None:
    office = Office()
    await office.assert_done(office.desk.give(name, merchant_id), {}, ("pause", merchant_id, is_paused))


async def test_a_url_is_changed_when_there_is_one_and_the_new_one_is_public() -> None:
    office = Office()
    give = office.desk.give
    await office.assert_rejected(give("set_url", "m", args={"url": "https://10.0.0.1/"}), Code.INVALID_URL)
    await office.assert_rejected(give("set_url", "stranger", args={"url": URL}), Code.NOT_CONFIGURED)
    await office.assert_done(give("set_url", "m", args={"url": URL}), {}, ("set_url", "m", URL))


@pytest.mark.parametrize("name", ["pause", "resume", "test_event"])
async def test_a_merchant_without_endpoint_is_not_configured(name: str) -> None:
    office = Office()
    await office.assert_rejected(office.desk.give(name, "stranger"), Code.NOT_CONFIGURED)


@pytest.mark.parametrize("name", ["retry", "no such command"])
async def test_a_malformed_command_is_rejected_and_the_next_is_taken_up(name: str) -> None:
    office = Office()
    await office.assert_rejected(office.desk.give(name), Code.MALFORMED)
    assert office.counted("unknown", "rejected") == (1 if name != "retry" else None)
    await office.assert_done(office.desk.give("pause"), {}, ("pause", None, True))


async def test_arguments_that_cannot_be_read_are_malformed() -> None:
    office = Office()
    await office.assert_rejected(office.desk.give("pause", args=None), Code.MALFORMED)


async def test_values_that_the_database_refuses_do_not_hold_up_later_commands() -> None:
    office = Office()
    office.database.faults["set_url"].append(StatementRefused("22021", "a zero byte"))
    await office.assert_rejected(office.desk.give("set_url", "m", args={"url": URL}), Code.MALFORMED)


async def test_a_command_that_cannot_be_read_does_not_hold_up_later_ones() -> None:
    office = Office()
    unread, later = office.desk.give("pause", "m"), office.desk.give("resume", "m")
    office.database.faults["read_command"].append(DAMAGE)
    assert await office.step()
    assert office.desk.standing[unread.id].status == "pending"
    assert await office.step()
    assert office.desk.standing[later.id].status == "done"
    office.clock.advance(POSTPONED_FOR + 0.1)
    office.database.faults["read_command"].append(DAMAGE)
    assert await office.step()
    assert office.desk.standing[unread.id].code is Code.MALFORMED
    assert office.counted("unknown", "rejected") == 1


async def test_a_command_that_could_not_be_read_once_is_carried_out() -> None:
    office = Office()
    command = office.desk.give("pause")
    office.database.faults["read_command"].append(DAMAGE)
    assert await office.step()
    office.clock.advance(POSTPONED_FOR + 0.1)
    await office.assert_done(command, {}, ("pause", None, True))


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("next_command", DAMAGE),
        ("next_command", StatementRefused("42501", "permission denied")),
        ("read_command", StatementRefused("42501", "permission denied")),
    ],
)
async def test_only_a_commands_own_read_can_reject_it(method: str, error: StatementRefused) -> None:
    office = Office()
    command = office.desk.give("pause", "m")
    office.database.faults[method].append(error)
    with pytest.raises(ExceptionGroup):
        await office.step()
    assert office.desk.standing[command.id].status == "pending"


async def test_a_command_that_could_not_be_carried_out_lets_later_ones_pass_for_a_moment() -> None:
    office = Office()
    office.database.faults["find_delivery"].append(DOWN)
    stuck = office.desk.give("retry", event_id=EVENT_ID)
    async with asyncio.TaskGroup() as group:
        with pytest.raises(StorageUnavailable):
            await office.controller.step(group)
    await office.assert_done(office.desk.give("pause"), {}, ("pause", None, True))
    assert not await office.step()
    office.clock.advance(POSTPONED_FOR + 0.1)
    assert await office.step()
    assert office.desk.standing[stuck.id].code is Code.NOT_FOUND
