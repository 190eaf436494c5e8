"""What the platform is told: the statements of notices.sql, bound."""

from datetime import timedelta

import asyncpg

from webhook_dispatcher.domain.ports import Reported
from webhook_dispatcher.storage.connection import translated
from webhook_dispatcher.storage.statements import load

MAX_OWED = 1_000
"""Notices that the platform is owed, from which on no more are written."""
MAX_MERCHANTS = 500
"""Merchants that one step tells of, for each type of notice."""
MAX_FAILURES = 10_000
"""Failed deliveries that one step tells of."""

_NOTICES = load("notices")


class PostgresNotices:
    """Implements domain.ports.Notices on a pool of connections."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def report(self, failing_after: timedelta) -> Reported:
        written, has_more = {}, False
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                if not await connection.fetchval(_NOTICES["may_report"].text, MAX_OWED):
                    return Reported({}, has_more=False)
                for notice, name, arguments in (
                    ("delivery.failed", "report_failures", (MAX_FAILURES, MAX_MERCHANTS)),
                    ("endpoint.failing", "report_failing", (failing_after, MAX_MERCHANTS)),
                    ("endpoint.recovered", "report_recovered", (MAX_MERCHANTS,)),
                ):
                    row = await connection.fetchrow(_NOTICES[name].text, *arguments)
                    assert row is not None
                    written[notice] = row["notices"]
                    has_more |= row["has_more"]
        return Reported(written, has_more)
