"""What goes wrong, as a line on standard error and an exit code. Source: contract 4."""

import typer

from webhook_dispatcher.domain.errors import (
    MAY_NOT,
    ConfigurationError,
    DispatcherError,
    SchemaMismatch,
    StatementRefused,
    StorageUnavailable,
)

NAME = "webhook-dispatcher"
OPERATORS = "webhook_admin or a member of it"
EXIT_CODES = {
    0: "done",
    1: "refused, or not found",
    2: "bad usage or configuration",
    3: "the schema does not match this version",
    4: "the database cannot be reached",
}


def exit_code(error: DispatcherError) -> int:
    """Give the exit code of an error."""
    match error:
        case ConfigurationError():
            return 2
        case SchemaMismatch():
            return 3
        case StorageUnavailable():
            return 4
        case _:
            return 1


def complain_of(error: DispatcherError, shard: str | None = None, whom: str = OPERATORS) -> int:
    """Say what went wrong, and with which database where that is not the only one; return the exit code.

    whom: to connect as, where the user of the database is not allowed what was asked.
    """
    said = str(error)
    if isinstance(error, StatementRefused) and error.sqlstate == MAY_NOT:
        said = f"{error.detail}: connect as {whom}"
    return complain(
        "\n".join(f"{shard}: {line}" if shard else line for line in said.splitlines()), exit_code(error)
    )


def complain(problems: str, code: int) -> int:
    """Print problems, a line each, and return the exit code that was given."""
    for line in problems.splitlines():
        typer.echo(f"{NAME}: {line}", err=True)
    return code
