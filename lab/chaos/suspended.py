"""Suspended merchants: whether they deserve it, are tried once an interval, and are sent to again in time.

When they were suspended is what the runner saw of their lanes (suspension_watch.py). That all goes out
afterwards, in order, the other parts of the judge see.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from lab.chaos.cases import Case, Cases
from lab.chaos.commands import Commands
from lab.chaos.evidence import Attempted, Evidence, Injection, Limits, Repeats, Suspension, daemon_of
from lab.chaos.injections import ALLOWANCE, Injections, family
from lab.chaos.lateness import THWARTED
from lab.chaos.order import BrokenPromise
from lab.chaos.records import BEFORE
from lab.chaos.repetitions import GAP
from lab.chaos.verdict import What
from webhook_dispatcher.dispatch.suspension import SUSPENSION_LOOK
from webhook_dispatcher.local.arrivals import Arrival

EARLY = 1.0
"""Seconds by which two tries may come nearer to each other than an interval: the first may have come late."""
LIFTED_WITHIN = SUSPENSION_LOOK.seconds

Try = tuple[Arrival, Case]


def with_faults(evidence: Evidence, commands: Commands) -> Injections:
    """Return the faults, and the suspensions as faults of their merchants: nothing more is owed in time.

    Nor is anything while everything is paused. What a failover has lost was owed again only when it was over,
    whatever was sent before.
    """
    holding = [
        Injection(
            number=-number,
            kind="suspended",
            repeats=Repeats.NONE,
            began=one.began,
            ended=_over(one, evidence),
            merchants=frozenset((one.merchant_id,)),
        )
        for number, one in enumerate(evidence.suspensions, 1)
    ]
    paused = [
        Injection(0, "everything paused", Repeats.NONE, began, min(ended, evidence.ended), stops_all=True)
        for began, _, ended in commands.pauses
    ]
    fleet = {family(daemon_of(arrival)) for arrival in evidence.arrivals}
    return Injections([*_lasting(evidence), *holding, *paused], evidence.limits, fleet)


def _lasting(evidence: Evidence) -> list[Injection]:
    """Return the faults, failovers from when on they have lost what was committed."""
    return [
        one if one.forgets_from is None else replace(one, began=one.forgets_from)
        for one in evidence.injections
    ]


def _over(one: Suspension, evidence: Evidence) -> float:
    return evidence.ended if one.ended is None else one.ended


def misjudged(cases: Cases, evidence: Evidence) -> Iterator[BrokenPromise]:
    """Find suspensions without a reason, with more tries than intervals, and those that were not lifted.

    One that was lifted stands again where a failover has lost that.
    """
    injections = Injections(_lasting(evidence), evidence.limits)
    for one in evidence.suspensions:
        yield from _undeserved(cases, one, injections, evidence.limits)
        yield from _tried_too_often(cases, one, injections, evidence.limits)
        yield from _unlifted(cases, one, injections)


def tries(cases: Cases, one: Suspension, limits: Limits) -> list[Try]:
    """Return the requests to a merchant while it was surely suspended; not what was under way before."""
    settled = one.began + limits.attempt_timeout + ALLOWANCE
    made = [
        (arrival, case)
        for case in cases.of_merchant.get(one.merchant_id, ())
        if not case.is_test
        for arrival in case.arrivals
        if settled <= arrival.started_at <= one.seen_until
    ]
    return sorted(made, key=lambda entry: entry[0].started_at)


def _tried_too_often(
    cases: Cases, one: Suspension, injections: Injections, limits: Limits
) -> Iterator[BrokenPromise]:
    """Find two tries within an interval, unless a fault may have cost the first one its record."""
    for (earlier, _), (later, case) in pairwise(tries(cases, one, limits)):
        apart = later.started_at - earlier.started_at
        is_again = earlier.was_cut and earlier.event_id == later.event_id  # in the same attempt
        if apart >= limits.suspension_interval - EARLY or is_again:
            continue
        if not _is_explained(one.merchant_id, earlier, later, injections):
            interval = f"{limits.suspension_interval:g} s"
            detail = f"its merchant was suspended and tried {apart:.2f} s before; the interval is {interval}"
            yield BrokenPromise(What.OVERTRIED, case, detail)
            return


def _is_explained(merchant_id: str, earlier: Arrival, later: Arrival, injections: Injections) -> bool:
    daemons = {daemon_of(earlier), daemon_of(later)}
    return any(
        fault.stops_all or merchant_id in fault.merchants or (not fault.merchants and fault.daemons & daemons)
        for fault in injections.between(earlier.started_at - BEFORE, later.started_at, GAP)
    )


def _unlifted(cases: Cases, one: Suspension, injections: Injections) -> Iterator[BrokenPromise]:
    """Find a suspension that lasts although a try was accepted, and is on record as such."""
    accepted = [entry for entry in _successes(cases, one.merchant_id) if _ended(entry[0]) > one.began]
    if not accepted:
        return
    row, case = min(accepted, key=lambda entry: _ended(entry[0]))
    free = injections.free(one.merchant_id, _ended(row), one.seen_until)
    if free > LIFTED_WITHIN + THWARTED * injections.grace:
        yield BrokenPromise(
            What.UNLIFTED, case, f"it was accepted, and its merchant suspended for {free:.1f} s more"
        )


def _undeserved(
    cases: Cases, one: Suspension, injections: Injections, limits: Limits
) -> Iterator[BrokenPromise]:
    """Find a suspension soon after a success that no fault can have kept off the record."""
    since, until = one.began - limits.suspend_after, one.began - injections.grace
    for row, case in _successes(cases, one.merchant_id):
        if since < _ended(row) < until and not injections.between(_ended(row), one.began, GAP):
            detail = f"it was accepted {one.began - _ended(row):.1f} s before its merchant was suspended"
            yield BrokenPromise(What.UNDESERVED, case, detail)
            return


def _successes(cases: Cases, merchant_id: str) -> Iterator[tuple[Attempted, Case]]:
    for case in cases.of_merchant.get(merchant_id, ()):
        for row in case.attempted:
            if row.outcome == "delivered":
                yield row, case


def _ended(row: Attempted) -> float:
    return row.started_at + row.duration
