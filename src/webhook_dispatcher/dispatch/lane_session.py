"""One merchant's lane while we hold its lease: the events read, what is in flight, how long it is trusted.

The lease. A session trusts its lease until `trusted_until`. This is counted from before the claim was asked
for, by a clock that goes on while the machine sleeps, and lies an attempt's time and a margin before the
lease's end. Each batch with an outcome of the lane renews the lease, unless the lane is locked or the batch
was refused. It is checked before each event and right before the first byte of its request: a process that
froze in between makes one late request, of an event that its successor sends too. `expires_at` ends a
session sooner, after dispatcher.SESSION_TIME: with the defaults that comes first, and trust decides where
the lease is hardly longer than the time-out.

Order. Events are started in order of seq, each after the one before has ended: of the lane or, with
`charges`, of its charge. A straggler is an event that was committed so late that later ones were read before
it. It goes before everything that has not been started: the session ends after what is in flight, and the
next session reads from the straggler on.

Filters. What the endpoint does not want is passed over in its turn, a run of it together, and nothing is
started before that is written. It is refused once the lane is recalled, as by another filter: then the
session ends, and it is still owed.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum
from operator import attrgetter

from webhook_dispatcher.dispatch.charges import MAX_EVENT_BYTES, MAX_EVENTS, Charges
from webhook_dispatcher.domain.claim import Lease, RunAsk
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.record import Attempt, LaneTurn

PUNCTUAL = timedelta(seconds=1)
"""Within so long first attempts are to start."""
EXTENSION = 30.0
"""Seconds for which a session goes on past its end, at most, while an attempt at one charge hangs."""
MAX_BYTES = 128 * 1024 * 1024
"""Bytes of events in memory from which on no more is claimed; one claim may exceed it by its first events."""


def trust(lease: timedelta, attempt_timeout: timedelta) -> float:
    """Return for how many seconds after a claim was asked for attempts may be started.

    One that is started at the last moment still ends before the lease does, by a margin: one second, or a
    quarter of the lease beyond the time-out if that is shorter.
    """
    spare = lease - attempt_timeout
    return (spare - min(timedelta(seconds=1), spare / 4)).total_seconds()


class MemoryBudget:
    """Counts the bytes of the events in memory: runs, requests in flight, and records not yet written.

    used: how many. fullness: `used` as a part of the maximum; from 1 on nothing more is claimed.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max = max_bytes
        self.used = 0
        self.fullness = 0.0

    def reserve(self, event: Event) -> None:
        """Count an event that was read."""
        self.used += len(event.object)
        self.fullness = self.used / self._max

    def free(self, event: Event) -> None:
        """Stop counting an event that was written or dropped."""
        self.used -= len(event.object)
        self.fullness = self.used / self._max


class SessionState(IntEnum):
    """The states of a session; it only goes on to a later one.

    | state | from then on | begins when |
    | --- | --- | --- |
    | OPEN | its next event may be started, while the lease is trusted | the lane was leased |
    | ENDING | nothing is started; the attempt in flight ends | recalled, lost, gave way; a straggler came |
    | OVER | the rest of the run is dropped; outcomes are written | nothing is in flight any more |

    A session is closed, and the next one may be opened, once its outcomes are written and the lane is
    released or lost.
    """

    OPEN = 0
    ENDING = 1
    OVER = 2


