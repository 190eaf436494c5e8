"""`event-type`: types of one's own, which producers may write beside ours.

A type is retired, never removed: what is owed of it is sent, and what is kept is listed by it.
"""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from webhook_dispatcher.cli.options import AsJson, RequestedBy, ShardName
from webhook_dispatcher.cli.output import print_json, print_table
from webhook_dispatcher.cli.session import session_of
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.domain.event import is_own_type, sample_of, sampled_type
from webhook_dispatcher.storage.administration import Administration

COLUMNS = ("name", "charge_path", "created_at", "retired_at")
HELD = {
    "types": "older programs are refused until all types of your own are retired",
    "owed": "older programs are refused: events of it are owed, and sent; give it again after that",
    "open": "older programs are refused: a transaction from before is open, and may have written one; "
    "give it again after that",
}
_PATH = re.compile(r"[A-Za-z0-9_]{1,64}(?:\.[A-Za-z0-9_]{1,64}){0,7}")


def _parse_name(text: str) -> str:
    if not is_own_type(text):
        raise typer.BadParameter(
            f"{text!r} is ours already, or not 1 to 64 of a-z, 0-9, dots and underscores"
        )
    return text


def _parse_path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is not names between dots, such as charge.id")
    return text


Name = Annotated[
    str, typer.Argument(metavar="NAME", parser=_parse_name, help="The type, such as refund.created.")
]


def add(
    context: typer.Context,
    name: Name,
    sample: Annotated[
        Path | None,
        typer.Option(
            "--sample",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="What `test-event --type` sends: a JSON object whose charge has the id ch_test:NAME.",
        ),
    ] = None,
    charge_path: Annotated[
        str | None,
        typer.Option(
            "--charge-id",
            parser=_parse_path,
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
    given = None if sample is None else sample.read_bytes()

    async def save(database: Administration) -> str:
        known = {own.name: own for own in await database.list_own_types()}.get(name)
        path = charge_path or (known.charge_path if known else "id")
        chosen = given
        if chosen is None and (known is None or path != known.charge_path):
            chosen = sample_of(name, path)
        text = None if chosen is None else _checked(chosen, name, path)
        if older := await database.add_event_type(name, text, charge_path):
            raise UserError(
                f"nothing was changed: dispatchers work that would not send it: {', '.join(older)}; "
                "end them, and give it again (half a minute later, where they were killed)"
            )
        return "changed" if known and known.retired_at is None else "added"

    typer.echo(f"{name}: {session_of(context, shard).change(save, requested_by)}")


def _checked(sample: bytes, name: str, path: str) -> str:
    """Return the sample as text; UserError where a test could not be told by it."""
    try:
        found = json.loads(text := sample.decode())
        for member in path.split("."):
            found = found[member]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"the sample is no JSON object with a text at {path}") from None
    if found != f"ch_test:{name}" or sampled_type(sample) != name:
        raise UserError(
            f"the sample has {found!r} at {path}: that must be 'ch_test:{name}', by which a test is told, "
            "and no such id of another type stands before it"
        )
    return text


def retire(
    context: typer.Context, name: Name, requested_by: RequestedBy = None, shard: ShardName = None
) -> None:
    """Let producers write a type no more; what is owed of it is sent, and retried, as before."""
    session = session_of(context, shard)
    is_retired = session.change(lambda database: database.retire_event_type(name), requested_by)
    if is_retired is None:
        raise UserError(f"there is no type {name!r} of your own")
    typer.echo(f"{name}: {'retired' if is_retired else 'was retired before'}")

    async def release(database: Administration) -> str | None:
        # In a transaction of its own: what was written until the one before is seen.
        await database.retire_event_type(name)
        return await database.read_type_hold()

    hold = session.change(release, requested_by)
    typer.echo(HELD[hold] if hold else "no type of your own is in use: older programs are served")


def list_(context: typer.Context, shard: ShardName = None, as_json: AsJson = False) -> None:
    """Show types of your own, retired ones too."""
    found = session_of(context, shard).work(lambda database: database.list_own_types())
    if as_json:
        print_json(found)
    else:
        print_table(COLUMNS, ([getattr(own, column) for column in COLUMNS] for own in found))
