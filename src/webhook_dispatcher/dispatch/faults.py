"""Tells our own faults from merchants' (I10), so that they do not use up merchants' attempts.

Signs of a fault of ours, and what it takes to believe them:

- local: the sender says so (no file descriptors, no route, our proxy): one is enough.
- fleet: of the merchants that accepted something lately, take the SAMPLE to whom first attempts were begun
  last: nearly all of those failed, in the same way: our name server, signer, certificates or network. A
  merchant, or a hosting company with a third of them, is not nearly all. The sample goes by when attempts
  began, so that what succeeded before the fault is out of it after as many attempts, however fast or slow
  they fail.
- clock: this machine's clock and the database's are further apart than receivers tolerate.
- stall: the event loop stood still while an attempt was under way, so that its time-out is ours.

While a local or fleet fault lasts, nothing is claimed but a probe now and then, and what fails in that same
way is not recorded; the first attempt since then that is accepted ends it. A clock's fault ends with the
clock's. A stall excuses the attempts it hit, and pauses nothing.
"""

from collections import OrderedDict
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import structlog

from webhook_dispatcher.domain.clock import Clock, DatabaseClock
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.verdict import Answer, Failure, Outcome
from webhook_dispatcher.telemetry.metrics import Metrics

LEAST_MERCHANTS = 5
"""Merchants that must have been tried before the fleet is judged."""
SHARE = 0.9
"""The part of them that must fail alike."""
SAMPLE = 20
"""Merchants compared, each with its latest first attempt."""
WINDOW = 60.0
"""Seconds for which a merchant's latest first attempt says something."""
GOOD_FOR = 600.0
"""Seconds for which a merchant that accepted something counts as one that works."""
PROBE_INTERVAL = 1.0
"""Seconds between two probes."""
MOST_CLOCK_DIFFERENCE = 30.0
"""Seconds that the clocks may be apart (I10); receivers tolerate 300."""
LONGEST_BEAT = 1.0
"""Seconds between two beats of the event loop beyond which it stood still."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Fault:
    kind: str
    mark: str
    since: float


class _Sample:
    """The latest first attempts of the SAMPLE merchants whose attempts began last."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[float, str]] = {}
        self._oldest_first: list[tuple[float, str]] = []  # a heap; what was overtaken stays until it is met

    def add(self, merchant_id: str, started: float, mark: str) -> None:
        """Take in an attempt, and drop the merchant whose attempt began longest ago if there are too many."""
        known = self._latest.get(merchant_id)
        if known is not None and known[0] >= started:
            return
        self._latest[merchant_id] = (started, mark)
        heappush(self._oldest_first, (started, merchant_id))
        if len(self._latest) > SAMPLE:
            self._drop_oldest()
        elif len(self._oldest_first) > 2 * SAMPLE:
            self._oldest_first = [(began, merchant) for merchant, (began, _) in self._latest.items()]
            heapify(self._oldest_first)

    def _drop_oldest(self) -> None:
        while True:
            began, oldest = heappop(self._oldest_first)
            if self._latest.get(oldest, _NONE)[0] == began:
                del self._latest[oldest]
                return

    def marks_since(self, began: float) -> list[str]:
        """Return how the attempts ended that began then or later."""
        return [mark for started, mark in self._latest.values() if started >= began]


