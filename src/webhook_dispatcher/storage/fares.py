"""How merchants fare: fares.sql, bound for whoever asks."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from webhook_dispatcher.domain.command import LONG_AGO
from webhook_dispatcher.domain.thresholds import FAILING_OUT_OF, FAILING_WITHIN, is_failing
from webhook_dispatcher.storage.statements import Ask


async def find_whoever_failed(
    ask: Ask,
    lanes: int,
    most: int,
    place_at: datetime = LONG_AGO,
    after: str = "",
    prefix: str = "",
    with_suspended: bool = True,
) -> Sequence[dict[str, Any]]:
    """Return merchants that may fail, among so many lanes, from a place on: `fails` says whether they do."""
    place = place_at, after, prefix, with_suspended
    return await ask("find_whoever_failed", *place, FAILING_WITHIN, FAILING_OUT_OF, lanes, most)


def fails(row: Mapping[str, Any]) -> bool:
    """Tell whether a merchant of `find_whoever_failed` fails."""
    return is_failing(
        row["attempted"], row["attempts_failed"], row["failing_since"], row["failures_in_a_row"]
    )


async def read_fares(
    ask: Ask, merchants: Sequence[str], most_counted: int, in_full: bool = True
) -> Sequence[dict[str, Any]]:
    """Return how merchants fare, in their order, as MerchantFacts has it; counts go up to most_counted."""
    rows = await ask("read_fares", merchants, most_counted, FAILING_WITHIN, FAILING_OUT_OF, in_full)
    found = {row["merchant_id"]: dict(row) for row in rows}
    return [found[merchant] for merchant in merchants]
