"""Clocks as the daemon needs them: one that goes on while the machine sleeps; an estimate of the database's.

Leases and due times are the database's (design: database time throughout). What an attempt started and
ended at is written in that time too, estimated once and then fixed, so that a record can be repeated.
"""

import math
from datetime import UTC, datetime
from typing import Protocol

GOOD_ROUND_TRIP = 0.1
"""Seconds; if a statement takes no longer, the time that it read is trusted."""
MAX_ROUND_TRIP = 10.0
"""Seconds; if a statement takes longer, the time that it read is ignored."""
MAX_TRUST = 5.0
"""Seconds; after so long without a trusted time, that of a slower statement is used."""


class Clock(Protocol):
    """What the process can read."""

    def elapsed(self) -> float:
        """Return seconds since some start, suspension of the machine included (CLOCK_BOOTTIME)."""
        ...

    def unix(self) -> float:
        """Return seconds since 1970 on this machine's wall clock."""
        ...


class DatabaseClock:
    """The database's clock, estimated from answers that carried its time.

    When a better estimate lies behind the last one, the clock does not run backwards: it stands still until
    the new estimate has caught up. If the difference is larger than the error of an estimate can be, the
    database's clock was set back: then this clock follows it, since due times are the database's.

    stepped_at: when it was last seen to have been set, forwards or back, in elapsed seconds; -inf: never.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.unix() - clock.elapsed()
        self._synchronised_at = -math.inf
        self._not_before = -math.inf
        self.stepped_at = -math.inf

    def synchronise(self, database_now: datetime, started: float) -> None:
        """Take over the database's time as read by a statement begun at `started` (elapsed seconds).

        The time of a slow statement is imprecise, and used only when there was no better one for a while.
        """
        ended = self._clock.elapsed()
        if ended - started > MAX_ROUND_TRIP:
            return  # longer than a statement may take: we were frozen meanwhile
        is_good = ended - started <= GOOD_ROUND_TRIP
        if is_good or ended - self._synchronised_at > MAX_TRUST:
            offset = database_now.timestamp() - (started + ended) / 2
            is_correction = self.is_known and abs(offset - self._offset) <= MAX_ROUND_TRIP
            if self.is_known and not is_correction:
                self.stepped_at = ended
            self._not_before = self.at(ended).timestamp() if is_correction else -math.inf
            self._offset = offset
            self._synchronised_at = ended

    @property
    def is_known(self) -> bool:
        """Tell whether the database's time was ever read."""
        return self._synchronised_at >= 0

    def now(self) -> datetime:
        """Return the database's time, as an aware instant."""
        return self.at(self._clock.elapsed())

    def at(self, elapsed: float) -> datetime:
        """Return the database's time at a moment of ours that was just now (elapsed seconds)."""
        return datetime.fromtimestamp(max(self._offset + elapsed, self._not_before), UTC)

    def ahead_by(self) -> float:
        """Return how many seconds the database's clock is ahead of this machine's wall clock."""
        return self._offset + self._clock.elapsed() - self._clock.unix()
