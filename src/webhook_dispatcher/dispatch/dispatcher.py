"""Claims lanes for first attempts, or to route what waits in them, and starts their sessions.

A step polls for new events, reads more events for sessions whose run becomes short, and claims lanes that
have work. Three sources tell which lanes those are: the tail (new events), the sweep (what the tail cannot
see), and sessions that ended with work left. Everything is found by polling; no notification is needed.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from webhook_dispatcher.dispatch.attempt import KEY_WAIT, Attempter, Hold, finish_unsent
from webhook_dispatcher.dispatch.finding import NO_STRAGGLER, ReadyLanes, Tail
from webhook_dispatcher.dispatch.health.lanes import SLOW_ONE_IN, Health, Slots
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane_session import LaneSession, SessionState
from webhook_dispatcher.dispatch.pace import AdaptivePoller, Backoff, sleep
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.router import Router
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.dispatch.worker import Worker
from webhook_dispatcher.domain.claim import Arrivals, Lease, SweptLane
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StatementRefused, StorageError, UnopenedSecret
from webhook_dispatcher.domain.event import FailedReason
from webhook_dispatcher.domain.lane import merchant_of, number_of
from webhook_dispatcher.domain.ports import Claims

CLAIM_LANES = 200
"""Lanes in one claim, at most; bounds its memory together with worker.RUN_BYTES."""
MAX_ACTIVE_LANES = 100
"""While the event loop is overloaded, no lanes are claimed beyond so many active ones."""
MAX_ARRIVALS = 5_000
"""New events read in one poll, at most."""
SESSION_TIME = 2.0
"""Seconds after which a lane is released, so that other lanes get their turn and daemons share the load."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process may do at once. trust: seconds for which a lease is trusted (lane_session.trust)."""

    max_lanes: int
    lease: timedelta
    trust: float
    poll_interval: timedelta
    hold: Hold
    suspension_interval: timedelta


