"""How lanes' latest attempts went, and how many bulkhead slots each health may take. No I/O.

A slot is a lane's session or a retry in flight. A lane whose merchant hangs keeps its slot for the ten
seconds of a time-out, and healthy lanes must not wait for it. So slow lanes get at most half of the slots,
and slow and unknown ones together at most seven eighths: docs/adr/0011.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import NamedTuple

from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.lane import merchant_of
from webhook_dispatcher.domain.verdict import Outcome

SLOW = 1.0
"""Seconds beyond which an attempt is slow, however it ends."""
MIN_ORIGINS = 5
"""Origins that must have been tried before anything is suspected."""
ALIKE_SHARE = 0.9
"""The part of the origins that must fail alike."""
SAMPLE = 20
"""Origins compared, each with its latest first attempt."""
WINDOW = 60.0
"""Seconds after which an origin's latest first attempt is not compared any more."""
REPEAT_INTERVAL = 0.1
"""Seconds within which another answer of the same origin is not noted."""
RECENT = 600.0
"""Seconds for which RecentLanes remembers a lane."""
NO_ADDRESS = ", no address"
"""How marks end of attempts that got no further than looking up a name, or the egress proxy."""
FORGET_AFTER = 600.0
"""Seconds after which a lane's latest attempt is forgotten, and its health unknown."""
MAX_KNOWN = 25_000
"""Lanes remembered of each health; beyond, those attempted longest ago are forgotten."""
SLOW_ONE_IN = 2
"""Slow lanes may take one slot in so many."""
RESERVE_ONE_IN = 8
"""One slot in so many is reserved for healthy lanes."""

_NEVER = float("-inf")


class Health(IntEnum):
    """How a lane's latest attempt went; the higher, the more slots it may take.

    HELD_BACK: it fails as nearly all lanes do, which may be our fault (suspicion.py).
    SLOW: the attempt was slow, or took much of the event loop, however it ended.
    UNKNOWN: there was none lately, or it failed quickly. Such lanes keep no slot for long, so they must
        not wait behind slow ones.
    HEALTHY: it was quick and accepted.
    """

    HELD_BACK = 0
    SLOW = 1
    UNKNOWN = 2
    HEALTHY = 3


