"""Suspects that a failure is ours when nearly all merchants fail alike, and holds back those that do. No I/O.

A suspicion is about one mark: the way in which attempts fail. It begins when nearly all of the origins that
were tried last, in first attempts, have the same mark (lanes.Evidence). An HTTP answer is no mark,
whatever its status: our names, routes and certificates worked for it. What the sender knows to be a fault of
this machine has a mark of its own (OURS), and needs no others that fail alike.

While it lasts, failures with its mark do not count, and their merchants, but no others, are held back. A
merchant that is held back is tried again as a probe (one a second over all of them) or, once another merchant
has been answered meanwhile, when its hold is over. A hold lasts as long as the merchant has had the mark,
from MIN_HOLD to MAX_HOLD. If the fault is ours, all come to be held back, so that sending pauses.

It ends, and its merchants are held back no more, when
- a merchant with the mark is answered in an attempt begun since: the cause is gone;
- one with a mark of OURS fails in another way, which shows that it got further: the cause is gone;
- others have been answered for longer than MAX_SUSPICION: the fault is not ours, and failures count again.
A merchant that had a mark while others were answered is not compared until it accepts something again. If
others were answered for longer than MAX_HOLD, it is neither excused nor held back for RECENT seconds. Marks
of OURS have no such consequences, and attempts that fail with them never count.
"""

from dataclasses import dataclass, field

import structlog

from webhook_dispatcher.dispatch.health.lanes import (
    NO_ADDRESS,
    WINDOW,
    Evidence,
    RecentLanes,
)
from webhook_dispatcher.domain.clock import Clock

MAX_SUSPICION = 60.0
"""Seconds from the first answer to another merchant to the last, after which a suspicion was wrong."""
MIN_HOLD = 1.0
"""Seconds for which a merchant is held back at first."""
MAX_HOLD = 15.0
"""Seconds for which it is held back at most, while others are answered."""
OURS = "a fault of this machine"
"""How marks begin of attempts that the sender knows to have failed through us."""
SILENCE = 5.0
"""Seconds without an answer to anybody after which a suspicion is taken for a fault of ours."""

_log = structlog.get_logger()


@dataclass(slots=True)
class _Suspicion:
    """What is known of one mark.

    since: when the attempts that caused it had begun; those begun later tell whether it is right.
    answered_at: when any merchant was answered last, or else when the suspicion began.
    first_answer, last_answer: when the first and last attempts of others began that went the same way and
        were answered.
    lanes: since when each lane has had the mark.
    """

    mark: str
    since: float
    answered_at: float
    first_answer: float | None = None
    last_answer: float | None = None
    lanes: dict[str, float] = field(default_factory=dict)
    was_contradicted: bool = False

    @property
    def is_ours(self) -> bool:
        """Tell whether it is no mere suspicion: the sender knows that the fault is ours."""
        return self.mark.startswith(OURS)

    def is_believed(self, now: float) -> bool:
        """Tell whether no merchant has been answered for so long that the fault is probably ours."""
        patience = WINDOW if self.was_contradicted else SILENCE  # the others may have few events
        return now - self.answered_at >= patience

    def is_refuted_by(self, is_fresh: bool) -> bool:
        """Tell whether an answer contradicts the mark: one on a kept connection needed no name server."""
        return is_fresh or not self.mark.endswith(NO_ADDRESS)

    def was_vain(self) -> bool:
        """Tell whether others were answered for so long that it cannot have been chance."""
        first, last = self.first_answer, self.last_answer
        return first is not None and last is not None and last - first > MAX_HOLD


@dataclass(frozen=True, slots=True)
class _Hold:
    suspicion: _Suspicion
    began: float
    until: float

    def is_over(self, now: float) -> bool:
        """Tell whether the lane may be tried beside others: they have been answered meanwhile."""
        last = self.suspicion.last_answer
        return now >= self.until and last is not None and last > self.began


