"""`retry_failed`: failed deliveries are made owed again, chunk by chunk, each with its progress."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

import structlog

from webhook_dispatcher.dispatch.control.running_command import RunningCommand
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.command import RetryFailed, malformed_progress
from webhook_dispatcher.domain.errors import StatementRefused
from webhook_dispatcher.domain.ports import CommandTransaction, Controls, ReopenedChunk

CHUNK_SIZE = 100
"""Deliveries made owed again in one transaction."""
CHUNK_INTERVAL_SECONDS = 0.1
"""Time between two chunks, so that first attempts do not suffer."""
MAX_WAITING = CHUNK_SIZE // 2
"""Deliveries of the last chunk that may still wait for their attempt when the next one is made owed."""
MAX_CHUNK_WAIT_SECONDS = 2.0
"""The next chunk follows after this time all the same: the merchants may be slow, or paused."""

_log = structlog.get_logger()


class _ChunkRefused(Exception):
    """Some delivery of a chunk cannot be made owed again."""


@dataclass(frozen=True, slots=True)
class MassRetryProgress:
    """How far a mass retry has come; any dispatcher can go on from it.

    matched: deliveries that matched when the command was taken up. passed: those looked at so far.
    retried: those owed again. reached: (finished_at, seq) of the last one looked at.
    """

    matched: int
    retried: int = 0
    passed: int = 0
    reached: tuple[datetime, int] | None = None

    @classmethod
    def parse(cls, result: Mapping[str, Any]) -> Self:
        """Read what an earlier worker wrote; CommandRejected when none can have written it."""
        reached = _parse_reached(result.get("reached"))
        counts = [result.get(name) for name in ("matched", "retried", "passed")]
        if not all(isinstance(count, int) for count in counts):
            malformed_progress()
        return cls(result["matched"], result["retried"], result["passed"], reached)

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
        result: dict[str, Any] = {"matched": self.matched, "retried": self.retried, "passed": self.passed}
        if self.reached is not None:
            result["reached"] = [self.reached[0].isoformat(), self.reached[1]]
        return result


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


class _Pace:
    """Lets deliveries be made owed only as fast as they are attempted.

    By the time a mass retry's deliveries are claimed, many of them have been due for longer than scheduled
    retries. Too many of them at once would take the scheduled retries' places.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seqs: tuple[int, ...] = ()
        self._reopened_at = 0.0

    def note(self, chunk: ReopenedChunk) -> None:
        """Learn what the last chunk was."""
        self._seqs, self._reopened_at = chunk.seqs, self._clock.elapsed()

    async def allows_more(self, transaction: CommandTransaction) -> bool:
        """Tell whether the next chunk may follow."""
        if not self._seqs or self._clock.elapsed() - self._reopened_at >= MAX_CHUNK_WAIT_SECONDS:
            return True
        return await transaction.count_waiting(self._seqs) <= MAX_WAITING


class MassRetry:
    """One mass retry that this daemon carries out."""

    def __init__(
        self,
        command: RetryFailed,
        progress: MassRetryProgress,
        running: RunningCommand,
        controls: Controls,
        recorder: Recorder,
        clock: Clock,
        stop: Stop,
    ) -> None:
        self.running = running
        self._command = command
        self._progress = progress
        self._controls = controls
        self._recorder = recorder
        self._stop = stop
        self._pace = _Pace(clock)
        self._chunk_size = CHUNK_SIZE

    async def run(self) -> None:
        """Go through all chunks; when stopped, release the command to another dispatcher.

        Raises StorageError or LeaseLost. Whether the last chunk was committed is unknown then; the progress
        that was committed with it says so to whoever resumes the command.
        """
        has_more = True
        while has_more and self._progress.passed < self._command.limit:
            await self._stop.wait_at_most(CHUNK_INTERVAL_SECONDS)
            if self._stop.is_set():
                await self.running.release(self._progress.as_result())
                return
            await self._recorder.caught_up()
            has_more = await self._step()
        done = self._progress
        await self.running.finish({"matched": done.matched, "retried": done.retried})

    async def _step(self) -> bool:
        """Make the next chunk owed again, if it may follow already; False when none is left."""
        size = min(self._chunk_size, self._command.limit - self._progress.passed)
        try:
            async with self._controls.transaction() as transaction:
                # Chunks lock rows before lanes, other commands the reverse: one at a time.
                if not (await transaction.lock_control() and await self._pace.allows_more(transaction)):
                    return True
                chunk = await self._take_chunk(transaction, size)
                if chunk is None:
                    return False
                await transaction.wake_lanes(chunk.heads)
                progress = self._progress.with_chunk(chunk)
                await self.running.renew(transaction, progress.as_result())
        except _ChunkRefused:
            self._chunk_size = size // 2
            return True
        self._progress = progress
        self._chunk_size = self._chunk_size or CHUNK_SIZE
        self._pace.note(chunk)
        return True

    async def _take_chunk(self, transaction: CommandTransaction, size: int) -> ReopenedChunk | None:
        """Make so many deliveries owed again. Size 0: one alone was refused, and is skipped."""
        after = self._progress.reached or (self._command.since, -1)
        if size:
            try:
                return await transaction.reopen_failed(self._command, after, size)
            except StatementRefused as error:
                if not error.is_row_fault:
                    raise
                raise _ChunkRefused from error
        skipped = await transaction.skip_failed(self._command, after)
        if skipped is not None:
            _log.error("delivery.passed_over", seq=skipped.reached[1], reason="it cannot be made owed again")
        return skipped
