"""One merchant's visit: its events one after the other, under a lease.

The lease. A visit trusts its lane from before the claim was asked for until `trusted_until`, which lies an
attempt's time and a margin before the lease's end; the clock counts suspension. Every record of the lane
renews it. The lease is checked before each request, so a holder that froze makes at most one late request,
and that one repeats what its successor sends.

States: following its run; over (recalled, stopped, distrusted, spent or empty); released once every outcome
is written.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from webhook_dispatcher.dispatch.bodies import Bodies
from webhook_dispatcher.domain.claim import Lease, RunAsk
from webhook_dispatcher.domain.endpoint import Endpoint, Secret
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.record import Record


def trust(lease: timedelta, attempt_timeout: timedelta) -> float:
    """Return for how many seconds after a claim was asked for an attempt may be started.

    An attempt started then still ends a margin before the lease: a second, or a quarter of what is left.
    """
    spare = lease - attempt_timeout
    return (spare - min(timedelta(seconds=1), spare / 4)).total_seconds()


class Attend(Protocol):
    """Makes one attempt and returns its record."""

    async def __call__(
        self, event: Event, fence: int, is_retry: bool, endpoint: Endpoint, secrets: tuple[Secret, ...]
    ) -> Record | None:
        """Attempt, judge, and return what is to be written; None when the attempt does not count."""
        ...


@dataclass(slots=True, eq=False)
class Visit:
    """A leased lane in memory, shared by the task that follows it, the tail, and the recorder.

    seen: every seq read in this visit; a row that is read again before its record was committed is known.
    unfinished: bytes by seq of what was read and is not known to be written: the run, what is in flight,
        and what the recorder has.
    unwritten: how many of those the recorder has.
    complete_up_to: everything owed up to this seq has been read; nothing can appear below it any more.
    is_cut: the last read stopped at a limit, or the run was dropped: more is known to wait.
    is_noticed: tail or sweep have seen something new since the last read was asked for.
    started: attempts made in this visit.
    is_probe: claimed while sending pauses, or its merchant is held back, to try whether it works again: it
        makes one attempt.
    straggler: the lowest number that was committed so late that it was not waited for, if any.
    """

    lease: Lease
    bodies: Bodies
    trusted_until: float
    spent_at: float
    run: deque[Event] = field(default_factory=deque)
    seen: set[int] = field(default_factory=set)
    unfinished: dict[int, int] = field(default_factory=dict)
    unwritten: int = 0
    complete_up_to: int = 0
    is_cut: bool = False
    is_noticed: bool = False
    started: int = 0
    is_probe: bool = False
    straggler: int | None = None
    is_recalled: bool = False
    is_lost: bool = False
    is_over: bool = False
    wait_until: datetime | None = None
    top_up: asyncio.Future[None] | None = None
    unstuck: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.complete_up_to = self.lease.from_seq
        self.unstuck.set()

    @property
    def merchant_id(self) -> str:
        """Return whose lane this is."""
        return self.lease.merchant_id

    @property
    def owes_more(self) -> bool:
        """Tell whether more may wait than the run holds."""
        return self.is_cut or self.is_noticed or self.top_up is not None  # asked, and not answered yet

    def ask(self, run: int, run_bytes: int) -> RunAsk:
        """Say what to read next: from where all is read on, with room for what will be read again."""
        self.is_cut = self.is_noticed = False  # what was noticed so far is visible to this read
        return RunAsk(
            self.merchant_id,
            self.complete_up_to,
            run + len(self.unfinished),
            run_bytes + sum(self.unfinished.values()),
        )

    def take_in(self, events: Sequence[Event], ask: RunAsk, stable: int) -> None:
        """Merge what a read brought into the run, in order of seq.

        stable: nothing could appear at or below this number when the read was asked for.
        """
        is_cut = len(events) >= ask.most_events or _size(events) >= ask.most_bytes
        if self.is_over:  # it ended while the read was under way
            self.is_cut = self.is_cut or bool(events)
            return
        self.is_cut = is_cut
        reached = min(stable, events[-1].seq) if is_cut else stable
        self.complete_up_to = max(self.complete_up_to, reached)
        new = [event for event in events if event.seq not in self.seen]
        for event in new:
            self.seen.add(event.seq)
            self.unfinished[event.seq] = len(event.object)
            self.bodies.hold(event)
        self.run = deque(sorted([*self.run, *new], key=_seq)) if self.run else deque(new)

    def notice(self, seq: int) -> None:
        """Learn from the tail or the sweep that an event of this merchant is visible.

        A straggler goes before whatever has not been started, so the visit ends after the event in
        flight, and the next one reads from there.
        """
        if seq in self.seen:
            return
        if seq > self.complete_up_to:
            self.is_noticed = True
        else:
            self.straggler = seq if self.straggler is None else min(self.straggler, seq)

    def reach(self, written: Collection[int]) -> int:
        """Return up to which seq everything is recorded once these are written."""
        ahead = min((seq for seq in self.unfinished if seq not in written), default=None)
        return self.complete_up_to if ahead is None else min(self.complete_up_to, ahead - 1)

    def finish(self, event: Event) -> None:
        """Learn that one of this visit's records is written."""
        self.unwritten -= 1
        self.unfinished.pop(event.seq, None)
        if not self.unwritten:
            self.unstuck.set()

    def spend(self) -> None:
        """Let the visit start nothing more, and wait for nothing."""
        self.spent_at = 0.0
        self.unstuck.set()

    def end(self) -> None:
        """Start nothing more, and forget the rest of the run: its rows were never marked."""
        self.is_over = True
        if self.run:
            self.is_cut = True
            # What was put back stands first, whatever was read meanwhile.
            self.complete_up_to = min(self.complete_up_to, min(map(_seq, self.run)) - 1)
        for event in self.run:
            self.unfinished.pop(event.seq, None)
            self.bodies.free(event)
        self.run.clear()

    def must_end(self, now: float) -> bool:
        """Tell whether nothing more may be started in this visit."""
        return (
            self.is_recalled
            or self.is_lost
            or self.straggler is not None
            or now >= self.trusted_until
            or now >= self.spent_at
        )


