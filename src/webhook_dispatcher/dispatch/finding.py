"""Which merchants may have something to be sent in order, and who is next. No I/O.

Tail follows the outbox's numbers and sees arrivals; ReadyLanes has the merchants wait for a lane. What the
tail cannot see, the sweep finds.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from webhook_dispatcher.dispatch.health.merchants import Health, MerchantHealth, Slots
from webhook_dispatcher.domain.claim import Arrival, Arrivals

FIRST_RECHECK = 0.002
"""Seconds until a gap is looked at again; doubled each time."""
MAX_RECHECK_WAIT = 0.8
"""Seconds between two looks at the same gap, at most."""
SETTLING = 0.2
"""Seconds between seeing a gap and asking for its takers' ids: an INSERT takes its number first, and has
its transaction's id only when it has computed its row."""
MAX_GAP_AGE = 10.0
"""Seconds after which a gap is given up."""
MAX_RANGES = 1_000
"""Ranges remembered; beyond, the oldest looks' gaps are kept as one range each, which is not read again."""
NO_STRAGGLER = 2**62
"""A head that lowers no lane's from_seq."""
MAX_READY = 20_000
"""Merchants of one kind remembered; beyond, the sweep finds them again."""


@dataclass(slots=True)
class _Gaps:
    """What one look passed unseen, as (low, high) ranges in order.

    settled_by: the transaction id below which all takers of these numbers are, once it is known.
    """

    ranges: list[tuple[int, int]]
    since: float
    wait: float
    recheck_at: float
    is_rechecked: bool = True
    settled_by: int | None = None
    is_final: bool = False

    def is_due(self, now: float) -> bool:
        """Tell whether to look again: settled ones at once, for the last time."""
        return self.is_final or (self.is_rechecked and self.recheck_at <= now)


class Tail:
    """Where we are in the sequence, and what we passed without seeing it.

    A cursor follows the sequence. Numbers that were not visible when the cursor passed them (not committed
    yet, rolled back, or already delivered by another daemon) are kept as gaps and looked at again, ever less
    often. A gap is settled when every transaction that may have taken its numbers has ended: a moment after
    it was seen their ids are known to be below the next transaction's, and later they are all below the
    oldest open one. Nothing can appear any more at or below `stable`, so whoever has read from there has read
    all: that is how events of transactions that follow one another keep their order (contract 2.6). A gap
    that an open transaction keeps for longer than MAX_GAP_AGE is given up; the sweep finds what appears in
    it later.

    cursor: the last number that was looked at; none before the first look.
    gaps: what each look passed unseen; empty when all up to the cursor is settled.
    stable: the number at or below which nothing can become visible any more.
    """

    def __init__(self) -> None:
        self.cursor: int | None = None
        self.stable = 0
        self.gaps: list[_Gaps] = []

    def observe(self, arrivals: Arrivals, now: float) -> Sequence[Arrival]:
        """Take in one look behind the cursor; return what arrived.

        The first look only finds out where the sequence stands: what is older is the sweep's, and may
        still hold open transactions, so all of it is one gap, which is not read again.
        """
        if self.cursor is None or arrivals.last_seq < self.cursor:
            # First look, or a database restored to an earlier state: numbers are given again.
            self.cursor = arrivals.last_seq
            self.gaps = []
            if self.cursor:
                self.gaps.append(_Gaps([(1, self.cursor)], now, FIRST_RECHECK, now, is_rechecked=False))
            self.stable = 0
            return ()
        if self.gaps:
            self._settle(arrivals, now)
        reached = arrivals.visible[-1].seq if arrivals.is_cut else arrivals.last_seq
        if arrivals.visible:
            reached = max(reached, arrivals.visible[-1].seq)
        if reached - self.cursor > len(arrivals.visible):
            passed = _missing((self.cursor + 1, reached), [arrival.seq for arrival in arrivals.visible])
            self.gaps.append(_Gaps(passed, now, FIRST_RECHECK, now + FIRST_RECHECK))
            self._condense()
        self.cursor = reached
        self.stable = self.gaps[0].ranges[0][0] - 1 if self.gaps else reached
        return arrivals.visible

    def _settle(self, arrivals: Arrivals, now: float) -> None:
        for gaps in self.gaps:
            if gaps.settled_by is None:
                if now - gaps.since >= SETTLING:
                    gaps.settled_by = arrivals.next_transaction
            elif arrivals.oldest_open >= gaps.settled_by or now - gaps.since >= MAX_GAP_AGE:
                gaps.is_final = True

    def due_gaps(self, now: float) -> list[tuple[int, int]]:
        """Return the ranges that should be looked at again now."""
        return [r for gaps in self.gaps if gaps.is_rechecked and gaps.is_due(now) for r in gaps.ranges]

    def observe_gaps(self, found: Sequence[Arrival], now: float) -> None:
        """Take in what a look at the due gaps found; what is still missing is kept until it is settled."""
        seqs = sorted(arrival.seq for arrival in found)
        kept = []
        for gaps in self.gaps:
            if gaps.is_final:
                continue
            if gaps.is_due(now):
                gaps.ranges = [left for r in gaps.ranges for left in _missing(r, seqs)]
                gaps.wait = min(gaps.wait * 2, MAX_RECHECK_WAIT)
                gaps.recheck_at = now + gaps.wait
            if gaps.ranges:
                kept.append(gaps)
        self.gaps = kept
        self.stable = self.gaps[0].ranges[0][0] - 1 if self.gaps else self.cursor or 0

    def _condense(self) -> None:
        excess = sum(len(gaps.ranges) for gaps in self.gaps) - MAX_RANGES
        for gaps in self.gaps:
            if excess <= 0:
                return
            if len(gaps.ranges) > 1:
                excess -= len(gaps.ranges) - 1
                gaps.ranges = [(gaps.ranges[0][0], gaps.ranges[-1][1])]
                gaps.is_rechecked = False


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


