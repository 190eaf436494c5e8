"""Claims due rows one by one, outside the order, and attempts each in a task of its own.

Retries hold no lane: they neither wait for first attempts nor hold them up. Their cap per lane is kept
in the database, over all processes.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import structlog

from webhook_dispatcher.dispatch.attempt import (
    ENDPOINT_WAIT,
    KEY_WAIT,
    Attempter,
    Hold,
    finish_unsent,
    reschedule,
)
from webhook_dispatcher.dispatch.health.lanes import Health, LaneHealth, Slots, slow_slots
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Backoff, Stop, sleep
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.domain.claim import START, ClaimedRetry, DueCursor, HandedOn
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StorageError, UnopenedSecret
from webhook_dispatcher.domain.event import FailedReason
from webhook_dispatcher.domain.ports import Claims

POLL = 0.2
"""Seconds between two looks for due rows (I8: a retry starts within a second)."""
MIN_POLL = 0.02
"""The same after attempts were started; it doubles from look to look. Where more of a lane is due than
it has slots, as in a mass retry, the next look fills them again: at POLL, that is ten a second at most."""
ROUND_REST_FACTOR = 4
"""Within a round over lanes that are due, a look that took a second is followed by this many of rest."""
MAX_START_WAIT = 0.5
"""Seconds between claim and start after which a row is rescheduled (contract 3: pause within a second)."""
UNCOUNTED_WAIT = timedelta(seconds=2)
"""How long a row waits whose attempt did not count, since the fault was ours."""
HAND_ON_WAIT = timedelta(seconds=1)
"""How long a row waits that could not be handed on to where its merchant's endpoint is."""
MAX_CLAIM = 200
"""Rows, and lanes, in one claim."""
MAX_TRIALS = 20
"""Suspended lanes that one look has tried, at most."""
TRIAL_WAIT = 1.0
"""Seconds between two looks for suspended lanes to be tried."""
LOOK = 2_000
"""Lanes read in one look."""
BURST = 2
"""Attempts that begin at once. One claim may bring MAX_CLAIM, and first attempts would wait for them all."""
BURST_INTERVAL = 0.001
"""Seconds until the next of them begin, so that what is ready meanwhile has its turn."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """What one process may do at once. `trust` as in Limits; `per_lane` counts over all processes."""

    limit: int
    per_lane: int
    lease: timedelta
    trust: float
    hold: Hold
    suspension_interval: timedelta


class Step(NamedTuple):
    """How many attempts a step has started, and whether it was in the midst of a round over due lanes."""

    started: int
    round_goes_on: bool


class Retrier:
    """The loop that claims due rows and the attempts it started."""

    def __init__(
        self,
        claims: Claims,
        recorder: Recorder,
        attempter: Attempter,
        instruments: Instruments,
        limits: RetryLimits,
        stop: Stop,
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
        self._stop = stop
        self._blocked = instruments.blocked
        self._unreadable = Unreadable(claims, instruments)
        self._health = instruments.health
        self._due = DueLanes(claims, self._health)
        self._in_flight: Counter[str] = Counter()
        self._outage = instruments.outage
        self._pause = instruments.pause
        self._trials_from = self._clock.elapsed()

    async def run(self) -> None:
        """Claim until stopped, then wait for the attempts in flight."""
        backoff, polls = Backoff(), Backoff(POLL, MIN_POLL)
        async with asyncio.TaskGroup() as group:
            while not self._stop.is_set():
                # As first attempts do: a look now and then would find it behind again, time after time.
                await self._recorder.caught_up()
                began = self._clock.elapsed()
                try:
                    started, round_goes_on = await self.step(group)
                except StorageError as error:
                    self._outage.failed(began, error)
                    self._metrics.database_errors.labels("claim_retries").inc()
                    _log.warning("retry_claim.failed", error=str(error))
                    await sleep(backoff.next())
                    continue
                backoff.reset()
                if started:
                    polls.reset()
                else:
                    took = self._clock.elapsed() - began
                    await self._stop.wait_at_most(ROUND_REST_FACTOR * took if round_goes_on else polls.next())

    async def step(self, group: asyncio.TaskGroup) -> Step:
        """Claim what is due and start its attempts in the group; raises StorageError."""
        taken = self._health.tally(list(self._in_flight.elements()))
        slots = Slots(self._limits.limit, taken, self._memory.fullness, self._own_faults.probes)
        limit = await self._claim_limit(slots)
        if limit <= 0:
            return Step(0, round_goes_on=False)
        claimed_at = self._clock.elapsed()
        trials = await self._claim_trials(limit, slots)
        due, round_goes_on = await self._claim(limit, slots)
        claimed = [*trials, *due]
        if any(self._own_faults.is_probe_only(retry.event.lane) for retry in claimed):
            self._own_faults.note_probe()
        for retry in claimed:
            self._memory.reserve(retry.event)
        try:
            lanes = list({retry.event.lane for retry in claimed})
            endpoints = await self._unreadable.read_endpoints(lanes)
            # What can never be sent ends where it is.
            strays = [
                retry.as_stray
                for retry in claimed
                if retry.event.lane not in endpoints and retry.event.fault is None
            ]
            handed_on = await self._unreadable.hand_on(strays, self._database_clock.now())
        except StorageError:
            for retry in claimed:
                self._reschedule(retry, timedelta())
            raise
        for place, retry in enumerate(claimed, start=1):
            lane, endpoint = retry.event.lane, endpoints.get(retry.event.lane)
            fate = handed_on.get(retry.event.seq, HandedOn.NOBODY)
            if fate is HandedOn.MOVED:
                self._memory.free(retry.event)
                continue
            if fate is HandedOn.WAITS:
                self._reschedule(retry, HAND_ON_WAIT)
                continue
            self._in_flight[lane] += 1
            task = group.create_task(self._attempt(retry, endpoint, claimed_at))
            task.add_done_callback(partial(self._finished, lane))
            if not place % BURST:
                await sleep(BURST_INTERVAL)
        return Step(len(claimed), round_goes_on)

    async def _claim_limit(self, slots: Slots) -> int:
        """Return how many rows may be claimed now: one where only a probe may be sent, none where nothing."""
        limit = min(slots.left(Health.HEALTHY), MAX_CLAIM)
        if limit <= 0 or self._pause.is_on or self._memory.fullness >= 1:
            return 0
        if self._outage.is_on and not await self._outage.may_claim(self._claims.check_writable):
            return 0
        if self._own_faults.circuit_is_open:
            return int(self._own_faults.may_probe())
        return limit

    async def _claim(self, limit: int, slots: Slots) -> tuple[Sequence[ClaimedRetry], bool]:
        """Claim due rows; returns them, and whether a round over due lanes goes on."""
        per_lane, lease = self._limits.per_lane, self._limits.lease
        is_calm = 2 * slots.for_anybody > slow_slots(self._limits.limit)
        if is_calm and not self._own_faults.held:
            limit = min(limit, slots.for_anybody)
            return await self._unreadable.claim_longest_due(limit, per_lane, limit, lease), False
        picked = await self._due.pick(slots, per_lane, limit)
        if not picked.lanes:
            return (), picked.round_goes_on
        claimed = await self._unreadable.claim_due_of(picked.lanes, per_lane, limit, lease)
        return claimed, picked.round_goes_on

    async def _claim_trials(self, limit: int, slots: Slots) -> Sequence[ClaimedRetry]:
        """Claim a due row of each of some suspended lanes whose interval is over, once a second."""
        now = self._clock.elapsed()
        limit = min(limit, MAX_TRIALS, slots.left(Health.SLOW))
        if limit <= 0 or now < self._trials_from or self._own_faults.circuit_is_open:
            return ()
        self._trials_from = now + TRIAL_WAIT
        lanes = await self._claims.pick_trials(limit, self._limits.suspension_interval)
        return await self._unreadable.claim_trials(lanes, self._limits.lease) if lanes else ()

    def _finished(self, lane: str, _: asyncio.Task[None]) -> None:
        self._in_flight[lane] -= 1
        if not self._in_flight[lane]:
            del self._in_flight[lane]

    async def _attempt(self, retry: ClaimedRetry, endpoint: Endpoint | None, claimed_at: float) -> None:
        """Attempt a row, or reschedule it. claimed_at: clock reading before the claim was asked for."""
        if not retry.event.is_known:
            # Due at once for a newer daemon, while our claims leave it out.
            self._blocked.find_unknown(retry.event)
            self._reschedule(retry, timedelta())
            return
        if endpoint is None:
            self._settle_unconfigured(retry)
            return
        try:
            secrets = self._attempter.open_secrets(endpoint)
        except UnopenedSecret as error:
            self._attempter.note_unopened(endpoint.lane, error)
            self._reschedule(retry, KEY_WAIT)
            return
        await self._recorder.caught_up()
        # After a long wait a command may have been given since the claim: the next claim obeys it.
        waited = self._clock.elapsed() - claimed_at
        is_late = waited > MAX_START_WAIT or waited >= self._limits.trust
        if self._stop.is_set() or self._pause.is_on or is_late:
            self._reschedule(retry, timedelta())
            return
        record = await self._attempter.attempt(
            retry.event,
            retry.claim,
            True,
            endpoint,
            secrets,
            lambda: self._clock.elapsed() - claimed_at < self._limits.trust,
        )
        if record is None:
            self._reschedule(retry, UNCOUNTED_WAIT)
        else:
            self._recorder.add(record, None)

    def _settle_unconfigured(self, retry: ClaimedRetry) -> None:
        now, reason = self._database_clock.now(), FailedReason.UNSENDABLE
        if retry.event.fault is None:
            reason = FailedReason.NOT_CONFIGURED
            if (ends_at := self._limits.hold.ends_at(retry.event, retry.endpoint_removed_at)) > now:
                self._reschedule(retry, min(ends_at - now, ENDPOINT_WAIT))
                return
        self._recorder.add(finish_unsent(retry.event, retry.claim, True, reason, now), None)

    def _reschedule(self, retry: ClaimedRetry, wait: timedelta) -> None:
        """Release a claimed row without an attempt: it is due again after this wait."""
        now = self._database_clock.now()
        self._recorder.add(reschedule(retry.event, retry.claim, now + wait, now), None)


class Picked(NamedTuple):
    """Lanes whose due rows are to be claimed.

    round_goes_on: the look for others than slow lanes was cut short; the rest of the round is to come.
    """

    lanes: list[str]
    round_goes_on: bool


@dataclass(slots=True)
class _HeldRound:
    """A round of probes over due lanes held back: those that worked lately, or the others.

    to_come: how many more are probed in this round. Those who were probed are due again at its end, as fast
        as it goes on: it would never end by itself, and a lane due before its cursor never be probed.
    """

    has_worked: bool
    cursor: DueCursor = START
    to_come: int = 0

    def next(self, held: Sequence[DueCursor], due: Sequence[DueCursor]) -> DueCursor | None:
        """Return whom to probe, of those that a look behind the cursor found; it ends after as many."""
        if self.to_come <= 0:
            self.to_come = len(held)
        if not held:
            self.cursor = due[-1] if len(due) == LOOK else START
        else:
            self.to_come -= 1
            self.cursor = held[0] if self.to_come > 0 else START
        if self.cursor == START:
            self.to_come = 0
        return held[0] if held else None


class DueLanes:
    """Goes round the lanes that have something due, while slow ones take up many slots or some are held.

    Otherwise the database picks them, the longest due first. That order would put merchants that hang in
    front of all others, since their rows have been due for longest. So then lanes are named here, by cursors
    that go round what is due: one for slow ones, which have few slots and take turns at them, one for those
    held back, which are probed in turn, and one for the rest, which are not to wait behind them. A look reads
    lanes, never their rows.

    Every other probe goes to one held back that worked lately, so that those of whom nothing good is known do
    not keep all others waiting for theirs.
    """

    def __init__(self, claims: Claims, health: LaneHealth) -> None:
        self._claims = claims
        self._health = health
        self._slow_from = self._others_from = START
        self._held_rounds = [_HeldRound(has_worked=False), _HeldRound(has_worked=True)]

    async def pick(self, slots: Slots, per_lane: int, limit: int) -> Picked:
        """Name due lanes that may have slots, `per_lane` of them each; `limit` slots in all."""
        picked, self._others_from = await self._look(
            self._others_from, slots, per_lane, limit, (Health.UNKNOWN, Health.HEALTHY)
        )
        round_goes_on = self._others_from != START
        left = limit - per_lane * len(picked)
        if left > 0 and slots.left(Health.SLOW) > 0:
            slow, self._slow_from = await self._look(self._slow_from, slots, per_lane, left, (Health.SLOW,))
            picked = picked + slow
        if limit > per_lane * len(picked) and slots.left(Health.HELD_BACK) > 0:
            picked = picked + await self._pick_held(slots, per_lane)
        return Picked(picked, round_goes_on)

    async def _pick_held(self, slots: Slots, per_lane: int) -> list[str]:
        """Pick the one of those held back that is probed next."""
        self._held_rounds.reverse()
        for held_round in self._held_rounds:
            due = await self._claims.find_due(held_round.cursor, LOOK)
            held = [
                cursor
                for cursor in due
                if self._health.of(cursor.lane) is Health.HELD_BACK
                and self._health.has_worked(cursor.lane) is held_round.has_worked
            ]
            probed = held_round.next(held, due)
            if probed is not None and slots.take(Health.HELD_BACK, per_lane):
                return [probed.lane]
        return []

    async def _look(
        self, cursor: DueCursor, slots: Slots, per_lane: int, limit: int, kinds: Sequence[Health]
    ) -> tuple[list[str], DueCursor]:
        """Pick from the lanes behind a cursor; returns where to go on, the start when the round is over."""
        due = await self._claims.find_due(cursor, LOOK)
        picked: list[str] = []
        for found in due:
            health = self._health.of(found.lane)
            if health in kinds and slots.take(health, per_lane):
                picked.append(found.lane)
            if len(picked) * per_lane >= limit or max(map(slots.left, kinds)) <= 0:
                return picked, found
        return picked, due[-1] if len(due) == LOOK else START
