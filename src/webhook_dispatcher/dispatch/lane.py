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
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from webhook_dispatcher.dispatch.bodies import Bodies
from webhook_dispatcher.domain.claim import Lease
from webhook_dispatcher.domain.endpoint import Endpoint, Secret
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.record import Record


class Attend(Protocol):
    """Makes one attempt and returns its record."""

    async def __call__(
        self, event: Event, fence: int, is_retry: bool, endpoint: Endpoint, secrets: tuple[Secret, ...]
    ) -> Record:
        """Attempt, judge, and return what is to be written."""
        ...


@dataclass(slots=True, eq=False)
class Visit:
    """A leased lane in memory, shared by the task that follows it, the tail, and the recorder.

    known: seqs read in this visit whose outcome is not written yet.
    unwritten: outcomes handed to the recorder and not written yet.
    is_cut: the last read stopped at its limit, or the run was dropped: more is known to wait.
    noticed: the highest number that tail or sweep have seen since the last read was asked for.
    straggler: the lowest number that became visible behind our back, if any.
    """

    lease: Lease
    bodies: Bodies
    trusted_until: float
    spent_at: float
    run: deque[Event] = field(default_factory=deque)
    read_up_to: int = 0
    known: set[int] = field(default_factory=set)
    unwritten: int = 0
    is_cut: bool = False
    noticed: int = 0
    straggler: int | None = None
    is_recalled: bool = False
    is_lost: bool = False
    is_over: bool = False
    wait_until: datetime | None = None
    top_up: asyncio.Future[None] | None = None
    unstuck: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.read_up_to = self.lease.from_seq
        self.unstuck.set()

    @property
    def merchant_id(self) -> str:
        """Return whose lane this is."""
        return self.lease.merchant_id

    @property
    def owes_more(self) -> bool:
        """Tell whether more may wait than the run holds."""
        return self.is_cut or self.noticed > self.read_up_to

    def before_read(self) -> None:
        """Prepare for a read: what was noticed so far is visible to it."""
        self.is_cut = False
        self.noticed = 0

    def take_in(self, events: Sequence[Event], is_cut: bool) -> None:
        """Append what a read brought; a read that was cut may have left more behind."""
        if self.is_over:  # it ended while the read was under way
            self.is_cut = self.is_cut or bool(events)
            return
        self.is_cut = is_cut
        for event in events:
            self.run.append(event)
            self.known.add(event.seq)
            self.bodies.hold(event)
        if events:
            self.read_up_to = events[-1].seq

    def notice(self, seq: int) -> None:
        """Learn from the tail or the sweep that an event of this merchant is visible.

        One that we have passed is a straggler: it goes before whatever has not been started, so the visit
        ends after the event in flight, and the next one reads from there.
        """
        if seq > self.read_up_to:
            self.noticed = max(self.noticed, seq)
        elif seq not in self.known:
            self.straggler = seq if self.straggler is None else min(self.straggler, seq)

    def end(self) -> None:
        """Start nothing more, and forget the rest of the run: its rows were never marked."""
        self.is_over = True
        self.is_cut = self.is_cut or bool(self.run)
        for event in self.run:
            self.known.discard(event.seq)
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


PREFETCH = 5
"""Events left in the run when the next ones are asked for."""


class Follower:
    """Follows visits: one event after the other, each started only when the one before has ended."""

    def __init__(
        self,
        attend: Attend,
        add_record: Callable[[Record, Visit], None],
        caught_up: Callable[[], Awaitable[None]],
        ask_for_more: Callable[[Visit], asyncio.Future[None]],
        may_start: Callable[[Visit], bool],
    ) -> None:
        self._attend = attend
        self._add_record = add_record
        self._caught_up = caught_up
        self._ask_for_more = ask_for_more
        self._may_start = may_start

    async def follow(self, visit: Visit, endpoint: Endpoint, secrets: tuple[Secret, ...]) -> None:
        """Deliver a lane's events until the visit is over; the caller gives the lane back."""
        while await self._has_next(visit):
            await self._caught_up()
            await visit.unstuck.wait()
            if not visit.run or not self._may_start(visit):
                break
            event = visit.run.popleft()
            record = await self._attend(event, visit.lease.epoch, False, endpoint, secrets)
            self._add_record(record, visit)
        visit.end()

    async def _has_next(self, visit: Visit) -> bool:
        if not self._may_start(visit):
            return False
        if visit.owes_more and visit.top_up is None and len(visit.run) <= PREFETCH:
            visit.top_up = self._ask_for_more(visit)
        if not visit.run and visit.top_up is not None:
            await visit.top_up
        return bool(visit.run)
