"""`event-type`: types of one's own, which producers may write beside ours.

A type is retired, never removed: what is owed of it is sent, and what is kept is listed by it.
"""

from pathlib import Path
from typing import Annotated

import typer

from webhook_dispatcher.cli.options import AsJson, RequestedBy, ShardName
from webhook_dispatcher.cli.output import print_json, print_table
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.endpoint import END_OLDER
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.domain.event import is_own_type, sample_of, sampled_type
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.api import event_types

COLUMNS = ("name", "charge_path", "created_at", "retired_at")
_REFUSED = "programs for schema 21 are refused, "
HELD = {
    "types": f"{_REFUSED}until all types of your own are retired",
    "owed": f"{_REFUSED}while events of retired types are owed; once they are sent, retire one again",
    "open": f"{_REFUSED}while a transaction is open that may have written one; then retire one again",
    "nothing": f"{_REFUSED}though nothing of your own types is owed: retire one again",
}


def _parse_name(text: str) -> str:
    if not is_own_type(text):
        raise typer.BadParameter(f"{text!r} is ours, or not 1 to 64 of a-z, 0-9, dots and underscores")
    return text


def _parse_sample(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path}: {error}") from None


Name = Annotated[
    str, typer.Argument(metavar="NAME", parser=_parse_name, help="The type, such as refund.created.")
]


def add(
    context: typer.Context,
    name: Name,
    sample: Annotated[
        str | None,
        typer.Option(
            "--sample",
            parser=_parse_sample,
            metavar="FILE",
            help="What `test-event --type` sends: a JSON object whose charge has the id ch_test:NAME.",
        ),
    ] = None,
    charge_path: Annotated[
        str | None,
        typer.Option(
            "--charge-id",
            metavar="PATH",
            help="Where an object has its charge's id, such as charge.id; by default id.",
        ),
    ] = None,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
) -> None:
    """Let producers write a type of your own, a new one or one that was retired; or change it.

    Programs for schema 21 or before are refused from then on.
    """

    async def save(database: Administration) -> str:
        known = {own.name: own for own in await database.list_own_types()}.get(name)
        text = sample
        if text is None and (known is None or charge_path):
            text = sample_of(name, charge_path or "id").decode()
        if text is not None and sampled_type(text.encode()) != name:
            raise UserError(f"the sample's charge must have the id ch_test:{name}, by which a test is told")
        person = database.person or ""
        if older := await event_types.add(database.connection, name, text, charge_path, person):
            raise UserError(
                f"nothing was changed: dispatchers work that would not send it: {', '.join(older)}; "
                + END_OLDER
            )
        return "changed" if known and known.retired_at is None else "added"

    typer.echo(f"{name}: {session_of(context, shard).change(save, requested_by)}")


def retire(
    context: typer.Context, name: Name, requested_by: RequestedBy = None, shard: ShardName = None
) -> None:
    """Let producers write a type no more; what is owed of it is sent, and retried, as before."""
    session = session_of(context, shard)

    async def once(database: Administration) -> tuple[bool | None, str | None]:
        is_retired = await event_types.retire(database.connection, name, database.person or "")
        return is_retired, await database.read_type_hold()

    is_retired, _ = session.change(once, requested_by)
    if is_retired is None:
        raise UserError(f"there is no type {name!r} of your own")
    # In a transaction of its own: what was written until the one before is seen.
    _, hold = session.change(once, requested_by)
    typer.echo(f"{name}: {'retired' if is_retired else 'was retired before'}")
    typer.echo(HELD[hold] if hold else "no type of your own keeps older programs out")


def list_(context: typer.Context, shard: ShardName = None, as_json: AsJson = False) -> None:
    """Show types of your own, retired ones too."""
    found = session_of(context, shard).work(lambda database: database.list_own_types())
    if as_json:
        print_json(found)
    else:
        print_table(COLUMNS, ([getattr(own, column) for column in COLUMNS] for own in found))
