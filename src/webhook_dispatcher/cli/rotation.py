"""`endpoint rotate-secret`: a new secret instead of the one before, which signs all that waits from then on.

A receiver that has not got it yet refuses all of that at once. So where something waits, that is said, and
asked; with `--hold` the endpoint is paused first, and stays so until `resume`.
"""

import sys
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from webhook_dispatcher.cli.control import CommandProgress, Deadline, ask_on, report, request_of
from webhook_dispatcher.cli.endpoints import find_owed, new_secret, not_configured
from webhook_dispatcher.cli.options import (
    AsJson,
    FirstEndpoint,
    Merchant,
    RequestedBy,
    ShardName,
    parse_period,
)
from webhook_dispatcher.cli.output import as_arguments, endpoint_named, print_json
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.cli.words import many
from webhook_dispatcher.domain.command import CommandName, CommandStatus
from webhook_dispatcher.domain.errors import ConfigurationError, NotHeld, UserError
from webhook_dispatcher.domain.event import render_instant
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.api.held_rotation import when_held
from webhook_dispatcher.storage.previews import COUNT_LIMIT

HOLD_DEADLINE: Any = "PT1M"
"""Longer than the default lease, for which a daemon that was killed is waited for."""


def rotate_secret(
    context: typer.Context,
    merchant: Merchant,
    overlap: Annotated[
        timedelta | None,
        typer.Option(
            "--overlap",
            parser=parse_period,
            metavar="DURATION",
            help="Sign with the old secret too for so long, such as PT24H; else it ends at once.",
        ),
    ] = None,
    hold: Annotated[
        bool,
        typer.Option("--hold", help="First pause the endpoint, until nothing is sent; it stays paused."),
    ] = False,
    endpoint: FirstEndpoint = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, even if events wait.")] = False,
    deadline: Deadline = HOLD_DEADLINE,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Replace a merchant's secret and print the new one, once."""
    session = session_of(context, shard)
    keyring = session.settings().keyring()
    which, owed = session.change(lambda database: find_owed(database, merchant, endpoint))
    told = endpoint_named(merchant, which)
    if owed and not (hold or overlap or yes):
        _confirm(told, owed)
    secret = new_secret()

    async def change(database: Administration) -> tuple[bool, datetime | None]:
        await database.verify_keys(keyring)
        sealed = keyring.seal(merchant, secret)

        async def rotate() -> tuple[bool, datetime | None]:
            return await database.rotate_secret(merchant, sealed, overlap, keyring, hold, which or 1)

        async def pause() -> None:
            request = request_of(CommandName.PAUSE, requested_by, merchant, {"endpoint": which})
            view = await ask_on(database, session, request, deadline, CommandProgress())
            if view.status != CommandStatus.DONE:
                report(view, as_json=False)

        return await when_held(rotate, pause, deadline, session.pause)

    try:
        found, until = session.change(change, requested_by)
    except NotHeld as error:
        why = "something is still being sent" if error.is_paused else "somebody has resumed it"
        raise UserError(f"{told} keeps its secret: {why}; try again, or `resume` it") from None
    if not found:
        raise not_configured(merchant, which)
    revealed = secret.revealed.decode()
    if as_json:
        number = {"number": which} if which else {}
        print_json({"merchant_id": merchant, **number, "secret": revealed, "previous_until": until})
        return
    end = f"the one before signs too until {render_instant(until)}" if until else "the one before has ended"
    held = f", nothing is sent until `resume {as_arguments(merchant, which)}`" if hold else ""
    typer.echo(f"{told}: secret replaced, {end}{held}; the new one is shown this once:")
    typer.echo(revealed)


def _confirm(told: str, owed: int) -> None:
    """Say how much the new secret would sign before the merchant has it, and ask."""
    typer.echo(
        f"{told}: {many(owed, COUNT_LIMIT)} to be sent, which the new secret signs at once.\n"
        "A receiver that has the old one refuses them, and their order is lost: `--hold`\n"
        "sends nothing until `resume`, `--overlap PT24H` signs with both.",
        err=True,
    )
    if not sys.stdin.isatty():
        raise ConfigurationError("there is no terminal to ask on; give --hold, --overlap or --yes")
    typer.confirm("Replace it all the same?", abort=True, err=True)
