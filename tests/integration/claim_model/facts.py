"""What must hold in the claim model whatever happens: the facts outside, and the checks on them.

Judged by what producers committed, what reached merchants, and what the tables say; never by what a daemon
believes. Every check names the promise that is broken.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from tests.integration.claim_model.daemon import ATTEMPT_TIMEOUT, PLACES, ModelDaemon, Moment, Request, Seen
from webhook_dispatcher.dispatch.finding import MAX_GAP_AGE

MOST_ATTEMPTS = 8
# Infinity has no instant in Python.
_LANES = """
SELECT
    merchant_id, epoch, from_seq, greatest(lease_until, '2000-01-01') AS lease_until,
    least(retry_at, '2100-01-01') AS retry_at
FROM webhook.lane
"""


@dataclass(slots=True, eq=False)
class Committed:
    """An event as its producer and its merchant know it; inserted and committed say when, by count.

    is_special: of the type that filters leave out. is_passed_over: it went into the log without a state.
    is_by_hand: somebody cancelled it, had it sent again, or deleted it: only that it is owed or finished, and
        that its schedule was kept, is asked of it then, and of a deleted one nothing.
    is_cancelled: it may be sent once more after that, and fail for good at once.
    charge: None where order is kept by merchant.
    claimed_until: the end of the claim that a retry had when it was deleted. Its lane is not told, and takes
        its place for taken until then.
    """

    seq: int
    id: UUID
    merchant: str
    charge: str | None
    inserted: int
    inserted_at: float
    is_special: bool = False
    committed: int | None = None
    is_late: bool = False
    is_by_hand: bool = False
    is_cancelled: bool = False
    is_deleted: bool = False
    claimed_until: datetime | None = None
    has_arrived: bool = False
    is_passed_over: bool = False

    def is_in_line_with(self, other: "Committed") -> bool:
        """Tell whether one is sent after the other."""
        return (self.merchant, self.charge) == (other.merchant, other.charge)

    def precedes(self, other: "Committed") -> bool:
        """Tell whether its transaction had ended before the other's number was given (contract 2.6)."""
        return (
            self.is_in_line_with(other)
            and self.committed is not None
            and self.committed < other.inserted
            and not self.is_late
            and not self.is_by_hand
            and not self.is_passed_over
        )


@dataclass(frozen=True, slots=True)
class Tables:
    """What the database says after a step."""

    lanes: dict[str, asyncpg.Record]
    owed: dict[int, asyncpg.Record]
    finished: dict[int, list[asyncpg.Record]]
    attempts: list[asyncpg.Record]

    @classmethod
    async def read(cls, db: asyncpg.Connection) -> "Tables":
        finished: dict[int, list[asyncpg.Record]] = {}
        for row in await db.fetch("SELECT seq, state, failed_reason, attempts FROM webhook.delivery_log"):
            finished.setdefault(row["seq"], []).append(row)
        owed = await db.fetch(
            "SELECT seq, merchant_id, due_at, claim, attempts, on_failure FROM webhook.outbox"
        )
        return cls(
            {row["merchant_id"]: row for row in await db.fetch(_LANES)},
            {row["seq"]: row for row in owed},
            finished,
            await db.fetch("SELECT event_id, attempt, trigger, started_at, outcome FROM webhook.attempt_log"),
        )


