"""Who has not shown who he is waits among his like, and for a bounded time."""

import asyncio

import pytest

from tests.waiting import until
from webhook_dispatcher.api import gate
from webhook_dispatcher.api.calls import Refused
from webhook_dispatcher.api.catalogue import UNAVAILABLE
from webhook_dispatcher.api.gate import AT_ONCE, MAX_WAITING, Gate


async def stay(place: Gate, leave: asyncio.Event, token: bytes | None = None) -> None:
    async with place.passed(token):
        await leave.wait()


async def refused(place: Gate, token: bytes | None = None) -> int:
    with pytest.raises(Refused) as caught:
        async with place.passed(token):
            pass
    return caught.value.code


async def test_strangers_wait_for_each_other_and_who_is_known_does_not() -> None:
    place, leave = Gate(), asyncio.Event()
    place.note(b"known", is_live=True)
    async with asyncio.TaskGroup() as group:
        staying = [group.create_task(stay(place, leave)) for _ in range(AT_ONCE + MAX_WAITING)]
        await until(lambda: place._waiting == MAX_WAITING)
        assert await refused(place) == UNAVAILABLE, "too many wait already"
        assert await refused(place, b"unknown") == UNAVAILABLE
        async with place.passed(b"known"):
            assert not any(task.done() for task in staying)
        place.note(b"known", is_live=False)
        assert await refused(place, b"known") == UNAVAILABLE, "his token has ended"
        leave.set()
    async with place.passed():
        pass


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "WAIT_SECONDS", 0.01)
    place, leave = Gate(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(stay(place, leave))
        await until(place._free.locked)
        assert await refused(place) == UNAVAILABLE
        leave.set()


def test_not_more_tokens_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MAX_KNOWN", 2)
    place = Gate()
    for token in (b"1", b"2", b"1", b"3"):
        place.note(token, is_live=True)
    assert [*place._known] == [b"1", b"3"]
