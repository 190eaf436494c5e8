"""Reads what leased lanes owe: their first run when they are claimed, and on when they run low.

Reading on needs no new lease: whether the lane is still ours is checked before each request.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from webhook_dispatcher.dispatch.blocked import BLOCKED_WAIT
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane import Visit
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StorageError
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.ports import Claims

RUN = 20
"""Most events read for a lane at once."""
RUN_BYTES = 64 * 1024
"""Bytes after which a run is cut; its first event is read whatever its size."""


class Supply:
    """Fills visits' runs; those that run low are read on together, in one statement."""

    def __init__(
        self, claims: Claims, instruments: Instruments, stable: Callable[[], int], wake: Callable[[], None]
    ) -> None:
        """Set up. `stable`: the number at or below which nothing can become visible any more."""
        self._stable = stable
        self._bodies = instruments.bodies
        self._database_clock = instruments.database_clock
        self._blocked = instruments.blocked
        self._unreadable = Unreadable(claims, instruments)
        self._wake = wake
        self._low: list[Visit] = []

    def ask(self, visit: Visit) -> asyncio.Future[None]:
        """Have a visit read on in the next step; the future is done when that has been tried."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._low.append(visit)
        self._wake()
        return future

    async def read(self, visits: Sequence[Visit]) -> None:
        """Read the next run of each visit.

        A lane whose next row is damaged waits. One whose next event is of a type that we do not know is left
        alone by this process only: a newer daemon may take it at once.
        """
        stable = self._stable()  # before the read: what settles during it may be missing from it
        asks = [visit.ask(RUN, RUN_BYTES) for visit in visits]
        try:
            runs = await self._unreadable.read_runs(asks)
        except StorageError:
            for visit in visits:
                visit.is_cut = True
            raise
        for visit, ask in zip(visits, asks, strict=True):
            found, is_cut = runs[visit.merchant_id]
            events = self._known(found)
            is_cut = is_cut or len(events) < len(found)
            if events or not is_cut:
                visit.take_in(events, replace(ask, most_events=len(events)) if is_cut else ask, stable)
                continue
            visit.is_cut = True  # what it has still in memory goes out before it ends
            if found:
                self._blocked.leave(visit.merchant_id)
            else:
                visit.wait_until = self._database_clock.now() + timedelta(seconds=BLOCKED_WAIT)

    def _known(self, events: list[Event]) -> list[Event]:
        """Return the events before the first one of a type that we do not know."""
        for place, event in enumerate(events):
            if not event.is_known:
                self._blocked.find_unknown(event)
                return events[:place]
        return events

    async def read_endpoints(self, visits: Sequence[Visit]) -> dict[str, Endpoint]:
        """Read where the visits' merchants are reached."""
        return await self._unreadable.read_endpoints([visit.merchant_id for visit in visits])

    async def read_on(self) -> None:
        """Read on for the visits that have asked."""
        visits, self._low = [visit for visit in self._low if not visit.is_over], []
        try:
            if self._bodies.has_room():
                await self.read(visits)
            else:
                for visit in visits:
                    visit.spent_at = 0.0  # no room for more: it ends, and waits its turn to be claimed
        finally:
            for visit in visits:
                _resume(visit)

    def let_go(self) -> None:
        """Let nobody wait for a read that will not come."""
        for visit in self._low:
            _resume(visit)
        self._low.clear()


def _resume(visit: Visit) -> None:
    future, visit.top_up = visit.top_up, None
    if future is not None and not future.done():
        future.set_result(None)
