"""How merchants fare: fares.sql, bound for whoever asks."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from webhook_dispatcher.domain.command import LONG_AGO
from webhook_dispatcher.domain.merchant import MerchantFacts
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
    """Return endpoints that may fail, among so many lanes, from a place on: `fails` says whether they do."""
    place = place_at, after, prefix, with_suspended
    return await ask("find_whoever_failed", *place, FAILING_WITHIN, FAILING_OUT_OF, lanes, most)


def fails(row: Mapping[str, Any]) -> bool:
    """Tell whether an endpoint of `find_whoever_failed` fails."""
    return is_failing(
        row["attempted"], row["attempts_failed"], row["failing_since"], row["failures_in_a_row"]
    )


async def read_fares(
    ask: Ask, merchants: Sequence[str], most_counted: int, in_full: bool = True
) -> Sequence[dict[str, Any]]:
    """Return how merchants fare, in their order, as MerchantFacts has it; counts go up to most_counted."""
    rows = await ask("read_fares", merchants, most_counted, FAILING_WITHIN, FAILING_OUT_OF, in_full)
    lanes: dict[str, list[dict[str, Any]]] = {merchant: [] for merchant in merchants}
    for row in rows:
        lanes[row["merchant_id"]].append(dict(row))
    return [_together(lanes[merchant]) for merchant in merchants]


def _together(lanes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Say how a merchant fares: as the worst of its endpoints, with all that waits for it."""
    own = [row for row in lanes if row["endpoint"] is None]
    endpoints = [row for row in lanes if row["endpoint"] is not None and row["has_endpoint"]]
    worst = min(endpoints or own, key=lambda row: MerchantFacts(**row).place)
    waits = [row["oldest_waiting_at"] for row in lanes if row["oldest_waiting_at"] is not None]
    return {
        **worst,
        "oldest_waiting_at": min(waits, default=None),
        "waiting": sum(row["waiting"] for row in lanes),
        "waiting_for_retry": sum(row["waiting_for_retry"] for row in lanes),
        "endpoints": [MerchantFacts(**row) for row in sorted(endpoints, key=lambda row: row["endpoint"])],
    }
