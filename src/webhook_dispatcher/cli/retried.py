"""Follows `deliveries retry` to the attempt that it asked for."""

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import typer

from webhook_dispatcher.cli.output import shown
from webhook_dispatcher.cli.session import CliContext
from webhook_dispatcher.domain.delivery import AttemptView
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.storage.administration import Administration

LOOK_SECONDS = 0.2
"""How long to wait between two looks at an event's attempts."""


@dataclass(frozen=True, slots=True)
class Before:
    """What is known before a retry is asked for: attempts that were made, and what holds the next one up."""

    attempts: frozenset[AttemptView] = field(default_factory=frozenset)
    paused: str | None = None


async def look_before(database: Administration, event: UUID) -> Before:
    """Read the attempts that were made, and whether a pause will hold the next one up."""
    attempts = frozenset(await database.list_attempts(event))
    pause = await database.find_pause_of(event)
    if pause is None:
        return Before(attempts)
    if pause.everything_is_paused:
        return Before(attempts, "everything is paused: the attempt waits for `resume --all`")
    if pause.merchant_is_paused:
        name = shown(pause.merchant_id)
        return Before(attempts, f"{name} is paused: the attempt waits for `resume {name}`")
    return Before(attempts)


async def follow_attempt(
    session: CliContext, database: Administration, event: UUID, before: Before, deadline: timedelta
) -> AttemptView:
    """Wait for the attempt that was asked for; UserError when it has not ended by the deadline."""
    until = session.monotonic() + deadline.total_seconds()
    while True:
        made = [row for row in await database.list_attempts(event) if row not in before.attempts]
        if made:
            return made[0]
        if session.monotonic() >= until:
            raise UserError(
                f"no attempt has ended within {deadline.total_seconds():g} s; it comes all the same: "
                f"look with `deliveries show {event}`"
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
