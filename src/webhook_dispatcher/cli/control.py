"""Commands that a dispatcher carries out. Which they are, and their help, says domain.command.COMMANDS.

Each inserts a row into webhook.control and waits until it is handled. When nothing has changed for the
deadline, a command that nobody has taken up is withdrawn; one that is running goes on.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Annotated, Any
from uuid import UUID

import typer

from webhook_dispatcher.cli.options import (
    AsJson,
    ChosenEndpoint,
    LowestEndpoint,
    Merchant,
    MerchantFilter,
    RequestedBy,
    ShardName,
    Since,
    Until,
    check_known,
    check_whose,
    one_of,
    parse_merchant,
    parse_period,
    resolved,
)
from webhook_dispatcher.cli.output import as_arguments, print_json, shown
from webhook_dispatcher.cli.retried import follow_attempt, look_before, tell_attempt
from webhook_dispatcher.cli.session import CliContext, operator, session_of
from webhook_dispatcher.domain.command import (
    LONG_AGO,
    MAX_RETRIED,
    TESTED_TYPES,
    CommandName,
    CommandStatus,
    CommandView,
    Recover,
)
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.domain.event import State, render_instant
from webhook_dispatcher.domain.verdict import Outcome
from webhook_dispatcher.storage.administration import Administration, ControlRequest

TOLD = ("id", "command", "status", "handled_at", "result", "error_code", "error_message")
"""What programs are told of a command that was given."""
_ARGUMENT = re.compile(r"\bargs\.(\w+)")
LOOK_SECONDS = 0.05
"""How long to wait between two looks at the command's row."""

Event = Annotated[UUID, typer.Argument(metavar="EVENT_ID", help="The event's id.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the result, or only ask.")]
Deadline = Annotated[
    timedelta,
    typer.Option(
        "--deadline",
        parser=parse_period,
        metavar="DURATION",
        help="Give up after so long without news; a command that nobody took up is withdrawn.",
    ),
]
DEFAULT_DEADLINE: Any = "PT30S"


