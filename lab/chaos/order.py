"""I2: first requests come in order, each after the one before has ended (contract 2.6).

Those of one merchant; of one charge, where its merchant's order is kept by charge.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.chaos.cases import Case, Cases
from lab.chaos.evidence import daemon_of
from lab.chaos.injections import Injections
from lab.chaos.verdict import What
from webhook_dispatcher.local.arrivals import Arrival

Line = Sequence[tuple[Case, Arrival]]
"""The events of a merchant, or of a charge, with their first arrivals, as they came."""
TOLERANCE = 0.1
"""Seconds by which the end of a connection that was given up may reach the receiver late."""


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """A broken promise, before its history is written. other: the event it is compared with."""

    what: What
    case: Case
    detail: str
    other: Case | None = None


def in_line(cases: Cases) -> Sequence[Line]:
    """Return the events of each merchant or charge whose first arrival shows their turn, as they came."""
    lines: defaultdict[tuple[str, str | None], list[tuple[Case, Arrival]]] = defaultdict(list)
    for merchant_id, owed in cases.of_merchant.items():
        for case in owed:
            if (first := case.first_in_line()) is not None:
                lines[merchant_id, case.event.charge].append((case, first))
    for line in lines.values():
        line.sort(key=lambda entry: entry[1].started_at)
    return list(lines.values())


def out_of_order(line: Line) -> Iterator[BrokenPromise]:
    """Find events that came before one that was committed before they were begun.

    Transactions that overlap have no order between them; the events of one (begun at the same moment) have.
    A broken promise for each event that came too early names the one that should have come before it most.
    """
    earliest: Case | None = None
    lowest: dict[float, Case] = {}
    for case, _ in reversed(line):
        sibling = lowest.get(case.event.begun_at)
        if sibling is not None and sibling.event.seq < case.event.seq:
            detail = f"it came before {sibling.event.id}, which stands before it in the same transaction"
            yield BrokenPromise(What.OUT_OF_ORDER, case, detail, sibling)
        if sibling is None or case.event.seq < sibling.event.seq:
            lowest[case.event.begun_at] = case
        if earliest is not None and _committed(earliest) < case.event.begun_at:
            detail = f"it came before {earliest.event.id}, which was committed before it was begun"
            yield BrokenPromise(What.OUT_OF_ORDER, case, detail, earliest)
        if earliest is None or _committed(case) < _committed(earliest):
            earliest = case


def _committed(case: Case) -> float:
    committed = case.event.committed_at
    return float("inf") if committed is None else committed


def overlaps(line: Line, injections: Injections) -> Iterator[BrokenPromise]:
    """Find first requests that began before the one before had ended.

    An answered one ends with its answer, by the receiver's clock. One without an answer ends when its sender
    gives it up, which the receiver learns late, or never from a daemon that was hit.
    """
    for (case, first), (next_case, next_first) in pairwise(line):
        ended = float("inf") if first.ended_at is None else first.ended_at
        if first.status is None:
            ended -= TOLERANCE
        if next_first.started_at >= ended:
            continue
        if first.status is None and _was_hit(first, next_first.started_at, injections):
            continue
        if not _ended_before(case, next_first):
            detail = f"it began while the first request of {case.event.id} was unanswered"
            yield BrokenPromise(What.OVERLAP, next_case, detail, case)


def _was_hit(first: Arrival, until: float, injections: Injections) -> bool:
    daemon = daemon_of(first)
    return any(daemon in one.daemons for one in injections.between(first.started_at, until))


def _ended_before(case: Case, later: Arrival) -> bool:
    """Tell whether the daemon that goes on has had an end of its own.

    A daemon that was frozen may send one late request (lane.py); its successor sends the same event too.
    """
    return any(
        arrival.ended_at is not None and arrival.ended_at <= later.started_at
        for arrival in case.arrivals
        if daemon_of(arrival) == daemon_of(later) and arrival is not case.first
    )
