"""A held rotation: a secret is replaced while its merchant is paused, and nothing is sent to it any more.

A second endpoint is added so too, but without a pause: while nothing is sent to the first.

What is owed would otherwise be signed at once with a secret that the merchant has not got yet. The database
tells by its own leases that nothing is sent (webhook.lock_held), whichever daemons there are. From then on
the merchant is simply paused: a resume ends it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from webhook_dispatcher.domain.errors import NotHeld

LOOK = timedelta(seconds=0.1)
"""Between two tries to replace a secret."""
PATIENCE = timedelta(seconds=2)
"""How long a request waits: for a command, and for an attempt in flight to end, which may take longer."""

T = TypeVar("T")


async def when_held(
    rotate: Callable[[], Awaitable[T]],
    pause: Callable[[], Awaitable[object]] | None = None,
    patience: timedelta = PATIENCE,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,  # noqa: TID251
) -> T:
    """Replace a secret as soon as deliveries are held, after a pause where the merchant is not paused.

    rotate: raises NotHeld, and has done nothing, as long as they are not. pause: asks for the pause; once.
    Errors: NotHeld when they were not within `patience`; the merchant is, or will be, paused all the same.
    """
    is_asked = False
    for _ in range(max(1, round(patience / LOOK))):
        try:
            return await rotate()
        except NotHeld as error:
            if pause is not None and not (error.is_paused or is_asked):
                await pause()
                is_asked = True
        await sleep(LOOK.total_seconds())
    return await rotate()


def raise_unless_held(state: str) -> None:
    """Raise NotHeld where webhook.lock_held said so; it says other things too, which others look at."""
    if state in ("not_paused", "sending"):
        raise NotHeld(is_paused=state == "sending")
