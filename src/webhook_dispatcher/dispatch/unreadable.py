"""Gets past what the database refuses for a single row's sake.

What was asked for many is asked for halves, until the bad one is alone; everybody else goes on. A row that
is damaged (class XX) is named and left where it is: its lane waits, or a claim of due rows leaves it out,
until somebody mends it or moves it out of the way (docs/operate/standing-still.md). One that is refused for
its values (22, 23) can never be sent, and ends as unsendable.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

import structlog

from webhook_dispatcher.dispatch.blocked import BLOCKED_WAIT, Reason
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.domain.claim import START, ClaimedRetry, DueRow, HandedOn, Leased, RunAsk, Stray
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StatementRefused, StorageError
from webhook_dispatcher.domain.event import Event, FailedReason, State
from webhook_dispatcher.domain.lane import told
from webhook_dispatcher.domain.ports import Claims
from webhook_dispatcher.domain.signing import SealedSecret

NO_KEY = "of an endpoint that cannot be read"
"""Stands for the key of such an endpoint; no key can have this id."""

_log = structlog.get_logger()
T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")


class Run(NamedTuple):
    """A lane's next events. is_cut: more is known to stand behind them, such as a row that is damaged."""

    events: list[Event]
    is_cut: bool = False


async def in_parts(
    items: Sequence[T],
    together: Callable[[Sequence[T]], Awaitable[R]],
    alone: Callable[[T, StatementRefused], Awaitable[R]],
) -> list[R]:
    """Call `together` for all items, or for halves where a row's sake forbids it; `alone` for a bad one."""
    if not items:
        return []
    try:
        return [await together(items)]
    except StatementRefused as error:
        if not error.is_row_fault:
            raise
        if len(items) == 1:
            return [await alone(items[0], error)]
    half = len(items) // 2
    return await in_parts(items[:half], together, alone) + await in_parts(items[half:], together, alone)


