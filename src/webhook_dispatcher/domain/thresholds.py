"""From when on something is worth a look: what `status`, `check`, `merchants` and the console agree on."""

from datetime import datetime, timedelta

BEHIND = timedelta(minutes=1)
"""A merchant whose oldest event has waited longer for its first attempt is behind."""
SILENT = timedelta(seconds=35)
"""A dispatcher notes itself every ten seconds: after three that are missing it counts as gone."""
LONG_SILENT = timedelta(minutes=5)
"""From then on one that is silent is not named any more where others work: it will not come back."""
FAILING_WITHIN = timedelta(hours=24)
FAILING_OUT_OF = 100
MIN_FAILED = 2
MAX_FAILED_SHARE = 0.1
DAYS_AHEAD = 3
"""Days for which the log must have its partitions, today among them."""


def is_failing(attempted: int, failed: int, failing_since: datetime | None, failures_in_a_row: int) -> bool:
    """Tell whether a merchant fails: over a tenth of its latest attempts failed, two at least.

    attempted: of the latest FAILING_OUT_OF attempts within FAILING_WITHIN, those that could be made; failed:
    of these. Where seldom is tried, two in a row count too, and without any, whether the last before failed.
    """
    if not attempted:
        return failing_since is not None
    return max(failed, failures_in_a_row) >= MIN_FAILED and failed > MAX_FAILED_SHARE * attempted
