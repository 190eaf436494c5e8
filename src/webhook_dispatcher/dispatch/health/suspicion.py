"""Suspects this machine when those who worked fail alike, and holds back whoever shows it. No I/O.

A suspicion is about one mark: the way in which attempts fail. It begins when nearly all of the origins to
which first attempts were begun last show the same mark. An origin is a network or, where no address was
known, a host's name. Only merchants that accepted something lately are witnesses. An HTTP answer is no mark,
whatever its status: it took names, routes and certificates that work. One for which no name was looked up (on
a kept connection, of a name in the resolver's cache) says nothing about failures without an address: those
are compared with attempts that took a name alone.

While it lasts, failures with its mark are excused, and the merchant is held back. Nobody else is. Whoever is
held back is tried again as a probe (one a second over all of them) or, once somebody else has been answered
since, when its hold is over; holds double. If the fault is ours, all come to be held back: that is the pause.

It ends, and lets all go, when
- one that has shown the mark is answered in an attempt begun since: what it was is over;
- others have been answered for longer than MAX_SUSPICION: it is not ours, and attempts count again.
Whoever showed a mark while others were answered is no witness until it accepts something again; if they were
for longer than MAX_HOLD, it is neither excused nor held back for GOOD_FOR.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import structlog

from webhook_dispatcher.domain.clock import Clock

MIN_ORIGINS = 5
"""Origins that must have been tried before anything is suspected."""
SHARE = 0.9
"""The part of them that must fail alike."""
SAMPLE = 20
"""Origins compared, each with its latest first attempt."""
WINDOW = 60.0
"""Seconds for which an origin's latest first attempt says something."""
NEWS = 0.1
"""Seconds for which another answer of the same origin says nothing new."""
GOOD_FOR = 600.0
"""Seconds for which a merchant that accepted something counts as one that works, or was excused in vain."""
MAX_SUSPICION = 60.0
"""Seconds between two answers to others after which a suspicion was wrong."""
MIN_HOLD = 1.0
"""Seconds for which a merchant is held back at first."""
MAX_HOLD = 15.0
"""Seconds for which it is held back at most, while others are answered."""
NO_ADDRESS = ", no address"
"""The end of marks of attempts that came no further than the look-up of a name, or the egress proxy."""
SILENCE = 5.0
"""Seconds without an answer to anybody after which a suspicion is taken for a fault of ours."""

_NEVER = float("-inf")

_log = structlog.get_logger()


@dataclass(slots=True)
class _Suspicion:
    """What is known of one mark.

    since: when the attempts that gave rise to it had begun; those begun later tell whether it is right.
    answered_at: when somebody was answered last, or else when the suspicion began.
    first_answer, last_answer: when those attempts at others began that went the same way and were answered.
    shown: since when each merchant has shown it.
    """

    mark: str
    since: float
    answered_at: float
    first_answer: float | None = None
    last_answer: float | None = None
    shown: dict[str, float] = field(default_factory=dict)
    was_contradicted: bool = False

    def is_believed(self, now: float) -> bool:
        """Tell whether nobody has been answered for so long that it is rather true."""
        patience = WINDOW if self.was_contradicted else SILENCE  # others may have little to be sent
        return now - self.answered_at >= patience

    def is_refuted_by(self, is_fresh: bool) -> bool:
        """Tell whether an answer went the same way: a connection that was kept needed no name."""
        return is_fresh or not self.mark.endswith(NO_ADDRESS)

    def was_vain(self) -> bool:
        """Tell whether others were answered for longer than a fault of ours lets them be by chance."""
        first, last = self.first_answer, self.last_answer
        return first is not None and last is not None and last - first > MAX_HOLD


@dataclass(frozen=True, slots=True)
class _Hold:
    suspicion: _Suspicion
    began: float
    until: float

    def is_over(self, now: float) -> bool:
        """Tell whether the merchant may be tried beside others: they have been answered meanwhile."""
        last = self.suspicion.last_answer
        return now >= self.until and last is not None and last > self.began


