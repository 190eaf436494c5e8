"""`recover`: a range of time is sent again. First what waits for a retry, then what has finished, by seq."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

import structlog

from webhook_dispatcher.dispatch.control.mass_command import (
    CHUNK_SIZE,
    Chunk,
    lock_control,
    parse_counts,
    refusing_chunks,
)
from webhook_dispatcher.domain.command import Recover, malformed_progress
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.mass_command import Matches
from webhook_dispatcher.domain.ports import CommandTransaction

_log = structlog.get_logger()


class Phase(StrEnum):
    """What a recovery goes through, one after the other."""

    WAITING = "waiting"
    FINISHED = "finished"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class RecoveryProgress:
    """How far a recovery has come; any dispatcher can go on from it.

    matched: by kind (the state, or `skipped`), those found so far. recovered: those that are attempted again.
    passed: rows looked at. phase, reached: the next look begins behind that seq.
    """

    matched: Mapping[str, int]
    phase: Phase
    reached: int = 0
    recovered: int = 0
    passed: int = 0

    @classmethod
    def of(cls, command: Recover) -> Self:
        """Return the beginning of a command."""
        matched = dict.fromkeys(command.states, 0)
        return cls(matched, Phase.WAITING if State.PENDING_RETRY in matched else Phase.FINISHED)

    @classmethod
    def from_result(cls, result: Mapping[str, Any], command: Recover) -> Self:
        """Read what an earlier worker wrote; CommandRejected when none can have written it."""
        recovered, passed = parse_counts(result, "recovered", "passed")
        try:
            phase, reached = result["reached"]
            matched = {str(kind): int(count) for kind, count in result["matched"].items()}
            progress = cls(matched, Phase(phase), int(reached), recovered, passed)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            malformed_progress()
        if matched.keys() != set(command.states):
            malformed_progress()
        return progress

    @property
    def matched_so_far(self) -> int:
        """Return how many matched so far."""
        return sum(self.matched.values())

    def with_look(self, found: Matches) -> Self:
        """Return the progress after a look."""
        matched = dict(self.matched)
        for kind in found.kinds:
            matched[kind] += 1
        passed = self.passed + found.looked
        if not found.is_over:
            return replace(self, matched=matched, passed=passed, reached=found.reached)
        goes_on = self.phase is Phase.WAITING and matched.keys() != {State.PENDING_RETRY}
        phase = Phase.FINISHED if goes_on else Phase.OVER
        return replace(self, matched=matched, passed=passed, phase=phase, reached=0)

    def as_result(self) -> dict[str, Any]:
        """Return it as the command's `result` shows it while the command is running."""
        return self.as_outcome() | {"passed": self.passed, "reached": [self.phase, self.reached]}

    def as_outcome(self) -> dict[str, Any]:
        """Return what remains of it when the command is done."""
        return {"matched": dict(self.matched), "recovered": self.recovered}


class Recovery:
    """Sends a range of time again: a Work."""

    chunk_size = CHUNK_SIZE

    def __init__(self, command: Recover) -> None:
        self._command = command
        self.limit = command.limit

    async def take(
        self, transaction: CommandTransaction, progress: RecoveryProgress, size: int
    ) -> Chunk[RecoveryProgress] | None:
        """Look on, first at what waits, then at what has finished; have what matches attempted."""
        if progress.phase is Phase.OVER:
            return None
        is_waiting = progress.phase is Phase.WAITING
        find = transaction.find_waiting if is_waiting else transaction.find_finished
        found = await find(self._command, progress.reached, max(size, 1))
        after = progress.with_look(found)
        if found.is_unreadable:
            _log.error("delivery.passed_over", seq=found.reached, reason="its charge cannot be read")
        if not found.seqs:
            return Chunk(after, found_nothing=True)
        await lock_control(transaction)
        if not size:
            _log.error("delivery.passed_over", seq=found.seqs[0], reason="it cannot be made owed again")
            return Chunk(after)
        with refusing_chunks():
            make_due = transaction.run_all_now if is_waiting else transaction.reopen_all
            made_due = await make_due(found)
        recovered = after.recovered + len(made_due.seqs)
        return Chunk(replace(after, recovered=recovered), made_due.heads, made_due.seqs)