class Unreadable:
    """Leases, reads and claims what it can. All methods raise StorageError."""

    def __init__(self, claims: Claims, instruments: Instruments) -> None:
        self._claims = claims
        self._blocked = instruments.blocked
        self._metrics = instruments.metrics

    async def lease(self, heads: Mapping[str, int], lease: timedelta) -> Leased:
        """Lease lanes; one whose row the database refuses to change waits alone."""

        async def together(part: Sequence[str]) -> Leased:
            return await self._claims.lease({lane: heads[lane] for lane in part}, lease)

        async def alone(lane: str, error: StatementRefused) -> Leased:
            self._blocked.leave(lane)
            _log.error("lane.unreadable", **told(lane), error=str(error))
            return Leased((), (), ())

        parts = await in_parts(list(heads), together, alone)
        return Leased(
            tuple(lease for part in parts for lease in part.leases),
            tuple(lane for part in parts for lane in part.missing),
            tuple(lane for part in parts for lane in part.locked),
        )

    async def read_runs(self, asks: Sequence[RunAsk]) -> dict[str, Run]:
        """Read runs, each as far as it can be read; a lane that is cut with no events must wait."""

        async def together(part: Sequence[RunAsk]) -> dict[str, Run]:
            runs = await self._claims.read_runs(part)
            return {ask.lane: Run(runs.get(ask.lane, [])) for ask in part}

        async def alone(ask: RunAsk, error: StatementRefused) -> dict[str, Run]:
            self._metrics.database_errors.labels("read_runs").inc()
            return {ask.lane: await self._read_one_by_one(ask)}

        return _merged(await in_parts(asks, together, alone))

    async def _read_one_by_one(self, ask: RunAsk) -> Run:
        """Read a lane up to its first damaged row, each row named before it is read by its own number."""
        events: list[Event] = []
        while len(events) < ask.max_events and sum(len(event.object) for event in events) < ask.max_bytes:
            after = events[-1].seq if events else ask.after_seq
            try:
                following = await self._claims.read_next(ask.lane, after)
            except StatementRefused as error:
                return self._stop(ask.lane, None, events, error)
            if following is None:
                return Run(events)
            try:
                events += await self._read_row(ask, following)
            except StatementRefused as error:
                if error.is_damage or not error.is_row_fault:
                    return self._stop(ask.lane, following, events, error)
                events.append(following)  # it cannot be sent without its object, and ends so in its turn
        return Run(events, is_cut=True)

    async def _read_row(self, ask: RunAsk, row: Event) -> list[Event]:
        """Read one row of a lane alone; nothing where it was finished meanwhile."""
        before = row.seq - 1
        try:
            runs = await self._claims.read_runs([replace(ask, after_seq=before, max_events=1)])
        except StatementRefused:
            # If it was finished meanwhile, what was refused is the row behind it, which has its turn.
            if await self._claims.read_next(ask.lane, before) != row:
                return []
            raise
        return runs.get(ask.lane, [])

    def _stop(self, lane: str, row: Event | None, events: list[Event], error: StatementRefused) -> Run:
        if not error.is_row_fault:
            raise error
        self._blocked.find(Reason.UNREADABLE, lane, row and row.seq, row and row.id, str(error))
        return Run(events, is_cut=True)

    async def claim_longest_due(
        self, lanes: int, per_lane: int, limit: int, lease: timedelta
    ) -> Sequence[ClaimedRetry]:
        """Claim due rows as Claims does; where some are refused, leave those out, or their lanes."""
        try:
            return await self._claims.claim_longest_due(lanes, per_lane, limit, lease, self._blocked.seqs())
        except StatementRefused as error:
            self._count_refused_claim(error)
        due = await self._claims.find_due(START, lanes)
        return await self._claim_others([cursor.lane for cursor in due], per_lane, limit, lease)

    async def claim_due_of(
        self, lanes: Sequence[str], per_lane: int, limit: int, lease: timedelta
    ) -> Sequence[ClaimedRetry]:
        """Claim due rows as Claims does; where some are refused, leave those out, or their lanes."""
        try:
            return await self._claims.claim_due_of(lanes, per_lane, limit, lease, self._blocked.seqs())
        except StatementRefused as error:
            self._count_refused_claim(error)
        return await self._claim_others(lanes, per_lane, limit, lease)

    async def claim_trials(self, lanes: Sequence[str], lease: timedelta) -> Sequence[ClaimedRetry]:
        """Claim one due row each as Claims does; where one is refused, find it, and claim none this time."""
        try:
            return await self._claims.claim_trials(lanes, lease, self._blocked.seqs())
        except StatementRefused as error:
            self._count_refused_claim(error)
        await self._find_refused(lanes, 1)
        return ()

    def _count_refused_claim(self, error: StatementRefused) -> None:
        """Count a claim that was refused for a row's sake; raises the error where it is not."""
        if not error.is_row_fault:
            raise error
        self._metrics.database_errors.labels("claim_retries").inc()

    async def _claim_others(
        self, lanes: Sequence[str], per_lane: int, limit: int, lease: timedelta
    ) -> Sequence[ClaimedRetry]:
        """Find the rows that a claim was refused for, and claim none this time; or else claim by halves."""
        if await self._find_refused(lanes, per_lane):
            return ()
        # All rows can be read, and yet not claimed together; a lane refused alone is looked at later.
        claimed: list[ClaimedRetry] = []

        async def together(part: Sequence[str]) -> None:
            if (left := limit - len(claimed)) > 0:
                claimed.extend(
                    await self._claims.claim_due_of(part, per_lane, left, lease, self._blocked.seqs())
                )

        async def alone(lane: str, error: StatementRefused) -> None:
            self._blocked.find(Reason.UNREADABLE, lane, None, None, str(error))
            await self._claims.look_later([lane], timedelta(seconds=BLOCKED_WAIT))

        try:
            await in_parts(lanes, together, alone)
        except StorageError:
            if not claimed:
                raise
            # What is claimed would only lapse; the next claim meets the same error, if it is still there.
        return claimed

    async def _find_refused(self, lanes: Sequence[str], per_lane: int) -> bool:
        """Look for the rows that a claim was refused for; tell whether there were any."""
        unnamed: list[str] = []

        async def name(part: Sequence[str]) -> list[DueRow]:
            return await self._claims.name_due(part, per_lane, self._blocked.seqs())

        async def cannot_name(lane: str, error: StatementRefused) -> list[DueRow]:
            unnamed.append(lane)
            self._blocked.find(Reason.UNREADABLE, lane, None, None, str(error))
            return []

        async def try_rows(part: Sequence[DueRow]) -> bool:
            await self._claims.try_rows(part)
            return False

        rows = [row for part in await in_parts(lanes, name, cannot_name) for row in part]
        if unnamed:
            await self._claims.look_later(unnamed, timedelta(seconds=BLOCKED_WAIT))
        are_refused = await in_parts(rows, try_rows, self._leave_out)
        return any(are_refused) or bool(unnamed)

    async def _leave_out(self, row: DueRow, error: StatementRefused) -> bool:
        if error.is_damage:
            self._block(row, error)
            return True
        try:
            closed = await self._claims.close_row(row)
        except StatementRefused as refused:
            if not refused.is_row_fault:
                raise
            self._block(row, refused)
            return True
        if closed is not None:
            state, event_type = closed
            reason = FailedReason.UNSENDABLE if state is State.FAILED else None
            self._metrics.deliveries_by[state, reason, event_type].inc()
            _log.error("row.refused", event_id=str(row.id), seq=row.seq, state=state, error=str(error))
        return True

    def _block(self, row: DueRow, error: StatementRefused) -> None:
        self._blocked.find(Reason.UNREADABLE, row.lane, row.seq, row.id, str(error))

    async def hand_on(self, strays: Sequence[Stray], at: datetime) -> dict[int, HandedOn]:
        """Hand retries on as Claims does; one whose row is refused waits."""

        async def together(part: Sequence[Stray]) -> dict[int, HandedOn]:
            return await self._claims.hand_on(part, at)

        async def alone(stray: Stray, error: StatementRefused) -> dict[int, HandedOn]:
            self._blocked.find(Reason.UNREADABLE, stray.lane, stray.seq, stray.id, str(error))
            return {stray.seq: HandedOn.WAITS}

        return _merged(await in_parts(strays, together, alone))

    async def read_endpoints(self, lanes: Sequence[str]) -> dict[str, Endpoint]:
        """Read endpoints; one that cannot be read comes with a secret that opens with no key, so it waits."""

        async def alone(lane: str, error: StatementRefused) -> dict[str, Endpoint]:
            _log.error("endpoint.unreadable", **told(lane), error=str(error))
            return {lane: Endpoint(lane, "", (SealedSecret(NO_KEY, b""),))}

        return _merged(await in_parts(lanes, self._claims.read_endpoints, alone))


def _merged(parts: Sequence[Mapping[K, R]]) -> dict[K, R]:
    return {name: found for part in parts for name, found in part.items()}
