"""Rows that this process cannot deliver now, and lanes that it leaves alone for their sake. No I/O.

Each row is told once, and counted for as long as it is found again and again; nothing says when it was
mended or moved out of the way, so it is forgotten some time after it was last found.
"""

from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import structlog

from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.event import Event
from webhook_dispatcher.domain.lane import told
from webhook_dispatcher.telemetry.metrics import Metrics

BLOCKED_WAIT = 15.0
"""Seconds until a row or lane is tried again that could not be served."""
FORGOTTEN_AFTER = 4 * BLOCKED_WAIT
"""Seconds after which a row that was not found again is not counted any more."""
MAX_TYPE_CHARACTERS = 100
"""Characters of an unknown type that are told."""

_log = structlog.get_logger()


class Reason(StrEnum):
    """Why a row cannot be delivered."""

    UNREADABLE = "unreadable"
    UNKNOWN_TYPE = "unknown_type"


class _Row(NamedTuple):
    """One row; without seq, the one that stands next in its lane and could not even be named."""

    reason: Reason
    lane: str
    seq: int | None


class BlockedRows:
    """What was found, and when last, in seconds of the clock.

    lanes: those that this process leaves alone, each until when.
    """

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._found_at: dict[_Row, float] = {}
        self.lanes: dict[str, float] = {}
        self.update_gauge()

    def find(self, reason: Reason, lane: str, seq: int | None, event_id: UUID | None, detail: str) -> None:
        """Learn that a row cannot be delivered; say so the first time."""
        row = _Row(reason, lane, seq)
        if row not in self._found_at:
            _log.error(
                f"row.{reason}",
                **told(lane),
                seq=seq,
                event_id=event_id and str(event_id),
                detail=detail,
            )
        self._found_at[row] = self._clock.elapsed()

    def find_unknown(self, event: Event) -> None:
        """Learn of an event that came in past the rules: its type is none that can be sent."""
        type_ = event.type[:MAX_TYPE_CHARACTERS]
        self.find(Reason.UNKNOWN_TYPE, event.lane, event.seq, event.id, f"its type is {type_!r}")

    def seqs(self) -> list[int]:
        """Return the rows that are not worth trying yet."""
        since = self._clock.elapsed() - BLOCKED_WAIT
        return [row.seq for row, at in self._found_at.items() if at > since and row.seq is not None]

    def leave(self, lane: str) -> None:
        """Let this process leave a lane alone for a while."""
        self.lanes[lane] = self._clock.elapsed() + BLOCKED_WAIT

    def is_left(self, lane: str) -> bool:
        """Tell whether this process leaves a lane alone."""
        return self.lanes.get(lane, 0.0) > self._clock.elapsed()

    def forget(self) -> None:
        """Forget everything: the numbers may belong to other rows now."""
        self._found_at.clear()
        self.lanes.clear()

    def update_gauge(self) -> None:
        """Forget what is over, and show the rest in the metrics."""
        now = self._clock.elapsed()
        self.lanes = {name: until for name, until in self.lanes.items() if until > now}
        self._found_at = {row: at for row, at in self._found_at.items() if at > now - FORGOTTEN_AFTER}
        for reason in Reason:
            count = sum(row.reason is reason for row in self._found_at)
            self._metrics.blocked_rows.labels(reason).set(count)
