"""The faults of a run, by time: which fell into a stretch, and how long they may have held somebody up."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set

from lab.chaos.evidence import Injection, Limits

ALLOWANCE = 2.0
"""Seconds for whatever takes time beyond lease and sweep: claiming, connecting, a busy machine."""


class Injections:
    """All faults, found by time without looking at each."""

    def __init__(
        self, injections: Sequence[Injection], limits: Limits, fleet: Set[str] = frozenset()
    ) -> None:
        """Set up. `fleet`: all daemons, by what their processes' names begin with."""
        self._fleet = fleet
        self._sorted = sorted(injections, key=lambda injection: injection.began)
        self._begins = [injection.began for injection in self._sorted]
        self.longest = max((_over(one) - one.began for one in self._sorted), default=0.0)
        self.takeover = limits.lease + limits.sweep
        """Seconds until another daemon has found what one that was hit has left."""
        self.grace = self.takeover + ALLOWANCE
        """Seconds that anything may take without any fault, and a fault's effects after its end."""

    def __iter__(self) -> Iterator[Injection]:
        return iter(self._sorted)

    def between(self, begin: float, end: float, after: float = 0.0) -> list[Injection]:
        """Return those that lasted at some time from `begin` to `end`; they last `after` seconds longer."""
        lowest = bisect_left(self._begins, begin - self.longest - after)
        highest = bisect_right(self._begins, end)
        return [one for one in self._sorted[lowest:highest] if _over(one) + after >= begin]

    def uncovered(self, merchant_id: str, daemons: Set[str], begin: float, end: float) -> float:
        """Return how many seconds between two moments no fault explains that a merchant was not served.

        A fault explains its own time and one take-over after it, if it stopped everything, touched this
        merchant, or hit one of these daemons, or all: then whoever held it, and sent nothing. What several
        explain counts once.
        """
        return _left(
            (
                (one.began, _over(one) + self.grace)
                for one in self.between(begin, end, self.grace)
                if _stops(one, merchant_id)
                or (concerns(one, merchant_id) and (one.daemons & daemons or self._hit_all(one)))
            ),
            begin,
            end,
        )

    def _hit_all(self, one: Injection) -> bool:
        return bool(self._fleet) and {family(name) for name in one.daemons} >= self._fleet

    def quiet(self, begin: float, end: float) -> float:
        """Return how many seconds between two moments no fault of daemons or database had effects."""
        return _left(
            (
                (one.began, _over(one) + self.grace)
                for one in self.between(begin, end, self.grace)
                if one.stops_all or one.daemons
            ),
            begin,
            end,
        )

    def slowness(self, begin: float, end: float) -> float:
        """Return by how many seconds, at worst, the machine let us wait for our turn meanwhile."""
        return max((one.slowness for one in self.between(begin, end)), default=0.0)

    def free(self, merchant_id: str, begin: float, end: float) -> float:
        """Return how many seconds between two moments nothing stood in a merchant's way as a whole."""
        return _left(
            ((one.began, _over(one)) for one in self.between(begin, end) if _stops(one, merchant_id)),
            begin,
            end,
        )


def family(daemon: str) -> str:
    """Return what is common to the names of a daemon's processes, one after the other."""
    return daemon.partition(".")[0]


def concerns(one: Injection, merchant_id: str) -> bool:
    """Tell whether a fault was about this merchant; one that touched none in particular was about all."""
    return not one.merchants or merchant_id in one.merchants


def _over(one: Injection) -> float:
    """Return when what a fault did has passed for its merchants."""
    return one.ended + one.lingers


def _stops(one: Injection, merchant_id: str) -> bool:
    return one.stops_all or merchant_id in one.merchants


def _left(windows: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    """Return how much of a stretch is in none of these windows, which come by their begins."""
    left, reached = 0.0, begin
    for opens, closes in windows:
        left += max(0.0, min(opens, end) - reached)
        reached = max(reached, closes)
    return left + max(0.0, end - reached)