class Dispatcher:
    """The claiming loop, and the sessions of the lanes that this process holds."""

    def __init__(
        self,
        claims: Claims,
        recorder: Recorder,
        attempter: Attempter,
        instruments: Instruments,
        limits: Limits,
    ) -> None:
        self._claims = claims
        self._recorder = recorder
        self._attempter = attempter
        self._memory = instruments.memory
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._own_faults = instruments.own_faults
        self._metrics = instruments.metrics
        self._limits = limits
        self._poller = AdaptivePoller(self._clock, limits.poll_interval.total_seconds())
        self._tail = Tail()
        self._health = instruments.health
        self._ready = ReadyLanes(self._health)
        self._locked: dict[str, int] = {}
        self._sessions: dict[str, LaneSession] = {}
        self._being_leased: Collection[str] = frozenset()
        self._wake = asyncio.Event()
        self._blocked = instruments.blocked
        self._sent_lately = instruments.sent_lately
        self._unreadable = Unreadable(claims, instruments)
        self._stopping = False
        self._outage = instruments.outage
        self._may_claim = True
        self._found_at: float | None = None
        self._creation: asyncio.Task[None] | None = None
        self.needs_sweep = asyncio.Event()
        """Set when another server has taken over: what it has already, the tail does not report."""
        self._pause = instruments.pause
        self.answered_at = self._clock.elapsed()
        self._worker = Worker(
            claims, recorder, attempter, instruments, limits.suspension_interval, self._wake, self._may_add
        )
        self._router = Router(
            claims, recorder, instruments, limits.lease, limits.trust, self._stable, self._notice_copies
        )
        self._crowded: dict[str, int] = {}

    @property
    def lanes_leased(self) -> int:
        """Return how many lanes this process holds."""
        return len(self._sessions)

    def update_gauges(self) -> None:
        """Show in the metrics which lanes are held, and which rows cannot be delivered."""
        self._metrics.lanes_leased.set(self.lanes_leased)
        self._metrics.suspect_lanes.set(self._health.tally(self._sessions)[Health.SLOW])
        self._blocked.update_gauge()

    @property
    def wants_more(self) -> bool:
        """Tell whether the sweep should go on at once: there are slots, and few lanes waiting."""
        limit, slots = self._free_slots()
        return limit > 0 and self._ready.waiting(slots) < CLAIM_LANES

    async def run(self) -> None:
        """Claim until stopped; sessions go on in tasks of their own, whose faults end the loop."""
        backoff = Backoff()
        async with asyncio.TaskGroup() as group:
            while not self._stopping:
                self._wake.clear()  # before the step: a wake-up during it must survive
                started = self._clock.elapsed()
                try:
                    has_more = await self.step(group)
                except StorageError as error:
                    self._tell_poller()
                    self._outage.failed(started, error)
                    self._metrics.database_errors.labels("claim").inc()
                    _log.warning("claim.failed", error=str(error))
                    await sleep(backoff.next())
                    continue
                backoff.reset()
                self._tell_poller()
                wait = self._poller.next(self._clock.elapsed() - started)
                await self._poller.rest(0.0 if has_more else wait, self._wake)
            self._worker.stop_reading()

    def _tell_poller(self) -> None:
        if self._found_at is not None:
            self._poller.found(self._found_at)
            self._found_at = None

    async def step(self, group: asyncio.TaskGroup) -> bool:
        """Poll, read on, claim. True: there is more, so the next step should follow at once."""
        if self._locked:
            self._ready.add_all(self._locked)
            self._locked = {}
        suspicions = self._own_faults.suspicions
        if suspicions.held or suspicions.to_release:
            self._ready.requeue(suspicions.take_released())
        is_cut = await self._poll()
        outage = self._outage
        self._may_claim = not outage.is_on or await outage.may_claim(self._claims.check_writable)
        if self._worker.low:
            await self._worker.read_on(self._tail.stable)
        if self._ready.kinds or self._crowded:
            await self._claim(group)
        self.answered_at = self._clock.elapsed()
        if is_cut or not self._ready.kinds or self._own_faults.circuit_is_open:
            return is_cut
        limit, slots = self._free_slots()
        return limit > 0 and self._ready.waiting(slots) > 0

    def stop(self) -> None:
        """Claim nothing more; sessions end after the event in flight."""
        self._stopping = True
        self._worker.stop()
        self._router.stop()
        self._wake.set()

    async def _poll(self) -> bool:
        started = self._clock.elapsed()
        cursor = NO_STRAGGLER if self._tail.cursor is None else self._tail.cursor
        arrivals = await self._claims.read_arrivals(cursor, MAX_ARRIVALS)
        self._database_clock.synchronise(arrivals.database_now, started)
        self._own_faults.compare_clocks()
        if self._tail.is_of_another_history(arrivals):
            self._begin_anew(arrivals)
        for arrival in self._tail.observe(arrivals, self._clock.elapsed()):
            self._notice(arrival.lane, arrival.seq)
        gaps = self._tail.due_gaps(started) if self._tail.gaps else []
        found = await self._claims.read_gaps(gaps, MAX_ARRIVALS) if gaps else []
        if found or arrivals.last_seq > cursor:
            self._found_at = self._clock.elapsed()
        # Notice them before the gaps count as settled: else a session could read past them in between.
        for arrival in found:
            self._notice(arrival.lane, arrival.seq)
        if self._tail.gaps:
            self._tail.observe_gaps(found, started)
        return arrivals.is_cut

    def _begin_anew(self, arrivals: Arrivals) -> None:
        """Trust nothing that was read before: its numbers may be given again. Outcomes go by events' ids."""
        _log.warning(
            "database.changed", server_started_at=str(arrivals.server_started_at), lanes=self.lanes_leased
        )
        for session in self._sessions.values():
            session.disown()
        self._blocked.forget()
        self._sent_lately.doubt(self._limits.lease.total_seconds())
        # The last sweep may have hung while the server was away, and rest for many times as long.
        self.needs_sweep.set()

    def _notice(self, lane: str, seq: int, is_swept: bool = False) -> bool:
        session = self._sessions.get(lane)
        if session is None:
            return self._ready.add(lane, seq, is_swept)
        session.notice(seq)
        return False

    def _notice_copies(self, lane: str, seq: int) -> None:
        """Learn which is the first of the copies that were written into a lane: our own tail is slower."""
        self._notice(lane, seq)
        self._wake.set()

    def begin_sweep(self) -> None:
        """Learn that the sweep begins a round."""
        self._ready.begin_sweep()

    def notice_swept(self, swept: SweptLane) -> bool:
        """Learn from the sweep that a lane is owed something; True if it was not known to wait."""
        if self._blocked.is_left(swept.lane) or not (swept.is_free or swept.lane in self._sessions):
            return False
        self._wake.set()
        return self._notice(swept.lane, swept.head_seq, is_swept=True)

    def recall(self, lane: str) -> None:
        """End a session after the event in flight."""
        session = self._sessions.get(lane)
        if session is not None:
            session.recall()

    def _active_lanes(self) -> int:
        """Return how many lanes keep the event loop busy: not those that hang, nor those that are over."""
        under_way = [lane for lane, session in self._sessions.items() if session.state < SessionState.OVER]
        return len(under_way) - self._health.tally(under_way)[Health.SLOW]

    def _free_slots(self) -> tuple[int, Slots | None]:
        """Return how many lanes may be claimed now, and the slots left by health.

        None: they need not be counted, since there are enough for all, or no lane may be claimed.
        """
        may_claim = self._may_claim and not (self._pause.is_on or self._stopping)
        is_busy = self._poller.is_overloaded and self._active_lanes() >= MAX_ACTIVE_LANES
        fullness, max_lanes = self._memory.fullness, self._limits.max_lanes
        if not may_claim or is_busy or fullness >= 1:
            return 0, None
        extra = self._worker.extra
        requests = len(self._sessions) + len(self._being_leased) + (extra.total() if extra else 0)
        limit = min(max_lanes - requests, 1 if self._own_faults.circuit_is_open else CLAIM_LANES)
        if limit <= 0:
            return limit, None
        wanted = requests + len(self._ready.kinds)
        if SLOW_ONE_IN * max(wanted / max_lanes, fullness) < 1 and not self._own_faults.held:
            return limit, None  # even if all were slow, they would fit into their share
        return limit, Slots(max_lanes, self._taken(), fullness, self._own_faults.probes)

    def _taken(self) -> Counter[Health]:
        """Count the slots taken by health; of several requests of a lane, each that is slow by itself."""
        worker, now = self._worker, self._clock.elapsed()
        taken = self._health.tally([*self._sessions, *self._being_leased, *worker.extra.elements()])
        for lane, charges in worker.by_charge.items():
            if charges.is_slow(now) and (health := self._health.of(lane)) in taken:
                hung = charges.count_slow(now)
                taken[health] -= hung
                taken[Health.SLOW] += hung
        return taken

    def _may_add(self, lane: str) -> bool:
        """Tell whether a session may have one more request under way: no lane that waits wants the slot."""
        limit, slots = self._free_slots()
        if limit <= 0 or slots is None:
            return limit > 0
        has_slow = self._worker.by_charge[lane].is_slow(self._clock.elapsed())
        health = Health.SLOW if has_slow else self._health.of(lane)
        return slots.left(health) > self._ready.wanted(slots)

    async def _claim(self, group: asyncio.TaskGroup) -> None:
        limit, slots = self._free_slots()
        if limit <= 0 or (self._own_faults.circuit_is_open and not self._own_faults.may_probe()):
            return
        heads = self._ready.take(limit, slots)
        for lane in heads.keys() & self._sessions.keys():
            # It was noticed while its lease was being asked for.
            self._sessions[lane].notice(heads.pop(lane))
        for lane in filter(self._blocked.is_left, heads.keys() & self._blocked.lanes.keys()):
            del heads[lane]  # the sweep finds it again
        self._share(heads, limit, slots)
        if heads:
            await self._lease(group, heads)

    def _share(self, heads: dict[str, int], limit: int, slots: Slots | None) -> None:
        """Leave out lanes of a merchant that has another's session, unless nobody else wants the slot."""
        found = {lane: seq for lane, seq in heads.items() if number_of(lane) is not None}
        for lane in found:
            del heads[lane]
            if slots is not None:
                slots.release(self._health.of(lane))
        # Those that were left out before come first.
        waiting = self._crowded | {
            lane: min(seq, self._crowded.get(lane, seq)) for lane, seq in found.items()
        }
        busy = (
            {merchant_of(lane) for lane in self._sessions if number_of(lane) is not None}
            if waiting
            else set()
        )
        self._crowded = {}
        for lane, seq in waiting.items():
            health, is_further = self._health.of(lane), merchant_of(lane) in busy
            spare = 1 if slots is None else slots.left(health) - is_further * self._ready.wanted(slots)
            if len(heads) >= limit or spare <= 0:
                self._crowded[lane] = seq
                continue
            heads[lane] = seq
            busy.add(merchant_of(lane))
            if slots is not None:
                slots.take(health)

    async def _lease(self, group: asyncio.TaskGroup, heads: Mapping[str, int]) -> None:
        """Lease lanes, and open sessions for those that were free."""
        started, self._being_leased = self._clock.elapsed(), heads.keys()
        probes = heads.keys() if self._own_faults.circuit_is_open else heads.keys() & self._own_faults.held
        try:
            try:
                leased = await self._claims.lease(heads, self._limits.lease)
            except StatementRefused as error:
                if not error.is_row_fault:
                    raise
                leased = await self._unreadable.lease(heads, self._limits.lease)
        except StorageError:
            self._ready.add_all(heads)
            raise
        finally:
            self._being_leased = frozenset()
        # These are free, but somebody has them locked for a moment: ask again in the next step.
        self._locked = {lane: heads[lane] for lane in leased.locked}
        if leased.missing and (self._creation is None or self._creation.done()):
            # In a task of its own, since a transaction that is creating the same lane makes us wait for its
            # lock. While others are being created, the sweep asks again.
            self._creation = group.create_task(self._create({lane: heads[lane] for lane in leased.missing}))
        if leased.leases:
            await self._begin(group, leased.leases, probes, started)

    async def _begin(
        self, group: asyncio.TaskGroup, leases: Sequence[Lease], probes: Collection[str], started: float
    ) -> None:
        """Open sessions for leased lanes, read the events and endpoints of those that send, and start them.

        probes: lanes whose session is a probe. started: clock reading before the lease was asked for.
        """
        opened = {
            lease.lane: LaneSession(
                lease,
                self._memory,
                trusted_until=started + self._limits.trust,
                expires_at=started + SESSION_TIME,
                complete_up_to=lease.from_seq,
                is_probe=lease.lane in probes,
            )
            for lease in leases
        }
        self._sessions |= opened
        sessions = list(opened.values())
        sending = [session for session in sessions if not session.lease.is_routed]
        try:
            _, endpoints = await asyncio.gather(
                self._worker.fetch(sending, self._stable(leases[0])),
                self._unreadable.read_endpoints([session.lease.lane for session in sending]),
            )
        except StorageError:
            for session in sessions:
                session.missed_read()
                self._recorder.release(session)
            raise
        self._metrics.claim_duration.observe(self._clock.elapsed() - started)
        for session in sessions:
            if session.lease.is_routed:
                task = group.create_task(self._router.work_through(session))
                task.add_done_callback(partial(self._end_routing, session))
            else:
                self._start(group, session, endpoints.get(session.lease.lane))

    def _stable(self, lease: Lease) -> int:
        """Return the number at or below which nothing can appear any more, on a lease's server."""
        return self._tail.stable if lease.server_started_at == self._tail.server_started_at else 0

    def _end_routing(self, session: LaneSession, task: asyncio.Task[bool]) -> None:
        if not task.cancelled() and task.exception() is None and task.result():
            self.close([session])
        else:
            self._recorder.release(session)

    async def _create(self, heads: Mapping[str, int]) -> None:
        try:
            locked = await self._claims.create_lanes(list(heads))
        except StorageError as error:
            self._metrics.database_errors.labels("claim").inc()
            _log.warning("claim.failed", error=str(error))
            return
        self._ready.add_all({lane: heads[lane] for lane in heads if lane not in locked})
        self._wake.set()

    def _start(self, group: asyncio.TaskGroup, session: LaneSession, endpoint: Endpoint | None) -> None:
        if endpoint is None:
            self._settle_unconfigured(session)
            self._recorder.release(session)
            return
        try:
            secrets = self._attempter.open_secrets(endpoint)
        except UnopenedSecret as error:
            self._attempter.note_unopened(endpoint.lane, error)
            session.defer(self._database_clock.now() + KEY_WAIT)
            self._recorder.release(session)
            return
        if not session.run:
            self._recorder.release(session)
            return
        task = group.create_task(self._worker.work_through(session, endpoint, secrets))
        # As a callback, not at the end of the task's code: a task cancelled before it began runs no code.
        # The worker has ended the session by then, and a batch in between may have released its lane already.
        task.add_done_callback(lambda _: self._recorder.release(session))

    def _settle_unconfigured(self, session: LaneSession) -> None:
        """Finish events that have waited long enough for an endpoint; the lane waits for the next."""
        now, hold = self._database_clock.now(), self._limits.hold
        while session.run:
            first, reason = session.run[0], FailedReason.UNSENDABLE
            if first.fault is None:
                reason = FailedReason.NOT_CONFIGURED
                if (ends_at := hold.ends_at(first, session.lease.endpoint_removed_at)) > now:
                    # A created_at far ahead must not hold back what is inserted after it.
                    session.defer(min(ends_at, now + hold.duration))
                    return
            record = finish_unsent(session.start(), session.lease.epoch, False, reason, now)
            self._recorder.add(record, session)

    async def record(self) -> None:
        """Have outcomes written until the recorder is drained; closed lanes may be claimed again."""
        while not self._recorder.is_drained:
            self.close(await self._recorder.write_next())

    def close(self, sessions: Iterable[LaneSession]) -> None:
        """Learn which sessions are closed, and have those that owe more wait for their lanes again."""
        for session in sessions:
            lane = session.lease.lane
            if self._sessions.get(lane) is session:
                del self._sessions[lane]
            if session.straggler is not None:
                self._ready.add(lane, session.straggler)
            elif session.wait_until is None and (session.has_more or session.fetch is not None):
                self._ready.add(lane)
            # A slot of the same health is free. Lanes of a worse one are claimed by the next poll anyway.
            is_wanted = self._ready.kinds and self._ready.has_any(self._health.of(lane))
            if is_wanted and not self._stopping:
                self._wake.set()
