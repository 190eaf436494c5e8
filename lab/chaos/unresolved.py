"""Names that are not resolved though their name servers answer: who asks the wrong ones delivers nothing.

Such attempts are made in time, count, and are used up in the end: nothing else in the judge would see it.
"""

from collections.abc import Iterator
from itertools import groupby

from lab.chaos.cases import Cases
from lab.chaos.injections import Injections
from lab.chaos.order import BrokenPromise
from lab.chaos.verdict import What


def unresolved(cases: Cases, injections: Injections) -> Iterator[BrokenPromise]:
    """Find attempts in a row whose name was not resolved for longer than any fault's effects last."""
    for case in cases:
        rows = sorted(case.attempted, key=lambda row: row.started_at)
        for is_unresolved, group in groupby(rows, key=lambda row: row.is_unresolved):
            if is_unresolved:
                them = list(group)
                until = them[-1].started_at + them[-1].duration
                free = injections.free(case.merchant_id, them[0].started_at, until)
                if free > injections.grace:
                    detail = f"its name was not resolved for {free:.1f} s in which nothing stood in the way"
                    yield BrokenPromise(What.UNRESOLVED, case, detail)
