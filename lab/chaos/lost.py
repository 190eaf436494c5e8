"""What a failover loses: records of requests, and events that were sent; and the trace that is left of those.

The database that takes over lacks what was committed in the last seconds. It is judged by what it holds:
all of that is delivered, in order. So
- a request of that time that is on no record says nothing, but for what was in it;
- an event of that time that was sent may be gone. Daemons may go on with it until their leases lapse. If one
  that was answered with 2xx lived on, and was able to look for long enough, it stands in webhook.lost_event,
  unless its own log says that no answer came in time (daemon_logs.py);
- what stands there is not in the database.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lab.chaos.evidence import Evidence, daemon_of
from lab.chaos.injections import ALLOWANCE, Injections
from lab.chaos.verdict import What
from webhook_dispatcher.dispatch.sent_lately import LOOK_INTERVAL
from webhook_dispatcher.local.arrivals import Arrival

if TYPE_CHECKING:
    from lab.chaos.cases import Case, Cases

STATEMENT = 2.0
"""Seconds after its answer in which an attempt is put on record, or given up to be written again."""
LOCKED = " locked"
"""What the kinds of fault are called in which an operator locks rows."""
Untraced = tuple[What, "Case", str]


@dataclass(frozen=True, slots=True)
class Losses:
    """The failovers of a run, from when on each has lost what was committed until it was over.

    held_from: for each, from when on rows were locked until then: outcomes were written only after that.
    """

    stretches: Sequence[tuple[float, float]] = ()
    held_from: Sequence[float] = ()
    patience: float = 0.0
    lease: float = 0.0

    @classmethod
    def of(cls, evidence: Evidence) -> Self:
        """Read them from what was done."""
        limits = evidence.limits
        stretches = [
            (one.forgets_from, one.ended) for one in evidence.injections if one.forgets_from is not None
        ]
        locks = [(one.began, one.ended + STATEMENT) for one in evidence.injections if LOCKED in one.kind]
        held = [min([lost, *(begin for begin, end in locks if begin < lost <= end)]) for lost, _ in stretches]
        return cls(stretches, held, limits.attempt_timeout, limits.lease)

    def __bool__(self) -> bool:
        return bool(self.stretches)

    def forget(self, at: float) -> bool:
        """Tell whether the record of what was begun at a moment may be lost."""
        return self.history(at) is not None

    def history(self, at: float) -> int | None:
        """Return the number of the history, of those that are lost, to which what was begun then belongs."""
        for number, (begin, (_, end)) in enumerate(zip(self.held_from, self.stretches, strict=True)):
            if begin - self.patience - STATEMENT <= at <= end:
                return number
        return None

    def take(self, arrival: Arrival) -> bool:
        """Tell whether a request may be for an event that is gone: a daemon may have read it before."""
        at = arrival.started_at
        return any(begin - STATEMENT <= at <= end + self.lease for begin, end in self.stretches)


def mistraced(cases: "Cases", injections: Injections, evidence: Evidence) -> Iterator[Untraced]:
    """Find what was sent, is gone, and left no trace, and what is said to be gone and is there."""
    lived_until: dict[str, float] = {}
    for arrival in evidence.arrivals:
        name = daemon_of(arrival)
        lived_until[name] = max(arrival.started_at, lived_until.get(name, 0.0))
    for event_id in cases.absent.keys() - evidence.traced:
        case = cases.absent[event_id]
        heard = [one for one in case.arrivals if (daemon_of(one), event_id) not in evidence.unheard]
        free = max((_free(one, lived_until[daemon_of(one)], injections) for one in heard), default=0.0)
        if free > LOOK_INTERVAL.seconds + ALLOWANCE:
            detail = f"it was accepted, is gone, and not noted by its daemon, which lived on for {free:.1f} s"
            yield What.UNTRACED, case, detail
    for event_id in sorted(evidence.traced):
        known = cases.get(event_id)
        if known is not None and known.delivery is not None:
            yield What.MISTRACED, known, "it stands in webhook.lost_event, and is in the database"


def _free(arrival: Arrival, lived_until: float, injections: Injections) -> float:
    """Return for how long its daemon could have noted what the failover after a request has lost.

    What it noted may be lost by the next.
    """
    if arrival.status is None or not 200 <= arrival.status <= 299:
        return 0.0  # it may not have counted as an attempt
    after = [
        (one.forgets_from, one.ended)
        for one in injections
        if one.forgets_from is not None and one.ended + injections.takeover >= arrival.started_at
    ]
    (_, ended), *later = after
    until = min([lived_until, *(forgets_from for forgets_from, _ in later)])
    return injections.uncovered(arrival.merchant_id, {daemon_of(arrival)}, ended, until)
