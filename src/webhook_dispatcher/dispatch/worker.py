"""Works through lane sessions: one event after the other, and reads on when a run becomes short.

Reading on needs no new lease: whether the lane is still ours is checked before each request.
"""

import asyncio
from collections.abc import Sequence

from webhook_dispatcher.dispatch.attempt import Attempter
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane_session import LaneSession, SessionState
from webhook_dispatcher.dispatch.losses import BLOCKED_WAIT
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.domain.claim import RunAsk
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StatementRefused, StorageError
from webhook_dispatcher.domain.ports import Claims
from webhook_dispatcher.domain.signing import Secret

RUN = 20
"""Events read for a lane at once, at most."""
RUN_BYTES = 64 * 1024
"""Bytes after which a run is cut; its first event is read whatever its size."""
PREFETCH = 5
"""Events left in the run when the next ones are asked for."""


class Worker:
    """Fetches for sessions and follows them; one for the process.

    wake: set when a session wants to be read on, which `read_on` does for all of them in one statement.
    low: the sessions that want it.
    """

    def __init__(
        self,
        claims: Claims,
        recorder: Recorder,
        attempter: Attempter,
        instruments: Instruments,
        wake: asyncio.Event,
    ) -> None:
        self._claims = claims
        self._recorder = recorder
        self._attempter = attempter
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._memory = instruments.memory
        self._metrics = instruments.metrics
        self._own_faults = instruments.own_faults
        self._unreadable = Unreadable(claims, instruments)
        self._wake = wake
        self.low: list[LaneSession] = []
        self._pause = instruments.pause
        self._stopping = False

    async def follow(self, session: LaneSession, endpoint: Endpoint, secrets: tuple[Secret, ...]) -> None:
        """Deliver a lane's events until the session is over; the caller has the lane released."""
        while await self._has_next(session):
            event = session.start()
            record = await self._attempter.attend(event, session.lease.epoch, False, endpoint, secrets)
            if record is None:
                session.put_back(event)
                break
            self._recorder.add(record, session)
        session.end()

    async def _has_next(self, session: LaneSession) -> bool:
        """Wait until the next event may be started; False at the end. Asked anew after each wait."""
        while self._may_start(session):
            if session.has_more and session.fetch is None and len(session.run) <= PREFETCH:
                session.ask_for_more()
                self.low.append(session)
                self._wake.set()
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

    def _may_start(self, session: LaneSession) -> bool:
        if self._stopping or self._pause.is_on or not session.may_start(self._clock.elapsed()):
            return False
        is_probe = session.is_probe and not session.has_started
        takes_probes_alone = self._own_faults.circuit_is_open or session.merchant_id in self._own_faults.held
        return is_probe or not takes_probes_alone

    async def fetch(self, sessions: Sequence[LaneSession], stable: int) -> None:
        """Read the next run of each session; StorageError when nothing was read.

        stable: the number at or below which nothing can become visible any more, as of before the read.
        """
        asks = [session.ask(RUN, RUN_BYTES) for session in sessions]
        try:
            runs = await self._claims.read_runs(asks) if asks else {}
        except StatementRefused as error:
            await self._fetch_apart(sessions, asks, stable, error)
            return
        except StorageError:
            _miss(sessions)
            raise
        for session, ask in zip(sessions, asks, strict=True):
            session.take_in(runs.get(session.merchant_id, []), ask, stable)

    async def _fetch_apart(
        self, sessions: Sequence[LaneSession], asks: Sequence[RunAsk], stable: int, error: StatementRefused
    ) -> None:
        """Read what can be read; a lane of which nothing can ends its session, and waits."""
        self._metrics.database_errors.labels("read_runs").inc()
        try:
            if not error.blames_the_row:
                raise error
            seen = {seq for session in sessions for seq in session.seen}
            found = await self._unreadable.read_runs(asks, seen)
        except StorageError:
            _miss(sessions)
            raise
        for session in sessions:
            if session.merchant_id in found.blocked:
                session.missed_read()
                session.expire()
                session.defer(self._database_clock.now() + BLOCKED_WAIT)
            else:
                ask, run = found.runs[session.merchant_id]
                session.take_in(run, ask, stable)

    async def read_on(self, stable: int) -> None:
        """Read on for the sessions that have asked for more; `stable` as for `fetch`."""
        sessions, self.low = [session for session in self.low if session.state < SessionState.OVER], []
        try:
            if self._memory.fullness < 1:
                await self.fetch(sessions, stable)
            else:
                for session in sessions:
                    session.expire()  # no room for more: it ends, and waits its turn to be claimed
        finally:
            for session in sessions:
                session.fetched()

    def stop(self) -> None:
        """Start nothing more; sessions end after the event in flight."""
        self._stopping = True

    def stop_reading(self) -> None:
        """Let no session wait for a read that will not come."""
        for session in self.low:
            session.fetched()
        self.low.clear()


def _miss(sessions: Sequence[LaneSession]) -> None:
    for session in sessions:
        session.missed_read()
