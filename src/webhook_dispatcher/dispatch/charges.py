"""Which event of a run is next where order is kept by charge: the first of a charge that is not being sent.

Source: contract 2.6; docs/adr/0032-order-by-charge-within-one-lane.md.
"""

import asyncio
import json
from collections.abc import Iterable
from itertools import takewhile

from webhook_dispatcher.dispatch.health.lanes import SLOW
from webhook_dispatcher.domain.event import Event

MAX_EVENTS = 640
"""Events in memory from which on a session reads no further to find a charge without an attempt under way."""
MAX_EVENT_BYTES = 1024 * 1024
"""The same of their bytes."""


def charge_of(event: Event) -> str | None:
    """Return the id of an event's charge; events without one are one charge."""
    try:
        # Of thousands of digits Python makes no integer.
        charge = json.loads(event.object, parse_int=float).get("id")
    except (ValueError, RecursionError, AttributeError):
        return None
    return charge if isinstance(charge, str) else None


class Charges:
    """The attempts of a session, by charge.

    at_once: how many may be under way, and one more while one is slow. under_way: since when one is, by
    charge (clock reading in seconds), the oldest first. changed: set when one has ended, or the run may have
    another that can be started.
    """

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.under_way: dict[str | None, float] = {}
        self.changed = asyncio.Event()
        self._known: dict[int, str | None] = {}

    def has_place(self, now: float) -> bool:
        """Tell whether one more may be under way: beside one that is slow, as many as usual."""
        return len(self.under_way) < self.at_once + self.is_slow(now)

    def place_of_next(self, run: Iterable[Event], now: float) -> int | None:
        """Return where in a run the event stands that may be started next; None: none may be."""
        if self.has_place(now):
            for place, event in enumerate(run):
                if self._of(event) not in self.under_way:
                    return place
        return None

    def start(self, event: Event, now: float) -> None:
        """Learn that an attempt at an event begins."""
        self.under_way[self._of(event)] = now

    def end(self, event: Event) -> None:
        """Learn that it has ended."""
        del self.under_way[self._known.pop(event.seq)]
        self.changed.set()

    def slow_in(self, now: float) -> float | None:
        """Return in how many seconds an attempt is slow, or was (negative); None: nothing is under way."""
        oldest = next(iter(self.under_way.values()), None)
        return None if oldest is None else oldest + SLOW - now

    def is_slow(self, now: float) -> bool:
        """Tell whether an attempt is slow."""
        slow_in = self.slow_in(now)
        return slow_in is not None and slow_in <= 0

    def count_slow(self, now: float) -> int:
        """Return how many attempts are slow."""
        return sum(1 for _ in takewhile(lambda started: started + SLOW <= now, self.under_way.values()))

    def _of(self, event: Event) -> str | None:
        if event.seq not in self._known:
            self._known[event.seq] = charge_of(event)
        return self._known[event.seq]
