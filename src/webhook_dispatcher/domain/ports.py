"""What the daemon's work needs from outside; storage and transport provide it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from webhook_dispatcher.domain.claim import (
    Arrival,
    Arrivals,
    ClaimedRetry,
    DueCursor,
    DueRow,
    HandedOn,
    Leased,
    Recalls,
    RouteAsk,
    Routed,
    RunAsk,
    Stray,
    SweptLane,
)
from webhook_dispatcher.domain.command import (
    Code,
    CommandRow,
    HandledCommand,
    Queue,
    RetryFailed,
    TakenCancel,
    WaitingCommand,
)
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.event import Event, State
from webhook_dispatcher.domain.mass_command import MassTransaction
from webhook_dispatcher.domain.names import Names
from webhook_dispatcher.domain.record import Attempt, LaneTurn, Record, Written
from webhook_dispatcher.domain.signing import Keyring
from webhook_dispatcher.domain.verdict import Answer, Failure, may_always


class Sender(Protocol):
    """Sends requests to merchants."""

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, may_send: Callable[[], bool] = may_always
    ) -> Answer | Failure:
        """Make one POST within the attempt's time; never raises but when cancelled.

        may_send: asked right before the request leaves. If it may not any more, the result is NOT_SENT.
        """
        ...


class UrlGuard(Protocol):
    """Which URLs may be sent to."""

    def find_fault(self, url: str) -> str | None:
        """Say why a URL must not be sent to, in words for operators; None when it may be."""
        ...


class Claims(Protocol):
    """Finding, leasing and reading what is owed. All methods raise StorageError."""

    async def read_arrivals(self, cursor: int, limit: int) -> Arrivals:
        """Read what was committed behind a cursor, in order of seq."""
        ...

    async def read_gaps(self, gaps: Sequence[tuple[int, int]], limit: int) -> list[Arrival]:
        """Read ranges of numbers again that were not visible before; at most `limit` events from each."""
        ...

    async def sweep(self, after_lane: str, page_size: int) -> list[SweptLane]:
        """Name the next lanes that are owed something in order; fewer than asked ends the round."""
        ...

    async def lease(self, heads: Mapping[str, int], lease: timedelta) -> Leased:
        """Lease those of these lanes that are free; the numbers are the lowest seq known of each."""
        ...

    async def check_writable(self) -> None:
        """Raise what leasing would: StorageUnavailable where the server only reads, as a standby does."""
        ...

    async def create_lanes(self, lanes: Sequence[str]) -> tuple[str, ...]:
        """Make missing lanes; returns those that another transaction is making just now."""
        ...

    async def read_runs(self, asks: Sequence[RunAsk]) -> dict[str, list[Event]]:
        """Read the next events of leased lanes, in order; at least one each where any is owed."""
        ...

    async def read_endpoints(self, lanes: Sequence[str]) -> dict[str, Endpoint]:
        """Read the endpoints of those lanes that have one."""
        ...

    async def route(self, ask: RouteAsk, lease: timedelta) -> Routed:
        """Write the next events of a routed lane into the lanes of the endpoints that want them."""
        ...

    async def find_alone(self) -> list[str]:
        """Name merchants that are routed still, though number 1 alone is left, or nobody."""
        ...

    async def serve_unrouted(self) -> None:
        """Serve programs that know but one endpoint, once nobody has several and nothing is owed to these."""
        ...

    async def become_direct(self, merchant_id: str) -> bool:
        """Make such a merchant's lane its endpoint's again; False: number 1 owes first attempts still."""
        ...

    async def find_strays(
        self, max_rows: int, max_bytes: int, except_seqs: Sequence[int] = ()
    ) -> list[Stray]:
        """Name unclaimed retries in lanes that number 1 has left, by lanes that have turns by chance."""
        ...

    async def hand_on(self, strays: Sequence[Stray], at: datetime) -> dict[int, HandedOn]:
        """Move retries of lanes without an endpoint to where number 1 is; say so of each, by its seq."""
        ...

    async def read_recalls(self) -> Recalls:
        """Read which lanes must be released, and whether everything is paused."""
        ...

    async def mend_retries(self, after_lane: str, page_size: int) -> list[tuple[str, bool]]:
        """Read the next lanes with rows outside the order; True where one had to be corrected."""
        ...

    async def find_due(self, after: DueCursor, limit: int) -> list[DueCursor]:
        """Name the next lanes that have something due, the longest due first."""
        ...

    async def claim_longest_due(
        self, lanes: int, per_lane: int, limit: int, lease: timedelta, except_seqs: Sequence[int] = ()
    ) -> list[ClaimedRetry]:
        """Claim due rows of so many lanes, the longest due first.

        A lane has at most `per_lane` in flight, those claimed before included; `limit` are claimed.
        """
        ...

    async def claim_due_of(
        self,
        lanes: Sequence[str],
        per_lane: int,
        limit: int,
        lease: timedelta,
        except_seqs: Sequence[int] = (),
    ) -> list[ClaimedRetry]:
        """Claim due rows of the lanes named; the limits are those of `claim_longest_due`."""
        ...

    async def read_next(self, lane: str, after_seq: int) -> Event | None:
        """Read the next event of a leased lane without its object."""
        ...

    async def name_due(self, lanes: Sequence[str], per_lane: int, except_seqs: Sequence[int]) -> list[DueRow]:
        """Name the due rows that `claim_due_of` would take, up to `per_lane` of each lane."""
        ...

    async def try_rows(self, rows: Sequence[DueRow]) -> None:
        """Read in the database what claiming these rows would read; StatementRefused as it would be."""
        ...

    async def close_row(self, row: DueRow) -> tuple[State, str] | None:
        """Finish a due row that can be read and not be claimed; returns its state and type, if it was due."""
        ...

    async def pick_trials(self, limit: int, interval: timedelta) -> list[str]:
        """Name suspended lanes to be tried by a retry, since nothing waits in order; each rests again."""
        ...

    async def claim_trials(
        self, lanes: Sequence[str], lease: timedelta, except_seqs: Sequence[int]
    ) -> list[ClaimedRetry]:
        """Claim one due row of each of these lanes, whether they are suspended or not."""
        ...

    async def look_later(self, lanes: Sequence[str], wait: timedelta) -> None:
        """Look for these lanes' due rows no earlier than this."""
        ...


