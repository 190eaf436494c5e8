"""`recover`, `skip` and `commands stop`: many deliveries at once. Each shows first what it would be about."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from webhook_dispatcher.cli.control import (
    DEFAULT_DEADLINE,
    CommandProgress,
    Deadline,
    Everything,
    MerchantOrAll,
    Wait,
    carry_out,
    check_one_or_all,
    request_of,
)
from webhook_dispatcher.cli.options import (
    AsJson,
    ChosenEndpoint,
    Moment,
    RequestedBy,
    ShardName,
    Until,
    check_known,
    check_types,
    check_whose,
    one_of,
    parse_moment,
    resolved,
)
from webhook_dispatcher.cli.output import print_json, shown
from webhook_dispatcher.cli.session import CliContext, operator, session_of
from webhook_dispatcher.cli.words import many
from webhook_dispatcher.domain.command import (
    LONG_AGO,
    RECOVERABLE,
    RECOVERABLE_TYPES,
    SENT_AGAIN,
    CommandName,
    CommandStatus,
    CommandView,
    LeaveOut,
    Recover,
    Skip,
)
from webhook_dispatcher.domain.errors import ConfigurationError, UserError
from webhook_dispatcher.domain.event import State, render_instant
from webhook_dispatcher.domain.mass_command import Preview
from webhook_dispatcher.storage.administration import Administration
from webhook_dispatcher.storage.previews import COUNT_LIMIT

NEWS_SECONDS = 1.0
"""How often progress is told."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show how many these are.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
States = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        parser=one_of(RECOVERABLE),
        metavar="STATE",
        help="failed (by default that alone), pending_retry, delivered, or skipped. May be repeated.",
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        parser=one_of(RECOVERABLE_TYPES, or_own=True),
        metavar="TYPE",
        help="Only events of this type. May be repeated.",
    ),
]
WithLastAttempts = Annotated[
    bool,
    typer.Option(
        "--with-last-attempts", help="With pending_retry: what waits for the last of its schedule, too."
    ),
]
WithFailing = Annotated[
    bool,
    typer.Option(
        "--with-failing", help="Merchants whose latest attempts failed, too, without a success since."
    ),
]
RequiredSince = Annotated[
    Moment,
    typer.Option(
        "--since",
        parser=parse_moment,
        metavar="WHEN",
        help="What finished from 2026-11-20T02:00:00Z on, or from PT3H ago on.",
    ),
]
Before = Annotated[
    Moment,
    typer.Option(
        "--before",
        parser=parse_moment,
        metavar="WHEN",
        help="What was created before that instant, or before now.",
    ),
]
CreatedSince = Annotated[
    Moment | None,
    typer.Option(
        "--since",
        parser=parse_moment,
        metavar="WHEN",
        help="What was created from 2026-11-20T14:00:00Z on, or from PT3H ago on.",
    ),
]
Charge = Annotated[str | None, typer.Option("--charge", help="Only events of this charge.")]