class _Waiting(NamedTuple):
    """One merchant: the lowest seq that was seen of it, and its place in line over all kinds."""

    head_seq: int
    since: int


class _Refused(NamedTuple):
    """Where the sweep's next round lets merchants in again."""

    round: int
    merchant_id: str


@dataclass(slots=True)
class _Line:
    """Merchants of one kind. An OrderedDict: a dict looks for its first key past all that were deleted."""

    waiting: OrderedDict[str, _Waiting] = field(default_factory=OrderedDict)
    refused: _Refused | None = None

    def admits(self, merchant_id: str, sweep: int, is_swept: bool) -> bool:
        """Tell whether one more may wait; `sweep` numbers the round."""
        if not self.waiting:
            self.refused = None
        if self.refused is not None and not (is_swept and self._has_turn(merchant_id, sweep)):
            return False
        is_full = len(self.waiting) >= MAX_READY
        # What the sweep did not bring has no place in its round: that begins anew.
        self.refused = _Refused(sweep, merchant_id if is_swept else "") if is_full else None
        return not is_full

    def _has_turn(self, merchant_id: str, sweep: int) -> bool:
        assert self.refused is not None
        rounds = sweep - self.refused.round
        return rounds > 1 or (rounds == 1 and merchant_id >= self.refused.merchant_id)


class ReadyLanes:
    """Merchants that may have work, by their health, each with the lowest seq that was seen of it.

    Who waits longest is taken first, unless its kind has no slot left: suspects never stand in front of
    others. Each kind has room for MAX_READY. When that is full, whoever comes is left to the sweep, which
    goes round the merchants by name; and what becomes free is given out in that round's order, from the first
    that was refused on, so that those early in the alphabet, or with new events, do not take it all.

    kinds: everybody who waits, with the health under which it waits.
    """

    def __init__(self, merchants: MerchantHealth) -> None:
        self._merchants = merchants
        self._lines = {health: _Line() for health in Health}
        self.kinds: dict[str, Health] = {}
        self._next = 0
        self._sweep = 0

    def begin_sweep(self) -> None:
        """Learn that the sweep begins a round."""
        self._sweep += 1

    def add(self, merchant_id: str, head_seq: int = NO_STRAGGLER, is_swept: bool = False) -> bool:
        """Put a merchant at the end, or lower the head of one that waits already; True where it is news.

        One whose health has become better meanwhile goes over to its new kind.
        """
        health = self._merchants.of(merchant_id)
        line = self._lines[health]
        if (kind := self.kinds.get(merchant_id)) is not None:
            known = self._lines[kind].waiting[merchant_id]
            head_seq = min(head_seq, known.head_seq)
            if kind >= health:
                self._lines[kind].waiting[merchant_id] = known._replace(head_seq=head_seq)
                return False
            del self._lines[kind].waiting[merchant_id]
        elif (line.refused is not None or len(line.waiting) >= MAX_READY) and not line.admits(
            merchant_id, self._sweep, is_swept
        ):
            return False
        self._next += 1
        line.waiting[merchant_id] = _Waiting(head_seq, self._next)
        self.kinds[merchant_id] = health
        return True

    def add_all(self, heads: Mapping[str, int]) -> None:
        """Put back what was taken in vain."""
        for merchant_id, head_seq in heads.items():
            self.add(merchant_id, head_seq)

    def requeue(self, merchants: Iterable[str]) -> None:
        """Let merchants that are held back no more wait with the others, where they wait at all."""
        for merchant_id in merchants:
            if self.kinds.get(merchant_id) is Health.HELD_BACK:
                self.add(merchant_id)

    def take(self, most: int, slots: Slots | None) -> dict[str, int]:
        """Take the merchants that have waited longest, of kinds that have slots left (None: all have)."""
        taken: dict[str, int] = {}
        while len(taken) < most and (kind := self._longest_waiting(slots)) is not None:
            merchant_id, waiting = self._lines[kind].waiting.popitem(last=False)
            del self.kinds[merchant_id]
            if slots is None or slots.take(self._merchants.of(merchant_id)):
                taken[merchant_id] = waiting.head_seq
            else:  # its health has become worse meanwhile
                self.add(merchant_id, waiting.head_seq)
        return taken

    def _longest_waiting(self, slots: Slots | None) -> Health | None:
        firsts = {
            kind: next(iter(line.waiting.values())).since
            for kind, line in self._lines.items()
            if line.waiting and (slots is None or slots.left(kind) > 0)
        }
        return min(firsts, key=firsts.__getitem__, default=None)

    def has_any(self, least: Health) -> bool:
        """Tell whether anybody of this health or a better one waits."""
        return any(line.waiting for kind, line in self._lines.items() if kind >= least)

    def waiting(self, slots: Slots | None) -> int:
        """Return how many wait that may have a slot; slots as for `take`."""
        if slots is None:
            return len(self.kinds)
        return sum(len(line.waiting) for kind, line in self._lines.items() if slots.left(kind) > 0)