class LaneHealth:
    """Knows every lane's health. An attempt in flight for longer than SLOW counts as slow already."""

    def __init__(
        self,
        clock: Clock,
        held: Collection[str] = frozenset(),
        has_worked: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Set up. held: who is held back now. has_worked: whether its merchant accepted something lately."""
        self._clock = clock
        self._held = held
        self.has_worked = has_worked
        # Each with the oldest first, so that what has become old is found at the front.
        self._healthy: OrderedDict[str, float] = OrderedDict()
        self._slow: OrderedDict[str, float] = OrderedDict()
        self._in_flight: OrderedDict[int, tuple[str, float]] = OrderedDict()
        self._tickets = count()
        self._changes_at = 0.0

    def started(self, lane: str) -> int:
        """Learn that an attempt begins; return a ticket for `finished`."""
        ticket, now = next(self._tickets), self._clock.elapsed()
        self._in_flight[ticket] = (lane, now)
        self._changes_at = min(self._changes_at, now + SLOW)
        return ticket

    def finished(self, ticket: int) -> None:
        """Learn that it has ended, whatever came of it."""
        self._in_flight.pop(ticket, None)

    def learn(self, lane: str, outcome: Outcome, seconds: float, *, is_costly: bool = False) -> None:
        """Learn how an attempt went that counts. is_costly: it took much of the event loop."""
        if outcome is Outcome.UNSENDABLE:
            return  # the row's fault
        now = self._clock.elapsed()
        if seconds > SLOW or outcome is Outcome.TIMEOUT or is_costly:
            self._add_slow(lane, now)
            return
        self._slow.pop(lane, None)
        if outcome is Outcome.DELIVERED:
            self._healthy[lane] = now
            self._healthy.move_to_end(lane)
        else:
            self._healthy.pop(lane, None)

    def of(self, lane: str) -> Health:
        """Return a lane's health now."""
        if lane in self._held:
            return Health.HELD_BACK
        if self._clock.elapsed() >= self._changes_at:
            self._catch_up()
        if lane in self._slow:
            return Health.SLOW
        return Health.HEALTHY if lane in self._healthy else Health.UNKNOWN

    def tally(self, lanes: Collection[str]) -> Counter[Health]:
        """Count lanes by their health now; those held back by the health they would have otherwise."""
        if self._clock.elapsed() >= self._changes_at:
            self._catch_up()
        slow = sum(map(self._slow.__contains__, lanes))
        healthy = sum(map(self._healthy.__contains__, lanes))
        unknown = len(lanes) - slow - healthy
        return Counter({Health.SLOW: slow, Health.UNKNOWN: unknown, Health.HEALTHY: healthy})

    def _catch_up(self) -> None:
        """Call lanes slow whose attempts have been in flight for too long, and forget what is old."""
        now = self._clock.elapsed()
        while self._in_flight:
            ticket, (lane, started) = next(iter(self._in_flight.items()))
            if started + SLOW > now:
                break
            del self._in_flight[ticket]
            self._add_slow(lane, now)
        for known in (self._healthy, self._slow):
            while known and (len(known) > MAX_KNOWN or next(iter(known.values())) + FORGET_AFTER <= now):
                known.popitem(last=False)
        firsts = [started + SLOW for _, started in islice(self._in_flight.values(), 1)]
        firsts += [
            at + FORGET_AFTER for known in (self._healthy, self._slow) for at in islice(known.values(), 1)
        ]
        self._changes_at = min(firsts, default=now + SLOW)

    def _add_slow(self, lane: str, now: float) -> None:
        self._healthy.pop(lane, None)
        self._slow[lane] = now
        self._slow.move_to_end(lane)


class Slots:
    """The bulkhead slots that are left. A better health may also take the slots of a worse one."""

    def __init__(
        self, limit: int, taken: Mapping[Health, int], fullness: float = 0.0, probes: int = 0
    ) -> None:
        """Set up.

        limit: slots in all. taken: by health, the slots taken already; they may be more than its share.
        fullness: the part of the memory budget that is used. The same shares hold for it.
        probes: how many lanes that are held back may be tried.
        """
        self._probes = probes
        slow = taken.get(Health.SLOW, 0)
        unknown = taken.get(Health.UNKNOWN, 0) + taken.get(Health.HELD_BACK, 0)
        self._all = limit - slow - unknown - taken.get(Health.HEALTHY, 0)
        self._doubtful = limit - limit // RESERVE_ONE_IN - slow - unknown
        self._slow = slow_slots(limit) - slow
        if fullness >= 1 / SLOW_ONE_IN:
            self._slow = min(self._slow, 0)
        if fullness >= 1 - 1 / RESERVE_ONE_IN:
            self._doubtful = min(self._doubtful, 0)

    def left(self, health: Health) -> int:
        """Return how many more slots this health may take; negative if it has more than its share."""
        if health is Health.HEALTHY:
            return self._all
        doubtful = min(self._all, self._doubtful)
        if health is Health.HELD_BACK:
            return min(doubtful, self._probes)
        return doubtful if health is Health.UNKNOWN else min(doubtful, self._slow)

    @property
    def for_anybody(self) -> int:
        """Return how many slots could be taken if all that take them were slow."""
        return max(0, min(self._slow, self._doubtful))

    def take(self, health: Health, slots: int = 1) -> bool:
        """Take so many slots; False, and none is taken, if there are none left for this health."""
        if self.left(health) <= 0:
            return False
        self._all -= slots
        if health is not Health.HEALTHY:
            self._doubtful -= slots
        if health is Health.SLOW:
            self._slow -= slots
        if health is Health.HELD_BACK:
            self._probes -= slots
        return True

    def release(self, health: Health) -> None:
        """Release a slot that was taken."""
        self._all += 1
        self._doubtful += health is not Health.HEALTHY
        self._slow += health is Health.SLOW
        self._probes += health is Health.HELD_BACK


def slow_slots(limit: int) -> int:
    """Return how many of so many slots slow lanes may have: at least one, or they would wait for ever."""
    return max(1, limit // SLOW_ONE_IN)


class AttemptResult(NamedTuple):
    """One attempt.

    started: clock reading in seconds. mark: how it failed; None: it was answered.
    """

    started: float
    mark: str | None
    lane: str


class _Sample:
    """The latest first attempt at each of the SAMPLE origins that were tried last."""

    def __init__(self) -> None:
        self._latest: dict[str, AttemptResult] = {}
        self._oldest_first: list[tuple[float, str]] = []  # a heap; outdated entries are skipped when popped

    def add(self, origin: str, result: AttemptResult) -> None:
        """Take in an attempt, and drop the origin whose attempt began longest ago if there are too many."""
        if result.mark is not None:
            merchant = merchant_of(result.lane)
            # Of the merchant's other origins nothing counts: it may have gone from a network to a mere name.
            self._latest = {
                other: known
                for other, known in self._latest.items()
                if other == origin or merchant_of(known.lane) != merchant
            }
        known = self._latest.get(origin)
        if known is not None:
            has_failed = known.mark is not None or result.mark is not None
            if result.started - known.started <= (0.0 if has_failed else REPEAT_INTERVAL):
                return
        self._latest[origin] = result
        heappush(self._oldest_first, (result.started, origin))
        if len(self._latest) > SAMPLE:
            self._drop_oldest()
        elif len(self._oldest_first) > 2 * SAMPLE:
            self._rebuild()

    def _drop_oldest(self) -> None:
        while True:
            started, oldest = heappop(self._oldest_first)
            known = self._latest.get(oldest)
            if known is not None and known.started == started:
                del self._latest[oldest]
                return

    def _rebuild(self) -> None:
        self._oldest_first = [(result.started, origin) for origin, result in self._latest.items()]
        heapify(self._oldest_first)

    def forget(self, mark: str) -> None:
        """Forget all attempts with a mark."""
        self._latest = {origin: result for origin, result in self._latest.items() if result.mark != mark}
        self._rebuild()

    def alike(self, mark: str, since: float) -> list[AttemptResult]:
        """Return the attempts since then that have a mark, if nearly all have it; else none."""
        latest = [result for result in self._latest.values() if result.started >= since]
        alike = [result for result in latest if result.mark == mark]
        return alike if len(latest) >= MIN_ORIGINS and len(alike) >= ALIKE_SHARE * len(latest) else []


class RecentLanes:
    """A set of lanes that forgets each RECENT seconds after it was added last."""

    def __init__(self) -> None:
        self._since: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._since)

    def learn(self, lane: str, now: float) -> bool:
        """Add a lane, or renew it (at most once a second). True: it was in the set before."""
        known = self._since.get(lane, _NEVER)
        if known <= now - 1.0:
            self._since[lane] = now
            self._since.move_to_end(lane)
            while next(iter(self._since.values())) < now - RECENT:
                self._since.popitem(last=False)
        return known >= now - RECENT

    def forget(self, lane: str) -> None:
        """Take a lane out."""
        self._since.pop(lane, None)

    def knows(self, lane: str, now: float) -> bool:
        """Tell whether a lane was added within the last RECENT seconds."""
        return self._since.get(lane, _NEVER) >= now - RECENT


class Evidence:
    """Compares the latest first attempts, by origin, to find whether nearly all fail alike.

    An origin is a network or, where no address was known, a host's name. Only lanes of which an event was
    accepted lately are compared. A failure without an address is compared only with attempts that looked up a
    name: an answer on a kept connection, or for a name in the resolver's cache, says nothing about it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._working = RecentLanes()
        self._sample = _Sample()
        self._names = _Sample()  # of attempts that took a name

    def answered(
        self,
        lane: str,
        origin: str,
        started: float,
        *,
        is_first: bool,
        is_fresh: bool,
        is_accepted: bool,
    ) -> None:
        """Learn that an attempt was answered. is_fresh: a name was looked up. is_accepted: with a 2xx."""
        now = self._clock.elapsed()
        worked = self._working.learn(lane, now) if is_accepted else self._working.knows(lane, now)
        if is_first and worked:
            result = AttemptResult(started, None, lane)
            self._sample.add(origin, result)
            if is_fresh:
                self._names.add(origin, result)

    def failed(self, lane: str, origin: str, started: float, mark: str) -> list[AttemptResult]:
        """Learn that a first attempt failed with a mark; return all that have it, if nearly all have it."""
        now = self._clock.elapsed()
        if not self._working.knows(lane, now):
            return []
        sample = self._names if mark.endswith(NO_ADDRESS) else self._sample
        sample.add(origin, AttemptResult(started, mark, lane))
        return sample.alike(mark, now - WINDOW)

    def forget(self, mark: str) -> None:
        """Forget the attempts with a mark."""
        self._sample.forget(mark)
        self._names.forget(mark)

    def trusts(self, lane: str) -> bool:
        """Tell whether a lane's attempts are compared: one was accepted lately."""
        return self._working.knows(lane, self._clock.elapsed())

    def distrust(self, lane: str) -> None:
        """Do not compare a lane's attempts until one is accepted again."""
        self._working.forget(lane)
