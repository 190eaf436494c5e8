"""Reads what leased lanes owe: their first run when they are claimed, and on when they run low.

Reading on needs no new lease: whether the lane is still ours is checked before each request.
"""

import asyncio
from collections.abc import Callable, Sequence

from webhook_dispatcher.dispatch.finding.unreadable import Unreadable
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane_session import LaneSession
from webhook_dispatcher.dispatch.losses import BLOCKED_WAIT
from webhook_dispatcher.domain.claim import RunAsk
from webhook_dispatcher.domain.errors import StatementRefused, StorageError
from webhook_dispatcher.domain.ports import Claims

RUN = 20
"""Most events read for a lane at once."""
RUN_BYTES = 64 * 1024
"""Bytes after which a run is cut; its first event is read whatever its size."""


class Fetcher:
    """Fills visits' runs; those that run low are read on together, in one statement."""

    def __init__(
        self, claims: Claims, instruments: Instruments, stable: Callable[[], int], wake: Callable[[], None]
    ) -> None:
        """Set up. `stable`: the number at or below which nothing can become visible any more."""
        self._claims = claims
        self._stable = stable
        self._memory = instruments.memory
        self._database_clock = instruments.database_clock
        self._metrics = instruments.metrics
        self._unreadable = Unreadable(claims, instruments)
        self._wake = wake
        self._low: list[LaneSession] = []

    def ask(self, visit: LaneSession) -> asyncio.Future[None]:
        """Have a visit read on in the next step; the future is done when that has been tried."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._low.append(visit)
        self._wake()
        return future

    async def read(self, visits: Sequence[LaneSession]) -> None:
        """Read the next run of each visit."""
        stable = self._stable()  # before the read: what settles during it may be missing from it
        asks = [visit.ask(RUN, RUN_BYTES) for visit in visits]
        try:
            runs = await self._claims.read_runs(asks) if asks else {}
        except StatementRefused as error:
            await self._read_apart(visits, asks, stable, error)
            return
        except StorageError:
            _cut(visits)
            raise
        for visit, ask in zip(visits, asks, strict=True):
            visit.take_in(runs.get(visit.merchant_id, []), ask, stable)

    async def _read_apart(
        self, visits: Sequence[LaneSession], asks: Sequence[RunAsk], stable: int, error: StatementRefused
    ) -> None:
        """Read what can be read; a lane of which nothing can ends its visit, and waits."""
        self._metrics.database_errors.labels("read_runs").inc()
        try:
            if not error.blames_the_row:
                raise error
            seen = {seq for visit in visits for seq in visit.seen}
            found = await self._unreadable.read_runs(asks, seen)
        except StorageError:
            _cut(visits)
            raise
        for visit in visits:
            if visit.merchant_id in found.blocked:
                visit.is_cut = True
                visit.spent_at = 0.0
                visit.wait_until = self._database_clock.now() + BLOCKED_WAIT
            else:
                ask, run = found.runs[visit.merchant_id]
                visit.take_in(run, ask, stable)

    async def read_on(self) -> None:
        """Read on for the visits that have asked."""
        visits, self._low = [visit for visit in self._low if not visit.is_over], []
        try:
            if self._memory.has_room():
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


def _cut(visits: Sequence[LaneSession]) -> None:
    for visit in visits:
        visit.is_cut = True


def _resume(visit: LaneSession) -> None:
    future, visit.top_up = visit.top_up, None
    if future is not None and not future.done():
        future.set_result(None)
