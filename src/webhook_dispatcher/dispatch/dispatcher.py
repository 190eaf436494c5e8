"""Claims lanes for first attempts, starts their visits, and keeps them supplied.

A step looks for arrivals, reads on for lanes that run low, and claims lanes that have work. Which lanes
those are, three sources tell: the tail (arrivals), the sweep (what the tail cannot see), and visits that
ended with work left. Polling is the truth; nothing hangs on a notification.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.attempt import Attempter
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane import Follower, Visit
from webhook_dispatcher.dispatch.making import LaneMaker
from webhook_dispatcher.dispatch.pace import Backoff, Rhythm, pause
from webhook_dispatcher.dispatch.ready import NO_STRAGGLER, ReadyLanes
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.standing import Room, Standing
from webhook_dispatcher.dispatch.supply import Supply
from webhook_dispatcher.dispatch.tail import Tail
from webhook_dispatcher.dispatch.unattempted import KEY_WAIT, Hold, settle_unconfigured
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.domain.claim import Lease, Probe
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StorageError, UnknownKey
from webhook_dispatcher.domain.ports import Claims

CLAIM_LANES = 200
"""Most lanes in one claim; bounds its memory together with supply.RUN_BYTES."""
ENOUGH = 100
"""Lanes at work with which none are claimed while the event loop is behind: they would only wait inside."""
LOOK = 5_000
"""Most arrivals read in one look."""
VISIT_TIME = 2.0
"""Seconds after which a lane is given back, so that others have their turn and daemons share the load."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process may do at once, and for how long it may trust a lease: `trust` as in lane.trust."""

    max_lanes: int
    lease: timedelta
    trust: float
    poll_interval: timedelta
    hold: Hold


