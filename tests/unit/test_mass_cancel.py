"""Cancels go together where they wait for nothing but each other, and one by one where that fails."""

from uuid import UUID

import pytest

from tests.unit.fakes.controls import EVENT_ID
from tests.unit.harnesses.controller import ControllerHarness
from webhook_dispatcher.dispatch.control import mass_cancel
from webhook_dispatcher.dispatch.control.mass_cancel import MAX_CANCELS
from webhook_dispatcher.domain.command import Code, CommandRow
from webhook_dispatcher.domain.errors import StatementRefused, StorageError, StorageUnavailable
from webhook_dispatcher.domain.event import State

DAMAGE = StatementRefused("XX001", "missing chunk number 0")
NO_RIGHT = StatementRefused("42501", "permission denied")
DOWN = StorageUnavailable("down")


def insert_cancels(harness: ControllerHarness, merchant_id: str, count: int) -> list[CommandRow]:
    """Ask for cancels of a merchant's events; the fake finds the same delivery for each."""
    events = [UUID(int=1000 + number) for number in range(count)]
    return [harness.controls.insert("cancel", merchant_id, event_id=event) for event in events]


def statuses(harness: ControllerHarness, commands: list[CommandRow]) -> list[str]:
    return [harness.controls.handlings[command.id].status for command in commands]


@pytest.fixture
def harness() -> ControllerHarness:
    """Return one in which each event that is named is owed."""
    harness = ControllerHarness()
    harness.controls.find(State.PENDING, is_owed=True)
    return harness


async def test_cancels_of_one_merchant_are_finished_together(harness: ControllerHarness) -> None:
    commands = insert_cancels(harness, "m", 3)
    assert await harness.step()
    assert harness.controls.finished_together == [[1, 2, 3]]
    assert (statuses(harness, commands), harness.counted("cancel", "done")) == (["done"] * 3, 3)


async def test_the_second_of_two_cancels_of_one_event_is_rejected(harness: ControllerHarness) -> None:
    for _ in range(2):
        harness.controls.insert("cancel", event_id=EVENT_ID)
    await harness.step()
    assert [handling.code for handling in harness.controls.handlings.values()] == [None, Code.WRONG_STATE]
    assert (harness.counted("cancel", "done"), harness.counted("cancel", "rejected")) == (1, 1)


@pytest.mark.parametrize("merchants", [1, 3, MAX_CANCELS])
async def test_merchants_share_one_transactions_cancels(harness: ControllerHarness, merchants: int) -> None:
    for number in range(merchants):
        insert_cancels(harness, f"m{number}", 1)
    await harness.step()
    assert harness.controls.shares == [MAX_CANCELS // merchants]


async def test_a_pause_of_another_merchant_goes_beside_any_number_of_cancels(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mass_cancel, "MAX_CANCELS", 2)
    harness.database.configure("other")
    commands = insert_cancels(harness, "m", 5)
    pause = harness.controls.insert("pause", "other")
    await harness.step()
    assert statuses(harness, [*commands, pause]) == ["done"] * 2 + ["pending"] * 3 + ["done"]


@pytest.mark.parametrize("method", ["find_deliveries", "cancel", "finish_all"])
async def test_what_is_refused_together_is_tried_one_by_one(harness: ControllerHarness, method: str) -> None:
    commands = insert_cancels(harness, "m", 3)
    harness.database.faults[method].append(DAMAGE)
    assert await harness.step()
    assert statuses(harness, commands) == ["pending"] * 3
    later = insert_cancels(harness, "m", 2)
    for done in (1, 2, 3):
        assert await harness.step()
        assert statuses(harness, commands) == ["done"] * done + ["pending"] * (3 - done)
    assert harness.controls.finished_together == []
    assert await harness.step()
    assert statuses(harness, later) == ["done", "done"]
    assert harness.controls.finished_together == [[4, 5]], "those behind go together again"


async def test_the_one_that_is_refused_is_rejected_alone(harness: ControllerHarness) -> None:
    commands = insert_cancels(harness, "m", 3)
    harness.database.faults["cancel"].extend([DAMAGE, None, DAMAGE])
    for _ in range(4):
        assert await harness.step()
    assert statuses(harness, commands) == ["done", "rejected", "done"]


@pytest.mark.parametrize(
    ("method", "error"), [("cancel", NO_RIGHT), ("cancel", DOWN), ("await_control", DAMAGE)]
)
async def test_other_faults_reject_none(harness: ControllerHarness, method: str, error: StorageError) -> None:
    commands = insert_cancels(harness, "m", 2)
    harness.database.faults[method].append(error)
    with pytest.raises(ExceptionGroup):
        await harness.step()
    assert "rejected" not in statuses(harness, commands)
