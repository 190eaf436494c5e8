"""What goes on just now, for the first page: console_overview.sql, bound.

Counts go up to MAX_COUNTED + 1. Attempts by outcome come from what dispatchers add up
(`dispatch.heartbeat`), not from the log.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from webhook_dispatcher.domain.delivery import Pause
from webhook_dispatcher.domain.status import Lag
from webhook_dispatcher.domain.thresholds import LONG_SILENT, SILENT
from webhook_dispatcher.storage.api.database import Database
from webhook_dispatcher.storage.console import merchants
from webhook_dispatcher.storage.console.reading import MAX_COUNTED, ask_as
from webhook_dispatcher.storage.delivery import DeliveryReader, questions
from webhook_dispatcher.storage.fares import fails
from webhook_dispatcher.storage.statements import CONSOLE, load

MAX_DISPATCHERS = 1_000
MAX_LAGS = 100
"""Of the newest finished deliveries, those whose lag is measured."""
MAX_MERCHANTS_LOOKED_AT = 100
"""Merchants whose events are looked for one after the other, which costs more than going through rows."""
MAX_ROWS_LOOKED_AT = 500
_STATEMENTS = {**load("console_overview"), **load("fares", CONSOLE), **questions(CONSOLE)}


@dataclass(frozen=True, slots=True)
class DispatcherRow:
    """A dispatcher as it last noted itself.

    lanes: that it held; retries: in flight. reason: why it was not ready. faults: each of its own, in words.
    settings: that are not as they are by default, by name. is_alive: it did so within SILENT.
    """

    owner: str
    host: str
    version: str
    started_at: datetime
    beat_at: datetime
    lanes: int
    attempts_in_flight: int
    is_ready: bool
    reasons: Sequence[str]
    faults: Sequence[str]
    settings: Mapping[str, str]
    is_alive: bool


@dataclass(frozen=True, slots=True)
class Oldest:
    """What has waited longest for its first attempt, as far as is known."""

    event_id: UUID
    seq: int
    merchant_id: str
    created_at: datetime


class Attempts(NamedTuple):
    """Attempts of so long from an instant on, by outcome; those without any are left out."""

    at: datetime
    by_outcome: Mapping[str, int]


def by_outcome(steps: Sequence[Attempts]) -> Counter[str]:
    """Add up the attempts of several steps by outcome."""
    added = Counter[str]()
    for step in steps:
        added.update(step.by_outcome)
    return added


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at once.

    waiting: for a first attempt; waiting_for_retry: for a later one. failed: deliveries, in 24 hours.
    failing (and not suspended), paused: merchants that are, or one of whose endpoints is; suspended:
    endpoints. failing_is_cut: more may fail than were judged.
    pause: the command that paused everything, where it is and one did.
    hour: by minute; day: by quarter of an hour; both end now, with entries for times without attempts.
    """

    now: datetime
    everything_is_paused: bool
    pause: Pause | None
    waiting: int
    waiting_for_retry: int
    oldest: Oldest | None
    failed: int
    failing: int
    failing_is_cut: bool
    suspended: int
    paused: int
    lag: Lag
    dispatchers: Sequence[DispatcherRow]
    hour: Sequence[Attempts]
    day: Sequence[Attempts]

    @property
    def alive(self) -> int:
        """Count the dispatchers that are alive."""
        return sum(dispatcher.is_alive for dispatcher in self.dispatchers)


class Overviews:
    """Reads as `storage.console.deliveries` does; SessionOver where the session does not hold any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, session: bytes) -> Overview:
        """Measure everything."""
        [counts] = await self._ask(session, "show_counts", MAX_COUNTED + 1)
        now: datetime = counts["now"]
        bounds = MAX_MERCHANTS_LOOKED_AT, MAX_ROWS_LOOKED_AT
        oldest = await self._ask(session, "show_oldest_waiting", *bounds) if counts["waiting"] else ()
        [lag] = await self._ask(session, "show_lag", MAX_LAGS)
        failed = await merchants.find_failing(partial(self._ask, session), with_suspended=False)
        return Overview(
            **counts,
            failing=len({row["merchant_id"] for row in failed if fails(row)}),
            failing_is_cut=len(failed) == merchants.MAX_JUDGED
            or not all(row["is_complete"] for row in failed),
            pause=await self.pause(session) if counts["everything_is_paused"] else None,
            oldest=Oldest(**oldest[0]) if oldest else None,
            lag=Lag(**lag),
            dispatchers=await self.dispatchers(session),
            hour=await self.attempts(session, now, timedelta(minutes=1), 60),
            day=await self.attempts(session, now, timedelta(minutes=15), 96),
        )

    async def dispatchers(self, session: bytes) -> Sequence[DispatcherRow]:
        """Return the dispatchers that noted themselves within a day, those first that did so last.

        Where one is alive, those are left out that have been silent for long.
        """
        rows = [
            DispatcherRow(**{**row, "settings": json.loads(row["settings"] or "{}")})
            for row in await self._ask(session, "show_dispatchers", SILENT, MAX_DISPATCHERS)
        ]
        # Not by the latest: that may be by the clock of a server that is not there any more.
        alive_at = min((row.beat_at for row in rows if row.is_alive), default=None)
        return [row for row in rows if alive_at is None or alive_at - row.beat_at <= LONG_SILENT]

    async def is_any_alive(self, session: bytes) -> bool:
        """Tell whether a dispatcher noted itself within SILENT."""
        return any(row.is_alive for row in await self.dispatchers(session))

    async def pause(self, session: bytes) -> Pause | None:
        """Return the command that paused everything, if one did last."""
        return (await DeliveryReader(partial(self._ask, session)).pauses()).get("")

    async def attempts(
        self, session: bytes, now: datetime, step: timedelta, count: int
    ) -> Sequence[Attempts]:
        """Count the attempts of so many steps that end now, by outcome."""
        first = _floor(now, step) - step * (count - 1)
        found: dict[datetime, dict[str, int]] = {first + step * place: {} for place in range(count)}
        for row in await self._ask(session, "show_attempts_by_step", first, step):
            found.setdefault(row["at"], {})[row["outcome"]] = row["attempts"]
        return [Attempts(at, by_outcome) for at, by_outcome in sorted(found.items())]

    async def _ask(self, session: bytes, name: str, *arguments: object) -> Sequence[dict[str, Any]]:
        return await ask_as(self._database, _STATEMENTS[name], session, *arguments)


def _floor(instant: datetime, step: timedelta) -> datetime:
    """Return the beginning of the step that an instant is in; steps are counted from midnight UTC."""
    midnight = instant.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (instant - midnight) // step * step
