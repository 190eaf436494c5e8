"""Turns of the event loop: tests let other tasks run without a clock."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise AssertionError("it waits for something")


async def until(is_so: Callable[[], object], turns: int = 1000) -> None:
    """Let other tasks run until something is so; fail when it is not after many turns of the loop."""
    for _ in range(turns):
        if is_so():
            return
        await one_turn()
    raise AssertionError("it never became so")


async def one_turn() -> None:
    """Let every task that is ready run once."""
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


async def quiet(turns: int = 20) -> None:
    """Let other tasks run as far as they get."""
    for _ in range(turns):
        await one_turn()
