"""Gets past rows that the database cannot read, once a read of many has been refused.

What was asked for is halved until the bad row is alone (I9): everything else is delivered, and that row is
finished as unsendable, in order and under the fence of its lane or of the locks it was found with. A row
finished so has lost its object for good, and much unreadable at once is rather a fault that can be mended
(a damaged index): then the lanes concerned wait instead (`losses`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.losses import BLOCKED_WAIT
from webhook_dispatcher.domain.claim import ClaimedRetry, Leased, RunAsk
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.event import Event, FailedReason, State
from webhook_dispatcher.domain.ports import Claims
from webhook_dispatcher.domain.signing import SealedSecret

NO_KEY = "of an endpoint that cannot be read"
"""Stands for the key of such an endpoint; no key can have this id."""

_log = structlog.get_logger()


@dataclass(slots=True)
class Found:
    """What could be read: runs with what was asked for them in the end, and lanes that must wait."""

    seen: Collection[int]
    runs: dict[str, tuple[RunAsk, list[Event]]] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)


class Unreadable:
    """Reads and claims what it can of what was refused. All methods raise StorageError."""

    def __init__(self, claims: Claims, instruments: Instruments) -> None:
        self._claims = claims
        self._losses = instruments.losses
        self._metrics = instruments.metrics
        self._closing: set[int] = set()
        self._told: set[tuple[int, bool]] = set()
        self._clock = instruments.clock
        self._refused_until: dict[str, float] = {}

    async def lease(self, heads: Mapping[str, int], lease: timedelta, owner: str) -> Leased:
        """Lease lanes; one whose row the database refuses to change waits alone."""
        now = self._clock.elapsed()
        self._refused_until = {name: until for name, until in self._refused_until.items() if until > now}
        return await self._lease(
            [head for head in heads.items() if head[0] not in self._refused_until], lease, owner
        )

    async def _lease(self, heads: Sequence[tuple[str, int]], lease: timedelta, owner: str) -> Leased:
        if not heads:
            return Leased((), (), ())
        try:
            return await self._claims.lease(dict(heads), lease, owner)
        except StatementRefused as error:
            if not error.blames_the_row:
                raise
            if len(heads) == 1:
                merchant_id = heads[0][0]
                self._refused_until[merchant_id] = self._clock.elapsed() + BLOCKED_WAIT.total_seconds()
                _log.error("lane.unreadable", merchant_id=merchant_id, error=str(error))
                return Leased((), (), ())
        half = len(heads) // 2
        first = await self._lease(heads[:half], lease, owner)
        second = await self._lease(heads[half:], lease, owner)
        return Leased(
            first.leases + second.leases, first.missing + second.missing, first.locked + second.locked
        )

    async def read_runs(self, asks: Sequence[RunAsk], seen: Collection[int]) -> Found:
        """Read runs that were refused together; an unreadable event comes last in its run.

        seen: the events that the asking visits know already; of these none is in the way.
        """
        found = Found(seen)
        await self._halve(asks, found)
        return found

    async def _halve(self, asks: Sequence[RunAsk], found: Found) -> None:
        if len(asks) == 1:
            await self._read_alone(asks[0], found)
            return
        half = len(asks) // 2
        for part in (asks[:half], asks[half:]):
            try:
                runs = await self._claims.read_runs(part)
            except StatementRefused as error:
                if not error.blames_the_row:
                    raise
                await self._halve(part, found)
            else:
                found.runs |= {ask.merchant_id: (ask, runs.get(ask.merchant_id, [])) for ask in part}

    async def _read_alone(self, ask: RunAsk, found: Found) -> None:
        try:
            run, is_cut = await self._read_around(ask, found.seen)
        except StatementRefused as error:
            if not error.blames_the_row:
                raise
            _log.error("lane.unreadable", merchant_id=ask.merchant_id, error=str(error))
            found.blocked.add(ask.merchant_id)
            return
        if is_cut and not run:
            found.blocked.add(ask.merchant_id)
        else:
            most = len(run) if is_cut else len(run) + 1
            found.runs[ask.merchant_id] = (replace(ask, most_events=most), run)

    async def _read_around(self, ask: RunAsk, seen: Collection[int]) -> tuple[list[Event], bool]:
        """Read one refused lane up to its first unreadable event, that one included; tell if there is more.

        One that this visit has met already goes unmentioned: it is under way, or cannot be changed either.
        """
        run = await self._read_prefix(ask)
        suspect = await self._claims.read_suspect(ask.merchant_id, run[-1].seq if run else ask.after_seq)
        if suspect is None:
            return run, False
        alone = RunAsk(ask.merchant_id, suspect.seq - 1, 1, ask.most_bytes)
        try:
            # By its own number: whether that very row is refused, whatever has come or gone meanwhile.
            return run + (await self._claims.read_runs([alone])).get(ask.merchant_id, []), True
        except StatementRefused as error:
            if not error.blames_the_row:
                raise
            refusal = error
        if suspect.seq in seen:
            rest, is_cut = await self._read_behind(replace(ask, after_seq=suspect.seq), seen)
            return run + rest, is_cut
        return run + [suspect] * self._close(suspect, refusal), True

    async def _read_behind(self, ask: RunAsk, seen: Collection[int]) -> tuple[list[Event], bool]:
        try:
            run = (await self._claims.read_runs([ask])).get(ask.merchant_id, [])
        except StatementRefused as error:
            if not error.blames_the_row:
                raise
            return await self._read_around(ask, seen)
        return run, bool(run)

    async def _read_prefix(self, ask: RunAsk) -> list[Event]:
        """Read as many of a lane's events as can be read, by bisection."""
        run: list[Event] = []
        readable, refused = 0, ask.most_events
        while refused - readable > 1:
            most = (readable + refused) // 2
            try:
                runs = await self._claims.read_runs([replace(ask, most_events=most)])
            except StatementRefused as error:
                if not error.blames_the_row:
                    raise
                refused = most
            else:
                run, readable = runs.get(ask.merchant_id, []), most
        return run

    def _close(self, event: Event, error: StatementRefused) -> bool:
        """Tell whether an unreadable event may be finished, and count it once."""
        may_close = event.seq in self._closing or self._losses.left > 0
        self._tell(event, str(error), may_close)
        if may_close and event.seq not in self._closing:
            self._losses.count()
            self._closing.add(event.seq)
        return may_close

    async def claim_retries(
        self, lanes: int | Sequence[str], places: int, most: int, lease: timedelta
    ) -> tuple[ClaimedRetry, ...]:
        """Claim due rows after `Claims.claim_retries` was refused; what cannot be read is finished."""
        apart = await self._claims.claim_retries_apart(lanes, places, most, lease, self._losses.left)
        for row in apart.unreadable:
            if row.is_closed:
                self._metrics.deliveries_by[row.event.on_failure or State.FAILED, row.event.type].inc()
                self._losses.count()
            self._tell(row.event, row.error, row.is_closed)
        for merchant_id, error in apart.blocked.items():
            _log.error("lane.unreadable", merchant_id=merchant_id, error=error)
        return apart.claimed

    async def read_endpoints(self, merchants: Sequence[str]) -> dict[str, Endpoint]:
        """Read endpoints; one that cannot be read comes with a secret that opens with no key, so it waits."""
        try:
            return await self._claims.read_endpoints(merchants)
        except StatementRefused as error:
            if not error.blames_the_row:
                raise
            if len(merchants) == 1:
                _log.error("endpoint.unreadable", merchant_id=merchants[0], error=str(error))
                return {merchants[0]: Endpoint(merchants[0], "", (SealedSecret(NO_KEY, b""),))}
        half = len(merchants) // 2
        return await self.read_endpoints(merchants[:half]) | await self.read_endpoints(merchants[half:])

    def _tell(self, event: Event, error: str, is_closed: bool) -> None:
        if (event.seq, is_closed) in self._told:
            return
        self._told.add((event.seq, is_closed))
        _log.error(
            "row.unreadable",
            merchant_id=event.merchant_id,
            event_id=str(event.id),
            seq=event.seq,
            is_closed=is_closed,
            failed_reason=FailedReason.UNSENDABLE if is_closed else None,
            error=error,
        )
