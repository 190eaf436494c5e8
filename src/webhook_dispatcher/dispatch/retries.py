"""Claims due rows one by one, outside the order, and attempts each in a task of its own.

Retries hold no lane: they neither wait for first attempts nor hold them up. Their cap per merchant is kept
in the database, over all processes.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from webhook_dispatcher.dispatch.attempt import Attempter
from webhook_dispatcher.dispatch.due import DueLanes
from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.dispatch.pace import Backoff, Stop, pause
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.standing import Room, Standing, suspect_places
from webhook_dispatcher.dispatch.unattempted import (
    KEY_WAIT,
    RETRY_WAIT,
    Hold,
    fail_unconfigured,
    fail_unsendable,
    hand_back,
)
from webhook_dispatcher.dispatch.unreadable import Unreadable
from webhook_dispatcher.domain.claim import ClaimedRetry
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import StorageError, UnknownKey
from webhook_dispatcher.domain.ports import Claims

POLL = 0.2
"""Seconds between two looks for due rows (I8: a retry starts within a second)."""
REST = 4
"""Within a round over lanes that are due, a look that took a second is followed by this many of rest."""
LONGEST_WAIT = 0.5
"""Seconds between claim and start after which a row is handed back (contract 3: pause within a second)."""
UNCOUNTED_WAIT = timedelta(seconds=2)
"""How long a row waits whose attempt did not count, since the fault was ours."""
CLAIM_LANES = 200
"""Most merchants in one claim."""

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
        lack_key: Callable[[UnknownKey], None],
        stop: Stop,
    ) -> None:
        self._recorder = recorder
        self._attempter = attempter
        self._bodies = instruments.bodies
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._faults = instruments.faults
        self._metrics = instruments.metrics
        self._limits = limits
        self._lack_key = lack_key
        self._stop = stop
        self._blocked = instruments.blocked
        self._unreadable = Unreadable(claims, instruments)
        self._standings = instruments.standings
        self._due = DueLanes(claims, self._standings)
        self._in_flight: Counter[str] = Counter()
        self._absence = instruments.absence
        self._probe = lambda: claims.lease({}, limits.lease, "")
        self.everything_is_paused = False

    async def run(self) -> None:
        """Claim until stopped, then wait for the attempts in flight."""
        backoff = Backoff()
        async with asyncio.TaskGroup() as group:
            while not self._stop.is_set():
                asked = self._clock.elapsed()
                try:
                    claimed = await self.step(group)
                except StorageError as error:
                    self._absence.failed(asked, error)
                    self._metrics.database_errors.labels("claim_retries").inc()
                    _log.warning("retry_claim.failed", error=str(error))
                    await pause(backoff.next())
                    continue
                backoff.reset()
                if not claimed:
                    took = self._clock.elapsed() - asked
                    await self._stop.wait_at_most(REST * took if self._due.is_under_way else POLL)

    async def step(self, group: asyncio.TaskGroup) -> int:
        """Claim what is due and start it; return how much that was."""
        self._due.is_under_way = False
        room = self._room()
        most = min(room.left(Standing.GOOD), CLAIM_LANES)
        if (
            most <= 0
            or self.everything_is_paused
            or self._recorder.is_behind()
            or not self._bodies.has_room()
            or not await self._absence.may_claim(self._probe)
        ):
            return 0
        if self._faults.is_open:
            if not self._faults.takes_probe():
                return 0
            most = 1
        asked = self._clock.elapsed()
        claimed = await self._claim(most, room)
        if not claimed:
            return 0
        if any(self._faults.pauses(retry.event.merchant_id) for retry in claimed):
            self._faults.note_probe()
        for retry in claimed:
            self._bodies.hold(retry.event)
        try:
            merchants = list({retry.event.merchant_id for retry in claimed})
            endpoints = await self._unreadable.read_endpoints(merchants)
        except StorageError:
            for retry in claimed:
                self._hand_back(retry, timedelta())
            raise
        for retry in claimed:
            self._in_flight[retry.event.merchant_id] += 1
            endpoint = endpoints.get(retry.event.merchant_id)
            task = group.create_task(self._attempt(retry, endpoint, asked + self._limits.trust))
            task.add_done_callback(partial(self._landed, retry.event.merchant_id))
        return len(claimed)

    def _room(self) -> Room:
        taken = self._standings.tally(list(self._in_flight.elements()))
        return Room(self._limits.most, taken, self._bodies.fullness, self._faults.probes)

    async def _claim(self, most: int, room: Room) -> Sequence[ClaimedRetry]:
        places, lease = self._limits.per_merchant, self._limits.lease
        lanes: int | list[str]
        is_calm = 2 * room.for_anybody > suspect_places(self._limits.most)
        if is_calm and not self._faults.suspicions.held:
            lanes = most = min(most, room.for_anybody)
        elif not (lanes := await self._due.pick(room, places, most)):
            return []
        return await self._unreadable.claim_retries(lanes, places, most, lease)

    def _landed(self, merchant_id: str, _: asyncio.Task[None]) -> None:
        self._in_flight[merchant_id] -= 1
        if not self._in_flight[merchant_id]:
            del self._in_flight[merchant_id]

    async def _attempt(self, retry: ClaimedRetry, endpoint: Endpoint | None, trusted_until: float) -> None:
        if not retry.event.is_known:
            # Due at once for a newer daemon, while our claims leave it out.
            self._blocked.find_unknown(retry.event)
            self._hand_back(retry, timedelta())
            return
        if endpoint is None:
            self._settle_unconfigured(retry)
            return
        try:
            secrets = self._attempter.open_secrets(endpoint)
        except UnknownKey as error:
            self._lack_key(error)
            self._hand_back(retry, KEY_WAIT)
            return
        asked = self._clock.elapsed()
        await self._recorder.caught_up()
        now = self._clock.elapsed()
        # After a long wait a command may have been given since the claim: the next claim obeys it.
        has_waited = now - asked > LONGEST_WAIT
        if self._stop.is_set() or self.everything_is_paused or has_waited or now >= trusted_until:
            self._hand_back(retry, timedelta())
            return
        record = await self._attempter.attend(retry.event, retry.claim, True, endpoint, secrets)
        if record is None:
            self._hand_back(retry, UNCOUNTED_WAIT)
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
            self._recorder.add(hand_back(retry.event, retry.claim, looks_again_at, now), None)
        else:
            self._recorder.add(fail_unconfigured(retry.event, retry.claim, True, now), None)

    def _hand_back(self, retry: ClaimedRetry, wait: timedelta) -> None:
        now = self._database_clock.now()
        self._recorder.add(hand_back(retry.event, retry.claim, now + wait, now), None)
