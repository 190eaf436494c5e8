"""Goes round all merchants that are owed something, to find what the tail cannot see.

The tail misses very late commits, lanes that another daemon left, and everything older than this process.
The sweep limits its load on the database (pace.Interval), but goes on at once while the dispatcher has slots
left and finds news.
"""

from webhook_dispatcher.dispatch.dispatcher import Dispatcher
from webhook_dispatcher.dispatch.pace import Interval
from webhook_dispatcher.domain.ports import Claims

SWEEP_PAGE = 1_000
"""Merchants read in one statement."""
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
        """Read a page. True (read on at once): it was full, brought news, and the dispatcher wants more."""
        lanes = await self._claims.sweep(self._after, SWEEP_PAGE)
        if not self._after:
            self._dispatcher.begin_sweep()
        news = sum(map(self._dispatcher.notice_swept, lanes))
        is_full = len(lanes) == SWEEP_PAGE
        self._after = lanes[-1].merchant_id if is_full else ""
        return is_full and news > 0 and self._dispatcher.wants_more


class RetryMending:
    """Corrects lanes whose `retry_at` is later than their first due row, a page of them in each step.

    Only an operator's edit of the tables does that; the rows would not be found in time. _after: as in Sweep.
    """

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._after = ""

    async def step(self) -> None:
        """Correct those on the next page."""
        merchants = await self._claims.mend_retries(self._after, SWEEP_PAGE)
        self._after = merchants[-1][0] if len(merchants) == SWEEP_PAGE else ""
