"""Limits that hold exactly, over all processes: api_limits.sql, bound.

A request that is refused takes nothing. Counts of durable subjects survive a crash of the database; others
begin anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from webhook_dispatcher.domain.rate_limit import Limit
from webhook_dispatcher.storage.api.database import Database, ask
from webhook_dispatcher.storage.statements import load

_LIMITS = load("api_limits")


@dataclass(frozen=True, slots=True)
class Subject:
    """What is counted. name: begins with its kind (`ip:`, `client:`, `card:`), and has at most 200 bytes."""

    name: str
    limit: Limit
    is_durable: bool = False


class Taken(NamedTuple):
    """What came of taking. retry_after: whole seconds; None means that it was taken.

    remaining: the least that is left of any of the limits. at: the instant it counts as, to release it by.
    left: what is left of each limit, in the order of the subjects; None where there is no limit.
    """

    retry_after: timedelta | None
    remaining: int
    at: datetime | None
    left: tuple[int | None, ...] = ()


class Limits:
    """Counts requests against limits, on a pool; errors are ours (`storage.connection.translated`)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, subjects: Sequence[Subject], clock: datetime | None = None) -> Taken:
        """Take one of each subject's limit, or none of any; a subject stands there once.

        clock: the time instead of the database's, for tests.
        """
        [row] = await ask(self._database, _LIMITS["take"], *arrays_of(subjects), clock)
        return taken_of(row["retry_after"], row["remaining"], row["taken_at"])

    async def release(self, subject: Subject, at: datetime) -> bool:
        """Release what was taken of a limit at that instant; False when it was not there any more."""
        [row] = await ask(self._database, _LIMITS["release"], subject.name, subject.is_durable, at)
        is_released: bool = row["is_released"]
        return is_released


def arrays_of(subjects: Sequence[Subject]) -> Sequence[list[Any]]:
    """Return what statements are told of subjects: names, limits, windows, and whether each is durable."""
    return (
        [subject.name for subject in subjects],
        [subject.limit.most for subject in subjects],
        [subject.limit.window for subject in subjects],
        [subject.is_durable for subject in subjects],
    )


def taken_of(retry_after: timedelta | None, left: Sequence[int | None], at: datetime | None = None) -> Taken:
    """Say what came of taking; left: of each limit, None where there is none."""
    return Taken(retry_after, min((each for each in left if each is not None), default=0), at, tuple(left))
