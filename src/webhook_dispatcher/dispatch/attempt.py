"""One attempt: render, sign, send, and say what follows.

Steps over frozen values; whatever is wrong with a row, a URL or an answer becomes an outcome.
"""

from datetime import timedelta

import structlog

from webhook_dispatcher.dispatch.instruments import Instruments
from webhook_dispatcher.domain.endpoint import Endpoint, Secret
from webhook_dispatcher.domain.event import Event, FailedReason, State
from webhook_dispatcher.domain.keyring import Keyring
from webhook_dispatcher.domain.ports import Sender
from webhook_dispatcher.domain.record import Attempt, Record
from webhook_dispatcher.domain.schedule import Schedule
from webhook_dispatcher.domain.signing import is_signed, signature
from webhook_dispatcher.domain.verdict import Answer, Delivered, Failed, Failure, Outcome, RetryAfter, judge

REFUSALS = frozenset((400, 401, 403))
"""What receivers answer to a signature that they cannot verify."""
_BADLY_SIGNED = Failure(Outcome.UNSENDABLE, "our own signature does not verify", is_ours=True)

_log = structlog.get_logger()


class Attempter:
    """Makes attempts and turns them into records."""

    def __init__(
        self,
        sender: Sender,
        keyring: Keyring,
        schedule: Schedule,
        instruments: Instruments,
    ) -> None:
        self._sender = sender
        self._keyring = keyring
        self._schedule = schedule
        self._clock = instruments.clock
        self._database_clock = instruments.database_clock
        self._faults = instruments.faults
        self._metrics = instruments.metrics
        self._standings = instruments.standings
        # Bound once: structlog's lazy logger would look up its configuration at each call.
        self._log = _log.bind()
        self.in_flight = 0

    def open_secrets(self, endpoint: Endpoint) -> tuple[Secret, ...]:
        """Open an endpoint's secrets, newest first; UnknownKey is our own fault, never an outcome."""
        return tuple(self._keyring.open(endpoint.merchant_id, sealed) for sealed in endpoint.secrets)

    async def attend(
        self, event: Event, fence: int, is_retry: bool, endpoint: Endpoint, secrets: tuple[Secret, ...]
    ) -> Record | None:
        """Make one attempt now, judge it, and return what is to be written.

        None when it failed through a fault of our own, or would: then it does not count, and is made again.
        """
        started = self._clock.elapsed()
        if self._faults.clock_is_off():
            return None  # its signature would be refused
        attempt, seen = await self.make(event, endpoint, secrets)
        if not self._faults.counts(event, seen, started):
            detail = seen.detail if isinstance(seen, Failure) else f"status {seen.status}"
            _log.warning("attempt.uncounted", event_id=str(event.id), outcome=seen.outcome, detail=detail)
            return None
        return self.conclude(event, fence, is_retry, attempt, seen)

    async def make(
        self, event: Event, endpoint: Endpoint, secrets: tuple[Secret, ...]
    ) -> tuple[Attempt, Answer | Failure]:
        """Make one attempt now; its clock and its signature's `t` start here."""
        started = self._clock.elapsed()
        started_at = self._database_clock.at(started)
        self.in_flight += 1
        ticket = self._standings.took_off(event.merchant_id)
        try:
            seen = await self._send(event, endpoint, secrets)
        finally:
            self.in_flight -= 1
            self._standings.landed(ticket)
        took = self._clock.elapsed() - started
        outcome = seen.outcome
        if event.attempts == 0 and outcome is not Outcome.UNSENDABLE:
            self._metrics.delivery_lag.observe(max(0.0, (started_at - event.created_at).total_seconds()))
        attempt = Attempt(
            number=event.attempts + 1,
            started_at=started_at,
            finished_at=started_at + timedelta(seconds=took),
            duration_ms=round(took * 1000),
            status=seen.status,
            outcome=outcome,
        )
        return attempt, seen

    async def _send(self, event: Event, endpoint: Endpoint, secrets: tuple[Secret, ...]) -> Answer | Failure:
        if (fault := event.fault) is not None:
            return Failure(Outcome.UNSENDABLE, fault)
        body = event.body()
        signed = signature(body, secrets, int(self._clock.unix()))
        if self._faults.signer_is_broken and not is_signed(body, signed, secrets):
            return _BADLY_SIGNED
        headers = {
            "Content-Type": "application/json",
            "Service-Event-Id": str(event.id),
            "Service-Event-Type": event.type,
            "Service-Signature": signed,
        }
        seen = await self._sender.post(endpoint.url, headers, body)
        if seen.status in REFUSALS and not is_signed(body, signed, secrets):
            return _BADLY_SIGNED
        return seen

    def conclude(
        self, event: Event, fence: int, is_retry: bool, attempt: Attempt, seen: Answer | Failure
    ) -> Record:
        """Judge an attempt and make the record that is to be written."""
        self._standings.learn(event.merchant_id, attempt.outcome, attempt.duration_ms / 1000)
        verdict = judge(seen, event, self._schedule)
        state: State | None = None
        reason: FailedReason | None = None
        due_at = None
        match verdict:
            case Delivered():
                state = State.DELIVERED
            case Failed(reason, state):
                pass
            case RetryAfter(delay):
                due_at = attempt.finished_at + delay
        self._tell(event, attempt, seen, state)
        return Record(event, fence, is_retry, attempt, state, reason, due_at, attempt.finished_at)

    def _tell(self, event: Event, attempt: Attempt, seen: Answer | Failure, state: State | None) -> None:
        outcome = attempt.outcome
        self._metrics.count_attempt(outcome, event.trigger, attempt.duration_ms / 1000)
        detail = {"detail": seen.detail} if isinstance(seen, Failure) else {}
        self._log.info(
            "delivery.attempted",
            merchant_id=event.merchant_id,
            event_id=str(event.id),
            seq=event.seq,
            type=event.type,
            attempt=attempt.number,
            trigger=event.trigger,
            outcome=outcome,
            status=attempt.status,
            duration_ms=attempt.duration_ms,
            state=state or State.PENDING_RETRY,
            **detail,
        )
