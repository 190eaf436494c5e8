"""What commands that concern many deliveries find and do, chunk by chunk: recover and skip."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from webhook_dispatcher.domain.command import Recover, Skip


@dataclass(frozen=True, slots=True)
class Preview:
    """How many deliveries a mass command would be about.

    kinds: by state, or `skipped`, in the order of KINDS. merchants: those with most.
    more_merchants: how many others there are. has_more: counting ended before.
    last_attempts: what waits for the last attempt of its schedule. failing, failing_merchants: deliveries of
        merchants who fail now, and how many these are. All of what matches, left out or not.
    waiting: what waits for a retry, where a recovery is asked for other states; not part of it.
    given_up_later: what was written in a recovery's range and failed after it; not part of it.
    types: how many of each event type; None of a recovery.
    """

    total: int
    has_more: bool
    kinds: Mapping[str, int]
    merchants: Mapping[str, int]
    more_merchants: int
    given_up_later: int = 0
    last_attempts: int = 0
    failing: int = 0
    failing_merchants: int = 0
    types: Mapping[str, int] | None = None
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Matches:
    """What a look through outbox or log has found; the sequences have an entry for each delivery, by seq.

    kinds: their states, or `skipped`. merchants, finished_ats: of those in the log. lanes: of what is owed.
    looked: how many rows were looked at. reached: the seq of the last; the next look begins behind it.
    is_over: there are no more. is_unreadable: of the last, nobody can tell of which charge it is.
    """

    seqs: Sequence[int]
    looked: int
    reached: int
    is_over: bool
    kinds: Sequence[str] = ()
    merchants: Sequence[str] = ()
    finished_ats: Sequence[datetime] = ()
    lanes: Sequence[str] = ()
    is_unreadable: bool = False


@dataclass(frozen=True, slots=True)
class MadeDue:
    """Deliveries that are to be attempted now.

    heads: their lanes, each with the lowest seq that went back to its place in the order, if any.
    """

    seqs: tuple[int, ...]
    heads: Mapping[str, int | None]


class MassTransaction(Protocol):
    """What mass commands do in a transaction. All methods raise StorageError."""

    async def is_stopping(self, command_id: int) -> bool:
        """Tell whether an operator wants a command to end."""
        ...

    async def note_chunk(self, command_id: int, seqs: Sequence[int]) -> None:
        """Note which deliveries a command makes owed again in this transaction."""
        ...

    async def find_waiting(self, command: Recover, after: int, limit: int) -> Matches:
        """Look on for retries that wait for their time; at most so many. Locks nothing."""
        ...

    async def run_all_now(self, found: Matches) -> MadeDue:
        """Make those due now that still wait."""
        ...

    async def find_finished(self, command: Recover, after: int, limit: int) -> Matches:
        """Look on through the log; at most so many. Locks nothing."""
        ...

    async def reopen_all(self, found: Matches) -> MadeDue:
        """Make those owed again, for one attempt, that are still in the log and whose id is not owed."""
        ...

    async def find_skippable(self, command: Skip, after: int, limit: int) -> Matches:
        """Look on for what is owed and is to be skipped; at most so many. Locks nothing."""
        ...

    async def skip(self, found: Matches) -> Mapping[str, int]:
        """Recall the lanes and give up what is still owed; return how many of each event type that were."""
        ...
