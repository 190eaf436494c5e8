"""Whether merchants that fail together held up the others (I4), while nothing else was done to anybody.

A merchant's event waits for us from its commit, or from the end of the first attempt before it where that
is later, to its own first attempt: what a slow merchant's queue takes is not ours, nor is a suspension.
Such waits of the other merchants are compared: of events committed while a group failed, with those of the
same run just before, when the group accepted as much. The wait that one in twenty exceeds may be three
times as long and a second more, and by as much longer as the runner waited for its turn meanwhile: a
machine may become slow all of a sudden.

Over all such faults of a run together it should be no longer than 1.3 times as long. That is a violation only
beyond half a second more, where many events of several faults say so.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.chaos.cases import Case, Cases
from lab.chaos.evidence import Injection
from lab.chaos.injections import Injections
from lab.chaos.order import BrokenPromise
from lab.chaos.verdict import Untouched, What

PART = 0.95
MAX_TIMES, MAX_MORE = 3, 1.0
SHOULD_TIMES, NOISE = 1.3, 0.5
MIN_FAULTS, MIN_EVENTS_OF_ALL = 3, 1000
LAST = 2.0
"""Seconds before a fault's end whose events do not count: they may meet the next fault."""
MIN_EVENTS = 50
"""Events that it takes on both sides to compare them."""


@dataclass(frozen=True, slots=True)
class Wait:
    """How long an event waited for us."""

    committed_at: float
    seconds: float
    case: Case


@dataclass(frozen=True, slots=True)
class Comparison:
    """The waits of other merchants just before a fault and during it, the shortest first."""

    injection: Injection
    quiet: Sequence[Wait]
    disturbed: Sequence[Wait]

    @property
    def before(self) -> Wait:
        """Return the wait that one in twenty events exceeded just before."""
        return _slow_one(self.quiet)

    @property
    def meanwhile(self) -> Wait:
        """Return the wait that one in twenty events exceeded during the fault."""
        return _slow_one(self.disturbed)

    @property
    def most(self) -> float:
        """Return how long it may be, in seconds."""
        return MAX_TIMES * self.before.seconds + MAX_MORE + self.injection.slowness


def compared(cases: Cases, injections: Injections) -> list[Comparison]:
    """Compare the others' waits, for each fault that can be judged."""
    waits = sorted(_waits(cases), key=lambda wait: wait.committed_at)
    found = []
    for one in injections:
        if one.alone_since is not None:
            quiet = _others(waits, one, one.alone_since, one.began)
            disturbed = _others(waits, one, one.began, one.ended - LAST)
            if min(len(quiet), len(disturbed)) >= MIN_EVENTS:
                found.append(Comparison(one, quiet, disturbed))
    return found


def untouched(comparisons: Sequence[Comparison]) -> Untouched | None:
    """Return how those fared whom no fault touched, over all faults that can be judged; None without any."""
    if not comparisons:
        return None
    quiet = [wait.seconds for one in comparisons for wait in one.quiet]
    disturbed = [wait.seconds for one in comparisons for wait in one.disturbed]
    return Untouched(
        _slow_part(quiet), _slow_part(disturbed), len(comparisons), min(len(quiet), len(disturbed))
    )


def worse_off(comparisons: Sequence[Comparison]) -> Iterator[BrokenPromise]:
    """Find that those whom no fault touched waited longer than they should, if that is for certain."""
    found = untouched(comparisons)
    if found is None or found.faults < MIN_FAULTS or found.events < MIN_EVENTS_OF_ALL:
        return
    slowness = max(one.injection.slowness for one in comparisons)
    if found.meanwhile > SHOULD_TIMES * found.quiet + NOISE + slowness:
        worst = max(comparisons, key=lambda one: one.meanwhile.seconds - one.before.seconds)
        detail = (
            f"during {found.faults} faults of other merchants one in twenty events waited for "
            f"{found.meanwhile:.2f} s or longer, and just before them for {found.quiet:.2f} s"
        )
        yield BrokenPromise(What.HELD_UP, worst.meanwhile.case, detail)


def held_up(comparisons: Sequence[Comparison]) -> Iterator[BrokenPromise]:
    """Find faults of merchants that held up others."""
    for comparison in comparisons:
        one, before, meanwhile = comparison.injection, comparison.before, comparison.meanwhile
        if meanwhile.seconds > comparison.most:
            detail = (
                f"during fault {one.number} ({one.kind}) one in twenty events of other merchants waited for "
                f"{meanwhile.seconds:.2f} s or longer, and just before it for {before.seconds:.2f} s"
            )
            yield BrokenPromise(What.HELD_UP, meanwhile.case, detail)


def _others(waits: Sequence[Wait], one: Injection, begin: float, end: float) -> list[Wait]:
    """Return the other merchants' waits of events committed between two moments, the shortest first."""
    lowest, highest = (bisect_left(waits, at, key=lambda wait: wait.committed_at) for at in (begin, end))
    found = [wait for wait in waits[lowest:highest] if wait.case.merchant_id not in one.merchants]
    return sorted(found, key=lambda wait: wait.seconds)


def _slow_one(waits: Sequence[Wait]) -> Wait:
    return waits[int(len(waits) * PART)]


def _slow_part(seconds: Sequence[float]) -> float:
    return sorted(seconds)[int(len(seconds) * PART)]


def _waits(cases: Cases) -> Iterator[Wait]:
    for owed in cases.of_merchant.values():
        turns = [case for case in owed if not case.is_test and not case.may_be_first_by_hand]
        served = [(at, case) for case in turns if (at := case.served_at()) is not None]
        free_at = float("-inf")
        for at, case in sorted(served, key=lambda turn: turn[0]):
            committed = case.event.committed_at
            if committed is not None and not cases.is_held(case.merchant_id, committed, at):
                yield Wait(committed, max(0.0, at - max(committed, free_at)), case)
            free_at = max(free_at, _first_ended(case, at))


def _first_ended(case: Case, begun: float) -> float:
    """Return when the first attempt was over, as far as anybody knows."""
    attempted = case.first_attempt()
    if attempted is not None and attempted.started_at == begun:
        return begun + attempted.duration
    first = case.first
    return begun if first is None or first.ended_at is None else first.ended_at
