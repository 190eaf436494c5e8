"""What a mass command would be about, counted before it is given."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

COUNT_LIMIT = 100_000
"""Deliveries that a preview counts at most; of more it says that there are more."""
MERCHANTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Preview:
    """How many deliveries a mass command would be about.

    kinds: by state, or `skipped`. merchants: those with most, MERCHANTS_SHOWN at most.
    more_merchants: how many others there are. has_more: counting ended at COUNT_LIMIT.
    last_attempts: what waits for the last attempt of its schedule. failing, failing_merchants: deliveries of
        merchants who fail now, and how many these are. All of what matches, left out or not.
    given_up_later: what was written in a recovery's range and failed after it; not part of it.
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

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], given_up_later: int = 0) -> Self:
        """Read the rows of previewing.sql, which counted one more than COUNT_LIMIT."""
        kinds: dict[str, int] = {}
        merchants: dict[str, int] = {}
        all_merchants, looked, aside = 0, 0, (0, 0, 0)
        for row in rows:
            if row["kind"] is not None:
                kinds[row["kind"]] = row["deliveries"]
            elif row["merchant_id"] is not None:
                merchants[row["merchant_id"]] = row["deliveries"]
            else:
                all_merchants, looked = row["deliveries"], row.get("looked", 0)
                if looked:
                    aside = row["last_attempts"], row["failing"], row["failing_merchants"]
        total = sum(kinds.values())
        has_more = max(total, looked) > COUNT_LIMIT
        more_merchants = all_merchants - len(merchants)
        return cls(
            min(total, COUNT_LIMIT), has_more, kinds, merchants, more_merchants, given_up_later, *aside
        )


@dataclass(frozen=True, slots=True)
class PauseOf:
    """Whose an event is, and whether it is held back by an operator."""

    merchant_id: str
    merchant_is_paused: bool
    everything_is_paused: bool
