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


def complain_of(error: DispatcherError, shard: str | None = None) -> int:
    """Say what went wrong, and with which database where that is not the only one; return the exit code."""
    said = _permitted(error) if isinstance(error, StatementRefused) else str(error)
    return complain(
        "\n".join(f"{shard}: {line}" if shard else line for line in said.splitlines()), exit_code(error)
    )


def complain(problems: str, code: int) -> int:
    """Print problems, a line each, and return the exit code that was given."""
    for line in problems.splitlines():
        typer.echo(f"{NAME}: {line}", err=True)
    return code


def _permitted(error: StatementRefused) -> str:
    """Say whom to connect as, where the user of the database is not allowed what was asked."""
    if error.sqlstate != MAY_NOT:
        return str(error)
    return (
        f"{error.detail}: connect as webhook_admin or a member of it "
        "(`migrate`: as a superuser, or a user with CREATEROLE who may create schemas)"
    )
