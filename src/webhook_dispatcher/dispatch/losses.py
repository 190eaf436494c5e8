"""How many objects may be given up as unreadable before it is rather a fault that can be mended."""

from collections import deque
from datetime import timedelta

from webhook_dispatcher.domain.clock import Clock

BLOCKED_WAIT = timedelta(seconds=15)
"""How long a lane waits whose next row cannot even be named, or may not be finished unread."""
MOST_LOST = 50
"""Rows that one process may finish without their objects within PERIOD."""
PERIOD = 3600.0
"""Seconds."""


class Losses:
    """Counts what was given up; whoever wants to give up more than `left` waits instead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counted: deque[float] = deque()

    @property
    def left(self) -> int:
        """Return how many more may be given up now."""
        while self._counted and self._counted[0] <= self._clock.elapsed() - PERIOD:
            self._counted.popleft()
        return MOST_LOST - len(self._counted)

    def count(self) -> None:
        """Learn that one has been given up."""
        self._counted.append(self._clock.elapsed())
