"""The command line: `main` is the console script."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from webhook_dispatcher.transport.openssl import start_openssl

if TYPE_CHECKING:
    from webhook_dispatcher.cli.session import CliContext


def main(arguments: Sequence[str] | None = None, session: "CliContext | None" = None) -> int:
    """Run one command and return its exit code."""
    start_openssl()
    from webhook_dispatcher.cli.program import main as run_command

    return run_command(arguments, session)
