"""What goes on in an installation at one moment, as `status`, `check` and the console's pages tell it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from webhook_dispatcher.domain.delivery import Pause
from webhook_dispatcher.domain.merchant import MerchantFacts

MAX_COUNTED = 100_000
"""Up to here what is owed, and what was attempted, is counted; above, it is called more."""
MAX_OWING = 10_000


@dataclass(frozen=True, slots=True)
class SuspendedMerchant:
    """A merchant that is tried once an interval, or one of its endpoints."""

    merchant_id: str
    suspended_at: datetime
    next_try_at: datetime
    endpoint: int | None = None


@dataclass(frozen=True, slots=True)
class Stranded:
    """An event that waits for its first attempt, and nothing but a dispatcher is wanting."""

    merchant_id: str
    event_id: UUID
    created_at: datetime
    endpoint: int | None = None


@dataclass(frozen=True, slots=True)
class DispatcherFacts:
    """A dispatcher as it noted itself last. reasons: why it is not ready. faults: that are its own."""

    owner: str
    version: str
    started_at: datetime
    beat_at: datetime
    is_ready: bool
    reasons: Sequence[str] = ()
    faults: Sequence[str] = ()
    lanes: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """What was noted of all of them. noted_at: of the latest; is_recent: that was within a day."""

    events: int
    merchants: int
    first_seq: int
    last_seq: int
    first_sent_at: datetime
    last_sent_at: datetime
    noted_at: datetime
    is_recent: bool


@dataclass(frozen=True, slots=True)
class LostEvent:
    """What was noted of one. sent_at: the end of its latest attempt, by the clock of the server before."""

    merchant_id: str
    sent_at: datetime
    is_delivered: bool
    noted_at: datetime


@dataclass(frozen=True, slots=True)
class Owing:
    """A merchant that is owed something, and the first of it: in order, or (with due_at) as a retry.

    endpoint: of several, which. A row each.
    """

    merchant_id: str
    is_in_order: bool
    event_id: UUID
    seq: int
    created_at: datetime
    due_at: datetime | None
    is_paused: bool
    has_endpoint: bool
    endpoint: int | None = None


@dataclass(frozen=True, slots=True)
class Lag:
    """From created_at to the first attempt in seconds, of the latest so many; None where there are none."""

    events: int
    median: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Pace:
    """How many events come, and how many are first attempted, each second."""

    arriving: float
    starting: float


@dataclass(frozen=True, slots=True)
class Size:
    """What a table takes with its indexes. days: its partitions, the first of which is of kept_since."""

    name: str
    bytes: int
    days: int
    kept_since: date | None


@dataclass(frozen=True, slots=True)
class Commands:
    """How many commands are not finished."""

    pending: int
    running: int
    pending_since: datetime | None


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """What `status` shows. Counts go up to MAX_COUNTED, merchants that are owed something up to MAX_OWING.

    next_try_at: of a suspended merchant. recent: attempts by outcome since `recent_since`.
    holders: lanes by dispatcher. stranded: what waits although only a dispatcher is wanting.
    dispatchers: as they noted themselves.
    """

    now: datetime
    everything_is_paused: bool
    general_pause: Pause | None
    pending: int
    pending_retry: int
    owing: Sequence[Owing]
    paused: int
    failing: int
    suspended: int
    next_try_at: datetime | None
    most_failing: Sequence[MerchantFacts]
    recent_since: datetime
    recent: dict[str, int]
    lag: Lag
    holders: dict[str, int]
    commands: Commands
    missing_partitions: Sequence[tuple[str, date]]
    stranded: Stranded | None
    dispatchers: Sequence[DispatcherFacts]
    lost: Lost | None = None
    pace: Pace = Pace(0, 0)
    sizes: Sequence[Size] = ()
