"""Sees arrivals by following the outbox's numbers, and knows which numbers are settled.

A cursor follows the sequence. Numbers that were not visible when the cursor passed them (not committed
yet, rolled back, or already delivered by another daemon) are kept as gaps and looked at again, ever less
often. A gap is settled when every transaction that may have taken its numbers has ended: a moment after it
was seen their ids are known to be below the next transaction's, and later they are all below the oldest
open one. Nothing can appear any more at or below `stable`, so whoever has read from there has read all:
that is how events of transactions that follow one another keep their order (contract 2.6). A gap that an
open transaction keeps for longer than LONGEST_GAP is given up; what appears in it later, the sweep finds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from webhook_dispatcher.domain.claim import Arrival, Arrivals

FIRST_PROBE = 0.002
"""Seconds until a gap is looked at again; doubled each time."""
LONGEST_PROBE = 0.8
"""Seconds between two looks at the same gap, at most."""
SETTLING = 0.2
"""Seconds between seeing a gap and asking for its takers' ids: an INSERT takes its number first, and has
its transaction's id only when it has computed its row."""
LONGEST_GAP = 10.0
"""Seconds after which a gap is given up."""
MOST_RANGES = 1_000
"""Ranges remembered; beyond, the oldest looks' gaps are kept as one range each, which is not probed."""


@dataclass(slots=True)
class _Gaps:
    """What one look passed unseen, as (low, high) ranges in order.

    settled_by: the transaction id below which all takers of these numbers are, once it is known.
    """

    ranges: list[tuple[int, int]]
    since: float
    wait: float
    probe_at: float
    is_probed: bool = True
    settled_by: int | None = None
    is_final: bool = False

    def is_due(self, now: float) -> bool:
        """Tell whether to look again: settled ones at once, for the last time."""
        return self.is_final or (self.is_probed and self.probe_at <= now)


class Tail:
    """Where we are in the sequence, and what we passed without seeing it. No I/O."""

    def __init__(self) -> None:
        self.cursor: int | None = None
        self._gaps: list[_Gaps] = []

    @property
    def stable(self) -> int:
        """Return the number at or below which nothing can become visible any more."""
        if self.cursor is None:
            return 0
        return min((gaps.ranges[0][0] for gaps in self._gaps), default=self.cursor + 1) - 1

    def observe(self, arrivals: Arrivals, now: float) -> Sequence[Arrival]:
        """Take in one look behind the cursor; return what arrived.

        The first look only finds out where the sequence stands: what is older is the sweep's, and may
        still hold open transactions, so all of it is one gap, which is not probed.
        """
        if self.cursor is None or arrivals.last_seq < self.cursor:
            # First look, or a database restored to an earlier state: numbers are given again.
            self.cursor = arrivals.last_seq
            self._gaps = []
            if self.cursor:
                self._gaps.append(_Gaps([(1, self.cursor)], now, FIRST_PROBE, now, is_probed=False))
            return ()
        self._settle(arrivals, now)
        reached = arrivals.seen[-1].seq if arrivals.is_cut else arrivals.last_seq
        if arrivals.seen:
            reached = max(reached, arrivals.seen[-1].seq)
        passed = _missing((self.cursor + 1, reached), [arrival.seq for arrival in arrivals.seen])
        if passed:
            self._gaps.append(_Gaps(passed, now, FIRST_PROBE, now + FIRST_PROBE))
            self._condense()
        self.cursor = reached
        return arrivals.seen

    def _settle(self, arrivals: Arrivals, now: float) -> None:
        for gaps in self._gaps:
            if gaps.settled_by is None:
                if now - gaps.since >= SETTLING:
                    gaps.settled_by = arrivals.next_transaction
            elif arrivals.oldest_open >= gaps.settled_by or now - gaps.since >= LONGEST_GAP:
                gaps.is_final = True

    def due_gaps(self, now: float) -> list[tuple[int, int]]:
        """Return the ranges that should be looked at again now."""
        return [r for gaps in self._gaps if gaps.is_probed and gaps.is_due(now) for r in gaps.ranges]

    def observe_gaps(self, found: Sequence[Arrival], now: float) -> None:
        """Take in what a look at the due gaps found; what is still missing is kept until it is settled."""
        seqs = sorted(arrival.seq for arrival in found)
        kept = []
        for gaps in self._gaps:
            if gaps.is_final:
                continue
            if gaps.is_due(now):
                gaps.ranges = [left for r in gaps.ranges for left in _missing(r, seqs)]
                gaps.wait = min(gaps.wait * 2, LONGEST_PROBE)
                gaps.probe_at = now + gaps.wait
            if gaps.ranges:
                kept.append(gaps)
        self._gaps = kept

    def _condense(self) -> None:
        excess = sum(len(gaps.ranges) for gaps in self._gaps) - MOST_RANGES
        for gaps in self._gaps:
            if excess <= 0:
                return
            if len(gaps.ranges) > 1:
                excess -= len(gaps.ranges) - 1
                gaps.ranges = [(gaps.ranges[0][0], gaps.ranges[-1][1])]
                gaps.is_probed = False


def _missing(whole: tuple[int, int], seqs: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ranges of a range that are left without these numbers, which are in order."""
    low, high = whole
    left = []
    for seq in seqs:
        if low <= seq <= high:
            if seq > low:
                left.append((low, seq - 1))
            low = seq + 1
    if low <= high:
        left.append((low, high))
    return left
