"""Writes notices: events by which the platform is told what went wrong or right again, sent like any other.

What is told, and when, is storage's (notices.sql): one statement finds it, marks it as told and writes the
notice, so that it is told once, whichever daemon does it.
"""

from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.pace import Interval
from webhook_dispatcher.domain.ports import Notices
from webhook_dispatcher.telemetry.metrics import Metrics

REPORT_INTERVAL = Interval(5.0, limits_load=True)

_log = structlog.get_logger()


class Reporting:
    """Writes the notices that are due, some hundred in each step."""

    def __init__(self, notices: Notices, failing_after: timedelta, metrics: Metrics) -> None:
        self._notices = notices
        self._failing_after = failing_after
        self._metrics = metrics

    async def step(self) -> bool:
        """Write what is due. True (go on at once): there is more."""
        reported = await self._notices.report(self._failing_after)
        for notice_type, count in reported.written.items():
            self._metrics.notices.labels(notice_type).inc(count)
            if count:
                _log.info("notices.written", type=notice_type, count=count)
        return reported.has_more
