"""What the judge says about a run: figures, and every promise that was broken, each with its history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from lab.chaos.evidence import Phase, Repeats


class What(StrEnum):
    """Which promise was broken."""

    LOST = "lost"
    STUCK = "stuck"
    PASSED_OVER = "passed over, though it was wanted"
    UNWANTED = "sent, though it was not wanted"
    UNFOUNDED_END = "failed without a legal reason"
    UNACCEPTED = "claimed delivered, but nobody accepted it"
    UNGIVEN = "an answer on record that nobody gave"
    OUT_OF_ORDER = "out of order"
    OVERLAP = "overlap"
    UNEXPLAINED = "duplicate without a fault"
    TOO_MANY_DUPLICATES = "too many duplicates"
    TOO_MANY_ATTEMPTS = "too many attempts"
    UNASKED = "an attempt by hand that nobody asked for"
    LATE = "late"
    HELD_UP = "others held up"
    EARLY = "a retry too early"
    FORBIDDEN = "sent after it was skipped or cancelled"
    SLOW = "a pause or resume of everything taken up late"
    UNHEEDED = "sent while everything was paused"
    FORGOTTEN = "recovered, and not sent again"
    DEFIED = "a withdrawn command took effect"
    UNENDED = "a command that nobody ended"
    UNTOLD = "the platform was not told"
    MISTOLD = "the platform was told what is not so"
    OVERTRIED = "suspended, and tried too often"
    UNLIFTED = "accepted, and suspended all the same"
    UNDESERVED = "suspended without a reason"
    UNTRACED = "sent, lost, and noted nowhere"
    MISTRACED = "noted as lost, and there"
    UNFOLLOWED = "sent to an address that its name had left"
    WRONG_SIGNATURE = "wrong signature"
    WRONG_BODY = "wrong body"
    UNRESOLVED = "not sent, since its name was not resolved"
    UNPROVEN = "sent to who did not prove who it is"
    WRONG_MERCHANT = "sent to another merchant"
    UNKNOWN = "an event that nobody wrote"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise.

    event_id: None where it is about no single event.
    detail: what exactly is wrong, in a sentence.
    history: lines with times since the run's begin; empty beyond the first hundred violations.
    """

    what: What
    merchant_id: str
    event_id: str | None
    detail: str
    history: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Extra:
    """A request that repeats another one beyond the schedule.

    earlier: when the request was begun that it repeats, or that was never recorded.
    later: when it was sent again; None if it was not.
    injection: the number of the fault it is attributed to; None if none explains it.
    """

    event_id: str
    merchant_id: str
    earlier: float
    later: float | None
    injection: int | None


@dataclass(frozen=True, slots=True)
class KindFigures:
    """What one kind of fault did in a run.

    phases: how many attempts stood where in the daemons hit, over all injections.
    exposed: the sum of what may be repeated; extras: what was; worst_extras: in one injection.
    worst_spent: the largest part of what was exposed that one injection cost; None if nothing was exposed.
    recoveries: for each injection that can be measured, the seconds until every merchant to whom something
        was owed then had been served.
    """

    kind: str
    repeats: Repeats
    injections: int
    phases: Mapping[Phase, int]
    exposed: int
    extras: int
    worst_extras: int
    worst_spent: float | None = None
    recoveries: Sequence[float] = ()

    @property
    def spent(self) -> float | None:
        """Return which part of what was exposed was repeated, over all injections."""
        return self.extras / self.exposed if self.exposed else None

    @property
    def recovery_median(self) -> float | None:
        """Return the median recovery in seconds."""
        return median(self.recoveries) if self.recoveries else None

    @property
    def recovery_worst(self) -> float | None:
        """Return the longest recovery in seconds."""
        return max(self.recoveries, default=None)


@dataclass(frozen=True, slots=True)
class Lags:
    """Seconds from an event's commit to its first request, over all events of the run."""

    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    worst: float = 0.0


@dataclass(frozen=True, slots=True)
class OthersWait:
    """The wait in seconds that one in twenty events of other merchants exceeded while a group failed.

    before: just before. most: how long it may be.
    """

    kind: str
    before: float
    meanwhile: float
    most: float


@dataclass(frozen=True, slots=True)
class Untouched:
    """The wait in seconds that one in twenty events exceeded of merchants that no fault touched.

    Of all faults of merchants that can be judged, so many, together. quiet: just before each of them.
    events: how many were compared, at least.
    """

    quiet: float
    meanwhile: float
    faults: int
    events: int

    @property
    def times(self) -> float:
        """Return how many times as long it was."""
        return self.meanwhile / self.quiet if self.quiet else float("inf")


@dataclass(frozen=True, slots=True)
class Follow:
    """How names that moved were followed.

    misled: requests to an old address; last: how many seconds after the move the last of them came.
    """

    moves: int = 0
    misled: int = 0
    last: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of everything.

    failed: by reason. counts: violations by what was broken.
    firsts: events that were checked for order. merchants: how many had events. deliveries: events, counted
        at each endpoint that they may have been for.
    bound: how many repeated requests the faults could explain at most.
    isolation: for each fault of merchants that can be judged, how the others fared; untouched: over all.
    resent: requests cut on a kept connection and sent again at once, in the same attempt.
    replayed: attempts of what was delivered, asked for by `recover`.
    forgotten: requests whose records failovers have lost. absent: events that were sent and are lost by them;
        traced: those of them that are noted.
    notices: those that arrived, by type. suspensions: those that were judged; tries: requests meanwhile.
    """

    violations: Sequence[Violation]
    extras: Sequence[Extra]
    kinds: Sequence[KindFigures]
    events: int
    merchants: int
    deliveries: int
    requests: int
    delivered: int
    failed: Mapping[str, int]
    unwanted: int
    deleted: int
    firsts: int
    bound: int
    resent: int
    lags: Lags
    counts: Mapping[What, int] = field(default_factory=dict)
    isolation: Sequence[OthersWait] = ()
    untouched: Untouched | None = None
    replayed: int = 0
    forgotten: int = 0
    absent: int = 0
    traced: int = 0
    follow: Follow = field(default_factory=Follow)
    notices: Mapping[str, int] = field(default_factory=dict)
    suspensions: int = 0
    tries: int = 0

    @property
    def repeated_share(self) -> float:
        """Return which part of all requests repeats another one beyond the schedule."""
        return len(self.extras) / self.requests if self.requests else 0.0

    @property
    def is_clean(self) -> bool:
        """Tell whether every promise was kept."""
        return not self.violations