class Faults:
    """Watches how attempts end, the clocks and the event loop."""

    def __init__(self, clock: Clock, database_clock: DatabaseClock, metrics: Metrics) -> None:
        self._clock = clock
        self._database_clock = database_clock
        self._metrics = metrics
        self._fault: _Fault | None = None
        self._clock_is_off = False
        self._probe_at = 0.0
        self._beat_at = self._stalled_at = clock.elapsed()
        self._good: OrderedDict[str, float] = OrderedDict()
        self._sample = _Sample()

    @property
    def reasons(self) -> list[str]:
        """Say what is wrong on our side, for operators; empty when nothing is."""
        said = []
        if self._fault is not None:
            said.append(f"a fault of our own ({self._fault.kind}): attempts fail with {self._fault.mark}")
        if self._clock_is_off:
            behind = -self._database_clock.ahead_by()
            said.append(f"this machine's clock is {behind:+.0f} s off the database's")
        return said

    @property
    def is_open(self) -> bool:
        """Tell whether sending must pause, but for probes."""
        return self._fault is not None or self._clock_is_off

    def takes_probe(self) -> bool:
        """Tell whether a probe may be sent now."""
        now = self._clock.elapsed()
        return not self._clock_is_off and now >= self._probe_at

    def note_probe(self) -> None:
        """Count a probe as sent."""
        self._probe_at = self._clock.elapsed() + PROBE_INTERVAL

    def beat(self) -> None:
        """Take a sign of life of the event loop, and look at the clocks."""
        now = self._clock.elapsed()
        if now - self._beat_at > LONGEST_BEAT:
            self._stalled_at = now
            _log.warning("event_loop.stalled", seconds=round(now - self._beat_at, 1))
        self._beat_at = now
        self.look_at_clock()

    def clock_is_off(self) -> bool:
        """Compare the clocks, and tell whether receivers would refuse what is signed now."""
        self.look_at_clock()
        return self._clock_is_off

    def look_at_clock(self) -> None:
        """Compare the clocks."""
        is_off = abs(self._database_clock.ahead_by()) > MOST_CLOCK_DIFFERENCE
        if is_off != self._clock_is_off:
            self._clock_is_off = is_off
            self._metrics.own_fault.labels("clock").set(is_off)
            (_log.error if is_off else _log.info)("fault.began" if is_off else "fault.ended", kind="clock")

    def counts(self, event: Event, seen: Answer | Failure, started: float) -> bool:
        """Learn how an attempt ended; tell whether it counts as the merchant's."""
        now = self._clock.elapsed()
        mark = _mark(seen)
        if seen.outcome is Outcome.DELIVERED:
            self._good[event.merchant_id] = now
            self._good.move_to_end(event.merchant_id)
        is_ours = isinstance(seen, Failure) and seen.is_ours
        if is_ours:
            self._begin("local", mark, now)
        elif self._fault is not None and started >= self._fault.since and self._is_over(seen):
            self._end()
        if event.attempts == 0:
            self._compare(event.merchant_id, mark, started, now)
        if seen.outcome in (Outcome.DELIVERED, Outcome.UNSENDABLE):
            return True
        is_excused = seen.outcome is Outcome.TIMEOUT and self._stood_still_since(started, now)
        is_suspect = self._fault is not None and self._fault.kind == "fleet" and self._fault.mark == mark
        return not (is_ours or is_excused or is_suspect or self._clock_is_off)

    def _is_over(self, seen: Answer | Failure) -> bool:
        """Tell whether an attempt shows that this machine works again: a local fault, by reaching anybody."""
        assert self._fault is not None
        if self._fault.kind == "local" and seen.outcome in _REACHED:
            return True
        return seen.outcome is Outcome.DELIVERED

    def _stood_still_since(self, started: float, now: float) -> bool:
        return self._stalled_at > started or now - self._beat_at > LONGEST_BEAT

    def _compare(self, merchant_id: str, mark: str, started: float, now: float) -> None:
        """Put a first attempt beside the latest ones of the other merchants that worked."""
        while self._good and (oldest := next(iter(self._good.items())))[1] < now - GOOD_FOR:
            del self._good[oldest[0]]
        if merchant_id not in self._good:
            return
        self._sample.add(merchant_id, started, mark)
        if mark == _ACCEPTED:
            return
        marks = self._sample.marks_since(now - WINDOW)
        if len(marks) >= LEAST_MERCHANTS and marks.count(mark) >= SHARE * len(marks):
            self._begin("fleet", mark, now)

    def _begin(self, kind: str, mark: str, now: float) -> None:
        if self._fault is not None:
            return
        self._fault = _Fault(kind, mark, now)
        self._probe_at = now + PROBE_INTERVAL
        self._metrics.own_fault.labels(kind).set(1)
        _log.error("fault.began", kind=kind, attempts_fail_with=mark)

    def _end(self) -> None:
        assert self._fault is not None
        _log.info("fault.ended", kind=self._fault.kind)
        self._metrics.own_fault.labels(self._fault.kind).set(0)
        self._fault = None
        self._sample = _Sample()


_ACCEPTED = "delivered"
_NONE = (-1.0, "")
_REACHED = frozenset(
    (Outcome.STATUS, Outcome.CONNECT, Outcome.TLS, Outcome.DISCONNECTED, Outcome.BAD_RESPONSE)
)


def _mark(seen: Answer | Failure) -> str:
    """Name the way in which an attempt ended: failures alike have the same mark."""
    if isinstance(seen, Answer) and seen.outcome is not Outcome.DELIVERED:
        return f"status {seen.status}"
    return str(seen.outcome)
