"""Notes every ten seconds that this daemon is there, how it fares, and how many attempts it recorded.

For people who look at all daemons; nothing in dispatching reads it. Attempts are those that the recorder has
written. They are added up when the database takes a note: what it refuses is added with the next one, and
what was recorded since the last one is lost with a process that is killed. A note whose answer is lost may
have been taken, and is added again: the sums are for plots, and the log is for counting.

A note is the one thing that every daemon commits at all times, so it shows when nothing can be committed
although reading goes on: a synchronous standby is gone, say, and COMMIT waits for it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from webhook_dispatcher.dispatch.pace import Interval
from webhook_dispatcher.dispatch.recorder import Recorder
from webhook_dispatcher.domain.clock import Clock
from webhook_dispatcher.domain.errors import StorageError, StorageUnavailable
from webhook_dispatcher.domain.ports import Heartbeat, Heartbeats

HEARTBEAT_INTERVAL = Interval(10.0, seconds_after_failure=1.0)
MAX_TEXTS = 10
"""Reasons, and faults, that a note has at most."""
MAX_TEXT = 300
"""Characters of each."""


class Pulse:
    """Notes this daemon, and forgets it when it ends.

    lanes, in_flight: how many there are now. reasons, faults: as operators are told.
    _uncommitted_since: when the first note was begun of those that were not taken; None: the last one was.
    """

    def __init__(
        self,
        heartbeats: Heartbeats,
        recorder: Recorder,
        clock: Clock,
        lanes: Callable[[], int],
        in_flight: Callable[[], int],
        reasons: Callable[[], Sequence[str]],
        faults: Callable[[], Sequence[str]],
    ) -> None:
        self._heartbeats = heartbeats
        self._recorder = recorder
        self._clock = clock
        self._uncommitted_since: float | None = None
        self._lanes = lanes
        self._in_flight = in_flight
        self._reasons = reasons
        self._faults = faults
        self._unsaved: Counter[str] = Counter()

    async def step(self) -> None:
        """Note everything once. Errors: StorageError; attempts are kept for the next time."""
        texts = _cut(self._reasons()), _cut(self._faults())
        if self._uncommitted_since is None:
            self._uncommitted_since = self._clock.elapsed()
        try:
            await self._heartbeats.note(Heartbeat(self._lanes(), self._in_flight(), *texts, self._recorded()))
        except StorageUnavailable:
            raise
        except StorageError:
            self._uncommitted_since = None  # an answer all the same: others' commits may go on
            raise
        self._uncommitted_since = None
        self._unsaved.clear()

    def uncommitted_for(self) -> float:
        """Return for how many seconds the database has taken no note that it was given."""
        return 0.0 if self._uncommitted_since is None else self._clock.elapsed() - self._uncommitted_since

    async def end(self) -> None:
        """Forget this daemon, and add what it recorded last. Errors: StorageError."""
        await self._heartbeats.remove(self._recorded())
        self._unsaved.clear()

    def _recorded(self) -> Mapping[str, int]:
        self._unsaved.update(self._recorder.take_recorded())
        return dict(self._unsaved)


def _cut(texts: Sequence[str]) -> list[str]:
    return [text[:MAX_TEXT].replace("\0", "") for text in texts[:MAX_TEXTS]]
