"""Which requests are on record: attempts matched with what arrived, by time, with clocks apart, by answer."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from lab.chaos.commands import CLOCK_ERROR
from lab.chaos.evidence import Attempted
from lab.chaos.matching import match
from webhook_dispatcher.local.arrivals import Arrival

BEFORE = 0.1
"""Seconds by which a request may seem to arrive before its recorded start: two clocks are compared."""
AFTER = 0.5
"""Seconds by which a busy receiver may read a request after its sender has given it up."""

_NEVER_SENT = frozenset(("dns", "connect", "tls", "blocked", "unsendable"))
"""Outcomes of attempts that put no request on the wire."""

Number = tuple[int, int]
"""The number of an attempt, and of its history."""


def may_arrive(attempted: Attempted) -> bool:
    """Tell whether an attempt that ended like this may have put a request on the wire."""
    return attempted.outcome not in _NEVER_SENT


def recorded(
    attempted: Sequence[Attempted], arrivals: Sequence[Arrival], history: Callable[[float], int | None]
) -> dict[Number, int]:
    """Match attempt numbers with as many requests as possible; return the place of each one's request.

    history: to which of the lost histories belongs what was begun at a moment; each has its own numbers.
    """
    numbers: defaultdict[Number, list[Attempted]] = defaultdict(list)
    for row in attempted:
        if may_arrive(row):
            lost = history(row.started_at)
            numbers[row.attempt, -1 if lost is None else lost].append(row)
    found: dict[Number, int] = {}
    for fits in (_fits_well, _fits, _has_the_answer):
        if len(found) == len(numbers):
            break
        # The nearest first: attempts by hand and by schedule may be closer to each other than clocks are.
        reachable = {
            number: sorted(
                (i for i, arrival in enumerate(arrivals) if any(fits(row, arrival) for row in rows)),
                key=lambda i: min(abs(arrivals[i].started_at - row.started_at) for row in rows),
            )
            for number, rows in numbers.items()
        }
        for number, before in found.items():  # what fitted better stays possible
            if before not in reachable[number]:
                reachable[number].append(before)
        match(sorted(numbers), reachable, found)
    return found


def _fits_well(row: Attempted, arrival: Arrival) -> bool:
    latest = row.started_at + row.duration + BEFORE
    return _same_answer(row, arrival) and row.started_at - BEFORE <= arrival.started_at <= latest


def _fits(row: Attempted, arrival: Arrival) -> bool:
    latest = row.started_at + row.duration + CLOCK_ERROR + AFTER
    return _same_answer(row, arrival) and row.started_at - CLOCK_ERROR <= arrival.started_at <= latest


def _has_the_answer(row: Attempted, arrival: Arrival) -> bool:
    return row.status is not None and row.status == arrival.status


def _same_answer(row: Attempted, arrival: Arrival) -> bool:
    return row.status is None or row.status == arrival.status