@dataclass(slots=True)
class Facts:
    """All events and requests of a run.

    filtered_since: merchants that have a filter now, and their lanes' epochs when it was set.
    """

    moment: Moment
    events: dict[int, Committed] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)
    filtered_since: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def insert(
        self, seq: int, event_id: UUID, merchant: str, charge: str | None, is_special: bool
    ) -> Committed:
        self.count += 1
        event = Committed(seq, event_id, merchant, charge, self.count, self.moment.seconds, is_special)
        self.events[seq] = event
        return event

    def commit(self, event: Committed) -> None:
        self.count += 1
        event.committed = self.count
        event.is_late = self.moment.seconds - event.inserted_at >= MAX_GAP_AGE

    def arrive(self, request: Request) -> None:
        """A request reaches its merchant."""
        request.has_arrived = True
        event = self.events[request.event.seq]
        for other in self.requests:
            if other is not request and other.has_arrived:
                self._compare(event, request, other)
        if request.is_retry:
            self.seen.notes.add("a retry arrived")
        if request.number == MOST_ATTEMPTS:
            self.seen.notes.add("a last attempt arrived")
        if not event.has_arrived:
            event.has_arrived = True
            for earlier in self.events.values():
                overtaken = earlier.precedes(event) and not earlier.has_arrived
                assert not overtaken, f"{event.seq} overtook {earlier.seq}"

    def _compare(self, event: Committed, request: Request, other: Request) -> None:
        is_same = other.event.seq == event.seq
        if other.is_excused or request.is_excused:
            if is_same and other.number == request.number:
                self.seen.notes.add("an attempt was repeated")
        elif is_same and not event.is_by_hand:
            assert other.number != request.number, f"attempt {request.number} of {event.seq} repeated"
            assert not other.is_live, f"two attempts of {event.seq} at once"
        elif other.event.merchant_id == event.merchant and not (other.is_retry or request.is_retry):
            is_next = self.events[other.event.seq].is_in_line_with(event)
            assert not (is_next and other.is_live), f"{event.seq} before the end of {other.event.seq}"
            if other.is_live:
                self.seen.notes.add("two charges were under way")

    def excuse(self, tables: Tables, daemons: Iterable[ModelDaemon]) -> None:
        """What these daemons have under way and is not recorded may be repeated."""
        recorded = {(row["event_id"], row["attempt"], self._second(row)) for row in tables.attempts}
        hit = set(daemons)
        for request in self.requests:
            known = (request.event.id, request.number, round(request.started_at, 2))
            if request.daemon in hit and known not in recorded:
                request.is_excused = True

    def _second(self, row: asyncpg.Record) -> float:
        started_at: datetime = row["started_at"]
        return round((started_at - self.moment.start).total_seconds(), 2)

    def check(self, tables: Tables, daemons: Sequence[ModelDaemon]) -> None:
        self._check_holders(daemons)
        self._check_requests(tables)
        self._check_nothing_lost(tables)
        self._check_passed_over(tables)
        self._check_lanes(tables)
        self._check_attempts(tables)

    def _check_holders(self, daemons: Sequence[ModelDaemon]) -> None:
        holders = Counter(session.lease.lane for daemon in daemons for session in daemon.sessions())
        assert max(holders.values(), default=1) == 1, f"two trusted holders: {holders}"

    def _check_requests(self, tables: Tables) -> None:
        """Whoever is at work on an attempt holds what it was claimed by, for long enough."""
        ends = self.moment.now + timedelta(seconds=ATTEMPT_TIMEOUT)
        for request in self.requests:
            seq, is_new, request.is_new = request.event.seq, request.is_new, False
            lane, row = tables.lanes[request.event.merchant_id], tables.owed.get(seq)
            if not request.is_live or self.events[seq].is_by_hand:
                continue
            if not request.is_retry:
                assert lane["epoch"] == request.fence, f"{seq} is in flight under a fallen epoch"
                assert not is_new or lane["lease_until"] >= ends, f"{seq} started on a lease too short"
                assert not is_new or not self._is_left_out(request), f"{seq} started though it is not wanted"
                assert row is None or row["due_at"] is None, f"{seq} was taken from its holder"
            elif row is not None:
                assert row["claim"] == request.fence, f"retry of {seq} in flight under a fallen claim"
                assert not is_new or row["due_at"] >= ends, f"retry of {seq} started on a claim too short"

    def _check_nothing_lost(self, tables: Tables) -> None:
        for event in self.events.values():
            if event.committed is not None and not event.is_deleted:
                places = (event.seq in tables.owed) + len(tables.finished.get(event.seq, ()))
                assert places == 1, f"{event.seq} is in {places} places"

    def _is_left_out(self, request: Request) -> bool:
        """Tell whether a filter leaves it out that was there before its sender claimed the lane."""
        event = self.events[request.event.seq]
        since = self.filtered_since.get(event.merchant)
        return event.is_special and since is not None and request.fence > since

    def _check_passed_over(self, tables: Tables) -> None:
        """What is passed over is left out by the filter that holds when it is written."""
        for event in self.events.values():
            [state] = [row["state"] for row in tables.finished.get(event.seq, ())] or ["owed"]
            if state is None and not event.is_passed_over:
                is_left_out = event.is_special and event.merchant in self.filtered_since
                assert is_left_out, f"{event.seq} was passed over, and is wanted"
                event.is_passed_over = True
                self.seen.notes.add("an event was passed over")

    def _check_lanes(self, tables: Tables) -> None:
        now = self.moment.now
        for merchant, lane in tables.lanes.items():
            rows = [row for row in tables.owed.values() if row["merchant_id"] == merchant]
            for row in rows:
                is_reached = row["due_at"] is not None or row["seq"] > lane["from_seq"]
                assert is_reached or self.events[row["seq"]].is_late, f"from_seq passed {row['seq']}"
            due = [row["due_at"] for row in rows if row["due_at"] is not None]
            flying = [row["due_at"] for row in rows if row["claim"] is not None and row["due_at"] > now]
            deleted = [event.claimed_until for event in self.events.values() if event.merchant == merchant]
            flying += [until for until in deleted if until is not None and until > now]
            looks_at = min(due, default=now)
            if len(flying) >= PLACES:
                looks_at = max(looks_at, min(flying))
            assert lane["retry_at"] <= max(looks_at, now) or not due, f"{merchant} looks too late"

    def _check_attempts(self, tables: Tables) -> None:
        scheduled: dict[UUID, set[int]] = {event.id: set() for event in self.events.values()}
        by_id = {event.id: event for event in self.events.values()}
        for row in tables.attempts:
            event = by_id[row["event_id"]]
            assert row["attempt"] <= MOST_ATTEMPTS or event.is_by_hand, f"{event.seq} had too many attempts"
            if row["trigger"] == "schedule":
                scheduled[event.id].add(row["attempt"])
        for event in self.events.values():
            assert len(scheduled[event.id]) <= MOST_ATTEMPTS, f"{event.seq} had too many by its schedule"
        for seq in self.seen.successes:
            # One that was sent again by force stays delivered meanwhile.
            owed, finished = tables.owed.get(seq), tables.finished.get(seq, [])
            states = [owed["on_failure"]] if owed else [row["state"] for row in finished]
            assert states == ["delivered"] or self.events[seq].is_deleted, f"the success of {seq} was erased"
        for rows in tables.finished.values():
            for row in rows:
                event = self.events[row["seq"]]
                is_spent = row["failed_reason"] != "exhausted" or len(scheduled[event.id]) == MOST_ATTEMPTS
                assert is_spent or event.is_cancelled or event.is_deleted, f"{event.seq} was given up early"

    def check_end(self, tables: Tables) -> None:
        """At the end everything is finished, and what was sent last was sent after all."""
        assert not tables.owed, f"still owed: {sorted(tables.owed)}"
        for event in self.events.values():
            for row in tables.finished.get(event.seq, ()):
                is_let_go = row["failed_reason"] == "cancelled" or event.is_passed_over
                assert event.has_arrived or is_let_go, f"{event.seq} never sent"
