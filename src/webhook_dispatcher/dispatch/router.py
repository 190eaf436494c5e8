"""Routes what waits in the lanes of merchants with several endpoints: sessions of these send nothing.

For each event, in order of seq, a copy is written into the lane of each endpoint that wants it, and the event
into the log, in one statement (storage/sql/routing.sql). So an event is either in the merchant's own lane, or
all its copies are written. The statement renews the lease, or releases the lane where nothing is left.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.attempt import finish_unsent
from webhook_dispatcher.dispatch.blocked import BLOCKED_WAIT, Reason
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.lane_session import LaneSession
from webhook_dispatcher.dispatch.pace import Backoff, sleep
from webhook_dispatcher.dispatch.recorder import LOCKED_WAIT, Recorder
from webhook_dispatcher.domain.claim import DueRow, Lease, RouteAsk, Routed, RouteFate
from webhook_dispatcher.domain.errors import StatementRefused, StorageError
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.lane import told
from webhook_dispatcher.domain.ports import Claims
from webhook_dispatcher.domain.verdict import Outcome

MAX_ROWS = 400
"""Events and copies that one statement writes, but for the first event's."""
MAX_BYTES = 2 * 1024 * 1024
"""Bytes of them beyond which no further event is taken."""
MAX_STATEMENTS = 2
"""Statements at once: two of the four connections that claims have."""

_log = structlog.get_logger()


class Router:
    """Works through the sessions of routed lanes; one for the process."""

    def __init__(
        self,
        claims: Claims,
        recorder: Recorder,
        instruments: Instruments,
        lease: timedelta,
        trust: float,
        stable: Callable[[Lease], int],
        notice: Callable[[str, int], object],
    ) -> None:
        """Set up.

        trust: seconds for which a lease that was renewed is trusted. stable: the number at or below which
        nothing can appear any more, on a lease's server. notice: learns which lanes got what.
        """
        self._claims = claims
        self._recorder = recorder
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._metrics = instruments.metrics
        self._blocked = instruments.blocked
        self._health = instruments.health
        self._pause = instruments.pause
        self._lease = lease
        self._trust = trust
        self._stable = stable
        self._notice = notice
        self._turns = asyncio.Semaphore(MAX_STATEMENTS)
        self._backoff = Backoff()
        self._rows = MAX_ROWS
        self._stopping = False

    def stop(self) -> None:
        """Route nothing more."""
        self._stopping = True

    async def work_through(self, session: LaneSession) -> bool:
        """Route until the session ends. True: the lane is released already; False: the caller releases it."""
        try:
            if await self._route_all(session):
                return True
        except StorageError as error:
            # What was routed, if it was, is not in the lane any more; the rest is.
            self._metrics.database_errors.labels("route").inc()
            _log.warning("route.failed", **told(session.lease.lane), error=str(error))
            if isinstance(error, StatementRefused):
                self._recorder.needs_upkeep.set()  # a log may lack its partition
            self._rows = max(1, self._rows // 2)  # one that takes too long would do so again and again
            await sleep(self._backoff.next())
        session.missed_read()
        return False

    async def _route_all(self, session: LaneSession) -> bool:
        rows = self._rows
        while self._may_route(session):
            if session.unblocked is not None:
                await session.unblocked.wait()
                continue
            async with self._turns:
                started, ask = self._clock.elapsed(), self._ask(session, rows)
                try:
                    routed = await self._claims.route(ask, self._lease)
                except StatementRefused as error:
                    if not error.is_row_fault:
                        raise
                    if rows == 1:
                        await self._settle_refused(session, ask, error)
                    rows = max(1, rows // 2)
                    continue
            self._backoff.reset()
            self._rows = min(MAX_ROWS, 2 * self._rows)
            rows = min(self._rows, 2 * rows)
            if await self._settle(session, ask, routed, started):
                return True
        return False

    def _may_route(self, session: LaneSession) -> bool:
        return not (self._stopping or self._pause.is_on) and session.may_start(self._clock.elapsed())

    def _ask(self, session: LaneSession, rows: int) -> RouteAsk:
        after, stable = session.ask_to_route(), self._stable(session.lease)
        return RouteAsk(session.lease, after, stable, rows, MAX_BYTES, self._database_clock.now())

    async def _settle(self, session: LaneSession, ask: RouteAsk, routed: Routed, started: float) -> bool:
        """Learn what became of events and lanes; True: the session's is released."""
        lane, fate = session.lease.lane, routed.fate
        self._metrics.routed_events.inc(routed.events)
        self._metrics.unwanted_events.inc(routed.unwanted)
        for event_type in routed.failed:
            self._metrics.deliveries_by[State.FAILED, FailedReason.NOT_CONFIGURED, event_type].inc()
        for reached, head in routed.heads.items():
            self._notice(reached, head)
        if fate in (RouteFate.KEPT, RouteFate.RELEASED):
            self._health.learn(lane, Outcome.DELIVERED, 0.0)
            session.routed(routed.reached, ask.stable, routed.is_cut)
        if fate is RouteFate.KEPT:
            session.renew(started + self._trust)
        elif fate is RouteFate.RECALLED:
            session.recall()
        elif fate is RouteFate.LOST and session.lose():
            self._metrics.leases_lost.inc()
            _log.warning("lane.lost", **told(lane), epoch=session.lease.epoch)
        if fate in (RouteFate.KEPT, RouteFate.LOCKED) and not routed.events:
            await sleep(LOCKED_WAIT)
        if fate not in (RouteFate.RELEASED, RouteFate.ALONE):
            return False
        session.end()
        if fate is RouteFate.ALONE and await self._claims.become_direct(lane):
            session.missed_read()
        return True

    async def _settle_refused(self, session: LaneSession, ask: RouteAsk, error: StatementRefused) -> None:
        """Settle what stands first, which cannot be routed: it is never to be sent, or the lane rests."""
        lane = session.lease.lane
        try:
            if (row := await self._claims.read_next(lane, ask.after_seq)) is None:
                return
        except StatementRefused as unread:
            if not unread.is_row_fault:
                raise
            self._blocked.find(Reason.UNREADABLE, lane, None, None, str(unread))
            self._rest(session)
            return
        try:
            await self._claims.try_rows([DueRow(lane, row.seq, row.id)])
        except StatementRefused as refused:
            if refused.is_damage:
                self._blocked.find(Reason.UNREADABLE, lane, row.seq, row.id, str(refused))
                self._rest(session)
            elif not refused.is_row_fault:
                raise
            else:
                now, epoch = self._database_clock.now(), session.lease.epoch
                self._recorder.add(
                    finish_unsent(row, epoch, is_retry=False, reason=FailedReason.UNSENDABLE, at=now), session
                )
                session.block()
                self._recorder.hurry()
            return
        # Not the event's row, but the lane's, an endpoint's or one of a log.
        _log.error("lane.unreadable", **told(lane), error=str(error))
        self._rest(session)

    def _rest(self, session: LaneSession) -> None:
        session.defer(self._database_clock.now() + timedelta(seconds=BLOCKED_WAIT))
        session.give_way()