def ask_retry(
    context: typer.Context,
    event: Event,
    force: Annotated[bool, typer.Option("--force", help="Send it even if it was delivered.")] = False,
    endpoint: ChosenEndpoint = None,
    wait: Wait = True,
    deadline: Deadline = DEFAULT_DEADLINE,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Ask for `retry`, and exit with 1 when the attempt did not deliver."""
    session = session_of(context, shard)
    args = {"force": True if force else None, "endpoint": endpoint}
    request = request_of(CommandName.RETRY, requested_by, None, args, event)
    before = session.work(lambda database: look_before(database, event, endpoint))
    if before.paused is not None:
        typer.echo(before.paused, err=True)
    if not wait or before.paused is not None or len(before.deliveries) > 1:
        carry_out(session, request, deadline if wait else None, as_json)
        if len(before.deliveries) > 1 and not as_json:
            typer.echo(f"it goes to several endpoints: `deliveries show {event}` shows what came of each")
        return
    view = _ask(session, request, deadline, CommandProgress())
    if view.status == CommandStatus.REJECTED or not as_json:
        report(view, as_json)
    attempt = session.work(lambda database: follow_attempt(session, database, before, deadline))
    if as_json:
        print_json({**_told(view), "attempt": attempt})
    else:
        tell_attempt(attempt)
    if attempt.outcome != "delivered":
        raise typer.Exit(1)


def ask_retry_failed(
    context: typer.Context,
    merchant: MerchantFilter = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.")] = None,
    endpoint: ChosenEndpoint = None,
    wait: Wait = True,
    deadline: Deadline = DEFAULT_DEADLINE,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Ask for `retry_failed`."""
    if merchant is None and since is None:
        raise typer.BadParameter("give --merchant, --since or both")
    check_whose(merchant, endpoint)
    session = session_of(context, shard)

    async def prepare(database: Administration) -> ControlRequest:
        await check_known(merchant, database)
        start, end = await resolved(since, database), await resolved(until, database)
        args = {
            "since": render_instant(start) if start else None,
            "until": render_instant(end) if end else None,
            "limit": limit,
            "endpoint": endpoint,
        }
        return request_of(CommandName.RETRY_FAILED, requested_by, merchant, args)

    request = session.work(prepare)
    view = carry_out(session, request, deadline if wait else None, as_json)
    if not as_json and view.status == CommandStatus.DONE and (view.result or {}).get("matched") == 0:
        typer.echo(session.work(lambda database: _tell_waiting(database, request)))


async def _tell_waiting(database: Administration, request: ControlRequest) -> str:
    """Say how many wait for a retry, where none had failed: only `recover` attempts those."""
    until = request.args.get("until")
    end = datetime.fromisoformat(until) if until else await database.database_time()
    states, endpoint = (str(State.PENDING_RETRY),), request.args.get("endpoint")
    waiting = Recover(request.merchant_id, LONG_AGO, end, MAX_RETRIED, states, endpoint=endpoint)
    preview = await database.preview_recovery(waiting)
    more = "+" if preview.has_more else ""
    which = as_arguments(request.merchant_id, endpoint) if request.merchant_id else "--all"
    return (
        f"none had failed for good; {preview.total:,}{more} wait for their next attempt: "
        f"`recover {which} --state pending_retry` attempts those now"
    )


def ask_test_event(
    context: typer.Context,
    merchant: Merchant,
    type_: Annotated[
        str | None,
        typer.Option(
            "--type",
            parser=one_of(TESTED_TYPES, or_own=True),
            metavar="TYPE",
            help="A sample of this type instead, ours or your own, such as charge.failed, with a charge that "
            "is none: ch_test_failed.",
        ),
    ] = None,
    endpoint: LowestEndpoint = None,
    wait: Wait = True,
    deadline: Deadline = DEFAULT_DEADLINE,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Ask for `test_event`, and exit with 1 when it was not delivered."""
    args = {"type": type_, "endpoint": endpoint}
    request = request_of(CommandName.TEST_EVENT, requested_by, merchant, args)
    carry_out(session_of(context, shard), request, deadline if wait else None, as_json)


MerchantOrAll = Annotated[
    str | None, typer.Argument(metavar="MERCHANT", parser=parse_merchant, help="The merchant's id.")
]
Everything = Annotated[bool, typer.Option("--all", help="Every merchant at once.")]


def ask_pause(
    context: typer.Context,
    merchant: MerchantOrAll = None,
    everything: Everything = False,
    endpoint: ChosenEndpoint = None,
    wait: Wait = True,
    deadline: Deadline = DEFAULT_DEADLINE,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Ask for `pause`."""
    check_one_or_all(merchant, everything)
    check_whose(merchant, endpoint)
    request = request_of(CommandName.PAUSE, requested_by, merchant, {"endpoint": endpoint})
    carry_out(session_of(context, shard), request, deadline if wait else None, as_json)


def ask_resume(
    context: typer.Context,
    merchant: MerchantOrAll = None,
    everything: Everything = False,
    endpoint: ChosenEndpoint = None,
    wait: Wait = True,
    deadline: Deadline = DEFAULT_DEADLINE,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Ask for `resume`."""
    check_one_or_all(merchant, everything)
    check_whose(merchant, endpoint)
    request = request_of(CommandName.RESUME, requested_by, merchant, {"endpoint": endpoint})
    carry_out(session_of(context, shard), request, deadline if wait else None, as_json)


def check_one_or_all(merchant: str | None, everything: bool) -> None:
    """Refuse what names neither a merchant nor all, or both."""
    if (merchant is None) != everything:
        raise typer.BadParameter("give either a merchant or --all")


def request_of(
    command: CommandName,
    requested_by: str | None,
    merchant: str | None,
    args: Mapping[str, Any] = MappingProxyType({}),
    event: UUID | None = None,
) -> ControlRequest:
    """Write a command about a merchant, an event or all, with those arguments that were given."""
    given = {name: value for name, value in args.items() if value is not None}
    return ControlRequest(command, requested_by or operator(), merchant, event, given)


class CommandProgress:
    """Learns how far a command has come. This one keeps it to itself."""

    def begin(self, command: str, command_id: int) -> None:
        """Learn that a command was asked for, and is waited for."""

    def tell(self, view: CommandView) -> None:
        """Learn of a change."""


def carry_out(
    session: CliContext,
    request: ControlRequest,
    deadline: timedelta | None,
    as_json: bool,
    progress: CommandProgress | None = None,
) -> CommandView:
    """Ask for a command, wait for its result unless deadline is None, and report it."""
    view = _ask(session, request, deadline, progress or CommandProgress())
    report(view, as_json)
    return view


def _ask(
    session: CliContext, request: ControlRequest, deadline: timedelta | None, progress: CommandProgress
) -> CommandView:
    return session.change(lambda database: ask_on(database, session, request, deadline, progress))


async def ask_on(
    database: Administration,
    session: CliContext,
    request: ControlRequest,
    deadline: timedelta | None,
    progress: CommandProgress,
) -> CommandView:
    """Ask for a command, and wait until it is handled unless deadline is None."""
    command_id = await database.ask(request)
    if deadline is None:
        return await database.find_command(command_id)
    progress.begin(request.command, command_id)
    return await _follow(session, database, command_id, deadline, request.requested_by, progress)


async def _follow(
    session: CliContext,
    database: Administration,
    command_id: int,
    deadline: timedelta,
    requested_by: str,
    progress: CommandProgress,
) -> CommandView:
    """Wait until a command is handled; when nothing changes for too long it is withdrawn, or UserError."""
    view = await database.find_command(command_id)
    changed_at = session.monotonic()
    while not view.is_final:
        if session.monotonic() - changed_at >= deadline.total_seconds():
            await _give_up(database, view, deadline, requested_by)
            changed_at = session.monotonic()
        await session.pause(LOOK_SECONDS)
        latest = await database.find_command(command_id)
        if latest != view:
            view, changed_at = latest, session.monotonic()
            progress.tell(view)
    return view


async def _give_up(
    database: Administration, view: CommandView, deadline: timedelta, requested_by: str
) -> None:
    """Withdraw a command and raise UserError; return when it was taken up just now."""
    about = f"{view.command} (command {view.id})"
    if view.status != CommandStatus.PENDING:
        raise UserError(f"{about} is still running, without news; see `commands list`")
    if await database.withdraw_command(view.id, requested_by):
        waited = f"{deadline.total_seconds():g} s"
        raise UserError(f"{about} was withdrawn: no dispatcher took it up within {waited}: is one running?")


def report(view: CommandView, as_json: bool) -> None:
    """Show what became of a command; UserError when it was rejected."""
    if as_json:
        print_json(_told(view))
    if view.status == CommandStatus.REJECTED:
        code = f" ({view.error_code})" if view.error_code is not None else ""
        raise UserError(f"{view.command} (command {view.id}) was rejected: {_as_options(view)}{code}")
    if view.status == CommandStatus.WITHDRAWN:
        raise UserError(f"{view.command} (command {view.id}) was {shown(view.error_message or view.status)}")
    if not as_json:
        facts = "".join(f", {name} {shown(value)}" for name, value in (view.result or {}).items())
        typer.echo(f"{view.command} (command {view.id}): {view.status}{facts}")
    if (
        view.command == CommandName.TEST_EVENT
        and view.status == CommandStatus.DONE
        and (view.result or {}).get("outcome") != Outcome.DELIVERED
    ):
        raise typer.Exit(1)


def _told(view: CommandView) -> dict[str, object]:
    return {name: getattr(view, name) for name in TOLD}


def _as_options(view: CommandView) -> str:
    """Write why a command was rejected; what SQL calls args.force is --force here."""
    return _ARGUMENT.sub(r"--\1", shown(view.error_message))
