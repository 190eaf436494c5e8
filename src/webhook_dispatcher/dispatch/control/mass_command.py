"""A command that concerns many deliveries, carried out chunk by chunk, each with its progress.

What a chunk is says a Work: mass_retry, recovery, skipping. All are paced alike, end alike when they are
stopped, and pass over what the database refuses.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from webhook_dispatcher.dispatch.control.running_command import RunningCommand
from webhook_dispatcher.dispatch.pace import Stop
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.dispatch.right_of_way import RightOfWay
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.command import malformed_progress
from webhook_dispatcher.domain.errors import LockTaken, StatementRefused
from webhook_dispatcher.domain.ports import CommandTransaction, Controls

CHUNK_SIZE = 10
"""Deliveries made owed again in one transaction. First attempts feel larger chunks, which keep a processor
busy for longer at once (`benchmarks/replays.py`)."""
CHUNK_INTERVAL_SECONDS = 0.03
"""Time between two chunks, so that first attempts do not suffer."""
LOOK_INTERVAL_SECONDS = 0.02
"""Time between two looks where the first has found nothing."""
MAX_WAITING = CHUNK_SIZE // 2
"""Deliveries of the last chunk that may still wait for their attempt when the next one is made owed."""
MAX_CHUNK_WAIT_SECONDS = 0.2
"""The next chunk follows after this time all the same: the merchants may be slow, or paused."""
LOCKED_INTERVAL_SECONDS = 0.5
"""Time between two tries of a chunk that meets a lock. While it waits for that it keeps all other commands
from being carried out, and merchants' ask for their turn four times a second."""
PROGRESS_INTERVAL_SECONDS = 1.0
"""How often the progress of looks that find nothing is written down."""


class ChunkRefused(Exception):
    """Some delivery of a chunk cannot be changed."""


class ControlIsBusy(Exception):
    """Another command is being carried out, here or by another dispatcher. Reaction: try again later."""


class Progress(Protocol):
    """How far a command has come; any dispatcher can go on from it."""

    @property
    def matched_so_far(self) -> int:
        """Count the deliveries that matched and were looked at: the command's limit is about them."""
        ...

    def as_result(self) -> dict[str, Any]:
        """Return it as the command's `result` shows it while the command is running."""
        ...

    def as_outcome(self) -> dict[str, Any]:
        """Return what remains of it in `result` when the command is done."""
        ...


P = TypeVar("P", bound=Progress)


@dataclass(frozen=True, slots=True)
class Chunk(Generic[P]):
    """What was done in one transaction, and the progress after it.

    heads: the lanes to be woken, each with the lowest seq that went back to its place in the order, if any.
    seqs: the deliveries that are to be attempted; the next chunk waits for half of them.
    found_nothing: it was a look that found nothing, and changed nothing.
    """

    progress: P
    heads: Mapping[str, int | None] = field(default_factory=dict)
    seqs: tuple[int, ...] = ()
    found_nothing: bool = False


class Work(Protocol[P]):
    """What one mass command does. chunk_size: deliveries per transaction, at most; limit: in all, at most."""

    chunk_size: int
    limit: int

    async def take(self, transaction: CommandTransaction, progress: P, size: int) -> Chunk[P] | None:
        """Do the next chunk; None when none is left.

        size: how many deliveries at most; 0: one alone was refused, pass it over.
        Locks the control table (`lock_control`) before it changes anything. Raises ChunkRefused.
        """
        ...


async def lock_control(transaction: CommandTransaction) -> None:
    """Keep other commands from running until this transaction ends; ControlIsBusy when one does.

    A chunk locks rows before lanes, other commands the reverse.
    """
    if not await transaction.lock_control():
        raise ControlIsBusy


@contextmanager
def refusing_chunks() -> Iterator[None]:
    """Turn the refusal of a row into ChunkRefused."""
    try:
        yield
    except StatementRefused as error:
        if not error.is_row_fault:
            raise
        raise ChunkRefused from error


