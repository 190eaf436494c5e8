"""`commands list` and `commands withdraw`: what operators have asked for, and taking it back."""

import json
from typing import Annotated

import typer

from webhook_dispatcher.cli.options import AsJson, MerchantFilter, ShardName
from webhook_dispatcher.cli.output import print_json, print_table, shown
from webhook_dispatcher.cli.session import operator, session_of
from webhook_dispatcher.cli.words import at
from webhook_dispatcher.domain.command import CommandStatus, ListedCommand
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.storage.administration import Administration

COLUMNS = ("id", "asked (UTC)", "by", "command", "merchant or event", "status", "what came of it")


def list_(
    context: typer.Context,
    merchant: MerchantFilter = None,
    status: Annotated[CommandStatus | None, typer.Option("--status", help="In this status only.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")] = 50,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Show the commands that were asked for, the newest first, and what came of them."""
    found = session_of(context, shard).work(lambda database: database.list_commands(merchant, status, limit))
    if as_json:
        print_json(found)
    else:
        print_table(COLUMNS, (_line(command) for command in found))


def _line(command: ListedCommand) -> list[object]:
    return [
        command.id,
        at(command.created_at),
        command.requested_by,
        command.command,
        command.merchant_id or command.event_id or "everything",
        command.status,
        _outcome(command),
    ]


def _outcome(command: ListedCommand) -> str:
    """Say in one cell what came of a command."""
    if command.error_message is not None:
        code = f" ({command.error_code})" if command.error_code is not None else ""
        return f"{command.error_message}{code}"
    if isinstance(command.result, dict):
        return ", ".join(f"{name} {_fact(value)}" for name, value in command.result.items())
    return ""


def _fact(value: object) -> str:
    return json.dumps(value) if isinstance(value, list) else shown(value)


def withdraw(
    context: typer.Context,
    command: Annotated[int, typer.Argument(metavar="ID", min=1, help="The command's id.")],
    requested_by: Annotated[
        str | None,
        typer.Option("--requested-by", metavar="NAME", help="For the audit trail; by default cli:<user>."),
    ] = None,
    shard: ShardName = None,
) -> None:
    """Take back a command that no dispatcher has taken up yet."""

    async def work(database: Administration) -> str | None:
        if await database.withdraw_command(command, requested_by or operator()):
            return None
        return (await database.find_command(command)).status

    status = session_of(context, shard).change(work)
    if status is not None:
        raise UserError(f"command {command} is {status}: only what is pending can be withdrawn")
    typer.echo(f"command {command}: withdrawn")
