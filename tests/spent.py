"""A stop-watch: what the time of this process goes to, each moment counted once.

Sections that are open stand in one list, whichever task opened them, and the one that was opened last counts:
in one task that is the innermost. Waiting stands below all others: what is waited for while a program starts
is its start. Time in which no section is open is not counted.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

Purpose = Literal[
    "starting Postgres",
    "migrating",
    "making databases",
    "starting programs",
    "running commands",
    "waiting",
    "saving coverage",
]
PURPOSES: tuple[str, ...] = get_args(Purpose)


@dataclass(eq=False, slots=True)
class _Section:
    purpose: Purpose


class StopWatch:
    """Counts the time of one process. clock: returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = dict.fromkeys(PURPOSES, 0.0)
        self._open: list[_Section] = []
        self._counted_until = 0.0

    @contextmanager
    def spending(self, purpose: Purpose) -> Iterator[None]:
        """Count the time while entered for this purpose, but for that of other sections within."""
        section = _Section(purpose)
        self._count()
        self._open.insert(0 if purpose == "waiting" else len(self._open), section)
        try:
            yield
        finally:
            self._count()
            self._open.remove(section)

    def seconds_spent(self) -> dict[str, float]:
        """Return the seconds that this process has spent on each purpose so far."""
        self._count()
        return dict(self._seconds)

    def _count(self) -> None:
        now = self._clock()
        if self._open:
            self._seconds[self._open[-1].purpose] += now - self._counted_until
        self._counted_until = now


_stop_watch = StopWatch(time.perf_counter)
spending = _stop_watch.spending
seconds_spent = _stop_watch.seconds_spent
