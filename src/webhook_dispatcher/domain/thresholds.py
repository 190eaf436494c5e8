"""From when on something is worth a look: what `status`, `check`, `merchants` and the console agree on."""

from datetime import timedelta

BEHIND = timedelta(minutes=1)
"""A merchant whose oldest event has waited longer for its first attempt is behind."""
SILENT = timedelta(seconds=35)
"""A dispatcher notes itself every ten seconds: after three that are missing it counts as gone."""
DAYS_AHEAD = 3
"""Days for which the log must have its partitions, today among them."""
