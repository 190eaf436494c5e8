"""Merchants with several endpoints: each event is judged at each endpoint that it may have been for.

An endpoint has a label, which takes the place of its merchant's id: `m` the first, `m.2` the second. So has
an event there: its own id with the number. An endpoint with a number above 1 gets what has a `seq` above the
last one given when it was added, if it is routed before it is removed: copies' numbers say when that was.
What was routed during that command may or may not be for it; so may what was routed while number 1 was
removed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from math import inf
from uuid import UUID

from lab.chaos.evidence import Delivery, Event, Evidence, Life
from lab.chaos.labels import event_of, label, merchant_of, number_of
from webhook_dispatcher.domain.event import FailedReason
from webhook_dispatcher.local.arrivals import Arrival

_GIVEN_UP = (FailedReason.CANCELLED, FailedReason.SKIPPED)


def derived(events: Iterable[Event], lives: Iterable[str]) -> dict[str, str]:
    """Return, by the ids that deliveries at endpoints with a number have, events' ids as labels."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for name in lives:
        numbers[merchant_of(name)].append(number_of(name))
    return {
        _delivery_id(event.id, number): label(event.id, number)
        for event in events
        for number in numbers.get(event.merchant_id, ())
    }


def may_be(ids: Iterable[str], delivery_ids: Mapping[str, str]) -> Iterator[str]:
    """Yield what rows of these ids may be: one that is derived is of one delivery, an event's own of any."""
    of: defaultdict[str, list[str]] = defaultdict(list)
    for name in delivery_ids.values():
        of[event_of(name)].append(name)
    for id in ids:
        yield from [delivery_ids[id]] if id in delivery_ids else [id, *of[id]]


def _delivery_id(event_id: str, number: int) -> str:
    """Return what webhook.delivery_id() does."""
    return str(UUID(bytes=sha256(UUID(event_id).bytes + number.to_bytes(2, "big")).digest()[:16]))


def spread(evidence: Evidence) -> Evidence:
    """Make an event of each endpoint of every event."""
    routes = _Routes(evidence)
    events = [one for event in evidence.events for one in routes.of(event)]
    absent = [one for event in evidence.absent for one in routes.of(event)]
    shared = dict(routes.ended_before_routing(events))
    deliveries = {**evidence.deliveries, **shared}
    by_hand: Counter[str] = Counter()
    for event_id, times in evidence.by_hand.items():
        by_hand.update(dict.fromkeys(routes.all_of([event_id]), times))
    return replace(
        evidence,
        events=events,
        absent=absent,
        there=routes.there,
        deliveries=deliveries,
        unwanted={
            *(case_id for case_id in routes.all_of(evidence.routed) if case_id not in deliveries),
            *(
                case_id
                for case_id, is_there in routes.there.items()
                if is_there is None and case_id not in deliveries
            ),
        },
        arrivals=list(map(routes.arrived, evidence.arrivals)),
        injections=[
            replace(
                one,
                merchants=frozenset(routes.labels(one.merchants)),
                moved={name: to for merchant, to in one.moved.items() for name in routes.labels([merchant])},
            )
            for one in evidence.injections
        ],
        deleted={
            one.id: evidence.deleted[one.id]
            for one in events
            if one.id in evidence.deleted and one.id not in deliveries
        },
        cancelled=frozenset(routes.all_of(evidence.cancelled)),
        by_hand=by_hand,
        commands=[
            replace(one, event_id=evidence.delivery_ids.get(one.event_id or "", one.event_id))
            for one in evidence.commands
        ],
        traced=frozenset(routes.all_of(evidence.traced)),
    )


class _Routes:
    """Which events may be for which endpoints. there: whether they are; None: perhaps."""

    def __init__(self, evidence: Evidence) -> None:
        self.there: dict[str, bool | None] = {}
        self._evidence = evidence
        self._cases: dict[str, list[str]] = {}
        self._labels: defaultdict[str, list[str]] = defaultdict(list)
        for name in evidence.lives:
            self._labels[merchant_of(name)].append(name)

    def of(self, event: Event) -> Iterator[Event]:
        """Return it as it is, or for each endpoint."""
        if event.merchant_id not in self._labels:
            yield event
            return
        self._cases[event.id] = cases = []
        for name in self.labels([event.merchant_id]):
            case_id = label(event.id, number_of(name))
            is_there = self._is_there(event, name)
            if is_there is not False or case_id in self._evidence.deliveries:
                self.there[case_id] = is_there
                cases.append(case_id)
                # Where no endpoint keeps order by charge at first, each event is of a charge of its own.
                charge = (event.charge or event.id) if name in self._evidence.by_charge else None
                yield replace(event, id=case_id, merchant_id=name, of=event.id, charge=charge)

    def labels(self, merchants: Iterable[str]) -> Iterator[str]:
        """Return all endpoints of merchants, and those that are named themselves."""
        for name in merchants:
            yield name
            yield from self._labels.get(name, ())

    def all_of(self, ids: Iterable[str]) -> Iterator[str]:
        """Return what events' or deliveries' ids may be about."""
        for known in ids:
            yield from self._cases.get(known, (self._evidence.delivery_ids.get(known, known),))

    def arrived(self, arrival: Arrival) -> Arrival:
        """Say at which endpoint a request arrived, if its event may be for that."""
        case_id = label(arrival.event_id, number_of(arrival.merchant_id))
        return replace(arrival, event_id=case_id) if case_id in self.there else arrival

    def ended_before_routing(self, events: Iterable[Event]) -> Iterator[tuple[str, Delivery]]:
        """Return the ends of events that were given up before they were routed: they hold everywhere."""
        for event in events:
            if event.of in (None, event.id) or event.of in self._evidence.routed:
                continue
            own = self._evidence.deliveries.get(event.of)
            is_given_up = own is not None and own.failed_reason in _GIVEN_UP and not own.attempted
            if own is not None and is_given_up and event.id not in self._evidence.deliveries:
                yield event.id, own

    def _is_there(self, event: Event, name: str) -> bool | None:
        place = self._evidence.places.get(event.id)
        if number_of(name) == 1:
            gaps = self._evidence.gaps.get(name, ())
            is_missed = any(gap.removed_from < (place or gap.removed_by) <= gap.removed_by for gap in gaps)
            return None if is_missed else True
        found = {_is_in(life, event, place) for life in self._evidence.lives[name]}
        return True if True in found else None if None in found else False


def _is_in(life: Life, event: Event, place: int | None) -> bool | None:
    if event.seq <= life.since_seq or (place or event.seq) > life.removed_by:
        return False
    # One without copies may have been delivered by the merchant's own lane, once number 1 was alone.
    is_before = life.removed_from == inf or (place is not None and place <= life.removed_from)
    return True if is_before else None
