"""Works through lane sessions: attempts one event after the other, and reads on when a run becomes short.

Where order is kept by charge, events of several charges are attempted at once, each in a task.

Reading on needs no new lease, since the lease is checked before each request.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from webhook_dispatcher.dispatch.attempt import Attempter, pass_over
from webhook_dispatcher.dispatch.blocked import BLOCKED_WAIT
from webhook_dispatcher.dispatch.charges import Charges
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane_session import LaneSession, SessionState
from webhook_dispatcher.dispatch.pace import sleep
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.unreadable import Run, Unreadable
from webhook_dispatcher.domain.claim import RunAsk
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StorageError
from webhook_dispatcher.domain.event import KNOWN_TYPES, Event
from webhook_dispatcher.domain.ports import Claims
from webhook_dispatcher.domain.record import Record
from webhook_dispatcher.domain.signing import Secret
from webhook_dispatcher.domain.verdict import Outcome

RUN = 20
"""Events read for a lane at once, at most."""
RUN_BYTES = 64 * 1024
"""Bytes after which a run is cut; its first event is read whatever its size."""
PREFETCH = 5
"""The next events are asked for when so many are left in the run."""
PLACE_AGAIN, READ_AGAIN = 0.25, 1.0
"""Seconds until a place that was refused, and a read in vain, are tried again beside others' attempts."""


