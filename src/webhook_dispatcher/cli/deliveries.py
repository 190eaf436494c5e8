"""`deliveries list` and `deliveries show`."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer

from webhook_dispatcher.cli.options import AsJson, MerchantFilter, Moment, ShardName, Since, Until, resolved
from webhook_dispatcher.cli.output import print_facts, print_json, print_table
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.errors import Refused
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.storage.administration import (
    Administration,
    AttemptView,
    DeliveryFilter,
    DeliveryView,
)

LAST_DAY = Moment(ago=timedelta(days=1))
LIST_COLUMNS = (
    "created_at",
    "merchant_id",
    "event_id",
    "type",
    "state",
    "failed_reason",
    "attempts",
    "last_outcome",
    "last_status",
    "next_attempt_at",
)
SHOW_COLUMNS = (
    "event_id",
    "seq",
    "merchant_id",
    "type",
    "created_at",
    "state",
    "failed_reason",
    "attempts",
    "next_attempt_at",
    "last_status",
    "last_outcome",
    "finished_at",
)
ATTEMPT_COLUMNS = ("attempt", "trigger", "started_at", "duration_ms", "status", "outcome", "reason")


def list_(
    context: typer.Context,
    merchant: MerchantFilter = None,
    state: Annotated[State | None, typer.Option("--state", help="In this state only.")] = None,
    since: Since = None,
    until: Until = None,
    event: Annotated[
        UUID | None, typer.Option("--event", metavar="EVENT_ID", help="Of this event only.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")] = 50,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show deliveries, the newest first; those of the last day unless a merchant, event or time is given."""
    # A whole month's log is only read when it is asked for.
    start = since or (None if merchant or event or until else LAST_DAY)

    async def find(database: Administration) -> list[DeliveryView]:
        wanted = DeliveryFilter(
            merchant_id=merchant,
            state=str(state) if state else None,
            since=await resolved(start, database),
            until=await resolved(until, database),
            event_id=event,
            limit=limit,
        )
        return await database.list_deliveries(wanted)

    found = session_of(context, shard).work(find)
    if as_json:
        print_json(found)
    else:
        print_table(
            LIST_COLUMNS, ([getattr(delivery, column) for column in LIST_COLUMNS] for delivery in found)
        )


def show(
    context: typer.Context,
    event: Annotated[UUID, typer.Argument(metavar="EVENT_ID", help="The event's id.")],
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show one delivery and its attempts."""

    async def find(database: Administration) -> tuple[list[DeliveryView], list[AttemptView]]:
        found = await database.list_deliveries(DeliveryFilter(event_id=event, limit=1))
        return found, await database.list_attempts(event) if found else []

    found, attempts = session_of(context, shard).work(find)
    if not found:
        raise Refused(f"there is no delivery of event {event}")
    if as_json:
        print_json({"delivery": found[0], "attempts": attempts})
        return
    print_facts((column, getattr(found[0], column)) for column in SHOW_COLUMNS)
    if attempts:
        _print_attempts(attempts)


def _print_attempts(attempts: Sequence[AttemptView]) -> None:
    typer.echo()
    print_table(ATTEMPT_COLUMNS, ([getattr(row, column) for column in ATTEMPT_COLUMNS] for row in attempts))
    excerpts = [
        (f"answer to {row.attempt}", row.response_excerpt) for row in attempts if row.response_excerpt
    ]
    if excerpts:
        typer.echo()
        print_facts(excerpts)
