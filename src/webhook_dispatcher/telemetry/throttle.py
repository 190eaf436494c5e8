"""Leaves out warnings that say the same again: while the database is away, each loop has one at each try.

A line falls under it when it is a warning or worse, has an `error` and names nobody: what a loop could not
do, as in `claim.failed`. Of each such event the log has one line a second; the next says how many were left
out before it (`suppressed`). What lasts until an operator changes it asks for more than a second (`once_in`,
which is not written). A line about one merchant, row, command or key is always written: no other line may
have its name.
"""

from collections.abc import Callable
from dataclasses import dataclass

from structlog import DropEvent
from structlog.typing import EventDict, WrappedLogger

INTERVAL = 1.0
"""Seconds from one line of an event to the next."""
MAX_EVENTS = 256
"""How many events it remembers; beyond, it forgets the one that it has known longest."""
LEVELS = frozenset({"warning", "error", "critical"})
NAMES = frozenset({"merchant_id", "event_id", "seq", "command_id", "key_id"})


@dataclass(slots=True)
class _Written:
    """When a line of an event was last written, and how many were left out since."""

    at: float
    suppressed: int = 0


class Throttle:
    """A processor of structlog; clock: seconds that only go forwards."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._written: dict[str, _Written] = {}

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Let a line through, or raise DropEvent."""
        interval: float = event.pop("once_in", INTERVAL)
        if method not in LEVELS or "error" not in event or not NAMES.isdisjoint(event):
            return event
        now = self._clock()
        last = self._written.get(event["event"])
        if last is not None and now - last.at < interval:
            last.suppressed += 1
            raise DropEvent
        if last is not None and last.suppressed:
            event["suppressed"] = last.suppressed
        self._remember(event["event"], now)
        return event

    def _remember(self, name: str, now: float) -> None:
        if name not in self._written and len(self._written) >= MAX_EVENTS:
            del self._written[next(iter(self._written))]
        self._written[name] = _Written(now)
