"""Merchants that may have work, by their standing, each kind in the order in which we learned of it. No I/O.

Who waits longest is taken first, unless its kind has no place left: suspects never stand in front of others.
Each kind has room for MOST_READY. When that is full, whoever comes is left to the sweep, which goes round the
merchants by name; and the places that become free are given out in that round's order, from the first that
was refused on, so that those early in the alphabet, or with new events, do not take them all.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from webhook_dispatcher.dispatch.health.merchants import Health, MerchantHealth, Slots

NO_STRAGGLER = 2**62
"""A head that lowers no lane's from_seq."""
MOST_READY = 20_000
"""Merchants of one kind remembered; beyond, the sweep finds them again."""


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

    def lets_in(self, merchant_id: str, sweep: int, is_swept: bool) -> bool:
        """Tell whether one more may wait; `sweep` numbers the round."""
        if not self.waiting:
            self.refused = None
        if self.refused is not None and not (is_swept and self._has_turn(merchant_id, sweep)):
            return False
        is_full = len(self.waiting) >= MOST_READY
        # What the sweep did not bring has no place in its round: that begins anew.
        self.refused = _Refused(sweep, merchant_id if is_swept else "") if is_full else None
        return not is_full

    def _has_turn(self, merchant_id: str, sweep: int) -> bool:
        assert self.refused is not None
        rounds = sweep - self.refused.round
        return rounds > 1 or (rounds == 1 and merchant_id >= self.refused.merchant_id)


class ReadyLanes:
    """Ordered sets of merchants, each merchant with the lowest seq that was seen of it."""

    def __init__(self, standings: MerchantHealth) -> None:
        self._merchants = standings
        self._lines = {standing: _Line() for standing in Health}
        self._next = 0
        self._sweep = 0

    def begin_sweep(self) -> None:
        """Learn that the sweep begins a round."""
        self._sweep += 1

    def add(self, merchant_id: str, head_seq: int = NO_STRAGGLER, is_swept: bool = False) -> bool:
        """Put a merchant at the end, or lower the head of one that waits already; True where it is news.

        One whose standing has become better meanwhile goes over to its new kind.
        """
        standing = self._merchants.of(merchant_id)
        line, kind = self._lines[standing], self._kind_of(merchant_id)
        if kind is not None:
            known = self._lines[kind].waiting[merchant_id]
            head_seq = min(head_seq, known.head_seq)
            if kind >= standing:
                self._lines[kind].waiting[merchant_id] = known._replace(head_seq=head_seq)
                return False
            del self._lines[kind].waiting[merchant_id]
        elif not line.lets_in(merchant_id, self._sweep, is_swept):
            return False
        self._append(line, merchant_id, head_seq)
        return True

    def let_go(self, merchants: Iterable[str]) -> None:
        """Let merchants that were held back wait with the others, where they wait at all."""
        for merchant_id in merchants:
            if merchant_id in self._lines[Health.HELD].waiting:
                self.add(merchant_id)

    def _kind_of(self, merchant_id: str) -> Health | None:
        for kind, line in self._lines.items():
            if merchant_id in line.waiting:
                return kind
        return None

    def take(self, most: int, room: Slots) -> dict[str, int]:
        """Take the merchants that have waited longest, of those kinds that have places left."""
        taken: dict[str, int] = {}
        while len(taken) < most and (kind := self._longest_waiting(room)) is not None:
            merchant_id, waiting = self._lines[kind].waiting.popitem(last=False)
            standing = self._merchants.of(merchant_id)
            if room.left(standing) > 0:
                room.take(standing)
                taken[merchant_id] = waiting.head_seq
            else:  # it has come down meanwhile
                self._append(self._lines[standing], merchant_id, waiting.head_seq)
        return taken

    def _longest_waiting(self, room: Slots) -> Health | None:
        firsts = {
            kind: next(iter(line.waiting.values())).since
            for kind, line in self._lines.items()
            if line.waiting and room.left(kind) > 0
        }
        return min(firsts, key=firsts.__getitem__, default=None)

    def _append(self, line: _Line, merchant_id: str, head_seq: int) -> None:
        self._next += 1
        line.waiting[merchant_id] = _Waiting(head_seq, self._next)

    def give_back(self, heads: Mapping[str, int]) -> None:
        """Put back what was taken in vain."""
        for merchant_id, head_seq in heads.items():
            self.add(merchant_id, head_seq)

    def has_any(self, least: Health) -> bool:
        """Tell whether anybody of this standing or a better one waits."""
        return any(line.waiting for kind, line in self._lines.items() if kind >= least)

    def waiting(self, room: Slots) -> int:
        """Return how many wait that may have a place."""
        return sum(len(line.waiting) for kind, line in self._lines.items() if room.left(kind) > 0)

    def __len__(self) -> int:
        return sum(len(line.waiting) for line in self._lines.values())
