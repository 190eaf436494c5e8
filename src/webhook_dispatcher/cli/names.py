"""`names`: the headers' prefix, the User-Agent and the signatures, the same for all programs."""

from collections.abc import Sequence
from typing import Annotated

import typer

from webhook_dispatcher.cli.options import AsJson, RequestedBy, ShardName
from webhook_dispatcher.cli.output import print_facts, print_json, shown
from webhook_dispatcher.cli.session import CliContext, session_of
from webhook_dispatcher.domain.endpoint import END_OLDER
from webhook_dispatcher.domain.errors import UserError
from webhook_dispatcher.domain.names import DEFAULT_NAMES, SIGNATURES, Names, prefix_fault, user_agent_fault


def parse_prefix(text: str) -> str:
    """Read what headers begin with."""
    if (fault := prefix_fault(text)) is not None:
        raise typer.BadParameter(fault)
    return text


def _parse_user_agent(text: str) -> str:
    if text and (fault := user_agent_fault(text)) is not None:
        raise typer.BadParameter(f"{fault}, or '' for webhook-dispatcher/<version>")
    return text


def _parse_signatures(text: str) -> str:
    if tuple(text.split(",")) not in SIGNATURES:
        raise typer.BadParameter(f"{text!r} is neither {' nor '.join(map(','.join, SIGNATURES))}")
    return text


def show(context: typer.Context, shard: ShardName = None, as_json: AsJson = False) -> None:
    """Show headers' prefix, User-Agent and signatures."""
    names = session_of(context, shard).work(lambda database: database.read_names())
    if as_json:
        print_json(names)
    else:
        _print(names)


def set_(
    context: typer.Context,
    header_prefix: Annotated[
        str | None,
        typer.Option("--header-prefix", parser=parse_prefix, metavar="PREFIX", help="Such as Acme-."),
    ] = None,
    user_agent: Annotated[
        str | None,
        typer.Option(
            "--user-agent",
            parser=_parse_user_agent,
            metavar="TEXT",
            help="'' is webhook-dispatcher/<version> again.",
        ),
    ] = None,
    signatures: Annotated[
        str | None,
        typer.Option(
            "--signatures",
            parser=_parse_signatures,
            metavar="NAMES",
            help="service, or service,standard: that of Standard Webhooks too.",
        ),
    ] = None,
    requested_by: RequestedBy = None,
    shard: ShardName = None,
) -> None:
    """Set the headers' prefix, the User-Agent or the signatures; the rest stays.

    Programs that run take it within ten seconds. Those written for schema 20 or before are refused then.
    """
    if header_prefix is None and user_agent is None and signatures is None:
        raise typer.BadParameter("give --header-prefix, --user-agent or --signatures")
    chosen = None if signatures is None else signatures.split(",")
    _set(session_of(context, shard), requested_by, header_prefix, user_agent, chosen)


def reset(context: typer.Context, requested_by: RequestedBy = None, shard: ShardName = None) -> None:
    """Go back to the default names, which older programs know."""
    _set(session_of(context, shard), requested_by, DEFAULT_NAMES.header_prefix, "", DEFAULT_NAMES.signatures)


def _set(
    session: CliContext,
    requested_by: str | None,
    prefix: str | None,
    user_agent: str | None,
    signatures: Sequence[str] | None,
) -> None:
    older = session.change(lambda database: database.set_names(prefix, user_agent, signatures), requested_by)
    if older:
        raise UserError(
            f"nothing was changed: dispatchers work that know no such names: {', '.join(map(shown, older))}; "
            + END_OLDER
        )
    _print(session.work(lambda database: database.read_names()))


def _print(names: Names) -> None:
    print_facts(
        [
            ("header_prefix", names.header_prefix),
            ("user_agent", names.user_agent or "webhook-dispatcher/<version>"),
            ("signatures", ", ".join(names.signatures)),
        ]
    )
