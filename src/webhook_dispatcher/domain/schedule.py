"""The delays between attempts.

Source: contract 2.2: seven retries, each delay counted from the end of the attempt before it.
"""

from dataclasses import dataclass
from datetime import timedelta

DEFAULT_DELAYS = (
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=15),
    timedelta(hours=1),
    timedelta(hours=3),
    timedelta(hours=6),
    timedelta(hours=12),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long to wait after each failed attempt."""

    delays: tuple[timedelta, ...] = DEFAULT_DELAYS

    def delay_after(self, attempt: int) -> timedelta | None:
        """Return the wait after the given failed attempt, None after the last.

        Numbered from 1; what a row that was changed by hand makes less counts as the first.
        """
        number = max(attempt, 1)
        return self.delays[number - 1] if number <= len(self.delays) else None