class Records(Protocol):
    """Writing what attempts showed."""

    async def write(self, records: Sequence[Record], turns: Sequence[LaneTurn], lease: timedelta) -> Written:
        """Write a batch in one statement; repeating it changes nothing."""
        ...

    async def read_unwritten(self, records: Sequence[Record]) -> frozenset[int]:
        """Return the seqs that may still be written under their fence."""
        ...

    async def write_late(self, record: Record) -> bool:
        """Write an attempt whose fence has fallen; False where it must be tried again."""
        ...

    async def is_unreadable(self, seq: int) -> bool:
        """Tell whether this owed row cannot be read, for damage, though it is found."""
        ...


@dataclass(frozen=True, slots=True)
class FoundDelivery:
    """A delivery of an event; where it is owed, its lane is locked.

    endpoint: its number; None: not routed yet. lane: where it is owed, or would be owed again.
    """

    seq: int
    merchant_id: str
    endpoint: int | None
    lane: str
    type: str
    state: State
    is_owed: bool
    is_in_flight: bool
    finished_at: datetime | None


class Reopened(Enum):
    """What became of a finished delivery that was to be owed again, for one attempt."""

    DUE_NOW = auto()
    IN_ORDER = auto()
    """It was never attempted, and is back at its place in the merchant's order."""
    ID_IS_OWED = auto()
    """Nothing: an event with the same id is owed already, or the delivery is gone from the log."""


