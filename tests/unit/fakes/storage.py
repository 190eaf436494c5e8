"""The ports to storage, on a database in memory."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from tests.unit.fakes.database import FakeDatabase, Owed
from webhook_dispatcher.domain.claim import (
    START,
    Arrival,
    Arrivals,
    ClaimedRetry,
    DueCursor,
    DueRow,
    HandedOn,
    Leased,
    Recalls,
    RouteAsk,
    Routed,
    RouteFate,
    RunAsk,
    Stray,
    SweptLane,
)
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StatementRefused, StorageUnavailable
from webhook_dispatcher.domain.event import Event, State
from webhook_dispatcher.domain.record import UNWANTED, LaneTurn, Record, Written
from webhook_dispatcher.domain.verdict import Outcome


class FakeClaims:
    """Claims of a FakeDatabase."""

    def __init__(self, database: FakeDatabase) -> None:
        self.database = database
        self.retries: list[ClaimedRetry] = []
        self.due_since: dict[str, str] = {}
        self.looks: list[DueCursor] = []
        self.leases_asked: list[dict[str, int]] = []
        self.reads: list[list[RunAsk]] = []
        self.read_gate: asyncio.Event | None = None
        self.after_lease: Callable[[], object] = lambda: None
        self.on_read_endpoints: Callable[[], object] = lambda: None
        self.missing: set[str] = set()
        self.being_made: set[str] = set()
        self.created: list[str] = []
        self.create_gate: asyncio.Event | None = None
        self.recalls: deque[Recalls] = deque()
        self.closed: list[int] = []
        self.later: list[str] = []
        self.trials: list[str] = []
        self.trial_looks = 0
        self.routes: deque[Routed | StatementRefused] = deque()
        self.route_asks: list[RouteAsk] = []
        self.route_gate: asyncio.Event | None = None
        self.alone: list[str] = []
        self.fates: dict[int, HandedOn] = {}
        self.strays: list[Stray] = []
        self.after_find: Callable[[], object] = lambda: None
        self.handed_on: list[list[int]] = []

    async def read_arrivals(self, cursor: int, most: int) -> Arrivals:
        self.database.fail("read_arrivals")
        behind = [Arrival(seq, owed.event.lane) for seq, owed in sorted(self.database.owed.items())]
        seen = [arrival for arrival in behind if arrival.seq > cursor and self._in_order(arrival.seq)][:most]
        now = self.database.clock.now
        return Arrivals(
            self.database.last_seq, 1, 1, now, self.database.server_started_at, tuple(seen), len(seen) == most
        )

    async def read_gaps(self, gaps: Sequence[tuple[int, int]], most: int) -> list[Arrival]:
        self.database.fail("read_gaps")
        return [
            Arrival(seq, self.database.owed[seq].event.lane)
            for low, high in gaps
            for seq in sorted(self.database.owed)
            if low <= seq <= high and self._in_order(seq)
        ]

    async def sweep(self, after_lane: str, page_size: int) -> list[SweptLane]:
        raise NotImplementedError

    async def lease(self, heads: Mapping[str, int], lease: timedelta) -> Leased:
        self.leases_asked.append(dict(heads))
        self.database.fail("lease")
        if not self.database.unchangeable_lanes.isdisjoint(heads):
            raise StatementRefused("22003", "bigint out of range")
        self.after_lease()
        missing = tuple(name for name in heads if name in self.missing)
        found = {name: self.database.lanes[name] for name in heads if name not in missing}
        for name, lane in found.items():
            lane.from_seq = min(lane.from_seq, heads[name] - 1)
        return Leased(
            tuple(
                self.database.lease(n) for n, lane in found.items() if not (lane.is_leased or lane.is_locked)
            ),
            missing,
            tuple(name for name, lane in found.items() if lane.is_locked),
        )

    async def check_writable(self) -> None:
        self.database.fail("check_writable")

    async def create_lanes(self, lanes: Sequence[str]) -> tuple[str, ...]:
        self.database.fail("create_lanes")
        self.created += lanes
        if self.create_gate is not None:
            await self.create_gate.wait()
        self.missing -= set(lanes)
        return tuple(name for name in lanes if name in self.being_made)

    async def read_runs(self, asks: Sequence[RunAsk]) -> dict[str, list[Event]]:
        self.reads.append(list(asks))
        runs = {ask.lane: self._run(ask) for ask in asks}
        if self.read_gate is not None:
            await self.read_gate.wait()
        self.database.fail("read_runs")
        self.database.read(event.seq for run in runs.values() for event in run)
        return {lane: run for lane, run in runs.items() if run}

    def _run(self, ask: RunAsk) -> list[Event]:
        run: list[Event] = []
        for seq, owed in sorted(self.database.owed.items()):
            is_full = len(run) == ask.max_events or sum(len(e.object) for e in run) >= ask.max_bytes
            if seq > ask.after_seq and owed.event.lane == ask.lane and not is_full:
                run += [owed.event] * self._in_order(seq)
        return run

    def _in_order(self, seq: int) -> bool:
        return self.database.owed[seq].is_in_order

    async def read_endpoints(self, lanes: Sequence[str]) -> dict[str, Endpoint]:
        self.on_read_endpoints()
        self.database.fail("read_endpoints")
        if not self.database.unreadable_endpoints.isdisjoint(lanes):
            raise StatementRefused("XX001", "missing chunk number 0")
        return {name: self.database.endpoints[name] for name in lanes if name in self.database.endpoints}

    async def route(self, ask: RouteAsk, lease: timedelta) -> Routed:
        """Answer what was put down for it, else that nothing is left; the lane goes by the answer."""
        self.route_asks.append(ask)
        if self.route_gate is not None:
            await self.route_gate.wait()
        self.database.fail("route")
        routed = self.routes.popleft() if self.routes else Routed(RouteFate.RELEASED)
        if isinstance(routed, StatementRefused):
            raise routed
        if routed.fate in (RouteFate.RELEASED, RouteFate.ALONE):
            self.database.lanes[ask.lease.lane].is_leased = False
        return routed

    async def serve_unrouted(self) -> None:
        self.database.fail("serve_unrouted")

    async def find_alone(self) -> list[str]:
        return list(self.alone)

    async def become_direct(self, merchant_id: str) -> bool:
        self.database.fail("become_direct")
        is_direct = merchant_id in self.alone
        if is_direct:
            self.alone.remove(merchant_id)
            self.database.lanes[merchant_id].is_routed = False
        return is_direct

    async def find_strays(
        self, max_rows: int, max_bytes: int, except_seqs: Sequence[int] = ()
    ) -> list[Stray]:
        self.after_find()
        return [stray for stray in self.strays if stray.seq not in except_seqs][:max_rows]

    async def hand_on(self, strays: Sequence[Stray], at: datetime) -> dict[int, HandedOn]:
        asked = [stray.seq for stray in strays]
        self.handed_on.append(asked)
        self.database.fail("hand_on")
        for seq in asked:
            if self.fates.get(seq) is HandedOn.MOVED:
                self.database.owed.pop(seq, None)
                self.strays = [stray for stray in self.strays if stray.seq != seq]
        return {seq: self.fates.get(seq, HandedOn.NOBODY) for seq in asked}

    async def read_recalls(self) -> Recalls:
        self.database.fail("read_recalls")
        return self.recalls.popleft()

    async def mend_retries(self, after_lane: str, page_size: int) -> list[tuple[str, bool]]:
        raise NotImplementedError

    async def find_due(self, after: DueCursor, most: int) -> list[DueCursor]:
        self.database.fail("find_due")
        self.looks.append(after)
        lanes = dict.fromkeys(retry.event.lane for retry in self.retries)
        due = sorted(DueCursor(self.due_since.get(name, "0"), name) for name in lanes)
        return [lane for lane in due if after == START or lane > after][:most]

    async def claim_longest_due(
        self, lanes: int, per_lane: int, most: int, lease: timedelta, except_seqs: Sequence[int] = ()
    ) -> list[ClaimedRetry]:
        self.database.fail("claim_longest_due")
        return self._claim(self.retries, most, except_seqs)

    async def claim_due_of(
        self,
        lanes: Sequence[str],
        per_lane: int,
        most: int,
        lease: timedelta,
        except_seqs: Sequence[int] = (),
    ) -> list[ClaimedRetry]:
        self.database.fail("claim_due_of")
        wanted = [retry for retry in self.retries if retry.event.lane in lanes]
        return self._claim(wanted, most, except_seqs)

    def _claim(
        self, wanted: Sequence[ClaimedRetry], most: int, except_seqs: Sequence[int]
    ) -> list[ClaimedRetry]:
        wanted = [retry for retry in wanted if retry.event.lane not in self.later]
        claimed = [retry for retry in wanted if retry.event.seq not in except_seqs][:most]
        self._try(retry.event.seq for retry in claimed)
        if not self.database.unchangeable.isdisjoint(retry.event.seq for retry in claimed):
            raise StatementRefused("XX002", "index outbox_due contains unexpected zero page")
        self.retries = [retry for retry in self.retries if retry not in claimed]
        for retry in claimed:
            self.database.owed[retry.event.seq] = Owed(retry.event, False, retry.claim)
        return claimed

    def _try(self, seqs: Iterable[int]) -> None:
        seqs = list(seqs)
        self.database.read(seqs)
        if not self.database.unclaimable.isdisjoint(seqs):
            raise StatementRefused("23514", "breaks a rule")

    async def read_next(self, lane: str, after_seq: int) -> Event | None:
        self.database.fail("read_next")
        run = self._run(RunAsk(lane, after_seq, 1, 1, self.database.server_started_at))
        return run[0]._replace(object=b"") if run else None

    async def name_due(self, lanes: Sequence[str], per_lane: int, except_seqs: Sequence[int]) -> list[DueRow]:
        self.database.fail("name_due")
        if not self.database.unnamed.isdisjoint(lanes):
            raise StatementRefused("XX001", "invalid page in block 7")
        events = [retry.event for retry in self.retries if retry.event.seq not in except_seqs]
        return [
            DueRow(event.lane, event.seq, event.id)
            for lane in lanes
            for event in [event for event in events if event.lane == lane][:per_lane]
        ]

    async def try_rows(self, rows: Sequence[DueRow]) -> None:
        self.database.fail("try_rows")
        self._try(row.seq for row in rows)

    async def close_row(self, row: DueRow) -> tuple[State, str] | None:
        self.database.fail("close_row")
        self.retries = [retry for retry in self.retries if retry.event.seq != row.seq]
        self.closed.append(row.seq)
        return State.FAILED, "charge.created"

    async def pick_trials(self, most: int, interval: timedelta) -> list[str]:
        self.database.fail("pick_trials")
        self.trial_looks += 1
        picked, self.trials = self.trials[:most], self.trials[most:]
        return picked

    async def claim_trials(
        self, lanes: Sequence[str], lease: timedelta, except_seqs: Sequence[int]
    ) -> list[ClaimedRetry]:
        self.database.fail("claim_trials")
        first = {retry.event.lane: retry for retry in reversed(self.retries)}
        later, self.later = self.later, []
        try:
            return self._claim([first[name] for name in lanes if name in first], len(lanes), except_seqs)
        finally:
            self.later = later

    async def look_later(self, lanes: Sequence[str], wait: timedelta) -> None:
        self.later += lanes


class FakeRecords:
    """Records of a FakeDatabase, with its fences.

    loses_answers: of the next statements, whether each is committed but reported as failed.
    times_out_beyond: so many records take longer than a statement may.
    refuses_fallen: a damaged row is met even under a fence that has fallen, as where the index is damaged.
    refused: seqs whose values the database refuses; those in `hopeless` whatever is left out.
    """

    def __init__(self, database: FakeDatabase) -> None:
        self.database = database
        self.loses_answers: deque[bool] = deque()
        self.refuses_fallen = True
        self.refused: set[int] = set()
        self.hopeless: set[int] = set()
        self.refuses_late: set[int] = set()
        self.statements: list[tuple[list[int], list[LaneTurn]]] = []
        self.written: list[Record] = []
        self.late: list[Record] = []
        self.gate: asyncio.Event | None = None
        self.times_out_beyond = sys.maxsize
        self.takes = 0.0

    async def write(self, records: Sequence[Record], turns: Sequence[LaneTurn], lease: timedelta) -> Written:
        seqs = [record.event.seq for record in records]
        assert len(set(seqs)) == len(seqs), "the same seq twice in one statement"
        self.statements.append((seqs, list(turns)))
        if self.gate is not None:
            await self.gate.wait()
        self.database.fail("write")
        self.database.clock.advance(self.takes)
        if max(len(records), len(turns)) > self.times_out_beyond:
            raise StorageUnavailable("it did not answer in time")
        for record in records:
            seq = record.event.seq
            if seq in self.database.damaged and (self.refuses_fallen or self._is_ours(record)):
                raise StatementRefused("XX001", "missing chunk number 0")
            is_plain = record.attempt is None or record.attempt.outcome is Outcome.UNSENDABLE
            if record.event.seq in (self.hopeless if is_plain else self.hopeless | self.refused):
                raise StatementRefused("22000", "refused")
        written = self._apply(records, turns)
        if self.loses_answers and self.loses_answers.popleft():
            raise StorageUnavailable("the answer was lost")
        return written

    def _apply(self, records: Sequence[Record], turns: Sequence[LaneTurn]) -> Written:
        owned = [record for record in records if self._is_ours(record) and not self._is_locked(record)]
        for record in owned:
            seq = record.event.seq
            self.written.append(record)
            if record.state is None:
                self.database.owed[seq].is_in_order, self.database.owed[seq].claim = False, None
            else:
                del self.database.owed[seq]
                self.database.finished[seq] = record
        return self._turn({record.event.seq for record in owned}, records, turns)

    def _turn(self, seqs: set[int], records: Sequence[Record], turns: Sequence[LaneTurn]) -> Written:
        lists: dict[str, list[str]] = {"kept": [], "released": [], "recalled": [], "lost": []}
        for turn in turns:
            lane = self.database.lanes[turn.lease.lane]
            mine = {r.event.seq for r in records if r.event.lane == turn.lease.lane and not r.is_retry}
            if lane.is_locked:
                continue
            if lane.epoch != turn.lease.epoch:
                lists["lost"].append(turn.lease.lane)
                continue
            is_released = turn.is_over and mine <= seqs
            lists["released" if is_released else "kept"].append(turn.lease.lane)
            lists["recalled"] += [turn.lease.lane] * lane.is_recalled
            if is_released:
                lane.is_leased, lane.is_recalled, lane.wait_until = False, False, turn.wait_until
            if mine <= seqs:
                lane.from_seq = max(lane.from_seq, turn.reach)
        return Written(frozenset(seqs), **{name: tuple(names) for name, names in lists.items()})

    def _is_ours(self, record: Record) -> bool:
        row = self.database.owed.get(record.event.seq)
        if row is None:
            return False
        if record.is_retry:
            return row.claim == record.fence
        lane = self.database.lanes[record.event.lane]
        if record.state == UNWANTED and lane.is_recalled:
            return False
        return row.is_in_order and lane.epoch == record.fence

    def _is_locked(self, record: Record) -> bool:
        lane = self.database.lanes[record.event.lane]
        return lane.is_locked or self.database.owed[record.event.seq].is_locked

    async def read_unwritten(self, records: Sequence[Record]) -> frozenset[int]:
        self.database.fail("read_unwritten")
        return frozenset(record.event.seq for record in records if self._is_ours(record))

    async def write_late(self, record: Record) -> bool:
        self.database.fail("write_late")
        if record.event.seq in self.database.damaged & set(self.database.owed):
            raise StatementRefused("XX001", "missing chunk number 0")
        if record.event.seq in self.refuses_late:
            raise StatementRefused("22000", "refused")
        self.late.append(record)
        return True

    async def is_unreadable(self, seq: int) -> bool:
        self.database.fail("is_unreadable")
        return seq in self.database.damaged
