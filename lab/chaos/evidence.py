"""What a run leaves behind for the judge: what was written, what arrived, what was recorded, what was done.

All times are seconds of the machine's monotonic clock, which every process of the run shares.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum

from webhook_dispatcher.local.arrivals import Arrival


class Phase(StrEnum):
    """Where a delivery's attempt stands in the process that makes it."""

    CLAIMING = "claiming"
    """its lane or row is being asked for"""
    CLAIMED = "claimed"
    """read, and waiting for its turn"""
    CONNECTING = "connecting"
    """begun; the request is not written yet"""
    SENT = "sent"
    """written; no answer yet"""
    ANSWERED = "answered"
    """answered or given up; its outcome waits to be written"""
    WRITING = "writing"
    """its outcome is on its way to the database"""


EXPOSED = frozenset((Phase.CONNECTING, Phase.SENT, Phase.ANSWERED, Phase.WRITING))
"""Phases in which a fault may cost one repetition: the request may be out, and is not on record."""


class Repeats(StrEnum):
    """What a kind of fault may cost in requests that repeat an attempt."""

    NONE = "none"
    """nothing: whatever was in flight is recorded in the end"""
    EXPOSED = "exposed"
    """one for each attempt that was in flight or unrecorded in the processes hit"""
    UNCOUNTED = "uncounted"
    """any number of what failed while it lasted: a daemon may take it for a fault of its own"""
    UNHEARD = "unheard"
    """so too, and of what its merchants answered: too late, for all that it takes to hear an answer"""


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault as it happened.

    began, ended: when it hit, and when it was healed: from then on nothing stands in the way.
    daemons: which were hit, as their User-Agents name them ("d2.7": the second daemon's seventh process).
    merchants: whose endpoint, lane or rows an operator touched; they may be served late.
    stops_all: nobody could deliver anything while it lasted (the database was away, every daemon dead).
    phases: how many attempts stood where in the daemons hit.
    exposed: the most attempts that were in an EXPOSED phase at once in the daemons hit, while it lasted.
    lingers: seconds after its end for which what it did may keep its merchants waiting.
    alone_since: from when on no other fault lasted, and none did until its end; None if others may have.
    slowness: by how many seconds, at worst, the machine let the runner wait for its turn meanwhile.
    forgets_from: from when on what was committed before it is not in the database after it; None: all is.
    moved: merchants whose names lead to another address from its begin on, and to which.
    note: what exactly was done, for a reader.
    """

    number: int
    kind: str
    repeats: Repeats
    began: float
    ended: float
    daemons: frozenset[str] = frozenset()
    merchants: frozenset[str] = frozenset()
    stops_all: bool = False
    phases: Mapping[Phase, int] = field(default_factory=dict)
    exposed: int = 0
    lingers: float = 0.0
    alone_since: float | None = None
    slowness: float = 0.0
    forgets_from: float | None = None
    moved: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    def has_room(self, taken: int) -> bool:
        """Tell whether it may have cost one repetition more than so many."""
        return self.repeats in (Repeats.UNCOUNTED, Repeats.UNHEARD) or taken < self.exposed


@dataclass(frozen=True, slots=True)
class Event:
    """An event as its producer knows it; it was committed.

    begun_at: before its INSERT was asked for.
    committed_at: after the answer to its COMMIT; None when that answer was lost.
    charge: whose events it is sent in order with; None: with its merchant's.
    of: its own id, where it is one of several endpoints' and has a label.
    """

    id: str
    seq: int
    merchant_id: str
    type: str
    object: str
    begun_at: float
    committed_at: float | None
    charge: str | None = None
    of: str | None = None

    @property
    def own_id(self) -> str:
        """Return what its endpoints are told."""
        return self.of or self.id


@dataclass(frozen=True, slots=True)
class Attempted:
    """A row of webhook.attempts; started_at on the monotonic clock.

    is_unresolved: it got no further than to the look-up of its name.
    """

    attempt: int
    trigger: str
    started_at: float
    duration: float
    status: int | None
    outcome: str
    is_unresolved: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """A row of webhook.deliveries at the end of the run; both instants by the database's clock."""

    state: str
    failed_reason: str | None
    attempts: int
    attempted: Sequence[Attempted] = ()
    created_at: float = 0.0
    finished_at: float | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A row of webhook.control at the end of the run; instants by the database's clock.

    since, until: between which a recover takes what had finished. states: which of it. before: of a skip.
    is_whole: a recover or skip that went through all that it was about: nobody stopped or limited it.
    is_operators: not a merchant's own.
    """

    id: int
    name: str
    status: str
    given_at: float
    handled_at: float | None = None
    merchant_id: str | None = None
    event_id: str | None = None
    since: float = float("-inf")
    until: float = float("inf")
    before: float = float("-inf")
    states: frozenset[str] = frozenset()
    is_whole: bool = True
    is_operators: bool = True


@dataclass(frozen=True, slots=True)
class Life:
    """For how long an endpoint with a number was there, by numbers that had been given.

    since_seq: when it was added. removed_from, removed_by: before and after it was removed.
    """

    since_seq: int = 0
    removed_from: float = float("inf")
    removed_by: float = float("inf")


@dataclass(frozen=True, slots=True)
class Suspension:
    """A merchant's suspension, as somebody saw it who looked twice a second.

    began: by the database. seen_until: when it was last seen to last. ended: when it was first seen to be
        over; None if it never was.
    """

    merchant_id: str
    began: float
    seen_until: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """A row of webhook.deliveries of `$platform` at the end of the run."""

    id: str
    type: str
    state: str
    object: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What the daemons ran with, in seconds, and what follows from it.

    attempts: scheduled ones (B).
    schedule: the delay before each attempt but the first; empty if the times of retries are not judged.
    failing_after: how long a merchant must have failed before that is told; None: nothing is.
    suspend_after, suspension_interval: after which time of nothing but failures a merchant is suspended, and
        how often it is tried then.
    """

    lease: float
    attempt_timeout: float
    sweep: float
    attempts: int
    schedule: Sequence[float] = ()
    failing_after: float | None = None
    suspend_after: float = float("inf")
    suspension_interval: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything the judge looks at.

    Of a merchant with several endpoints each stands for one, by its label (routes.py).
    events: every committed one that the database still has.
    deliveries: by event id.
    arrivals: what reached the receiver; `daemon_of` names who sent one.
    deleted: labels of events whose row an operator deleted: they may be missing, everywhere; with what is on
        record of them there all the same.
    cancelled: ids of events that a `cancel` ended.
    by_hand: attempts asked for by hand (retry, retry_failed) by event id: so many requests beyond the
        scheduled ones are right, and those that recovers account for.
    unconfigured: merchants whose endpoint was removed for a time: their events may fail as not_configured.
    filters: the types that endpoints wanted, all that held at some time, by merchant; others want all.
    unwanted: ids of events that the log holds without a state; of those that were routed, too: routed.
    places: the first number that a copy of an event has.
    lives: of all endpoints with a number, by label. gaps: when merchants had none of number 1.
    delivery_ids: of deliveries at such endpoints, whose they are.
    by_charge: the labels of those that keep order by charge. endpoint_ids: labels by the endpoints' ids.
    there: of events of several, whether they were for their endpoint; None: perhaps.
    commands: all that were given.
    withdrawn: ids of commands that the database said were taken back in time.
    in_force: ids of withdrawn commands whose effect an operator found all the same.
    suspensions: all that were seen. notices: what was written for the platform.
    absent: events whose COMMIT failed, or that the database has lost since.
    traced: ids in webhook.lost_event.
    unheard: daemon and label of absent events of which its log tells attempts, and none that was delivered.
    given_up: by event, when a daemon's log first tells of an attempt that has ended without an answer.
    to_monotonic: what makes an instant one of our clock.
    """

    seed: int
    began: float
    ended: float
    limits: Limits
    events: Sequence[Event]
    deliveries: Mapping[str, Delivery]
    arrivals: Sequence[Arrival]
    injections: Sequence[Injection]
    deleted: Mapping[str, Sequence[Attempted]] = field(default_factory=dict)
    cancelled: Set[str] = frozenset()
    by_hand: Mapping[str, int] = field(default_factory=dict)
    unconfigured: frozenset[str] = frozenset()
    filters: Mapping[str, Set[frozenset[str]]] = field(default_factory=dict)
    unwanted: Set[str] = frozenset()
    routed: Set[str] = frozenset()
    places: Mapping[str, int] = field(default_factory=dict)
    delivery_ids: Mapping[str, str] = field(default_factory=dict)
    lives: Mapping[str, Sequence[Life]] = field(default_factory=dict)
    gaps: Mapping[str, Sequence[Life]] = field(default_factory=dict)
    by_charge: Set[str] = frozenset()
    endpoint_ids: Mapping[str, str] = field(default_factory=dict)
    there: Mapping[str, bool | None] = field(default_factory=dict)
    commands: Sequence[Command] = ()
    withdrawn: frozenset[int] = frozenset()
    in_force: frozenset[int] = frozenset()
    suspensions: Sequence[Suspension] = ()
    notices: Sequence[NoticeRow] = ()
    absent: Sequence[Event] = ()
    traced: Set[str] = frozenset()
    unheard: Set[tuple[str, str]] = frozenset()
    given_up: Mapping[str, float] = field(default_factory=dict)
    to_monotonic: float = 0.0


ARRIVED_AT = "x-arrived-at"
"""The header in which the receiver notes at which address a request came, once its merchant has moved."""


UNPROVEN = "x-unproven"
"""The header in which it notes that a request came though its certificate did not prove who it is."""


def arrived_at(arrival: Arrival) -> str:
    """Return at which address a request to a merchant that has moved arrived; "" if that is not known."""
    return arrival.headers.get(ARRIVED_AT, "")


def daemon_of(arrival: Arrival) -> str:
    """Return which daemon sent a request, from its User-Agent: "webhook-dispatcher/0.1.0+d2.7"."""
    return arrival.headers.get("user-agent", "").rpartition("+")[2]
