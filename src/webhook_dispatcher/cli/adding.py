"""`endpoint add`: one more endpoint for a merchant, each with its own URL, secret, filter, order and pause.

Who is sent events by one endpoint alone is sent none while it gets its second: what a dispatcher holds of it
is released first, so that the second misses nothing.
"""

from typing import Annotated

import typer

from webhook_dispatcher.cli.control import Deadline
from webhook_dispatcher.cli.endpoints import (
    ChosenOrder,
    Types,
    at_once_option,
    check_at_once,
    check_filter,
    filter_of,
    is_paused,
    new_secret,
    split_types,
    tell_pause,
)
from webhook_dispatcher.cli.options import AsJson, Merchant, RequestedBy, ShardName
from webhook_dispatcher.cli.output import endpoint_named, print_json
from webhook_dispatcher.cli.rotation import HOLD_DEADLINE
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.endpoint import DEFAULT_AT_ONCE
from webhook_dispatcher.domain.errors import ConfigurationError, UserError
from webhook_dispatcher.storage.administration import AddedEndpoint, Administration, NewEndpoint
from webhook_dispatcher.storage.api.held_rotation import LOOK

MAX_NAME = 100


def add(
    context: typer.Context,
    merchant: Merchant,
    url: Annotated[str, typer.Argument(metavar="URL", help="https and public, unless settings allow more.")],
    name: Annotated[
        str | None, typer.Option("--name", help=f"For people, of at most {MAX_NAME} characters.")
    ] = None,
    types: Types = None,
    order: ChosenOrder = None,
    at_once: Annotated[int | None, at_once_option(str(DEFAULT_AT_ONCE))] = None,
    deadline: Deadline = HOLD_DEADLINE,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Add an endpoint to a merchant's, and print its number and its secret, once.

    It gets what is written from then on, and each endpoint gets events by itself. Of each merchant there can
    be sixteen. Programs written for schema 25 or before are refused then.
    """
    from webhook_dispatcher.transport.guard import Guard

    if name is not None and not 1 <= len(name.strip()) <= MAX_NAME:
        raise typer.BadParameter(f"a name has 1 to {MAX_NAME} characters")
    check_at_once(order, at_once)
    session = session_of(context, shard)
    settings = session.settings()
    keyring = settings.keyring()
    if (fault := Guard(settings.egress_policy()).find_fault(url)) is not None:
        raise ConfigurationError(f"URL: {fault}")
    named = split_types(types)
    secret = new_secret()

    async def until_added(database: Administration) -> tuple[AddedEndpoint, bool]:
        await check_filter(merchant, named, database)
        await database.verify_keys(keyring)
        how_many = order.at_once(at_once, None) if order else None
        wanted = NewEndpoint(url, keyring.seal(merchant, secret), name, filter_of(named), how_many)
        ends_at = session.monotonic() + deadline.total_seconds()
        while (added := await database.add_endpoint(merchant, wanted, keyring)) is None:
            if session.monotonic() >= ends_at:
                still = "something is still being sent to it; try again"
                raise UserError(f"{endpoint_named(merchant, None)} has no other endpoint yet: {still}")
            await session.pause(LOOK.total_seconds())
        return added, await is_paused(database, merchant, added.number)

    added, paused = session.change(until_added, requested_by)
    revealed = secret.revealed.decode()
    if as_json:
        print_json(
            {
                "merchant_id": merchant,
                "number": added.number,
                "id": added.id,
                "name": name,
                "url": url,
                "types": filter_of(named),
                "secret": revealed,
            }
        )
        return
    told = endpoint_named(merchant, added.number)
    typer.echo(f"{told} ({added.id}): added; its secret is shown this once:")
    typer.echo(revealed)
    if paused:
        tell_pause(merchant, added.number)
