"""What was sent lately, to tell what a server that took over does not have.

A replica that is promoted lacks what had not reached it. Of that, merchants have what was sent, and nobody
else can say so: it is not in the database, and whoever wrote it was told that it was committed.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import structlog

from webhook_dispatcher.dispatch.pace import Interval
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.record import Record, Sent
from webhook_dispatcher.domain.verdict import Outcome

KEPT = 10_000
"""Attempts that are remembered, in 4 MB: a replica is behind by seconds."""
MAX_AGE = 12 * 3600.0
"""Seconds: what was sent before may have been dropped by retention since, which is a day at least."""
LOOK_INTERVAL = Interval(2.0)
UNSENT = frozenset({Outcome.DNS, Outcome.CONNECT, Outcome.TLS, Outcome.BLOCKED, Outcome.UNSENDABLE})
"""Outcomes after which no merchant can have the event."""
BATCH = 1_000
"""Events that are looked for in one statement."""

_log = structlog.get_logger()


class SentLately:
    """The events whose attempts ended last, and those of them that are still to be looked for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent: deque[tuple[float, Sent]] = deque(maxlen=KEPT)
        self._doubtful: list[Sent] = []
        self._doubted_until = 0.0

    def note(self, record: Record) -> None:
        """Learn that an attempt has ended."""
        attempt = record.attempt
        if attempt is None or attempt.outcome in UNSENT:
            return
        event = record.event
        is_delivered = attempt.outcome is Outcome.DELIVERED
        sent = Sent(event.event_id, event.merchant_id, event.seq, attempt.finished_at, is_delivered)
        now = self._clock.elapsed()
        self._sent.append((now, sent))
        if now < self._doubted_until:
            self._doubtful.append(sent)

    def doubt(self, patience: float) -> None:
        """Have all be looked for, and attempts that end within so many seconds: another server was met."""
        now = self._clock.elapsed()
        latest: dict[UUID, Sent] = {}
        for at, sent in self._sent:
            if now - at < MAX_AGE:
                before = latest.pop(sent.event_id, sent)
                latest[sent.event_id] = sent._replace(is_delivered=sent.is_delivered or before.is_delivered)
        self._doubtful = list(latest.values())
        self._doubted_until = now + patience

    async def step(self, note_lost: Callable[[Sequence[Sent]], Awaitable[int]]) -> None:
        """Look for those that are in doubt. note_lost: notes what is not there, and raises StorageError."""
        while batch := self._doubtful[:BATCH]:
            lost = await note_lost(batch)
            del self._doubtful[: len(batch)]
            if lost:
                _log.error("events.lost", count=lost)