def parse_counts(result: Mapping[str, Any], *names: str) -> list[int]:
    """Read the numbers that an earlier worker wrote; CommandRejected when none can have written them."""
    counts = [result.get(name) for name in names]
    found = [count for count in counts if isinstance(count, int)]
    if len(found) < len(counts):
        malformed_progress()
    return found


class _Pace:
    """Lets deliveries be made owed only as fast as they are attempted.

    By the time a mass retry's deliveries are claimed, many of them have been due for longer than scheduled
    retries. Too many of them at once would take the scheduled retries' slots.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seqs: tuple[int, ...] = ()
        self._reopened_at = 0.0

    def note(self, seqs: tuple[int, ...]) -> None:
        """Learn what the last chunk was."""
        self._seqs, self._reopened_at = seqs, self._clock.elapsed()

    async def allows_more(self, transaction: CommandTransaction) -> bool:
        """Tell whether the next chunk may follow."""
        if not self._seqs or self._clock.elapsed() - self._reopened_at >= MAX_CHUNK_WAIT_SECONDS:
            return True
        return await transaction.count_waiting(self._seqs) <= MAX_WAITING


class MassCommand(Generic[P]):
    """One mass command that this daemon carries out."""

    def __init__(
        self,
        work: Work[P],
        progress: P,
        running: RunningCommand,
        controls: Controls,
        recorder: Recorder,
        right_of_way: RightOfWay,
        clock: Clock,
        stop: Stop,
    ) -> None:
        self.running = running
        self._work = work
        self._progress = progress
        self._controls = controls
        self._recorder = recorder
        self._right_of_way = right_of_way
        self._clock = clock
        self._stop = stop
        self._pace = _Pace(clock)
        self._chunk_size = work.chunk_size
        self._interval = CHUNK_INTERVAL_SECONDS
        self._saved_at = clock.elapsed()
        self._is_stopped = False

    async def run(self) -> None:
        """Go through all chunks; when the daemon stops, release the command to another dispatcher.

        Raises StorageError or LeaseLost. Whether the last chunk was committed is unknown then; the progress
        that was committed with it says so to whoever resumes the command.
        """
        has_more = True
        while has_more and self._progress.matched_so_far < self._work.limit:
            await self._stop.wait_at_most(self._interval)
            if self._stop.is_set():
                await self.running.release(self._progress.as_result())
                return
            await self._recorder.caught_up()
            has_more = await self._step()
        stopped = {"stopped": True} if self._is_stopped else {}
        await self.running.finish(self._progress.as_outcome() | stopped)

    async def _step(self) -> bool:
        """Do the next chunk, if it may follow already; False when none is left, or the command is stopped."""
        self._interval = CHUNK_INTERVAL_SECONDS
        size = min(self._chunk_size, self._work.limit - self._progress.matched_so_far)
        try:
            async with self._controls.transaction() as transaction:
                if await transaction.is_stopping(self.running.id):
                    self._is_stopped = True
                    return False
                if self._right_of_way.is_taken or not await self._pace.allows_more(transaction):
                    return True
                chunk = await self._work.take(transaction, self._progress, size)
                if chunk is None:
                    return False
                await self._commit(transaction, chunk)
        except ControlIsBusy:
            return True
        except LockTaken:
            # The transaction came to nothing. Were the lease waited for, a resume would wait, too.
            self._interval = LOCKED_INTERVAL_SECONDS
            return True
        except ChunkRefused:
            self._chunk_size = size // 2
            return True
        self._progress = chunk.progress
        if chunk.found_nothing:
            self._interval = LOOK_INTERVAL_SECONDS
        else:
            self._chunk_size = self._chunk_size or self._work.chunk_size
            self._pace.note(chunk.seqs)
        return True

    async def _commit(self, transaction: CommandTransaction, chunk: Chunk[P]) -> None:
        if not chunk.found_nothing:
            if chunk.seqs:
                await transaction.note_chunk(self.running.id, chunk.seqs)
            await transaction.wake_lanes(chunk.heads)
        elif self._clock.elapsed() - self._saved_at < PROGRESS_INTERVAL_SECONDS:
            return
        await self.running.renew(transaction, chunk.progress.as_result())
        self._saved_at = self._clock.elapsed()
