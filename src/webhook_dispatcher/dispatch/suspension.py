"""Suspends merchants of whom nothing was accepted for too long, and lifts it when something is.

A suspended merchant is tried once an interval: by its oldest event in order (worker.py), or by a due retry
where nothing waits in order (retries.py). All else waits. Nothing is kept here: a dispatcher that does not
know of suspension sends as ever once the interval is over.
"""

from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.pace import Interval
from webhook_dispatcher.domain.lane import told
from webhook_dispatcher.domain.ports import Suspensions
from webhook_dispatcher.telemetry.metrics import Metrics

SUSPENSION_LOOK = Interval(5.0, limits_load=True)
"""Between two looks for merchants to be suspended, or to be sent to again."""
MAX_CHANGED = 500
"""Lanes in one transaction."""

_log = structlog.get_logger()


class Suspension:
    """The loop. after: how long nothing may have been accepted; None: nobody is suspended."""

    def __init__(
        self, suspensions: Suspensions, after: timedelta | None, interval: timedelta, metrics: Metrics
    ) -> None:
        self._suspensions = suspensions
        self._after = after
        self._interval = interval
        self._notices = metrics.notices.labels("endpoint.suspended")

    async def step(self) -> bool:
        """Lift, then suspend. True: there may be more of either."""
        lift = self._suspensions.lift_all if self._after is None else self._suspensions.lift
        lifted = await lift(MAX_CHANGED)
        for lane in lifted:
            _log.info("suspension.lifted", **told(lane))
        if self._after is None:
            return len(lifted) == MAX_CHANGED
        suspended = await self._suspensions.suspend(self._after, self._interval, MAX_CHANGED)
        for one in suspended:
            self._notices.inc(one.is_reported)
            failing_since = one.failing_since.isoformat()
            _log.info("merchant.suspended", **told(one.lane), failing_since=failing_since)
        return max(len(lifted), len(suspended)) == MAX_CHANGED
