"""Where the attempts of one process stand, in a file that outlives it: it writes, the runner reads.

The file holds counters of 32 bits: one for each phase, then for each track the most attempts that were
exposed at once since the track began to watch.
"""

import mmap
from collections.abc import Mapping
from pathlib import Path

from lab.chaos.evidence import EXPOSED, Phase
from lab.chaos.kinds import Track

_PHASES = list(Phase)
_EXPOSED = [_PHASES.index(phase) for phase in Phase if phase in EXPOSED]
_HIGHS = {track: len(_PHASES) + number for number, track in enumerate(Track)}
_SIZE = 4 * (len(_PHASES) + len(_HIGHS))


class Gauge:
    """The counters of one process, mapped from a file that is made when it is missing."""

    def __init__(self, file: Path) -> None:
        with file.open("a+b") as opened:
            opened.truncate(_SIZE)
            self._map = mmap.mmap(opened.fileno(), _SIZE)
        self._counters = memoryview(self._map).cast("I")

    def phases(self) -> Mapping[Phase, int]:
        """Return how many attempts stand where."""
        standing = {phase: self._counters[number] for number, phase in enumerate(_PHASES)}
        # What is read is held until its outcome is written.
        standing[Phase.CLAIMED] = max(0, standing[Phase.CLAIMED] - self.exposed())
        return standing

    def exposed(self) -> int:
        """Return how many requests may be out without being on record."""
        return sum(self._counters[number] for number in _EXPOSED)

    def begin_watch(self, track: Track) -> None:
        """Forget how many were exposed before now."""
        self._counters[_HIGHS[track]] = self.exposed()

    def most_exposed(self, track: Track) -> int:
        """Return the most that were exposed at once since the watch began."""
        return max(self._counters[_HIGHS[track]], self.exposed())

    def move(self, came_from: Phase | None, goes_to: Phase | None, count: int = 1) -> None:
        """Move attempts from one phase to another (by their own process)."""
        if came_from is not None:
            number = _PHASES.index(came_from)
            self._counters[number] = max(0, self._counters[number] - count)
        if goes_to is not None:
            self._counters[_PHASES.index(goes_to)] += count
            exposed = self.exposed()
            for high in _HIGHS.values():
                if exposed > self._counters[high]:
                    self._counters[high] = exposed