class Dispatcher:
    """The claiming loop and the visits it started."""

    def __init__(
        self,
        claims: Claims,
        recorder: Recorder,
        attempter: Attempter,
        instruments: Instruments,
        limits: Limits,
        owner: str,
    ) -> None:
        self._claims = claims
        self._recorder = recorder
        self._attempter = attempter
        self._bodies = instruments.bodies
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._faults = instruments.faults
        self._metrics = instruments.metrics
        self._limits = limits
        self._owner = owner
        self._rhythm = Rhythm(self._clock, limits.poll_interval.total_seconds())
        self._tail = Tail()
        self._standings = instruments.standings
        self._ready = ReadyLanes(self._standings)
        self._locked: dict[str, int] = {}
        self._visits: dict[str, Visit] = {}
        self._wake = asyncio.Event()
        self._supply = Supply(claims, instruments, lambda: self._tail.stable, self._wake.set)
        self._blocked = instruments.blocked
        self._unreadable = Unreadable(claims, instruments)
        self._stopping = False
        self._absence = instruments.absence
        self._probe = lambda: claims.lease({}, limits.lease, owner)  # refused by a server that only reads
        self._may_claim = True
        self._maker = LaneMaker(claims, self._metrics, self._made)
        self.everything_is_paused = False
        self.missing_keys: dict[str, float] = {}
        self._told_of_keys: set[str] = set()
        self.answered_at = self._clock.elapsed()
        self._follower = Follower(attempter.attend, recorder, self._supply.ask, self._may_start)
        recorder.on_closed = self._closed

    @property
    def lanes_leased(self) -> int:
        """Return how many lanes this process holds."""
        return len(self._visits)

    def show(self) -> None:
        """Show in the metrics which lanes are held, and which rows cannot be delivered."""
        self._metrics.lanes_leased.set(self.lanes_leased)
        self._metrics.suspect_lanes.set(self._standings.tally(self._visits)[Standing.SUSPECT])
        self._blocked.show()

    @property
    def is_hungry(self) -> bool:
        """Tell whether the sweep should go on at once: there is room, and nothing known to fill it."""
        return self._most() > 0 and self._waiting() < CLAIM_LANES

    async def run(self) -> None:
        """Claim until stopped; visits go on in tasks of their own, whose faults end the loop."""
        backoff = Backoff()
        async with asyncio.TaskGroup() as group:
            while not self._stopping:
                self._wake.clear()  # before the step: a wake-up during it must survive
                asked = self._clock.elapsed()
                try:
                    hurries = await self.step(group)
                except StorageError as error:
                    self._absence.failed(asked, error)
                    self._metrics.database_errors.labels("claim").inc()
                    _log.warning("claim.failed", error=str(error))
                    await pause(backoff.next())
                    continue
                backoff.reset()
                wait = self._rhythm.next(self._clock.elapsed() - asked)
                await self._rhythm.rest(0.0 if hurries else wait, self._wake)
            self._supply.let_go()

    async def step(self, group: asyncio.TaskGroup) -> bool:
        """Look, read on, claim; True when there is more to be had at once."""
        self._ready.give_back(self._locked)
        self._locked.clear()
        self._ready.let_go(self._faults.suspicions.freed())
        is_cut = await self._look()
        self._may_claim = await self._absence.may_claim(self._probe)
        await self._supply.read_on()
        await self._claim(group)
        self.answered_at = self._clock.elapsed()
        return is_cut or (not self._faults.is_open and self._waiting() > 0)

    def stop(self) -> None:
        """Claim nothing more; visits end after the event in flight."""
        self._stopping = True
        self._wake.set()

    async def _look(self) -> bool:
        asked = self._clock.elapsed()
        cursor = NO_STRAGGLER if self._tail.cursor is None else self._tail.cursor
        arrivals = await self._claims.read_arrivals(cursor, LOOK)
        self._database_clock.synchronise(arrivals.database_now, asked)
        self._faults.look_at_clock()
        for arrival in self._tail.observe(arrivals, self._clock.elapsed()):
            self._notice(arrival.merchant_id, arrival.seq)
        gaps = self._tail.due_gaps(asked)
        found = await self._claims.read_gaps(gaps, LOOK) if gaps else []
        if found or arrivals.last_seq > cursor:
            self._rhythm.found()
        # Noticed before they count as settled, so that nobody reads past them in between.
        for arrival in found:
            self._notice(arrival.merchant_id, arrival.seq)
        self._tail.observe_gaps(found, asked)
        return arrivals.is_cut

    def _notice(self, merchant_id: str, seq: int, is_swept: bool = False) -> bool:
        visit = self._visits.get(merchant_id)
        if visit is None:
            return self._ready.add(merchant_id, seq, is_swept)
        visit.notice(seq)
        return False

    def begin_sweep(self) -> None:
        """Learn that the sweep begins a round."""
        self._ready.begin_sweep()

    def notice_probe(self, probe: Probe) -> bool:
        """Learn from the sweep that a merchant is owed something; True if it was not known to wait."""
        if self._blocked.is_left(probe.merchant_id):
            return False
        if not probe.is_free and probe.merchant_id not in self._visits:
            return False
        self._wake.set()
        return self._notice(probe.merchant_id, probe.head_seq, is_swept=True)

    def recall(self, merchant_id: str) -> None:
        """End a visit after the event in flight."""
        visit = self._visits.get(merchant_id)
        if visit is not None:
            visit.is_recalled = True

    def _most(self) -> int:
        """Return how many lanes may be claimed now, whosever they are."""
        may_claim = self._may_claim and not (self.everything_is_paused or self._stopping)
        is_busy = self._rhythm.is_behind and self._at_work() >= ENOUGH
        if not may_claim or is_busy or not self._bodies.has_room():
            return 0
        return min(self._limits.max_lanes - len(self._visits), 1 if self._faults.is_open else CLAIM_LANES)

    def _at_work(self) -> int:
        """Return how many lanes keep the event loop busy: not those that hang, or are over."""
        under_way = [merchant_id for merchant_id, visit in self._visits.items() if not visit.is_over]
        return len(under_way) - self._standings.tally(under_way)[Standing.SUSPECT]

    def _room(self) -> Room:
        taken = self._standings.tally(self._visits)
        return Room(self._limits.max_lanes, taken, self._bodies.fullness, self._faults.probes)

    def _waiting(self) -> int:
        """Return how many wait that may be claimed now."""
        return self._ready.waiting(self._room()) if len(self._ready) and self._most() else 0

    async def _claim(self, group: asyncio.TaskGroup) -> None:
        most = self._most()
        if not most or not len(self._ready) or (self._faults.is_open and not self._faults.takes_probe()):
            return
        heads = self._ready.take(most, self._room())
        for merchant_id in heads.keys() & self._visits.keys():
            # Noticed between the asking for its lease and the answer.
            self._visits[merchant_id].notice(heads.pop(merchant_id))
        if not heads:
            return
        asked = self._clock.elapsed()
        probes = self._faults.paused(heads)
        try:
            leased = await self._unreadable.lease(heads, self._limits.lease, self._owner)
        except StorageError:
            self._ready.give_back(heads)
            raise
        visits = [self._open(lease, asked, lease.merchant_id in probes) for lease in leased.leases]
        # Free, but locked for a moment: asked for again in the next step, not at once.
        self._locked = {merchant_id: heads[merchant_id] for merchant_id in leased.locked}
        self._maker.make(group, {merchant_id: heads[merchant_id] for merchant_id in leased.missing})
        if not visits:
            return
        try:
            reads = self._supply.read(visits), self._supply.read_endpoints(visits)
            _, endpoints = await asyncio.gather(*reads)
        except StorageError:
            for visit in visits:
                visit.is_cut = True
                self._give_back(visit)
            raise
        self._metrics.claim_duration.observe(self._clock.elapsed() - asked)
        for visit in visits:
            self._start(group, visit, endpoints.get(visit.merchant_id))

    def _made(self, heads: Mapping[str, int]) -> None:
        self._ready.give_back(heads)
        self._wake.set()

    def _open(self, lease: Lease, asked: float, is_probe: bool) -> Visit:
        visit = Visit(lease, self._bodies, asked + self._limits.trust, asked + VISIT_TIME, is_probe=is_probe)
        self._visits[lease.merchant_id] = visit
        return visit

    def _start(self, group: asyncio.TaskGroup, visit: Visit, endpoint: Endpoint | None) -> None:
        if endpoint is None:
            settle_unconfigured(visit, self._limits.hold, self._database_clock.now(), self._recorder)
            self._give_back(visit)
            return
        try:
            secrets = self._attempter.open_secrets(endpoint)
        except UnknownKey as error:
            self.lack_key(error)
            visit.wait_until = self._database_clock.now() + KEY_WAIT
            self._give_back(visit)
            return
        if not visit.run:
            self._give_back(visit)
            return
        if visit.is_probe:
            self._faults.note_probe()
        task = group.create_task(self._follower.follow(visit, endpoint, secrets))
        task.add_done_callback(lambda _: self._give_back(visit))

    def _give_back(self, visit: Visit) -> None:
        visit.end()
        self._recorder.give_back(visit)

    def lack_key(self, error: UnknownKey) -> None:
        """Remember which key did not open a secret, and say so the first time."""
        if str(error) not in self._told_of_keys:
            self._told_of_keys.add(str(error))
            _log.error("key.missing", key_id=error.key_id, reason=error.reason)
        self.missing_keys[error.key_id] = self._clock.elapsed()

    def _may_start(self, visit: Visit) -> bool:
        if self._stopping or self.everything_is_paused or visit.must_end(self._clock.elapsed()):
            return False
        return not self._faults.pauses(visit.merchant_id) or (visit.is_probe and not visit.started)

    def _closed(self, visit: Visit) -> None:
        if self._visits.get(visit.merchant_id) is visit:
            del self._visits[visit.merchant_id]
        if visit.straggler is not None:
            self._ready.add(visit.merchant_id, visit.straggler)
        elif visit.owes_more and visit.wait_until is None:
            self._ready.add(visit.merchant_id)
        # Suspects may wait for long while good ones come and go: they find their place within a poll.
        if not self._stopping and self._ready.has_any(self._standings.of(visit.merchant_id)):
            self._wake.set()
