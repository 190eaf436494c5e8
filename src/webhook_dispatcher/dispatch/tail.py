"""Sees arrivals by following the outbox's numbers, and knows which numbers are settled.

A cursor follows the sequence. Numbers that were not visible when the cursor passed them (not committed
yet, rolled back, or already delivered by another daemon) are kept as gaps and looked at again, ever less
often. A gap is settled when every transaction that may have taken its numbers has ended: one look after it
was seen their ids are known to be below the next transaction's, and later they are all below the oldest
open one. Nothing can appear any more at or below `stable`, so whoever has read from there has read all:
that is how events of transactions that follow one another keep their order (contract 2.6). A gap that an
open transaction keeps for longer than LONGEST_GAP is given up; what appears in it later, the sweep finds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from webhook_dispatcher.domain.claim import Arrival, Arrivals

FIRST_PROBE = 0.025
"""Seconds until a gap is looked at again; doubled each time."""
LONGEST_PROBE = 0.8
"""Seconds between two looks at the same gap, at most."""
SETTLING = 0.2
"""Seconds that a gap stays at least: between taking a number and its transaction's id lies a moment."""
LONGEST_GAP = 10.0
"""Seconds after which a gap is given up."""
MOST_GAPS = 2_000
"""Ranges remembered; beyond, the oldest are given up."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """Numbers passed unseen. `settled_by`: the transaction id below which all its takers are."""

    low: int
    high: int
    since: float
    wait: float
    probe_at: float
    settled_by: int | None = None
    is_final: bool = False
    is_probed: bool = True


class Tail:
    """Where we are in the sequence, and what we passed without seeing it. No I/O."""

    def __init__(self) -> None:
        self.cursor: int | None = None
        self._gaps: list[_Gap] = []

    @property
    def stable(self) -> int:
        """Return the number at or below which nothing can become visible any more."""
        if self.cursor is None:
            return 0
        return min((gap.low for gap in self._gaps), default=self.cursor + 1) - 1

    def observe(self, arrivals: Arrivals, now: float) -> Sequence[Arrival]:
        """Take in one look behind the cursor; return what arrived.

        The first look only finds out where the sequence stands: what is older is the sweep's, and may
        still hold open transactions, so all of it is one gap, which is not probed.
        """
        if self.cursor is None or arrivals.last_seq < self.cursor:
            # First look, or a database restored to an earlier state: numbers are given again.
            self.cursor = arrivals.last_seq
            self._gaps = [_Gap(1, self.cursor, now, FIRST_PROBE, now, is_probed=False)] if self.cursor else []
            return ()
        self._settle(arrivals, now)
        reached = arrivals.seen[-1].seq if arrivals.is_cut else arrivals.last_seq
        if arrivals.seen:
            reached = max(reached, arrivals.seen[-1].seq)
        passed = _Gap(self.cursor + 1, reached, now, FIRST_PROBE, now + FIRST_PROBE)
        self._remember(passed, [arrival.seq for arrival in arrivals.seen])
        self.cursor = reached
        return arrivals.seen

    def _settle(self, arrivals: Arrivals, now: float) -> None:
        gaps = []
        for gap in self._gaps:
            settled_by = arrivals.next_transaction if gap.settled_by is None else gap.settled_by
            is_settled = arrivals.oldest_open >= settled_by and now - gap.since >= SETTLING
            is_final = gap.is_final or is_settled or now - gap.since >= LONGEST_GAP
            gaps.append(replace(gap, settled_by=settled_by, is_final=is_final))
        self._gaps = gaps

    def due_gaps(self, now: float) -> list[tuple[int, int]]:
        """Return the ranges that should be looked at again now; settled ones a last time."""
        return [(gap.low, gap.high) for gap in self._gaps if gap.is_probed and _is_due(gap, now)]

    def observe_gaps(self, found: Sequence[Arrival], now: float) -> None:
        """Take in what a look at the due gaps found; what is still missing is kept until it is settled."""
        due = [gap for gap in self._gaps if _is_due(gap, now)]
        self._gaps = [gap for gap in self._gaps if not _is_due(gap, now)]
        seqs = sorted(arrival.seq for arrival in found)
        for gap in due:
            if not gap.is_final:
                wait = min(gap.wait * 2, LONGEST_PROBE)
                inside = [seq for seq in seqs if gap.low <= seq <= gap.high]
                self._remember(replace(gap, wait=wait, probe_at=now + wait), inside)

    def _remember(self, passed: _Gap, seen: Sequence[int]) -> None:
        low = passed.low
        for seq in [*seen, passed.high + 1]:
            if seq > low:
                self._gaps.append(replace(passed, low=low, high=seq - 1))
            low = seq + 1
        if len(self._gaps) > MOST_GAPS:
            del self._gaps[: len(self._gaps) - MOST_GAPS]


def _is_due(gap: _Gap, now: float) -> bool:
    return gap.is_final or gap.probe_at <= now