@dataclass(frozen=True, slots=True)
class ReopenedChunk:
    """What one chunk of a mass retry did.

    matched: how many deliveries it looked at. retried: how many of them are owed again.
    heads: their lanes, each with the lowest seq that went back to its place in the order, if any.
    reached: (finished_at, seq) of the last delivery; the next chunk begins behind it.
    seqs: the deliveries that are owed again.
    """

    matched: int
    retried: int
    heads: Mapping[str, int | None]
    reached: tuple[datetime, int]
    seqs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TestLog:
    """A test event and its one attempt, to be written down."""

    __test__ = False
    event: Event
    attempt: Attempt
    state: State


class CommandTransaction(MassTransaction, Protocol):
    """One transaction in which commands are carried out. All methods raise StorageError."""

    async def lock_control(self) -> bool:
        """Keep other commands from being carried out until this transaction ends; False when one is."""
        ...

    async def await_control(self) -> None:
        """Do so after whatever is being carried out; StorageUnavailable when that takes too long."""
        ...

    async def next_commands(
        self, queue: Queue, except_ids: Sequence[int], limit: int
    ) -> list[WaitingCommand]:
        """Look for a queue's commands that may be taken up; nothing is locked.

        They are the first pending one of each subject, unless it waits for another queue's, and running ones
        whose lease has ended. Those named are left out, with their subjects. Brakes of everything come first,
        the others in order of id.
        """
        ...

    async def take(self, command_id: int) -> bool:
        """Lock a command that may be taken up; False when it is withdrawn, handled or locked by now."""
        ...

    async def take_cancels(
        self, subjects: Sequence[str], per_subject: int, except_ids: Sequence[int]
    ) -> list[TakenCancel]:
        """Lock operators' next plain cancels of these subjects.

        Nothing is taken that waits for a command of another kind of theirs, or for one of those named.
        """
        ...

    async def reject_overtaken(self, command_ids: Sequence[int]) -> None:
        """Reject what merchants asked for before these brakes, still waits, and would undo them."""
        ...

    async def read_command(self, command_id: int) -> CommandRow:
        """Read that command; the transaction can be used on if the database refuses it."""
        ...

    async def finish(self, command_id: int, result: Mapping[str, Any], token: datetime | None = None) -> None:
        """Mark a command as done; LeaseLost when a token is given and another worker has the command now."""
        ...

    async def reject(self, command_id: int, code: Code, message: str, token: datetime | None = None) -> None:
        """Mark a command as rejected; LeaseLost as for `finish`."""
        ...

    async def mark_running(
        self, command_id: int, lease: timedelta, result: Mapping[str, Any], token: datetime | None = None
    ) -> datetime:
        """Mark a command as running and ours for the lease, with its progress; returns the next token.

        LeaseLost when a token is given and another worker has the command now.
        """
        ...

    async def run_now(self, delivery: FoundDelivery) -> bool:
        """Make a waiting retry due now; False when it is in flight, or no longer owed."""
        ...

    async def reopen(self, delivery: FoundDelivery) -> Reopened:
        """Make a finished delivery owed again, for one attempt; CommandRejected when its object is lost."""
        ...

    async def wake_lanes(self, heads: Mapping[str, int | None]) -> None:
        """Let these lanes' due rows be found at once.

        heads: by lane, the lowest seq that went back to its place in the order, if any.
        """
        ...

    async def find_deliveries(self, event_ids: Sequence[UUID]) -> dict[UUID, tuple[FoundDelivery, ...]]:
        """Find all deliveries of events, or what has the id of one delivery; lock the lanes of those owed.

        Of an event that no delivery is known of there is no entry; the others' are in order of seq.
        """
        ...

    async def cancel(self, deliveries: Sequence[FoundDelivery]) -> frozenset[int]:
        """Turn owed deliveries into cancelled ones, recall and wake their lanes; return the seqs."""
        ...

    async def finish_all(self, handled: Sequence[HandledCommand]) -> None:
        """Mark commands as done or rejected."""
        ...

    async def require_endpoint(self, merchant_id: str, number: int | None = None) -> str:
        """Return the lane of that endpoint, or of the first; CommandRejected when there is none."""
        ...

    async def is_everything_paused(self) -> bool:
        """Tell whether everything is paused, whoever is paused besides."""
        ...

    async def read_sample(self, event_type: str) -> bytes | None:
        """Return the object of a test of one's own type; None where there is no such type."""
        ...

    async def read_suspension(self, merchant_id: str, number: int) -> datetime | None:
        """Tell since when an endpoint is suspended; None where it is not."""
        ...

    async def pause(self, merchant_id: str | None, is_paused: bool, number: int | None = None) -> None:
        """Pause or resume an endpoint, a merchant, or everything; resuming but the last lifts suspension."""
        ...

    async def set_url(self, lane: str, url: str, command_id: int) -> None:
        """Change an endpoint's URL for a command, whose person the audit names."""
        ...

    async def count_failed(self, command: RetryFailed) -> int:
        """Count what a mass retry will go through."""
        ...

    async def reopen_failed(
        self, command: RetryFailed, after: tuple[datetime, int], limit: int
    ) -> ReopenedChunk | None:
        """Make the next failed deliveries owed again, oldest first; None at the end of the range."""
        ...

    async def count_waiting(self, seqs: Sequence[int]) -> int:
        """Count those of a mass retry's deliveries whose attempt has not ended."""
        ...

    async def skip_failed(self, command: RetryFailed, after: tuple[datetime, int]) -> ReopenedChunk | None:
        """Pass over the next failed delivery, without reading its object; None at the end of the range."""
        ...

    async def log_test_event(self, test: TestLog) -> None:
        """Write a test event down as finished."""
        ...


