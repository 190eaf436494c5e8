"""How a secret is replaced as soon as deliveries are held."""

from datetime import timedelta

import pytest

from webhook_dispatcher.domain.errors import NotHeld
from webhook_dispatcher.storage.api.held_rotation import LOOK, when_held

NOT_PAUSED, SENDING = NotHeld(is_paused=False), NotHeld(is_paused=True)


async def looks(states: list[NotHeld | str], patience: timedelta) -> list[str]:
    """Return what was done, in order, and how it ended."""
    done: list[str] = []

    async def rotate() -> str:
        state = states.pop(0)
        if isinstance(state, NotHeld):
            raise state
        return state

    async def pause() -> None:
        done.append("pause")

    async def sleep(seconds: float) -> None:
        assert seconds == LOOK.total_seconds()
        done.append("sleep")

    try:
        done.append(await when_held(rotate, pause, patience, sleep))
    except NotHeld as error:
        done.append(str(error))
    return done


@pytest.mark.parametrize(
    ("states", "done"),
    [
        (["rotated"], ["rotated"]),
        ([SENDING, "rotated"], ["sleep", "rotated"]),
        ([NOT_PAUSED, NOT_PAUSED, SENDING, "rotated"], ["pause", "sleep", "sleep", "sleep", "rotated"]),
        ([SENDING, NOT_PAUSED, "rotated"], ["sleep", "pause", "sleep", "rotated"]),
        ([SENDING] * 5, ["sleep"] * 4 + ["something is being sent still"]),
        ([NOT_PAUSED] * 5, ["pause", *["sleep"] * 4, "the merchant is not paused"]),
    ],
)
async def test_it_is_replaced_once_held_after_one_pause(states: list[NotHeld | str], done: list[str]) -> None:
    assert await looks(list(states), 4 * LOOK) == done


async def test_without_patience_it_is_tried_all_the_same() -> None:
    assert await looks([SENDING, "rotated"], timedelta(0)) == ["sleep", "rotated"]
