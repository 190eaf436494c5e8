"""Follows `deliveries retry` to the attempt that it asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import typer

from webhook_dispatcher.cli.output import as_arguments, endpoint_named, shown
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.delivery import AttemptView
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.storage.administration import Administration, DeliveryFilter

LOOK_SECONDS = 0.2
"""How long to wait between two looks at an event's attempts."""


@dataclass(frozen=True, slots=True)
class Before:
    """What is known before a retry is asked for: attempts that were made, and what holds the next one up.

    deliveries: that it is about, by their ids; of several, nothing more is read.
    """

    deliveries: Sequence[UUID]
    attempts: frozenset[AttemptView] = field(default_factory=frozenset)
    paused: str | None = None


async def look_before(database: Administration, event: UUID, endpoint: int | None) -> Before:
    """Read the attempts that were made, and whether a pause will hold the next one up."""
    found = await database.list_deliveries(DeliveryFilter(event_id=event))
    ids = {each.event_id for each in found if endpoint in (None, each.endpoint or 1)} or {event}
    if len(ids) > 1:
        return Before(tuple(ids))
    [delivery] = ids
    attempts = frozenset(await database.list_attempts(delivery))
    pause = await database.find_pause_of(delivery)
    if pause is None:
        return Before((delivery,), attempts)
    if pause.everything_is_paused:
        return Before((delivery,), attempts, "everything is paused: the attempt waits for `resume --all`")
    if pause.merchant_is_paused:
        paused = pause.merchant_id, pause.endpoint
        waits = f"the attempt waits for `resume {as_arguments(*paused)}`"
        return Before((delivery,), attempts, f"{endpoint_named(*paused)} is paused: {waits}")
    return Before((delivery,), attempts)


async def follow_attempt(
    session: CliContext, database: Administration, before: Before, deadline: timedelta
) -> AttemptView:
    """Wait for the attempt that was asked for; UserError when it has not ended by the deadline."""
    until = session.monotonic() + deadline.total_seconds()
    [delivery] = before.deliveries
    while True:
        made = [row for row in await database.list_attempts(delivery) if row not in before.attempts]
        if made:
            return made[0]
        if session.monotonic() >= until:
            raise UserError(
                f"no attempt has ended within {deadline.total_seconds():g} s; it comes all the same: "
                f"look with `deliveries show {delivery}`"
            )
        await session.pause(LOOK_SECONDS)


def tell_attempt(attempt: AttemptView) -> None:
    """Show what came of an attempt."""
    status = "" if attempt.status is None else f" {attempt.status}"
    said = "delivered" if attempt.outcome == "delivered" else f"not delivered: {attempt.outcome}"
    reason = f" ({shown(attempt.reason)})" if attempt.reason else ""
    typer.echo(f"attempt {attempt.attempt}: {said}{status}{reason}, after {attempt.duration_ms} ms")
    if attempt.response_excerpt:
        typer.echo(f'it answered "{shown(attempt.response_excerpt)}"')
