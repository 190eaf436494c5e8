"""I3: what is sent beyond the schedule was in flight or unrecorded in a daemon that was hit.

What is on record is matched with what arrived; whatever is left over was cut on a kept connection and sent
again in the same attempt, once; or it is a repetition, and needs a fault that explains it:
- one that hit the daemon of the earlier request between its begin and 2.1 s after its end (0.1 s of answers
  may wait, and the statement that records them has 2 s), or one that followed such a one with at most 1.5 s
  between: while faults follow each other an outcome waits. One that touched merchants explains only theirs;
- or one that had hit the daemon of the later request before the earlier one began: it woke, and sent late;
- or the earlier request failed while many merchants failed alike, or soon after: a daemon may have taken it
  for a fault of its own, which is not counted. Of these any number may be repeated; where answers are dear to
  hear, of those that its merchants accepted, too.
A stop asked for once (SIGTERM) explains only while another fault disturbs recording; who asks twice has what
is in flight cut. No fault may explain more than there were attempts exposed in the daemons it hit.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lab.chaos.cases import Case, Cases
from lab.chaos.evidence import Injection, Repeats, daemon_of
from lab.chaos.injections import Injections, concerns
from lab.chaos.records import BEFORE
from webhook_dispatcher.local.arrivals import Arrival

RESENT_WITHIN = 0.5
"""Seconds from the cut of a kept connection to the request on another, where no record covers both."""
STATEMENT = 2.0
"""Seconds after which a daemon of a run gives a statement up, the one that writes an outcome too."""
GAP = 1.5
"""Seconds for which a daemon goes on waiting once a fault is over: the pause before it tries again."""
ASKED_TO_STOP = "SIGTERM"
"""The fault after which a daemon ends what is in flight, and writes it down."""
_LONGEST_CHAIN = 120.0


@dataclass(slots=True)
class Repetition:
    """One request too many.

    pairs: the requests that may be meant, earlier and later; None where it was not sent again.
    candidates: the faults that explain it, the best first.
    """

    case: Case
    pairs: Sequence[tuple[Arrival, Arrival | None]]
    candidates: Sequence[Injection] = ()
    injection: Injection | None = None


def repetitions(case: Case, cases: Cases) -> list[Repetition]:
    """Return the requests beyond what is on record; an attempt recorded twice counts once."""
    if case.delivery is None:  # then what was on record is not known either
        return []
    left = set(range(len(case.arrivals))) - case.recorded()
    again = set(_resent(case, left, cases))
    case.resent = len(again)
    requests = [arrival for index, arrival in enumerate(case.arrivals) if index not in again]
    return [
        Repetition(case, _pairs(requests, index - sum(other < index for other in again)))
        for index in sorted(left - again)
    ]


def _resent(case: Case, left: set[int], cases: Cases) -> Iterator[int]:
    """Find what is left over because a kept connection was cut, and the attempt made its request again.

    No request has a part in two such pairs: an attempt does it once.
    """
    index = 0
    while index + 1 < len(case.arrivals):
        extra = min(left & {index, index + 1}, default=None)
        if extra is not None and _is_resent(case.arrivals[index], case.arrivals[index + 1], case, cases):
            yield extra
            index += 1
        index += 1


def _is_resent(cut: Arrival, again: Arrival, case: Case, cases: Cases) -> bool:
    """Tell whether a request was cut on a kept connection and made again by its daemon, on another one."""
    if not cut.was_cut or cut.ended_at is None or not cases.is_kept(cut):
        return False
    if daemon_of(cut) != daemon_of(again) or cut.connection == again.connection:
        return False
    is_one_attempt = any(
        row.started_at - BEFORE
        <= cut.started_at
        <= again.started_at
        <= row.started_at + row.duration + BEFORE
        for row in case.attempted
    )
    return is_one_attempt or again.started_at - cut.ended_at <= RESENT_WITHIN


def _pairs(arrivals: Sequence[Arrival], index: int) -> list[tuple[Arrival, Arrival | None]]:
    following = arrivals[index + 1] if index + 1 < len(arrivals) else None
    pairs: list[tuple[Arrival, Arrival | None]] = [(arrivals[index], following)]
    if index > 0:
        pairs.append((arrivals[index - 1], arrivals[index]))
    return pairs


def explaining(repetition: Repetition, injections: Injections, patience: float) -> list[Injection]:
    """Return the faults that explain a repetition, first the one that hit soonest after the request.

    Either a fault kept the earlier request's daemon from putting it on record, or ended that daemon; or the
    later request is a late one of a daemon that a fault had held up since before the earlier one.
    patience: seconds for which an attempt may be in flight.
    """
    best: dict[int, tuple[tuple[bool, float], Injection]] = {}
    for is_unrecorded, (earlier, later) in zip((True, False), repetition.pairs, strict=False):
        chain = _kept_off_record(earlier, later, injections, patience)
        if not is_unrecorded and later is not None and not _was_due(earlier, later, injections):
            chain = []
        late = () if later is None else _held_up(earlier, later, injections)
        candidates = [one for one in (*chain, *late) if _may_cost(one, injections)]
        for one in (*candidates, *_uncounted(earlier, injections)):
            rank = (one.began < earlier.started_at - BEFORE, abs(one.began - earlier.started_at))
            if one.number not in best or rank < best[one.number][0]:
                best[one.number] = (rank, one)
    return [one for _, one in sorted(best.values(), key=lambda entry: (entry[0], entry[1].number))]


def _kept_off_record(
    earlier: Arrival, later: Arrival | None, injections: Injections, patience: float
) -> list[Injection]:
    """Return the faults that may have kept a request off the record until it was sent again.

    The first overlaps the request or the statement that writes it down; others follow without a gap.
    """
    ended = earlier.started_at + patience
    if earlier.ended_at is not None:
        ended = min(ended, earlier.ended_at)
    reached = ended + BEFORE + STATEMENT
    until = earlier.started_at + _LONGEST_CHAIN if later is None else later.started_at + BEFORE
    found = []
    for one in injections.between(earlier.started_at, until):
        if one.began > reached:
            break
        if _hit(one, earlier):
            found.append(one)
            reached = max(reached, one.ended + GAP)
    return found


def _was_due(earlier: Arrival, later: Arrival, injections: Injections) -> bool:
    """Tell whether faults explain that what was recorded late was sent again only then."""
    daemons = {daemon_of(earlier), daemon_of(later)}
    free = injections.uncovered(earlier.merchant_id, daemons, earlier.started_at, later.started_at)
    return free <= injections.grace


def _held_up(earlier: Arrival, later: Arrival, injections: Injections) -> list[Injection]:
    """Return the faults under which a daemon may have kept a claim that another one had taken over."""
    return [
        one
        for one in injections.between(earlier.started_at, later.started_at, BEFORE)
        if _hit(one, later)
        and one.began <= earlier.started_at + BEFORE
        and later.started_at <= one.ended + BEFORE
    ]


def _uncounted(earlier: Arrival, injections: Injections) -> list[Injection]:
    """Return the faults under which a request that failed may not have been counted."""
    is_accepted = earlier.status is not None and 200 <= earlier.status <= 299
    ended = earlier.started_at if earlier.ended_at is None else earlier.ended_at
    return [
        one
        for one in injections.between(earlier.started_at, ended, injections.grace)
        if (one.repeats in (Repeats.UNCOUNTED, Repeats.UNHEARD) and not is_accepted)
        or (one.repeats is Repeats.UNHEARD and earlier.merchant_id in one.merchants)
    ]


def _hit(one: Injection, request: Arrival) -> bool:
    return daemon_of(request) in one.daemons and concerns(one, request.merchant_id)


def _may_cost(one: Injection, injections: Injections) -> bool:
    """Tell whether a fault may cost repetitions; a stop asked for once does if recording is disturbed."""
    if one.repeats is not Repeats.EXPOSED:
        return False
    return one.kind != ASKED_TO_STOP or any(
        other.number != one.number and (other.stops_all or other.daemons & one.daemons)
        for other in injections.between(one.began - STATEMENT, one.ended)
    )


@dataclass(slots=True)
class Ledger:
    """Repetitions shared out among the faults: none has too many while another has room."""

    taken: defaultdict[int, list[Repetition]] = field(default_factory=lambda: defaultdict(list))
    unexplained: list[Repetition] = field(default_factory=list)

    def attribute(self, repetition: Repetition) -> None:
        """Find a place for a repetition; where there is room nowhere, its best fault has too many."""
        if not repetition.candidates:
            self.unexplained.append(repetition)
        elif not self._place(repetition, set()):
            self._give(repetition, repetition.candidates[0])

    def _place(self, repetition: Repetition, tried: set[int]) -> bool:
        for one in repetition.candidates:
            if one.number not in tried and one.has_room(len(self.taken[one.number])):
                self._give(repetition, one)
                return True
        for one in repetition.candidates:
            if one.number in tried:
                continue
            tried.add(one.number)
            for index, other in enumerate(self.taken[one.number]):
                if len(other.candidates) > 1 and self._place(other, tried):
                    del self.taken[one.number][index]
                    self._give(repetition, one)
                    return True
        return False

    def _give(self, repetition: Repetition, one: Injection) -> None:
        repetition.injection = one
        self.taken[one.number].append(repetition)

    def counts(self) -> Counter[int]:
        """Return how many repetitions each fault was given."""
        return Counter({number: len(given) for number, given in self.taken.items()})
