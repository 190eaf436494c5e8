"""What merchants' latest attempts say about them, and how many places each kind may take. No I/O.

A place (a lane's visit, or a retry in flight) that a merchant keeps for the ten seconds of a time-out is one
that healthy merchants cannot have. So merchants known to be slow get at most half of the places, and with
those of whom nothing good is known at most seven eighths: see docs/adr/0011.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from itertools import count, islice

from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.verdict import Outcome

SLOW = 1.0
"""Seconds beyond which an attempt is slow, however it ends."""
MEMORY = 600.0
"""Seconds for which an attempt says something."""
MOST_KNOWN = 25_000
"""Merchants remembered of each kind; beyond, those heard of longest ago are forgotten."""
SUSPECT_SHARE = 2
"""Suspects may take one place in so many."""
RESERVE_SHARE = 8
"""One place in so many is kept for good merchants."""


class Health(IntEnum):
    """How a merchant's latest attempt went; the higher, the more places it may take.

    A suspect's was slow, however it ended; a good one's was quick and accepted. Of the others nothing is
    known, or it failed quickly: that holds no place for long, and must not wait behind those that do. One
    that is held back fails as nearly all do, which may be our fault (suspicion.py).
    """

    HELD = 0
    SUSPECT = 1
    UNKNOWN = 2
    GOOD = 3


class MerchantHealth:
    """Knows merchants' standing. An attempt that is under way for long tells as much as one that ended."""

    def __init__(self, clock: Clock, is_held: Callable[[str], bool] = lambda _: False) -> None:
        self._clock = clock
        self._is_held = is_held
        # Each with the oldest first, so that what has become old is found at the front.
        self._good: OrderedDict[str, float] = OrderedDict()
        self._suspect: OrderedDict[str, float] = OrderedDict()
        self._flying: OrderedDict[int, tuple[str, float]] = OrderedDict()
        self._tickets = count()
        self._nothing_changes_before = 0.0

    def took_off(self, merchant_id: str) -> int:
        """Learn that an attempt begins; returns a ticket for `landed`."""
        ticket, now = next(self._tickets), self._clock.elapsed()
        self._flying[ticket] = (merchant_id, now)
        self._nothing_changes_before = min(self._nothing_changes_before, now + SLOW)
        return ticket

    def landed(self, ticket: int) -> None:
        """Learn that it has ended, whatever came of it."""
        self._flying.pop(ticket, None)

    def learn(self, merchant_id: str, outcome: Outcome, seconds: float) -> None:
        """Learn how an attempt went that counts."""
        if outcome is Outcome.UNSENDABLE:
            return  # the row's fault
        now = self._clock.elapsed()
        if seconds > SLOW or outcome is Outcome.TIMEOUT:
            self._suspects(merchant_id, now)
            return
        self._suspect.pop(merchant_id, None)
        if outcome is Outcome.DELIVERED:
            _note(self._good, merchant_id, now)
        else:
            self._good.pop(merchant_id, None)

    def of(self, merchant_id: str) -> Health:
        """Return a merchant's standing now."""
        if self._is_held(merchant_id):
            return Health.HELD
        self._catch_up()
        if merchant_id in self._suspect:
            return Health.SUSPECT
        return Health.GOOD if merchant_id in self._good else Health.UNKNOWN

    def tally(self, merchants: Collection[str]) -> Counter[Health]:
        """Count merchants by their standing now, those that are held back by what they are besides."""
        self._catch_up()
        suspects = sum(map(self._suspect.__contains__, merchants))
        good = sum(map(self._good.__contains__, merchants))
        unknown = len(merchants) - suspects - good
        return Counter({Health.SUSPECT: suspects, Health.UNKNOWN: unknown, Health.GOOD: good})

    def _catch_up(self) -> None:
        """Suspect those whose attempts have been under way for too long, and forget what is old."""
        now = self._clock.elapsed()
        if now < self._nothing_changes_before:
            return
        while self._flying:
            ticket, (merchant_id, started) = next(iter(self._flying.items()))
            if started + SLOW > now:
                break
            del self._flying[ticket]
            self._suspects(merchant_id, now)
        for known in (self._good, self._suspect):
            while known and next(iter(known.values())) + MEMORY <= now:
                known.popitem(last=False)
        firsts = [started + SLOW for _, started in islice(self._flying.values(), 1)]
        firsts += [at + MEMORY for known in (self._good, self._suspect) for at in islice(known.values(), 1)]
        self._nothing_changes_before = min(firsts, default=now + SLOW)

    def _suspects(self, merchant_id: str, now: float) -> None:
        self._good.pop(merchant_id, None)
        _note(self._suspect, merchant_id, now)


def _note(known: OrderedDict[str, float], merchant_id: str, now: float) -> None:
    known[merchant_id] = now
    known.move_to_end(merchant_id)
    if len(known) > MOST_KNOWN:
        known.popitem(last=False)


class Slots:
    """The places that are left, by standing: who may have more may have what others may, too."""

    def __init__(
        self, most: int, taken: Mapping[Health, int], fullness: float = 0.0, probes: int = 0
    ) -> None:
        """Set up.

        taken: places taken already; they may be more than their kind may have.
        fullness: the part of the memory for bodies that is taken. The same shares hold for it.
        probes: how many of those that are held back may be tried.
        """
        self._probes = probes
        suspects = taken.get(Health.SUSPECT, 0)
        unknown = taken.get(Health.UNKNOWN, 0) + taken.get(Health.HELD, 0)
        self._all = most - suspects - unknown - taken.get(Health.GOOD, 0)
        self._doubtful = most - most // RESERVE_SHARE - suspects - unknown
        self._suspect = suspect_places(most) - suspects
        if fullness >= 1 / SUSPECT_SHARE:
            self._suspect = min(self._suspect, 0)
        if fullness >= 1 - 1 / RESERVE_SHARE:
            self._doubtful = min(self._doubtful, 0)

    def left(self, standing: Health) -> int:
        """Return how many more of this standing may have a place: negative where too many have."""
        if standing is Health.GOOD:
            return self._all
        doubtful = min(self._all, self._doubtful)
        if standing is Health.HELD:
            return min(doubtful, self._probes)
        return doubtful if standing is Health.UNKNOWN else min(doubtful, self._suspect)

    @property
    def for_anybody(self) -> int:
        """Return how many could be suspects all of them without taking what is not theirs."""
        return max(0, min(self._suspect, self._doubtful))

    def take(self, standing: Health, places: int = 1) -> None:
        """Count places as taken."""
        self._all -= places
        if standing is not Health.GOOD:
            self._doubtful -= places
        if standing is Health.SUSPECT:
            self._suspect -= places
        if standing is Health.HELD:
            self._probes -= places


def suspect_places(most: int) -> int:
    """Return how many of so many places suspects may have: one at least, or they would wait for ever."""
    return max(1, most // SUSPECT_SHARE)
