"""Which lanes may have first attempts to be made, and which of them is claimed next. No I/O.

Tail follows the outbox's sequence and reports new events. ReadyLanes is the queue of lanes that are to be
claimed. Events that the tail cannot see are found by the sweep (sweep.py).
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from webhook_dispatcher.dispatch.health.lanes import Health, LaneHealth, Slots
from webhook_dispatcher.domain.claim import Arrival, Arrivals

FIRST_RECHECK = 0.002
"""Seconds until a gap is read again; doubled each time."""
MAX_RECHECK_WAIT = 0.8
"""Seconds between two reads of the same gap, at most."""
SETTLING = 0.2
"""Seconds after which every transaction that took a number of a gap has an id. An INSERT takes its seq before
its transaction gets an id, which it does only once the row is computed."""
MAX_GAP_AGE = 10.0
"""Seconds after which a gap is not read any more, and is left to the sweep."""
MAX_RANGES = 1_000
"""Ranges remembered. Beyond, all gaps of the oldest poll are merged into one range that is not read again."""
NO_STRAGGLER = 2**62
"""A head_seq above all others: claiming with it does not lower the lane's from_seq."""
MAX_READY = 20_000
"""Lanes in the queue of one health. More are left to the sweep, which finds them again."""


@dataclass(slots=True)
class _Gaps:
    """The numbers that one poll passed without seeing their rows, as (low, high) ranges in order.

    since: when (clock reading in seconds). wait: seconds between the last two reads.
    is_rechecked: they are read again from time to time, next at `recheck_at`.
    settled_by: every transaction that took one of the numbers has a lower id, once that is known.
    is_final: all of those have ended: one more read finds what is still to be found.
    """

    ranges: list[tuple[int, int]]
    since: float
    wait: float
    recheck_at: float
    is_rechecked: bool = True
    settled_by: int | None = None
    is_final: bool = False

    def is_due(self, now: float) -> bool:
        """Tell whether to read them again now."""
        return self.is_final or (self.is_rechecked and self.recheck_at <= now)


class Tail:
    """How far the sequence has been read, and which of its numbers have not been seen yet.

    A cursor follows the sequence. Numbers without a visible row when the cursor passed them (not committed
    yet, rolled back, or already delivered by another daemon) are kept as gaps and read again, at growing
    intervals. A gap is settled once every transaction that may have taken its numbers has ended. To know
    that, SETTLING seconds after the gap was found the id of the next transaction is noted; when the oldest
    open transaction has reached this id, all takers have ended.
    Nothing can appear any more at or below `stable`, so a session that has read up to there has read
    everything: this keeps the order of transactions that follow one another (contract 2.6). A gap that an
    open transaction keeps for longer than MAX_GAP_AGE is dropped; the sweep finds what appears in it later.

    cursor: the last number that was read; none before the first poll.
    gaps: those of each poll; empty when everything up to the cursor is settled.
    stable: the number at or below which nothing can become visible any more.
    server_started_at: the start of the server that was polled last.
    """

    def __init__(self) -> None:
        self.cursor: int | None = None
        self.server_started_at: datetime | None = None
        self.stable = 0
        self.gaps: list[_Gaps] = []

    def observe(self, arrivals: Arrivals, now: float) -> Sequence[Arrival]:
        """Take in one poll behind the cursor; return the new events. now: clock reading in seconds.

        The first poll of a server only sets the cursor. Older events are left to the sweep; open transactions
        may still add to them, so all older numbers form one gap, which is settled but not read again.
        """
        if self.cursor is None or self.is_of_another_history(arrivals):
            self.server_started_at = arrivals.server_started_at
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

    def is_of_another_history(self, arrivals: Arrivals) -> bool:
        """Tell whether numbers may have been given again since the last poll."""
        if self.cursor is None:
            return False
        is_restored = arrivals.last_seq < self.cursor
        return is_restored or arrivals.server_started_at != self.server_started_at

    def _settle(self, arrivals: Arrivals, now: float) -> None:
        for gaps in self.gaps:
            if gaps.settled_by is None:
                if now - gaps.since >= SETTLING:
                    gaps.settled_by = arrivals.next_transaction
            elif arrivals.oldest_open >= gaps.settled_by or now - gaps.since >= MAX_GAP_AGE:
                gaps.is_final = True

    def due_gaps(self, now: float) -> list[tuple[int, int]]:
        """Return the ranges that should be read again now (clock reading in seconds)."""
        return [r for gaps in self.gaps if gaps.is_rechecked and gaps.is_due(now) for r in gaps.ranges]

    def observe_gaps(self, found: Sequence[Arrival], now: float) -> None:
        """Take in what a read of the due gaps found; what is still missing is kept until it is settled."""
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
    """One lane: its lowest known seq, and a number that orders the lanes of all queues by arrival."""

    head_seq: int
    since: int


class _Refused(NamedTuple):
    """In which round of the sweep, and at which lane, the full queue refused one first."""

    round: int
    lane: str


