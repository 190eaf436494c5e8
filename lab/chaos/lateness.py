"""Who was kept waiting for longer than the faults explain, and how long after a fault everybody was served.

A merchant is owed something from an event's commit to its first attempt, and from the moment a retry is due
until it is made. It is judged by the stretches in which it was owed something and nothing of that sort was
begun for it: one that is served on and on has a queue, and is not starved. Of such a stretch
- no more than lease + sweep + 2 s (a take-over) may lie outside the faults' times. Each lasts one take-over
  longer than it does; where they overlap, time counts once. Only those count that stopped everything, that
  touched this merchant, or that hit a daemon which served it just before, in or just after the stretch;
- no more than so many take-overs may lie outside the times in which everything or this merchant was stopped:
  one that a fault thwarts begins anew, but each time the merchant needs only a moment to come through.
A merchant's suspension counts as a fault that touched it: whatever it is owed waits.
An event that may first have been sent by hand is excused, since it had been given up before its turn; but who
is sent such events, in their places in the order, is not starved meanwhile.
No retry comes early: the delay counts from the end of the attempt before, as both are on record.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise

from lab.chaos.cases import Case, Cases
from lab.chaos.evidence import Injection, Limits, daemon_of
from lab.chaos.injections import Injections
from lab.chaos.order import BrokenPromise
from lab.chaos.verdict import Lags, What

THWARTED = 4
"""Take-overs in a row that faults may thwart."""
EARLY = 0.1
"""Seconds by which a retry may seem to come early: two records are compared."""

Owed = tuple[float, float, Case]
"""From when on something was owed, when it was begun, and of which event."""


def late(cases: Cases, injections: Injections, limits: Limits) -> Iterator[BrokenPromise]:
    """Find what ended a stretch in which a merchant was starved, and retries that came early."""
    for merchant_id, owed in cases.of_merchant.items():
        served = sorted(
            (arrival.started_at, daemon_of(arrival)) for case in owed for arrival in case.arrivals
        )
        yield from _starved(merchant_id, _turns(owed), served, injections)
        retries = [retry for case in owed for retry in _retries(case, limits.schedule)]
        queued = [other for case in owed for other in _others(case)] if retries else []
        yield from _starved(merchant_id, [*retries, *queued], served, injections)
        for due, begun, case in retries:
            if begun < due - EARLY and not _was_moved(merchant_id, begun, injections, limits):
                detail = f"a retry was begun {due - begun:.3f} s before it was due"
                yield BrokenPromise(What.EARLY, case, detail)


def _was_moved(merchant_id: str, begun: float, injections: Injections, limits: Limits) -> bool:
    """Tell whether an operator touched the merchant while a retry waited: he may have moved its due time."""
    waited_since = begun - max(limits.schedule)
    return any(merchant_id in one.merchants for one in injections.between(waited_since, begun))


def _turns(owed: Sequence[Case]) -> list[Owed]:
    """Return commit and first attempt, or the skip, of events that had their turn.

    Nothing says from when on an event that was given up and put back was owed.
    """
    return [
        (_owed_since(case), served, case)
        for case in owed
        if not case.is_test and (served := _over_at(case)) is not None
    ]


def _owed_since(case: Case) -> float:
    committed = case.event.committed_at
    return float("inf") if committed is None or case.may_be_first_by_hand else committed


def _over_at(case: Case) -> float | None:
    """Return when nothing was owed in its turn any more: it was begun, or skipped."""
    served = case.served_at()
    if served is None and case.is_skipped and case.delivery is not None:
        return case.delivery.finished_at
    return served


def _retries(case: Case, schedule: Sequence[float]) -> Iterator[Owed]:
    """Return when retries were due and begun: where both neighbours are on record once, by schedule.

    What a lost history has on record says nothing of the one that goes on.
    """
    times = Counter(row.attempt for row in case.attempted)
    rows = sorted(case.attempted, key=lambda row: row.started_at)
    for before, after in pairwise(rows):
        is_plain = before.trigger == after.trigger == "schedule" and not case.by_hand
        is_once = times[before.attempt] == times[after.attempt] == 1
        is_told = not any(case.losses.forget(row.started_at) for row in (before, after))
        if is_plain and is_once and is_told and 0 < before.attempt <= len(schedule):
            due = before.started_at + before.duration + schedule[before.attempt - 1]
            yield due, after.started_at, case


def _others(case: Case) -> Iterator[Owed]:
    """Return whatever else stands in the queue of a merchant's retries; nothing says when it was due."""
    rows = sorted(case.attempted, key=lambda row: row.started_at)
    for place, row in enumerate(rows):
        if place > 0 or row.trigger == "manual":
            yield float("inf"), row.started_at, case


