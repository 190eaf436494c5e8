"""Whether names that move are followed, though somebody goes on answering at the old address.

While nothing else is done a request goes to an address that its merchant's name has left
- on a kept connection, unless its last answer came when it was older than it may be (transport/renewal.py);
- or on one that was being made when the name moved.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from lab.chaos.cases import Case, Cases
from lab.chaos.evidence import Evidence, Injection, arrived_at
from lab.chaos.injections import ALLOWANCE
from lab.chaos.order import BrokenPromise
from lab.chaos.verdict import Follow, What
from webhook_dispatcher.local.arrivals import Arrival

AGE, AGE_OF_REFUSED, RETRY = 5.0, 1.0, 0.8
"""Seconds for which daemons of a run keep a connection: a twelfth of the product's, like their lease."""

Sent = tuple[Arrival, Case]


def follow(cases: Cases, evidence: Evidence) -> Follow:
    """Return how many names moved while nothing else was done, and what was sent to where they had been."""
    moves = [one for one in evidence.injections if _is_judged(one)]
    late = [
        arrival.started_at - one.began
        for one in moves
        for sent in _by_connection(cases, one)
        for arrival, _ in _misled(sent, one)
    ]
    return Follow(sum(len(one.moved) for one in moves), len(late), max(late, default=0.0))


def unfollowed(cases: Cases, evidence: Evidence) -> Iterator[BrokenPromise]:
    """Find requests to an address that a name had left for too long."""
    for one in filter(_is_judged, evidence.injections):
        for sent in _by_connection(cases, one):
            for arrival, case in _misled(sent, one):
                after = arrival.started_at - one.began
                fault = _fault(sent, arrival, after, evidence.limits.attempt_timeout)
                if fault is not None:
                    detail = f"its name had moved {after:.1f} s before, and its connection {fault}"
                    yield BrokenPromise(What.UNFOLLOWED, case, detail)


def _is_judged(one: Injection) -> bool:
    return bool(one.moved) and one.alone_since is not None


def _by_connection(cases: Cases, one: Injection) -> Iterator[Sequence[Sent]]:
    """Return what came to merchants that a fault moved, until its end, in order on each connection."""
    found: defaultdict[int, list[Sent]] = defaultdict(list)
    for merchant_id in one.moved:
        for case in cases.of_merchant.get(merchant_id, ()):
            for arrival in case.arrivals:
                if arrival.started_at <= one.ended:
                    found[arrival.connection].append((arrival, case))
    for sent in found.values():
        yield sorted(sent, key=lambda entry: entry[0].started_at)


def _misled(sent: Sequence[Sent], one: Injection) -> Iterator[Sent]:
    for arrival, case in sent:
        address = arrived_at(arrival)
        if arrival.started_at >= one.began and address and address != one.moved[case.merchant_id]:
            yield arrival, case


def _fault(sent: Sequence[Sent], arrival: Arrival, after: float, attempt_timeout: float) -> str | None:
    """Say why a connection should not have carried a request, so many seconds after a move."""
    before = [earlier for earlier, _ in sent if earlier.started_at < arrival.started_at]
    if not before:
        return "was made after that" if after > attempt_timeout + ALLOWANCE else None
    last, made_at = before[-1], before[0].started_at
    is_delivery = last.status is not None and 200 <= last.status <= 299
    age = (made_at if last.ended_at is None else last.ended_at) - made_at
    most = AGE if is_delivery else AGE_OF_REFUSED
    return f"was {age:.1f} s old at the answer before; {most:g} s are right" if age > most + RETRY else None