@dataclass(slots=True, eq=False)
class LaneSession:
    """A leased lane in memory. Fields are written here alone; others read them, and use the methods.

    trusted_until, expires_at: clock readings in seconds; nothing is started later. A lane is released when it
        expires, so that others have their turn and daemons share the load.
    is_probe: it makes one attempt, to try whether sending works again: the circuit breaker is open, or the
        lane is held back.
    run: what was read and has not been started.
    read_seqs: every seq read in this session: a row may be read again before its record was committed.
    unfinished: bytes by seq of what was read and is not known to be written: the run, what is in flight,
        and what the recorder has.
    unwritten: how many of those the recorder has.
    complete_up_to: everything owed up to this seq has been read; nothing can appear below it any more.
    has_more: more is known to be owed than was read: the last read stopped at a limit or failed, the run was
        dropped, or an event was noticed since the last read was asked for.
    has_passed_over: the last event that was taken out of the run was passed over.
    is_disowned: the database may have another history than was read, which says nothing of the lane.
    fetch: done when the read that was asked for has been tried; None while none is asked for. A session that
        ends with one may owe more, as with has_more.
    straggler: the lowest seq of an event that was committed after later ones had been read; None without one.
    wait_until: the lane must not be claimed before (database time); None: at any time.
    free_since: when the attempt before ended, or would have ended had it not been late.
    unblocked: while outcomes must be written before anything is started: set once all are; else None.
    charges: where several attempts, of different charges, may be under way; None: one is.
    has_read_in_vain: the last read failed or brought nothing new, though more is owed, and nothing has ended
        or was noticed since; the worker tries again after a while.
    """

    lease: Lease
    memory: MemoryBudget
    trusted_until: float
    expires_at: float
    is_probe: bool = False
    state: SessionState = SessionState.OPEN
    run: deque[Event] = field(default_factory=deque)
    read_seqs: set[int] = field(default_factory=set)
    unfinished: dict[int, int] = field(default_factory=dict)
    unwritten: int = 0
    complete_up_to: int = 0
    has_more: bool = False
    has_started: bool = False
    has_passed_over: bool = False
    is_lost: bool = False
    is_disowned: bool = False
    fetch: asyncio.Future[None] | None = None
    straggler: int | None = None
    wait_until: datetime | None = None
    free_since: datetime | None = None
    unblocked: asyncio.Event | None = None
    charges: Charges | None = None
    has_read_in_vain: bool = False

    # Reading

    def ask_for_more(self) -> None:
        """Note that a read was asked for, whose end `fetched` tells."""
        self.fetch = asyncio.get_running_loop().create_future()

    def fetched(self) -> None:
        """Learn that the read that was asked for has been tried."""
        fetch, self.fetch = self.fetch, None
        if fetch is not None and not fetch.done():
            fetch.set_result(None)
        self._tell_charges()

    def _tell_charges(self) -> None:
        if self.charges is not None:
            self.charges.changed.set()

    def ask(self, run: int, run_bytes: int) -> RunAsk:
        """Return what to read next: from complete_up_to on, with limits raised by what is read once more."""
        self.has_more = False  # what was noticed so far is visible to this read
        if self.lease.is_suspended and not self.read_seqs:  # for one attempt, unless that one is not wanted
            run = 1
        return RunAsk(
            self.lease.lane,
            self.complete_up_to,
            run + len(self.unfinished),
            run_bytes + sum(self.unfinished.values()),
            self.lease.server_started_at,
        )

    def take_in(self, events: Sequence[Event], ask: RunAsk, stable: int, is_cut: bool = False) -> None:
        """Merge what a read brought into the run, in order of seq.

        stable: nothing could appear at or below this number when the read was asked for.
        is_cut: more is owed behind these events than was read, though no limit of `ask` was reached.
        """
        size = sum(len(event.object) for event in events)
        is_cut = is_cut or len(events) >= ask.max_events or size >= ask.max_bytes
        if self.state >= SessionState.OVER:  # it ended while the read was under way
            self.has_more = self.has_more or bool(events)
            return
        self.has_more = self.has_more or is_cut  # something may have been noticed during the read
        reached = min(stable, events[-1].seq) if is_cut else stable
        self.complete_up_to = max(self.complete_up_to, reached)
        new = [event for event in events if event.seq not in self.read_seqs]
        self.has_read_in_vain = is_cut and not new
        for event in new:
            self.read_seqs.add(event.seq)
            self.unfinished[event.seq] = len(event.object)
            self.memory.reserve(event)
        self.run = deque(sorted([*self.run, *new], key=attrgetter("seq"))) if self.run else deque(new)

    def ask_to_route(self) -> int:
        """Return behind which seq to route, of a lane whose events are copied and not sent."""
        self.has_more = False  # as in ask
        return self.complete_up_to

    def routed(self, reached: int | None, stable: int, is_cut: bool) -> None:
        """Learn that events were routed, up to this seq where more is owed; stable: as in take_in."""
        self.has_more = self.has_more or is_cut
        self.complete_up_to = max(self.complete_up_to, min(stable, reached or 0) if is_cut else stable)

    def missed_read(self) -> None:
        """Learn that a read failed: more may wait than was read."""
        self.has_more = self.has_read_in_vain = True

    def let_read_again(self) -> None:
        """Have a read tried again that was in vain."""
        self.has_read_in_vain = False

    def notice(self, seq: int) -> None:
        """Learn from the tail or the sweep that an event of this lane is visible."""
        if seq in self.read_seqs:
            return
        self.has_read_in_vain = False
        self._tell_charges()
        if seq > self.complete_up_to:
            self.has_more = True
        else:
            self.straggler = seq if self.straggler is None else min(self.straggler, seq)
            self._end_soon()

    # Sending

    def may_start(self, now: float) -> bool:
        """Tell whether another event may be started, as far as the lane goes."""
        if self.lease.is_suspended and self.has_started:
            return False
        if self.state is not SessionState.OPEN or now >= self.trusted_until:
            return False
        return now < self.expires_at or self._is_held_up(now)

    def pass_over(self, place: int = 0) -> Event:
        """Take an event out of the run, which is not to be sent; place: where it stands."""
        self.has_passed_over = True
        return self._take_out(place)

    def _is_held_up(self, now: float) -> bool:
        """Tell whether an attempt would keep the lane, at its end, from all other charges."""
        return self.charges is not None and self.charges.is_slow(now) and now < self.expires_at + EXTENSION

    def work_by_charge(self, at_once: int) -> Charges:
        """Let so many attempts be under way, of different charges."""
        self.charges = Charges(at_once)
        return self.charges

    def wants_more(self, charges: Charges, now: float) -> bool:
        """Tell whether to read on: the run is short, or none of it can be started and there is room."""
        if not self.has_more or self.fetch is not None or self.has_read_in_vain:
            return False
        if self.lease.is_suspended:
            return not self.run
        if len(self.run) <= charges.at_once:
            return True
        if not charges.has_place(now) or charges.place_of_next(self.run, now) is not None:
            return False
        return len(self.run) < MAX_EVENTS and sum(len(event.object) for event in self.run) < MAX_EVENT_BYTES

    def start(self, place: int = 0) -> Event:
        """Take the next event out of the run, to be attempted; place: where it stands."""
        self.has_started, self.has_passed_over = True, False
        return self._take_out(place)

    def _take_out(self, place: int) -> Event:
        if not place:
            return self.run.popleft()
        event = self.run[place]
        del self.run[place]
        return event

    def add_back(self, event: Event) -> None:
        """Add an event back to the run whose attempt did not count, and end: it is owed before others."""
        self.run.appendleft(event)
        self._end_soon()

    def late_by(self, event: Event, attempt: Attempt, since: datetime | None = None) -> timedelta:
        """Tell how much later an event's first attempt started than its lane's own events let it.

        One that was late delays those behind it, which are then late by as much; what each takes beside its
        attempt is not added up.
        since: `free_since` when it started, where others may have ended meanwhile.
        """
        since = since or self.free_since or self.lease.free_since
        could_start_at = event.created_at if since is None else max(event.created_at, since)
        late = max(attempt.started_at - could_start_at, timedelta(0))
        self.free_since = attempt.finished_at - (late if late > PUNCTUAL else timedelta(0))
        return late

    # Ending. Once `expires_at` is reached, or the lease not trusted, the worker starts nothing more. Sooner a
    # session ends, after the event in flight, by `notice` (a straggler), `recall`, `give_way`, `disown` or
    # `lose`. Either way the worker then calls `end`. `defer` says from when on the lane may be claimed again.

    def _end_soon(self) -> None:
        self.state = max(self.state, SessionState.ENDING)

    def recall(self) -> None:
        """End after the event in flight: the database recalled the lane.

        So do commands of operators and merchants, suspending and lifting it, and changes of endpoints.
        """
        self._end_soon()

    def keep_unwanted(self) -> None:
        """Learn that what was passed over is still owed: another session is to judge it."""
        self.has_more = True
        self._end_soon()

    def give_way(self) -> None:
        """End after the event in flight, for lack of memory or over damage: another claim takes the rest."""
        self._end_soon()
        if self.unblocked is not None:
            self.unblocked.set()

    def disown(self) -> None:
        """Learn that what was read may not be there any more: end after the event in flight."""
        self.is_disowned = self.has_more = True
        self.give_way()

    def lose(self) -> bool:
        """Learn that the lease is no longer ours: taken, or of another server; True the first time."""
        self._end_soon()
        was_lost, self.is_lost = self.is_lost or self.is_disowned, True
        return not was_lost

    def defer(self, until: datetime) -> None:
        """Have the lane released with this instant (database time), before which it is not claimed."""
        self.wait_until = until

    def end(self) -> None:
        """Start nothing more, and drop the rest of the run: its rows are still owed."""
        self.state = max(self.state, SessionState.OVER)
        if self.run:
            self.has_more = True
            # An event that was added back may lie below what has been read meanwhile.
            self.complete_up_to = min(self.complete_up_to, min(event.seq for event in self.run) - 1)
        for event in self.run:
            self.unfinished.pop(event.seq, None)
            self.memory.free(event)
        self.run.clear()

    # Recording

    def add_outcome(self) -> None:
        """Learn that the recorder has one more outcome."""
        self.unwritten += 1
        self.has_read_in_vain = False

    def settle_outcome(self, event: Event) -> None:
        """Learn that the recorder has written an outcome, or will never write it."""
        self.unwritten -= 1
        self.unfinished.pop(event.seq, None)
        self.memory.free(event)
        if self.unblocked is not None and not self.unwritten:
            self.unblocked.set()
            self.unblocked = None

    def block(self) -> None:
        """Start nothing until every outcome is written: what is locked, or passed over, is not overtaken."""
        if self.unblocked is None:
            self.unblocked = asyncio.Event()

    def renew(self, trusted_until: float) -> None:
        """Learn that the lease was renewed: trust it until then (clock reading in seconds)."""
        self.trusted_until = trusted_until

    def turn(self, seqs: Collection[int]) -> LaneTurn:
        """Return what becomes of the lane with these outcomes: renewed, or released with the last."""
        ahead = min((seq for seq in self.unfinished if seq not in seqs), default=None)
        reach = self.complete_up_to if ahead is None else min(self.complete_up_to, ahead - 1)
        return LaneTurn(
            self.lease,
            self.state >= SessionState.OVER and self.unwritten == len(seqs),
            0 if self.is_disowned else reach,
            self.wait_until,
        )
