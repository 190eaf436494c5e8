"""What a mass command would be about, counted before it is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from webhook_dispatcher.domain.command import KINDS
from webhook_dispatcher.domain.mass_command import Preview

COUNT_LIMIT = 100_000
"""Deliveries that a preview counts at most; of more it says that there are more."""
MERCHANTS_SHOWN = 20
_COUNTED_BY = ("kind", "type", "merchant_id")


def read_preview(rows: Sequence[Mapping[str, Any]], given_up_later: int = 0) -> Preview:
    """Read the rows of previewing.sql or console_previews.sql, whichever comes first: each count in order.

    The command line counts one more than COUNT_LIMIT; the console's rows say whether a look ended early.
    """
    kinds, types, merchants = (
        {row[name]: row["deliveries"] for row in rows if row.get(name) is not None} for name in _COUNTED_BY
    )
    [rest] = [row for row in rows if all(row.get(name) is None for name in _COUNTED_BY)]
    total = sum(kinds.values())
    return Preview(
        total=min(total, COUNT_LIMIT),
        has_more=rest.get("has_more", False) or max(total, rest.get("looked", 0)) > COUNT_LIMIT,
        kinds={kind: kinds[kind] for kind in KINDS if kind in kinds},
        merchants=_most_first(merchants),
        more_merchants=rest["deliveries"] - len(merchants),
        given_up_later=given_up_later,
        last_attempts=rest.get("last_attempts", 0),
        failing=rest.get("failing", 0),
        failing_merchants=rest.get("failing_merchants", 0),
        types=_most_first(types) if "type" in rest else None,
    )


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda count: (-count[1], count[0])))


@dataclass(frozen=True, slots=True)
class PauseOf:
    """Whose an event is, and whether it is held back by an operator. endpoint: of several, its number."""

    merchant_id: str
    merchant_is_paused: bool
    everything_is_paused: bool
    endpoint: int | None = None