class Worker:
    """Reads the events of sessions and works through them; one for the process.

    low: sessions whose run has become short; `read_on` reads for all of them in one statement.
    wake: set when a session is added to them.
    suspension_interval: how long a suspended merchant's lane rests after its trial.
    may_add: tells whether a lane may have one more request under way, beyond its session's first.
    by_charge: by lane, the attempts of sessions whose order is kept by charge.
    extra: by lane, how many such requests there are.
    """

    def __init__(
        self,
        claims: Claims,
        recorder: Recorder,
        attempter: Attempter,
        instruments: Instruments,
        suspension_interval: timedelta,
        wake: asyncio.Event,
        may_add: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._claims = claims
        self._recorder = recorder
        self._attempter = attempter
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._memory = instruments.memory
        self._lag = instruments.metrics.dispatch_lag
        self._blocked = instruments.blocked
        self._own_faults = instruments.own_faults
        self._unreadable = Unreadable(claims, instruments)
        self._suspension_interval = suspension_interval
        self._wake = wake
        self.low: list[LaneSession] = []
        self._pause = instruments.pause
        self._stopping = False
        self._may_add = may_add
        self.by_charge: dict[str, Charges] = {}
        self.extra: Counter[str] = Counter()

    async def work_through(
        self, session: LaneSession, endpoint: Endpoint, secrets: tuple[Secret, ...]
    ) -> None:
        """Make attempts at a session's events until it ends; the caller releases the lane."""
        if endpoint.at_once > 1:
            await self._work_by_charge(session, endpoint, secrets)
        else:
            while await self._has_next(session):
                if self._passes_over(session, endpoint):
                    continue
                event = session.start()
                record = await self._attempt(session, event, endpoint, secrets)
                self._settle(session, event, record)
        session.end()

    def _passes_over(self, session: LaneSession, endpoint: Endpoint, place: int = 0) -> bool:
        """Pass an event over that is not wanted, or wait until such are written; True: nothing is started."""
        if not endpoint.wants(session.run[place]):
            event = session.pass_over(place)
            self._recorder.add(pass_over(event, session.lease.epoch, self._database_clock.now()), session)
            return True
        if session.has_passed_over and session.unwritten:
            session.block()
            self._recorder.hurry()
            return True
        return False

    async def _attempt(
        self, session: LaneSession, event: Event, endpoint: Endpoint, secrets: tuple[Secret, ...]
    ) -> Record | None:
        if session.lease.is_suspended:
            session.defer(self._database_clock.now() + self._suspension_interval)
        if session.is_probe:
            self._own_faults.note_probe()
        return await self._attempter.attempt(
            event,
            session.lease.epoch,
            False,
            endpoint,
            secrets,
            lambda: self._clock.elapsed() < session.trusted_until,
        )

    def _settle(
        self, session: LaneSession, event: Event, record: Record | None, since: datetime | None = None
    ) -> None:
        if record is None:
            session.add_back(event)
            return
        if record.attempt is not None and record.attempt.outcome is not Outcome.UNSENDABLE:
            self._lag.observe(session.late_by(event, record.attempt, since).total_seconds())
        self._recorder.add(record, session)

    async def _work_by_charge(
        self, session: LaneSession, endpoint: Endpoint, secrets: tuple[Secret, ...]
    ) -> None:
        """Make attempts at events of several charges at once; return when all have ended."""
        lane = session.lease.lane
        charges = self.by_charge[lane] = session.work_by_charge(endpoint.at_once)

        async def attempt(event: Event) -> None:
            since = session.free_since or session.lease.free_since or event.created_at
            record = None
            try:
                record = await self._attempt(session, event, endpoint, secrets)
            finally:
                charges.end(event)
                self._count(session, charges)
            self._settle(session, event, record, since)

        try:
            async with asyncio.TaskGroup() as group:
                while (place := await self._next_place(session, charges)) is not None:
                    if self._passes_over(session, endpoint, place):
                        continue
                    event = session.start(place)
                    charges.start(event, self._clock.elapsed())
                    self._count(session, charges)
                    group.create_task(attempt(event))
        finally:
            del self.by_charge[lane]

    def _count(self, session: LaneSession, charges: Charges) -> None:
        """Note how many requests a session has under way beyond its first."""
        if (extra := len(charges.under_way) - 1) > 0:
            self.extra[session.lease.lane] = extra
        else:
            self.extra.pop(session.lease.lane, None)

    async def _next_place(self, session: LaneSession, charges: Charges) -> int | None:
        """Wait until an event of the run may be started, and say where it stands; None: none will be."""
        while True:
            charges.changed.clear()
            now, place = self._clock.elapsed(), None
            if may_start := self._may_start(session):
                if session.wants_more(charges, now):
                    self._ask_for_more(session)
                if self._recorder.is_behind():
                    await self._recorder.caught_up()
                    continue
                if session.unblocked is not None:
                    await session.unblocked.wait()
                    continue
                place = charges.place_of_next(session.run, now)
                if place is not None and (not charges.under_way or self._may_add(session.lease.lane)):
                    return place
            if not charges.under_way and (session.fetch is None or not may_start):
                return None
            # One that becomes slow takes no place any more, and lets the others go on past the session's end.
            waits = [slow_in] if (slow_in := charges.slow_in(now)) is not None and slow_in > 0 else []
            waits += [PLACE_AGAIN] if place is not None else []
            waits += [READ_AGAIN] if session.has_read_in_vain else []
            await sleep(min(waits, default=None), charges.changed)
            if not charges.changed.is_set():
                session.let_read_again()

    async def _has_next(self, session: LaneSession) -> bool:
        """Wait until the next event may be started; False: none will be."""
        while self._may_start(session):
            is_short = session.has_more and session.fetch is None and len(session.run) <= PREFETCH
            if is_short and not (session.lease.is_suspended and session.run):
                self._ask_for_more(session)
            if not session.run:
                if session.fetch is None:
                    return False
                await session.fetch
                if not session.run:
                    return False
            elif self._recorder.is_behind():
                await self._recorder.caught_up()
            elif session.unblocked is not None:
                await session.unblocked.wait()
            else:
                return True
        return False

    def _ask_for_more(self, session: LaneSession) -> None:
        session.ask_for_more()
        self.low.append(session)
        self._wake.set()

    def _may_start(self, session: LaneSession) -> bool:
        if self._stopping or self._pause.is_on or not session.may_start(self._clock.elapsed()):
            return False
        if session.is_probe and not session.has_started:
            return True
        return not self._own_faults.circuit_is_open and session.lease.lane not in self._own_faults.held

    async def fetch(self, sessions: Sequence[LaneSession], stable: int) -> None:
        """Read the next run of each session. StorageError: nothing was read.

        stable: nothing could become visible at or below this seq any more, before the read began.
        """
        asks = [session.ask(RUN, RUN_BYTES) for session in sessions]
        try:
            runs = await self._claims.read_runs(asks) if asks else {}
        except StorageError as error:
            if error.is_row_fault:
                await self._fetch_apart(sessions, asks, stable)
                return
            _miss(sessions)
            raise
        for session, ask in zip(sessions, asks, strict=True):
            run = runs.get(session.lease.lane, [])
            if all(event.type in KNOWN_TYPES for event in run):
                session.take_in(run, ask, stable)
            else:
                self._take_in_part(session, ask, Run(run), stable)

    async def _fetch_apart(
        self, sessions: Sequence[LaneSession], asks: Sequence[RunAsk], stable: int
    ) -> None:
        """Read as many events as possible where the database refuses one of the rows."""
        try:
            runs = await self._unreadable.read_runs(asks)
        except StorageError:
            _miss(sessions)
            raise
        for session, ask in zip(sessions, asks, strict=True):
            self._take_in_part(session, ask, runs[session.lease.lane], stable)

    def _take_in_part(self, session: LaneSession, ask: RunAsk, run: Run, stable: int) -> None:
        """Take in a run up to a damaged row, or up to an event whose type cannot be one.

        If such a row comes first, the session reads no further and ends after what it has in memory. The lane
        then waits, because of a damaged row, for all daemons; because of an unknown type, for this process
        alone: a newer daemon may claim it at once.
        """
        known = list(takewhile(lambda event: event.is_known, run.events))
        is_unknown = len(known) < len(run.events)
        if is_unknown:
            self._blocked.find_unknown(run.events[len(known)])
        is_cut = run.is_cut or is_unknown
        if known or not is_cut:
            session.take_in(known, ask, stable, is_cut)
            return
        session.missed_read()
        if is_unknown:
            self._blocked.leave(session.lease.lane)
        else:
            session.defer(self._database_clock.now() + timedelta(seconds=BLOCKED_WAIT))

    async def read_on(self, stable: int) -> None:
        """Read on for the sessions that have asked for more; `stable` as for `fetch`."""
        sessions, self.low = [session for session in self.low if session.state < SessionState.OVER], []
        try:
            if self._memory.fullness < 1:
                await self.fetch(sessions, stable)
            else:
                for session in sessions:
                    session.give_way()  # the memory budget is used up: the lane is claimed again in its turn
        finally:
            for session in sessions:
                session.fetched()

    def stop(self) -> None:
        """Start nothing more; sessions end after the event in flight."""
        self._stopping = True

    def stop_reading(self) -> None:
        """Wake sessions that wait for a read: none will come any more."""
        for session in self.low:
            session.fetched()
        self.low.clear()


def _miss(sessions: Sequence[LaneSession]) -> None:
    for session in sessions:
        session.missed_read()
