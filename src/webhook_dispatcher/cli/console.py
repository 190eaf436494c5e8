"""`console`."""

from typing import Annotated

import typer

from webhook_dispatcher.cli.options import ShardName
from webhook_dispatcher.cli.session import session_of


def console(
    context: typer.Context,
    shard: ShardName = None,
    parent_pid: Annotated[
        int | None, typer.Option("--parent-pid", hidden=True, help="End when this process, our parent, does.")
    ] = None,
    started_fd: Annotated[
        int | None,
        typer.Option("--started-fd", hidden=True, help="Write there where it answers, once it does."),
    ] = None,
) -> None:
    """Serve the console until stopped (SIGTERM or Ctrl-C), as webhook_console, without encryption keys.

    Deliveries, merchants and commands in a browser, for who has an account (`account add`). One database:
    start one for each. Refuses a schema of another version (exit 3).
    """
    settings = session_of(context, shard).settings()
    settings.database_dsn()
    from webhook_dispatcher.app import console as program

    program.run(settings, parent_pid, started_fd)
