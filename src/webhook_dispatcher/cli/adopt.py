"""`adopt`: a copied database becomes an installation of its own, once somebody has seen what it owes."""

from typing import Annotated

import typer

from webhook_dispatcher.cli.options import RequestedBy, ShardName
from webhook_dispatcher.cli.output import print_facts
from webhook_dispatcher.cli.session import operator, session_of
from webhook_dispatcher.domain.errors import ConfigurationError, UserError
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.installation import Backlog, Installation


def adopt(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, what is owed is only shown.")] = False,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
) -> None:
    """Show what a copied database owes, and make it the installation that WEBHOOK_INSTALLATION names.

    The server's system identifier is noted anew too, so that nothing warns of another server any more.
    """
    session = session_of(context, shard)
    name = session.settings().installation
    if name is None:
        raise ConfigurationError("WEBHOOK_INSTALLATION: not set", remedy="adopt gives the database this name")
    found, owed = session.work(_look)
    _show(found, owed, name)
    if found.name == name and not found.has_moved:
        typer.echo(f"nothing to adopt: the database belongs to {name} already")
        return
    if not yes:
        raise UserError(
            f"nothing was changed; `adopt --yes` makes it {name}, and a daemon then sends what is owed"
        )
    who = requested_by or operator()
    session.work(lambda database: database.adopt_installation(name, who))
    typer.echo(f"the database belongs to {name} now")


async def _look(database: Administration) -> tuple[Installation, Backlog]:
    return await database.read_installation(), await database.read_owed()


def _show(found: Installation, owed: Backlog, name: str) -> None:
    print_facts(
        [
            ("installation", found.name),
            ("WEBHOOK_INSTALLATION", name),
            ("server it was on", found.known_server),
            ("this server", found.server),
            ("pending", owed.pending),
            ("pending_retry", owed.pending_retry),
            ("merchants", owed.merchants),
            ("oldest", owed.oldest),
        ]
    )
