"""Names that are not resolved though their name servers answer: who asks the wrong ones delivers nothing.

Such attempts are made in time, count, and are used up in the end: nothing else in the judge would see it.
"""

from collections.abc import Iterator
from itertools import groupby

from lab.chaos.cases import Case, Cases
from lab.chaos.evidence import Attempted
from lab.chaos.injections import Injections
from lab.chaos.order import BrokenPromise
from lab.chaos.verdict import What

ROUNDING = 1e-6
"""Seconds that sums of floating-point times may be off by."""


def unresolved(cases: Cases, injections: Injections) -> Iterator[BrokenPromise]:
    """Find attempts in a row whose names were not resolved, for longer than any fault's effects last.

    One during which everything or its merchant was stopped says nothing, and ends the row.
    """
    for case in cases:
        rows = sorted(case.attempted, key=lambda row: row.started_at)
        for is_unfounded, group in groupby(rows, key=lambda row: _is_unfounded(row, case, injections)):
            if is_unfounded:
                them = list(group)
                until = them[-1].started_at + them[-1].duration
                free = injections.free(case.merchant_id, them[0].started_at, until)
                if free > injections.grace:
                    detail = f"its name was not resolved for {free:.1f} s in which nothing stood in the way"
                    yield BrokenPromise(What.UNRESOLVED, case, detail)


def _is_unfounded(row: Attempted, case: Case, injections: Injections) -> bool:
    until = row.started_at + row.duration
    return (
        row.is_unresolved
        and injections.free(case.merchant_id, row.started_at, until) >= row.duration - ROUNDING
    )