class Controls(Protocol):
    """The control table."""

    def transaction(self) -> AbstractAsyncContextManager[CommandTransaction]:
        """Open a transaction; it commits when left without error."""
        ...


@dataclass(frozen=True, slots=True)
class OldestSearch:
    """How far the search for the oldest pending event has come.

    from_seq: nothing is pending before, but for late commits. known_seq: the oldest one found; 0 for none.
    after_lane: behind which one the round of lanes goes on.
    """

    from_seq: int = 0
    known_seq: int = 0
    after_lane: str = ""


@dataclass(frozen=True, slots=True)
class Suspended:
    """A lane that was suspended just now. is_reported: a notice of it was written for the platform."""

    lane: str
    failing_since: datetime
    is_reported: bool


class Suspensions(Protocol):
    """Who is suspended, and who no longer is. All methods raise StorageError; what is locked is left out."""

    async def suspend(self, after: timedelta, interval: timedelta, limit: int) -> list[Suspended]:
        """Suspend merchants of whom nothing was accepted for so long; each is tried after an interval."""
        ...

    async def lift(self, limit: int) -> list[str]:
        """Lift the suspension of merchants who have accepted something, or have another URL or none."""
        ...

    async def lift_all(self, limit: int) -> list[str]:
        """Lift any suspension."""
        ...


@dataclass(frozen=True, slots=True)
class Reported:
    """What the platform was just told. written: notices by their type. has_more: there is more to tell."""

    written: Mapping[str, int]
    has_more: bool


class Notices(Protocol):
    """What the platform is told by events of its own. All methods raise StorageError."""

    async def report(self, failing_after: timedelta) -> Reported:
        """Write the notices that are due, each once; none without an endpoint for them, or while many wait.

        failing_after: how long a merchant must have failed before that is told.
        """
        ...


