"""How the console reads: each statement begins with the session, and finds nothing without a person.

Statements read the views console_*, which show nothing before `webhook.console_reader` has found somebody. So
where there are no rows, the session may be over: `ask_as` then looks, and raises SessionOver.
"""

from collections.abc import Sequence
from typing import Any

from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.console.database import SessionOver, ask
from webhook_dispatcher.storage.statements import Statement, load

MAX_COUNTED = 10_000
"""Up to here pages count exactly; what is above is "10,000+"."""
_IS_SOMEBODY = load("console_reading")["is_somebody"]


async def ask_as(
    database: Database, statement: Statement, session: bytes, *arguments: object
) -> Sequence[dict[str, Any]]:
    """Return the rows of a statement whose first parameter is a session's hash.

    Errors: SessionOver where nobody is found by it; else as `storage.connection.translated`.
    """
    [rows] = await ask_all_as(database, session, (statement, *arguments))
    return rows


async def ask_all_as(
    database: Database, session: bytes, *questions: tuple[Statement, *tuple[object, ...]]
) -> list[Sequence[dict[str, Any]]]:
    """Return the rows of several statements, each with what comes after the session's hash: as `ask_as`."""
    found = [await ask(database, statement, session, *arguments) for statement, *arguments in questions]
    if not all(found) and not await ask(database, _IS_SOMEBODY, session):
        raise SessionOver
    return [[dict(row) for row in rows] for rows in found]
