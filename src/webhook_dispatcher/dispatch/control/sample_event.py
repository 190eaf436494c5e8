"""`test_event`: one attempt of a sample event, outside the order and never retried."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self
from uuid import UUID

from webhook_dispatcher.dispatch.attempt import Attempter
from webhook_dispatcher.dispatch.control.running_command import RunningCommand
from webhook_dispatcher.domain.command import Code, malformed_progress
from webhook_dispatcher.domain.errors import UnopenedSecret
from webhook_dispatcher.domain.event import (
    TEST_EVENT_TYPE,
    Event,
    FailedReason,
    State,
    Trigger,
)
from webhook_dispatcher.domain.ports import Claims, TestLog
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class SampleProgress:
    """Which event is sent: written down before the attempt, so that a repetition has the same id."""

    event_id: UUID
    created_at: datetime

    @classmethod
    def from_result(cls, result: Mapping[str, Any]) -> Self:
        """Read what an earlier worker wrote; CommandRejected when none can have written it."""
        try:
            created_at = datetime.fromisoformat(result["created_at"])
            if created_at.tzinfo is None:
                malformed_progress()
            return cls(UUID(result["event_id"]), created_at.astimezone(UTC))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            malformed_progress()

    def as_result(self) -> dict[str, Any]:
        """Return it as the command's `result` shows it while the command is running."""
        return {"event_id": str(self.event_id), "created_at": self.created_at.isoformat()}


class SampleEvent:
    """One test event that this daemon sends, kept as `webhook.test` whatever type the merchant is told."""

    def __init__(
        self,
        lane: str,
        sample: bytes,
        progress: SampleProgress,
        running: RunningCommand,
        claims: Claims,
        attempter: Attempter,
        metrics: Metrics,
    ) -> None:
        self.running = running
        self._event = Event(
            seq=0,
            id=progress.event_id,
            lane=lane,
            type=TEST_EVENT_TYPE,
            created_at=progress.created_at,
            object=sample,
            trigger=Trigger.MANUAL,
            on_failure=State.FAILED,
        )
        self._claims = claims
        self._attempter = attempter
        self._metrics = metrics

    async def run(self) -> None:
        """Make the one attempt and write down how it went. Raises StorageError or LeaseLost."""
        event = self._event
        endpoint = (await self._claims.read_endpoints([event.lane])).get(event.lane)
        if endpoint is None:
            await self.running.reject(Code.NOT_CONFIGURED, "the merchant has no endpoint")
            return
        try:
            secrets = self._attempter.open_secrets(endpoint)
        except UnopenedSecret as error:
            await self.running.reject(Code.WRONG_STATE, f"the secret cannot be opened: {error}")
            return
        attempt, result = await self._attempter.make(event, endpoint, secrets)
        self._attempter.conclude(event, 0, True, attempt, result)
        state = State.DELIVERED if attempt.outcome is Outcome.DELIVERED else State.FAILED
        facts = {"event_id": str(event.id), "outcome": attempt.outcome, "status": attempt.status}
        if event.sent_type != event.type:
            facts["type"] = event.sent_type
        if attempt.reason is not None:
            facts["reason"] = attempt.reason
        await self.running.finish(facts, TestLog(event, attempt, state))
        reason = FailedReason.EXHAUSTED if state is State.FAILED else None
        self._metrics.deliveries_by[state, reason, event.type].inc()
