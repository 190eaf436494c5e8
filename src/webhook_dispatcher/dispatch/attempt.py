"""One attempt: render, sign, send, judge; and the records of rows that are finished without being sent.

Whatever is wrong with a row, a URL or an answer becomes an outcome, not an exception. What counts as a
time-out is decided by the sender (transport), what counts as slow by health.lanes.SLOW, and whether a failure
counts against the merchant by own_faults.
Four kinds of rows are not sent: the merchant has no endpoint, or one that does not want them; its secret
cannot be opened (or we lack its key); the row itself breaks a rule (Event.fault).
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import structlog

from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.domain.endpoint import Endpoint
from webhook_dispatcher.domain.errors import UnknownKey, UnopenedSecret
from webhook_dispatcher.domain.event import MIN_CREATED_AT, Event, FailedReason, State
from webhook_dispatcher.domain.lane import told
from webhook_dispatcher.domain.names import DEFAULT_NAMES, Names
from webhook_dispatcher.domain.ports import Sender
from webhook_dispatcher.domain.record import UNWANTED, Attempt, Record
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.signing import (
    Keyring,
    Secret,
    is_signed,
    is_standard_signed,
    signature,
    standard_headers,
)
from webhook_dispatcher.domain.verdict import NOT_SENT, Answer, Failure, Outcome, judge, may_always

DOUBT_SIGNATURE = frozenset((400, 401, 403))
"""Statuses that receivers answer with when they cannot verify a signature: ours is verified then, and where
it is right the attempt has failed as by any other status."""
KEY_WAIT = timedelta(seconds=5)
"""Until a secret that does not open is tried again: it may have been replaced meanwhile."""
KEY_REPORT_TIME = 60.0
"""Seconds for which a key that is missing, or a secret that did not open, is reported."""
ENDPOINT_WAIT = timedelta(seconds=30)
"""Until a due row whose merchant has no endpoint is claimed again, to see whether it has one now."""
# Unsendable is final where the row is at fault. This is ours, and counts for nothing but a test event.
_BADLY_SIGNED = Failure(Outcome.UNSENDABLE, "our own signature does not verify", is_ours=True)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Hold:
    """How long events of a merchant without an endpoint wait for one (contract 5, UNCONFIGURED_HOLD)."""

    duration: timedelta

    def ends_at(self, event: Event, endpoint_removed_at: datetime | None) -> datetime:
        """Return when an event without endpoint fails: at once if its endpoint was removed after it.

        So does one for an endpoint whose number is above 1, which is given once.
        """
        if (event.endpoint or 1) > 1:
            return MIN_CREATED_AT
        if endpoint_removed_at is not None and event.created_at <= endpoint_removed_at:
            return event.created_at
        return event.created_at + self.duration


class Attempter:
    """Makes attempts and turns them into records.

    names: of headers and signatures, from the next request on.
    missing_keys, unopened: when each key was last missing, and when each endpoint's secret last did not open
        although its key is there, for a delivery that waits (clock reading in seconds).
    """

    def __init__(
        self,
        sender: Sender,
        keyring: Keyring,
        schedule: Schedule,
        instruments: Instruments,
        names: Names = DEFAULT_NAMES,
    ) -> None:
        self.names = names
        self._sender = sender
        self._keyring = keyring
        self.schedule = schedule
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._own_faults = instruments.own_faults
        self._metrics = instruments.metrics
        self._health = instruments.health
        # Bound once: structlog's lazy logger would look up its configuration at each call.
        self._log = _log.bind()
        self._logged: set[str] = set()
        self.missing_keys: dict[str, float] = {}
        self.unopened: dict[str, float] = {}
        self.in_flight = 0

    def use_names(self, names: Names) -> None:
        """Send by these names from now on."""
        if names != self.names:
            self.names = names
            _log.info("names.changed", **asdict(names))

    def open_secrets(self, endpoint: Endpoint) -> tuple[Secret, ...]:
        """Open an endpoint's secrets, newest first. UnopenedSecret, or UnknownKey: it is logged once."""
        try:
            return tuple([self._keyring.open(endpoint.lane, sealed) for sealed in endpoint.secrets])
        except UnknownKey as error:
            self._log_once("key.missing", key_id=error.key_id, reason=error.reason)
            raise
        except UnopenedSecret as error:
            self._log_once("secret.unopened", **told(endpoint.lane), key_id=error.key_id, reason=error.reason)
            raise

    def _log_once(self, event: str, **facts: str | int) -> None:
        if (line := f"{event} {facts}") not in self._logged:
            self._logged.add(line)
            _log.error(event, **facts)

    def note_unopened(self, lane: str, error: UnopenedSecret) -> None:
        """Learn that a delivery waits for a key, or for a secret that opens."""
        if isinstance(error, UnknownKey):
            self.missing_keys[error.key_id] = self._clock.elapsed()
        else:
            self.unopened[lane] = self._clock.elapsed()

    def show_unopened(self) -> None:
        """Forget what nothing waits for any more, and show the rest."""
        since = self._clock.elapsed() - KEY_REPORT_TIME
        self.missing_keys = {key_id: at for key_id, at in self.missing_keys.items() if at > since}
        self.unopened = {lane: at for lane, at in self.unopened.items() if at > since}
        self._metrics.unopened_secrets.set(len(self.unopened))

    async def attempt(
        self,
        event: Event,
        fence: int,
        is_retry: bool,
        endpoint: Endpoint,
        secrets: tuple[Secret, ...],
        may_send: Callable[[], bool],
    ) -> Record | None:
        """Make one attempt now, judge it, and return what is to be written.

        fence: the lane's epoch, or the retry's claim. may_send: whether the lease is still trusted.
        None: it failed, or would have failed, through a fault of our own. It does not count: make it again.
        """
        started = self._clock.elapsed()
        if not self._own_faults.compare_clocks():
            return None  # its signature would be refused
        attempt, result = await self.make(event, endpoint, secrets, may_send)
        if result is NOT_SENT or not self._own_faults.counts(event, result, started):
            _log.warning(
                "attempt.uncounted",
                **told(event.lane),
                event_id=str(event.id),
                outcome=result.outcome,
                detail=result.detail,
            )
            return None
        return self.conclude(event, fence, is_retry, attempt, result)

    async def make(
        self,
        event: Event,
        endpoint: Endpoint,
        secrets: tuple[Secret, ...],
        may_send: Callable[[], bool] = may_always,
    ) -> tuple[Attempt, Answer | Failure]:
        """Make one attempt now and measure it; its time and its signature's `t` start here."""
        started = self._clock.elapsed()
        started_at = self._database_clock.at(started)
        self.in_flight += 1
        ticket = self._health.started(event.lane)
        try:
            result = await self._send(event, endpoint, secrets, may_send)
        finally:
            self.in_flight -= 1
            self._health.finished(ticket)
        took = self._clock.elapsed() - started - result.lingered
        outcome = result.outcome
        is_delivered = outcome is Outcome.DELIVERED
        if event.attempts == 0 and outcome is not Outcome.UNSENDABLE:
            self._metrics.delivery_lag.observe(max(0.0, (started_at - event.created_at).total_seconds()))
        attempt = Attempt(
            number=event.attempts + 1,
            started_at=started_at,
            finished_at=started_at + timedelta(seconds=took),
            duration_ms=round(took * 1000),
            status=result.status,
            outcome=outcome,
            reason=None if is_delivered else result.detail,
            response_excerpt=None if is_delivered else result.excerpt,
        )
        return attempt, result

    async def _send(
        self, event: Event, endpoint: Endpoint, secrets: tuple[Secret, ...], may_send: Callable[[], bool]
    ) -> Answer | Failure:
        if (fault := event.fault) is not None:
            return Failure(Outcome.UNSENDABLE, fault)
        body = event.body()
        names, unix_seconds = self.names, int(self._clock.unix())
        headers = event.headers(signature(body, secrets, unix_seconds), names)
        if names.has_standard:
            headers |= standard_headers(str(event.event_id), body, secrets, unix_seconds)
        if self._own_faults.signer_is_broken and not _is_signed(body, headers, names, secrets):
            return _BADLY_SIGNED
        result = await self._sender.post(endpoint.url, headers, body, may_send)
        if result.status in DOUBT_SIGNATURE and not _is_signed(body, headers, names, secrets):
            return _BADLY_SIGNED
        return result

    def conclude(
        self, event: Event, fence: int, is_retry: bool, attempt: Attempt, result: Answer | Failure
    ) -> Record:
        """Judge an attempt, count it and say so in the log; return the record that is to be written."""
        self._health.learn(
            event.lane, attempt.outcome, attempt.duration_ms / 1000, is_costly=result.is_costly
        )
        state, reason, delay = judge(result, event, self.schedule)
        outcome = attempt.outcome
        counter, histogram = self._metrics.attempts_by[outcome, event.trigger]
        counter.inc()
        histogram.observe(attempt.duration_ms / 1000)
        (self._log.info if outcome is Outcome.DELIVERED else self._log.warning)(
            "delivery.attempted",
            **told(event.lane),
            event_id=str(event.id),
            seq=event.seq,
            type=event.sent_type,
            attempt=attempt.number,
            trigger=event.trigger,
            outcome=outcome,
            status=attempt.status,
            duration_ms=attempt.duration_ms,
            state=state or State.PENDING_RETRY,
            **({} if attempt.reason is None else {"detail": attempt.reason}),
        )
        due_at = None
        if state is None:
            due_at = event.scheduled_at if delay is None else attempt.finished_at + delay
        return Record(event, fence, is_retry, attempt, state, reason, due_at, attempt.finished_at)


def _is_signed(body: bytes, headers: Mapping[str, str], names: Names, secrets: tuple[Secret, ...]) -> bool:
    is_right = is_signed(body, headers[names.signature], secrets)
    return is_right and is_standard_signed(body, headers, secrets)


def finish_unsent(event: Event, fence: int, is_retry: bool, reason: FailedReason, at: datetime) -> Record:
    """Finish a row without an attempt; what was delivered stays so."""
    if event.on_failure is State.DELIVERED:
        return Record(event, fence, is_retry, None, State.DELIVERED, None, None, at)
    return Record(event, fence, is_retry, None, State.FAILED, reason, None, at)


def pass_over(event: Event, fence: int, at: datetime) -> Record:
    """Finish a row that the endpoint's filter leaves out: it becomes no delivery."""
    return Record(event, fence, False, None, UNWANTED, None, None, at)


def reschedule(event: Event, fence: int, due_at: datetime, at: datetime) -> Record:
    """Release a claimed retry without an attempt, to be claimed again from `due_at` on."""
    return Record(event, fence, True, None, None, None, due_at, at)