def _starved(
    merchant_id: str,
    owed: Sequence[Owed],
    served: Sequence[tuple[float, str]],
    injections: Injections,
) -> Iterator[BrokenPromise]:
    """Find stretches without any beginning, in which something was owed, that the faults do not explain."""
    for begin, end, case in _stretches(owed):
        if end - begin <= injections.grace:
            continue
        lowest = bisect_left(served, (begin, ""))
        highest = bisect_left(served, (end, "")) + 1
        daemons = {daemon for _, daemon in served[max(0, lowest - 1) : highest]}
        unexplained = injections.uncovered(merchant_id, daemons, begin, end)
        free = injections.free(merchant_id, begin, end)
        if unexplained > injections.grace:
            why = f"no fault explains {unexplained:.1f} s of it"
        elif free > THWARTED * injections.grace:
            why = f"in {free:.1f} s of it nothing stopped everything, or this merchant"
        else:
            continue
        detail = f"its merchant was owed something for {end - begin:.1f} s before it and was sent none; {why}"
        yield BrokenPromise(What.LATE, case, detail)


def _stretches(owed: Sequence[Owed]) -> Iterator[Owed]:
    """Return from when to when something was owed and nothing was begun, and what was begun then."""
    by_begin = sorted(owed, key=lambda entry: entry[1])
    since = [float("inf")] * len(by_begin)
    earliest = float("inf")
    for place in range(len(by_begin) - 1, -1, -1):
        earliest = since[place] = min(earliest, by_begin[place][0])
    before = float("-inf")
    for (_, begun, case), owed_since in zip(by_begin, since, strict=True):
        yield max(before, owed_since), begun, case
        before = begun


def _spans(owed: Sequence[Case]) -> list[tuple[float, float, Case]]:
    """Return commit, first request and case of those events that have both, by commit."""
    spans = [
        (committed, served, case)
        for case in owed
        if not case.is_test
        and (committed := case.event.committed_at) is not None
        and (served := case.served_at()) is not None
    ]
    return sorted(spans, key=lambda span: span[0])


def lags(cases: Cases) -> Lags:
    """Return how lags are spread over all events of the run."""
    found = sorted(
        max(0.0, served - committed)
        for owed in cases.of_merchant.values()
        for committed, served, _ in _spans(owed)
    )
    if not found:
        return Lags()
    return Lags(*(found[min(len(found) - 1, int(len(found) * part))] for part in (0.5, 0.95, 0.99, 1.0)))


def healed_at(injection: Injection) -> float:
    """Return from when on recovery is measured: from a kill, or from the end of what lasts."""
    return injection.began if "kill" in injection.kind else injection.ended


def recoveries(
    cases: Cases, injections: Injections, repeated: Mapping[int, Sequence[tuple[str, float]]]
) -> dict[int, float]:
    """Return, for each fault by number, how long everyone to whom something was owed then waited for it.

    In seconds from the fault's end (or from a kill); 0 where nothing was owed. Merchants that an operator
    touched meanwhile are left out, or that were suspended, and faults after which another one stopped
    everything in that time.
    repeated: by fault, merchant and moment of each request that was made again: it was owed, too.
    """
    spans = sorted(
        (span for owed in cases.of_merchant.values() for span in _spans(owed)), key=lambda span: span[0]
    )
    commits = [span[0] for span in spans]
    longest = max((served - committed for committed, served, _ in spans), default=0.0)
    found: dict[int, float] = {}
    for one in injections:
        healed = healed_at(one)
        served_at: dict[str, float] = {}
        for _, served, case in spans[bisect_left(commits, healed - longest) : bisect_right(commits, healed)]:
            if served > healed:
                known = served_at.get(case.merchant_id, served)
                served_at[case.merchant_id] = min(known, served)
        for merchant_id, served in repeated.get(one.number, ()):
            if served > healed:
                served_at[merchant_id] = max(served_at.get(merchant_id, served), served)
        suspended = {
            merchant_id
            for merchant_id, at in served_at.items()
            if cases.is_suspended(merchant_id, healed, at)
        }
        worst = _undisturbed(one, healed, served_at, injections, suspended)
        if worst is not None:
            found[one.number] = worst
    return found


def _undisturbed(
    one: Injection, healed: float, served_at: dict[str, float], injections: Injections, suspended: Set[str]
) -> float | None:
    last = max(served_at.values(), default=healed)
    meanwhile = [other for other in injections.between(healed, last) if other is not one]
    touched = one.merchants.union(suspended, *(other.merchants for other in meanwhile))
    last = max((at for merchant_id, at in served_at.items() if merchant_id not in touched), default=healed)
    if any(other.stops_all and other.began <= last for other in meanwhile):
        return None
    return last - healed
