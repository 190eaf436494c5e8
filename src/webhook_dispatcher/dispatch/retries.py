"""Claims due rows one by one, outside the order, and attempts each in a task of its own.

Retries hold no lane: they neither wait for first attempts nor hold them up. Their cap per merchant is kept
in the database, over all processes.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from webhook_dispatcher.dispatch.attempt import (
    KEY_WAIT,
    RETRY_WAIT,
    Attempter,
    Hold,
    fail_unconfigured,
    fail_unsendable,
    reschedule,
)
from webhook_dispatcher.dispatch.health.merchants import Health, MerchantHealth, Slots, suspect_slots
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Backoff, Stop, sleep
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.domain.claim import START, ClaimedRetry, DueCursor
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StorageError, UnknownKey
from webhook_dispatcher.domain.ports import Claims

POLL = 0.2
"""Seconds between two looks for due rows (I8: a retry starts within a second)."""
REST = 4
"""Within a round over lanes that are due, a look that took a second is followed by this many of rest."""
MAX_START_DELAY = 0.5
"""Seconds between claim and start after which a row is rescheduled (contract 3: pause within a second)."""
UNCOUNTED_WAIT = timedelta(seconds=2)
"""How long a row waits whose attempt did not count, since the fault was ours."""
CLAIM_LANES = 200
"""Most merchants in one claim."""
LOOK = 2_000
"""Lanes read in one look."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """What one process may do at once. `trust` as in Limits; `per_merchant` counts over all processes."""

    most: int
    per_merchant: int
    lease: timedelta
    trust: float
    hold: Hold


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
        self._merchants = instruments.merchants
        self._due = DueLanes(claims, self._merchants)
        self._in_flight: Counter[str] = Counter()
        self._outage = instruments.outage
        self._pause = instruments.pause

    async def run(self) -> None:
        """Claim until stopped, then wait for the attempts in flight."""
        backoff = Backoff()
        async with asyncio.TaskGroup() as group:
            while not self._stop.is_set():
                asked = self._clock.elapsed()
                try:
                    claimed = await self.step(group)
                except StorageError as error:
                    self._outage.failed(asked, error)
                    self._metrics.database_errors.labels("claim_retries").inc()
                    _log.warning("retry_claim.failed", error=str(error))
                    await sleep(backoff.next())
                    continue
                backoff.reset()
                if not claimed:
                    took = self._clock.elapsed() - asked
                    await self._stop.wait_at_most(REST * took if self._due.is_under_way else POLL)

    async def step(self, group: asyncio.TaskGroup) -> int:
        """Claim what is due and start it; return how much that was."""
        self._due.is_under_way = False
        slots = self._free_slots()
        most = min(slots.left(Health.HEALTHY), CLAIM_LANES)
        if (
            most <= 0
            or self._pause.is_on
            or self._recorder.is_behind()
            or self._memory.fullness >= 1
            or (self._outage.is_on and not await self._outage.may_claim(self._claims.check_writable))
        ):
            return 0
        if self._own_faults.circuit_is_open:
            if not self._own_faults.may_probe():
                return 0
            most = 1
        asked = self._clock.elapsed()
        claimed = await self._claim(most, slots)
        if not claimed:
            return 0
        if any(self._own_faults.is_probe_only(retry.event.merchant_id) for retry in claimed):
            self._own_faults.note_probe()
        for retry in claimed:
            self._memory.reserve(retry.event)
        try:
            merchants = list({retry.event.merchant_id for retry in claimed})
            endpoints = await self._unreadable.read_endpoints(merchants)
        except StorageError:
            for retry in claimed:
                self._reschedule(retry, timedelta())
            raise
        for retry in claimed:
            self._in_flight[retry.event.merchant_id] += 1
            endpoint = endpoints.get(retry.event.merchant_id)
            task = group.create_task(self._attempt(retry, endpoint, asked + self._limits.trust))
            task.add_done_callback(partial(self._finished, retry.event.merchant_id))
        return len(claimed)

    def _free_slots(self) -> Slots:
        taken = self._merchants.tally(list(self._in_flight.elements()))
        return Slots(self._limits.most, taken, self._memory.fullness, self._own_faults.probes)

    async def _claim(self, most: int, slots: Slots) -> Sequence[ClaimedRetry]:
        per_merchant, lease = self._limits.per_merchant, self._limits.lease
        lanes: int | list[str]
        is_calm = 2 * slots.for_anybody > suspect_slots(self._limits.most)
        if is_calm and not self._own_faults.held:
            lanes = most = min(most, slots.for_anybody)
        elif not (lanes := await self._due.pick(slots, per_merchant, most)):
            return []
        return await self._unreadable.claim_retries(lanes, per_merchant, most, lease)

    def _finished(self, merchant_id: str, _: asyncio.Task[None]) -> None:
        self._in_flight[merchant_id] -= 1
        if not self._in_flight[merchant_id]:
            del self._in_flight[merchant_id]

    async def _attempt(self, retry: ClaimedRetry, endpoint: Endpoint | None, trusted_until: float) -> None:
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
        except UnknownKey:
            self._reschedule(retry, KEY_WAIT)
            return
        asked = self._clock.elapsed()
        await self._recorder.caught_up()
        now = self._clock.elapsed()
        # After a long wait a command may have been given since the claim: the next claim obeys it.
        has_waited = now - asked > MAX_START_DELAY
        if self._stop.is_set() or self._pause.is_on or has_waited or now >= trusted_until:
            self._reschedule(retry, timedelta())
            return
        record = await self._attempter.attempt(retry.event, retry.claim, True, endpoint, secrets)
        if record is None:
            self._reschedule(retry, UNCOUNTED_WAIT)
        else:
            self._recorder.add(record, None)

    def _settle_unconfigured(self, retry: ClaimedRetry) -> None:
        now = self._database_clock.now()
        if retry.event.fault is not None:
            self._recorder.add(fail_unsendable(retry.event, retry.claim, True, now), None)
            return
        ends_at = self._limits.hold.ends_at(retry.event, retry.endpoint_removed_at)
        if ends_at > now:
            looks_again_at = min(ends_at, now + RETRY_WAIT)
            self._recorder.add(reschedule(retry.event, retry.claim, looks_again_at, now), None)
        else:
            self._recorder.add(fail_unconfigured(retry.event, retry.claim, True, now), None)

    def _reschedule(self, retry: ClaimedRetry, wait: timedelta) -> None:
        now = self._database_clock.now()
        self._recorder.add(reschedule(retry.event, retry.claim, now + wait, now), None)


class DueLanes:
    """Goes round the lanes that have something due, while suspects take up many slots or some are held.

    Otherwise the database picks them, the longest due first. That order would put merchants that hang in
    front of all others, since their rows have been due for longest. So then lanes are named here, by cursors
    that go round what is due: one for suspects, who have few slots and take turns at them, one for those held
    back, who are probed in turn, and one for the rest, who are not to wait behind them. A look reads lanes,
    one for each merchant, never their rows.

    is_under_way: the last look for others than suspects was cut; the rest of the round is to come.
    _held_to_come: how many more are probed in this round. Those who were probed are due again at its end, as
        fast as it goes on: it would never end by itself, and a lane due before its cursor never be probed.
    """

    def __init__(self, claims: Claims, merchants: MerchantHealth) -> None:
        self._claims = claims
        self._merchants = merchants
        self._suspects_from = self._others_from = self._held_from = START
        self._held_to_come = 0
        self.is_under_way = False

    async def pick(self, slots: Slots, per_merchant: int, most: int) -> list[str]:
        """Name due lanes that may have slots, each `per_merchant` of them; at most `most` slots in all."""
        others, self._others_from = await self._look(
            self._others_from, slots, per_merchant, most, (Health.UNKNOWN, Health.HEALTHY)
        )
        self.is_under_way = self._others_from != START
        picked = others
        left = most - per_merchant * len(picked)
        if left > 0 and slots.left(Health.SUSPECT) > 0:
            suspects, self._suspects_from = await self._look(
                self._suspects_from, slots, per_merchant, left, (Health.SUSPECT,)
            )
            picked = picked + suspects
        left = most - per_merchant * len(picked)
        if left > 0 and slots.left(Health.HELD_BACK) > 0:
            picked = picked + await self._pick_held(slots, per_merchant, left)
        return picked

    async def _pick_held(self, slots: Slots, per_merchant: int, most: int) -> list[str]:
        """Pick of those held back; a round ends after as many as its first look that found any has found."""
        due = await self._claims.find_due(self._held_from, LOOK)
        if self._held_to_come <= 0:
            self._held_to_come = sum(self._merchants.of(lane.merchant_id) is Health.HELD_BACK for lane in due)
        picked, self._held_from = self._choose(due, slots, per_merchant, most, (Health.HELD_BACK,))
        self._held_to_come -= len(picked)
        if picked and self._held_to_come <= 0:
            self._held_from = START
        if self._held_from == START:
            self._held_to_come = 0
        return picked

    async def _look(
        self, cursor: DueCursor, slots: Slots, per_merchant: int, most: int, kinds: Sequence[Health]
    ) -> tuple[list[str], DueCursor]:
        """Pick from the lanes behind a cursor; returns where to go on, the start when the round is over."""
        return self._choose(await self._claims.find_due(cursor, LOOK), slots, per_merchant, most, kinds)

    def _choose(
        self, due: Sequence[DueCursor], slots: Slots, per_merchant: int, most: int, kinds: Sequence[Health]
    ) -> tuple[list[str], DueCursor]:
        picked: list[str] = []
        for lane in due:
            health = self._merchants.of(lane.merchant_id)
            if health in kinds and slots.take(health, per_merchant):
                picked.append(lane.merchant_id)
            if len(picked) * per_merchant >= most or max(map(slots.left, kinds)) <= 0:
                return picked, lane
        return picked, due[-1] if len(due) == LOOK else START