def ask_recover(
    context: typer.Context,
    since: RequiredSince,
    merchant: MerchantOrAll = None,
    everything: Everything = False,
    until: Until = None,
    event_types: Types = None,
    charge: Charge = None,
    endpoint: ChosenEndpoint = None,
    states: States = None,
    with_last_attempts: WithLastAttempts = False,
    with_failing: WithFailing = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: Wait = True,
    deadline: Deadline = DEFAULT_DEADLINE,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Ask for `recover`."""
    check_one_or_all(merchant, everything)
    check_whose(merchant, endpoint)
    session = session_of(context, shard)
    chosen = tuple(states or map(str, SENT_AGAIN))
    included = {LeaveOut.LAST_ATTEMPTS: with_last_attempts, LeaveOut.FAILING: with_failing}
    leave_out = tuple(str(what) for what, is_included in included.items() if not is_included)
    retries = len(session.settings().retry_schedule.delays)

    async def look(database: Administration) -> tuple[Preview, Recover]:
        await check_known(merchant, database)
        await check_types(event_types or (), database)
        start = _given(await resolved(since, database) or LONG_AGO)
        end = _given(await resolved(until, database) or await database.database_time())
        types = tuple(event_types or ()) or None
        scope = merchant, start, end, limit or 0, chosen, types, charge
        wanted = Recover(*scope, leave_out=leave_out, retries=retries, endpoint=endpoint)
        return await database.preview_recovery(wanted), wanted

    preview, wanted = session.work(look)
    args = wanted.args
    counted = None if preview.has_more else min(preview.total, limit or preview.total)
    request = request_of(CommandName.RECOVER, requested_by, merchant, {**args, "counted": counted})
    said = f"to be sent again, from {args['since']} to {args['until']}"
    beside = told_beside(preview, chosen, leave_out)
    if _is_to_be_done(preview, said, dry_run, yes, as_json, beside):
        progress = CommandProgress() if as_json else News(session, amount(preview))
        view = carry_out(session, request, deadline if wait else None, as_json, progress)
        if not as_json and counted is not None and (fewer := told_fewer(view, counted)) is not None:
            typer.echo(fewer)


def ask_skip(
    context: typer.Context,
    before: Before,
    merchant: MerchantOrAll = None,
    everything: Everything = False,
    since: CreatedSince = None,
    event_types: Types = None,
    charge: Charge = None,
    endpoint: ChosenEndpoint = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: Wait = True,
    deadline: Deadline = DEFAULT_DEADLINE,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
    as_json: AsJson = False,
) -> None:
    """Ask for `skip`."""
    check_one_or_all(merchant, everything)
    check_whose(merchant, endpoint)
    session = session_of(context, shard)

    async def look(database: Administration) -> tuple[Preview, Skip]:
        await check_known(merchant, database)
        await check_types(event_types or (), database)
        start = _given(await resolved(since, database) or LONG_AGO)
        end = _given(await before.resolve(database))
        wanted = Skip(merchant, end, start, tuple(event_types or ()) or None, charge, endpoint)
        return await database.preview_skip(wanted), wanted

    preview, wanted = session.work(look)
    args = wanted.args
    counted = None if preview.has_more else preview.total
    request = request_of(CommandName.SKIP, requested_by, merchant, {**args, "counted": counted})
    begin = f"from {args['since']} on, and " if args["since"] else ""
    said = f"to be given up without an attempt, created {begin}before {args['before']}"
    if _is_to_be_done(preview, said, dry_run, yes, as_json):
        progress = CommandProgress() if as_json else News(session, amount(preview))
        carry_out(session, request, deadline if wait else None, as_json, progress)


def stop(
    context: typer.Context,
    command_id: Annotated[int, typer.Argument(metavar="COMMAND_ID", help="The command's number.")],
    requested_by: RequestedBy = None,
    shard: ShardName = None,
) -> None:
    """End a recover, skip or retry-failed after its chunk: what was done stays done."""
    who = requested_by or operator()
    if not session_of(context, shard).change(lambda database: database.stop_command(command_id, who)):
        raise UserError(f"command {command_id} is no recover, skip or retry-failed that goes on")
    typer.echo(f"command {command_id} ends after its chunk")


def _given(instant: datetime) -> datetime:
    """Return an instant in whole milliseconds, as commands have it: what is previewed is what they do."""
    return datetime.fromisoformat(render_instant(instant))


def _is_to_be_done(
    preview: Preview, said: str, dry_run: bool, yes: bool, as_json: bool, beside: Sequence[str] = ()
) -> bool:
    """Show what a command would be about; tell whether it is to be given."""
    if as_json and dry_run:
        print_json(preview)
    if not as_json:
        for line in [*describe(preview, said), *beside]:
            typer.echo(line)
    if dry_run or (not preview.total and not as_json):
        return False
    if not yes:
        if not sys.stdin.isatty():
            raise ConfigurationError("there is no terminal to ask on; give --yes, or --dry-run only to look")
        typer.confirm("Go on?", abort=True)
    return True


def describe(preview: Preview, said: str) -> list[str]:
    """Say how many deliveries a command would be about: by state, merchant and, of a skip, type."""
    later = given_up_later(preview)
    if not preview.total:
        return [f"none is {said}", *later]
    of_more = " (of the first so many)" if preview.has_more else ""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in preview.kinds.items())
    lines = [f"{amount(preview)} {said}: {kinds}{of_more}"]
    lines += [f"  type {shown(name)}: {count:,}" for name, count in (preview.types or {}).items()]
    lines += [f"  {shown(merchant)}: {count:,}" for merchant, count in preview.merchants.items()]
    if preview.more_merchants:
        lines.append(f"  and {preview.more_merchants:,} more merchants")
    return lines + later


def told_beside(preview: Preview, states: Sequence[str], leave_out: Sequence[str]) -> list[str]:
    """Say what is sent a second time, and what is left out unless asked for."""
    lines = []
    if State.DELIVERED in states and preview.kinds.get(State.DELIVERED):
        lines.append(f"{preview.kinds[State.DELIVERED]:,} were accepted already, and are sent a second time")
    if preview.waiting:
        count = many(preview.waiting, COUNT_LIMIT)
        lines.append(f"{count} wait for a retry: left out, --state pending_retry includes them")
    if preview.last_attempts:
        count = many(preview.last_attempts, COUNT_LIMIT)
        end = _included(LeaveOut.LAST_ATTEMPTS, "--with-last-attempts", leave_out)
        lines.append(f"{count} wait for the last attempt of their schedule: {end}")
    if preview.failing:
        count = many(preview.failing, COUNT_LIMIT)
        end = _included(LeaveOut.FAILING, "--with-failing", leave_out)
        merchants = preview.failing_merchants
        of = "1 merchant that fails" if merchants == 1 else f"{merchants:,} merchants that fail"
        lines.append(f"{count} are of {of} now: {end}")
    return lines


def _included(what: LeaveOut, option: str, leave_out: Sequence[str]) -> str:
    return f"left out, {option} includes them" if what in leave_out else "included"


def told_fewer(view: CommandView, counted: int) -> str | None:
    """Say by how many fewer were sent again than had been counted, and why; None where none is missing."""
    result, is_done = view.result or {}, view.status == CommandStatus.DONE
    if view.command != CommandName.RECOVER or not is_done or (done := result.get("recovered", 0)) >= counted:
        return None
    found = sum(result.get("matched", {}).values())
    reasons = {
        "had been attempted meanwhile, or are of merchants who fail since": counted - found,
        "were found, and just then claimed or owed already": found - done,
    }
    why = (
        "it was stopped"
        if result.get("stopped")
        else "; ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count > 0)
    )
    return f"{counted - done:,} fewer than the {counted:,} that were counted: {why}"


def given_up_later(preview: Preview) -> list[str]:
    """Say how many were written in the range and failed after it: the range is one of ends."""
    if not preview.given_up_later:
        return []
    count = many(preview.given_up_later, COUNT_LIMIT)
    return [f"{count} more were written in this range and given up later: leave --until out to include them"]


def amount(preview: Preview) -> str:
    """Write how many there are; what was not counted to the end has a plus."""
    return f"{preview.total:,}{'+' if preview.has_more else ''}"


class News(CommandProgress):
    """Tells how far a command has come, once a second."""

    def __init__(self, session: CliContext, expected: str) -> None:
        self._session = session
        self._expected = expected
        self._told_at = session.monotonic()

    def begin(self, command: str, command_id: int) -> None:
        """Say what was asked for, and how it ends."""
        typer.echo(f"{command} is command {command_id}; `commands stop {command_id}` ends it")

    def tell(self, view: CommandView) -> None:
        """Learn of a change."""
        now = self._session.monotonic()
        if view.is_final or now - self._told_at < NEWS_SECONDS:
            return
        self._told_at = now
        result = view.result or {}
        done = result.get("recovered", result.get("skipped", 0))
        typer.echo(f"{done:,} of {self._expected}, {result.get('passed', 0):,} rows looked at")
