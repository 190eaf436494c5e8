"""`skip`: what is owed and matches ends failed, with the reason `skipped`, without an attempt."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import structlog

from webhook_dispatcher.dispatch.control.mass_command import (
    Chunk,
    lock_control,
    parse_counts,
    refusing_chunks,
)
from webhook_dispatcher.domain.command import Skip
from webhook_dispatcher.domain.event import FailedReason, State
from webhook_dispatcher.domain.mass_command import Matches
from webhook_dispatcher.domain.ports import CommandTransaction
from webhook_dispatcher.telemetry.metrics import Metrics

SKIP_SIZE = 500
"""Deliveries given up in one transaction, which holds their lanes."""
NO_LIMIT = 2**63 - 1

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SkipProgress:
    """How far a skip has come; any dispatcher can go on from it.

    passed: rows looked at. reached: the next look begins behind that seq; None when there are no more.
    """

    skipped: int = 0
    passed: int = 0
    reached: int | None = 0

    @classmethod
    def from_result(cls, result: Mapping[str, Any]) -> Self:
        """Read what an earlier worker wrote; CommandRejected when none can have written it."""
        return cls(*parse_counts(result, "skipped", "passed", "reached"))

    @property
    def matched_so_far(self) -> int:
        """Return how many were skipped; there is no limit."""
        return self.skipped

    def with_look(self, found: Matches) -> Self:
        """Return the progress after a look."""
        reached = None if found.is_over else found.reached
        return replace(self, passed=self.passed + found.looked, reached=reached)

    def as_result(self) -> dict[str, Any]:
        """Return it as the command's `result` shows it while the command is running."""
        # Where there are no more, another worker looks once more from the start, and finds none.
        return {"skipped": self.skipped, "passed": self.passed, "reached": self.reached or 0}

    def as_outcome(self) -> dict[str, Any]:
        """Return what remains of it when the command is done."""
        return {"skipped": self.skipped}


class Skipping:
    """Gives up what is owed and matches: a Work."""

    chunk_size = SKIP_SIZE
    limit = NO_LIMIT

    def __init__(self, command: Skip, metrics: Metrics) -> None:
        self._command = command
        self._metrics = metrics

    async def take(
        self, transaction: CommandTransaction, progress: SkipProgress, size: int
    ) -> Chunk[SkipProgress] | None:
        """Look on, and give up what matches."""
        if progress.reached is None:
            return None
        found = await transaction.find_skippable(self._command, progress.reached, max(size, 1))
        after = progress.with_look(found)
        if found.is_unreadable:
            _log.error("delivery.passed_over", seq=found.reached, reason="its charge cannot be read")
        if not found.seqs:
            return Chunk(after, found_nothing=True)
        await lock_control(transaction)
        if not size:
            _log.error("delivery.passed_over", seq=found.seqs[0], reason="it cannot be skipped")
            return Chunk(after)
        with refusing_chunks():
            skipped = await transaction.skip(found)
        for event_type, count in skipped.items():
            self._metrics.deliveries_by[State.FAILED, FailedReason.SKIPPED, event_type].inc(count)
        count = sum(skipped.values())
        if count < len(found.seqs):
            # What was routed or handed on since is owed under other numbers, which the look may have passed.
            after = progress
        # Where one was in flight, one of the lane's slots for retries is free now.
        heads: dict[str, int | None] = dict.fromkeys(found.lanes)
        return Chunk(replace(after, skipped=after.skipped + count), heads)