class _Shown(NamedTuple):
    """One attempt. A tuple: made for each."""

    started: float
    mark: str | None
    merchant_id: str


class _Sample:
    """The latest first attempts at the SAMPLE origins whose attempts began last; no mark: answered."""

    def __init__(self) -> None:
        self._latest: dict[str, _Shown] = {}
        self._oldest_first: list[tuple[float, str]] = []  # a heap; what was overtaken stays until it is met

    def add(self, origin: str, shown: _Shown) -> None:
        """Take in an attempt, and drop the origin whose attempt began longest ago if there are too many."""
        if shown.mark is not None:
            self._move(shown.merchant_id, origin)
        known = self._latest.get(origin)
        if known is not None:
            has_failed = known.mark is not None or shown.mark is not None
            if shown.started - known.started <= (0.0 if has_failed else NEWS):
                return
        self._latest[origin] = shown
        heappush(self._oldest_first, (shown.started, origin))
        if len(self._latest) > SAMPLE:
            self._drop_oldest()
        elif len(self._oldest_first) > 2 * SAMPLE:
            self._rebuild()

    def _move(self, merchant_id: str, origin: str) -> None:
        """Forget what a merchant showed elsewhere: a network when it was answered, now a name."""
        for other, shown in list(self._latest.items()):
            if shown.merchant_id == merchant_id and other != origin:
                del self._latest[other]

    def _drop_oldest(self) -> None:
        while True:
            started, oldest = heappop(self._oldest_first)
            known = self._latest.get(oldest)
            if known is not None and known.started == started:
                del self._latest[oldest]
                return

    def _rebuild(self) -> None:
        self._oldest_first = [(shown.started, origin) for origin, shown in self._latest.items()]
        heapify(self._oldest_first)

    def forget(self, mark: str) -> None:
        """Forget who showed a mark."""
        self._latest = {origin: shown for origin, shown in self._latest.items() if shown.mark != mark}
        self._rebuild()

    def alike(self, mark: str, since: float) -> list[_Shown]:
        """Return the attempts since then that show a mark, if nearly all do."""
        latest = [shown for shown in self._latest.values() if shown.started >= since]
        alike = [shown for shown in latest if shown.mark == mark]
        return alike if len(latest) >= MIN_ORIGINS and len(alike) >= SHARE * len(latest) else []


class _Lately:
    """Merchants of whom something was learned within the last GOOD_FOR seconds."""

    def __init__(self) -> None:
        self._since: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._since)

    def learn(self, merchant_id: str, now: float) -> None:
        """Learn it, and forget of whom it was learned too long ago; no more than once a second."""
        if self._since.get(merchant_id, _NEVER) > now - 1.0:
            return
        self._since[merchant_id] = now
        self._since.move_to_end(merchant_id)
        while next(iter(self._since.values())) < now - GOOD_FOR:
            self._since.popitem(last=False)

    def forget(self, merchant_id: str) -> None:
        """Forget it of one."""
        self._since.pop(merchant_id, None)

    def knows(self, merchant_id: str, now: float) -> bool:
        """Tell whether it was learned lately."""
        return self._since.get(merchant_id, _NEVER) >= now - GOOD_FOR


