"""Goes round the merchants that are owed something, for what the tail cannot see.

Very late commits, what another daemon left behind, and everything that was there before we started. It
limits its load, however slow a page is; while lanes are wanted it goes on at once.
"""

from webhook_dispatcher.dispatch.dispatcher import Dispatcher
from webhook_dispatcher.dispatch.pace import Interval
from webhook_dispatcher.domain.ports import Claims

SWEEP_PAGE = 1_000
"""Merchants looked at in one statement."""
SWEEP_INTERVAL = Interval(0.5, limits_load=True)
MEND_INTERVAL = Interval(15.0, limits_load=True)


class Sweep:
    """Tells the dispatcher which merchants are owed something, a page of them in each step.

    _after: the last merchant of the page before, where that was full; "" at the beginning of a round.
    """

    def __init__(self, claims: Claims, dispatcher: Dispatcher) -> None:
        self._claims = claims
        self._dispatcher = dispatcher
        self._after = ""

    async def step(self) -> bool:
        """Read a page; True while there are more, this one held news, and the dispatcher wants lanes."""
        lanes = await self._claims.sweep(self._after, SWEEP_PAGE)
        if not self._after:
            self._dispatcher.begin_sweep()
        news = sum(map(self._dispatcher.notice_swept, lanes))
        is_full = len(lanes) == SWEEP_PAGE
        self._after = lanes[-1].merchant_id if is_full else ""
        return is_full and news > 0 and self._dispatcher.wants_more


class RetryMending:
    """Mends lanes that look for due rows too late, after an operator's edit, a page of them in each step.

    Nobody would find those rows. _after: as in Sweep.
    """

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._after = ""

    async def step(self) -> None:
        """Mend those on a page."""
        merchants = await self._claims.mend_retries(self._after, SWEEP_PAGE)
        self._after = merchants[-1][0] if len(merchants) == SWEEP_PAGE else ""
