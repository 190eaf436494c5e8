"""`deliveries list` and `deliveries show`."""

import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from shutil import get_terminal_size
from typing import Annotated
from uuid import UUID

import typer

from webhook_dispatcher.cli.options import (
    AsJson,
    ChosenEndpoint,
    MerchantFilter,
    Moment,
    ShardName,
    Since,
    Until,
    check_known,
    check_whose,
    resolved,
)
from webhook_dispatcher.cli.output import endpoint_named, print_facts, print_json, print_table, shown
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.cli.words import short
from webhook_dispatcher.domain.delivery import AttemptView, DeliveryView
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.domain.event import State
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.administration import Administration, DeliveryFilter

LAST_DAY = Moment(ago=timedelta(days=1))
WAITING = (State.PENDING, State.PENDING_RETRY)
SHORT_STATES = {State.PENDING_RETRY: "retry"}
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
OF_SEVERAL = ("endpoint", "copy_of")
ATTEMPT_COLUMNS = ("attempt", "trigger", "started_at", "duration_ms", "status", "outcome", "reason")


def list_(
    context: typer.Context,
    merchant: MerchantFilter = None,
    endpoint: ChosenEndpoint = None,
    state: Annotated[State | None, typer.Option("--state", help="In this state only.")] = None,
    since: Since = None,
    until: Until = None,
    event: Annotated[
        UUID | None, typer.Option("--event", metavar="EVENT_ID", help="Of this event only.")
    ] = None,
    charge: Annotated[
        str | None, typer.Option("--charge", metavar="CHARGE_ID", help="Of this charge only.")
    ] = None,
    type_: Annotated[
        str | None, typer.Option("--type", help="Of this type only, such as charge.failed.")
    ] = None,
    outcome: Annotated[
        Outcome | None, typer.Option("--outcome", help="Whose latest attempt ended like this only.")
    ] = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="The oldest first, instead of the newest.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")] = 50,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show deliveries, the newest first; those of the last day unless asked for more exactly.

    A line each: when it was written, its event, state, attempts and the latest result, its merchant. What is
    asked for by merchant, event, charge or time, or waits, is shown whenever it was written.
    """
    check_whose(merchant, endpoint)
    # A whole month's log is only read when it is asked for.
    start = since or (None if merchant or event or charge or until or state in WAITING else LAST_DAY)

    async def find(database: Administration) -> list[DeliveryView]:
        await check_known(merchant, database)
        wanted = DeliveryFilter(
            merchant_id=merchant,
            state=str(state) if state else None,
            since=await resolved(start, database),
            until=await resolved(until, database),
            event_id=event,
            limit=limit,
            type=type_,
            charge_id=charge,
            outcome=str(outcome) if outcome else None,
            oldest_first=oldest_first,
            endpoint=endpoint,
        )
        return await database.list_deliveries(wanted)

    found = session_of(context, shard).work(find)
    if as_json:
        print_json(list(map(_columns, found)))
        return
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    for line in list_lines(found, width):
        typer.echo(line)


def _columns(delivery: DeliveryView) -> dict[str, object]:
    return {column: getattr(delivery, column) for column in (*SHOW_COLUMNS, *OF_SEVERAL)}


def _facts(delivery: DeliveryView) -> Iterator[tuple[str, object]]:
    for column, value in _columns(delivery).items():
        if column in SHOW_COLUMNS or value is not None:
            yield column, value


def list_lines(found: Sequence[DeliveryView], width: int | None) -> Iterator[str]:
    """Write a line for each delivery: 80 columns, or more where a merchant's id takes them.

    width: of the terminal; lines are cut there, behind what has to be copied. None: nothing is cut.
    """
    yield f"{'written':<14} {'event':<36} {'state':<9} {'tries':<8} merchant"
    for delivery in found:
        state = SHORT_STATES.get(State(delivery.state), delivery.state)
        tries = f"{delivery.attempts} {_latest(delivery)}" if delivery.attempts else "-"
        line = f"{short(delivery.created_at)} {delivery.event_id} {state:<9} {tries:<8} "
        line += endpoint_named(delivery.merchant_id, delivery.endpoint)
        yield line if width is None or len(line) <= width else f"{line[: width - 1]}\N{HORIZONTAL ELLIPSIS}"


def _latest(delivery: DeliveryView) -> str:
    if delivery.last_outcome in (Outcome.STATUS, Outcome.DELIVERED):
        return shown(delivery.last_status)
    return shown(delivery.last_outcome)


def show(
    context: typer.Context,
    event: Annotated[UUID, typer.Argument(metavar="EVENT_ID", help="The event's id.")],
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show one delivery and its attempts; of an event that went to several endpoints, each."""

    async def find(database: Administration) -> list[tuple[DeliveryView, list[AttemptView]]]:
        found = await database.list_deliveries(DeliveryFilter(event_id=event))
        return [(each, await database.list_attempts(each.event_id)) for each in _latest_of_each(found)]

    found = session_of(context, shard).work(find)
    if not found:
        raise UserError(f"there is no delivery of event {event}")
    if as_json:
        told = [{"delivery": _columns(each), "attempts": attempts} for each, attempts in found]
        print_json({**told[0], **({"others": told[1:]} if told[1:] else {})})
        return
    for place, (delivery, attempts) in enumerate(found):
        if place:
            typer.echo()
        print_facts(_facts(delivery))
        if attempts:
            _print_attempts(attempts)


def _latest_of_each(found: Sequence[DeliveryView]) -> list[DeliveryView]:
    """Keep the newest delivery to each endpoint, in their order: an id may have been used again."""
    latest: dict[int, DeliveryView] = {}
    for delivery in found:
        latest.setdefault(delivery.endpoint or 0, delivery)
    return [latest[number] for number in sorted(latest)]


def _print_attempts(attempts: Sequence[AttemptView]) -> None:
    typer.echo()
    print_table(ATTEMPT_COLUMNS, ([getattr(row, column) for column in ATTEMPT_COLUMNS] for row in attempts))
    excerpts = [
        (f"answer to {row.attempt}", row.response_excerpt) for row in attempts if row.response_excerpt
    ]
    if excerpts:
        typer.echo()
        print_facts(excerpts)
