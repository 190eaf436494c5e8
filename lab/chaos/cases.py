"""The evidence, put together by event and by merchant."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from lab.chaos.commands import Commands
from lab.chaos.evidence import Attempted, Delivery, Event, Evidence, Suspension
from lab.chaos.lost import Losses
from lab.chaos.records import AFTER, BEFORE, may_arrive, recorded
from webhook_dispatcher.domain.event import NOTICE_TYPES, PLATFORM, TEST_EVENT_TYPE, FailedReason, Trigger
from webhook_dispatcher.local.arrivals import Arrival


@dataclass(slots=True)
class Case:
    """One event: what arrived of it, in order of time, and what became of it.

    kept: what is on record of a row that an operator deleted.
    resent: requests whose kept connection was cut, and which were sent again on another in the same attempt.
    first_delay: seconds from the end of the first attempt to its retry; what comes later may be that one.
    given_up_at: when an attempt without an answer had ended by its daemon's log, though it be on no record.
    reopened_from: from when on a first request that is on no record may have been made by hand.
    forgotten: requests whose records a failover has lost; none of them is among the others any more.
    losses: the failovers of the run.
    is_wanted: whether its endpoint wanted its type, and was there; None where that changed meanwhile.
    by_hand, replayed: attempts that commands account for: those asked for one by one or of what had not been
        delivered, and those of what had been.
    """

    event: Event
    delivery: Delivery | None
    by_hand: int
    arrivals: list[Arrival] = field(default_factory=list)
    resent: int = 0
    kept: Sequence[Attempted] = ()
    first_delay: float = float("inf")
    given_up_at: float = float("inf")
    reopened_from: float = float("inf")
    replayed: int = 0
    forgotten: Sequence[Arrival] = ()
    losses: Losses = field(default_factory=Losses)
    is_wanted: bool | None = True

    @property
    def merchant_id(self) -> str:
        """Return whose event it is, or at which of its endpoints."""
        return self.event.merchant_id

    @property
    def attempted(self) -> Sequence[Attempted]:
        """Return what is on record."""
        return self.kept if self.delivery is None else self.delivery.attempted

    @property
    def first(self) -> Arrival | None:
        """Return its first request."""
        return self.arrivals[0] if self.arrivals else None

    @property
    def is_test(self) -> bool:
        """Tell whether it is sent outside the order."""
        return self.event.type == TEST_EVENT_TYPE

    def first_attempt(self) -> Attempted | None:
        """Return the recorded attempt that was begun first."""
        return min(self.attempted, key=lambda attempted: attempted.started_at, default=None)

    @property
    def is_first_by_hand(self) -> bool:
        """Tell whether it was first sent by hand: it had failed before its turn, or was cancelled."""
        attempted = self.first_attempt()
        return self.by_hand > 0 and attempted is not None and attempted.trigger == "manual"

    @property
    def may_be_first_by_hand(self) -> bool:
        """Tell whether it was first sent by hand, or may have been: that request is on no record."""
        return self.is_first_by_hand or self._is_first_unrecorded(since=self.reopened_from)

    def _is_first_unrecorded(self, since: float = float("-inf")) -> bool:
        """Tell whether its first request came from then on, and is on record at most as it was repeated."""
        first, attempted = self.first, self.first_attempt()
        if first is None or first.started_at < since:
            return False
        return attempted is None or attempted.started_at > first.started_at + BEFORE

    @property
    def is_skipped(self) -> bool:
        """Tell whether it ended by a skip."""
        return self.delivery is not None and self.delivery.failed_reason == FailedReason.SKIPPED

    def served_at(self) -> float | None:
        """Return when its first attempt was begun; one that reached nobody counts too."""
        begun = [row.started_at for row in self.attempted] + [
            arrival.started_at for arrival in self.arrivals[:1]
        ]
        return min(begun, default=None)

    def first_in_line(self) -> Arrival | None:
        """Return the first arrival if it shows when the event's turn was.

        It does not for a test event, for one that may first have been sent by hand, where the first attempt
        reached nobody, by the record or by its daemon's log, and where a failover may have lost what was
        sent just before.
        """
        first = self.first
        if first is None or self.is_test or self.may_be_first_by_hand or self.losses.forget(first.started_at):
            return None
        if self.given_up_at <= first.started_at:
            return None
        attempted = self.first_attempt()
        if attempted is None or self._is_first_unrecorded():
            return first
        if attempted.status is not None:
            return first  # it was answered, so it arrived
        if any(_is_answered_by(row, first) for row in self.attempted):
            return None  # the first attempt hung before it was sent; this is a later one
        # A retry whose daemon was killed is on no record.
        gone_by = attempted.started_at + attempted.duration + min(AFTER, self.first_delay)
        return first if may_arrive(attempted) and first.started_at <= gone_by else None

    @property
    def late(self) -> int:
        """Return how many attempts of lost histories were put on record later: they count beside others."""
        return sum(self.losses.forget(row.started_at) for row in self.attempted) if self.losses else 0

    def recorded(self) -> Set[int]:
        """Return the places of those requests that are on record; an attempt recorded twice counts once."""
        return set(recorded(self.attempted, self.arrivals, self.losses.history).values())

    def forget(self) -> None:
        """Set requests apart that are on no record since a failover has lost it."""
        lost = {place for place, one in enumerate(self.arrivals) if self.losses.forget(one.started_at)}
        if lost:
            # Of one number two may be on record: who took over began anew, and the first was written late.
            lost -= self.recorded() | {place for place in lost if self._is_answered_on_record(place)}
            self.forgotten = [self.arrivals[place] for place in sorted(lost)]
            self.arrivals = [one for place, one in enumerate(self.arrivals) if place not in lost]

    def _is_answered_on_record(self, place: int) -> bool:
        return any(_is_answered_by(row, self.arrivals[place]) for row in self.attempted)


def _is_answered_by(row: Attempted, arrival: Arrival) -> bool:
    """Tell whether a request is surely the one of a recorded attempt that was answered."""
    begins, ends = row.started_at - BEFORE, row.started_at + row.duration + BEFORE
    return row.status is not None and row.status == arrival.status and begins <= arrival.started_at <= ends


def _make(event: Event, evidence: Evidence, commands: Commands, losses: Losses, first_delay: float) -> Case:
    case = Case(
        event,
        evidence.deliveries.get(event.id),
        evidence.by_hand.get(event.id, 0),
        kept=evidence.deleted.get(event.id, ()),
        first_delay=first_delay,
        given_up_at=evidence.given_up.get(event.id, float("inf")),
        reopened_from=commands.reopened_from(event),
        losses=losses,
        is_wanted=_is_wanted(event, evidence),
    )
    recovered = commands.recovered(event, case.attempted)
    case.by_hand += recovered[Trigger.MANUAL]
    case.replayed = recovered[Trigger.REPLAY]
    if event.of not in (None, event.id) and case.reopened_from < float("inf"):
        case.is_wanted = None  # what was given up before it was routed goes to number 1 alone
    return case


def _is_wanted(event: Event, evidence: Evidence) -> bool | None:
    is_there = evidence.there.get(event.id, True)
    if not is_there:
        return is_there
    filters = evidence.filters.get(event.merchant_id)
    if not filters or event.type == TEST_EVENT_TYPE:
        return True
    wanted, *others = {event.type in types for types in filters}
    return None if others else wanted


class Cases:
    """Every event's case, and each merchant's in the order of first arrivals.

    notices: what came to the platform. unknown: what nobody wrote. absent: by id, events that were sent and
    that a failover has lost.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.commands = Commands(evidence.commands)
        self._pauses = self.commands.pauses
        self.losses = Losses.of(evidence)
        first_delay = min(evidence.limits.schedule[:1], default=float("inf"))
        self._by_id = {
            event.id: _make(event, evidence, self.commands, self.losses, first_delay)
            for event in evidence.events
        }
        self.notices: list[Arrival] = []
        self.unknown: list[Arrival] = []
        self.absent: dict[str, Case] = {}
        self._absent = {event.id: event for event in evidence.absent}
        self._noted = {row.id for row in evidence.notices}
        self.suspensions: defaultdict[str, list[Suspension]] = defaultdict(list)
        for suspension in evidence.suspensions:
            self.suspensions[suspension.merchant_id].append(suspension)
        self._opened: dict[int, float] = {}
        for arrival in sorted(evidence.arrivals, key=lambda arrival: arrival.started_at):
            self._opened.setdefault(arrival.connection, arrival.started_at)
            self._sort_in(arrival)
        if self.losses:
            for case in self:
                case.forget()
        self.of_merchant: Mapping[str, list[Case]] = self._sorted_out()

    def _sort_in(self, arrival: Arrival) -> None:
        event_id = arrival.event_id
        case = self._by_id.get(event_id)
        if case is not None:
            case.arrivals.append(arrival)
        elif arrival.merchant_id == PLATFORM and arrival.type in NOTICE_TYPES:
            if event_id in self._noted or not self.losses.take(arrival):
                self.notices.append(arrival)
        elif event_id in self._absent and self.losses.take(arrival):
            event = self._absent[event_id]
            case = self.absent.setdefault(event_id, Case(event, None, 0, losses=self.losses))
            case.arrivals.append(arrival)
        elif arrival.type != TEST_EVENT_TYPE:  # those the daemons make themselves
            self.unknown.append(arrival)

    def _sorted_out(self) -> dict[str, list[Case]]:
        merchants: defaultdict[str, list[Case]] = defaultdict(list)
        for case in self:
            merchants[case.merchant_id].append(case)
        return dict(merchants)

    def __iter__(self) -> Iterator[Case]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def is_kept(self, arrival: Arrival) -> bool:
        """Tell whether a request came on a connection that had carried one before."""
        return self._opened[arrival.connection] < arrival.started_at

    def is_suspended(self, merchant_id: str, begin: float, end: float) -> bool:
        """Tell whether a merchant was suspended at some time between two moments."""
        return any(
            one.began <= end and (one.ended is None or one.ended >= begin)
            for one in self.suspensions.get(merchant_id, ())
        )

    def is_held(self, merchant_id: str, begin: float, end: float) -> bool:
        """Tell whether a merchant was suspended, or everything paused, at some time between two moments."""
        return self.is_suspended(merchant_id, begin, end) or any(
            since <= end and until >= begin for since, _, until in self._pauses
        )

    def get(self, event_id: str | None) -> Case | None:
        """Return an event's case; None for one that nobody wrote."""
        return None if event_id is None else self._by_id.get(event_id) or self.absent.get(event_id)
