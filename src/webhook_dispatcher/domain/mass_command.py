"""What commands that concern many deliveries find and do, chunk by chunk: recover and skip."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from webhook_dispatcher.domain.command import Recover, Skip


@dataclass(frozen=True, slots=True)
class Matches:
    """What a look through outbox or log has found; the sequences have an entry for each delivery, by seq.

    kinds: their states, or `skipped`. finished_ats: of those in the log.
    looked: how many rows were looked at. reached: the seq of the last; the next look begins behind it.
    is_over: there are no more. is_unreadable: of the last, nobody can tell of which charge it is.
    """

    seqs: Sequence[int]
    merchants: Sequence[str]
    looked: int
    reached: int
    is_over: bool
    kinds: Sequence[str] = ()
    finished_ats: Sequence[datetime] = ()
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
