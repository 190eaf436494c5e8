"""Faults of chaos runs take turns: beside each other, unless one wants the run for itself."""

import asyncio

from lab.chaos.quiet import Quiet


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)  # noqa: TID251


async def test_quiet_begins_when_the_others_are_over_and_lets_none_begin() -> None:
    quiet = Quiet()
    told: list[str] = []
    is_over = asyncio.Event()

    async def ordinary(name: str) -> None:
        async with quiet.turn():
            told.append(f"{name} begins")
            await is_over.wait()
            told.append(f"{name} ends")

    async def lonely() -> None:
        async with quiet.turn(), quiet.alone():
            told.append("alone")
            await settle()
            told.append("no more")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ordinary("first"))
        await settle()
        tasks.create_task(lonely())
        await settle()
        tasks.create_task(ordinary("second"))
        await settle()
        assert told == ["first begins"]
        is_over.set()
    assert told == ["first begins", "first ends", "alone", "no more", "second begins", "second ends"]