@dataclass(frozen=True, slots=True)
class Owed:
    """What is owed, as the gauges show it; ages in seconds.

    search: to go on with next time. suspended: how many merchants are. failing: those that are not suspended,
        and have accepted nothing for five minutes. lost: events, noted within a day.
    """

    pending: int
    pending_retry: int
    oldest_pending_age: float
    oldest_due_retry_age: float
    search: OldestSearch
    suspended: int = 0
    failing: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a daemon notes of itself, for people who look at all of them.

    reasons: why it is not ready; empty when it is. faults: of its own, in words.
    attempts: recorded since the last note, by outcome.
    """

    lanes: int
    attempts_in_flight: int
    reasons: Sequence[str]
    faults: Sequence[str]
    attempts: Mapping[str, int]


class Heartbeats(Protocol):
    """What this daemon notes of itself. All methods raise StorageError."""

    async def note(self, beat: Heartbeat) -> None:
        """Note that it is there, and add the attempts."""
        ...

    async def remove(self, attempts: Mapping[str, int]) -> None:
        """Forget it, since it ends, and add the attempts."""
        ...


class Dropped(NamedTuple):
    """A day of the log that is gone: in how many partitions, and about how many rows, attempts included."""

    day: date
    partitions: int
    rows: int


@dataclass(frozen=True, slots=True)
class LongestWaits:
    """How far ahead of the database's clock an instant of ours may lie.

    delays: of a retry, by the attempts made. rest: of a lane that is not suspended.
    """

    lease: timedelta
    command_lease: timedelta
    delays: Sequence[timedelta]
    suspension_interval: timedelta
    rest: timedelta


class Corrected(NamedTuple):
    """How many lanes and retries of a page lay too far ahead. last_lane: None where the round is over."""

    last_lane: str | None
    lanes: int
    retries: int


class Upkeep(Protocol):
    """Partitions, retention, gauges and corrections. All methods raise StorageError."""

    async def check_schema(self) -> None:
        """Raise SchemaMismatch when the schema does not serve this program."""
        ...

    async def read_names(self) -> Names:
        """Return the names that requests have."""
        ...

    async def make_partitions(self, days_ahead: int) -> int:
        """Make the log's missing partitions from yesterday on; return how many that were."""
        ...

    async def drop_partitions(self, keep: timedelta) -> Dropped | None:
        """Drop the oldest of the log's days that ended before `keep`, by the clock and by its newest row."""
        ...

    async def note_milestone(self) -> None:
        """Note how far transactions are, for merchants who read their events in order."""
        ...

    async def purge_control(self, keep: timedelta) -> None:
        """Forget commands that were handled longer ago than `keep`."""
        ...

    async def purge_unreported(self, keep: timedelta) -> None:
        """Forget failures that no notice has told of for longer than `keep`."""
        ...

    async def forget_noted(self, keep: timedelta) -> None:
        """Forget daemons that are gone, and of what was noted for the console what is older than `keep`."""
        ...

    async def clear_api_rows(self) -> int:
        """Clear away the Partner API's tokens and counts that expired; return how many tokens these were."""
        ...

    async def clear_console_rows(self) -> int:
        """Clear away the console's sessions and codes that expired; return how many these were."""
        ...

    async def correct_lanes(self, after_lane: str, page_size: int, waits: LongestWaits) -> Corrected:
        """Correct the next lanes, and their retries, that lie too far ahead of the clock."""
        ...

    async def correct_others(self, waits: LongestWaits) -> None:
        """Correct what else lies too far ahead: running commands, untold failures, dispatchers' notes."""
        ...

    async def measure(self, count_limit: int, search: OldestSearch) -> Owed:
        """Measure what is owed: exact up to the limit, the oldest searched a step further."""
        ...

    async def read_unknown_keys(self, held: tuple[str, ...]) -> frozenset[str]:
        """Return the ids of stored keys that are not among those held."""
        ...

    async def find_wrong_keys(self, keyring: Keyring) -> frozenset[str]:
        """Return the ids of keys held that are not the ones those ids stand for."""
        ...

    async def confirm_sealing_key(self, keyring: Keyring) -> bool:
        """Publish the public half of the key that seals, or confirm it; False where another stands there."""
        ...