class Suspicions:
    """All suspicions, and the lanes held back for them.

    marks: what is suspected now. held: the lanes held back now. Both are live views.
    to_release: those not held back any more that `take_released` has not returned yet.
    """

    def __init__(self, clock: Clock, evidence: Evidence) -> None:
        self._clock = clock
        self._evidence = evidence
        self._excused_in_vain = RecentLanes()
        self._suspicions: dict[str, _Suspicion] = {}
        self._holds: dict[str, _Hold] = {}
        self.marks = self._suspicions.keys()
        self.held = self._holds.keys()
        self.to_release: list[str] = []
        self._looks_at = 0.0

    def take_released(self) -> list[str]:
        """Return the lanes that have ceased to be held back since the last call."""
        now = self._clock.elapsed()
        if self._holds and now >= self._looks_at:
            self._looks_at = now + MIN_HOLD / 10
            over = [lane for lane, hold in self._holds.items() if hold.is_over(now)]
            for lane in over:
                del self._holds[lane]
            self.to_release += over
        released, self.to_release = self.to_release, []
        return released

    def believed(self) -> str | None:
        """Return a mark that is believed to be our fault, since no merchant was answered for a while."""
        now = self._clock.elapsed()
        for suspicion in self._suspicions.values():
            if not suspicion.is_ours and suspicion.is_believed(now):
                return suspicion.mark
        return None

    @property
    def is_any_ours(self) -> bool:
        """Tell whether lanes are held back for what the sender knows to be a fault of this machine."""
        return any(suspicion.is_ours for suspicion in self._suspicions.values())

    def contradict(self, lane: str, started: float, *, is_fresh: bool) -> None:
        """Learn that an attempt was answered, whatever the status. is_fresh: a name was looked up for it."""
        for suspicion in list(self._suspicions.values()):
            if started > suspicion.since:
                suspicion.was_contradicted = True
                suspicion.answered_at = max(started, suspicion.answered_at)
                if suspicion.is_refuted_by(is_fresh):
                    self._weigh(suspicion, lane, started)

    def excuses(self, lane: str, origin: str, started: float, mark: str, *, is_first: bool) -> bool:
        """Learn that an attempt failed. True: it may be our fault, and its lane is held back."""
        now = self._clock.elapsed()
        alike = self._evidence.failed(lane, origin, started, mark) if is_first else []
        if alike and mark not in self._suspicions:
            since = max(result.started for result in alike)
            lanes = dict.fromkeys([result.lane for result in alike], now)
            self._suspicions[mark] = _Suspicion(mark, since, now, lanes=lanes)
            _log.warning("suspicion.began", attempts_fail_with=mark, origins=len(alike))
        suspicion = self._suspicions.get(mark)
        if suspicion is None or self._excused_in_vain.knows(lane, now):
            return False
        self._hold_back(suspicion, lane, now)
        return True

    def hold_back(self, lane: str, mark: str) -> None:
        """Learn that an attempt failed through a fault of ours. mark: one of OURS."""
        now = self._clock.elapsed()
        suspicion = self._suspicions.setdefault(mark, _Suspicion(mark, now, now))
        self._hold_back(suspicion, lane, now)

    def got_further(self, lane: str, started: float, *, has_address: bool) -> None:
        """Learn that an attempt failed, but not through us. has_address: it got further than the look-up."""
        for suspicion in list(self._suspicions.values()):
            is_over = suspicion.is_ours and (has_address or suspicion.mark.endswith(NO_ADDRESS))
            if is_over and lane in suspicion.lanes and started > suspicion.since:
                self._end(suspicion, "it is over")

    def _hold_back(self, suspicion: _Suspicion, lane: str, now: float) -> None:
        first = suspicion.lanes.setdefault(lane, now)
        hold = min(max(MIN_HOLD, now - first), MAX_HOLD)
        self._holds[lane] = _Hold(suspicion, now, now + hold)

    def _weigh(self, suspicion: _Suspicion, lane: str, started: float) -> None:
        """End a suspicion, if an answer to an attempt begun since shows that it is wrong or over."""
        if lane in suspicion.lanes:
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
        self._evidence.forget(suspicion.mark)
        released = [lane for lane, hold in self._holds.items() if hold.suspicion is suspicion]
        for lane in released:
            del self._holds[lane]
        self.to_release += released
        if suspicion.is_ours:
            return
        for lane in suspicion.lanes:
            if suspicion.last_answer is not None:
                self._evidence.distrust(lane)
            if suspicion.was_vain():
                self._excused_in_vain.learn(lane, self._clock.elapsed())
