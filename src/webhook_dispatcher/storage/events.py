"""Rows of the outbox as events."""

import asyncpg

from webhook_dispatcher.domain.claim import ClaimedRetry
from webhook_dispatcher.domain.event import Event, State, Trigger

MAX_ATTEMPTS = 2**15 - 2
"""Attempts of one event that leave room for one more in a smallint."""


def to_event(row: asyncpg.Record, attempts: int) -> Event:
    """Map a row; one that was read without its object makes an event without, which cannot be sent.

    What only an operator's edit can have put into trigger, on_failure or attempts counts as if it were not
    there. What else keeps an event from being sent, `Event.fault` says.
    """
    return Event(
        seq=row["seq"],
        id=row["id"],
        merchant_id=row["merchant_id"],
        type=row["type"],
        created_at=row["created_at"],
        object=row.get("object") or b"",
        attempts=min(max(attempts, 0), MAX_ATTEMPTS),
        trigger=_TRIGGERS.get(row["trigger"], Trigger.SCHEDULE),
        on_failure=_ENDS.get(row["on_failure"]),
    )


def to_retry(row: asyncpg.Record) -> ClaimedRetry:
    """Map a claimed row."""
    return ClaimedRetry(to_event(row, row["attempts"]), row["claim"], row["endpoint_removed_at"])


_TRIGGERS = {str(trigger): trigger for trigger in Trigger}
_ENDS = {str(state): state for state in (State.DELIVERED, State.FAILED)}
