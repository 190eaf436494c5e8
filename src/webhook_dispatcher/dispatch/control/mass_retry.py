"""`retry_failed`: failed deliveries are made owed again, oldest first."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

import structlog

from webhook_dispatcher.dispatch.control.mass_command import (
    CHUNK_SIZE,
    Chunk,
    lock_control,
    parse_counts,
    refusing_chunks,
)
from webhook_dispatcher.domain.command import RetryFailed, malformed_progress
from webhook_dispatcher.domain.ports import CommandTransaction, ReopenedChunk

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class MassRetryProgress:
    """How far a mass retry has come; any dispatcher can go on from it.

    matched: deliveries that matched when the command began; 0 until they are counted. passed: those looked at
    so far.
    retried: those owed again. reached: (finished_at, seq) of the last one looked at.
    """

    matched: int = 0
    retried: int = 0
    passed: int = 0
    reached: tuple[datetime, int] | None = None

    @classmethod
    def from_result(cls, result: Mapping[str, Any]) -> Self:
        """Read what an earlier worker wrote; CommandRejected when none can have written it."""
        reached = _parse_reached(result.get("reached"))
        matched, retried, passed = parse_counts(result, "matched", "retried", "passed")
        return cls(matched, retried, passed, reached)

    @property
    def matched_so_far(self) -> int:
        """Return how many were looked at."""
        return self.passed

    def with_chunk(self, chunk: ReopenedChunk) -> Self:
        """Return the progress after one more chunk."""
        return replace(
            self,
            retried=self.retried + chunk.retried,
            passed=self.passed + chunk.matched,
            reached=chunk.reached,
        )

    def as_result(self) -> dict[str, Any]:
        """Return it as the command's `result` shows it while the command is running."""
        result: dict[str, Any] = self.as_outcome() | {"passed": self.passed}
        if self.reached is not None:
            result["reached"] = [self.reached[0].isoformat(), self.reached[1]]
        return result

    def as_outcome(self) -> dict[str, Any]:
        """Return what remains of it when the command is done."""
        return {"matched": self.matched, "retried": self.retried}


def _parse_reached(reached: Any) -> tuple[datetime, int] | None:
    if reached is None:
        return None
    try:
        text, seq = reached
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            malformed_progress()
        return at.astimezone(UTC), int(seq)
    except (TypeError, ValueError, OverflowError):
        malformed_progress()


class MassRetry:
    """Makes failed deliveries owed again: a Work."""

    chunk_size = CHUNK_SIZE

    def __init__(self, command: RetryFailed) -> None:
        self._command = command
        self.limit = command.limit
        self._is_counted = False

    async def take(
        self, transaction: CommandTransaction, progress: MassRetryProgress, size: int
    ) -> Chunk[MassRetryProgress] | None:
        """Count what is to come, once; then have the next failed deliveries attempted again."""
        if not self._is_counted and progress.reached is None:
            # It may take seconds, in which other commands go on: a pause does not wait for it.
            matched = await transaction.count_failed(self._command)
            self._is_counted = True
            return Chunk(replace(progress, matched=matched), found_nothing=True)
        await lock_control(transaction)
        after = progress.reached or (self._command.since, -1)
        if size:
            with refusing_chunks():
                chunk = await transaction.reopen_failed(self._command, after, size)
        else:
            chunk = await transaction.skip_failed(self._command, after)
            if chunk is not None:
                _log.error(
                    "delivery.passed_over", seq=chunk.reached[1], reason="it cannot be made owed again"
                )
        return None if chunk is None else Chunk(progress.with_chunk(chunk), chunk.heads, chunk.seqs)