class Suspicions:
    """Knows what is suspected, and who is held back for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._good = _Lately()
        self._excused_in_vain = _Lately()
        self._sample = _Sample()
        self._names = _Sample()  # of attempts that took a name
        self._suspicions: dict[str, _Suspicion] = {}
        self._holds: dict[str, _Hold] = {}
        self._freed: list[str] = []
        self._looks_at = 0.0

    @property
    def held(self) -> int:
        """Return how many merchants are held back."""
        return len(self._holds)

    def holds(self, merchant_id: str) -> bool:
        """Tell whether a merchant is held back."""
        return merchant_id in self._holds

    def freed(self) -> list[str]:
        """Return whom was let go since this was asked last."""
        now = self._clock.elapsed()
        if self._holds and now >= self._looks_at:
            self._looks_at = now + MIN_HOLD / 10
            over = [merchant_id for merchant_id, hold in self._holds.items() if hold.is_over(now)]
            for merchant_id in over:
                del self._holds[merchant_id]
            self._freed += over
        freed, self._freed = self._freed, []
        return freed

    def believed(self) -> str | None:
        """Return a mark that everybody seems to fail with, since nobody was answered for a while."""
        now = self._clock.elapsed()
        for suspicion in self._suspicions.values():
            if suspicion.is_believed(now):
                return suspicion.mark
        return None

    def answered(
        self,
        merchant_id: str,
        origin: str,
        started: float,
        *,
        is_first: bool,
        is_fresh: bool = True,
        is_accepted: bool = False,
    ) -> None:
        """Learn that an attempt was answered, whatever the status.

        is_fresh: a name was looked up for it. is_accepted: the merchant works.
        """
        if self._suspicions:
            self._contradict(merchant_id, started, is_fresh)
        now = self._clock.elapsed()
        if is_first and self._good.knows(merchant_id, now):
            shown = _Shown(started, None, merchant_id)
            self._sample.add(origin, shown)
            if is_fresh:
                self._names.add(origin, shown)
        if is_accepted:
            self._good.learn(merchant_id, now)

    def _contradict(self, merchant_id: str, started: float, is_fresh: bool) -> None:
        for suspicion in list(self._suspicions.values()):
            if started > suspicion.since:
                suspicion.was_contradicted = True
                suspicion.answered_at = max(started, suspicion.answered_at)
                if suspicion.is_refuted_by(is_fresh):
                    self._weigh(suspicion, merchant_id, started)

    def excuses(self, merchant_id: str, origin: str, started: float, mark: str, *, is_first: bool) -> bool:
        """Learn that an attempt failed; tell whether it may be our fault. Its merchant is held back then."""
        now = self._clock.elapsed()
        if is_first and self._good.knows(merchant_id, now):
            sample = self._names if mark.endswith(NO_ADDRESS) else self._sample
            sample.add(origin, _Shown(started, mark, merchant_id))
            if mark not in self._suspicions and (alike := sample.alike(mark, now - WINDOW)):
                self._begin(mark, alike, now)
        suspicion = self._suspicions.get(mark)
        if suspicion is None or self._excused_in_vain.knows(merchant_id, now):
            return False
        first = suspicion.shown.setdefault(merchant_id, now)
        hold = min(max(MIN_HOLD, now - first), MAX_HOLD)
        self._holds[merchant_id] = _Hold(suspicion, now, now + hold)
        return True

    def _begin(self, mark: str, alike: Sequence[_Shown], now: float) -> None:
        since = max(shown.started for shown in alike)
        self._suspicions[mark] = _Suspicion(
            mark, since, now, shown=dict.fromkeys([shown.merchant_id for shown in alike], now)
        )
        _log.warning("suspicion.began", attempts_fail_with=mark, origins=len(alike))

    def _weigh(self, suspicion: _Suspicion, merchant_id: str, started: float) -> None:
        """Draw what follows for a suspicion from an answer to an attempt begun since."""
        if merchant_id in suspicion.shown:
            self._end(suspicion, "it is over")
            return
        if suspicion.first_answer is None:
            suspicion.first_answer = started
        suspicion.last_answer = max(started, suspicion.last_answer or 0.0)
        if started - suspicion.first_answer > MAX_SUSPICION:
            self._end(suspicion, "others are answered")

    def _end(self, suspicion: _Suspicion, reason: str) -> None:
        _log.info("suspicion.ended", attempts_failed_with=suspicion.mark, reason=reason)
        del self._suspicions[suspicion.mark]
        self._sample.forget(suspicion.mark)
        self._names.forget(suspicion.mark)
        let_go = [merchant_id for merchant_id, hold in self._holds.items() if hold.suspicion is suspicion]
        for merchant_id in let_go:
            del self._holds[merchant_id]
        self._freed += let_go
        for merchant_id in suspicion.shown:
            if suspicion.last_answer is not None:
                self._good.forget(merchant_id)
            if suspicion.was_vain():
                self._excused_in_vain.learn(merchant_id, self._clock.elapsed())
