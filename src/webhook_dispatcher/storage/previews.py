"""What a mass command would be about, counted before it is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from webhook_dispatcher.domain.command import KINDS

COUNT_LIMIT = 100_000
"""Deliveries that a preview counts at most; of more it says that there are more."""
MERCHANTS_SHOWN = 20
_COUNTED_BY = ("kind", "type", "merchant_id")


@dataclass(frozen=True, slots=True)
class Preview:
    """How many deliveries a mass command would be about.

    kinds: by state, or `skipped`, in the order of KINDS. merchants: those with most, MERCHANTS_SHOWN at most.
    more_merchants: how many others there are. has_more: counting ended at COUNT_LIMIT.
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

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], given_up_later: int = 0) -> Self:
        """Read the rows of previewing.sql, which counted one more than COUNT_LIMIT."""
        counts = Counts.of(rows)
        total = sum(counts.kinds.values())
        has_more = max(total, counts.rest.get("looked", 0)) > COUNT_LIMIT
        found = counts.kinds, counts.merchants, counts.more_merchants, given_up_later
        return cls(min(total, COUNT_LIMIT), has_more, *found, *counts.aside, counts.types)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the rows of a preview have counted, each in its order, whichever row came first.

    types: None where these were not counted. rest: the row that is of no kind, type or merchant.
    """

    kinds: Mapping[str, int]
    types: Mapping[str, int] | None
    merchants: Mapping[str, int]
    rest: Mapping[str, Any]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Self:
        """Read the rows of previewing.sql or console_previews.sql."""
        kinds, types, merchants = (
            {row[name]: row["deliveries"] for row in rows if row.get(name) is not None}
            for name in _COUNTED_BY
        )
        [rest] = [row for row in rows if all(row.get(name) is None for name in _COUNTED_BY)]
        in_order = {kind: kinds[kind] for kind in KINDS if kind in kinds}
        return cls(in_order, _most_first(types) if "type" in rest else None, _most_first(merchants), rest)

    @property
    def more_merchants(self) -> int:
        """How many merchants there are besides."""
        return int(self.rest["deliveries"]) - len(self.merchants)

    @property
    def aside(self) -> tuple[int, int, int]:
        """Return last_attempts, failing and failing_merchants of a preview; zeros of a skip."""
        last, failing, of = (self.rest.get(n, 0) for n in ("last_attempts", "failing", "failing_merchants"))
        return last, failing, of


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda count: (-count[1], count[0])))


@dataclass(frozen=True, slots=True)
class PauseOf:
    """Whose an event is, and whether it is held back by an operator."""

    merchant_id: str
    merchant_is_paused: bool
    everything_is_paused: bool
