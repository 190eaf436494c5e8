"""How the console asks: statements whose functions refuse what a session may not do, as errors of ours."""

from collections.abc import Sequence
from typing import Any

from webhook_dispatcher.domain.errors import DispatcherError, StatementRefused
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import Statement


class SessionOver(DispatcherError):
    """The session has expired, was ended, or its account is disabled. Reaction: ask to sign in."""

    def __init__(self) -> None:
        super().__init__("the session is over: sign in again")


class NotAllowed(DispatcherError):
    """The account may look and change nothing. Reaction: say so."""

    def __init__(self) -> None:
        super().__init__(
            "viewers change nothing: an administrator can make an account an operator's by "
            "`webhook-dispatcher account role NAME operator`"
        )


class IdleTooLong(DispatcherError):
    """The person made no request for fifteen minutes. Reaction: ask to sign in before anything is changed."""

    def __init__(self) -> None:
        super().__init__(
            "this session was idle for fifteen minutes and can change nothing any more: sign in again"
        )


_REFUSALS = {"WD001": SessionOver, "WD002": NotAllowed, "WD003": IdleTooLong}
"""What functions raise of their own, by SQLSTATE."""


async def ask(database: Database, statement: Statement, *arguments: object) -> Sequence[Any]:
    """Return a statement's rows; errors are ours (`storage.connection.translated`).

    SessionOver, NotAllowed and IdleTooLong where a function says so; nothing was done.
    """
    try:
        with translated():
            rows: Sequence[Any] = await database.fetch(statement.text, *arguments)
    except StatementRefused as error:
        if (refusal := _REFUSALS.get(error.sqlstate)) is not None:
            raise refusal from error
        raise
    return rows
