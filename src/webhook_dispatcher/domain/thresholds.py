"""From when on something is worth a look: what `status`, `check`, `merchants` and the console agree on."""

from datetime import timedelta

BEHIND = timedelta(minutes=1)
"""A merchant whose oldest event has waited longer for its first attempt is behind."""
SILENT = timedelta(seconds=35)
"""A dispatcher notes itself every ten seconds: after three that are missing it counts as gone."""
FAILING_WITHIN = timedelta(hours=24)
FAILING_OUT_OF = 100
MIN_FAILED = 2
MAX_FAILED_SHARE = 0.1
"""A merchant fails where two of its latest attempts (FAILING_OUT_OF at most) failed, and over a tenth."""
DAYS_AHEAD = 3
"""Days for which the log must have its partitions, today among them."""
