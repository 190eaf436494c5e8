"""`api`."""

from typing import Annotated

import typer

from webhook_dispatcher.cli.session import session_of


def api(
    context: typer.Context,
    parent_pid: Annotated[
        int | None, typer.Option("--parent-pid", hidden=True, help="End when this process, our parent, does.")
    ] = None,
    started_fd: Annotated[
        int | None,
        typer.Option("--started-fd", hidden=True, help="Write there where it answers, once it does."),
    ] = None,
) -> None:
    """Serve the Partner API until stopped (SIGTERM or Ctrl-C), as webhook_api, without encryption keys.

    One process: start as many as are wanted. Refuses a schema of another version (exit 3).
    """
    settings = session_of(context).settings()
    settings.databases()
    from webhook_dispatcher.app import api as program

    program.run(settings, parent_pid, started_fd)
