"""What one step of reporting does with what storage has written."""

from datetime import timedelta

import pytest

from webhook_dispatcher.dispatch.notices import Reporting
from webhook_dispatcher.domain.event import NOTICE_TYPES
from webhook_dispatcher.domain.ports import Reported
from webhook_dispatcher.telemetry.metrics import Metrics

HOUR = timedelta(hours=1)


class FakeNotices:
    """Gives out what it was made with. asked: how long a merchant had to have failed."""

    def __init__(self, reported: Reported) -> None:
        self.reported = reported
        self.asked: list[timedelta] = []

    async def report(self, failing_after: timedelta) -> Reported:
        self.asked.append(failing_after)
        return self.reported


@pytest.mark.parametrize("has_more", [True, False])
async def test_a_step_counts_what_was_written_and_says_whether_there_is_more(has_more: bool) -> None:
    metrics = Metrics("test")
    fake = FakeNotices(Reported({"delivery.failed": 3, "endpoint.failing": 0}, has_more))
    assert await Reporting(fake, HOUR, metrics).step() is has_more
    counted = [metrics.registry.get_sample_value("webhook_notices_total", {"type": t}) for t in NOTICE_TYPES]
    assert (fake.asked, counted) == ([HOUR], [3, 0, 0, 0])
