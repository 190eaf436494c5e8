"""Rows of the outbox as events."""

from dataclasses import replace

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
        lane=row["merchant_id"],
        type=row["type"],
        created_at=row["created_at"],
        object=row.get("object") or b"",
        attempts=min(max(attempts, 0), MAX_ATTEMPTS),
        trigger=_TRIGGERS.get(row["trigger"], Trigger.SCHEDULE),
        on_failure=_ENDS.get(row["on_failure"]),
        copy_of=row["copy_of"],
    )


def to_retry(row: asyncpg.Record) -> ClaimedRetry:
    """Map a claimed row.

    Where there are more attempts than can be counted, all are: the schedule is over.
    """
    event = to_event(row, row["attempts"])
    if event.attempts < MAX_ATTEMPTS:
        is_by_hand = event.trigger is Trigger.MANUAL and event.on_failure is None
        event = event._replace(
            attempts_by_hand=min(max(row["attempts_by_hand"] or 0, 0), event.attempts),
            scheduled_at=row["scheduled_at"] if is_by_hand else None,
        )
    return ClaimedRetry(event, row["claim"], row["endpoint_removed_at"])


def to_trial(row: asyncpg.Record) -> ClaimedRetry:
    """Map a claimed row of a suspended merchant: what waits is attempted by its schedule, whoever asked."""
    retry = to_retry(row)
    if retry.event.scheduled_at is None:
        return retry
    return replace(retry, event=retry.event._replace(trigger=Trigger.SCHEDULE, scheduled_at=None))


_TRIGGERS = {str(trigger): trigger for trigger in Trigger}
_ENDS = {str(state): state for state in (State.DELIVERED, State.FAILED)}