def _seq(event: Event) -> int:
    return event.seq


def _size(events: Sequence[Event]) -> int:
    return sum(len(event.object) for event in events)


PREFETCH = 5
"""Events left in the run when the next ones are asked for."""


class Outcomes(Protocol):
    """Takes over what attempts showed, and says when it cannot keep up."""

    def add(self, record: Record, visit: Visit | None) -> None:
        """Take over a record; it is written soon."""
        ...

    def is_behind(self) -> bool:
        """Tell whether an answer has been on its way to the database for too long."""
        ...

    async def caught_up(self) -> None:
        """Wait until none is."""
        ...


class Follower:
    """Follows visits: one event after the other, each started only when the one before has ended."""

    def __init__(
        self,
        attend: Attend,
        outcomes: Outcomes,
        ask_for_more: Callable[[Visit], asyncio.Future[None]],
        may_start: Callable[[Visit], bool],
    ) -> None:
        self._attend = attend
        self._outcomes = outcomes
        self._ask_for_more = ask_for_more
        self._may_start = may_start

    async def follow(self, visit: Visit, endpoint: Endpoint, secrets: tuple[Secret, ...]) -> None:
        """Deliver a lane's events until the visit is over; the caller gives the lane back."""
        while await self._has_next(visit):
            event = visit.run.popleft()
            visit.started += 1
            record = await self._attend(event, visit.lease.epoch, False, endpoint, secrets)
            if record is None:
                visit.run.appendleft(event)  # still owed, and still the first
                break
            self._outcomes.add(record, visit)
        visit.end()

    async def _has_next(self, visit: Visit) -> bool:
        """Wait until the next event may be sent; False when the visit is over. Asked anew after each wait."""
        while self._may_start(visit):
            if visit.owes_more and visit.top_up is None and len(visit.run) <= PREFETCH:
                visit.top_up = self._ask_for_more(visit)
            if not visit.run:
                if visit.top_up is None:
                    return False
                await visit.top_up
                if not visit.run:
                    return False
            elif self._outcomes.is_behind():
                await self._outcomes.caught_up()
            elif not visit.unstuck.is_set():
                await visit.unstuck.wait()
            else:
                return True
        return False