@dataclass(slots=True)
class _Line:
    """The queue of one health. An OrderedDict: finding a dict's first key takes time for each deleted one."""

    waiting: OrderedDict[str, _Waiting] = field(default_factory=OrderedDict)
    refused: _Refused | None = None

    def admits(self, lane: str, sweep: int, is_swept: bool) -> bool:
        """Tell whether one more lane may join the queue. sweep: the number of the sweep's round."""
        if not self.waiting:
            self.refused = None
        if self.refused is not None:
            rounds = sweep - self.refused.round
            if not is_swept or rounds < 1 or (rounds == 1 and lane < self.refused.lane):
                return False
        is_full = len(self.waiting) >= MAX_READY
        # A lane that the sweep did not bring has no position in its round: admit from its beginning on.
        self.refused = _Refused(sweep, lane if is_swept else "") if is_full else None
        return not is_full


class ReadyLanes:
    """Lanes that are to be claimed: a queue for each health, each with the lanes' lowest seq.

    The lane that has waited longest is taken first, among the queues whose health has slots left: slow ones
    never keep others waiting. A queue holds MAX_READY lanes. When it is full, further ones are left to the
    sweep, which goes round all lanes by name. The full queue then admits lanes in the order of that round,
    beginning with the first it refused; otherwise lanes early in the alphabet, or with new events, would take
    every position that becomes free.

    kinds: every waiting lane, with the health of its queue.
    """

    def __init__(self, health: LaneHealth) -> None:
        self._health = health
        self._lines = {health: _Line() for health in Health}
        self.kinds: dict[str, Health] = {}
        self._next = 0
        self._sweep = 0
        self._is_turn_of_any = True

    def begin_sweep(self) -> None:
        """Learn that the sweep begins a round."""
        self._sweep += 1

    def add(self, lane: str, head_seq: int = NO_STRAGGLER, is_swept: bool = False) -> bool:
        """Queue a lane, or lower the head of one that waits already. True: it was not waiting, or moved.

        One whose health has become better meanwhile moves to the queue of its new health.
        """
        health = self._health.of(lane)
        line = self._lines[health]
        if (kind := self.kinds.get(lane)) is not None:
            known = self._lines[kind].waiting[lane]
            head_seq = min(head_seq, known.head_seq)
            if kind >= health:
                self._lines[kind].waiting[lane] = known._replace(head_seq=head_seq)
                return False
            del self._lines[kind].waiting[lane]
        elif (line.refused is not None or len(line.waiting) >= MAX_READY) and not line.admits(
            lane, self._sweep, is_swept
        ):
            return False
        self._next += 1
        line.waiting[lane] = _Waiting(head_seq, self._next)
        self.kinds[lane] = health
        return True

    def add_all(self, heads: Mapping[str, int]) -> None:
        """Add back lanes that were taken but not claimed."""
        for lane, head_seq in heads.items():
            self.add(lane, head_seq)

    def requeue(self, lanes: Iterable[str]) -> None:
        """Move waiting lanes that are not held back any more to the queue of their health."""
        for lane in lanes:
            if self.kinds.get(lane) is Health.HELD_BACK:
                self.add(lane)

    def take(self, limit: int, slots: Slots | None) -> dict[str, int]:
        """Take at most so many lanes, the longest waiting first.

        slots: those left for each health, of which each lane takes one; None: there are enough for all.
        Returned: by lane, its lowest known seq.
        """
        taken: dict[str, int] = {}
        while len(taken) < limit and (kind := self._longest_waiting(slots)) is not None:
            lane = self._first_of(kind)
            waiting = self._lines[kind].waiting.pop(lane)
            del self.kinds[lane]
            if slots is None or slots.take(self._health.of(lane)):
                taken[lane] = waiting.head_seq
            else:  # its health has become worse meanwhile
                self.add(lane, waiting.head_seq)
        return taken

    def _longest_waiting(self, slots: Slots | None) -> Health | None:
        firsts = {
            kind: next(iter(line.waiting.values())).since
            for kind, line in self._lines.items()
            if line.waiting and (slots is None or slots.left(kind) > 0)
        }
        return min(firsts, key=firsts.__getitem__, default=None)

    def _first_of(self, kind: Health) -> str:
        """Return which has waited longest; of those held back, every other time, one that worked lately."""
        waiting = self._lines[kind].waiting
        first = next(iter(waiting))
        if kind is Health.HELD_BACK:
            self._is_turn_of_any = not self._is_turn_of_any
            if not self._is_turn_of_any:
                return next(filter(self._health.has_worked, waiting), first)
        return first

    def has_any(self, least: Health) -> bool:
        """Tell whether a lane of this health or a better one waits."""
        return any(line.waiting for kind, line in self._lines.items() if kind >= least)

    def waiting(self, slots: Slots | None) -> int:
        """Return how many lanes of those wait whose health has slots left; slots as for `take`."""
        if slots is None:
            return len(self.kinds)
        return sum(len(line.waiting) for kind, line in self._lines.items() if slots.left(kind) > 0)

    def wanted(self, slots: Slots) -> int:
        """Return how many of these slots the lanes that wait could take."""
        return sum(max(0, min(len(line.waiting), slots.left(kind))) for kind, line in self._lines.items())
