"""Sees arrivals by following the outbox's numbers.

A cursor follows the sequence. Numbers that were not visible when the cursor passed them (not committed
yet, rolled back, or already delivered by another daemon) are kept as gaps and looked at again, ever less
often, for some seconds. What is committed later still is found by the sweep.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webhook_dispatcher.domain.claim import Arrival, Arrivals

FIRST_PROBE = 0.025
"""Seconds until a gap is looked at again; doubled each time."""
LAST_PROBE = 3.2
"""Seconds: a gap that would wait longer than this is left to the sweep."""
MOST_GAPS = 2_000
"""Ranges remembered; beyond, the oldest are left to the sweep."""


@dataclass(slots=True)
class _Gap:
    low: int
    high: int
    wait: float
    probe_at: float


class Tail:
    """Where we are in the sequence, and what we passed without seeing it. No I/O."""

    def __init__(self) -> None:
        self.cursor: int | None = None
        self._gaps: list[_Gap] = []

    def observe(self, arrivals: Arrivals, now: float) -> Sequence[Arrival]:
        """Take in one look behind the cursor; return what arrived.

        The first look only finds out where the sequence stands: what is older is the sweep's.
        """
        if self.cursor is None or arrivals.last_seq < self.cursor:
            # First look, or a database restored to an earlier state: numbers are given again.
            self.cursor = arrivals.last_seq
            self._gaps.clear()
            return ()
        reached = arrivals.seen[-1].seq if arrivals.is_cut else arrivals.last_seq
        if arrivals.seen:
            reached = max(reached, arrivals.seen[-1].seq)
        self._remember(self.cursor, reached, [arrival.seq for arrival in arrivals.seen], FIRST_PROBE, now)
        self.cursor = reached
        return arrivals.seen

    def due_gaps(self, now: float) -> list[tuple[int, int]]:
        """Return the ranges that should be looked at again now."""
        return [(gap.low, gap.high) for gap in self._gaps if gap.probe_at <= now]

    def observe_gaps(self, found: Sequence[Arrival], now: float) -> None:
        """Take in what a look at the due gaps found; what is still missing is kept or given up."""
        due = [gap for gap in self._gaps if gap.probe_at <= now]
        self._gaps = [gap for gap in self._gaps if gap.probe_at > now]
        seqs = sorted(arrival.seq for arrival in found)
        for gap in due:
            if gap.wait * 2 <= LAST_PROBE:
                inside = [seq for seq in seqs if gap.low <= seq <= gap.high]
                self._remember(gap.low - 1, gap.high, inside, gap.wait * 2, now)

    def _remember(self, after: int, until: int, seen: Iterable[int], wait: float, now: float) -> None:
        low = after + 1
        for seq in [*seen, until + 1]:
            if seq > low:
                self._gaps.append(_Gap(low, seq - 1, wait, now + wait))
            low = seq + 1
        if len(self._gaps) > MOST_GAPS:
            del self._gaps[: len(self._gaps) - MOST_GAPS]
